"""The command `gpm data check`: proof that the parts of a split do not overlap and nothing held out is seen."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import numpy as np
from numpy.typing import NDArray

from gpm.data.catalog import CATALOG, spell
from gpm.data.graph_files import load_graph
from gpm.data.link_data import LinkData, LinkSplit, load_link_data
from gpm.data.non_edges import contains, distinct, number_edges, number_pairs
from gpm.data.splits import PARTS, Split
from gpm.errors import GpmError
from gpm.graph.graph import Graph
from gpm.patterns.walks import has_edge, walk

if TYPE_CHECKING:
    from gpm.data.sources import TaskData

HELD_OUT = ("val", "test")
WALKS, LENGTH, MOST_STARTS = 64, 8, 4096  # walks from each end of a held-out edge; at most so many ends
FRESH, TURNS = 4096, 4  # training negatives of a step, and steps, that are looked at
MOST_EDGES = 20_000_000  # above, the links of a dataset that is known for something else are left alone


def check(source: str) -> None:
    """Check the split of a run, or the usual split of a dataset, and print what was verified.

    Args:
        source: A run folder, a dataset's name, a saved graph's folder, an edge list or a PyG file.
    """
    for line in check_source(source):
        print(line)


def check_source(source: str) -> list[str]:
    """What holds of the split of a run, or of the splits of a dataset with seed 0, line by line."""
    from gpm.io.run_files import CONFIG, SPLIT

    folder = Path(source).expanduser()
    if (folder / CONFIG).is_file() and (folder / SPLIT).is_file():
        return _check_run(folder)
    lines, graph = _check_labelled(source)
    if graph is None or graph.graph_ptr is None:
        if graph is not None and graph.num_edges > MOST_EDGES:
            return [*lines, _line("links", f"not checked: {graph.num_edges:,} directed edges are many")]
        data = load_link_data(source)
        lines += check_links(data, data.make_split(seed=0))
    return lines


def check_parts(split: Split, count: int) -> list[str]:
    """Verify that the parts of a split of nodes or graphs are disjoint and among `count` instances."""
    sizes = ", ".join(f"{len(getattr(split, part)):,} {part}" for part in PARTS)
    owner = np.repeat(np.arange(3), [len(getattr(split, part)) for part in PARTS])
    ids = np.concatenate([getattr(split, part) for part in PARTS])
    if ids.size and not 0 <= ids.min() <= ids.max() < count:
        bad = ids[(ids < 0) | (ids >= count)][0]
        raise GpmError(f"the split {split.name!r} names instance {bad}, but there are {count:,}; make it again.")
    if (twice := _first_twice(ids)) is not None:
        a, b = (PARTS[owner[i]] for i in twice)
        raise GpmError(f"instance {ids[twice[0]]} is in {a} and in {b} of the split {split.name!r}; make it again.")
    return [
        _line("split", f"{split.name}, digest {split.digest}"),
        _line("parts", f"{sizes} of {count:,}; none is in two parts"),
    ]


def check_links(data: LinkData, split: LinkSplit) -> list[str]:
    """Verify that nothing held out can be seen; under `paper`, and of what is published so, count what can.

    Returns:
        What was verified, with counts, line by line.

    Raises:
        GpmError: Names the first pair that breaks a law.
    """
    walked = data.walked(split)
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
    """Edges are edges of the graph, each in one part, whichever way round."""
    parts = [split.edges_of(part) for part in PARTS]
    pairs, owner = np.concatenate(parts), np.repeat(PARTS, [len(part) for part in parts])
    numbers = number_pairs(pairs)
    if (wrong := np.flatnonzero(~contains(number_edges(data.graph), numbers))).size:
        i = wrong[0]
        _refuse(data.graph, split, pairs[i], f"counts as an edge of {owner[i]} but is none of the graph")
    if (twice := _first_twice(numbers)) is not None:
        i, j = twice
        where = f"in {owner[i]} and in {owner[j]}" if owner[i] != owner[j] else f"twice in {owner[i]}"
        reverse = ", the other way round" if pairs[i, 0] != pairs[j, 0] else ""
        _refuse(data.graph, split, pairs[i], f"is an edge {where}{reverse}")
    sizes = ", ".join(f"{len(edges):,} {part}" for edges, part in zip(parts, PARTS, strict=True))
    return _line("edges", f"{sizes}; none is in two parts, in neither direction")


def _check_negatives(data: LinkData, split: LinkSplit) -> str:
    """Negatives are non-edges, each in one part."""
    parts = [split.negatives_of(part) for part in HELD_OUT]
    pairs, owner = np.concatenate(parts), np.repeat(HELD_OUT, [len(part) for part in parts])
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
    sizes = ", ".join(f"{len(no):,} {part}" for no, part in zip(parts, HELD_OUT, strict=True))
    return _line("negatives", f"{sizes}; all are non-edges, all different, none is shared")


def _check_walked(data: LinkData, split: LinkSplit, walked: Graph, held: NDArray) -> str:
    """No held-out edge is in the walked graph, and no training edge is missing."""
    for pairs in (held, held[:, ::-1]):
        if (seen := np.flatnonzero(has_edge(walked, pairs[:, 0], pairs[:, 1]))).size:
            _refuse(data.graph, split, pairs[seen[0]], "is held out but is in the walked graph")
    train = split.edges_of("train")
    if (lost := np.flatnonzero(~contains(number_edges(walked), number_pairs(train)))).size:
        _refuse(data.graph, split, train[lost[0]], "is a training edge but is not in the walked graph")
    size = f"{walked.num_edges:,} of {data.graph.num_edges:,} directed edges"
    return _line("walked graph", f"{size}; none of {len(held):,} held-out edges, in neither direction")


def _check_walks(graph: Graph, walked: Graph, held: NDArray) -> str:
    """No walk from an end of a held-out edge crosses one."""
    ends = distinct(held)
    starts = ends[np.linspace(0, len(ends) - 1, min(len(ends), MOST_STARTS)).astype(np.int64)]
    nodes, _ = walk(walked, starts[:, None], np.arange(WALKS), LENGTH)
    steps = np.stack([nodes[..., :-1], nodes[..., 1:]], axis=-1).reshape(-1, 2)
    if (crossed := np.flatnonzero(contains(distinct(number_pairs(held)), number_pairs(steps)))).size:
        a, b = (graph.name(int(node)) for node in steps[crossed[0]])
        raise GpmError(f"a walk goes from {a!r} to {b!r}, which is held out; do not walk this graph.")
    drawn = f"{len(steps):,} steps of {WALKS} walks from each of {len(starts):,} ends"
    return _line("walks", f"{drawn} of held-out edges; none crosses one")


def _check_fresh(data: LinkData, split: LinkSplit) -> str:
    """Training negatives are non-edges and no negatives of val or test."""
    drawn = np.concatenate([data.draw_negatives(split, FRESH, seed=0, turn=turn) for turn in range(TURNS)])
    numbers = number_pairs(drawn)
    taken = distinct(np.concatenate([number_edges(data.graph), number_pairs(split.pairs)]))
    if (wrong := np.flatnonzero((numbers < 0) | contains(taken, numbers))).size:
        _refuse(
            data.graph, split, drawn[wrong[0]], "is drawn as a training negative but is an edge or a saved negative"
        )
    return _line("training", f"{len(drawn):,} fresh negatives of {TURNS} steps; none is an edge or a saved negative")


def _count_published(split: LinkSplit) -> list[str]:
    """What a published split holds; what it repeats is counted and not refused."""
    train, lines = distinct(number_pairs(split.edges_of("train"))), []
    for part in HELD_OUT:
        yes, no = number_pairs(split.edges_of(part)), number_pairs(split.negatives_of(part))
        again = int(contains(train, yes).sum())
        loops, edges = int((no < 0).sum()), int(contains(distinct(np.concatenate([train, yes])), no).sum())
        lines.append(
            _line(
                part,
                f"{len(yes):,} edges, of which {again:,} are training pairs too (published so); {len(no):,} negatives, "
                f"of which {loops:,} pair a node with itself and {edges:,} are edges of train or {part} (published so)",
            )
        )
    return [_line("train", f"{len(train):,} pairs with an edge"), *lines]


def _count_leaks(split: LinkSplit, graph: Graph, walked: Graph) -> list[str]:
    """What a model can see of the test edges under the paper's protocol."""
    train, test, no = split.edges_of("train"), split.edges_of("test"), split.negatives_of("test")
    keys = distinct(train[:, 0] * split.num_nodes + train[:, 1])
    reverse = float(contains(keys, test[:, 1] * split.num_nodes + test[:, 0]).mean())
    there = float(has_edge(walked, test[:, 0], test[:, 1]).mean())
    wrong = float((has_edge(graph, no[:, 0], no[:, 1]) | (no[:, 0] == no[:, 1])).mean())
    met, unmet = _share_met(walked, test), _share_met(walked, no)
    return [
        _line("LEAK", f"{there:.1%} of {len(test):,} test edges are in the walked graph"),
        _line("LEAK", f"{reverse:.1%} of them have their reverse in training"),
        _line(
            "LEAK", f"{met:.1%} have their far end on one of {WALKS} walks of the near end; of negatives {unmet:.1%}"
        ),
        _line("negatives", f"{wrong:.1%} of {len(no):,} test negatives are edges or pair a node with itself"),
    ]


