"""PyG's `Explainer` on a run: a module that PyG can call, and the algorithm that explains it by its patterns.

PyG's fidelity and unfaithfulness mean nothing here: they weigh the messages of a network by the edge mask, and a model
without messages predicts the same whatever the mask. `gpm.explain.faithfulness` leaves patterns out instead.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, get_args

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch_geometric.explain import Explanation
from torch_geometric.explain.algorithm import ExplainerAlgorithm
from torch_geometric.explain.config import ExplanationType, MaskType

from gpm.data.non_edges import number_pairs
from gpm.errors import GpmError, kind_of, whole_number
from gpm.explain.attribution import METHODS, rank_groups, rank_patterns, weigh_edges
from gpm.explain.bag import Bag, Group
from gpm.explain.explanation import Method
from gpm.graph.coerce import as_array, check_choice
from gpm.graph.graph import Graph
from gpm.inference.opened import OpenedRun
from gpm.nn.predictor import Predictor
from gpm.tasks import ClassTask, ValueTask, load_task

LEVELS = {"node": "node", "link": "edge", "graph": "graph"}  # PyG's names
ReturnType = Literal["raw", "probs", "log_probs"]
_OF_PATTERNS = ("patterns", "pattern_score", "pattern_name")
_log = logging.getLogger("gpm")


class PatternModule(nn.Module):
    """A run as a module that is called with the tensors of a graph, as PyG calls its models.

    The run's own graph is recognised by its content, whatever the order of its edges: predictions are then those of
    `run.predict`, and in a link task the walks see no held-out edge. Another graph is built as the run's own was, with
    the same handling of duplicates and self-loops, and must have the features that the model reads. If the model reads
    no node features, only the number of rows of `x` counts. Predictions have no gradients.

    Args:
        run: A trained run of a gpm.
        return_type: raw (logits; the values of a regression in their own units), probs or log_probs.
        output: The index of the label or value to predict; by default all.
    """

    def __init__(self, run: OpenedRun, return_type: ReturnType = "raw", output: int | None = None) -> None:
        super().__init__()
        predictor = run.pattern_predictor
        check_choice("return_type", return_type, get_args(ReturnType))
        self.run, self.return_type, self.output = run, return_type, output
        self.task, self.level = load_task(run.metadata, None), str(run.metadata["task"])
        if return_type != "raw" and isinstance(self.task, ValueTask):
            raise GpmError(f"{run.folder} predicts values, which have no probabilities; leave return_type at raw.")
        if output is not None and (self.mode == "multiclass_classification" or not 0 <= output < self.task.outputs):
            raise GpmError(f"output {output} must be the index of one of several labels or values of {run.folder}.")
        self.model = predictor.model
        self._last: tuple[list[Any], tuple[Tensor | None, ...], Predictor] = ([], (), predictor)

    @property
    def mode(self) -> str:
        """The kind of prediction, in PyG's words."""
        if isinstance(self.task, ClassTask) and not self.task.multilabel:
            return "multiclass_classification"
        return "regression" if isinstance(self.task, ValueTask) else "binary_classification"

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor | None = None, **options: Any) -> Tensor:
        """Predict all nodes `[N, C]`, pairs `[P, C]` or graphs `[G, C]`, or some of them; see `open`."""
        predictor, inputs = self.open(x, edge_index, edge_attr, **options)
        pointer, filled = predictor.tokenizer.graph.graph_ptr, np.ones(len(inputs), dtype=bool)
        if self.level == "graph" and pointer is not None:
            filled = np.diff(pointer)[inputs] > 0
        logits = torch.full((len(inputs), self.task.outputs), torch.nan)  # for graphs without nodes
        logits[torch.from_numpy(filled)] = predictor.logits(inputs[filled])
        if self.return_type == "probs" or isinstance(self.task, ValueTask):
            logits = self.task.answers(logits).float()
        elif self.return_type == "log_probs":
            logits = self.task.answers(logits.double()).log().float()
        return (logits if self.output is None else logits[:, [self.output]]).to(edge_index.device)

    def open(
        self, x: Tensor, edge_index: Tensor, edge_attr: Tensor | None = None, *, edge_weight: Tensor | None = None,
        edge_label_index: Tensor | None = None, batch: Tensor | None = None, instances: Tensor | None = None,
    ) -> tuple[Predictor, NDArray[np.int64]]:  # fmt: skip
        """Return the model on a graph, and the inputs to predict: nodes or graphs `[B]`, or pairs `[B, 2]`.

        Args:
            x: Node features `[N, d]`.
            edge_index: Edges `[2, E]`.
            edge_attr, edge_weight: Features and weights of the edges.
            edge_label_index: The pairs of a link task `[2, P]`.
            batch: The graph of each node of a collection `[N]`, ascending; by default there is one graph.
            instances: The nodes, pairs or graphs to predict; by default all.
        """
        if not isinstance(x, Tensor) or not isinstance(edge_index, Tensor):
            raise GpmError("x and edge_index must be tensors of a graph with nodes of one kind; x has a row per node.")
        predictor = self._place(x, edge_index, edge_attr, edge_weight, batch)
        graph = predictor.tokenizer.graph
        if self.level == "link":
            if edge_label_index is None:
                raise GpmError("A model of links scores pairs of nodes; give them as edge_label_index [2, P].")
            rows = np.ascontiguousarray(as_array(edge_label_index).T)
        else:
            rows = np.arange(graph.num_graphs if self.level == "graph" else graph.num_nodes)
        return predictor, rows if instances is None else rows[np.atleast_1d(as_array(instances))]

    def _place(self, *tensors: Tensor | None) -> Predictor:
        """Return the model on the graph of some tensors; PyG passes the same ones again and again: the last is kept."""
        stamps = [
            tensor if tensor is None else (id(tensor), object() if tensor.is_inference() else tensor._version)
            for tensor in tensors
        ]
        if stamps != self._last[0]:
            own, reads = self.run.data.graph, self.run.config.features == "auto" and self.run.data.graph.x is not None
            graph = _build(own, *tensors, reads=reads)
            same = _is_same(graph, own, self.level, reads)
            predictor = self.run.predictor if same else self.run.predictor_for(graph)
            assert isinstance(predictor, Predictor)
            self._last = stamps, tensors, replace(predictor, model=self.model)  # stamps hold while the tensors live
        return self._last[2]


