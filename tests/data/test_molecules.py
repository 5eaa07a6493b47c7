import builtins
import csv
import logging
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("rdkit")
from rdkit import Chem

from gpm import GpmError, Graph, Tokenizer
from gpm.data.molecules import _as_numbers, _read_table, load_molecules, read_molecules
from gpm.data.smiles import (
    ATOM_SIZES,
    BOND_SIZES,
    DESCRIPTORS,
    describe_molecules,
    featurise,
    find_scaffolds,
    name_atoms,
)
from gpm.io.table_files import write_table

NUMBER, CHIRALITY, DEGREE, CHARGE, HYDROGENS, RADICALS, HYBRID, AROMATIC, RING = range(9)
HYBRIDS, TYPES = ["SP", "SP2", "SP3", "SP3D", "SP3D2"], ["SINGLE", "DOUBLE", "TRIPLE", "AROMATIC"]
STEREO = ["STEREONONE", "STEREOZ", "STEREOE", "STEREOCIS", "STEREOTRANS", "STEREOANY"]
ODD = [
    "C", "[Na+].[Cl-]", "*C", "[H][H]", "F/C=C/F", "F/C=C\\F", "C[C@H](N)C(=O)O", "CC#N", "[O-][n+]1ccccc1", "[CH3]",
    "c1ccc2c(c1)[nH]c1ccccc12", "F[P-](F)(F)(F)(F)F", "CN(C)C=O", "[Fe+6]", "C[Pt@SP1](F)(Cl)Br", "[NH4+]->[Cu+2]",
]  # fmt: skip


def _x(smiles: str) -> NDArray:
    graph, failed = featurise([smiles])
    assert not failed
    return np.asarray(graph.x)


def _bonds(graph: Graph) -> list[tuple[int, ...]]:
    """Every directed edge with its categories: source, target, type, stereo, conjugated."""
    rows = np.asarray(graph.edge_attr)[graph.edge_ids]
    return [tuple(map(int, row)) for row in np.column_stack([graph.edge_index().T, rows])]


def test_categories_lie_within_their_tables() -> None:
    graph, failed = featurise(ODD)
    assert not failed
    assert graph.num_graphs == len(ODD)
    x, edge_attr = np.asarray(graph.x), np.asarray(graph.edge_attr)
    assert (x.dtype, edge_attr.dtype) == (np.int64, np.int64)
    assert x.shape == (graph.num_nodes, len(ATOM_SIZES))
    assert edge_attr.shape == (graph.num_edges, len(BOND_SIZES))
    assert (x >= 0).all()
    assert (x < ATOM_SIZES).all()
    assert (edge_attr >= 0).all()
    assert (edge_attr < BOND_SIZES).all()


def test_benzene() -> None:
    graph, _ = featurise(["c1ccccc1"])
    np.testing.assert_array_equal(graph.x, np.tile([5, 0, 3, 5, 1, 0, 1, 1, 1], (6, 1)))
    np.testing.assert_array_equal(graph.edge_attr, np.tile([3, 0, 1], (12, 1)))
    np.testing.assert_array_equal(graph.degree(), 2)
    assert not graph.census.directed


def test_atoms_by_hand() -> None:
    """Ion, radical, acetylene, an atom that is no element, a charge beyond the table, a square planar centre."""
    assert _x("[NH4+]").tolist() == [[6, 0, 4, 6, 4, 0, 2, 0, 0]]
    assert _x("[CH3]")[0, RADICALS] == 1
    assert _x("C#C")[:, HYBRID].tolist() == [0, 0]
    assert _x("[Na+]")[0, HYBRID] == ATOM_SIZES[HYBRID] - 1
    assert _x("*")[0, NUMBER] == ATOM_SIZES[NUMBER] - 1
    assert _x("[Fe+6]")[0, CHARGE] == ATOM_SIZES[CHARGE] - 1
    assert _x("[Og]")[0, NUMBER] == 117
    assert _x("C[Pt@SP1](F)(Cl)Br")[1, CHIRALITY] == ATOM_SIZES[CHIRALITY] - 1


