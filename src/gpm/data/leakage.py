"""Check splits for leakage: the parts do not overlap, and nothing that is held out can be seen."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from gpm.data.catalog import CATALOG, spell
from gpm.data.graph_files import load_graph
from gpm.data.link_data import LinkData, load_link_data
from gpm.data.non_edges import contains, distinct, number_edges, number_pairs
from gpm.data.sources import load_task_data
from gpm.data.splits import PARTS, LinkSplit, Split
from gpm.data.task_data import TaskData
from gpm.errors import GpmError
from gpm.graph.graph import Graph
from gpm.patterns.walks import has_edge, walk

HELD_OUT = ("val", "test")
WALKS, LENGTH, MOST_STARTS = 64, 8, 4096  # walks from each end of a held-out edge; at most so many ends
FRESH, TURNS = 4096, 4  # training negatives of a step, and steps, that are looked at
MOST_EDGES = 20_000_000  # above, the links of a dataset that is known for something else are left alone


def check_source(source: str) -> list[str]:
    """Check the splits of a dataset, a graph folder or a file with seed 0, and say line by line what holds."""
    entry, lines = CATALOG.get(spell(source)), list[str]()
    if (load_graph(source).y is not None) if entry is None else (entry.task != "link"):
        data = load_task_data(source)
        lines, graph = check_data(data, data.make_split(seed=0)), data.graph
        if graph.graph_ptr is not None:
            return lines
        if graph.num_edges > MOST_EDGES:
            return [*lines, _line("links", f"not checked: {graph.num_edges:,} directed edges are many")]
    links = load_link_data(source)
    return lines + check_links(links, links.make_split(seed=0))


def check_data(data: TaskData, split: Split) -> list[str]:
    """Check a split of some data, and say line by line what holds."""
    if isinstance(data, LinkData) and isinstance(split, LinkSplit):
        return check_links(data, split)
    return check_parts(split, data.num_instances)


def check_parts(split: Split, count: int) -> list[str]:
    """Verify that the parts of a split of nodes or graphs are disjoint and among `count` instances."""
    ids, owner, sizes = _gather(partial(getattr, split), PARTS)
    if ids.size and not 0 <= ids.min() <= ids.max() < count:
        bad = ids[(ids < 0) | (ids >= count)][0]
        raise GpmError(f"The split {split.name!r} names instance {bad}, but there are {count:,}; make it again.")
    if (twice := _first_twice(ids)) is not None:
        i, j = twice
        where = f"in {owner[i]} and in {owner[j]}"
        raise GpmError(f"Instance {ids[i]} is {where} of the split {split.name!r}; make it again.")
    digest = _line("split", f"{split.name}, digest {split.digest}")
    return [digest, _line("sizes", f"{sizes} of {count:,}; none is in two splits")]


def check_links(data: LinkData, split: LinkSplit) -> list[str]:
    """Verify that nothing held out can be seen, and say so line by line; raise an error that names the first pair.

    Under the protocol `paper`, and for published splits, leaks are counted instead.
    """
    walked = data.walked_graph(split)
    lines = [_line("links", f"{data.title}, {split.name}, digest {split.digest}")]
    if split.protocol == "paper":
        return lines + _count_leaks(split, data.graph, walked)
    published = data.published is not None
    lines += _count_published(split) if published else [_check_edges(data, split), _check_negatives(data, split)]
    known = distinct(number_pairs(split.edges_of("train"))) if published else np.empty(0, dtype=np.int64)
    held = split.edges_of(*HELD_OUT)
    held = held[~contains(known, number_pairs(held))]
    return [
        *lines,
        _check_walked(data, split, walked, held),
        _check_walks(data.graph, walked, held),
        _check_fresh(data, split),
    ]


def _check_edges(data: LinkData, split: LinkSplit) -> str:
    """Check that edges are edges of the graph, each in one part, in either direction."""
    pairs, owner, sizes = _gather(split.edges_of, PARTS)
    numbers = number_pairs(pairs)
    if (wrong := np.flatnonzero(~contains(number_edges(data.graph), numbers))).size:
        i = wrong[0]
        _refuse(data.graph, split, pairs[i], f"counts as an edge of {owner[i]} but is none of the graph")
    if (twice := _first_twice(numbers)) is not None:
        i, j = twice
        where = f"in {owner[i]} and in {owner[j]}" if owner[i] != owner[j] else f"twice in {owner[i]}"
        reverse = ", the other way round" if pairs[i, 0] != pairs[j, 0] else ""
        _refuse(data.graph, split, pairs[i], f"is an edge {where}{reverse}")
    return _line("edges", f"{sizes}; no edge is in two splits, in either direction")


def _check_negatives(data: LinkData, split: LinkSplit) -> str:
    """Check that negatives are non-edges, each in one part."""
    pairs, owner, sizes = _gather(split.negatives_of, HELD_OUT)
    numbers = number_pairs(pairs)
    edges = distinct(np.concatenate([number_edges(data.graph), number_pairs(split.edges_of(*PARTS))]))
    if (wrong := np.flatnonzero((numbers < 0) | contains(edges, numbers))).size:
        i = wrong[0]
        what = "a node with itself" if numbers[i] < 0 else "an edge"
        _refuse(data.graph, split, pairs[i], f"is a negative of {owner[i]} but is {what}")
    if (twice := _first_twice(numbers)) is not None:
        i, j = twice
        where = f"of {owner[i]} and of {owner[j]}" if owner[i] != owner[j] else f"twice of {owner[i]}"
        _refuse(data.graph, split, pairs[i], f"is a negative {where}")
    return _line("negatives", f"{sizes}; all are non-edges, all different, none is shared")


def _check_walked(data: LinkData, split: LinkSplit, walked: Graph, held: NDArray) -> str:
    """Check that no held-out edge is in the walked graph, and no training edge is missing."""
    for pairs in (held, held[:, ::-1]):
        if (seen := np.flatnonzero(has_edge(walked, pairs[:, 0], pairs[:, 1]))).size:
            _refuse(data.graph, split, pairs[seen[0]], "is held out but is in the walked graph")
    train = split.edges_of("train")
    if (lost := np.flatnonzero(~contains(number_edges(walked), number_pairs(train)))).size:
        _refuse(data.graph, split, train[lost[0]], "is a training edge but is not in the walked graph")
    size = f"{walked.num_edges:,} of {data.graph.num_edges:,} directed edges"
    return _line("walked graph", f"{size}; none of {len(held):,} held-out edges, in either direction")


def _check_walks(graph: Graph, walked: Graph, held: NDArray) -> str:
    """Check that no walk from an end of a held-out edge crosses one."""
    ends = distinct(held)
    starts = ends[np.linspace(0, len(ends) - 1, min(len(ends), MOST_STARTS)).astype(np.int64)]
    nodes, _ = walk(walked, starts[:, None], np.arange(WALKS), LENGTH)
    steps = np.stack([nodes[..., :-1], nodes[..., 1:]], axis=-1).reshape(-1, 2)
    if (crossed := np.flatnonzero(contains(distinct(number_pairs(held)), number_pairs(steps)))).size:
        a, b = (graph.name(int(node)) for node in steps[crossed[0]])
        raise GpmError(f"A walk goes from {a!r} to {b!r}, which is held out; do not walk this graph.")
    drawn = f"{len(steps):,} steps of {WALKS} walks from each of {len(starts):,} ends"
    return _line("walks", f"{drawn} of held-out edges; none crosses one")


def _check_fresh(data: LinkData, split: LinkSplit) -> str:
    """Check that training negatives are non-edges and no negatives of val or test."""
    drawn = np.concatenate([data.draw_negatives(split, FRESH, seed=0, turn=turn) for turn in range(TURNS)])
    numbers = number_pairs(drawn)
    taken = distinct(np.concatenate([number_edges(data.graph), number_pairs(split.pairs)]))
    if (wrong := np.flatnonzero((numbers < 0) | contains(taken, numbers))).size:
        what = "is drawn as a training negative but is an edge or a saved negative"
        _refuse(data.graph, split, drawn[wrong[0]], what)
    return _line("training", f"{len(drawn):,} fresh negatives of {TURNS} steps; none is an edge or a saved negative")


def _count_published(split: LinkSplit) -> list[str]:
    """Describe a published split; repeated pairs are counted and not refused."""
    train, lines = distinct(number_pairs(split.edges_of("train"))), []
    for part in HELD_OUT:
        yes, no = number_pairs(split.edges_of(part)), number_pairs(split.negatives_of(part))
        again = int(contains(train, yes).sum())
        loops, edges = int((no < 0).sum()), int(contains(distinct(np.concatenate([train, yes])), no).sum())
        repeats = f"{len(yes):,} edges, of which {again:,} are training pairs too (published so)"
        wrong = f"{loops:,} pair a node with itself and {edges:,} are edges of train or {part} (published so)"
        lines.append(_line(part, f"{repeats}; {len(no):,} negatives, of which {wrong}"))
    return [_line("train", f"{len(train):,} pairs with an edge"), *lines]


def _count_leaks(split: LinkSplit, graph: Graph, walked: Graph) -> list[str]:
    """Count what a model can see of the test edges under the paper's protocol."""
    train, test, no = split.edges_of("train"), split.edges_of("test"), split.negatives_of("test")
    keys = distinct(train[:, 0] * split.num_nodes + train[:, 1])
    reverse = float(contains(keys, test[:, 1] * split.num_nodes + test[:, 0]).mean())
    there = float(has_edge(walked, test[:, 0], test[:, 1]).mean())
    wrong = float((has_edge(graph, no[:, 0], no[:, 1]) | (no[:, 0] == no[:, 1])).mean())
    met, unmet = f"{_share_met(walked, test):.1%}", f"{_share_met(walked, no):.1%}"
    return [
        _line("LEAK", f"{there:.1%} of {len(test):,} test edges are in the walked graph"),
        _line("LEAK", f"{reverse:.1%} of them have their reverse in training"),
        _line("LEAK", f"{met} have their far end on one of {WALKS} walks of the near end; of negatives {unmet}"),
        _line("negatives", f"{wrong:.1%} of {len(no):,} test negatives are edges or pair a node with itself"),
    ]


