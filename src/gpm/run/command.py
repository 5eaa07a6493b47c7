"""The command that makes a run again, and options as they are written on a command line."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any

from gpm.data.tables.table_source import locate
from gpm.inference.opened import OpenedRun
from gpm.io.atomic import read_json
from gpm.io.run_files import RECIPE
from gpm.run.workplace import target_of


def spell_flags(options: Mapping[str, Any]) -> str:
    """Return options as they are written on the command line."""
    return " ".join(f"--{key} {shlex.quote(_spell(value))}" for key, value in sorted(options.items()))


def find_command(run: OpenedRun) -> str:
    """Return the command that makes a run again; empty if its data was in memory."""
    config, path = run.config, run.folder / RECIPE
    if not config.data or not path.is_file():
        return ""
    recipe = read_json(path)
    by_recipe = bool(recipe.get("stated"))
    source = recipe["name"] if by_recipe else str(locate(config.data, target_of(run.folder)))
    names = recipe.get("changed" if by_recipe else "given") or []
    options = {name: getattr(config, name) for name in names if name not in ("data", "seed") and hasattr(config, name)}
    return " ".join(filter(None, ["gpm train", shlex.quote(source), spell_flags(options), f"--seed {config.seed}"]))


def _spell(value: Any) -> str:
    return json.dumps(value) if isinstance(value, (list, bool)) else str(value)
