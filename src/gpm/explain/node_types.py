"""Types of nodes and edges (kinds), such as elements and bonds, and the names of patterns of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from gpm.data.catalog import CATALOG, spell
from gpm.data.graph_data import GraphData
from gpm.data.smiles import ELEMENTS
from gpm.data.sources import TaskData
from gpm.explain.chemistry import find_centre, name_chemical
from gpm.graph.coerce import Features
from gpm.graph.folder import HEADER
from gpm.graph.graph import Graph
from gpm.patterns.shape_names import name_shape

_ZINC_SYMBOLS = "C O N F C S Cl O N Br N N N N S I P O N O S P P C P S C P"  # charges and hydrogens left out
_MUTAG_SYMBOLS = "C N O F I Cl Br"
_BONDS = ("single", "double", "triple", "aromatic")
# Names of the categories of atoms and of bonds, by who numbered them; "*" is an atom of no known element.
_OGB = ELEMENTS, _BONDS
_PYG = (ELEMENTS[-1], *ELEMENTS[:-1]), ("", *_BONDS[:3], *[""] * 8, "aromatic")
_ZINC = tuple(_ZINC_SYMBOLS.split()), ("", *_BONDS[:3])
_MUTAG = tuple(_MUTAG_SYMBOLS.split()), ("aromatic", *_BONDS[:3])
_MOST_TYPES = 64
_ROWS = 65_536  # of features that are read at once


@dataclass(frozen=True, eq=False)
class Kinds:
    """The types of a graph's nodes and edges, read when needed from its features: the first column, or one-hot."""

    graph: Graph
    nodes: tuple[str, ...]  # names of the types
    edges: tuple[str, ...] = ()  # empty if edges have none
    atoms: bool = False  # nodes are atoms, their types elements, and edges bonds

    def of_node(self, nodes: ArrayLike) -> list[str]:
        """Return the types of nodes; empty where a type has no name."""
        assert self.graph.x is not None
        return _read(self.graph.x, np.asarray(nodes, dtype=np.int64), self.nodes)

    def of_edge(self, source: ArrayLike, target: ArrayLike) -> list[str]:
        """Return the types of the edges between pairs of nodes, in either direction; empty where there is none."""
        pairs = list(zip(np.asarray(source).tolist(), np.asarray(target).tolist(), strict=True))
        if not self.edges or self.graph.edge_attr is None or not self.graph.num_edges:
            return [""] * len(pairs)
        entries = np.array([max(self._find(a, b), self._find(b, a)) for a, b in pairs], dtype=np.int64)
        ids = entries if self.graph.edge_ids is None else self.graph.edge_ids[entries]
        kinds = _read(self.graph.edge_attr, ids, self.edges)
        return [kind if entry >= 0 else "" for kind, entry in zip(kinds, entries, strict=True)]

    def is_flat(self, node: int) -> bool:
        """Return whether an atom has an aromatic bond, or a double bond to C or N."""
        others = self.graph.neighbors(node)
        bonds = self.of_edge([node] * len(others), others)
        return any(
            bond == "aromatic" or (bond == "double" and kind in ("C", "N"))
            for bond, kind in zip(bonds, self.of_node(others), strict=True)
        )

    def _find(self, source: int, target: int) -> int:
        """Return the entry of an edge, or -1."""
        begin = int(self.graph.indptr[source])
        row = self.graph.indices[begin : self.graph.indptr[source + 1]]
        at = int(np.searchsorted(row, target))
        return begin + at if at < len(row) and row[at] == target else -1


def find_kinds(data: TaskData, source: str) -> Kinds | None:
    """Find the types of a collection's nodes: elements if their numbering is known, else t0, t1, and so on.

    Elements are known for tables of molecules, MoleculeNet, ZINC and MUTAG. Nodes of other collections have types if
    their features are one category, or one-hot, with at most 64 values. `source` is the dataset or file of the data.
    """
    graph = data.graph
    if graph.x is None or graph.graph_ptr is None or sp.issparse(graph.x):
        return None
    if tables := _find_tables(data, source):
        return Kinds(graph, *tables, atoms=True)
    count = _count_types(graph.x)
    return Kinds(graph, tuple(f"t{i}" for i in range(count))) if 2 <= count <= _MOST_TYPES else None