def _build(own: Graph, x: Any, edge_index: Any, edge_attr: Any, edge_weight: Any, batch: Any, *, reads: bool) -> Graph:
    """Build a graph from PyG's tensors as the run's own was built."""
    if own.edge_weight is not None and edge_weight is None:
        raise GpmError("The run's graph has weights on its edges; give edge_weight too.")
    census = own.census
    options: dict[str, Any] = {
        "duplicates": "keep" if census.duplicates and not census.merged else "merge",
        "self_loops": "drop" if census.dropped_loops else "keep",
        "edge_attr": edge_attr, "edge_weight": edge_weight, "x": x if reads else None,
        "graph_ptr": None if batch is None else _find_pointer(as_array(batch), len(x)),
    }  # fmt: skip
    graph = Graph.from_edges(edge_index, len(x), **options)
    if census.mirrored and graph.census.directed:  # each edge is given once, as it was in training
        return Graph.from_edges(edge_index, len(x), undirected=True, **options)
    return graph


def _find_pointer(batch: NDArray, count: int) -> NDArray[np.int64]:
    if batch.shape != (count,) or (np.diff(batch) < 0).any():
        raise GpmError(f"batch must name the graph of each of the {count:,} nodes, ascending.")
    return np.concatenate([[0], np.cumsum(np.bincount(batch))])


def _is_same(graph: Graph, own: Graph, level: str, reads: bool) -> bool:
    return (
        np.array_equal(graph.indptr, own.indptr)
        and np.array_equal(graph.indices, own.indices)
        and _equal(graph.edge_weight, own.edge_weight)
        and _equal(_edge_rows(graph), _edge_rows(own))
        and (not reads or _equal(graph.x, own.x))
        and (level != "graph" or _equal(graph.graph_ptr, own.graph_ptr))
    )