def test_bonds_by_hand() -> None:
    graph, _ = featurise(["F/C=C/F", "F/C=C\\F", "CC#N"])
    kinds = {(a, b): rest for a, b, *rest in _bonds(graph)}
    assert kinds[1, 2] == kinds[2, 1] == [1, 2, 0]  # E
    assert kinds[5, 6] == [1, 1, 0]  # Z
    assert kinds[9, 10] == [2, 0, 0]
    assert featurise(["N->[Cu]"])[0].edge_attr[0, 0] == BOND_SIZES[0] - 1  # type: ignore[index]


def test_both_directions_of_a_bond_are_alike() -> None:
    bonds = _bonds(featurise(ODD)[0])
    assert {(b, a, *kind) for a, b, *kind in bonds} == set(bonds)


@pytest.mark.parametrize("smiles", ["Cc1ccc(cc1)S(=O)(=O)N", "CN1C=NC2=C1C(=O)N(C(=O)N2C)C", "C/C=C/C(=O)[O-].[Na+]"])
def test_features_do_not_depend_on_how_a_molecule_is_written(smiles: str) -> None:
    molecule = Chem.MolFromSmiles(smiles)
    graphs = [featurise([text])[0] for text in Chem.MolToRandomSmilesVect(molecule, 20, randomSeed=1)]
    rows = [Counter(map(tuple, np.asarray(graph.x).tolist())) for graph in graphs]
    assert all(row == rows[0] for row in rows)
    seen = []
    for graph in graphs:  # bonds with the atoms that they join
        x = np.asarray(graph.x)
        seen.append(Counter((tuple(x[a]), tuple(x[b]), *kind) for a, b, *kind in _bonds(graph)))
    assert all(bonds == seen[0] for bonds in seen)


def test_a_collection_is_its_molecules_side_by_side() -> None:
    graph, _ = featurise(ODD)
    first = 0
    for text, part in zip(ODD, graph.to_pyg(), strict=True):
        alone, _ = featurise([text])
        np.testing.assert_array_equal(part.x, alone.x)
        np.testing.assert_array_equal(part.edge_index, alone.edge_index())
        np.testing.assert_array_equal(part.edge_attr, np.asarray(alone.edge_attr)[alone.edge_ids])
        first += alone.num_nodes
    assert first == graph.num_nodes


def test_single_atoms_and_salts_are_walked() -> None:
    graph, _ = featurise(["C", "[Na+].[Cl-]", "CCO"])
    assert graph.graph_ptr is not None
    assert graph.graph_ptr.tolist() == [0, 1, 3, 6]
    nodes = Tokenizer(graph, lengths=(2, 4), pool=8).graphs([0, 1, 2]).nodes.numpy()
    for number in range(3):
        mine = nodes[number][nodes[number] >= 0]
        assert graph.graph_ptr[number] <= mine.min()
        assert mine.max() < graph.graph_ptr[number + 1]


def test_no_molecules_at_all() -> None:
    graph, failed = featurise(["", "C1CC"])
    assert (graph.num_graphs, graph.num_nodes) == (0, 0)
    assert [place for place, _ in failed] == [0, 1]
    assert np.asarray(featurise([])[0].x).shape == (0, 9)


def test_rdkit_is_silent(capfd: pytest.CaptureFixture[str]) -> None:
    _, failed = featurise(["C1CC", "C(C)(C)(C)(C)C", "c1cccc1", "hello", " "])
    assert capfd.readouterr() == ("", "")
    reasons = [reason for _, reason in failed]
    assert reasons[0] == "'C1CC' is not SMILES"
    assert "valence for atom # 0 C, 5, is greater than permitted" in reasons[1]
    assert "kekulize" in reasons[2]
    assert reasons[4] == "empty"


