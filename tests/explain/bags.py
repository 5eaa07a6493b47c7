"""Bags of fresh models of every kind, to leave patterns out of."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from gpm import Config, Graph
from gpm.explain.bag import Bag, Part
from gpm.nn.expected_table import Answers
from gpm.nn.predictor import Predictor
from gpm.tasks import ClassTask, LinkTask, Task, ValueTask
from tests.nn.test_model import POINTER, make_graph

SMALL: dict[str, Any] = {"width": 8, "heads": 2, "lengths": [0, 1, 3], "patterns": 6, "pool": 24, "dropout": 0.5}
EXPECTED: dict[str, Any] = {"expected": 2, "structure": True, "linear": "base"}
LONELY = 38  # a node without edges
CLASSES, LABELS = ClassTask([0, 10, 20], False, "accuracy"), ClassTask([0, 1, 2], True, "roc_auc")
LINKS, VALUES = LinkTask("roc_auc"), ValueTask("mae", [5.0, -2.0, 0.0], [10.0, 0.5, 1.0])

_MADE: dict[str, Predictor] = {}


@dataclass(frozen=True)
class Case:
    """A kind of model: what it reads, what it says, and what it is asked of."""

    level: str
    task: Task
    options: dict[str, Any]
    edge: str = "none"

    @property
    def instance(self) -> Any:
        """A node, a graph, or a pair of nodes without an edge."""
        return np.array({"node": [5], "graph": [3], "link": [[0, 9]]}[self.level])

    def predictor(self, graph: Graph | None = None) -> Predictor:
        """A model in training mode, all of whose weights count; on its own graph it is made once."""
        key = repr(self)
        if graph is None and key not in _MADE:
            _MADE[key] = self._build(make_graph("dense", self.edge, pointer=POINTER if self.level == "graph" else None))
        predictor = _MADE[key] if graph is None else self._build(graph)
        predictor.model.train()
        return predictor

    def _build(self, graph: Graph) -> Predictor:
        torch.manual_seed(0)
        known = np.arange(0, graph.num_nodes, 2) if self.level == "node" else np.arange(3)
        answers = Answers("classes", known, np.eye(3)[known % 3], known[:1], np.eye(3)[known[:1] % 3])
        predictor = Predictor.build(Config(**SMALL | self.options), graph, 3, self.level, answers=answers)
        with torch.no_grad():
            for parameter in predictor.model.parameters():
                parameter.add_(0.2 * torch.randn_like(parameter))
        return predictor

    def bag(self, instance: Any = None, **given: Any) -> Bag:
        return Bag.draw(self.predictor(), self.task, self.instance if instance is None else instance, **given)


CASES = {
    "mean": Case("node", CLASSES, {"layers": 2}),
    "class": Case("node", CLASSES, {"readout": "class", "topology": "shape"}, "dense"),
    "fusion": Case("node", LABELS, {"fusion": True, "path_position": "learned"}),
    "values": Case("graph", VALUES, {"topology": "induced"}),
    "sum": Case("graph", CLASSES, {"readout": "sum"}, "categories"),
    "graph class": Case("graph", CLASSES, {"readout": "class", "topology": "shape"}),
    "joint": Case("link", LINKS, {"pair": "joint"}, "dense"),
    "joint induced": Case("link", LINKS, {"pair": "joint", "topology": "induced", "pool": 14}),
    "expected": Case("node", CLASSES, EXPECTED | {"labels": "on", "position": 4, "readout": "class"}),
    "expected graph": Case("graph", VALUES, EXPECTED | {"readout": "sum", "topology": "induced"}),
    "joint expected": Case("link", LINKS, EXPECTED | {"pair": "joint"}),
    "product": Case("link", LINKS, {"pair": "product", "readout": "class"}),
}


def make_bag(case: str, instance: Any = None, **given: Any) -> Bag:
    """The bag of a case, by its name."""
    return CASES[case].bag(instance, **given)


def in_double(bag: Bag) -> Bag:
    """The same bag, read in double precision."""
    predictor = replace(bag.predictor, model=copy.deepcopy(bag.predictor.model).double())
    parts = tuple(Part(part.encoded.double(), part.frame) for part in bag.parts)
    return replace(bag, predictor=predictor, parts=parts)
