"""Inputs of an exported program for instances of a run: patterns drawn, rows gathered, laid out as tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from gpm.errors import GpmError
from gpm.inference.opened import OpenedRun
from gpm.nn import FeatureTable, LinkPatternMachine
from gpm.nn.anonymous_path import ShapeVocabulary, describe
from gpm.nn.feature_map import SparseRows, Table
from gpm.nn.predictor import Predictor
from gpm.patterns.tokenizer import Patterns
from gpm.run.export.signature import list_inputs

PADDED = ("nodes", "edges")  # padded with -1, the others with 0


class InputMaker:
    """Makes the inputs of an exported program from a model on its graph, on the CPU."""

    def __init__(self, predictor: Predictor) -> None:
        self.predictor, self.graph = predictor, predictor.tokenizer.graph
        self.table, self.node = predictor.table, predictor.table.node
        if predictor.table.bags:  # a program damps and scales bags of words by itself
            options = predictor.model.options
            self.node = FeatureTable(self.graph, features=options.features, stars=options.stars, bags=False).node

    def __call__(self, instances: NDArray, patterns: int | None = None) -> dict[str, Tensor]:
        """Return the inputs for nodes `[B]`, graphs `[B]` or pairs `[B, 2]`, given by their ids."""
        inputs = self._draw(instances, patterns)
        nodes, inputs["nodes"] = _find_rows(inputs["nodes"])
        form = self.predictor.model.inputs.node
        if form == "sparse":
            inputs |= _take_sparse(self.node, nodes)
        else:
            rows = _take_dense(self.node, nodes)
            inputs["x"] = rows.long() if form == "categories" else rows.float()
        if self.table.pe is not None:
            inputs["pe"] = self.table.pe[nodes]
        if "edges" in inputs:
            crossed, inputs["edges"] = _find_rows(inputs["edges"])
            edge = self.table.edge
            assert isinstance(edge, Tensor)
            inputs["edge_attr"] = edge[crossed] if len(crossed) else edge.new_zeros(1, edge.shape[1])
        return {slot.name: inputs[slot.name].contiguous() for slot in list_inputs(self.predictor)}

    def _draw(self, instances: NDArray, patterns: int | None) -> dict[str, Tensor]:
        """Draw patterns; nodes are ids of the graph, edges are rows of the table of edge features."""
        predictor = self.predictor
        count, rounds = predictor.portion(patterns)
        if not isinstance(predictor.model, LinkPatternMachine):
            return self._lay_out(predictor.tokenize(instances, count))
        if predictor.model.pair == "product":
            drawn = self._lay_out(predictor.tokenizer.nodes(instances.reshape(-1), count=count))
            return {name: each.view(len(instances), 2, *each.shape[1:]) for name, each in drawn.items()}
        shares = [predictor.tokenize(instances, count, share=(i, rounds)) for i in range(rounds)]
        return _stack_rounds([_stack_sides(each, self._lay_out(each)) for each in shares])

    def _lay_out(self, patterns: Patterns) -> dict[str, Tensor]:
        """Lay out patterns `[B, M]` as tensors."""
        model, inputs = self.predictor.model, {"nodes": patterns.nodes.long()}
        if model.input_map.edge is not None:
            assert patterns.edges is not None
            rows, edges = self.table.edge_row, patterns.edges.long()
            if rows is not None and len(rows):
                edges = torch.where(edges >= 0, rows[edges.clamp(min=0)], -1)
            inputs["edges"] = edges
        if patterns.marks is not None:
            inputs["marks"] = patterns.marks.long()
        if patterns.sizes is not None:
            inputs["sizes"] = patterns.sizes.long()
        if model.anonymous is None or patterns.table.kind == "loops":
            return inputs
        if isinstance(model.anonymous.encoder, ShapeVocabulary):
            shapes = torch.from_numpy(model.anonymous.encoder.find(patterns.table.keys))
            return inputs | {"shape": shapes[patterns.topology]}
        adjacent = torch.from_numpy(describe(patterns.table, model.longest)[0][:, :, model.longest + 1 :] > 0)
        return inputs | {"adjacent": adjacent[patterns.topology]}


def make_inputs(run: OpenedRun, names: Sequence[Any], *, patterns: int | None = None) -> dict[str, Tensor]:
    """Make the inputs with which an exported program predicts what `run.predict` predicts.

    Args:
        run: The run that was exported.
        names: Names of nodes, pairs of names, or ids of graphs.
        patterns: Patterns per instance; by default the whole pool.

    Returns:
        Tensors by the program's keywords: `program.module()(**make_inputs(run, names))`.
    """
    if not len(names):
        raise GpmError("Name at least one instance to make inputs for.")
    return InputMaker(predictor_on_cpu(run))(run.find_inputs(list(names)), patterns)


def predictor_on_cpu(run: OpenedRun) -> Predictor:
    """Return the model of a run, which must read patterns, on its graph and on the CPU."""
    return (run if run.device == "cpu" else type(run)(run.folder, run.data, other=run.other)).pattern_predictor


def _find_rows(ids: Tensor) -> tuple[Tensor, Tensor]:
    """Return the distinct ids, ascending, and the index of each entry among them; -1 stays."""
    distinct, index = torch.unique(ids, return_inverse=True)
    none = int((distinct < 0).sum())
    return distinct[none:], index - none if none else index


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


def _stack_sides(patterns: Patterns, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    """Turn `[B, 2M, ...]` into `[B, 2, M, ...]`: the patterns of one end, then those of the other."""
    assert patterns.sides is not None
    masks = [patterns.sides == side for side in (0, 1)]
    return {name: torch.stack([each[:, mine] for mine in masks], 1) for name, each in inputs.items()}


def _stack_rounds(rounds: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    """Stack `[B, 2, M, ...]` of each round to `[B, R, 2, M, ...]`; a round with fewer patterns is padded."""
    most, stacked = max(each["nodes"].shape[2] for each in rounds), {}
    for name in rounds[0]:
        parts = [each[name].movedim(2, -1) for each in rounds]
        fill = -1 if name in PADDED else 0
        parts = [functional.pad(part, (0, most - part.shape[-1]), value=fill).movedim(-1, 2) for part in parts]
        stacked[name] = torch.stack(parts, 1)
    return stacked
