"""The leading eigenvectors of a large graph, by an iteration that reads the graph's rows in place.

With `u = D^-1/2 x`, the eigenvectors x of `D^-1/2 A D^-1/2` are those of the transition matrix `P = D^-1 A` under the
inner product `sum_i d_i u_i v_i`. So a product with a block of vectors is a mean over neighbours, no matrix is made,
and memory holds two blocks of float32. Sums are float64, over ranges of rows that do not depend on the threads.
"""
# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators

from __future__ import annotations

import logging
import math
from dataclasses import dataclass

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from gpm.compute import threaded
from gpm.graph import csr
from gpm.graph.graph import Graph

_log = logging.getLogger("gpm")
TOLERANCE = 1e-3  # largest residual |Lx - lambda x| of a vector of length 1
MOST_PRODUCTS = 600  # products of the graph with a block of vectors
_SPARE = 8  # smallest number of extra vectors, with which the last of the wanted ones converges faster
_STEEPEST = 1e5  # ratio by which a filter may amplify one vector over another: both must stay visible in float32
_MOST_DEGREE = 40  # largest degree of a filter
_ROWS = 2048  # rows that one thread sums at a time
_NONE = np.empty(0, dtype=np.float32)
_NONE.flags.writeable = False  # the same compiled type as a graph's own arrays


@dataclass(frozen=True)
class Rows:
    """A symmetric matrix of weights."""

    indptr: NDArray
    indices: NDArray
    weight: NDArray  # empty if all are 1
    degree: NDArray  # sums of rows (N); 1 instead of 0
    mass: NDArray  # weight of a node in the inner product, its degree over the largest (N)


@dataclass(frozen=True)
class Found:
    """The result of an iteration."""

    values: NDArray  # eigenvalues of the normalised Laplacian, ascending (k)
    vectors: NDArray  # eigenvectors of length 1 (N, k)
    residuals: NDArray  # `|Lx - lambda x|` of each (k)
    products: int  # number of products with a block of vectors


def embed_spectrum(graph: Graph, dim: int) -> NDArray[np.float32]:
    """Compute Laplacian eigenvectors of a single large graph, to a residual of `TOLERANCE` `[N, dim]`.

    Memory besides the graph is about `20 dim + 60` bytes per node, and a copy of the columns unless every edge has a
    reverse of the same weight.
    """
    rows = read_rows(graph)
    found = find_eigenvectors(rows, min(dim + 1, graph.num_nodes), tolerance=TOLERANCE, most_products=MOST_PRODUCTS)
    worst = float(found.residuals.max())
    reached = f"{dim} Laplacian eigenvectors: {found.products} products, largest residual {worst:.1e}"
    if worst <= TOLERANCE:
        _log.info("%s.", reached)
    else:
        _log.warning("%s, which is above %g; lower pe_dim for more exact ones.", reached, TOLERANCE)
    embedding = np.zeros((graph.num_nodes, dim), dtype=np.float32)
    for k, vector in enumerate(found.vectors.T[1:]):
        embedding[:, k] = -vector if -vector.min() > vector.max() else vector
    return embedding


def read_rows(graph: Graph) -> Rows:
    """Return the edges of a graph in both directions, `max(A, A^T)`; a copy only if they are not symmetric."""
    indptr, indices = graph.indptr, graph.indices
    weight = _NONE if graph.edge_weight is None else graph.edge_weight
    if graph.census.directed or not _is_even(indptr, indices, weight):
        indptr, indices, weight = _symmetrise(graph, weight)
    degree = np.empty(graph.num_nodes)
    _sum_rows(indptr, weight, degree)
    mass = np.where(degree > 0, degree / max(degree.max(initial=0.0), 1e-300), 1.0)
    return Rows(indptr, indices, weight, np.where(degree > 0, degree, 1.0), mass)


