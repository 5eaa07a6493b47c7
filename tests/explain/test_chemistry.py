import networkx as nx
import numpy as np
import pytest
from numpy.typing import NDArray

from gpm.explain.chemistry import find_centre, name_chemical
from gpm.explain.node_types import spell_content

FUSED = nx.Graph([(i, (i + 1) % 10) for i in range(10)] + [(0, 5)])


def _adjacency(graph: nx.Graph) -> NDArray[np.bool_]:
    return nx.to_numpy_array(graph, nodelist=sorted(graph), dtype=bool)


@pytest.mark.parametrize(
    ("graph", "kinds", "name"),
    [
        (nx.cycle_graph(6), "CCCCCC", "benzene-like ring"),
        (nx.cycle_graph(6), "CCCCCN", "pyridine-like ring"),
        (nx.cycle_graph(6), "NCNCNC", "pyridine-like ring"),
        (nx.cycle_graph(6), "CCCCCO", None),
        (nx.cycle_graph(6), "NNNNCC", None),
        (nx.cycle_graph(5), "CCCCN", None),
        (nx.cycle_graph(7), "CCCCCCC", None),
        (FUSED, "CCCCCCCCCC", "naphthalene-like rings"),
        (FUSED, "CNCCCCCCCC", "quinoline-like rings"),
        (FUSED, "CSCCCCCCCC", None),
        (nx.path_graph(3), "ONO", "nitro group"),
        (nx.star_graph(3), "NOOC", "nitro group"),
        (nx.star_graph(3), "NOCC", None),
        (nx.star_graph(3), "NOOO", None),
        (nx.path_graph(3), "OSO", "sulfonyl group"),
        (nx.star_graph(4), "SCNOO", "sulfonyl group"),
        (nx.path_graph(3), "OCO", "carboxyl-like group"),
        (nx.star_graph(3), "CCOO", "carboxyl-like group"),
        (nx.star_graph(3), "COOO", None),
        (nx.path_graph(3), "NCO", "amide-like group"),
        (nx.path_graph(3), "CNO", None),
        (nx.star_graph(3), "CCNO", "amide-like group"),
        (nx.star_graph(3), "CNNO", None),
        (nx.star_graph(4), "CCFFF", "trifluoromethyl group"),
        (nx.star_graph(4), "POOOO", "phosphate-like group"),
        (nx.path_graph(2), "CN", None),
        (nx.path_graph(1), "C", None),
        (nx.path_graph(3), ["t0", "t1", "t0"], None),
        (nx.cycle_graph(6), [""] * 6, None),
    ],
)
def test_what_chemists_know_has_its_name_in_any_order(
    graph: nx.Graph, kinds: str | list[str], name: str | None
) -> None:
    adjacency, symbols = _adjacency(graph), np.array(list(kinds))
    for seed in range(4):
        order = np.random.default_rng(seed).permutation(len(graph))
        assert name_chemical(adjacency[np.ix_(order, order)], symbols[order].tolist()) == name


@pytest.mark.parametrize(
    ("graph", "kinds", "bonds", "name"),
    [
        (nx.cycle_graph(6), "CCCCCC", "aaaaaa", "benzene-like ring"),
        (nx.cycle_graph(6), "CCCCCC", "dsdsds", "benzene-like ring"),
        (nx.cycle_graph(6), "CCCCCC", "ssssss", None),
        (nx.cycle_graph(6), "CCCCCC", "dsssss", None),
        (nx.cycle_graph(6), "CCCCCC", "aassss", None),
        (nx.cycle_graph(6), "CCCCCN", "ssssss", None),
        (nx.cycle_graph(5), "CCCCN", "aaaaa", "pyrrole-like ring"),
        (nx.cycle_graph(5), "CCCCO", "dsdss", "furan-like ring"),
        (nx.cycle_graph(5), "CCCCS", "ddsss", None),
        (nx.cycle_graph(5), "CCCCS", "aaaaa", "thiophene-like ring"),
        (nx.cycle_graph(5), "CCCCP", "aaaaa", None),
        (nx.cycle_graph(5), "CCCCC", "aaaaa", None),
        (nx.path_graph(3), "ONO", "ds", "nitro group"),
        (nx.path_graph(3), "ONO", "ss", None),
        (nx.path_graph(3), "OSO", "dd", "sulfonyl group"),
        (nx.path_graph(3), "OSO", "ds", None),
        (nx.path_graph(3), "OCO", "ds", "carboxyl-like group"),
        (nx.path_graph(3), "OCO", "ss", None),
        (nx.path_graph(3), "OCN", "ds", "amide-like group"),
        (nx.path_graph(3), "OCN", "sd", None),
        (nx.path_graph(2), "CN", "t", "cyano group"),
        (nx.path_graph(2), "CN", "s", None),
        (nx.path_graph(2), "OC", "d", "carbonyl group"),
        (nx.path_graph(2), "OC", "s", None),
    ],
)
def test_known_bonds_must_be_right_for_the_name(graph: nx.Graph, kinds: str, bonds: str, name: str | None) -> None:
    words = {"s": "single", "d": "double", "t": "triple", "a": "aromatic"}
    around = [(i, (i + 1) % len(kinds)) for i in range(graph.number_of_edges())]
    typed = {(min(pair), max(pair)): words[bond] for pair, bond in zip(around, bonds, strict=True)}
    assert name_chemical(_adjacency(graph), list(kinds), typed) == name


def test_double_bonds_to_other_rings_count() -> None:
    """A ring of naphthalene may have only two double bonds of its own: the third is its neighbour's."""
    bonds = {(0, 1): "double", (1, 2): "single", (2, 3): "double", (3, 4): "single", (4, 5): "single", (0, 5): "single"}
    hexagon = _adjacency(nx.cycle_graph(6))
    assert name_chemical(hexagon, ["C"] * 6, bonds) is None
    assert name_chemical(hexagon, ["C"] * 6, bonds, [True] * 6) == "benzene-like ring"


def test_a_star_has_one_centre() -> None:
    assert find_centre(_adjacency(nx.star_graph(4))) == 0
    assert find_centre(_adjacency(nx.path_graph(3))) == 1
    assert all(find_centre(_adjacency(g)) == -1 for g in (nx.path_graph(2), nx.path_graph(4), nx.complete_graph(3)))
    assert spell_content(_adjacency(nx.star_graph(3)), ["N", "O", "C", "O"]) == "N(C,O,O)"
