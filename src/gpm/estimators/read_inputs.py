"""Read the input of `fit` and `predict`: PyG, NetworkX, SciPy, pandas, gpm's own classes, a file or a name."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gpm.data.graph_data import GraphData
from gpm.data.node_data import find_masks
from gpm.data.smiles import featurise, find_scaffolds
from gpm.data.sources import Source, bare_data, resolve
from gpm.errors import GpmError, kind_of
from gpm.estimators.fit_inputs import FitInput
from gpm.estimators.frames import Tables
from gpm.graph.coerce import as_features
from gpm.graph.folder import read_extras
from gpm.graph.names import Names

_ONE = (
    "a PyG Data, a gpm.Graph, a NetworkX graph, a SciPy adjacency matrix, a DataFrame of edges, a file or the name of "
    "a dataset"
)
_MANY = (
    "a list of PyG Data or of NetworkX graphs, a PyG Dataset, a list of SMILES, a DataFrame of edges, a file or a name"
)
_log = logging.getLogger("gpm")


def read_input(
    data: Any, tables: Tables, *, x: Any = None, metric: str = "auto", complete: bool = False, scaffolds: bool = False
) -> FitInput:
    """Read a graph whose nodes or links are predicted, or a collection of graphs.

    `tables` are options of tables of edges and where they are imported to, `x` features of the nodes in their order.
    The metric decides how labels of a file or a named dataset are read. If the input must be `complete`, a text that is
    no SMILES is an error; else it is left out with a warning.
    """
    source, level = resolve(data), tables.level
    several = isinstance(source.value, list)
    if source.kind == "tables":
        if several:
            raise GpmError("Give one table of edges; tables of nodes and graphs are given as nodes and graphs.")
        if x is not None:
            raise GpmError("Features of a table of edges are a table too: give nodes, with a row per node, not x.")
        return tables.read(source.value)
    if level == "graph":
        return _read_collection(source, tables, metric, complete, scaffolds)
    if source.kind == "networkx":
        tables.refuse("nodes", "graphs", "graph", "directed")
        found = tables.read_network(source.value)
    else:
        tables.refuse("nodes", "graphs", "graph", "directed", "target", "split")
        if several or source.kind == "object":
            hint = " Make a matrix sparse with scipy.sparse.csr_array." if isinstance(data, np.ndarray) else ""
            raise GpmError(f"Give {_ONE}, not a {kind_of(data)}.{hint}")
        found = _read_source(source, level, metric)
    if level == "link" and found.data.graph.graph_ptr is not None:
        raise GpmError("Links are predicted in a single graph, not in a collection of graphs.")
    return found if x is None else _with_features(found, x, tables)


def check_encoding(fitted: dict[str, Any], given: FitInput) -> None:
    """Refuse features that were made in another way than those that a model was fitted on."""
    for kind, features in (("node", given.data.graph.x), ("edge", given.data.graph.edge_attr)):
        mine, theirs = ((metadata.get("encoding") or {}).get(kind) for metadata in (fitted, given.metadata))
        if mine and not theirs and features is not None:
            raise GpmError(f"The model was fitted on columns of a table of {kind}s, encoded; give one again.")
        if theirs and not mine:
            raise GpmError(f"The model was fitted on {kind} features as they are, not on columns of a table.")
        if mine != theirs and features is not None:
            raise GpmError(
                f"The columns of the {kind}s were encoded in another way than those that the model was fitted on; give "
                "the tables themselves, or import them with --like."
            )


def _read_collection(source: Source, tables: Tables, metric: str, complete: bool, scaffolds: bool) -> FitInput:
    if source.kind == "networkx list":
        tables.refuse("nodes", "graphs", "graph", "directed", "split")
        return tables.read_networks(source.value)
    tables.refuse("nodes", "graphs", "graph", "directed", "target", "split")
    if source.kind == "smiles":
        return _read_smiles(source.value, complete, scaffolds)
    if source.kind in ("object", "networkx", "matrix"):
        given = "an empty list" if source.value == [] else f"a {kind_of(source.value)}"
        raise GpmError(f"Give {_MANY}, not {given}.")
    found = _read_source(source, "graph", metric)
    if found.data.graph.graph_ptr is None:
        raise GpmError("This is a single graph, not a collection of graphs; give a list of graphs.")
    return found


def _read_source(source: Source, level: str, metric: str) -> FitInput:
    """Read a name, a file, ready data or an object; without readable labels, which may be given as y, its graph."""
    if source.kind == "data" and source.value.level != level:
        raise GpmError(f"This is data of {source.value.level}s, not of {level}s; give data of {level}s.")
    if source.kind == "data":
        return FitInput(source.value)
    if not source.path:
        data = bare_data(source.load_graph(), level, "graphs" if level == "graph" else "graph")
        return FitInput(replace(data, masks=find_masks(source.value)) if level == "node" else data)
    folder = Path(source.path)
    metadata, like = (read_extras(folder)[0], folder) if source.kind == "imported" else ({}, None)
    try:
        return FitInput(source.load(level, metric), metadata=metadata, like=like, source=source.path)
    except GpmError:
        if level == "link" or source.kind in ("dataset", "unknown"):
            raise
        return FitInput(bare_data(source.load_graph(), level, source.name))


def _with_features(given: FitInput, x: Any, tables: Tables) -> FitInput:
    graph = given.data.graph
    if not isinstance(x, pd.DataFrame):
        return replace(given, data=replace(given.data, graph=replace(graph, x=as_features(x, graph.num_nodes, "x"))))
    if len(x) != graph.num_nodes:
        raise GpmError(f"x has {len(x):,} rows for {graph.num_nodes:,} nodes; give one per node, in their order.")
    encoded = tables.encode(x)
    counts = isinstance(x.index, pd.RangeIndex)
    names = graph.names if counts or graph.names is not None else Names(x.index.tolist())
    graph = replace(graph, x=encoded.data.graph.x, names=names)
    return replace(given, data=replace(given.data, graph=graph), metadata=encoded.metadata, like=encoded.like)


def _read_smiles(smiles: list[str], complete: bool, scaffolds: bool) -> FitInput:
    """Read molecules in the order of their SMILES; a text that is none is a graph without nodes, in no split."""
    graph, failed = featurise(smiles)
    if failed:
        index, reason = failed[0]
        if complete or len(failed) == len(smiles):
            raise GpmError(f"Molecule {index} cannot be read: {reason}; leave it out.")
        _log.warning("%d of %d molecules are left out, the first is %d: %s", len(failed), len(smiles), index, reason)
    sizes = np.zeros(len(smiles), dtype=np.int64)
    kept = np.delete(np.arange(len(smiles)), [index for index, _ in failed])
    assert graph.graph_ptr is not None
    sizes[kept] = np.diff(graph.graph_ptr)
    graph = replace(graph, graph_ptr=np.concatenate([[0], np.cumsum(sizes)]))
    groups = np.full(len(smiles), -1)
    if scaffolds:
        groups[kept] = find_scaffolds([smiles[index] for index in kept])
    return FitInput(GraphData(graph, "molecules", names=list(smiles), groups=groups if scaffolds else None))
