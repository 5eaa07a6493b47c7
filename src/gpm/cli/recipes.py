"""The command `gpm recipes`."""

from __future__ import annotations

from gpm.data.catalog import CATALOG
from gpm.errors import GpmError, nearest
from gpm.training.paper_options import choose_paper
from gpm.training.recipes import Recipe, find_recipe, recipe_names


def list_recipes(name: str = "") -> None:
    """List the recipes with the scores of the paper, or show one.

    Args:
        name: Recipe to show in full, beside the options of the paper.
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
    if recipe.auto:
        print("Options marked auto are chosen from the data, as without a recipe.")
    if recipe.paper_mean is not None:
        print(f"the paper: {_paper(recipe)}")
    for title, values in (("in its table", recipe.paper), ("in its code", recipe.paper_code)):
        if values:
            print(f"{title}: {', '.join(f'{key} {value}' for key, value in values.items())}")
    ours, level = recipe.config.to_dict(), _level(recipe)
    theirs = choose_paper(recipe, {"preset": "paper"}, level).to_dict() if level else ours
    print(f"\n    {'option':<17} {'this recipe':<22} {'--preset paper' if level else ''}".rstrip())
    for key, value in ours.items():
        other = f"{theirs[key]:g}" if isinstance(theirs[key], float) else str(theirs[key])
        shown = "auto" if level and key in recipe.left_open(level) else str(value)
        differs = shown != str(theirs[key])
        print(f"  {'*' if differs else ' '} {key:<17} {shown:<22} {other if differs else ''}".rstrip())
    if level:
        print("\n* differs; --preset paper takes the right column. gpm train --help explains each option.")


def _level(recipe: Recipe) -> str:
    """Return what is predicted; empty if only the user's own data says so."""
    if recipe.config.task != "auto":
        return recipe.config.task
    entry = CATALOG.get(recipe.config.data)
    return "" if entry is None else entry.task


def _paper(recipe: Recipe) -> str:
    return "-" if recipe.paper_mean is None else f"{recipe.paper_mean:g} ± {recipe.paper_std:g}"
