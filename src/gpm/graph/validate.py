"""Check that the arrays of a graph fit together, as compiled code assumes: nothing out of range, rows in order.

A checksum shows that a folder is as it was written, not who wrote it. So arrays from disk are read once before any
kernel uses them, at memory speed. A large folder that passed is remembered in the cache folder by the identity of its
files, so that it is not read again.
"""
# mypy: allow-untyped-defs, allow-untyped-decorators

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from numba import njit
from numpy.typing import NDArray

from gpm.graph import csr
from gpm.graph.base_graph import BaseGraph
from gpm.graph.names import Names
from gpm.io.cache import data_root, remove_oldest

_MAX_MARKS = 1000
_TYPES = {"edge_ids": "int32 int64", "edge_weight": "float32 float64", "edge_cdf": "int64", "graph_ptr": "int64"}
_ANY, _ASCENDING, _STRICT = 0, 1, 2


@njit(cache=True, nogil=True)
def _rows_fault(indptr, indices, columns, order):  # pragma: no cover - compiled
    before = np.int64(0)
    if indptr[0] != 0 or indptr[-1] != indices.size:
        return 1
    for v in range(indptr.size - 1):
        stop = indptr[v + 1]
        if stop < before or stop > indices.size:
            return 1
        last = np.int64(-1)
        for i in range(before, stop):
            column = np.int64(indices[i])
            if column < 0 or column >= columns:
                return 2
            if order > 0 and (column < last or (order == 2 and column == last)):
                return 3
            last = column
        before = stop
    return 0


@njit(cache=True, nogil=True)
def _falls(indptr, cdf):  # pragma: no cover - compiled
    for v in range(indptr.size - 1):
        last = np.int64(0)
        for i in range(indptr[v], indptr[v + 1]):
            if cdf[i] < last or cdf[i] > np.int64(2**62):
                return True
            last = cdf[i]
    return False


def find_fault(graph: BaseGraph) -> str:
    """Return what is wrong with a graph's arrays, as half a sentence; empty if nothing is."""
    return next(filter(None, _faults(graph)), "")


def _faults(graph: BaseGraph) -> Iterable[str]:
    yield _shape_fault(graph)
    order = _STRICT if graph.is_simple else _ASCENDING
    yield _explain_rows(_rows_fault(graph.indptr, graph.indices, graph.num_nodes, order), "edges")
    if not graph.census.directed:
        yield "" if csr.is_symmetric(graph.indptr, graph.indices) else "some of its edges have no reverse"
    if graph.graph_ptr is not None:
        crossing = csr.find_crossing(graph.indptr, graph.indices, graph.graph_ptr)
        yield "an edge joins two of its graphs" if crossing >= 0 else ""
    if graph.edge_ids is not None:
        rows = graph.edge_attr.shape[0] if graph.edge_attr is not None else 2**62
        yield "edge_ids is out of range" if _is_outside(graph.edge_ids, 0, rows) else ""
    if graph.edge_weight is not None:
        yield "a weight is not a number of 0 or more" if _is_outside(graph.edge_weight, 0.0, np.inf) else ""
    if graph.edge_cdf is not None:
        yield "edge_cdf falls in a row" if _falls(graph.indptr, graph.edge_cdf) else ""
    for name in ("x", "edge_attr"):
        if sp.issparse(value := getattr(graph, name)):
            yield _explain_rows(_rows_fault(value.indptr, value.indices, value.shape[1], _ANY), name)


def _is_outside(values: NDArray, low: float, high: float) -> bool:
    return bool(values.size) and not low <= values.min() <= values.max() < high  # NaN is outside


def _explain_rows(fault: int, name: str) -> str:
    pointers = f"the row pointers of its {name} do not rise from 0 to their number"
    columns = f"a column of its {name} is out of range"
    return ("", pointers, columns, f"a row of its {name} is not in order, or repeats an entry")[fault]


def _shape_fault(graph: BaseGraph) -> str:
    """Check what can be seen without reading the long arrays."""
    nodes, edges, graphs = graph.num_nodes, graph.num_edges, graph.num_graphs
    if graph.indptr.ndim != 1 or graph.indices.ndim != 1 or nodes < 0:
        return "its row pointers and columns are not lists of numbers"
    if (graph.edge_weight is None) != (graph.edge_cdf is None):
        return "weights and their sums do not come together"
    for name, types in _TYPES.items():
        if (value := getattr(graph, name)) is not None and (value.dtype not in types.split() or value.ndim != 1):
            return f"{name} is a {value.dtype} array of shape {list(value.shape)}"
    if graph.graph_ptr is not None and not _rises(graph.graph_ptr, nodes):
        return "graph_ptr does not rise from 0 to the number of nodes"
    if graph.x is not None and (graph.x.ndim != 2 or graph.x.shape[0] != nodes or graph.x.dtype.kind not in "iuf"):
        return f"x is a {graph.x.dtype} array of shape {list(graph.x.shape)} for {nodes:,} nodes"
    attributes = graph.edge_attr
    if attributes is not None and (attributes.ndim != 2 or attributes.dtype.kind not in "iuf"):
        return f"edge_attr is a {attributes.dtype} array of shape {list(attributes.shape)}"
    if attributes is not None and graph.edge_ids is None and attributes.shape[0] != edges:
        return f"edge_attr has {attributes.shape[0]:,} rows for {edges:,} edges"
    if graph.y is not None and (graph.y.ndim < 1 or len(graph.y) not in (nodes, graphs)):
        return f"y has shape {list(graph.y.shape)} for {nodes:,} nodes in {graphs:,} graphs"
    return _names_fault(graph.names, nodes) if graph.names is not None else ""


def _names_fault(names: Names, nodes: int) -> str:
    arrays = names.arrays()
    kinds = {"integers": np.int64, "pointer": np.int64, "bytes": np.uint8}
    if set(arrays) not in ({"integers"}, {"pointer", "bytes"}):
        return "its names are not complete"
    if any(array.dtype != kinds[key] or array.ndim != 1 for key, array in arrays.items()):
        return "its names are of a wrong kind"
    if len(arrays.get("integers", arrays.get("pointer", ()))) != nodes + ("pointer" in arrays):
        return f"it has not one name for each of {nodes:,} nodes"
    if "pointer" not in arrays:
        return ""
    pointer, last = arrays["pointer"], len(arrays["bytes"])
    return "" if _rises(pointer, last) else "the pointers of its names do not rise from 0 to their bytes"


def _rises(pointer: NDArray, last: int) -> bool:
    return bool(len(pointer) and pointer[0] == 0 and pointer[-1] == last and (pointer[1:] >= pointer[:-1]).all())


# Folders that were validated before


def is_remembered(checksum: str, files: Iterable[Path]) -> bool:
    """Return True if a folder with this header and these very files was validated before."""
    return _mark(checksum, files).is_file()


def remember(checksum: str, files: Iterable[Path]) -> None:
    """Remember that a folder is valid; where that cannot be written, the folder is validated again next time."""
    path = _mark(checksum, files)
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        remove_oldest(path.parent, _MAX_MARKS)


def _mark(checksum: str, files: Iterable[Path]) -> Path:
    stats = [(path.name, path.stat()) for path in files]
    identity = [checksum, *sorted((n, s.st_size, s.st_mtime_ns, s.st_ino, s.st_dev) for n, s in stats)]
    return data_root() / "sound" / hashlib.sha256(json.dumps(identity).encode()).hexdigest()
