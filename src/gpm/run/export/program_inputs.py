"""Inputs and outputs of an exported program: their names, types and shapes, and the inputs of a run's instances."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from gpm.errors import GpmError
from gpm.inference.opened import OpenedRun
from gpm.nn import FeatureTable, LinkPatternMachine
from gpm.nn.anonymous_path import ShapeVocabulary, describe
from gpm.nn.feature_rows import SparseRows, Table
from gpm.nn.predictor import Predictor
from gpm.patterns.tokenizer import Patterns
from gpm.tasks import Task, ValueTask

PADDED = ("nodes", "edges")  # padded with -1, the others with 0
LETTERS = {
    "B": "instances",
    "M": "patterns of an instance, or of each end of a link",
    "R": "times that a link is read, each time from other patterns",
    "n": "distinct nodes of the patterns",
    "k": "rows of edge features",
    "E": "entries of sparse features that are not zero",
}


@dataclass(frozen=True)
class Slot:
    """One input or output tensor of a program; letters in its shape are sizes that may differ from call to call."""

    name: str
    kind: str
    shape: tuple[int | str, ...]
    about: str


def list_inputs(predictor: Predictor) -> list[Slot]:
    """List the inputs of a program, in the order of its signature."""
    model, spec = predictor.model, predictor.model.inputs
    positions, bag = model.longest + 1, bag_shape(predictor)
    slots = [Slot("nodes", "int64", (*bag, positions), "rows of x that a walk passes, -1 past its end")]
    if spec.node == "sparse":
        whose = f"of {_name_features(predictor)}, {spec.node_dim} columns"
        slots += [
            Slot("x_offsets", "int64", ("n",), "first entry of the row of each distinct node"),
            Slot("x_indices", "int64", ("E",), f"columns of the entries {whose}"),
            Slot("x_values", "float32", ("E",), f"values of the entries {whose}"),
        ]
    else:
        kind = "int64" if spec.node == "categories" else "float32"
        about = f"{_name_features(predictor)}, a row per distinct node"
        slots.append(Slot("x", kind, ("n", spec.node_dim), about))
    if spec.pe_dim:
        about = f"positional embedding ({model.options.pe}), a row per distinct node"
        slots.append(Slot("pe", "float32", ("n", spec.pe_dim), about))
    if spec.edge != "none":
        kind = "int64" if spec.edge == "categories" else "float32"
        slots += [
            Slot("edges", "int64", (*bag, positions - 1), "row of edge_attr of every step, -1 where none was crossed"),
            Slot("edge_attr", kind, ("k", spec.edge_dim), "features of edges, at least one row"),
        ]
    if model.marks is not None:
        about = f"0 to {len(model.marks) - 1}, as gpm.patterns.meetings says"
        slots.append(Slot("marks", "int64", (*bag, positions), about))
    slots += _list_topology(predictor, bag, positions)
    if predictor.level == "graph" and model.options.readout == "sum":
        slots.append(Slot("sizes", "int64", ("B",), "nodes of each graph"))
    if spec.label_dim:
        about = "known label of each row and 1, or zeros where it is unknown; a node on its own walks is a row of zeros"
        slots.append(Slot("label", "float32", ("n", spec.label_dim), about))
    if spec.expected:
        groups = ", ".join(f"{name} ({size})" for name, size in spec.expected.items())
        about = f"what is known exactly of the instance, NaN where unknown: {groups}"
        if predictor.level == "link":
            about = f"of the graph without the link, as gpm.nn.link_table has it: {groups}"
        slots.append(Slot("expected", "float32", ("B", sum(spec.expected.values())), about))
    return slots


def _list_topology(predictor: Predictor, bag: tuple[int | str, ...], positions: int) -> list[Slot]:
    anonymous = predictor.model.anonymous
    if anonymous is None or predictor.tokenizer.topology == "loops":
        return []  # loops are read off the nodes
    if isinstance(anonymous.encoder, ShapeVocabulary):
        rows = len(anonymous.encoder.rows.weight)
        return [Slot("shape", "int64", bag, f"row of a pattern's shape in the vocabulary, 0 to {rows - 1}")]
    about = "whether an edge leads from the node at one position to that at the other, self-loops left out"
    return [Slot("adjacent", "bool", (*bag, positions, positions), about)]


def list_outputs(predictor: Predictor, task: Task) -> list[Slot]:
    """List the outputs of a program."""
    options, shape = predictor.model.options, ("B", task.outputs)
    slots = [Slot("logits", "float32", shape, "what the model says of each output")]
    if isinstance(task, ValueTask):
        slots.append(Slot("value", "float64", shape, "each target in its own units"))
    else:
        slots.append(Slot("probability", "float32", shape, "of each class, of each label, or of the link"))
    if predictor.level != "link" and (options.readout == "class" or options.fusion):
        known = len(predictor.model.inputs.expected)
        about = "how much each pattern counted, adding up to 1" + "; expected patterns come last" * bool(known)
        slots.append(Slot("weights", "float32", ("B", f"M + {known}" if known else "M"), about))
    return slots


def bag_shape(predictor: Predictor) -> tuple[int | str, ...]:
    """Return the leading shape of inputs that describe patterns.

    M patterns for each of B instances; for a link M from each end; by `joint` R times, over which logits are averaged.
    """
    if not isinstance(predictor.model, LinkPatternMachine):
        return "B", "M"
    return ("B", 2, "M") if predictor.model.pair == "product" else ("B", "R", 2, "M")


def _name_features(predictor: Predictor) -> str:
    options, spec, graph = predictor.model.options, predictor.model.inputs, predictor.tokenizer.graph
    if options.features == "constant":
        own = "the category 0"
    elif options.features == "degree" or (graph.x is None and options.stars):
        own = "the degree, at most 512"
    elif graph.x is None:
        own = "log(1 + degree)"
    else:
        own = "categories of the node" if spec.node == "categories" else "features of the node as they are"
    return f"{own}, and its star as gpm.nn.star_features numbers it" if options.stars else own


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
        rows, inputs["nodes"] = _find_rows(inputs["nodes"])
        nodes, label = self.table.find_labels(rows)
        if label is not None:
            inputs["label"] = label
        form = self.predictor.model.inputs.node
        if form == "sparse":
            inputs |= _take_sparse(self.node, nodes)
        else:
            taken = _take_dense(self.node, nodes)
            inputs["x"] = taken.long() if form == "categories" else taken.float()
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
        laid = [self._lay_out(each) for each in shares]
        known = laid[0].get("expected")  # the same in every share
        laid = [{name: part for name, part in each.items() if name != "expected"} for each in laid]
        stacked = _stack_rounds([_stack_sides(*pair) for pair in zip(shares, laid, strict=True)])
        return stacked if known is None else stacked | {"expected": known}

    def _lay_out(self, patterns: Patterns) -> dict[str, Tensor]:
        model, inputs = self.predictor.model, {"nodes": patterns.table_rows(self.table.num_nodes).long()}
        if model.input_map.edge is not None:
            assert patterns.edges is not None
            rows, edges = self.table.edge_row, patterns.edges.long()
            if rows is not None and len(rows):
                edges = torch.where(edges >= 0, rows[edges.clamp(min=0)], -1)
            inputs["edges"] = edges
        extras = {"marks": patterns.marks, "sizes": patterns.sizes}
        inputs |= {name: values.long() for name, values in extras.items() if values is not None}
        if patterns.expected is not None:
            inputs["expected"] = patterns.expected.float()
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
    return InputMaker(predictor_on_cpu(run))(run.find(list(names)), patterns)


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
