"""Search for the options that validate best on some data, and write them as a recipe."""

from __future__ import annotations

import importlib.util
import math
import re
from dataclasses import fields
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from gpm.config import TableOptions
from gpm.errors import GpmError

if TYPE_CHECKING:
    from gpm.data.tables.table_source import Tables


def tune(
    source: str = "",
    *,
    out: Path | None = None,
    trials: int = 50,
    time: str = "",
    space: Path | None = None,
    startup: int = 10,
    device: str = "auto",
    threads: int = 0,
    quiet: bool = False,
    recipe: str = "",
    **options: Any,
) -> Path:
    """Search for the options that validate best and write them as a recipe; the test split is not read.

    Args:
        source: Data to tune on, or a recipe to begin with, as in `gpm.train`.
        out: Folder of the study; by default one below tuned. The same call again resumes it.
        trials: Number of trials in total.
        time: Time limit in total, as in 45s, 30m or 1h30m.
        space: YAML file of the options to choose from, in place of the default space.
        startup: Number of trials drawn at random before the search learns from them.
        device: auto, cpu, cuda, cuda:1 or mps.
        threads: Threads to compute with; 0 leaves it to torch.
        quiet: Do not print a line for each trial.
        recipe: Recipe whose options to begin with, where the source is data of your own.
        options: Any option of `Config`, which is then fixed; and the arguments of `gpm.train` for tables: nodes,
            graphs, graph, directed, unlisted and schema. The graph made of tables is kept beside the study.

    Returns:
        Path of the recipe.
    """
    limit = parse_time(time)
    for name, value, least in (("trials", trials, 1), ("startup", startup, 1), ("threads", threads, 0)):
        if value < least:
            raise GpmError(f"{name} must be at least {least}, got {value}.")
    if importlib.util.find_spec("optuna") is None:
        raise GpmError("gpm tune needs Optuna: pip install 'graph-pattern-machine[tuning]'.")
    from gpm.compute import choose_device, keep_memory, set_threads
    from gpm.data.sources import find_again, resolve
    from gpm.graph.digest import digest_data
    from gpm.tasks.metrics import METRICS
    from gpm.training.callbacks import Stop, StoppedError
    from gpm.training.choose import choose_recipe
    from gpm.training.prepare import draw_split, settle_options
    from gpm.training.tune.search import Search
    from gpm.training.tune.space import choose_space
    from gpm.training.tune.study import GRAPH, Facts, alone, check_folder, open_study
    from gpm.training.tune.trial import Bench
    from gpm.training.tune.tune_report import Report

    began = monotonic()
    keep_memory()
    if threads:
        set_threads(threads)
    device = choose_device(device)
    table_options = {field.name: options.pop(field.name, None) for field in fields(TableOptions)}
    columns = {key: options.get(key) or "" for key in ("target", "smiles")}
    tables = resolve(source, **columns, **table_options).tables
    if tables is not None:
        folder = Path(out or Path("tuned") / tables.name)
        check_folder(folder)
        source = str(_import_once(tables, folder / GRAPH, options, quiet))
        options.pop("target", None)
    chosen, data = choose_recipe(source, options, recipe)
    if tables is None:
        folder = Path(out or Path("tuned") / chosen.name)
        check_folder(folder)
    if data.level == "link" and chosen.config.protocol == "paper":
        raise GpmError("Protocol paper walks the test edges, which tuning must not see; leave out --protocol.")
    base = settle_options(chosen.config.with_(data=find_again(chosen.config.data)), data)
    bench = Bench(data, draw_split(data, base), device)
    choices = choose_space(space, data, base, list(options))
    bench.build(base)  # before anything is written: most mistakes show here
    digests = digest_data(data.graph, base.data), bench.split.digest, choices.digest
    facts = Facts(base.data, digests[0], base.metric, base.to_dict(), *digests[1:])
    folder.mkdir(parents=True, exist_ok=True)
    try:
        larger = METRICS[base.metric].larger
        with alone(folder), open_study(folder, facts, choices, larger) as study, Stop().listening() as stop:
            report = Report(study, choices, base, folder, data.title, bench.split.name)
            search = Search(report, bench, stop, trials, startup, quiet)
            search.announce()
            search.run(began + limit - search.spent)
            return search.finish(time)
    except StoppedError:  # a second Ctrl-C, between two trials
        raise KeyboardInterrupt from None


def _import_once(tables: Tables, folder: Path, options: dict[str, Any], quiet: bool) -> Path:
    """Import tables into a folder beside the study, or check that they make the graph that is there."""
    from gpm.graph.folder import read_header
    from gpm.io.manifest import HEADER
    from gpm.training.tune.study import FILE

    task, metric = options.get("task", "auto"), options.get("metric", "auto")
    with tables.importing(folder, task=task, metric=metric, progress=not quiet) as made:
        if not folder.exists():
            made.rename(folder)
        elif not (folder / HEADER).is_file() or read_header(made).arrays != read_header(folder).arrays:
            what = "tunes on other tables" if (folder.parent / FILE).exists() else f"has a {folder.name}"
            raise GpmError(f"{folder.parent} {what}; name another folder with -o.")
    return folder


def parse_time(text: str) -> float:
    """Return the seconds of a time such as 45s, 30m, 2h or 1h30m; an empty text is no limit."""
    units = {"h": 3600.0, "m": 60.0, "s": 1.0}
    parts = re.findall(r"(\d+(?:\.\d+)?)([hms])", text)
    seconds = sum(float(number) * units[unit] for number, unit in parts)
    in_order = [unit for _, unit in parts] == [unit for unit in units if unit in text]
    if text and ("".join(map("".join, parts)) != text or not in_order or seconds <= 0):
        raise GpmError(f"time must be written as 45s, 30m, 2h or 1h30m, got {text!r}.")
    return seconds if text else math.inf
