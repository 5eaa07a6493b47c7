"""Small tables of people and of rings, and what a graph folder says of them, by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from gpm import Graph
from gpm.graph.folder import read_extras
from gpm.io.table_files import write_table

Columns = dict[str, list[Any]]
NODES = 24
SMALL = [
    "--epochs", "1", "--width", "8", "--heads", "2", "--lengths", "0", "1", "--patterns", "4", "--pool", "4",
    "--batch", "64", "--warmup", "1", "--quiet", "--device", "cpu",
]  # fmt: skip


def people(count: int = NODES) -> Columns:
    """A row per person: features of every kind, classes, values, two labels and parts."""
    random = np.random.default_rng(0)
    rows = range(count)
    return {
        "id": [f"p{i:02d}" for i in rows],
        "age": [round(20 + 50 * float(random.random()), 1) for _ in rows],
        "colour": [("red", "green", "blue")[i % 3] for i in rows],
        "member": [("yes", "no")[int(random.integers(2))] for _ in rows],
        "since": [f"20{10 + i % 10}-0{1 + i % 9}-1{i % 7}" for i in rows],
        "bio": [" ".join(random.choice(["walks", "sings", "reads", "swims", "cooks"], 5)) for _ in rows],
        "pet": [("cat", "dog")[(i // 2) % 2] for i in rows],
        "income": [round(1000 + 10 * i + float(random.random()), 2) for i in rows],
        "sings": [i % 2 for i in rows],
        "skis": [i // 3 % 2 for i in rows],
        "part": [("train", "train", "val", "test")[i % 4] for i in rows],
    }


def friends(count: int = NODES) -> Columns:
    """A row per friendship, none of them twice: a ring and some chords."""
    pairs = [(i, (i + 1) % count) for i in range(count)] + [(i, i + 5) for i in range(0, count - 5, 3)]
    return {
        "source": [f"p{a:02d}" for a, _ in pairs],
        "target": [f"p{b:02d}" for _, b in pairs],
        "weight": [1 + a % 4 for a, _ in pairs],
        "how": [("work", "school")[(a + b) // 2 % 2] for a, b in pairs],
        "years": [1.5 * a + b for a, b in pairs],
    }


def rings(count: int = 20) -> tuple[Columns, Columns, Columns]:
    """Edges, nodes and graphs of rings and paths of 3 to 6 nodes, whose ids come again in every graph."""
    edges: Columns = {"graph": [], "source": [], "target": [], "bond": []}
    nodes: Columns = {"graph": [], "id": [], "element": []}
    graphs: Columns = {"graph": [], "shape": [], "size": [], "part": []}
    for g in range(count):
        name, size, open_ = f"g{g:02d}", 3 + g % 4, g % 2
        for i in range(size):
            for key, value in (("graph", name), ("id", f"a{i}"), ("element", "CNO"[(g + i) % 3])):
                nodes[key].append(value)
        for i in range(size - open_):
            row = (name, f"a{i}", f"a{(i + 1) % size}", "sd"[i % 2])
            for key, value in zip(edges, row, strict=True):
                edges[key].append(value)
        facts = (name, ("ring", "path")[open_], size + g / 100, ("train", "train", "val", "test")[g // 2 % 4])
        for key, value in zip(graphs, facts, strict=True):
            graphs[key].append(value)
    return edges, nodes, graphs


def without(columns: Columns, *names: str) -> Columns:
    return {key: values for key, values in columns.items() if key not in names}


def shuffled(columns: Columns, seed: int) -> Columns:
    """The same rows in another order."""
    order = np.random.default_rng(seed).permutation(len(next(iter(columns.values()))))
    return {key: [values[i] for i in order] for key, values in columns.items()}


def save(folder: Path, suffix: str = ".csv", **tables: Columns) -> list[Path]:
    """Write tables as files; returns them in their order."""
    folder.mkdir(exist_ok=True)
    for name, columns in tables.items():
        write_table(folder / f"{name}{suffix}", columns)
    return [folder / f"{name}{suffix}" for name in tables]


def nodes_of(folder: Path) -> dict[Any, tuple[Any, ...]]:
    """Features, label and part of each node, by name."""
    graph, parts = Graph.open(folder), read_extras(folder)[1].get("part")
    x = graph.x if isinstance(graph.x, np.ndarray) else np.zeros((graph.num_nodes, 0))
    if sp.issparse(graph.x):
        x = graph.x.toarray()
    single = graph.y is not None and len(graph.y) == graph.num_nodes
    return {
        graph.name(i): (
            tuple(np.round(x[i], 4).tolist()),
            np.asarray(graph.y)[i].tolist() if single else None,
            int(parts[i]) if parts is not None and single else None,
        )
        for i in range(graph.num_nodes)
    }


def edges_of(folder: Path) -> dict[tuple[Any, Any], tuple[float, ...]]:
    """Weight and features of each entry, by the names of its ends."""
    graph, found = Graph.open(folder), {}
    for entry, (a, b) in enumerate(graph.edge_index().T.tolist()):
        facts = [] if graph.edge_weight is None else [float(graph.edge_weight[entry])]
        if graph.edge_attr is not None:
            assert graph.edge_ids is not None
            facts += np.round(graph.edge_attr[graph.edge_ids[entry]], 4).tolist()
        found[graph.name(a), graph.name(b)] = tuple(facts)
    return found


def graphs_of(folder: Path) -> dict[str, tuple[Any, ...]]:
    """Size, label and part of each graph, by name."""
    (facts, extras), graph = read_extras(folder), Graph.open(folder)
    assert graph.y is not None
    assert graph.graph_ptr is not None
    parts = extras.get("part", np.full(graph.num_graphs, -1))
    sizes, labels = np.diff(graph.graph_ptr).tolist(), graph.y.tolist()
    return {name: (sizes[i], labels[i], int(parts[i])) for i, name in enumerate(facts["graphs"])}
