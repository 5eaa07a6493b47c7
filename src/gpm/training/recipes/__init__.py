"""Recipes: options to train a dataset with, and the paper's figure. One short YAML file each."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from gpm.config import Config
from gpm.errors import GpmError
from gpm.io.yaml_files import OPTIONS_BYTES, parse_yaml

_TRAINING = {"average", "batch", "decay", "dropout", "epoch_steps", "epochs", "lr", "patience", "schedule", "warmup"}
# Options that may be chosen from the data, by task, see `gpm.training.auto_options`.
CHOSEN = {
    "node": frozenset(_TRAINING | {
        "expected", "feature_dropout", "labels", "linear", "position", "select", "structure",
    }),
    "link": frozenset(_TRAINING | {"expected", "feature_dropout", "features", "patterns", "structure"}),
    "graph": frozenset(_TRAINING | {
        "descriptors", "expected", "features", "linear", "neighbourhoods", "path", "pe", "pe_dim", "readout",
        "structure",
    }),
}  # fmt: skip


@dataclass(frozen=True)
class Recipe:
    """Named options, and the paper's figure that they should reach."""

    name: str
    config: Config
    about: str = ""  # one line
    paper_mean: float | None = None  # in percent or in the target's units
    paper_std: float | None = None
    paper: dict[str, Any] = field(default_factory=dict)  # hyper-parameters in the paper's own table
    paper_code: dict[str, Any] = field(default_factory=dict)  # what the public configuration of the paper adds
    note: str = ""  # on the figure
    auto: bool = False  # options that the recipe does not state are chosen from the data, as without a recipe
    stated: tuple[str, ...] = ()  # options that the recipe states
    changed: list[str] = field(default_factory=list)  # options that the user changed
    given: list[str] | None = None  # without a recipe, options that the user gave; the others were chosen

    def left_open(self, level: str) -> frozenset[str]:
        """Return the options that are chosen from the data, unless the user gives them."""
        return CHOSEN[level] - set(self.stated) if self.auto else frozenset()

    def states(self) -> dict[str, Any]:
        """Return the options that the recipe states, with their values."""
        return {name: getattr(self.config, name) for name in self.stated}

    @property
    def digest(self) -> str:
        """Hash of what a training by the recipe depends on: a figure of another one is not of the recipe as it is."""
        stated = json.dumps([self.states(), self.auto, self.paper, self.paper_code], sort_keys=True)
        return hashlib.sha256(stated.encode()).hexdigest()[:12]

    def facts(self) -> dict[str, Any]:
        return {key: value for key, value in asdict(self).items() if key != "config"}

    def beside_paper(self, config: Config) -> str:
        """Return the paper's figure to print after ours, or nothing if they cannot be compared."""
        from gpm.tasks.metrics import METRICS

        if self.paper_mean is None or not is_comparable(config, self.changed):
            return ""
        digits = 2 if METRICS[config.metric].share else 3
        return f"; the paper has {self.paper_mean:.{digits}f} ± {self.paper_std:.{digits}f}"


def is_comparable(config: Config, changed: list[str]) -> bool:
    """Return whether a figure compares with the paper's: same task, metric, split, model and, for links, protocol."""
    decisive = {"data", "task", "metric", "split", "target", "target_graph", "shift", "validate", "adapt"}
    same = config.model == "gpm" and not decisive & set(changed)
    return same and (config.task != "link" or config.protocol == "paper")


def recipe_names() -> list[str]:
    files = resources.files("gpm.training.recipes").iterdir()
    return sorted(file.name[:-5] for file in files if file.name.endswith(".yaml"))


def find_recipe(name: str) -> Recipe | None:
    """Return the recipe of that name, or in that YAML file of the user's; None if there is none."""
    path = Path(name)
    if path.suffix in (".yaml", ".yml"):
        if not path.is_file():
            raise GpmError(f"There is no recipe file {path}.")
        try:
            if path.stat().st_size > OPTIONS_BYTES:
                raise GpmError(f"{path} is not a recipe: it has more than {OPTIONS_BYTES:,} bytes.")
            return read_recipe(path.stem, path.read_text(encoding="utf-8"), str(path))
        except (OSError, UnicodeDecodeError) as error:
            raise GpmError(f"Cannot read {path} ({type(error).__name__}); save it as UTF-8 text.") from None
    if name.lower() not in recipe_names():
        return None
    text = (resources.files("gpm.training.recipes") / f"{name.lower()}.yaml").read_text(encoding="utf-8")
    return read_recipe(name.lower(), text, f"recipe {name}")


def _read_beside(values: dict[str, Any], key: str, source: str) -> dict[str, Any]:
    """Return options that stand beside those of a recipe."""
    beside = values.pop(key, None) or {}
    if not isinstance(beside, dict):
        raise GpmError(f"{source}: {key} must hold options, as in {{lr: 0.01, dropout: 0.1}}, got {beside!r}.")
    Config.from_dict(beside, f"{source}, {key}")
    return beside


def read_recipe(name: str, text: str, source: str) -> Recipe:
    """Read a recipe: options, and about, note, auto, paper, paper_code and paper_result beside them."""
    values = parse_yaml(text, source)
    if not isinstance(values, dict) or not values.get("data"):
        raise GpmError(f"{source} must hold options as 'key: value', with data among them.")
    about, note, auto = values.pop("about", ""), values.pop("note", ""), values.pop("auto", False)
    if not isinstance(auto, bool):
        raise GpmError(f"{source}: auto must be true or false, got {auto!r}.")
    paper, paper_code = (_read_beside(values, key, source) for key in ("paper", "paper_code"))
    result = values.pop("paper_result", [None, None])
    figures = isinstance(result, list) and all(type(figure) in (int, float, type(None)) for figure in result)
    if not figures or len(result) != 2 or (result[0] is None) != (result[1] is None):
        raise GpmError(f"{source}: paper_result must be [mean, standard deviation] in percent, got {result!r}.")
    mean, std = result
    stated = tuple(sorted(values))
    return Recipe(name, Config.from_dict(values, source), about, mean, std, paper, paper_code, note, auto, stated)
