"""Prove that known labels do not leak: predictions of a trained model before and after labels are changed.

With `labels: on`, labels of the training split are inputs of other nodes. The weights are held, and everything that is
computed from labels is computed again from changed ones. Predictions are compared bit for bit.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gpm.data.splits import PARTS
from gpm.errors import GpmError
from gpm.graph.graph import Graph
from gpm.inference.opened import OpenedRun
from gpm.nn.expected_table import LABELS, Answers, ExpectedTable, spread_answers
from gpm.nn.gnn.gnn_predictor import NetworkPredictor
from gpm.nn.predictor import Predictor, Predicts
from gpm.patterns.known_labels import label_means
from gpm.tasks import Task, ValueTask
from gpm.tasks.task import known_answers

NODES = 8  # whose label is changed, of each split
LARGE = 5_000_000  # edges; in a larger graph as many as `FEW`
FEW = 2


def check_labels(run: OpenedRun) -> list[str]:
    """Check that no prediction rests on its own label, or on labels that are held out; say line by line what holds.

    Nothing is checked of a run that reads no labels.
    """
    if not run.metadata["inputs"].get("label_dim"):
        return []
    predictor, task = run.predictor, run.task
    count = FEW if run.data.graph.num_edges > LARGE else NODES
    chosen = {part: _choose(getattr(run.split, part), count) for part in PARTS}
    seen = _check_own(run, predictor, task, chosen)
    _check_held_out(run, predictor, task, np.concatenate(list(chosen.values())))
    sizes = ", ".join(f"{len(nodes)} {part}" for part, nodes in chosen.items())
    reached = f"; it changes {seen[0]} of {seen[1]} predictions of neighbours" if seen[1] else ""
    return [
        f"{'own labels':<16}changing a node's label changes no bit of its own prediction ({sizes} nodes){reached}",
        f"{'held-out labels':<16}changing all labels of val and test changes no bit of any of these predictions",
    ]


def _choose(ids: NDArray, count: int) -> NDArray[np.int64]:
    """Return some ids, spread evenly."""
    return np.asarray(ids[np.linspace(0, len(ids) - 1, min(len(ids), count)).astype(np.int64)])


def _check_own(
    run: OpenedRun, predictor: Predicts, task: Task, chosen: dict[str, NDArray[np.int64]]
) -> tuple[int, int]:
    """Change one label at a time; return how many predictions of neighbours changed, and of how many."""
    graph, moved, asked = run.data.graph, 0, 0
    for part, nodes in chosen.items():
        for node in nodes.tolist():
            other = _with_labels(predictor, graph, _change(run, task, np.array([node])))
            alone = np.array([node])
            if not torch.equal(_say(predictor, alone), _say(other, alone)):
                name = graph.name(node)
                raise GpmError(
                    f"The prediction of node {name!r} ({part}) changes with its own label: the label leaks; "
                    "do not use this model, and report it."
                )
            near = np.array([each for each in graph.neighbors(node).tolist() if each != node][:1], dtype=np.int64)
            if part == "train" and len(near):
                moved += not torch.equal(_say(predictor, near), _say(other, near))
                asked += 1
    return moved, asked


def _check_held_out(run: OpenedRun, predictor: Predicts, task: Task, nodes: NDArray) -> None:
    """Change all labels that are not of the training split."""
    held = np.setdiff1d(np.arange(len(task.targets)), run.split.train)
    other = _with_labels(predictor, run.data.graph, _change(run, task, held))
    if not torch.equal(_say(predictor, nodes), _say(other, nodes)):
        raise GpmError(
            "Predictions change with labels of val and test: labels leak; do not use this model, and report it."
        )


def _say(predictor: Predicts, nodes: NDArray) -> Tensor:
    return predictor.logits(nodes)


def _change(run: OpenedRun, task: Task, nodes: NDArray) -> Answers:
    """Return what the model would be told if the labels of some nodes were others."""
    targets = task.targets.clone()
    rows = torch.from_numpy(nodes)
    if isinstance(task, ValueTask):
        targets[rows] = targets[rows].nan_to_num(0.0) + 3 * torch.tensor(task.scale).to(targets)
    elif targets.is_floating_point():  # yes or no
        targets[rows] = 1 - targets[rows].nan_to_num(0.0)
    else:
        targets[rows] = (targets[rows] + 1) % max(task.outputs, 1)
    changed: Any = replace(cast(Any, task), targets=targets)
    answers = known_answers(changed, run.split)
    assert answers is not None
    return answers


def _with_labels(predictor: Predicts, graph: Graph, answers: Answers) -> Predicts:
    """Return the same model, told other labels: at the nodes that it reads, and in the means around a node."""
    values, known = spread_answers(answers, graph.num_nodes)
    if isinstance(predictor, NetworkPredictor):
        return replace(predictor, table=predictor.table.with_labels(values, known), embedded=None)
    assert isinstance(predictor, Predictor)
    table = predictor.table.with_labels(values, known)
    expected = predictor.expected
    if isinstance(expected, ExpectedTable):
        expected = _with_means(expected, torch.from_numpy(label_means(graph, values, known)))
    return replace(predictor, table=table, expected=expected, maps=None)


def _with_means(table: ExpectedTable, means: Tensor) -> ExpectedTable:
    groups = table.groups if table.means is None else table.groups[len(table.means) :]
    parts = torch.split(table.values, [size for _, size in groups], 1)
    pairs = zip(groups, parts, strict=True)
    return replace(table, values=torch.cat([means if name == LABELS else part for (name, _), part in pairs], 1))