def name_pattern(adjacency: NDArray, nodes: Sequence[int], kinds: Kinds | None = None) -> tuple[str, str]:
    """Name a pattern by its edges `[n, n]`, and spell the types of its nodes: "benzene-like ring", "C6"."""
    edges = np.array(adjacency, dtype=np.bool_)
    types = ("",) * len(edges) if kinds is None else tuple(kinds.of_node(nodes))
    if kinds is None or not kinds.atoms:
        return _name(edges.tobytes(), types, None, None)
    a, b = np.nonzero(np.triu(edges, 1))
    at = np.asarray(nodes, dtype=np.int64)
    bonds = tuple(kinds.of_edge(at[a], at[b]))
    # only a ring without aromatic bonds needs a closer look
    flat = tuple(map(kinds.is_flat, nodes)) if len(a) >= len(edges) and "aromatic" not in bonds else None
    return _name(edges.tobytes(), types, bonds if any(bonds) else None, flat)


@lru_cache(maxsize=100_000)
def _name(
    edges: bytes, kinds: tuple[str, ...], bonds: tuple[str, ...] | None, flat: tuple[bool, ...] | None
) -> tuple[str, str]:
    """Name a pattern, with a cache: over many instances most patterns repeat."""
    adjacency = np.frombuffer(edges, dtype=np.bool_).reshape(len(kinds), len(kinds))
    pairs = zip(*(ends.tolist() for ends in np.nonzero(np.triu(adjacency, 1))), strict=True)
    typed = None if bonds is None else dict(zip(pairs, bonds, strict=True))
    return name_chemical(adjacency, kinds, typed, flat) or name_shape(adjacency), spell_content(adjacency, kinds)


def spell_content(adjacency: NDArray, kinds: Sequence[str]) -> str:
    """Spell the types `[n]` of the nodes of a pattern, the same for any order of its nodes.

    A path is spelled along it, "O-N-O", from the end that comes first in the alphabet; a star from its centre,
    "N(C,O,O)"; any other shape by the count of each type, "C4N2". Empty if no node has a type.
    """
    if not any(kinds):
        return ""
    names = [kind or "?" for kind in kinds]
    if path := _follow(np.asarray(adjacency)):
        along = [names[i] for i in path]
        return "-".join(min(along, along[::-1]))
    if (centre := find_centre(adjacency)) >= 0:
        return f"{names.pop(centre)}({','.join(sorted(names))})"
    counts = Counter(names)
    order = sorted(counts, key=lambda name: (name != "C", name != "H", name))
    return "".join(f"{n if n.isalpha() else f'({n})'}{counts[n] if counts[n] > 1 else ''}" for n in order)


def _follow(adjacency: NDArray) -> list[int]:
    """Return the nodes along a path, from one end to the other; none if the graph is no path."""
    degrees = adjacency.sum(axis=1)
    path = [int(degrees.argmin())]
    while len(path) < len(degrees) and len(new := set(np.flatnonzero(adjacency[path[-1]]).tolist()) - set(path)) == 1:
        path.append(new.pop())
    return path if len(path) == len(degrees) and degrees.sum() == 2 * (len(path) - 1) else []


def _find_tables(data: TaskData, source: str) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Return the names of the categories of atoms and bonds, if their numbering is known."""
    if isinstance(data, GraphData) and data.lines is not None:
        return _OGB
    entry, path = CATALOG.get(spell(source)), Path(source).expanduser()
    if entry is None or path.is_file() or (path / HEADER).exists() or data.title != entry.title:
        return None  # a user's own
    if entry.title == "MUTAG" and data.graph.x is not None and data.graph.x.shape[1] == len(_MUTAG[0]):
        return _MUTAG
    return {"ZINC": _ZINC, "MoleculeNet": _PYG}.get(entry.loader)


def _count_types(features: NDArray) -> int:
    """Count the types in one column of categories, or one-hot; 0 if features are neither."""
    if np.issubdtype(features.dtype, np.integer):
        one = features.shape[1] == 1 and len(features) and features.min() >= 0
        return int(features.max()) + 1 if one else 0
    if not 2 <= features.shape[1] <= _MOST_TYPES:
        return 0
    parts = (features[i : i + _ROWS] for i in range(0, len(features), _ROWS))
    one_hot = all(((part == 0) | (part == 1)).all() and (part.sum(axis=1) == 1).all() for part in parts)
    return features.shape[1] if one_hot else 0


def _read(features: Features, rows: NDArray, names: tuple[str, ...]) -> list[str]:
    """Return the names of the types of some rows."""
    some = features[rows]
    numbers = some[:, 0] if np.issubdtype(some.dtype, np.integer) else some.argmax(axis=1)
    return [names[number] if 0 <= number < len(names) else "" for number in numbers.tolist()]