@pytest.mark.needs("MoleculeNet/esol")
def test_esol_is_as_pyg_has_it(raw_files: Path) -> None:
    """PyG asks the same of atoms and bonds, and numbers four columns otherwise.

    Its atomic numbers begin with 0, ours with 1; its hybridisations, bond types and stereo are in another order. Equal
    are chirality, degree, charge, hydrogens, radicals, aromatic, in a ring, and conjugated.
    """
    from torch_geometric.utils import from_smiles
    from torch_geometric.utils.smiles import e_map, x_map

    path, target = raw_files / "MoleculeNet/esol/raw/delaney-processed.csv", "measured log solubility in mols per litre"
    found = read_molecules(path, target=target)
    assert (found.graph.num_graphs, found.graph.num_nodes, found.skipped) == (1128, 14991, [])
    with path.open() as file:
        table = list(csv.DictReader(file))
    np.testing.assert_array_equal(found.graph.y, [float(row[target]) for row in table])
    parts: Any = found.graph.to_pyg()
    for number in range(0, 1128, 4):
        theirs, ours = from_smiles(table[number]["smiles"]), parts[number]
        expected = theirs.x.clone()
        expected[:, NUMBER] -= 1
        expected[:, HYBRID] = _renumber(expected[:, HYBRID], x_map["hybridization"], HYBRIDS)
        np.testing.assert_array_equal(ours.x, expected)
        np.testing.assert_array_equal(ours.edge_index, theirs.edge_index)
        expected = theirs.edge_attr.clone()
        expected[:, 0] = _renumber(expected[:, 0], e_map["bond_type"], TYPES)
        expected[:, 1] = _renumber(expected[:, 1], e_map["stereo"], STEREO)
        np.testing.assert_array_equal(ours.edge_attr, expected)


def _renumber(column: Any, theirs: list[str], ours: list[str]) -> Any:
    names = [theirs[i] for i in column.tolist()]
    return column.new_tensor([ours.index(name) if name in ours else len(ours) for name in names])


def _write(folder: Path, text: str) -> Path:
    (folder / "molecules.csv").write_text(text, encoding="utf-8")
    return folder / "molecules.csv"


def test_a_table_is_read_in_its_order(tmp_path: Path) -> None:
    found = read_molecules(_write(tmp_path, "id,SMILES,logp\n1,CCO,-0.3\n2,C,\n3,c1ccccc1,2.1\n"), target="logp")
    assert found.smiles == ["CCO", "C", "c1ccccc1"]
    assert found.lines.tolist() == [2, 3, 4]
    assert found.skipped == []
    np.testing.assert_array_equal(found.graph.y, [-0.3, np.nan, 2.1])
    assert np.diff(found.graph.graph_ptr).tolist() == [3, 1, 6]


def test_several_targets_or_none(tmp_path: Path) -> None:
    path = _write(tmp_path, 'smiles,a,"b, c",d\nCCO,1,0.5,yes\nC,,2,no\n')
    assert read_molecules(path).graph.y is None
    np.testing.assert_array_equal(read_molecules(path, target="d, a").graph.y, [[1, 1], [0, np.nan]])
    np.testing.assert_array_equal(read_molecules(path, target="b, c").graph.y, [0.5, 2])


def test_a_table_is_the_data_of_a_graph_task(tmp_path: Path) -> None:
    smiles = ["C" * n for n in range(1, 8)] + ["c1ccccc1", "Cc1ccccc1", "C1CC1"]
    rows = [f"{text},{n / 4},{n % 2}" for n, text in enumerate(smiles)]
    path = _write(tmp_path, "\n".join(["smiles,value,class", *rows, "x,0,0"]))
    values = load_molecules(path, target="value")
    assert (values.title, values.metric, values.names) == ("molecules", "mae", smiles)
    np.testing.assert_array_equal(values.labels, np.arange(10, dtype=np.float32) / 4)
    assert values.make_split(0).name == "random 80/10/10, seed 0"
    split = values.make_split(0, "scaffold 70/20/10")
    assert (split.train.tolist(), split.val.tolist(), split.test.tolist()) == ([*range(7)], [7, 8], [9])
    assert load_molecules(path, target="class").labels.tolist() == [0, 1] * 5
    assert load_molecules(path, target="class", metric="rmse").labels.dtype == np.float32
    assert load_molecules(path).graph.y is None


