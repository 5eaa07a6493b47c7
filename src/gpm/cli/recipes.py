"""The command `gpm recipes`."""

from __future__ import annotations

from gpm.errors import GpmError, nearest
from gpm.training.recipes import Recipe, find_recipe, recipe_names


def list_recipes(name: str = "") -> None:
    """List the recipes with the scores of the paper, or show one.

    Args:
        name: Recipe to show in full.
    """
    names = recipe_names()
    if not name:
        print(f"{'recipe':<16} {'the paper':<14} about")
        for each in names:
            recipe = find_recipe(each)
            assert recipe is not None
            print(f"{each:<16} {_paper(recipe):<14} {recipe.about}")
        return
    recipe = find_recipe(name)
    if recipe is None:
        raise GpmError(f"There is no recipe {name!r}.{nearest(name, names)} Recipes: {', '.join(names)}.")
    print(f"{recipe.name}: {recipe.about}")
    if recipe.note:
        print(recipe.note)
    if recipe.paper_mean is not None:
        print(f"the paper: {_paper(recipe)}, with {recipe.paper}")
    for key, value in recipe.config.to_dict().items():
        print(f"  {key:<17} {value}")


def _paper(recipe: Recipe) -> str:
    return "-" if recipe.paper_mean is None else f"{recipe.paper_mean:g} ± {recipe.paper_std:g}"
