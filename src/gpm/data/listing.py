"""The command `gpm data`: the named datasets, or what one dataset holds."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gpm.data.catalog import CATALOG, Entry, data_root, spell
from gpm.intake import Features

_MOST_CLASSES = 12  # how many counts fit on a line


def data(name: str = "") -> None:
    """List the named datasets, or show what one holds.

    Args:
        name: A dataset's name, a saved graph's folder or a PyG file to load and describe; without one, all names are
            listed with their size, usual split, metric, and whether loading them needs a download.
    """
    for line in describe_data(name) if name else list_datasets():
        print(line)


def list_datasets() -> list[str]:
    """A table of the named datasets, line by line."""
    rows = [("name", "title", "nodes", "labels of", "split", "metric", "state")]
    for name, entry in CATALOG.items():
        facts = (f"{entry.nodes:,}", f"{entry.task}s", entry.split, entry.metric)
        rows.append((name, entry.title, *facts, find_state(entry)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [_align(row, widths) for row in rows]


def find_state(entry: Entry) -> str:
    """Whether a dataset is "ready", has "raw files at hand", or "would download"."""
    if not entry.root:
        return "ready"
    folder, given = data_root() / entry.raw, os.environ.get("GPM_RAW")
    if _is_processed(entry, folder):
        return "ready"
    at_hand = [folder / "raw"] + ([Path(given) / entry.raw / "raw"] if given else [])
    return "raw files at hand" if any(path.is_dir() and any(path.iterdir()) for path in at_hand) else "would download"


def describe_data(name: str) -> list[str]:
    """What a dataset with labelled nodes holds, line by line."""
    from gpm.data.splits import is_labelled
    from gpm.data.tasks import load_node_data

    if (entry := CATALOG.get(spell(name))) and entry.task == "graph":
        return _describe_graphs(spell(name), entry)
    loaded = load_node_data(name)
    labels, split = loaded.labels, loaded.make_split(seed=0)
    sizes = f"{len(split.train):,} train, {len(split.val):,} val, {len(split.test):,} test"
    unlabelled = int(np.count_nonzero(~is_labelled(labels)))
    several = labels.ndim == 2
    facts = {
        "title": loaded.title,
        "graph": loaded.graph.summary(),
        "features": _describe_features(loaded.graph.x),
        "labels per node" if several else "classes": f"{loaded.num_classes:,}",
        "nodes of each": _describe_counts(np.nansum(labels, axis=0) if several else np.bincount(labels[labels >= 0])),
        "unlabelled": f"{unlabelled:,}",
        "split": f"{sizes} ({split.name})",
        "metric": loaded.metric,
    }
    return [f"{key:<16}{value}" for key, value in facts.items()]


def _describe_graphs(name: str, entry: Entry) -> list[str]:
    """What a collection of labelled graphs holds, line by line."""
    from gpm.data.files import load_graph

    graph = load_graph(name)
    facts = {"title": entry.title, "graphs": graph.summary(), "features": _describe_features(graph.x)}
    if graph.y is not None and graph.y.ndim == 1:
        counts = np.bincount(graph.y.astype(np.int64))
        facts |= {"classes": f"{len(counts):,}", "graphs of each": _describe_counts(counts)}
    facts |= {"split": entry.split, "metric": entry.metric}
    return [f"{key:<16}{value}" for key, value in facts.items()]


def _is_processed(entry: Entry, folder: Path) -> bool:
    """Whether the reader has kept its result, so that loading is quick."""
    if entry.loader == "ogb":
        from gpm.data.ogb import is_stored

        return is_stored(folder)
    return any(file.name.startswith("data") for file in (folder / "processed").glob("*.pt"))


def _align(row: tuple[str, ...], widths: list[int]) -> str:
    cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
    cells[2] = row[2].rjust(widths[2])  # numbers
    return "  ".join(cells).rstrip()


def _describe_features(x: Features | None) -> str:
    if x is None:
        return "none"
    if isinstance(x, np.ndarray):
        kind = "categories" if np.issubdtype(x.dtype, np.integer) else "dense"
        return f"{x.shape[1]:,} {kind}, {x.dtype}"
    return f"{x.shape[1]:,} sparse, {x.dtype}, {x.nnz / max(1, x.shape[0] * x.shape[1]):.2%} filled"


def _describe_counts(counts: NDArray) -> str:
    shown = ", ".join(f"{int(count):,}" for count in counts[:_MOST_CLASSES])
    return shown + (f", and {len(counts) - _MOST_CLASSES:,} more" if len(counts) > _MOST_CLASSES else "")