@pytest.mark.parametrize("suffix", ["csv", "tsv", "parquet"])
def test_rows_that_are_no_molecules_are_left_out_and_named(
    tmp_path: Path, suffix: str, caplog: pytest.LogCaptureFixture
) -> None:
    smiles = ["CCO", "C1CC", "", "C", "x", "y", "z", "CC", "(", "CCC"]
    path = tmp_path / f"m.{suffix}"
    write_table(path, {"smiles": smiles, "y": np.arange(10.0)})
    with caplog.at_level(logging.WARNING, logger="gpm"):
        found = read_molecules(path, target="y")
    first = 1 if suffix == "parquet" else 2
    assert found.smiles == ["CCO", "C", "CC", "CCC"]
    assert (found.lines - first).tolist() == [0, 3, 7, 9]
    np.testing.assert_array_equal(found.graph.y, [0, 3, 7, 9])
    assert [line - first for line, _ in found.skipped] == [1, 2, 4, 5, 6, 8]
    reasons = ["'C1CC' is not SMILES", "empty", *(f"'{bad}' is not SMILES" for bad in "xyz")]
    named = "; ".join(f"line {line}: {reason}" for (line, _), reason in zip(found.skipped, reasons, strict=False))
    assert caplog.messages == [f"m.{suffix}: 6 of 10 rows left out ({named}; and 1 more)"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("smiles,y\nx,1\n,2\n", r"no row has a molecule in column 'smiles' \(line 2: 'x' is not SMILES\)"),
        ("smiles,y\n", "has no rows"),
        ("smile,y\nC,1\n", r"no column 'smiles'\. Did you mean 'smile'\? Its columns are smile, y\."),
        ("smiles,z\nC,1\n", r"no column 'y'.* Its columns are smiles, z\."),
        ("smiles,y\nC,1\nCC,high\n", r"molecules\.csv, line 3: 'high' is not a number"),
    ],
)
def test_bad_tables_get_a_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(GpmError, match=sentence):
        read_molecules(_write(tmp_path, text), target="y")


def test_without_rdkit_there_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refuse(name: str, *rest: Any, **options: Any) -> Any:
        if name.startswith("rdkit"):
            raise ImportError(name)
        return real(name, *rest, **options)

    monkeypatch.setattr(builtins, "__import__", refuse)
    for work, given in ((featurise, ["C"]), (find_scaffolds, ["C"]), (read_molecules, tmp_path / "none.csv")):
        with pytest.raises(GpmError, match=r"RDKit: pip install 'graph-pattern-machine\[molecules\]'"):
            work(given)  # type: ignore[operator]


def test_scaffolds() -> None:
    """Rings and what links them; side chains, chirality and the way of writing do not count."""
    smiles = ["CCO", "Cc1ccccc1", "c1ccccc1CCC", "C", "c1ccccc1CCc1ccccc1", "C1=CC=CC=C1", "C[C@H]1CCCCN1", "C1CCNCC1"]
    assert find_scaffolds(smiles).tolist() == [0, 1, 1, 0, 2, 1, 3, 3]
    assert find_scaffolds([]).tolist() == []
    with pytest.raises(GpmError, match="Molecule 1 has no scaffold: 'x' is not SMILES"):
        find_scaffolds(["C", "x"])


@pytest.mark.parametrize("suffix", ["csv", "tsv", "parquet"])
def test_what_was_written_is_read(tmp_path: Path, suffix: str) -> None:
    """Numbers come back to the last digit written, text as it was."""
    values = np.array([0.5, -2.75, np.nan])
    write_table(tmp_path / f"t.{suffix}", {"a": ["x, y", 'qu"oted', "z"], "b": values, "c": [True, False, True]})
    header, lines, rows = _read_table(tmp_path / f"t.{suffix}")
    assert header == ["a", "b", "c"]
    assert lines == ([1, 2, 3] if suffix == "parquet" else [2, 3, 4])
    assert [row[0] for row in rows] == ["x, y", 'qu"oted', "z"]
    numbers = _as_numbers(Path("t"), lines, [row[1:] for row in rows])
    np.testing.assert_array_equal(numbers, np.column_stack([values, [1, 0, 1]]))


def test_a_row_is_known_by_the_line_it_begins_at(tmp_path: Path) -> None:
    path = _write(tmp_path, 'a,b\n1,2\n\n"over\ntwo lines",3\n4,5\n , \n6,7\n')
    assert _read_table(path)[1:] == ([2, 4, 6, 8], [["1", "2"], ["over\ntwo lines", "3"], ["4", "5"], ["6", "7"]])


