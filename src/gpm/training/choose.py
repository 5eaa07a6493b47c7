"""Choose the options and the data of a training from what the user named."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpm.config import Config, ShiftOptions, TaskOptions, declared
from gpm.data.sources import find_again, has_columns, load_by, resolve
from gpm.data.tables.table_source import Tables
from gpm.data.task_data import TaskData
from gpm.errors import GpmError, kind_of, nearest
from gpm.training.auto_options import choose_options
from gpm.training.baseline_options import fill_baseline
from gpm.training.paper_options import choose_paper
from gpm.training.recipes import Recipe, find_recipe, recipe_names

_log = logging.getLogger("gpm")


def choose_recipe(
    source: Any, options: dict[str, Any], base: str = "", own: Path | None = None, tables: Tables | None = None
) -> tuple[Recipe, TaskData]:
    """Return the recipe `source`, `base` or the defaults, changed by the options, and the data.

    Tables of the user, if any, have been imported into the folder `own`.
    """
    options = name_target_graph(source if own is None else own, options)
    named = isinstance(source, (str, Path))
    if named and not str(source):
        raise GpmError("Say what to train on: a recipe (gpm recipes), a dataset (gpm data) or a file.")
    recipe = find_recipe(str(source)) if own is None and named else None
    if recipe is None and "data" in options:
        raise GpmError("data is an option of recipes; without one, the first argument says what to train on.")
    if recipe is not None and not base:
        changed = recipe.config.changes(options)
        if _is_paper(recipe.config, options):
            asked = recipe.config.with_(**{key: options[key] for key in _about_data() if key in options})
            data = load_by(asked.data, asked)
            return replace(recipe, config=choose_paper(recipe, options, data.level), changed=changed), data
        config = recipe.config.with_(**options)
        data = load_by(config.data, config)
        if config.model != recipe.config.model:
            config = fill_baseline(config, options, data)
        elif recipe.auto:
            config = choose_options(config, data, recipe.states() | options)
        return replace(recipe, config=config, changed=changed), data
    begin, known = default_config(base), find_recipe(base) if base else None
    if own is not None:  # the run names its graph from its own folder
        name, options = "", {"data": str(source)} | options
    else:
        given = resolve(source)
        name, options = given.name, ({"data": given.path} if named else {}) | options
    config = begin.with_(**options)
    data = load_by(own or source, config)
    if config.model != begin.model:
        config = fill_baseline(config, options, data)
    elif _is_paper(begin, options):
        recipe = Recipe(name, begin.with_(data=config.data)) if known is None else replace(known, config=begin)
        config = choose_paper(recipe, options, data.level)
    elif known is None or known.auto:
        config = choose_options(config, data, ({} if known is None else known.states()) | options)
    named_options = None if base else sorted(key for key in options if key != "data")
    return Recipe(name if tables is None else tables.name, config, given=named_options), data


def _is_paper(config: Config, options: dict[str, Any]) -> bool:
    """Return whether the options of the paper are asked for; a recipe that was made with them states its own."""
    if options.get("preset") != "paper":
        return False
    model = options.get("model", config.model)
    if model != "gpm":
        _log.info("--preset paper is for --model gpm; %s takes its own options", model)
    return bool(model == "gpm")


def _about_data() -> set[str]:
    """Return the names of the options that say what the data is."""
    return {"metric", "split", *declared(TaskOptions), *declared(ShiftOptions)}


def name_target_graph(source: Any, options: dict[str, Any]) -> dict[str, Any]:
    """Return options that name another graph under `target_graph`, a file by a path that is found from any folder.

    The earlier spelling, `target`, is a column of a table, and another graph where the source has no columns.
    """
    options = {key: value for key, value in options.items() if key != "target" or value is not None}
    columns = has_columns(source) or bool(options.get("smiles"))
    if columns and options.get("target_graph"):
        raise GpmError(f"--target_graph is for graphs, but {source} is a table; name its column with --target.")
    if options.get("target") and not columns:
        options["target_graph"] = options.pop("target")
        _log.info("--target names a column; write --target_graph %s for another graph", options["target_graph"])
    if not (target := options.get("target_graph")):
        return options
    if not isinstance(target, (str, Path)):
        raise GpmError(f"A target in memory, such as this {kind_of(target)}, is for gpm.adapt(source, target).")
    return options | {"target_graph": find_again(target)}


def default_config(name: str) -> Config:
    """Return the options of a recipe, for data of the user's own."""
    if not name:
        return Config()
    recipe = find_recipe(name)
    if recipe is None:
        raise GpmError(f"There is no recipe {name!r}.{nearest(name, recipe_names())} gpm recipes lists them.")
    usual = dict.fromkeys(("data", "smiles", "target", "target_graph"), "")
    usual |= dict.fromkeys(("task", "metric", "split"), "auto") | dict.fromkeys(("adapt", "shift"), "none")
    return recipe.config.with_(**usual, validate="source")
