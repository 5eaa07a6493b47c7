"""What an expected pattern says of an instance, in words and in the user's columns.

A column contributes the derivative of the evidence by the column, times how far the instance is from the average of the
training split. Wide features are read through a projection; their contributions are taken back through it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray

from gpm.data.column_names import name_columns
from gpm.data.graph_data import GraphData
from gpm.data.non_edges import hide_edges
from gpm.data.smiles import ATOM_SIZES, name_atoms
from gpm.data.smiles import DESCRIPTORS as MOLECULE
from gpm.explain.bag import Bag
from gpm.explain.explanation import Column
from gpm.explain.node_types import find_kinds
from gpm.inference.opened import OpenedRun
from gpm.nn.counts import Counts
from gpm.nn.expected_table import LABELS, POSITION, STEP, STRUCTURE, STRUCTURE_STEPS, ExpectedTable
from gpm.nn.frequencies import FREQUENCIES, make_tokenizer
from gpm.nn.graph_columns import DESCRIPTORS, SIZE, SIZES, SPREAD
from gpm.nn.neighbourhoods import NEIGHBOURHOODS
from gpm.nn.predictor import evaluating
from gpm.nn.step_columns import Form
from gpm.patterns.known_labels import PRIOR, STEPS
from gpm.patterns.pair_structure import PAIR_COLUMNS
from gpm.patterns.shape_names import name_shape, shape_of
from gpm.patterns.structure import COLUMNS
from gpm.patterns.walk_means import walk_law
from gpm.tasks import ClassTask, ValueTask

SHOWN = 8  # columns of a pattern in an explanation
LOG = " (log)"  # in names of columns that hold log(1 + x)
SPOKEN = 3  # columns that its text names
LEAST = 0.1  # of the largest contribution; smaller ones are not named


@dataclass(frozen=True)
class Content:
    """The columns of an expected pattern that count the most, and the pattern in words."""

    text: str
    columns: tuple[Column, ...]


def name_expected(name: str, level: str) -> str:
    """Return the name of an expected pattern in print."""
    if name.startswith(STEP):
        steps = steps_of(name)
        if level == "graph":
            return "mean of its nodes" if not steps else f"mean {steps} step{'s' * (steps > 1)} from its nodes"
        if level == "link":
            near = "features of the ends", "means of the ends' neighbours"
            return near[steps] if steps < 2 else f"means of the ends' {steps}-step neighbours"
        near = "own features", "mean of the neighbours"
        return near[steps] if steps < 2 else f"mean of the {steps}-step neighbours"
    structure = "structure between the ends" if level == "link" else "structure"
    named = {LABELS: "known labels around it", STRUCTURE: structure, POSITION: "position in the graph"}
    named |= {SPREAD: "how far its nodes differ", SIZE: "size", DESCRIPTORS: "descriptors of the molecule"}
    named |= {NEIGHBOURHOODS: "neighbourhoods of its nodes", FREQUENCIES: "frequencies of its topologies"}
    return named.get(name, name)


def steps_of(name: str) -> int:
    """Return how far an expected pattern reaches, in steps; -1 for one of the whole graph."""
    if name.startswith(STEP):
        return int(name.removeprefix(STEP))
    return {LABELS: STEPS, STRUCTURE: 1 + STRUCTURE_STEPS}.get(name, -1)


def find_contents(
    run: OpenedRun, bag: Bag, instance: NDArray, target: int, outputs: Sequence[str]
) -> dict[str, Content]:
    """Describe the expected patterns of an instance, by name, for the explained one of the named outputs."""
    expected = bag.predictor.model.expected
    if expected is None:
        return {}
    values, slopes = find_slopes(bag, target)
    bounds = np.cumsum([0, *expected.sizes])
    contents = {}
    for name, first, last in zip(expected.names, bounds, bounds[1:], strict=False):
        mine, slope = values[first:last], slopes[first:last]
        average = expected.shift[first:last].cpu().double().numpy()
        if name.startswith(STEP):
            if run.metadata["inputs"].get("projected"):
                projection = expected.projection.cpu().double().numpy()
                slope = np.concatenate([projection @ part for part in np.split(slope, expected.ends)])
                mine, average = _read_steps(run, bag, instance, steps_of(name))
            names = _name_features(run, expected_sizes(bag), len(mine) // expected.ends)
            if expected.ends > 1:
                names = [f"{column} of {run.data.graph.name(int(end))}" for end in instance[0] for column in names]
        elif expected.ends > 1:
            names = list(PAIR_COLUMNS)
        elif name == SIZE:
            names = _name_sizes(run, bag, len(mine))
        elif name == NEIGHBOURHOODS:
            names = _name_neighbourhoods(run, bag)
        elif name == FREQUENCIES:
            names = _name_frequencies(run, bag)
        else:
            names = _name_others(outputs, name, len(mine))
        columns = _choose(names, mine, average, slope)
        contents[name] = Content(_speak(run, name, mine, columns, outputs), columns)
    return contents


def find_slopes(bag: Bag, target: int) -> tuple[NDArray, NDArray]:
    """Return the columns of an instance `[D]`, and the derivative of the evidence for a class by each."""
    model, part = bag.predictor.model, bag.parts[0]
    assert model.expected is not None
    assert part.frame.expected is not None
    values = part.frame.expected[:1].to(part.encoded).clone().requires_grad_()
    frame = replace(part.frame, expected=values)
    with evaluating(model), torch.enable_grad():
        tokens = model.expected(model.expected.standardise(values))[0]
        encoded = torch.cat([part.encoded[: -len(model.expected)], tokens])
        measured = bag.measure(model.read(encoded[None], frame).logits)[0, target]
        (slope,) = torch.autograd.grad(measured, values)
    return tuple(each[0].detach().cpu().double().numpy() for each in (values, slope.nan_to_num(0.0)))  # type: ignore[return-value]


def expected_sizes(bag: Bag) -> list[int]:
    """Return the number of categories in each column of the features; empty if they are numbers."""
    return bag.predictor.model.inputs.expected_sizes


def _read_steps(run: OpenedRun, bag: Bag, instance: NDArray, steps: int) -> tuple[NDArray, NDArray]:
    """Return the exact mean over walks of so many steps in the user's columns, and its average over training.

    Of a link these are the means of both ends in the graph without it, and the average over all nodes.
    """
    graph = bag.predictor.tokenizer.graph
    x = Form.of(graph.x, expected_sizes(bag), bag.predictor.model.inputs.expected_bags).flatten(graph.x)
    if run.data.level == "link":
        rows = np.zeros((3, graph.num_nodes))
        rows[[0, 1], instance[0]], rows[2] = 1, 1 / graph.num_nodes
        graph = graph if bag.hidden is None else hide_edges(graph, instance)
    else:
        train = np.arange(run.data.num_instances) if run.other else run.split.train
        rows = np.stack([_spread(run, instance), _spread(run, train)])
    law = walk_law(graph)
    for _ in range(steps):
        rows = rows @ law
    mean = sp.csr_array(rows) @ x
    *mine, average = np.asarray(mean.toarray() if sp.issparse(mean) else mean, dtype=np.float64)
    return np.concatenate(mine), np.tile(average, len(mine))


def _spread(run: OpenedRun, instances: NDArray) -> NDArray[np.float64]:
    """Return the weight of each node `[N]` in the average of some instances."""
    graph = run.data.graph
    weights = np.zeros(graph.num_nodes)
    if run.data.level == "node":
        np.add.at(weights, instances, 1 / max(1, len(instances)))
        return weights
    pointer = np.array([0, graph.num_nodes]) if graph.graph_ptr is None else graph.graph_ptr
    for first, last in zip(pointer[instances], pointer[np.asarray(instances) + 1], strict=True):
        weights[first:last] = 1 / max(1, last - first) / max(1, len(instances))
    return weights


def _choose(names: list[str], values: NDArray, average: NDArray, slopes: NDArray) -> tuple[Column, ...]:
    """Return the columns that contribute most, the largest first."""
    contributed = np.nan_to_num(slopes * (values - average))
    order = np.argsort(-np.abs(contributed), kind="stable")[:SHOWN]
    return tuple(
        Column(names[i], float(f"{values[i]:.4g}"), float(f"{average[i]:.4g}"), float(contributed[i]))
        for i in order if contributed[i]
    )  # fmt: skip


def _name_features(run: OpenedRun, sizes: list[int], width: int) -> list[str]:
    if isinstance(run.data, GraphData) and run.data.lines is not None and len(sizes) == len(ATOM_SIZES):
        return [name for column, size in zip(name_atoms(), sizes, strict=True) for name in column[:size]]
    names = name_columns(run.config.data, run.folder, len(sizes) or width)
    return [f"{name} = {i}" for name, n in zip(names, sizes, strict=True) for i in range(n)] if sizes else names


def _name_sizes(run: OpenedRun, bag: Bag, width: int) -> list[str]:
    """Name the columns of sizes: counts, and sums of the features, which wide ones have by their projection."""
    count = width - len(SIZES)
    if run.metadata["inputs"].get("projected"):
        return [*SIZES, *(f"sum of coordinate {i + 1}" for i in range(count))]
    return [*SIZES, *(f"sum of {name}" for name in (_name_features(run, expected_sizes(bag), count) if count else ()))]


def _name_neighbourhoods(run: OpenedRun, bag: Bag) -> list[str]:
    """Name the counted neighbourhoods by the node in the middle and those around it."""
    counts, graph = _find_counts(bag, NEIGHBOURHOODS), bag.predictor.tokenizer.graph
    own = bag.predictor.model.options.features == "auto"  # else categories are not those of the features
    kinds = find_kinds(run.data, "" if run.other else run.config.data) if own else None
    names = []
    for (steps, _), centre in zip(counts.vocabulary.tolist(), counts.examples.tolist(), strict=True):
        far = "" if steps == 1 else f" within {steps} steps"
        around = [] if centre < 0 else graph.neighbors(centre).tolist()
        types = kinds.of_node([centre, *around]) if kinds and centre >= 0 else []
        if centre < 0:
            names.append(f"number of nodes with a neighbourhood{far} that is not in this data{LOG}")
        elif types and all(types):
            names.append(f"number of {types[0]}({','.join(sorted(types[1:]))}){far}{LOG}")
        else:
            names.append(
                f"number of nodes of one kind with {len(around)} neighbour{'s' * (len(around) != 1)}{far}{LOG}"
            )
    return names


def _name_frequencies(run: OpenedRun, bag: Bag) -> list[str]:
    """Name the counted topologies by the shape that walks visit, and where it is not the only one, by number."""
    counts, tokenizer = _find_counts(bag, FREQUENCIES), make_tokenizer(bag.predictor.tokenizer.graph, run.config)
    shapes: dict[int, str] = {}
    for graph in np.unique(counts.examples[counts.examples >= 0]):
        found = tokenizer.graphs([graph]).table
        wanted = set(counts.vocabulary[counts.examples == graph, 1].tolist())
        shapes |= {key: name_shape(shape_of(found, i)) for i, key in enumerate(found.keys.tolist()) if key in wanted}
    names, times = [], Counter[str]()
    for steps, key in counts.vocabulary.tolist():
        name = f"share of walks of {steps} step{'s' * (steps != 1)}: {shapes.get(key, 'not in this data')}"
        times[name] += 1
        names.append(name if times[name] == 1 else f"{name}, kind {times[name]}")
    return names


def _find_counts(bag: Bag, name: str) -> Counts:
    table = bag.predictor.expected
    assert isinstance(table, ExpectedTable)
    return next(counts for counts in table.counted if counts.name == name)


def _name_others(outputs: Sequence[str], name: str, width: int) -> list[str]:
    if name == STRUCTURE:
        near = ("", " of the neighbours", " 2 steps away")[: width // len(COLUMNS)]
        return [f"{column}{where}" for where in near for column in COLUMNS]
    if name == SPREAD:
        return [f"spread of the {column}" for column in COLUMNS]
    if name == DESCRIPTORS:
        return list(MOLECULE)
    if name != LABELS:
        return [f"coordinate {i + 1}" for i in range(width)]
    each = [*outputs, "share of walks to a known label"]
    return [f"{output}, {steps} step{'s' * (steps > 1)}" for steps in range(1, STEPS + 1) for output in each]


def _speak(run: OpenedRun, name: str, values: NDArray, columns: tuple[Column, ...], outputs: Sequence[str]) -> str:
    """Say in words what a pattern holds."""
    if name == LABELS:
        return _speak_labels(run, values, outputs)
    most = abs(columns[0].evidence) if columns else 0.0
    named = [column for column in columns[:SPOKEN] if abs(column.evidence) >= LEAST * most]
    if name in (STRUCTURE, SPREAD, SIZE, DESCRIPTORS, NEIGHBOURHOODS, FREQUENCIES):
        told = ((c, c.name.replace(LOG, "")) for c in named)
        return ", ".join(f"{'high' if c.value > c.average else 'low'} {column}" for c, column in told)
    if name == POSITION:
        return f"{', '.join(c.name for c in named)} count{'s' * (len(named) == 1)} most" if named else ""
    return ", ".join(f"{c.name} {'above' if c.value > c.average else 'below'} average" for c in named)


def _speak_labels(run: OpenedRun, values: NDArray, names: Sequence[str]) -> str:
    """Say which labels are known around a node, within one step or, if there are none, within two."""
    task = run.task
    for steps, block in enumerate(values.reshape(STEPS, -1), 1):
        mass = block[-1]
        if not mass > 0:  # nothing is known, or NaN
            continue
        mean, far = block[:-1] * (mass + PRIOR) / mass, "" if steps == 1 else f" {steps} steps away"
        if isinstance(task, ValueTask):
            units = mean * np.array(task.scale) + np.array(task.mean)
            return ", ".join(f"mean {n} {v:.4g}" for n, v in zip(names[:SPOKEN], units, strict=False)) + far
        assert isinstance(task, ClassTask)
        best = int(mean.argmax())
        most = "mostly" if mean[best] > 0.5 else "most often"
        return f"{most} {names[best]} ({mean[best]:.0%}){far}"
    return "none is known"