def test_words_are_numbers_or_unknown() -> None:
    rows = [["1e-3"], ["True"], ["no"], [""], ["NaN"], ["N/A"]]
    numbers = _as_numbers(Path("t"), list(range(6)), rows)
    np.testing.assert_array_equal(numbers[:, 0], [1e-3, 1, 0, np.nan, np.nan, np.nan])
    assert _as_numbers(Path("t"), [1, 2], [[], []]).shape == (2, 0)


@pytest.mark.parametrize("cell", ["Toxic", "1,5", "inf", "1e999", "-"])
def test_other_words_are_refused_by_line(cell: str) -> None:
    with pytest.raises(GpmError, match=f"^t, line 7: '{cell}' is not a number"):
        _as_numbers(Path("t"), [3, 7], [["1", "2"], ["3", cell]])


def test_tables_that_cannot_be_read_get_a_sentence(tmp_path: Path) -> None:
    for text, sentence in (
        ("smiles,b\nC,2\nC,2,3\n", r"molecules\.csv, line 3: 3 cell\(s\) instead of 2"),
        ("smiles,b\nC,2\nC\n", r"molecules\.csv, line 3: 1 cell\(s\) instead of 2"),
        ('smiles,b\nC,"2\nC,4\n', "quote is opened and never closed"),
        ("", "has no rows"),
    ):
        with pytest.raises(GpmError, match=sentence):
            read_molecules(_write(tmp_path, text))
    (tmp_path / "t.parquet").write_text("a,b\n")
    (tmp_path / "t.xlsx").write_text("a,b\n")
    for name, sentence in (("t.parquet", "cannot be read"), ("t.xlsx", "not a supported table"), ("n.csv", "no file")):
        with pytest.raises(GpmError, match=sentence):
            read_molecules(tmp_path / name)


def test_columns_that_identify_a_molecule_are_kept_and_others_are_not(tmp_path: Path) -> None:
    rows = ["Mol ID,name,SMILES,logp,weight,maker", "7,ethane,CC,1,30,acme", ",,CCC,2,44,acme", ",,xyz,,,"]
    (tmp_path / "t.csv").write_text("\n".join(rows) + "\n")
    data = load_molecules(tmp_path / "t.csv", target="logp")
    assert data.name_instances(np.array([1, 0])) == {
        "graph": [1, 0], "line": [3, 2], "SMILES": ["CCC", "CC"], "Mol ID": ["", "7"], "name": ["", "ethane"],
    }  # fmt: skip


def test_descriptors_are_numbers_and_do_not_depend_on_how_a_molecule_is_written() -> None:
    values = describe_molecules([*ODD, "OCC", "C(C)O", "no molecule"])
    assert values.shape == (len(ODD) + 3, len(DESCRIPTORS))
    assert not np.isinf(values).any()
    assert np.isnan(values[-1]).all()
    np.testing.assert_allclose(values[-3], values[-2], rtol=1e-5)
    ethanol = dict(zip(DESCRIPTORS, values[-2].tolist(), strict=True))
    assert ethanol["amw"] == pytest.approx(46.069, abs=1e-3)
    assert (ethanol["NumHeavyAtoms"], ethanol["NumHBD"], ethanol["NumRings"]) == (3, 1, 0)


def test_a_table_has_descriptors_and_other_graphs_have_none(tmp_path: Path) -> None:
    write_table(tmp_path / "m.csv", {"smiles": ["CCO", "wrong (", "c1ccccc1"], "y": [1.5, 2.5, 3.25]})
    data = load_molecules(tmp_path / "m.csv", target="y")
    np.testing.assert_array_equal(data.describe_instances(), describe_molecules(["CCO", "c1ccccc1"]))
    with pytest.raises(GpmError, match="has no SMILES to compute descriptors from; give a table of molecules"):
        replace(data, smiles=None).describe_instances()


def test_every_category_of_an_atom_has_a_name() -> None:
    """Ethanol: its oxygen has one hydrogen and lies in no ring."""
    names = name_atoms()
    assert [len(column) for column in names] == list(ATOM_SIZES)
    oxygen = featurise(["CCO"])[0].x[2]  # type: ignore[index]
    assert [column[value] for column, value in zip(names, oxygen, strict=True)] == [
        "element O", "chirality unspecified", "degree 2", "charge 0", "hydrogens 1", "radical electrons 0",
        "hybridisation sp3", "aromatic: no", "in a ring: no",
    ]  # fmt: skip
