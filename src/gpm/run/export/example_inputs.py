"""What an exported program reads of instances of a run's graph: patterns drawn, rows gathered, laid out as tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from gpm.errors import GpmError
from gpm.nn import FeatureTable, LinkPatternMachine
from gpm.nn.anonymous_path import ShapeVocabulary, describe
from gpm.nn.feature_rows import SparseRows, Table
from gpm.nn.predictor import Predictor
from gpm.patterns.tokenizer import Patterns
from gpm.run.export.signature import list_inputs
from gpm.run.run import Run

PADDED = ("nodes", "edges")  # filled up with -1, the others with 0


class InputMaker:
    """Fills the inputs of an exported program for instances of a graph.

    Args:
        predictor: The model on its graph, on the CPU.
    """

    def __init__(self, predictor: Predictor) -> None:
        self.predictor, self.graph = predictor, predictor.tokenizer.graph
        self.table, self.node = predictor.table, predictor.table.node
        if predictor.table.bags:  # a program damps and scales bags of words by itself
            options = predictor.model.options
            self.node = FeatureTable(self.graph, features=options.features, stars=options.stars, bags=False).node

    def __call__(self, instances: NDArray, patterns: int | None = None) -> dict[str, Tensor]:
        """The inputs for nodes `[B]`, graphs `[B]` or pairs `[B, 2]`, given by their numbers."""
        found = self._draw(instances, patterns)
        nodes, found["nodes"] = _find_rows(found["nodes"])
        form = self.predictor.model.inputs.node
        if form == "sparse":
            found |= _take_sparse(self.node, nodes)
        else:
            rows = _take_dense(self.node, nodes)
            found["x"] = rows.long() if form == "categories" else rows.float()
        if self.table.pe is not None:
            found["pe"] = self.table.pe[nodes]
        if "edges" in found:
            crossed, found["edges"] = _find_rows(found["edges"])
            found["edge_attr"] = self._take_edges(crossed)
        names = [each.name for each in list_inputs(self.predictor)]
        return {name: found[name].contiguous() for name in names}

    def _take_edges(self, rows: Tensor) -> Tensor:
        edge = self.table.edge
        assert isinstance(edge, Tensor)
        return edge[rows] if len(rows) else edge.new_zeros(1, edge.shape[1])

    def _draw(self, instances: NDArray, patterns: int | None) -> dict[str, Tensor]:
        """What is said of every pattern, by the numbers of the graph's nodes and of its rows of edge features."""
        predictor = self.predictor
        count, rounds = predictor.portion(patterns)
        if not isinstance(predictor.model, LinkPatternMachine):
            return self._lay_out(predictor.tokenize(instances, count))
        if predictor.model.pair == "product":
            found = self._lay_out(predictor.tokenizer.nodes(instances.reshape(-1), count=count))
            return {name: each.view(len(instances), 2, *each.shape[1:]) for name, each in found.items()}
        drawn = [predictor.tokenize(instances, count, share=(i, rounds)) for i in range(rounds)]
        return _stack_rounds([_stack_sides(each, self._lay_out(each)) for each in drawn])

    def _lay_out(self, patterns: Patterns) -> dict[str, Tensor]:
        """Patterns `[B, M]` as the tensors that a model reads of them."""
        model, found = self.predictor.model, {"nodes": patterns.nodes.long()}
        if model.input_map.edge is not None:
            assert patterns.edges is not None
            found["edges"] = self._find_edge_rows(patterns.edges.long())
        if patterns.marks is not None:
            found["marks"] = patterns.marks.long()
        if patterns.sizes is not None:
            found["sizes"] = patterns.sizes.long()
        if model.anonymous is None or patterns.table.kind == "loops":
            return found
        if isinstance(model.anonymous.encoder, ShapeVocabulary):
            rows = torch.from_numpy(model.anonymous.encoder.find(patterns.table.keys))
            return found | {"shape": rows[patterns.topology]}
        adjacent = torch.from_numpy(describe(patterns.table, model.longest)[0][:, :, model.longest + 1 :] > 0)
        return found | {"adjacent": adjacent[patterns.topology]}

    def _find_edge_rows(self, edges: Tensor) -> Tensor:
        rows = self.table.edge_row
        return edges if rows is None or not len(rows) else torch.where(edges >= 0, rows[edges.clamp(min=0)], -1)