def _share_met(walked: Graph, pairs: NDArray) -> float:
    """The share of pairs whose second node lies on a walk of the first."""
    some = pairs[np.linspace(0, len(pairs) - 1, min(len(pairs), MOST_STARTS)).astype(np.int64)]
    nodes, _ = walk(walked, some[:, :1], np.arange(WALKS), LENGTH)
    return float((nodes == some[:, 1, None, None]).any(axis=(1, 2)).mean())


def _check_run(folder: Path) -> list[str]:
    from gpm.io.run_files import RESULT, SPLIT
    from gpm.run.run import Run

    run = Run(folder)
    split = run.split
    if not run.config.data:
        raise GpmError(f"{folder} was trained on a graph in memory; give it to gpm.data.leakage.check_links in Python.")
    if (folder / RESULT).is_file() and (scored := run.result.get("split_digest")) != split.digest:
        raise GpmError(
            f"the figures in {folder} are of the split {scored}, but {SPLIT} is {split.digest}; train again."
        )
    if isinstance(run.data, LinkData) and isinstance(split, LinkSplit):
        return check_links(run.data, split)
    return check_parts(split, _count_instances(run.data))


def _check_labelled(source: str) -> tuple[list[str], Graph | None]:
    """The split of labelled nodes or graphs, and the graph; nothing where links are all there is to predict."""
    from gpm.data.sources import load_task_data

    entry = CATALOG.get(spell(source))
    if (load_graph(source).y is None) if entry is None else (entry.task == "link"):
        return [], None
    data = load_task_data(source)
    return check_parts(data.make_split(seed=0), _count_instances(data)), data.graph


def _count_instances(data: TaskData) -> int:
    return data.graph.num_graphs if data.level == "graph" else data.graph.num_nodes


def _first_twice(numbers: NDArray[np.int64]) -> tuple[int, int] | None:
    """The places of a number that is there twice; None if all differ."""
    order = np.argsort(numbers, kind="stable")
    same = np.flatnonzero(numbers[order][1:] == numbers[order][:-1])
    return (int(order[same[0]]), int(order[same[0] + 1])) if same.size else None


def _refuse(graph: Graph, split: LinkSplit, pair: NDArray, what: str) -> NoReturn:
    a, b = (graph.name(int(node)) for node in pair)
    raise GpmError(f"the pair {a!r} and {b!r} {what} (split {split.name!r}); make the split again.")


def _line(key: str, value: str) -> str:
    return f"{key:<16}{value}"
