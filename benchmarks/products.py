"""Tables of a made-up graph of the size of ogbn-products, in which structure tells more than a node's own features.

47 classes of uneven sizes hold communities of about 256 nodes. Of the edges 40% join nodes of a community, 35% nodes of a
class and 25% any two; beside those in a community, the ends are drawn with a skew, so that degrees are uneven as in a
real graph. Features are the centroid of the class, faint, and noise: a node by itself tells its class badly, the mean
over its neighbours tells it well. Equal arguments make equal tables; fewer nodes and edges make a small sister.

    python benchmarks/products.py --out products
    gpm import products/edges.parquet --nodes products/nodes.parquet --target category -o graph
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gpm.io.atomic import replacing

NODES, EDGES, FEATURES, CLASSES = 2_449_029, 123_718_024, 100, 47
TRAIN, VAL = 196_615 / NODES, 39_323 / NODES
COMMUNITY, IN_COMMUNITY, IN_CLASS = 256, 0.4, 0.35  # nodes, and shares of the edges
SKEW = 0.0015  # bounds what the first node of a class draws
SIGNAL = 0.14  # of a centroid, beside noise of 1
_CHUNK = 2**21  # edges that are drawn at once
_ROWS = 2**16  # nodes that are written at once
_PARTS, _NODES, _EDGES = range(3)  # streams of random numbers


@dataclass(frozen=True, eq=False)
class Plan:
    """Nodes in the order of their class, and what they are called.

    Attributes:
        label: The class of each place `[N]`.
        start, size: The first place of each class, and its places `[C]`.
        node: The number of the node at each place `[N]`.
    """

    label: NDArray[np.int64]
    start: NDArray[np.int64]
    size: NDArray[np.int64]
    node: NDArray[np.int64]


def make_plan(nodes: int, seed: int) -> Plan:
    """Uneven classes, the largest with a bit more than a quarter of the nodes."""
    share = np.arange(1, CLASSES + 1) ** -1.1
    stop = np.rint(np.cumsum(share) / share.sum() * nodes).astype(np.int64)
    size = np.diff(stop, prepend=0)
    label = np.repeat(np.arange(CLASSES), size)
    return Plan(label, stop - size, size, np.random.default_rng([seed, _PARTS]).permutation(nodes))


def skewed(even: NDArray) -> NDArray:
    """Numbers from 0 to 1, of which the small ones are frequent, from even ones."""
    return np.square(even + SKEW) / (1 + 2 * SKEW) - SKEW**2 / (1 + 2 * SKEW)


def draw_edges(plan: Plan, count: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """Keys of edges between two nodes, smaller number first; some may be equal, and loops are left out."""
    nodes, kind = len(plan.node), generator.random(count)
    first, second = (generator.integers(nodes, size=count) for _ in range(2))
    near, far = kind < IN_COMMUNITY, kind >= IN_COMMUNITY + IN_CLASS
    own = plan.label[first]
    other = np.where(far, plan.label[second], own)
    even = generator.random((2, count))
    source, target = (
        plan.start[group] + (skewed(u) * plan.size[group]).astype(np.int64)
        for group, u in zip((own, other), even, strict=True)
    )
    source[near] = first[near]
    target[near] = _find_near(plan, first[near], even[1][near])
    a, b = plan.node[source], plan.node[target]
    return (np.minimum(a, b) * nodes + np.maximum(a, b))[a != b]


def _find_near(plan: Plan, place: NDArray, even: NDArray) -> NDArray[np.int64]:
    """A place of the same community: those of a class that leave the same remainder."""
    label = plan.label[place]
    start, size, groups = plan.start[label], plan.size[label], np.maximum(1, plan.size // COMMUNITY)[label]
    remainder = (place - start) % groups
    members = (size - remainder + groups - 1) // groups
    return start + remainder + groups * (even * members).astype(np.int64)


def make_edges(plan: Plan, count: int, seed: int) -> NDArray[np.int64]:
    """So many keys, ascending, no two of them equal: what comes twice is drawn anew."""
    keys, turn = np.empty(0, dtype=np.int64), 0
    while (missing := count - len(keys)) > 0:
        drawn = np.concatenate(
            [
                draw_edges(plan, min(_CHUNK, missing - begin), np.random.default_rng([seed, _EDGES, turn, i]))
                for i, begin in enumerate(range(0, missing, _CHUNK))
            ]
        )
        drawn.sort()
        drawn = drawn[np.diff(drawn, prepend=-1) > 0]
        if len(keys):
            place = np.minimum(np.searchsorted(keys, drawn), len(keys) - 1)
            drawn = np.concatenate([keys, drawn[keys[place] != drawn]])
            drawn.sort()
        if turn == 100:
            raise SystemExit(f"{count:,} edges are too many for {len(plan.node):,} nodes; ask for fewer.")
        keys, turn = drawn, turn + 1
    return keys


def write_edges(plan: Plan, count: int, seed: int, path: Path) -> None:
    keys = make_edges(plan, count, seed)
    frame = pd.DataFrame({"source": (keys // len(plan.node)).astype(np.int32)})
    frame["target"] = (keys % len(plan.node)).astype(np.int32)
    del keys
    with duckdb.connect() as base:
        base.register("edges", frame)
        base.execute(f"COPY (SELECT * FROM edges) TO '{path}' (FORMAT parquet)")


def write_nodes(plan: Plan, seed: int, path: Path) -> None:
    """Ids, features, classes and parts, some at a time through a database on disk."""
    nodes = len(plan.node)
    label = np.empty(nodes, dtype=np.int64)
    label[plan.node] = plan.label
    parts = draw_parts(nodes, seed)
    centroids = np.random.default_rng([seed, _PARTS, 2]).standard_normal((CLASSES, FEATURES), dtype=np.float32)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder, duckdb.connect(f"{folder}/nodes.duckdb") as base:
        base.execute("SET memory_limit = '1GB'")
        for first in range(0, nodes, _ROWS):
            some = label[first : first + _ROWS]
            noise = np.random.default_rng([seed, _NODES, first // _ROWS])
            x = noise.standard_normal((len(some), FEATURES), dtype=np.float32) + np.float32(SIGNAL) * centroids[some]
            frame = pd.DataFrame({f"f{i}": column for i, column in enumerate(np.ascontiguousarray(x.T))})
            frame.insert(0, "id", np.arange(first, first + len(some), dtype=np.int32))
            base.register("rows", frame.assign(class_number=some, part=parts[first : first + _ROWS]))
            split = "['train', 'val', 'test'][part + 1] AS split"
            select = f"SELECT * EXCLUDE (class_number, part), format('c{{:02d}}', class_number) AS category, {split}"
            base.execute(
                f"{'INSERT INTO' if first else 'CREATE TABLE'} nodes {'' if first else 'AS'} {select} FROM rows"
            )
            base.unregister("rows")
        base.execute(f"COPY nodes TO '{path}' (FORMAT parquet)")


def draw_parts(nodes: int, seed: int) -> NDArray[np.int8]:
    """0, 1 and 2 for train, val and test, in the shares that Products has."""
    parts = np.full(nodes, 2, dtype=np.int8)
    train, val = round(TRAIN * nodes), round(VAL * nodes)
    order = np.random.default_rng([seed, _PARTS, 1]).permutation(nodes)
    parts[order[:train]] = 0
    parts[order[train : train + val]] = 1
    return parts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=NODES)
    parser.add_argument("--edges", type=int, default=EDGES, help="counted in both directions")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("products"), help="the folder to write the two tables to")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    plan = make_plan(given.nodes, given.seed)
    for name in ("edges", "nodes"):
        begin, path = time.perf_counter(), given.out / f"{name}.parquet"
        with replacing(path) as scratch:
            if name == "edges":
                write_edges(plan, given.edges // 2, given.seed, scratch)
            else:
                write_nodes(plan, given.seed, scratch)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        size = path.stat().st_size / 1e9
        print(f"{path}: {size:.3f} GB in {time.perf_counter() - begin:.1f} s, peak so far {peak:.2f} GB", flush=True)


if __name__ == "__main__":
    main()
