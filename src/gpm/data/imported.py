"""A graph folder that tables were imported into, as the data of its task: names, parts and metric."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpm.data.graph_data import GraphData, build_graph_data
from gpm.data.labels import VALUE_METRICS
from gpm.data.link_data import LinkData, load_link_data
from gpm.data.node_data import NodeData, build_node_data
from gpm.data.splits import as_masks
from gpm.errors import GpmError
from gpm.graph.folder import HEADER, read_extras
from gpm.graph.graph import Graph

METRICS = {"classes": "accuracy", "labels": "roc_auc", "values": "mae"}


def is_imported(source: object) -> bool:
    """Whether a source is the folder of a graph that remembers its task."""
    if not isinstance(source, (str, Path)):
        return False
    header = Path(source).expanduser() / HEADER
    return header.is_file() and bool(read_extras(header.parent)[0].get("task"))


def load_imported(
    folder: Path, task: str = "auto", metric: str = "auto", *, labels: bool = True
) -> NodeData | LinkData | GraphData:
    """Open an imported graph.

    Args:
        folder: What `gpm import` wrote.
        task: node, link or graph; auto takes what was imported for.
        metric: auto takes accuracy for classes, ROC-AUC for several labels, MAE for values.
        labels: Read them; without labels there is nothing to score, and any task will do.
    """
    facts, extras = read_extras(folder)
    graph, title = Graph.open(folder), str(facts.get("title") or folder.name)
    wanted = facts["task"] if task == "auto" else task
    if wanted == "link":
        return replace(load_link_data(graph), title=title)
    if labels and wanted != facts["task"]:
        raise GpmError(f"{folder} was imported to predict {facts['task']}s; import it again with --task {wanted}.")
    kind, names = str(facts.get("kind", "")), list(_names(facts, "graphs")) or None
    if not labels or not kind:
        bare = replace(graph, y=None)
        return NodeData(bare, title) if wanted == "node" else GraphData(bare, title, names=names)
    chosen = _check_metric(folder, facts, metric) if metric != "auto" else METRICS[kind]
    masks = as_masks(extras.get("part"))
    named: dict[str, Any] = {"class_names": _names(facts, "classes"), "targets": _names(facts, "targets")}
    if wanted == "graph":
        return replace(build_graph_data(graph, title, "", chosen, masks, names=names), **named)
    return replace(build_node_data(graph, title, chosen, masks), stratify=kind == "classes", **named)


def _check_metric(folder: Path, facts: dict[str, Any], metric: str) -> str:
    """A metric that scores what was imported: numbers of classes are no values, nor values classes."""
    if (metric in VALUE_METRICS) != (facts["kind"] == "values"):
        kind, read = ("number", facts["kind"]) if metric in VALUE_METRICS else ("category", "numbers")
        target = ", ".join(_names(facts, "targets")) or "target"
        raise GpmError(
            f"{folder}: {target} was imported as {read}, which {metric} does not score; import it again with "
            f"'kind: {kind}' in its YAML, or leave out --metric."
        )
    return metric


def _names(facts: dict[str, Any], key: str) -> tuple[str, ...]:
    return tuple(str(name) for name in facts.get(key) or ())


def describe_encoding(facts: dict[str, Any]) -> str:
    """What the columns of features were made of, as text that is equal for equal encodings; "{}" if there are none."""
    known = {kind: entries for kind, entries in (facts.get("encoding") or {}).items() if entries}
    return json.dumps(known, sort_keys=True)