def _share_met(walked: Graph, pairs: NDArray) -> float:
    """Return the share of pairs whose second node lies on a walk of the first."""
    some = pairs[np.linspace(0, len(pairs) - 1, min(len(pairs), MOST_STARTS)).astype(np.int64)]
    nodes, _ = walk(walked, some[:, :1], np.arange(WALKS), LENGTH)
    return float((nodes == some[:, 1, None, None]).any(axis=(1, 2)).mean())


def _gather(rows_of: Callable[[str], NDArray], parts: tuple[str, ...]) -> tuple[NDArray, NDArray, str]:
    """Return the rows of some parts, the part of each row, and the sizes of the parts as text."""
    blocks = [rows_of(part) for part in parts]
    sizes = ", ".join(f"{len(rows):,} {part}" for rows, part in zip(blocks, parts, strict=True))
    return np.concatenate(blocks), np.repeat(parts, [len(rows) for rows in blocks]), sizes


def _first_twice(numbers: NDArray[np.int64]) -> tuple[int, int] | None:
    """Return the first two indices of a repeated number; None if all differ."""
    order = np.argsort(numbers, kind="stable")
    same = np.flatnonzero(numbers[order][1:] == numbers[order][:-1])
    return (int(order[same[0]]), int(order[same[0] + 1])) if same.size else None


def _refuse(graph: Graph, split: LinkSplit, pair: NDArray, what: str) -> NoReturn:
    a, b = (graph.name(int(node)) for node in pair)
    raise GpmError(f"The pair {a!r} and {b!r} {what} (split {split.name!r}); make the split again.")


def _line(key: str, value: str) -> str:
    return f"{key:<16}{value}"