def make_inputs(run: Run, names: Sequence[Any], *, patterns: int | None = None) -> dict[str, Tensor]:
    """What an exported program reads of some instances, so that it says of them what `run.predict` says.

    Args:
        run: The run that was exported.
        names: Names of nodes, pairs of names, or numbers of graphs.
        patterns: Patterns per instance; by default the whole pool.

    Returns:
        Tensors by the program's keywords: `program.module()(**make_inputs(run, names))`.
    """
    if not len(names):
        raise GpmError("name at least one instance to make inputs of.")
    return InputMaker(find_predictor(run))(find_instances(run, names), patterns)


def find_predictor(run: Run) -> Predictor:
    """The model of a run on its graph, on the CPU; a baseline is a mistake, since it reads no patterns."""
    if run.config.model != "gpm":
        raise GpmError(f"{run.folder} holds the baseline {run.config.model}, which cannot be exported; only a gpm can.")
    predictor = (run if run.device == "cpu" else Run(run.folder, run.data, other=run.other)).predictor
    assert isinstance(predictor, Predictor)
    return predictor


def find_instances(run: Run, names: Sequence[Any]) -> NDArray[np.int64]:
    """Nodes `[B]`, graphs `[B]` or pairs `[B, 2]` by their names, as `run.predict` finds them."""
    graph, level = run.data.graph, run.data.level
    if level != "link":
        return run.find(list(names))
    for name in names:
        if isinstance(name, str) or not hasattr(name, "__len__") or len(name) != 2:
            raise GpmError(f"{run.folder} predicts links; give pairs of names, not {name!r}.")
    return np.array([[graph.find(one), graph.find(two)] for one, two in names])


def _find_rows(ids: Tensor) -> tuple[Tensor, Tensor]:
    """The distinct ids, ascending, and the place of each entry among them; -1 stays."""
    distinct, places = torch.unique(ids, return_inverse=True)
    none = int((distinct < 0).sum())
    return distinct[none:], places - none if none else places


def _take_dense(table: Table, rows: Tensor) -> Tensor:
    if not isinstance(table, SparseRows):
        assert table is not None
        return table[rows]
    columns, values, offsets = table.take(rows)
    dense = torch.zeros(len(rows), table.columns)
    dense[torch.searchsorted(offsets, torch.arange(len(columns)), right=True) - 1, columns] = values
    return dense


def _take_sparse(table: Table, rows: Tensor) -> dict[str, Tensor]:
    if isinstance(table, SparseRows):
        columns, values, offsets = table.take(rows)
    else:
        assert table is not None
        owner, columns = table[rows].nonzero(as_tuple=True)
        values = table[rows][owner, columns]
        offsets = torch.searchsorted(owner, torch.arange(len(rows)))
    return {"x_offsets": offsets, "x_indices": columns, "x_values": values.float()}


def _stack_sides(patterns: Patterns, found: dict[str, Tensor]) -> dict[str, Tensor]:
    """`[B, 2M, ...]` to `[B, 2, M, ...]`: the patterns of one end, then those of the other."""
    assert patterns.sides is not None
    masks = [patterns.sides == side for side in (0, 1)]
    return {name: torch.stack([each[:, mine] for mine in masks], 1) for name, each in found.items()}


def _stack_rounds(rounds: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    """`[B, 2, M, ...]` of each round to `[B, R, 2, M, ...]`; in a round with fewer patterns the rest is not there."""
    most, found = max(each["nodes"].shape[2] for each in rounds), {}
    for name in rounds[0]:
        parts = [each[name].movedim(2, -1) for each in rounds]
        fill = -1 if name in PADDED else 0
        parts = [functional.pad(part, (0, most - part.shape[-1]), value=fill).movedim(-1, 2) for part in parts]
        found[name] = torch.stack(parts, 1)
    return found
