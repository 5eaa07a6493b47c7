"""Load a graph folder that tables were imported into, as the data of its task."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpm.data.graph_data import GraphData, build_graph_data
from gpm.data.labels import VALUE_METRICS
from gpm.data.link_data import load_link_data
from gpm.data.node_data import NodeData, build_node_data
from gpm.data.splits import as_masks
from gpm.data.task_data import TaskData
from gpm.errors import GpmError
from gpm.graph.folder import HEADER, read_extras
from gpm.graph.graph import Graph

METRICS = {"classes": "accuracy", "labels": "roc_auc", "values": "mae"}


def is_imported(source: object) -> bool:
    """Check whether a source is a graph folder with a task."""
    if not isinstance(source, (str, Path)):
        return False
    header = Path(source).expanduser() / HEADER
    return header.is_file() and bool(read_extras(header.parent)[0].get("task"))


def load_imported(folder: Path, task: str = "auto", metric: str = "auto", *, labels: bool = True) -> TaskData:
    """Open a graph in a folder written by `gpm import`.

    The task is node, link or graph, auto that of the import. The metric auto is accuracy for classes, ROC-AUC for
    several labels, MAE for values. Without labels nothing can be scored, and any task will do.
    """
    metadata, extras = read_extras(folder)
    graph, title = Graph.open(folder), str(metadata.get("title") or folder.name)
    level = metadata["task"] if task == "auto" else task
    if level == "link":
        data, held_out = load_link_data(graph), extras.get("held_out")
        split = data.split if held_out is None else "given"
        return replace(data, title=title, split=split, held_out=held_out, negatives=extras.get("negatives"))
    if labels and level != metadata["task"]:
        raise GpmError(f"{folder} was imported to predict {metadata['task']}s; import it again with --task {level}.")
    kind, names = str(metadata.get("kind", "")), list(_names(metadata, "graphs")) or None
    if not labels or not kind:
        bare = replace(graph, y=None)
        return NodeData(bare, title) if level == "node" else GraphData(bare, title, names=names)
    if metric != "auto" and (metric in VALUE_METRICS) != (kind == "values"):
        wanted, read = ("number", kind) if metric in VALUE_METRICS else ("category", "numbers")
        target = ", ".join(_names(metadata, "targets")) or "target"
        raise GpmError(
            f"{folder}: {target} was imported as {read}, which {metric} does not score; import it again with "
            f"'kind: {wanted}' in its YAML, or leave out --metric."
        )
    chosen = METRICS[kind] if metric == "auto" else metric
    masks = as_masks(extras.get("part"))
    named: dict[str, Any] = {"class_names": _names(metadata, "classes"), "targets": _names(metadata, "targets")}
    if level == "graph":
        return replace(build_graph_data(graph, title, "", chosen, masks, names=names), **named)
    return replace(build_node_data(graph, title, chosen, masks), stratify=kind == "classes", **named)


def _names(metadata: dict[str, Any], key: str) -> tuple[str, ...]:
    return tuple(str(name) for name in metadata.get(key) or ())


def describe_encoding(metadata: dict[str, Any]) -> str:
    """Return the encoding of the feature columns as text, equal for equal encodings; "{}" if there are none."""
    encoding = {kind: entries for kind, entries in (metadata.get("encoding") or {}).items() if entries}
    return json.dumps(encoding, sort_keys=True)
