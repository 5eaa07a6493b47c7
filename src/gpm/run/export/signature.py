"""Inputs and outputs of an exported program: names, types, shapes and descriptions."""

from __future__ import annotations

from dataclasses import dataclass

from gpm.nn import LinkPatternMachine
from gpm.nn.anonymous_path import ShapeVocabulary
from gpm.nn.predictor import Predictor
from gpm.tasks import Task, ValueTask

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
    """One input or output tensor of a program.

    Attributes:
        name: Its keyword.
        kind: float32, float64, int64 or bool.
        shape: Numbers, and letters for sizes that may differ from call to call.
        about: Description.
    """

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
        slots.append(
            Slot("marks", "int64", (*bag, positions), f"0 to {len(model.marks) - 1}, as gpm.patterns.meetings says")
        )
    slots += _list_topology(predictor, bag, positions)
    if predictor.level == "graph" and model.options.readout == "sum":
        slots.append(Slot("sizes", "int64", ("B",), "nodes of each graph"))
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
    values, options = isinstance(task, ValueTask), predictor.model.options
    shape: tuple[int | str, ...] = ("B", task.outputs)
    slots = [Slot("logits", "float32", shape, "what the model says of each output")]
    if values:
        slots.append(Slot("value", "float64", shape, "each target in its own units"))
    else:
        slots.append(Slot("probability", "float32", shape, "of each class, of each label, or of the link"))
    if predictor.level != "link" and (options.readout == "class" or options.fusion):
        slots.append(Slot("weights", "float32", ("B", "M"), "how much each pattern counted, adding up to 1"))
    return slots


def bag_shape(predictor: Predictor) -> tuple[int | str, ...]:
    """Return the leading shape of inputs that describe patterns.

    M patterns for each of B instances; for a link M from each end; by `joint` R times, over which logits are averaged.
    """
    if not isinstance(predictor.model, LinkPatternMachine):
        return "B", "M"
    return ("B", 2, "M") if predictor.model.pair == "product" else ("B", "R", 2, "M")


def _name_features(predictor: Predictor) -> str:
    """Describe the columns of x."""
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