def _edge_rows(graph: Graph) -> Any:
    """Return the features of each entry."""
    return graph.edge_attr if graph.edge_attr is None or graph.edge_ids is None else graph.edge_attr[graph.edge_ids]


def _equal(one: Any, two: Any) -> bool:
    """Compare two arrays in single precision, which is what the model reads."""
    if one is None or two is None or one.shape != two.shape:
        return one is two
    if sp.issparse(one) or sp.issparse(two):
        return bool((sp.csr_array(one, dtype=np.float32) != sp.csr_array(two, dtype=np.float32)).nnz == 0)
    return np.array_equal(one.astype(np.float32), two.astype(np.float32))


class PatternExplanation(Explanation):  # type: ignore[misc]
    """PyG's explanation with the patterns behind its masks.

    `patterns` are the nodes along a walk through each pattern `[P, L+1]`, -1 past the end; `pattern_score` their scores
    `[P]`, descending, in the units of the method; `pattern_name` the names of expected patterns, which have no walk;
    empty for the others. A subgraph keeps the patterns whose nodes are all in it.
    """

    def is_node_attr(self, key: str) -> bool:
        """Return whether an attribute has an entry per node; patterns never do."""
        return key not in _OF_PATTERNS and super().is_node_attr(key)

    def is_edge_attr(self, key: str) -> bool:
        """Return whether an attribute has an entry per edge; patterns never do."""
        return key not in _OF_PATTERNS and super().is_edge_attr(key)

    def subgraph(self, subset: Tensor) -> PatternExplanation:
        """Return the explanation restricted to some nodes."""
        part: PatternExplanation = super().subgraph(subset)
        kept = subset.nonzero().view(-1) if subset.dtype == torch.bool else subset
        number = torch.full((self.num_nodes + 1,), -2, device=self.patterns.device)  # the last is for -1
        number[kept], number[-1] = torch.arange(len(kept), device=number.device), -1
        patterns = number[self.patterns]
        whole = (patterns > -2).all(1)
        part.patterns, part.pattern_score = patterns[whole], self.pattern_score[whole]
        if "pattern_name" in self:
            part.pattern_name = [name for name, inside in zip(self.pattern_name, whole.tolist(), strict=True) if inside]
        return part


