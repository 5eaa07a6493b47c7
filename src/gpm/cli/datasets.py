"""The command `gpm data`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gpm.data.catalog import CATALOG, Entry, find_compact, find_file, has_raw, is_stored
from gpm.errors import GpmError
from gpm.io.cache import data_root

if TYPE_CHECKING:
    from gpm.data.splits import Split
    from gpm.data.task_data import TaskData
    from gpm.graph.coerce import Features
    from gpm.graph.graph import Graph

_MOST_CLASSES = 12  # how many counts fit on a line
_NUMBERS = (2, 3)  # columns of the table that are set to the right


def data(name: str = "", source: str = "") -> None:
    """List the named datasets, describe one, or check that its splits do not overlap.

    Args:
        name: Name of a dataset, graph folder or PyG file to load and describe. Default: list all names with their size,
            usual split, metric, and whether loading needs a download. Or the word check, as in gpm data check RUN.
        source: After check: run folder, name of a dataset, or file. Checks that its splits do not overlap and, for
            links, are not visible to the walks. Of a run that reads known labels, checks that no prediction rests on
            its own label.
    """
    if name == "check":
        if not source:
            raise GpmError("Name what to check: gpm data check RUN, or gpm data check cora.")
        print("\n".join(check_source(source)))
        return
    if source:
        raise GpmError(f"gpm data describes one dataset; leave out {source!r}, or write gpm data check {source}.")
    print("\n".join(describe_data(name) if name else list_datasets()))


def check_source(source: str) -> list[str]:
    """Check the split of a run, or of a dataset with seed 0, and say line by line what holds."""
    from gpm.data import leakage
    from gpm.inference.label_proof import check_labels
    from gpm.inference.link_proof import check_own_edges
    from gpm.io.run_files import CONFIG, RESULT, SPLIT
    from gpm.run.run import Run

    folder = Path(source).expanduser()
    if not (folder / CONFIG).is_file() or not (folder / SPLIT).is_file():
        return leakage.check_source(source)
    run = Run(folder)
    if not run.config.data:
        raise GpmError(f"{folder} was trained on a graph in memory; give it to gpm.data.leakage.check_links in Python.")
    if (folder / RESULT).is_file() and (scored := run.result.get("split_digest")) != run.split.digest:
        raise GpmError(
            f"The figures in {folder} are of the split {scored}, but {SPLIT} is {run.split.digest}; train again."
        )
    return leakage.check_data(run.data, run.split) + check_labels(run) + check_own_edges(run)


def list_datasets() -> list[str]:
    """Return a table of the named datasets, line by line."""
    rows = [("name", "title", "graphs", "nodes", "task", "split", "metric", "state")]
    for name, entry in CATALOG.items():
        facts = (f"{entry.graphs or 1:,}", f"{entry.nodes:,}", f"{entry.task}s", entry.split, entry.metric)
        rows.append((name, entry.title, *facts, find_state(entry)))
    columns = list(zip(*rows, strict=True))
    for i, column in enumerate(columns):
        adjust = str.rjust if i in _NUMBERS else str.ljust
        columns[i] = tuple(adjust(cell, max(map(len, column))) for cell in column)
    return ["  ".join(row).rstrip() for row in zip(*columns, strict=True)]


def find_state(entry: Entry) -> str:
    """Return "ready", "raw files at hand", "would download", or "needs files" if there is no address."""
    if entry.features and find_file(entry.features) is None:
        return "needs files"
    if not entry.root or _is_processed(entry, data_root() / entry.raw):
        return "ready"
    if has_raw(entry) or find_compact(entry):
        return "raw files at hand"
    return "needs files" if entry.loader == "file" else "would download"


def describe_data(name: str) -> list[str]:
    """Describe a dataset, line by line."""
    from gpm.data.link_data import LinkData
    from gpm.data.sources import load_task_data
    from gpm.data.splits import PARTS

    loaded = load_task_data(name)
    graph = loaded.graph
    facts = {"title": loaded.title, "graph" if graph.graph_ptr is None else "graphs": graph.summary()}
    if graph.graph_ptr is not None:
        facts["mean size"] = _describe_size(graph)
    facts["features"] = _describe_features(graph.x)
    if graph.edge_attr is not None:
        facts["edge features"] = _describe_features(graph.edge_attr)
    split: Split
    if isinstance(loaded, LinkData):
        split = links = loaded.make_split(seed=0)
        sizes = [len(links.edges_of(part)) for part in PARTS]
    else:
        facts |= _describe_labels(loaded)
        split = loaded.make_split(seed=0)
        sizes = [len(getattr(split, part)) for part in PARTS]
    shown = ", ".join(f"{size:,} {part}" for size, part in zip(sizes, PARTS, strict=True))
    facts |= {"split": f"{shown} ({split.name})", "metric": loaded.metric}
    return [f"{key:<18}{value}" for key, value in facts.items()]


def _describe_labels(loaded: TaskData) -> dict[str, str]:
    """Describe classes, labels or values, and count the instances without any."""
    from gpm.data.splits import is_labelled

    labels, level = loaded.labels, loaded.level
    unlabelled = {"unlabelled": f"{int(np.count_nonzero(~is_labelled(labels))):,}"}
    if loaded.metric in ("mae", "rmse"):
        return _describe_values(labels.reshape(len(labels), -1), level) | unlabelled
    if labels.ndim == 1:
        counts, known = np.bincount(labels[labels >= 0]), {}
        facts = {"classes": f"{len(counts):,}"}
    else:
        counts = np.nansum(labels, axis=0)
        facts = {f"labels per {level}": f"{labels.shape[1]:,}"}
        known = {"known": _shorten([f"{share:.0%}" for share in (~np.isnan(labels)).mean(axis=0)])}
    return facts | {f"{level}s of each": _shorten([f"{int(count):,}" for count in counts])} | known | unlabelled


def _describe_values(values: NDArray, level: str) -> dict[str, str]:
    facts = {} if values.shape[1] == 1 else {f"values per {level}": f"{values.shape[1]:,}"}
    for i, column in enumerate(values.T[:_MOST_CLASSES].astype(np.float64)):
        known = column[~np.isnan(column)]
        key = "value" if values.shape[1] == 1 else f"value {i}"
        facts[key] = "never known"
        if known.size:
            spread = f"standard deviation {known.std():.4g}, from {known.min():.4g} to {known.max():.4g}"
            facts[key] = f"mean {known.mean():.4g}, {spread}"
    return facts


def _describe_size(graph: Graph) -> str:
    assert graph.graph_ptr is not None
    sizes, count = np.diff(graph.graph_ptr), max(1, graph.num_graphs)
    most = f"{sizes.min():,} to {sizes.max():,} nodes" if sizes.size else "no nodes"
    return f"{graph.num_nodes / count:.1f} nodes, {graph.num_edges / count:.1f} directed edges; {most}"


def _is_processed(entry: Entry, folder: Path) -> bool:
    """Return whether the reader has stored its result, so that loading is quick."""
    if entry.loader in ("ogb", "ogbl"):
        return is_stored(folder)
    if entry.loader == "ZINC":
        return (folder / ("subset" if dict(entry.options)["subset"] else "full") / "processed/train.pt").is_file()
    return any(file.name.startswith("data") for file in (folder / "processed").glob("*.pt"))


def _describe_features(x: Features | None) -> str:
    if x is None:
        return "none"
    if isinstance(x, np.ndarray):
        kind = "categories" if np.issubdtype(x.dtype, np.integer) else "dense"
        return f"{x.shape[1]:,} {kind}, {x.dtype}"
    return f"{x.shape[1]:,} sparse, {x.dtype}, {x.nnz / max(1, x.shape[0] * x.shape[1]):.2%} filled"


def _shorten(words: list[str]) -> str:
    more = len(words) - _MOST_CLASSES
    return ", ".join(words[:_MOST_CLASSES]) + (f", and {more:,} more" if more > 0 else "")
