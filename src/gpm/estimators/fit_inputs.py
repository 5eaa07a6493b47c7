"""What `fit` and `predict` are given, read as a graph: PyG, NetworkX, SciPy, pandas, gpm's own, a file or a name."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from gpm.data.catalog import CATALOG, spell
from gpm.data.graph_data import GraphData
from gpm.data.graph_files import load_graph
from gpm.data.imported import is_imported
from gpm.data.link_data import LinkData
from gpm.data.node_data import NodeData, find_masks
from gpm.data.sources import load_task_data
from gpm.data.tables.table_source import is_table
from gpm.errors import GpmError, kind_of
from gpm.estimators.fit_source import Given, is_frame
from gpm.estimators.frames import Tables
from gpm.estimators.nx_frames import is_network
from gpm.graph.coerce import as_features
from gpm.graph.folder import read_extras
from gpm.graph.graph import Graph
from gpm.graph.names import Names

_ONE = (
    "a PyG Data, a gpm.Graph, a NetworkX graph, a SciPy adjacency matrix, a DataFrame of edges, a file or the name of "
    "a dataset"
)
_MANY = (
    "a list of PyG Data or of NetworkX graphs, a PyG Dataset, a list of SMILES, a DataFrame of edges, a file or a name"
)
_log = logging.getLogger("gpm")


def read_graph(data: Any, tables: Tables, *, x: Any = None, metric: str = "auto") -> Given:
    """Read a single graph whose nodes or links are predicted.

    Args:
        data: What the user gives.
        tables: What goes with tables of edges, and where they are imported to.
        x: Features of the nodes: an array, or a DataFrame, in their order.
        metric: How labels of a file or a named dataset are read.
    """
    if is_table(data):
        if x is not None:
            raise GpmError("features beside a table of edges are a table too: give nodes, with a row per node, not x.")
        return tables.read(data)
    if is_network(data):
        tables.refuse("nodes", "graphs", "graph", "directed")
        given = tables.read_network(data)
    else:
        tables.refuse("nodes", "graphs", "graph", "directed", "target", "split")
        given = _read_single(data, tables.level, metric)
    if tables.level == "link" and given.data.graph.graph_ptr is not None:
        raise GpmError("links are predicted in a single graph, not in a collection of graphs.")
    return given if x is None else _with_features(given, x, tables)


def read_graphs(
    data: Any, tables: Tables, *, metric: str = "auto", complete: bool = False, scaffolds: bool = False
) -> Given:
    """Read a collection of graphs.

    Args:
        data: What the user gives.
        tables: What goes with tables of edges, and where they are imported to.
        metric: How labels of a file or a named dataset are read.
        complete: A text that is no SMILES is a mistake; else it is left out with a warning.
        scaffolds: Find those of molecules.
    """
    if is_table(data):
        return tables.read(data)
    listed = _list(data)
    if listed and is_network(listed[0]):
        tables.refuse("nodes", "graphs", "graph", "directed", "split")
        return tables.read_networks(listed)
    tables.refuse("nodes", "graphs", "graph", "directed", "target", "split")
    if isinstance(data, (str, Path)):
        return _read_source(data, "graph", metric)
    if isinstance(data, GraphData):
        return Given(data)
    if listed and isinstance(listed[0], str):
        return _read_smiles(listed, complete, scaffolds)
    if listed and isinstance(listed[0], Graph):
        listed = [each.to_pyg() for each in listed]
    graph = data if isinstance(data, Graph) else Graph.from_pyg(listed or data)
    if graph.graph_ptr is None:
        raise GpmError("this is a single graph, not a collection of graphs; give a list of graphs.")
    return Given(GraphData(graph, "graphs"))


def _list(data: Any) -> list[Any]:
    """What is in a list, an array or a Series; nothing of what is no such thing."""
    if isinstance(data, (str, Path, Graph, GraphData)) or hasattr(data, "edge_index") or hasattr(data, "get_summary"):
        return []
    listed = list(data) if hasattr(data, "__iter__") else []
    if not listed:
        raise GpmError(f"give {_MANY}, not {'an empty list' if hasattr(data, '__iter__') else f'a {kind_of(data)}'}.")
    return listed


def check_encoding(fitted: dict[str, Any], given: Given) -> None:
    """Refuse features that were made in another way than those that a model was fitted on."""
    for kind, features in (("node", given.data.graph.x), ("edge", given.data.graph.edge_attr)):
        mine, theirs = ((facts.get("encoding") or {}).get(kind) for facts in (fitted, given.facts))
        if mine and not theirs and features is not None:
            raise GpmError(f"the model was fitted on columns of a table of {kind}s, encoded; give one again.")
        if theirs and not mine:
            raise GpmError(f"the model was fitted on {kind} features as they are, not on columns of a table.")
        if mine != theirs and features is not None:
            raise GpmError(
                f"the columns of the {kind}s were encoded in another way than those that the model was fitted on; give "
                "the tables themselves, or import them with --like."
            )


def _read_single(data: Any, level: str, metric: str) -> Given:
    if isinstance(data, (str, Path)):
        return _read_source(data, level, metric)
    return Given(data) if isinstance(data, (NodeData, LinkData)) else _read_object(data, level)


def _read_source(source: str | Path, level: str, metric: str) -> Given:
    """A named dataset, a saved graph or a PyG file; without labels, which may be given beside it, just its graph."""
    path = Path(source).expanduser()
    place = str(path.resolve()) if path.exists() else str(source)
    facts, like = (read_extras(path)[0], path.resolve()) if is_imported(path) else ({}, None)
    try:
        return Given(load_task_data(source, level, metric=metric), facts=facts, like=like, source=place)
    except GpmError:
        if level == "link" or not path.exists() or (spell(str(source)) in CATALOG and not path.is_file()):
            raise
        given = _read_object(load_graph(path), level)
        return replace(given, data=replace(given.data, title=path.stem))


def _read_object(data: Any, level: str) -> Given:
    if isinstance(data, Graph):
        graph = data
    elif sp.issparse(data):
        graph = Graph.from_scipy(data)
    elif hasattr(data, "edge_index") or hasattr(data, "get_summary"):
        graph = Graph.from_pyg(data)
    else:
        hint = " Make a matrix sparse with scipy.sparse.csr_array." if isinstance(data, np.ndarray) else ""
        raise GpmError(f"give {_ONE}, not a {kind_of(data)}.{hint}")
    if level == "link":
        return Given(LinkData(graph, "graph"))
    return Given(NodeData(graph, "graph", masks=find_masks(data)))


def _with_features(given: Given, x: Any, tables: Tables) -> Given:
    graph = given.data.graph
    if not is_frame(x):
        return replace(given, data=replace(given.data, graph=replace(graph, x=as_features(x, graph.num_nodes, "x"))))
    if len(x) != graph.num_nodes:
        raise GpmError(f"x has {len(x):,} rows for {graph.num_nodes:,} nodes; give one per node, in their order.")
    encoded = tables.encode(x)
    counts = type(x.index).__name__ == "RangeIndex"
    names = graph.names if counts or graph.names is not None else Names(x.index.tolist())
    graph = replace(graph, x=encoded.data.graph.x, names=names)
    return replace(given, data=replace(given.data, graph=graph), facts=encoded.facts, like=encoded.like)


def _read_smiles(smiles: list[str], complete: bool, scaffolds: bool) -> Given:
    """Molecules in the order of their SMILES; what is none is a graph without nodes, which no part of a split holds."""
    from gpm.data.molecules import featurise, find_scaffolds

    graph, failed = featurise(smiles)
    if failed:
        place, reason = failed[0]
        if complete or len(failed) == len(smiles):
            raise GpmError(f"molecule {place} cannot be read: {reason}; leave it out.")
        _log.warning(
            "%d of %d molecules are left out, the first at place %d: %s", len(failed), len(smiles), place, reason
        )
    sizes = np.zeros(len(smiles), dtype=np.int64)
    kept = np.delete(np.arange(len(smiles)), [place for place, _ in failed])
    assert graph.graph_ptr is not None
    sizes[kept] = np.diff(graph.graph_ptr)
    graph = replace(graph, graph_ptr=np.concatenate([[0], np.cumsum(sizes)]))
    groups = np.full(len(smiles), -1)
    if scaffolds:
        groups[kept] = find_scaffolds([smiles[place] for place in kept])
    return Given(GraphData(graph, "molecules", names=list(smiles), groups=groups if scaffolds else None))