class PatternExplainer(ExplainerAlgorithm):  # type: ignore[misc]
    """Explains a `PatternModule` inside `torch_geometric.explain.Explainer` by the patterns that it reads.

    The masks of nodes and edges are the scores of the patterns through them, summed over patterns that speak for the
    prediction and over all explained instances, and scaled to a maximum of 1. Expected patterns have no nodes and edges
    of their own, so the masks do not hold them. The class in `target` is explained, given
    by the index of its logit (for yes-or-no outputs, 0 is no), or the value of a regression.

    `Explainer` first predicts all instances. On a large graph name those you want:
    `explainer(x, edge_index, instances=torch.tensor([17]))`.

    Args:
        method: auto or a method of `gpm.explain.attribution`. Attention is the same for every class, so it cannot
            explain a phenomenon.
        top: Use only so many patterns of an instance, the best first; by default all.
    """

    def __init__(self, method: Method = "auto", top: int | None = None) -> None:
        super().__init__()
        check_choice("method", method, METHODS)
        if top is not None and whole_number(top, "top") < 1:
            raise GpmError(f"top must be at least 1, got {top}.")
        self.method, self.top = method, top

    def supports(self) -> bool:
        """Return whether the settings of `Explainer` are supported; if not, log the reason."""
        config, name = self.explainer_config, type(self).__name__
        if config.node_mask_type not in (None, MaskType.object):
            _log.error("%s weighs nodes, not features; set node_mask_type to 'object' or None.", name)
            return False
        if self.method == "attention" and config.explanation_type is ExplanationType.phenomenon:
            _log.error("%s: attention is the same for every class; for a phenomenon choose another method.", name)
            return False
        return True

    def forward(
        self, model: nn.Module, x: Tensor, edge_index: Tensor, *, target: Tensor, index: int | Tensor | None = None,
        **kwargs: Any,
    ) -> PatternExplanation:  # fmt: skip
        """Explain the predictions `index`, by default all, of a `PatternModule`; `kwargs` are those of its `open`."""
        module = self._check(model)
        predictor, inputs = module.open(x, edge_index, **kwargs)
        rows = np.arange(len(inputs)) if index is None else np.arange(len(inputs))[np.atleast_1d(as_array(index))]
        if not len(rows):
            raise GpmError("index selects no prediction of the model; choose one of its rows.")
        walks, groups, scores = [], [], []
        for row in rows:
            bag = Bag.draw(predictor, module.task, inputs[row : row + 1])
            best, score = self._rank(module, bag, as_array(target), int(row))
            walks += [bag.walks[group.walks[0]] for group in best]
            groups += best
            scores.append(score)
        return self._assemble(np.array(walks), groups, np.concatenate(scores), edge_index, len(x))

    def _check(self, model: nn.Module) -> PatternModule:
        """Refuse a model that does not match the settings."""
        if not isinstance(model, PatternModule):
            raise GpmError(f"PatternExplainer explains a PatternModule(run), not a {kind_of(model)}.")
        mine = {"mode": model.mode, "task_level": LEVELS[model.level], "return_type": model.return_type}
        for name, value in mine.items():
            if (setting := getattr(self.model_config, name).value) != value:
                raise GpmError(f"The model_config has {name} {setting!r}, but the model's is {value!r}.")
        if model.mode != "multiclass_classification" and model.output is None and model.task.outputs > 1:
            raise GpmError(f"The model has {model.task.outputs} outputs; choose one with PatternModule(run, output=0).")
        return model

    def _rank(self, module: PatternModule, bag: Bag, target: NDArray, row: int) -> tuple[list[Group], NDArray]:
        """Return the patterns of an instance and their scores, the highest first."""
        column, sign = module.output or 0, 1
        if module.level == "link":
            column = int(bool(target.reshape(-1)[row]))
        elif module.mode == "multiclass_classification":
            column = int(target.reshape(-1)[row])
            if not 0 <= column < module.task.outputs:
                raise GpmError(f"target {column} is not a class; give an index from 0 to {module.task.outputs - 1}.")
        elif module.mode == "binary_classification" and not target.reshape(-1)[row]:
            sign = -1
        ranking = rank_patterns(bag, self.method, column)
        scores = ranking.scores if ranking.method == "attention" else sign * ranking.scores
        order = rank_groups(scores, ranking.groups)[: self.top]
        return [ranking.groups[i] for i in order], scores[order]

    def _assemble(
        self, walks: NDArray, groups: Sequence[Group], scores: NDArray, edge_index: Tensor, num_nodes: int
    ) -> PatternExplanation:
        order, device = np.argsort(-scores, kind="stable"), edge_index.device
        explanation = PatternExplanation(
            patterns=torch.from_numpy(walks[order]).to(device),
            pattern_score=torch.from_numpy(scores[order]).float().to(device),
            pattern_name=[groups[i].expected for i in order],
        )
        if self.explainer_config.node_mask_type is not None:
            nodes = np.zeros(num_nodes)
            for group, score in zip(groups, scores, strict=True):
                nodes[list(group.nodes)] += max(score, 0.0)
            explanation.node_mask = _scale(nodes)[:, None].to(device)
        if self.explainer_config.edge_mask_type is not None:
            explanation.edge_mask = _scale(_spread(weigh_edges(groups, scores), as_array(edge_index))).to(device)
        return explanation


def _spread(weights: dict[tuple[int, int], float], edge_index: NDArray) -> NDArray:
    """Assign the weights of undirected edges to the edges of a graph `[E]`; a self-loop gets 0."""
    numbers = np.append(number_pairs(np.array(list(weights), dtype=np.int64).reshape(-1, 2)), -1)
    values, order = np.append(list(weights.values()), 0.0), np.argsort(numbers)
    wanted = number_pairs(edge_index.T)
    index = order[np.minimum(np.searchsorted(numbers, wanted, sorter=order), len(order) - 1)]
    return np.where(numbers[index] == wanted, values[index], 0.0)


def _scale(mask: NDArray) -> Tensor:
    most = mask.max(initial=0.0)
    return torch.from_numpy(mask / most if most > 0 else mask).float()
