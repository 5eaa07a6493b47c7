"""The command `gpm tune`: what is tuned, by which figure, from which choices, and for how long."""

from __future__ import annotations

import importlib.util
import math
import re
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from gpm.config import ComputeOptions, Config, TableOptions, accepts, divide_options
from gpm.errors import GpmError

if TYPE_CHECKING:
    from gpm.data.sources import TaskData
    from gpm.data.tables.table_source import Tables
    from gpm.training.tune.space import Space


@accepts(TableOptions, ComputeOptions, Config, without=["data"])
def tune(
    source: str = "",
    out: Path | None = None,
    trials: int = 50,
    time: str = "",
    space: Path | None = None,
    startup: int = 10,
    quiet: bool = False,
    recipe: str = "",
    **options: Any,
) -> Path:
    """Search for the options that validate best and write them as a recipe; the test part is not read.

    Args:
        source: What to tune on, or a recipe to begin with, as in gpm train.
        out: The folder of the study; by default one below tuned. The same command again goes on with it.
        trials: Stop after so many trials in total.
        time: Stop after so much time in total, as in 45s, 30m or 1h30m.
        space: A YAML file of what to choose from, in place of the usual space.
        startup: Trials drawn at random before the search learns from them.
        quiet: Print no line per trial.
        recipe: Start from the options of this recipe, where the source is data of your own.
        {options}

    Returns:
        The recipe's file.
    """
    limit = parse_time(time)
    table_options, compute, options = divide_options(options, TableOptions, ComputeOptions)
    for name, value in (("trials", trials), ("startup", startup)):
        if value < 1:
            raise GpmError(f"{name} must be at least 1, got {value}.")
    if importlib.util.find_spec("optuna") is None:
        raise GpmError("gpm tune needs Optuna: pip install 'graph-pattern-machine[tuning]'.")
    from gpm.compute import choose_device, keep_memory, set_threads
    from gpm.data.tables.table_source import find_tables
    from gpm.io.manifest import digest_data
    from gpm.tasks.metrics import METRICS
    from gpm.training.callbacks import StoppedError
    from gpm.training.fit import draw_split
    from gpm.training.start import _resolve
    from gpm.training.tune.search import Search
    from gpm.training.tune.study import GRAPH, Facts, alone, check_folder, open_study
    from gpm.training.tune.trial import Bench, Stop
    from gpm.training.tune.tune_report import Report

    began = monotonic()
    keep_memory()
    if compute.threads:
        set_threads(compute.threads)
    place = choose_device(compute.device)
    tables = find_tables(source, target=options.get("target"), smiles=options.get("smiles"), **vars(table_options))
    if tables is not None:
        folder = Path("tuned") / tables.name if out is None else Path(out)
        check_folder(folder)
        source = str(_import_once(tables, folder / GRAPH, options, quiet))
        options = {key: value for key, value in options.items() if key != "target"}
    chosen_recipe, data = _resolve(source, options, recipe)
    if tables is None:
        folder = Path("tuned") / chosen_recipe.name if out is None else Path(out)
        check_folder(folder)
    base = _settle_options(chosen_recipe.config, data)
    bench = Bench(data, draw_split(data, base), place)
    chosen = _choose_space(space, data, base, list(options))
    bench.build(base)  # before anything is written: most mistakes show here
    facts = Facts(
        base.data, digest_data(data.graph, base.data), base.metric, base.to_dict(), bench.split.digest, chosen.digest
    )
    folder.mkdir(parents=True, exist_ok=True)
    try:
        larger = METRICS[base.metric].larger
        with alone(folder), open_study(folder, facts, chosen, larger) as study, Stop().listening() as stop:
            report = Report(study, chosen, base, folder, data.title, bench.split.name)
            search = Search(study, chosen, base, bench, report, stop, trials, startup, quiet)
            search.announce()
            search.run(began + limit - search.spent)
            return search.finish(time)
    except StoppedError:  # a second Ctrl-C, between two trials
        raise KeyboardInterrupt from None


def _import_once(tables: Tables, folder: Path, options: dict[str, Any], quiet: bool) -> Path:
    """The graph made of tables, kept beside the study; tables that make another graph are another study's."""
    from gpm.graph.header import HEADER, read_header
    from gpm.training.tune.study import FILE

    task, metric = options.get("task", "auto"), options.get("metric", "auto")
    with tables.importing(folder, task=task, metric=metric, progress=not quiet) as made:
        if not folder.exists():
            made.rename(folder)
        elif not (folder / HEADER).is_file() or read_header(made)["arrays"] != read_header(folder)["arrays"]:
            what = "tunes on tables that were other ones" if (folder.parent / FILE).exists() else f"has a {folder.name}"
            raise GpmError(f"{folder.parent} {what}; name another folder with -o.")
    return folder


def parse_time(text: str) -> float:
    """Seconds of a time such as 45s, 30m, 2h or 1h30m; an empty text is no limit."""
    units = {"h": 3600.0, "m": 60.0, "s": 1.0}
    parts = re.findall(r"(\d+(?:\.\d+)?)([hms])", text)
    seconds = sum(float(number) * units[unit] for number, unit in parts)
    in_order = [unit for _, unit in parts] == [unit for unit in units if unit in text]
    if text and ("".join(map("".join, parts)) != text or not in_order or seconds <= 0):
        raise GpmError(f"time must be written as 45s, 30m, 2h or 1h30m, got {text!r}.")
    return seconds if text else math.inf


def _settle_options(config: Config, data: TaskData) -> Config:
    """The options with nothing left to be guessed, and the data's place as it can be found from anywhere."""
    if data.level == "link" and config.protocol == "paper":
        raise GpmError("protocol paper walks the test edges, which tuning must not see; leave out --protocol.")
    path = Path(config.data).expanduser()
    place = str(path.resolve()) if path.is_file() or (path / "graph.json").is_file() else config.data
    metric = data.metric if config.metric == "auto" else config.metric
    return config.with_(metric=metric, task=data.level, data=place)


def _choose_space(path: Path | None, data: TaskData, base: Config, fixed: list[str]) -> Space:
    """The user's space, or the usual one without the options that the user gave; a size gives several."""
    from gpm.training.tune.space import default_space, read_space

    if "size" in fixed:
        fixed = [*fixed, "layers", "heads", "width"]
    return default_space(data, base, fixed) if path is None else read_space(Path(path), base, fixed)
