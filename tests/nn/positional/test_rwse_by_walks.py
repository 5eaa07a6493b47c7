import logging

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpm import Graph
from gpm.compute import count_threads, set_threads
from gpm.nn.positional import rwse_by_walks as returns
from gpm.nn.positional.encodings import embed_returns
from gpm.nn.positional.rwse_by_walks import count_walks, estimate_returns
from tests.graphs import graphs


@settings(max_examples=30)
@given(graphs(), st.integers(1, 6))
def test_shares_are_draws_of_the_exact_law(graph: Graph, dim: int) -> None:
    """Directed or not, weighted or not, with parallel edges, loops and dead ends: six standard errors at most."""
    walks = 4096
    exact = embed_returns(graph, dim).astype(np.float64).clip(0, 1)
    found = estimate_returns(graph, dim, walks)
    assert (found.shape, found.dtype) == ((graph.num_nodes, dim), np.float32)
    np.testing.assert_array_equal(found * walks, np.rint(found * walks))
    error = np.sqrt(exact * (1 - exact) / walks)
    assert (np.abs(found - exact) <= 6 * error + 2 / walks).all()  # what is rare is not normal, hence two walks more
    np.testing.assert_array_equal(found[exact == 1], 1)
    np.testing.assert_array_equal(found[exact == 0], 0)


def test_the_error_is_as_stated() -> None:
    """Over many nodes the mean square of the error is the binomial variance."""
    random = np.random.default_rng(0)
    graph = Graph.from_edges(random.integers(0, 500, (2, 800)), 500, undirected=True)
    exact = embed_returns(graph, 4).astype(np.float64)
    rest = estimate_returns(graph, 4, 64) - exact
    variance = exact * (1 - exact) / 64
    varied = variance > 1e-6
    assert np.mean(rest[varied] ** 2 / variance[varied]) == pytest.approx(1, abs=0.15)
    assert abs(np.mean(rest[varied] / np.sqrt(variance[varied]))) < 0.1


@pytest.mark.parametrize("error", [0.5, 0.1, 1 / 32, 0.01])
def test_walks_are_as_many_as_the_error_asks_for(error: float) -> None:
    walks = count_walks(error)
    assert 0.5 / np.sqrt(walks) <= error * (1 + 1e-9)
    assert walks == 1 or 0.5 / np.sqrt(walks - 1) > error


def test_shares_depend_neither_on_threads_nor_on_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = Graph.from_edges(np.random.default_rng(0).integers(0, 300, (2, 900)), 300, undirected=True)
    found, before = estimate_returns(graph, 5, 32), count_threads()
    monkeypatch.setattr(returns, "_STEPS", 1000)
    try:
        for threads in (1, 2):
            set_threads(threads)
            np.testing.assert_array_equal(estimate_returns(graph, 5, 32), found)
    finally:
        set_threads(before)


def test_the_error_is_told(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "gpm"):
        estimate_returns(Graph.from_edges([[0], [1]], undirected=True), 2)
    assert "estimated by 256 walks per node: standard error at most 0.031." in caplog.text
