import numpy as np
import pytest
import torch

from gpm import Graph, Tokenizer
from gpm.shift.distances import total_variation
from gpm.shift.result import Shares
from gpm.shift.topology_shares import Census, compare_lengths, find_where, list_topologies, share_out, topology_distance


def _census(topology: str = "loops", *, weighted: bool = True) -> tuple[Census, np.ndarray, np.ndarray]:
    """A census of a ring of triangles (the source) and of a path (the target), in batches of unequal size."""
    triangles = [(3 * i + a, 3 * i + b) for i in range(20) for a, b in ((0, 1), (1, 2), (2, 0))]
    joined = [(3 * i, (3 * i + 3) % 60) for i in range(20)]
    path = [(60 + i, 61 + i) for i in range(59)]
    graph = Graph.from_edges(np.array(triangles + joined + path).T, 120, undirected=True)
    tokenizer = Tokenizer(graph, lengths=(0, 2, 4), pool=24, topology=topology)
    census, random = Census(), torch.Generator().manual_seed(0)
    for part in (np.arange(50), np.arange(50, 113), np.arange(113, 120)):
        patterns = tokenizer.nodes(part)
        weights = torch.rand(patterns.topology.shape, generator=random).softmax(1)
        census.add(patterns, weights if weighted else None)
    return census, np.arange(60), np.arange(60, 120)


@pytest.mark.parametrize("topology", ["loops", "induced", "shape"])
def test_every_pattern_is_counted_once_and_all_attention_is_there(topology: str) -> None:
    census, _, _ = _census(topology)
    assert census.kind == topology
    np.testing.assert_array_equal(census.counts.sum(axis=1), 24)
    np.testing.assert_allclose(census.weights.sum(axis=1), 1, rtol=1e-6)
    for length in (0, 2, 4):
        np.testing.assert_array_equal(census.counts[:, census.lengths == length].sum(axis=1), 8)


@pytest.mark.parametrize("weighted", [True, False])
def test_shares_add_up_to_one_and_triangles_are_the_source_s_own(weighted: bool) -> None:
    census, source, target = _census("shape", weighted=weighted)
    home, away, shared = share_out(census, source, target, 0)
    for share in (home, away):
        assert share.shared + share.source_only + share.target_only == pytest.approx(1, abs=1e-6)
    assert home.source_only > 0.1 > home.target_only == 0
    assert 0.5 < shared <= 1
    by_shape = {(entry.shape, entry.length): entry for entry in list_topologies(census, source, target, 99)}
    assert by_shape["triangle", 2].where == "source only"
    assert by_shape["triangle", 2].target == 0
    assert by_shape["triangle", 2].target_attention is None
    assert by_shape["node", 0].where == "shared"
    assert (by_shape["node", 0].source_attention is None) is not weighted


def test_without_attention_shares_are_of_patterns() -> None:
    census, source, target = _census(weighted=False)
    assert not census.attention
    counts = np.asarray(census.counts[source].sum(axis=0)).reshape(-1)
    others = np.asarray(census.counts[target].sum(axis=0)).reshape(-1)
    where = find_where(counts / counts.sum(), others / others.sum())
    expected = [counts[where == place].sum() / counts.sum() for place in range(3)]
    found = share_out(census, source, target, 0)[0]
    np.testing.assert_allclose((found.shared, found.source_only, found.target_only), expected, atol=1e-5)
    assert isinstance(found, Shares)


def test_frequencies_of_the_listed_add_up_and_the_most_attended_come_first() -> None:
    census, source, target = _census()
    every = list_topologies(census, source, target, 9999)
    assert len(every) == len(census)
    assert sum(entry.source for entry in every) == pytest.approx(1, abs=1e-4)
    assert sum(entry.target for entry in every) == pytest.approx(1, abs=1e-4)
    assert sum(entry.source * (entry.source_attention or 0) for entry in every) == pytest.approx(1, abs=1e-4)
    heavy = [
        entry.source * (entry.source_attention or 0) + entry.target * (entry.target_attention or 0) for entry in every
    ]
    assert heavy == sorted(heavy, reverse=True) or np.diff(heavy).max() < 1e-5
    assert list_topologies(census, source, target, 3) == every[:3]


def test_distances_by_length_are_those_of_their_walks_alone() -> None:
    census, source, target = _census("induced")
    lengths = compare_lengths(census, source, target, 0)
    assert [entry.length for entry in lengths] == [0, 2, 4]
    assert lengths[0].value == lengths[0].reference == 0
    assert lengths[2].value > 0.3 > lengths[2].reference
    assert topology_distance(census.telling[source], census.telling[target]) > 0.3
    one = np.asarray(census.telling[source].sum(axis=0)).reshape(-1)
    assert topology_distance(census.telling[source], census.telling[source]) == total_variation(one, one) == 0


def test_a_topology_is_shared_above_a_tenth_of_the_other_s_frequency() -> None:
    source, target = np.array([0.5, 0.5, 0.0, 0.04]), np.array([0.5, 0.05, 0.1, 0.3])
    assert find_where(source, target).tolist() == [0, 1, 2, 0]
