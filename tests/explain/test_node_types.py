import pickle
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from gpm import Graph
from gpm.data.graph_data import GraphData, load_graph_data
from gpm.data.molecules import load_molecules
from gpm.data.sources import load_task_data
from gpm.explain.node_types import Kinds, find_kinds, name_pattern, spell_content

NITRO = "O=[N+]([O-])c1ccccc1"


def _adjacency(graph: nx.Graph) -> NDArray[np.bool_]:
    return nx.to_numpy_array(graph, nodelist=sorted(graph), dtype=bool)


def _table(folder: Path, *smiles: str) -> GraphData:
    path = folder / "molecules.csv"
    path.write_text("\n".join(["smiles,y", *(f"{text},{i % 2}" for i, text in enumerate(smiles))]))
    return load_molecules(path, target="y")


def _kinds(folder: Path, *smiles: str) -> Kinds:
    found = find_kinds(_table(folder, *smiles), str(folder / "molecules.csv"))
    assert found is not None
    return found


def _collection(x: object, nodes: int = 6) -> GraphData:
    ptr = [0, nodes // 2, nodes]
    return GraphData(Graph.from_edges([[0, 1], [1, 0]], nodes, x=x, y=[0, 1], graph_ptr=ptr), "graphs")


def test_atoms_of_a_table_have_their_elements_and_bonds(tmp_path: Path) -> None:
    kinds = _kinds(tmp_path, "[*]C#N", "[Na+].[Cl-]", "C=C", NITRO)
    assert kinds.atoms
    assert kinds.of_node(range(7)) == ["*", "C", "N", "Na", "Cl", "C", "C"]
    assert kinds.of_edge([0, 1, 2, 5, 3], [1, 2, 1, 6, 4]) == ["single", "triple", "triple", "double", ""]
    assert kinds.of_edge([10], [11]) == ["aromatic"]
    assert kinds.of_node([]) == kinds.of_edge([], []) == []


def test_atoms_without_any_bond_have_no_kinds_of_bonds(tmp_path: Path) -> None:
    assert _kinds(tmp_path, "C", "N").of_edge([0], [1]) == [""]


@pytest.mark.parametrize(
    ("x", "names"),
    [
        (np.array([[0], [3], [1], [2], [0], [0]]), ["t0", "t3", "t1", "t2", "t0", "t0"]),
        (np.eye(3)[[0, 2, 1, 1, 0, 0]], ["t0", "t2", "t1", "t1", "t0", "t0"]),
        (np.array([[0], [64], [1], [2], [0], [0]]), None),
        (np.array([[0], [-1], [1], [2], [0], [0]]), None),
        (np.zeros((6, 1), dtype=np.int64), None),
        (np.zeros((6, 2), dtype=np.int64), None),
        (np.ones((6, 1)), None),
        (np.eye(6)[:, :5], None),
        (np.full((6, 2), 0.5), None),
        (None, None),
    ],
)
def test_other_collections_have_types_if_nodes_have_one_each(x: NDArray | None, names: list[str] | None) -> None:
    kinds = find_kinds(_collection(x), "")
    assert (kinds and kinds.of_node(range(6))) == names
    assert kinds is None or not kinds.atoms


def test_a_single_graph_has_no_types() -> None:
    data = _collection(np.array([[0], [1], [1], [2], [0], [0]]))
    alone = replace(data.graph, graph_ptr=None)
    assert find_kinds(data, "") is not None
    assert find_kinds(replace(data, graph=alone), "") is None


def test_a_name_counts_only_for_the_data_that_it_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user's own data is never read as ZINC: not if a run on ZINC gets it, and not if its folder is called so."""
    own = _collection(np.array([[0], [1], [1], [2], [0], [0]]))
    zinc = replace(own, title="ZINC")
    first = {source: find_kinds(data, source).of_node([1]) for data, source in ((own, "zinc"), (zinc, "zinc_12k"))}  # type: ignore[union-attr]
    assert first == {"zinc": ["t1"], "zinc_12k": ["O"]}
    monkeypatch.chdir(tmp_path)
    own.graph.save("zinc")
    named = find_kinds(zinc, "zinc")
    assert named is not None
    assert named.of_node([1]) == ["t1"]


@pytest.mark.needs("TUDataset/MUTAG")
@pytest.mark.usefixtures("raw_files")
def test_mutag_has_the_published_elements_and_valences() -> None:
    data = load_task_data("mutag")
    kinds = find_kinds(data, "mutag")
    assert kinds is not None
    names = kinds.of_node(range(data.graph.num_nodes))
    assert set(names) == {"C", "N", "O", "F", "I", "Cl", "Br"}
    halogens = [v for v, name in enumerate(names) if name in ("F", "I", "Cl", "Br")]
    assert set(data.graph.degree()[halogens]) == {1}
    assert all(kinds.of_edge([v], data.graph.neighbors(v)) == ["single"] for v in halogens)
    oxygens = [v for v, name in enumerate(names) if name == "O" and data.graph.degree()[v] > 1]
    assert oxygens
    assert all("double" not in kinds.of_edge([v, v], data.graph.neighbors(v)[:2]) for v in oxygens)


@pytest.mark.needs("ZINC/raw")
def test_zinc_has_the_elements_and_bonds_of_its_molecules(raw_files: Path) -> None:
    """The list of SMILES has the molecules in the same order, but not their atoms."""
    from rdkit import Chem

    with (raw_files / "ZINC/raw/val.pickle").open("rb") as file:
        stored = pickle.load(file)[:300]
    smiles = (raw_files / "ZINC/raw/val.smi").read_text().split()
    bounds = np.cumsum([0, *(len(m["atom_type"]) for m in stored)])
    blocks = [m["bond_type"].numpy().nonzero() for m in stored]
    edges = np.concatenate([np.stack(b) + at for b, at in zip(blocks, bounds, strict=False)], axis=1)
    graph = Graph.from_edges(
        edges,
        int(bounds[-1]),
        x=np.concatenate([m["atom_type"].numpy() for m in stored]),
        edge_attr=np.concatenate([m["bond_type"].numpy()[b] for m, b in zip(stored, blocks, strict=True)]),
        graph_ptr=bounds,
    )
    kinds = find_kinds(GraphData(graph, "ZINC"), "zinc")
    assert kinds is not None
    source, target = graph.edge_index()
    bonds = np.array(kinds.of_edge(source, target))
    for i, (begin, end) in enumerate(pairwise(bounds)):
        molecule = Chem.MolFromSmiles(smiles[i])
        Chem.Kekulize(molecule, clearAromaticFlags=True)
        assert Counter(kinds.of_node(range(begin, end))) == Counter(a.GetSymbol() for a in molecule.GetAtoms())
        drawn = Counter(bonds[(source >= begin) & (source < end)].tolist())
        assert drawn == Counter(b.GetBondType().name.lower() for b in molecule.GetBonds() for _ in range(2))


@pytest.mark.needs("MoleculeNet/freesolv")
@pytest.mark.usefixtures("raw_files")
def test_moleculenet_has_the_elements_and_bonds_of_its_smiles() -> None:
    from rdkit import Chem

    data = load_graph_data("freesolv")
    kinds = find_kinds(data, "freesolv")
    assert kinds is not None
    assert data.names is not None
    assert data.graph.graph_ptr is not None
    for number in range(0, data.graph.num_graphs, 5):
        molecule, begin = Chem.MolFromSmiles(data.names[number]), int(data.graph.graph_ptr[number])
        assert kinds.of_node(range(begin, begin + molecule.GetNumAtoms())) == [
            a.GetSymbol() for a in molecule.GetAtoms()
        ]
        for bond in molecule.GetBonds():
            ends = begin + bond.GetBeginAtomIdx(), begin + bond.GetEndAtomIdx()
            assert kinds.of_edge(*([end] for end in ends)) == [bond.GetBondType().name.lower()]


@pytest.mark.parametrize(
    ("graph", "kinds", "content"),
    [
        (nx.path_graph(1), "C", "C"),
        (nx.path_graph(2), "NC", "C-N"),
        (nx.path_graph(3), "ONO", "O-N-O"),
        (nx.path_graph(4), "OCCN", "N-C-C-O"),
        (nx.star_graph(3), "NOCO", "N(C,O,O)"),
        (nx.cycle_graph(6), "CCCCCC", "C6"),
        (nx.cycle_graph(6), "NCNCCC", "C4N2"),
        (nx.cycle_graph(5), ["O", "H", "C", "Br", "C"], "C2HBrO"),
        (nx.cycle_graph(3), ["t0", "t12", "t0"], "(t0)2(t12)"),
        (nx.path_graph(3), ["C", "", "O"], "C-?-O"),
        (nx.path_graph(3), ["", "", ""], ""),
        (nx.disjoint_union(nx.path_graph(2), nx.cycle_graph(3)), "CCCCO", "C4O"),
    ],
)
def test_content_is_spelled_along_paths_around_stars_and_else_as_a_formula(
    graph: nx.Graph, kinds: str | list[str], content: str
) -> None:
    assert spell_content(_adjacency(graph), list(kinds)) == content


@given(st.integers(1, 7), st.integers(0, 9), st.randoms(use_true_random=False))
def test_content_and_name_do_not_depend_on_the_order_of_nodes(nodes: int, edges: int, random: object) -> None:
    rng = np.random.default_rng(random.randint(0, 2**32))  # type: ignore[attr-defined]
    graph = nx.gnm_random_graph(nodes, edges, seed=int(rng.integers(1000)))
    if rng.random() < 0.5:
        graph = nx.path_graph(nodes) if rng.random() < 0.5 else nx.star_graph(nodes)
    kinds = rng.choice(["C", "N", "O"], len(graph))
    order = rng.permutation(len(graph))
    adjacency = _adjacency(graph)
    again = adjacency[np.ix_(order, order)]
    assert spell_content(again, kinds[order].tolist()) == spell_content(adjacency, kinds.tolist())


def test_patterns_of_atoms_are_named_as_chemists_do(tmp_path: Path) -> None:
    kinds = _kinds(tmp_path, NITRO, "C1CCCCC1")
    hexagon = _adjacency(nx.cycle_graph(6))
    assert name_pattern(hexagon, range(3, 9), kinds) == ("benzene-like ring", "C6")
    assert name_pattern(hexagon, range(9, 15), kinds) == ("hexagon", "C6")
    assert name_pattern(_adjacency(nx.path_graph(3)), [0, 1, 2], kinds) == ("nitro group", "O-N-O")
    tail = _adjacency(nx.Graph([(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0), (0, 6), (6, 7)]))
    assert name_pattern(tail, [*range(3, 9), 1, 0], kinds) == ("hexagon with tail of 2", "C6NO")


def test_patterns_of_other_nodes_have_the_name_of_their_shape() -> None:
    hexagon = _adjacency(nx.cycle_graph(6))
    types = find_kinds(_collection(np.array([[0], [1], [1], [1], [0], [0]])), "")
    assert name_pattern(hexagon, range(6)) == ("hexagon", "")
    assert name_pattern(hexagon, range(6), types) == ("hexagon", "(t0)3(t1)3")


@pytest.mark.parametrize("smiles", ["c1ccc2ccccc2c1", "c1ccc2c(c1)ccc1ccccc12", "c1ccc2[nH]ccc2c1", "O=C1C=CC(=O)C=C1"])
def test_a_ring_has_its_name_however_its_double_bonds_are_written(tmp_path: Path, smiles: str) -> None:
    """With single and double bonds in turn, as ZINC has them, and with aromatic ones, as tables have them."""
    from rdkit import Chem

    molecule = Chem.MolFromSmiles(smiles)
    aromatic = _kinds(tmp_path, smiles, "C")
    rings = [sorted(ring) for ring in molecule.GetRingInfo().AtomRings()]
    Chem.Kekulize(molecule, clearAromaticFlags=True)
    ends = np.array([(b.GetBeginAtomIdx(), b.GetEndAtomIdx()) for b in molecule.GetBonds()]).T
    orders = np.array([int(b.GetBondTypeAsDouble()) for b in molecule.GetBonds()])
    types = np.array([{"C": 0, "O": 1, "N": 2}[a.GetSymbol()] for a in molecule.GetAtoms()])
    graph = Graph.from_edges(
        ends, len(types), x=types, edge_attr=orders, undirected=True, graph_ptr=[0, len(types)]
    )  # fmt: skip
    in_turn = find_kinds(GraphData(graph, "ZINC"), "zinc")
    whole = _adjacency(nx.Graph(ends.T.tolist()))
    for ring in rings:
        names = [name_pattern(whole[np.ix_(ring, ring)], ring, kinds) for kinds in (aromatic, in_turn)]
        assert names[0] == names[1]
        assert ("like" in names[0][0]) == ("c" in smiles)
