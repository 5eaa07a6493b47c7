"""The command that makes a run again, and options as they are written on a command line."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpm.config import Config
from gpm.data.tables.table_source import locate
from gpm.io.publish import PART
from gpm.training.recipes import Recipe, recipe_names


def spell_flags(options: Mapping[str, Any]) -> str:
    """Return options as they are written on the command line."""
    return " ".join(f"--{key} {shlex.quote(_spell(value))}" for key, value in sorted(options.items()))


def find_command(config: Config, recipe: Recipe, folder: Path) -> str:
    """Return the command that makes a run again; empty if only the caller knows: of data or a recipe of its own.

    Args:
        config: Options of the run.
        recipe: The recipe it was trained by.
        folder: Its folder, finished or not.
    """
    if recipe.stated and recipe.name in recipe_names() and "data" not in recipe.changed:
        source, names = recipe.name, recipe.changed
    elif config.data and recipe.given is not None:
        place = Path(os.path.normpath(locate(config.data, folder)))
        source, names = str(Path(*(part.removesuffix(PART) for part in place.parts))), recipe.given
    else:
        return ""
    options = {name: getattr(config, name) for name in names if name not in ("data", "seed") and hasattr(config, name)}
    return " ".join(filter(None, ["gpm train", shlex.quote(source), spell_flags(options), f"--seed {config.seed}"]))


def _spell(value: Any) -> str:
    return json.dumps(value) if isinstance(value, (list, bool)) else str(value)
