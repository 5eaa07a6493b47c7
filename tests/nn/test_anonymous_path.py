"""What the anonymous encoders read, and the vocabulary of shapes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from gpm import Graph, Tokenizer
from gpm.config import ModelOptions
from gpm.nn import FeatureTable, GraphPatternMachine
from gpm.nn.anonymous_path import AnonymousPath, ShapeVocabulary, describe
from gpm.patterns.topologies import find_topologies
from gpm.random_bits import mix_array
from tests.graphs import graphs


def _walks(graph: Graph, lengths: tuple[int, ...] = (0, 3, 6)) -> NDArray:
    nodes = Tokenizer(graph, lengths=lengths, pool=6, edges=False).nodes(np.arange(graph.num_nodes)).nodes
    return nodes.numpy().reshape(-1, max(lengths) + 1)


def _define(graph: Graph, walk: list[int], longest: int, induced: bool) -> NDArray:
    """`z_i = [1[v_i = v_j] for j || 1[an edge leads from v_i to another node v_j] for j]`, entry by entry."""
    edges = {(a, b) for a, b in graph.edge_index().T.tolist() if a != b}
    path = [node for node in walk if node >= 0]
    z = np.zeros((longest + 1, (longest + 1) * (1 + induced)))
    for i, here in enumerate(path):
        for j, other in enumerate(path):
            z[i, j] = here == other
            if induced:
                z[i, longest + 1 + j] = (here, other) in edges
    return z


@settings(max_examples=50)
@given(graphs(), st.sampled_from(["loops", "induced"]), st.integers(6, 9))
def test_sequences_say_where_the_same_and_where_adjacent_nodes_are(graph: Graph, kind: str, longest: int) -> None:
    walks = _walks(graph)
    places, table = find_topologies(graph, walks, kind)
    z, lengths = describe(table, longest)
    assert z.dtype == np.float32
    for walk, place in zip(walks.tolist(), places, strict=True):
        np.testing.assert_array_equal(z[place], _define(graph, walk, longest, kind == "induced"))
        assert lengths[place] == sum(node >= 0 for node in walk)


def test_a_triangle_with_a_tail_in_full() -> None:
    """The walk A-B-C-A-D, written out."""
    graph = Graph.from_edges([[0, 1, 2, 0], [1, 2, 0, 3]], undirected=True)
    _, table = find_topologies(graph, np.array([[0, 1, 2, 0, 3, -1]]), "induced")
    z, lengths = describe(table, 5)
    same = [[1, 0, 0, 1, 0, 0], [0, 1, 0, 0, 0, 0], [0, 0, 1, 0, 0, 0], [1, 0, 0, 1, 0, 0], [0, 0, 0, 0, 1, 0], [0] * 6]
    near = [[0, 1, 1, 0, 1, 0], [1, 0, 1, 1, 0, 0], [1, 1, 0, 1, 0, 0], [0, 1, 1, 0, 1, 0], [1, 0, 0, 1, 0, 0], [0] * 6]
    np.testing.assert_array_equal(z[0], np.concatenate([same, near], 1))
    assert lengths.tolist() == [5]


@pytest.mark.parametrize("anonymous", ["gru", "mean", "transformer"])
def test_encoders_see_no_padding(anonymous: str) -> None:
    """A topology has the same code beside longer ones as alone."""
    graph = Graph.from_edges(np.random.default_rng(0).integers(0, 9, (2, 20)), 9, undirected=True)
    torch.manual_seed(0)
    encoder = AnonymousPath(ModelOptions(width=8, anonymous=anonymous), "loops", 8)  # type: ignore[arg-type]
    walks = _walks(graph, (0, 2, 8))
    places, table = find_topologies(graph, walks, "loops")
    whole = encoder(table, torch.device("cpu")).detach()[places]
    for row in range(0, len(walks), 5):
        path = walks[row][walks[row] >= 0][None]
        alone = encoder(find_topologies(graph, path, "loops")[1], torch.device("cpu")).detach()
        torch.testing.assert_close(alone[0], whole[row])


def test_lambda_scales_the_code() -> None:
    _, table = find_topologies(Graph.from_edges([[], []], 3), np.array([[0, 1, 0], [0, 1, 2]]), "loops")
    found = []
    for weight in (0.3, -0.6):
        torch.manual_seed(0)
        options = ModelOptions(width=8, anonymous_weight=weight, learn_weight=weight < 0)
        found.append(AnonymousPath(options, "loops", 2)(table, torch.device("cpu")))
    torch.testing.assert_close(found[0] * -2, found[1])


def test_known_shapes_own_a_row_and_the_others_share() -> None:
    rng = np.random.default_rng(0)
    keys = rng.integers(-(2**63), 2**63, 500)
    vocabulary = ShapeVocabulary(100, 4)
    vocabulary.learn_keys(keys[:60])
    rows = vocabulary.find(keys)
    assert len(set(rows[:60])) == 60
    assert rows[:60].max() < 60
    assert (rows[60:] >= 100).all()
    assert (rows[60:] < 125).all()
    assert len(set(rows[60:])) == 25  # all shared rows are used
    expected = 100 + mix_array(keys.view(np.uint64)) % np.uint64(25)
    np.testing.assert_array_equal(rows[60:], expected[60:])
    np.testing.assert_array_equal(vocabulary.find(keys[::-1].copy()), rows[::-1])  # a key's row is its own affair


def test_the_first_keys_are_those_that_are_kept() -> None:
    keys = np.array([5, -9, 3, 8, 1])
    vocabulary = ShapeVocabulary(3, 4)
    vocabulary.learn_keys(keys)
    assert vocabulary.keys.tolist() == [-9, 3, 5]
    assert (vocabulary.find(keys) < 3).tolist() == [True, True, True, False, False]
    vocabulary.learn_keys(np.array([7]))
    assert (vocabulary.find(np.append(keys, 7)) < 3).tolist() == [False] * 5 + [True]


def test_saved_keys_find_the_same_rows() -> None:
    keys = np.random.default_rng(0).integers(-(2**63), 2**63, 50)
    first, second = ShapeVocabulary(20, 4), ShapeVocabulary(20, 4)
    first.learn_keys(keys)
    second.load_state_dict(first.state_dict())
    np.testing.assert_array_equal(first.find(keys), second.find(keys))


def test_fit_keeps_the_most_frequent_shapes() -> None:
    """In a grid of squares, paths and squares are frequent; a lone triangle is rare."""
    side = 6
    corner = np.arange(side * side).reshape(side, side)
    across = np.stack([corner[:, :-1].ravel(), corner[:, 1:].ravel()])
    down = np.stack([corner[:-1].ravel(), corner[1:].ravel()])
    extra = np.array([[36, 37, 36], [37, 38, 38]])
    graph = Graph.from_edges(np.concatenate([across, down, extra], 1), 39, undirected=True)
    tokenizer = Tokenizer(graph, lengths=(1, 2, 3), topology="shape", pool=64)
    table = FeatureTable(graph)
    model = GraphPatternMachine(
        table.spec(), ModelOptions(size="xs", width=8, layers=1, heads=1, vocabulary=3), 2, 3, "shape"
    )
    model.fit(table, tokenizer)
    patterns = tokenizer.nodes(np.arange(39), count=12)
    counts = np.bincount(patterns.topology.numpy().ravel(), minlength=len(patterns.table))
    most = patterns.table.keys[np.argsort(-counts)[:3]]
    assert model.anonymous is not None
    vocabulary = model.anonymous.encoder
    assert isinstance(vocabulary, ShapeVocabulary)
    assert sorted(most) == vocabulary.keys.tolist()
    _, triangle = find_topologies(graph, np.array([[36, 37, 38]]), "shape")
    assert vocabulary.find(triangle.keys) >= 3
