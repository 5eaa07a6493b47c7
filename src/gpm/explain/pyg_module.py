"""A run as a module that is called with a graph's tensors, as PyG calls its models."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, get_args

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from gpm.errors import GpmError
from gpm.explain.explainer import find_predictor
from gpm.graph.coerce import as_array, check_choice
from gpm.graph.graph import Graph
from gpm.inference.opened import OpenedRun
from gpm.nn.predictor import Predictor
from gpm.tasks import ClassTask, ValueTask, load_task

ReturnType = Literal["raw", "probs", "log_probs"]
Stamp = tuple[int, object] | None


class PatternModule(nn.Module):
    """A run as a module that is called with a graph's tensors, as PyG calls its models.

    The run's own graph is known by its content, whatever the order of its edges: answers are then those of
    `run.predict`, and of a link task the walks see no held-out edge. Another graph is built as the run's own was, with
    the same handling of duplicates and self-loops, and must have the features that the model reads. Where it reads none
    of nodes, only the number of rows of `x` counts. Answers have no gradients.

    Args:
        run: A trained run of a gpm.
        return_type: What is answered, in PyG's words: raw (logits; of a regression the values in their own units),
            probs or log_probs.
        output: Of several labels or values, the place of the one to answer; by default all.
    """

    def __init__(self, run: OpenedRun, return_type: ReturnType = "raw", output: int | None = None) -> None:
        super().__init__()
        predictor = find_predictor(run)
        check_choice("return_type", return_type, get_args(ReturnType))
        self.run, self.return_type, self.output = run, return_type, output
        self.task, self.level = load_task(run.metadata, None), str(run.metadata["task"])
        if return_type != "raw" and isinstance(self.task, ValueTask):
            raise GpmError(f"{run.folder} predicts values, which have no probabilities; leave return_type at raw.")
        if output is not None and (self.mode == "multiclass_classification" or not 0 <= output < self.task.outputs):
            raise GpmError(f"output {output} must be the place of one of several labels or values of {run.folder}.")
        self.model = predictor.model
        self._last: tuple[list[Stamp], tuple[Tensor | None, ...], Predictor] = ([], (), predictor)

    @property
    def mode(self) -> str:
        """What is predicted, in PyG's words."""
        if isinstance(self.task, ClassTask) and not self.task.multilabel:
            return "multiclass_classification"
        return "regression" if isinstance(self.task, ValueTask) else "binary_classification"

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor | None = None, **given: Any) -> Tensor:
        """Answer for all nodes `[N, C]`, pairs `[P, C]` or graphs `[G, C]`, or for some of them; see `open`."""
        predictor, asked = self.open(x, edge_index, edge_attr, **given)
        pointer, filled = predictor.tokenizer.graph.graph_ptr, np.ones(len(asked), dtype=bool)
        if self.level == "graph" and pointer is not None:
            filled = np.diff(pointer)[asked] > 0
        logits = torch.full((len(asked), self.task.outputs), torch.nan)  # what a graph without nodes has
        logits[torch.from_numpy(filled)] = predictor.logits(asked[filled])
        if self.return_type == "probs" or isinstance(self.task, ValueTask):
            logits = self.task.answers(logits).float()
        elif self.return_type == "log_probs":
            logits = self.task.answers(logits.double()).log().float()
        return (logits if self.output is None else logits[:, [self.output]]).to(edge_index.device)

    def open(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_attr: Tensor | None = None,
        *,
        edge_weight: Tensor | None = None,
        edge_label_index: Tensor | None = None,
        batch: Tensor | None = None,
        instances: Tensor | None = None,
    ) -> tuple[Predictor, NDArray[np.int64]]:
        """The model on a graph, and what it is asked for: nodes or graphs `[B]`, or pairs `[B, 2]`.

        Args:
            x: Node features `[N, d]`.
            edge_index: Edges `[2, E]`.
            edge_attr: Their features.
            edge_weight: Their weights `[E]`.
            edge_label_index: The pairs of a link task `[2, P]`.
            batch: The graph of each node of a collection `[N]`, ascending; by default there is one graph.
            instances: Of all nodes, pairs or graphs, those that are asked for; by default all.
        """
        if not isinstance(x, Tensor) or not isinstance(edge_index, Tensor):
            raise GpmError("x and edge_index must be tensors of a graph with nodes of one kind; x has a row per node.")
        predictor = self._place(x, edge_index, edge_attr, edge_weight, batch)
        graph = predictor.tokenizer.graph
        if self.level == "link":
            if edge_label_index is None:
                raise GpmError("a model of links scores pairs of nodes; give them as edge_label_index [2, P].")
            rows = np.ascontiguousarray(as_array(edge_label_index).T)
        else:
            rows = np.arange(graph.num_graphs if self.level == "graph" else graph.num_nodes)
        return predictor, rows if instances is None else rows[np.atleast_1d(as_array(instances))]

    def _place(self, *given: Tensor | None) -> Predictor:
        """The model on the graph of some tensors; PyG asks for the same one again and again, so the last is kept."""
        stamps = [_stamp(tensor) for tensor in given]
        if stamps != self._last[0]:
            own, reads = self.run.data.graph, self.run.config.features == "auto" and self.run.data.graph.x is not None
            graph = _build(own, *given, reads=reads)
            known = _is_same(graph, own, self.level, reads)
            predictor = self.run.predictor if known else self.run.predictor_for(graph)
            assert isinstance(predictor, Predictor)
            self._last = stamps, given, replace(predictor, model=self.model)  # stamps hold while the tensors live
        return self._last[2]


def _stamp(tensor: Tensor | None) -> Stamp:
    """What tells whether a tensor that is held is still as it was."""
    return None if tensor is None else (id(tensor), object() if tensor.is_inference() else tensor._version)


def _build(
    own: Graph, x: Any, edge_index: Any, edge_attr: Any, edge_weight: Any, batch: Any, *, reads: bool
) -> Graph:  # fmt: skip
    """A graph of PyG's tensors, made as the run's own was."""
    if own.edge_weight is not None and edge_weight is None:
        raise GpmError("the run's graph has weights on its edges; give edge_weight too.")
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
    """The features of each entry."""
    return graph.edge_attr if graph.edge_attr is None or graph.edge_ids is None else graph.edge_attr[graph.edge_ids]


def _equal(one: Any, two: Any) -> bool:
    """Whether two arrays hold the same, as far as the model can tell: it reads single precision."""
    if one is None or two is None or one.shape != two.shape:
        return one is two
    if sp.issparse(one) or sp.issparse(two):
        return bool((sp.csr_array(one, dtype=np.float32) != sp.csr_array(two, dtype=np.float32)).nnz == 0)
    return np.array_equal(one.astype(np.float32), two.astype(np.float32))
