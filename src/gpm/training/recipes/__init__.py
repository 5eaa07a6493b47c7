"""Recipes: the options that a dataset is trained with, beside the paper's figure. One short YAML file each."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpm.config import Config
from gpm.errors import GpmError
from gpm.io.atomic import YAML_BYTES, parse_yaml

if TYPE_CHECKING:
    from gpm.tasks.metrics import Metric


@dataclass(frozen=True)
class Recipe:
    """Options with a name and the figure they are to reach.

    Attributes:
        name: What `gpm train` is told.
        config: The options.
        about: One line.
        paper_mean, paper_std: The paper's figure, in percent or in the target's units; None if it has none.
        paper: The hyper-parameters in the paper's own table, where ours differ or its words mean something else.
        note: What to know about the figure.
        changed: Options that the user changed.
    """

    name: str
    config: Config
    about: str = ""
    paper_mean: float | None = None
    paper_std: float | None = None
    paper: dict[str, Any] = field(default_factory=dict)
    note: str = ""
    changed: list[str] = field(default_factory=list)

    def facts(self) -> dict[str, Any]:
        """All but the options, as plain values."""
        return {key: value for key, value in asdict(self).items() if key != "config"}

    def beside_paper(self, metric: Metric) -> str:
        """What to print after a figure."""
        if self.paper_mean is None:
            return ""
        digits = 2 if metric.share else 3
        return f"; the paper has {self.paper_mean:.{digits}f} ± {self.paper_std:.{digits}f}"


def is_comparable(config: Config, changed: list[str]) -> bool:
    """Whether a figure may stand beside the paper's: of its task, metric, split and model and, for links, protocol."""
    decisive = {"data", "task", "metric", "split", "target", "target_graph", "shift", "validate", "adapt"}
    same = config.model == "gpm" and not decisive & set(changed)
    return same and (config.task != "link" or config.protocol == "paper")


def recipe_names() -> list[str]:
    """The names of the recipes in the package."""
    return sorted(
        file.name[:-5] for file in resources.files("gpm.training.recipes").iterdir() if file.name.endswith(".yaml")
    )


def find_recipe(name: str) -> Recipe | None:
    """The recipe of that name, or in that YAML file of the user's; None if there is none."""
    path = Path(name)
    if path.suffix in (".yaml", ".yml"):
        if not path.is_file():
            raise GpmError(f"there is no recipe file {path}.")
        try:
            if path.stat().st_size > YAML_BYTES:
                raise GpmError(f"{path} has more than {YAML_BYTES:,} bytes; it is no recipe.")
            return read_recipe(path.stem, path.read_text(encoding="utf-8"), str(path))
        except (OSError, UnicodeDecodeError) as error:
            raise GpmError(f"cannot read {path} ({type(error).__name__}); save it as UTF-8 text.") from None
    if name.lower() not in recipe_names():
        return None
    text = (resources.files("gpm.training.recipes") / f"{name.lower()}.yaml").read_text(encoding="utf-8")
    return read_recipe(name.lower(), text, f"recipe {name}")


def read_recipe(name: str, text: str, source: str) -> Recipe:
    """Read a recipe: options, and about, note, paper and paper_result beside them."""
    try:
        values = parse_yaml(text)
    except ValueError as error:
        raise GpmError(f"{source} is not YAML: {str(error).rstrip('.')}.") from None
    if not isinstance(values, dict) or not values.get("data"):
        raise GpmError(f"{source} must hold options as 'key: value', with data among them.")
    about, note, paper = values.pop("about", ""), values.pop("note", ""), values.pop("paper", {})
    result = values.pop("paper_result", [None, None])
    figures = isinstance(result, list) and all(type(figure) in (int, float, type(None)) for figure in result)
    if not figures or len(result) != 2 or (result[0] is None) != (result[1] is None):
        raise GpmError(f"{source}: paper_result must be [mean, standard deviation] in percent, got {result!r}.")
    mean, std = result
    return Recipe(name, Config.from_dict(values, source), about, mean, std, paper, note)