def _symmetrise(graph: Graph, weight: NDArray) -> tuple[NDArray, NDArray, NDArray]:
    """Merge the rows of a graph with those of its reverse: row pointers, columns, and weights over the largest one."""
    rows = np.repeat(np.arange(graph.num_nodes, dtype=graph.indices.dtype), graph.degree())
    turned = csr.build(
        graph.indices, rows, graph.num_nodes, undirected=False, self_loops=True, with_ids=weight.size > 0
    )
    del rows
    reverse = turned[0], turned[1], turned[1][:0] if turned[2] is None else turned[2]
    counts = np.zeros_like(graph.indptr)
    _merge_rows(
        graph.indptr, graph.indices, weight, *reverse, 1.0, counts, counts, turned[1][:0], np.empty(0, np.float32)
    )
    indptr = np.cumsum(counts)
    indices = np.empty(indptr[-1], dtype=graph.indices.dtype)
    largest = float(weight.max()) if weight.size else 1.0
    merged = np.empty(len(indices) if weight.size or not graph.is_simple else 0, dtype=np.float32)
    factor = 1 / largest if largest > 0 else 1.0
    _merge_rows(graph.indptr, graph.indices, weight, *reverse, factor, counts, indptr, indices, merged)
    return indptr, indices, merged


def find_eigenvectors(
    rows: Rows, count: int, *, tolerance: float = TOLERANCE, most_products: int = MOST_PRODUCTS
) -> Found:
    """Find the eigenvectors of the `count` smallest eigenvalues of the normalised Laplacian.

    Each round filters a block of vectors by a Chebyshev polynomial of `P`, which damps all eigenvalues below the
    smallest one of the block, and replaces it by its best approximations of eigenvectors (Rayleigh-Ritz). Iteration
    stops when every residual is within the tolerance, or after the largest number of products.
    """
    nodes = len(rows.degree)
    width = min(nodes, count + max(_SPARE, count // 2))
    block = np.random.default_rng(0).standard_normal((nodes, width), dtype=np.float32)  # fixed, so that the result is
    product = np.empty_like(block)
    products = 0
    while True:
        values, residuals = _improve(rows, block, product)
        products += 1
        if residuals[:count].max(initial=0.0) <= tolerance or products >= most_products:
            break
        degree, centre, half = _choose_filter(values, most_products - products)
        block, product = _filter(rows, block, product, degree, centre, half)
        products += degree - 1
    vectors = block[:, :count] * np.sqrt(rows.mass, dtype=np.float32, casting="same_kind")[:, None]
    return Found(1 - values[:count], vectors, residuals[:count], products)


def _improve(rows: Rows, block: NDArray, product: NDArray) -> tuple[NDArray, NDArray]:
    """Replace a block by its best approximations of eigenvectors, and `product` by P times it: values, residuals."""
    for _ in range(2):  # a second time against rounding errors
        gram = _gram(rows.mass, block, block)
        scale = 1 / np.sqrt(np.maximum(np.diag(gram), 1e-300))
        sizes, turn = np.linalg.eigh(gram * scale * scale[:, None])
        _rotate(block, scale[:, None] * turn / np.sqrt(np.maximum(sizes, 1e-12)))
    _multiply(rows.indptr, rows.indices, rows.weight, rows.degree, block, product, 1.0, 0.0, 0.0)
    inner = _gram(rows.mass, block, product)
    values, turn = np.linalg.eigh((inner + inner.T) / 2)
    values, turn = values[::-1], np.ascontiguousarray(turn[:, ::-1])
    _rotate(block, turn)
    _rotate(product, turn)
    parts = np.zeros((_count_parts(block), len(values)))
    _square_rests(rows.mass, block, product, values, parts)
    return values, np.sqrt(parts.sum(0))


def _gram(mass: NDArray, one: NDArray, two: NDArray) -> NDArray:
    parts = np.zeros((_count_parts(one), one.shape[1], two.shape[1]))
    _inner_products(mass, one, two, parts)
    return np.asarray(parts.sum(0))


def _count_parts(block: NDArray) -> int:
    return -(-len(block) // _ROWS)


def _choose_filter(values: NDArray, most: int) -> tuple[int, float, float]:
    """Return the degree of a filter, and centre and half width of what it damps: from -1 to the smallest value."""
    low = max(float(values[-1]), -0.9)
    centre, half = (low - 1) / 2, (low + 1) / 2
    rise = math.acosh(max(1.0 + 1e-9, (float(values[0]) - centre) / half))
    return min(most, max(2, min(_MOST_DEGREE, int(math.log(2 * _STEEPEST) / rise)))), centre, half


def _filter(
    rows: Rows, block: NDArray, product: NDArray, degree: int, centre: float, half: float
) -> tuple[NDArray, NDArray]:
    """Return `T((P - centre) / half)` times a block, T the Chebyshev polynomial of a degree, and a free buffer."""
    before, now = block, product
    _blend(before, now, centre, 1 / half)
    for _ in range(degree - 1):
        _multiply(rows.indptr, rows.indices, rows.weight, rows.degree, now, before, 2 / half, centre, 1.0)
        before, now = now, before
    return now, before


@threaded
def _multiply(indptr, indices, weight, degree, now, before, factor, shift, less):  # pragma: no cover - compiled
    # before := factor * (P - shift) now - less * before
    nodes, width = now.shape
    for part in prange((nodes + _ROWS - 1) // _ROWS):
        total = np.empty(width, np.float64)
        for v in range(part * _ROWS, min(nodes, (part + 1) * _ROWS)):
            total[:] = 0.0
            for i in range(indptr[v], indptr[v + 1]):
                u = np.uint64(indices[i])
                if weight.size:
                    for k in range(width):
                        total[k] += weight[i] * now[u, k]
                else:
                    for k in range(width):
                        total[k] += now[u, k]
            for k in range(width):
                mean = total[k] / degree[v] - shift * now[v, k]
                before[v, k] = factor * mean - (less * before[v, k] if less != 0.0 else 0.0)


@threaded
def _blend(block, product, shift, factor):  # pragma: no cover - compiled
    for v in prange(block.shape[0]):
        for k in range(block.shape[1]):
            product[v, k] = factor * (product[v, k] - shift * block[v, k])


@threaded
def _rotate(block, turn):  # pragma: no cover - compiled
    nodes, width = block.shape
    for part in prange((nodes + _ROWS - 1) // _ROWS):
        total = np.empty(width, np.float64)
        for v in range(part * _ROWS, min(nodes, (part + 1) * _ROWS)):
            total[:] = 0.0
            for i in range(width):
                for k in range(width):
                    total[k] += block[v, i] * turn[i, k]
            for k in range(width):
                block[v, k] = total[k]


@threaded
def _inner_products(mass, one, two, parts):  # pragma: no cover - compiled
    nodes, width = one.shape
    for part in prange(parts.shape[0]):
        for v in range(part * _ROWS, min(nodes, (part + 1) * _ROWS)):
            for i in range(width):
                scaled = mass[v] * one[v, i]
                for k in range(width):
                    parts[part, i, k] += scaled * two[v, k]


@threaded
def _square_rests(mass, block, product, values, parts):  # pragma: no cover - compiled
    nodes, width = block.shape
    for part in prange(parts.shape[0]):
        for v in range(part * _ROWS, min(nodes, (part + 1) * _ROWS)):
            for k in range(width):
                rest = product[v, k] - values[k] * block[v, k]
                parts[part, k] += mass[v] * rest * rest


@threaded
def _sum_rows(indptr, weight, degree):  # pragma: no cover - compiled
    for v in prange(degree.size):
        total = np.float64(0.0)
        if weight.size:
            for i in range(indptr[v], indptr[v + 1]):
                total += weight[i]
        else:
            total += indptr[v + 1] - indptr[v]
        degree[v] = total


@njit(cache=True, nogil=True)
def _is_even(indptr, indices, weight):  # pragma: no cover - compiled
    # Every edge has its reverse and rows are sorted, so the reverse is met in the order in which its row lists it.
    if not weight.size:
        return True
    cursor = indptr[:-1].copy()
    for v in range(indptr.size - 1):
        for i in range(indptr[v], indptr[v + 1]):
            u = indices[i]
            if weight[cursor[u]] != weight[i]:
                return False
            cursor[u] += 1
    return True


@threaded
def _merge_rows(
    indptr, indices, weight, back_indptr, back_indices, back_ids, factor, counts, to_indptr, to_indices, to_weight
):  # pragma: no cover - compiled
    for v in prange(indptr.size - 1):
        i, stop, j, back_stop = indptr[v], indptr[v + 1], back_indptr[v], back_indptr[v + 1]
        merged = 0
        while i < stop or j < back_stop:
            u = indices[i] if j == back_stop or (i < stop and indices[i] < back_indices[j]) else back_indices[j]
            forth, back = 0.0, 0.0
            while i < stop and indices[i] == u:
                forth += weight[i] if weight.size else 1.0
                i += 1
            while j < back_stop and back_indices[j] == u:
                back += weight[back_ids[j]] if weight.size else 1.0
                j += 1
            if to_indices.size:
                to_indices[to_indptr[v] + merged] = u
            if to_weight.size:
                to_weight[to_indptr[v] + merged] = factor * max(forth, back)
            merged += 1
        counts[v + 1] = merged
