"""SMILES as graphs: atoms and bonds as categories, numbered as OGB does. RDKit parses the SMILES."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpm.errors import GpmError
from gpm.graph.graph import Graph

ATOM_SIZES = (119, 5, 12, 12, 10, 6, 6, 2, 2)  # categories of each column
BOND_SIZES = (5, 6, 2)
# How RDKit is asked for a column, the enumeration that it answers with, and the values in order. What is not among
# them belongs to the column's last category.
_Columns = tuple[tuple[str, str, range | tuple[str, ...]], ...]
_ATOMS: _Columns = (
    ("GetAtomicNum", "", range(1, 119)),
    ("GetChiralTag", "ChiralType", ("CHI_UNSPECIFIED", "CHI_TETRAHEDRAL_CW", "CHI_TETRAHEDRAL_CCW", "CHI_OTHER")),
    ("GetTotalDegree", "", range(11)),
    ("GetFormalCharge", "", range(-5, 6)),
    ("GetTotalNumHs", "", range(9)),
    ("GetNumRadicalElectrons", "", range(5)),
    ("GetHybridization", "HybridizationType", ("SP", "SP2", "SP3", "SP3D", "SP3D2")),
    ("GetIsAromatic", "", range(2)),
    ("IsInRing", "", range(2)),
)
_ENDS: _Columns = (("GetBeginAtomIdx", "", range(0)), ("GetEndAtomIdx", "", range(0)))
_BONDS: _Columns = (
    ("GetBondType", "BondType", ("SINGLE", "DOUBLE", "TRIPLE", "AROMATIC")),
    ("GetStereo", "BondStereo", ("STEREONONE", "STEREOZ", "STEREOE", "STEREOCIS", "STEREOTRANS", "STEREOANY")),
    ("GetIsConjugated", "", range(2)),
)
_SYMBOLS = (
    "H He Li Be B C N O F Ne Na Mg Al Si P S Cl Ar K Ca Sc Ti V Cr Mn Fe Co Ni Cu Zn Ga Ge As Se Br Kr Rb Sr Y Zr Nb "
    "Mo Tc Ru Rh Pd Ag Cd In Sn Sb Te I Xe Cs Ba La Ce Pr Nd Pm Sm Eu Gd Tb Dy Ho Er Tm Yb Lu Hf Ta W Re Os Ir Pt Au "
    "Hg Tl Pb Bi Po At Rn Fr Ra Ac Th Pa U Np Pu Am Cm Bk Cf Es Fm Md No Lr Rf Db Sg Bh Hs Mt Ds Rg Cn Nh Fl Mc Lv Ts "
    "Og"
)
ELEMENTS = (*_SYMBOLS.split(), "*")  # categories of atoms by their first column
_ATOM_NAMES = (
    "element", "chirality", "degree", "charge", "hydrogens", "radical electrons", "hybridisation", "aromatic",
    "in a ring",
)  # fmt: skip
# Properties of a molecule, by their names in RDKit.
DESCRIPTORS = (
    "amw", "lipinskiHBA", "lipinskiHBD", "NumRotatableBonds", "NumHBD", "NumHBA", "NumHeavyAtoms", "NumAtoms",
    "NumHeteroatoms", "NumAmideBonds", "FractionCSP3", "NumRings", "NumAromaticRings", "NumAliphaticRings",
    "NumSaturatedRings", "NumHeterocycles", "NumAromaticHeterocycles", "NumSaturatedHeterocycles",
    "NumAliphaticHeterocycles", "NumSpiroAtoms", "NumBridgeheadAtoms", "NumAtomStereoCenters", "labuteASA", "tpsa",
    "CrippenClogP", "CrippenMR", "chi0v", "chi1v", "chi2v", "chi3v", "chi4v", "chi0n", "chi1n", "chi2n", "chi3n",
    "chi4n", "hallKierAlpha", "kappa1", "kappa2", "kappa3", "Phi",
)  # fmt: skip


def name_atoms() -> list[list[str]]:
    """Return the names of the categories of atoms, by column: "element C", "hydrogens 2", "aromatic: yes"."""
    named = [[f"{_ATOM_NAMES[0]} {symbol}" for symbol in ELEMENTS]]
    for name, (_, _, values), size in list(zip(_ATOM_NAMES, _ATOMS, ATOM_SIZES, strict=True))[1:]:
        if values == range(2):
            named.append([f"{name}: no", f"{name}: yes"])
        else:
            plain = (str(value).removeprefix("CHI_").lower().replace("_", " ") for value in values)
            named.append([f"{name} {value}" for value in (*plain, "other")][:size])
    return named


def featurise(smiles: Sequence[str]) -> tuple[Graph, list[tuple[int, str]]]:
    """Parse SMILES into a collection of graphs, with atoms and bonds as OGB numbers them.

    Hydrogens are atoms of their own only where the SMILES needs them. Chirality is the tag that RDKit gives, which
    depends on the order in which the SMILES names the neighbours; nothing else depends on how it is written. Returned
    are the graphs of the SMILES that parse, in their order, with categories of atoms `x` `[N, 9]` and of bonds
    `edge_attr` `[E, 3]`, each bond in both directions; and index and reason of the others.
    """
    chem = import_rdkit()
    from rdkit.rdBase import BlockLogs

    atoms, bonds = _Answers(chem.Atom, _ATOMS), _Answers(chem.Bond, (*_ENDS, *_BONDS))
    bounds, bond_counts, failed = array("q", [0]), array("q"), list[tuple[int, str]]()
    with BlockLogs():
        for index, text in enumerate(smiles):
            text = text if isinstance(text, str) else ""  # a gap of a Series
            molecule = chem.MolFromSmiles(text)
            if molecule is None or not molecule.GetNumAtoms():
                failed.append((index, _explain(chem, text)))
                continue
            bounds.append(bounds[-1] + atoms.ask(molecule.GetAtomWithIdx, molecule.GetNumAtoms()))
            bond_counts.append(bonds.ask(molecule.GetBondWithIdx, molecule.GetNumBonds()))
    once = bonds.raw()[:2] + np.repeat(np.array(bounds)[:-1], bond_counts)
    graph = Graph.from_edges(
        np.concatenate([once, once[::-1]], axis=1),
        bounds[-1],
        x=_number(chem, atoms.raw(), _ATOMS, ATOM_SIZES),
        edge_attr=np.tile(_number(chem, bonds.raw()[2:], _BONDS, BOND_SIZES), (2, 1)),
        graph_ptr=np.array(bounds),
    )
    return graph, failed


def find_scaffolds(smiles: Sequence[str]) -> NDArray[np.int64]:
    """Number the Bemis-Murcko scaffolds `[G]`: molecules with the same rings and links between rings share one.

    Chirality is left out. Scaffolds are numbered as they appear; all molecules without rings share the empty one.
    """
    chem = import_rdkit()
    from rdkit.Chem.Scaffolds.MurckoScaffold import MurckoScaffoldSmiles
    from rdkit.rdBase import BlockLogs

    numbers: dict[str, int] = {}
    scaffolds = np.empty(len(smiles), dtype=np.int64)
    with BlockLogs():
        for index, text in enumerate(smiles):
            molecule = chem.MolFromSmiles(text)
            if molecule is None:
                raise GpmError(f"Molecule {index} has no scaffold: {_explain(chem, text)}; leave it out.")
            scaffold = MurckoScaffoldSmiles(mol=molecule, includeChirality=False)  # type: ignore[no-untyped-call]
            scaffolds[index] = numbers.setdefault(scaffold, len(numbers))
    return scaffolds


def describe_molecules(smiles: Sequence[str]) -> NDArray[np.float32]:
    """Return the properties `DESCRIPTORS` of molecules `[G, d]`; NaN where RDKit finds none."""
    chem = import_rdkit()
    from rdkit.Chem.rdMolDescriptors import Properties
    from rdkit.rdBase import BlockLogs

    values = np.full((len(smiles), len(DESCRIPTORS)), np.nan, dtype=np.float32)
    compute = Properties(list(DESCRIPTORS)).ComputeProperties
    with BlockLogs():
        for index, text in enumerate(smiles):
            if (molecule := chem.MolFromSmiles(text)) is not None:
                values[index] = list(compute(molecule))
    return np.where(np.isfinite(values), values, np.float32(np.nan))


class _Answers:
    """RDKit's properties of atoms or bonds, column by column: twice as fast as one by one."""

    def __init__(self, kind: Any, columns: _Columns) -> None:
        self.questions = [getattr(kind, question) for question, _, _ in columns]
        self.columns = [array("i") for _ in columns]

    def ask(self, find: Callable[[int], Any], count: int) -> int:
        """Ask about the atoms or bonds below `count`, and return `count`."""
        things = list(map(find, range(count)))
        for question, column in zip(self.questions, self.columns, strict=True):
            column.extend(map(question, things))
        return count

    def raw(self) -> NDArray[np.int32]:
        """Return all properties `[columns, things]`."""
        return np.array(self.columns, dtype=np.int32)


def _number(chem: ModuleType, raw: NDArray, columns: _Columns, sizes: tuple[int, ...]) -> NDArray[np.int64]:
    """Return the categories `[things, columns]` of RDKit's properties `[columns, things]`."""
    numbered = np.empty(raw.T.shape, dtype=np.int64)
    for i, ((_, enumeration, values), size) in enumerate(zip(columns, sizes, strict=True)):
        kind = getattr(chem, enumeration) if enumeration else None
        listed = [int(value if kind is None else getattr(kind, str(value))) for value in values]
        category = np.full(256, size - 1)
        category[listed] = np.arange(len(listed))
        numbered[:, i] = category[np.clip(raw[i], -128, 127)]  # negative ones count from the end
    return numbered


def import_rdkit() -> ModuleType:
    """Import RDKit, or say how to install it."""
    try:
        from rdkit import Chem
    except ImportError:
        raise GpmError("Molecules need RDKit: pip install 'graph-pattern-machine[molecules]'.") from None
    return Chem


def _explain(chem: ModuleType, text: str) -> str:
    """Say why a text is no molecule."""
    if not text.strip():
        return "empty"
    molecule = chem.MolFromSmiles(text, sanitize=False)
    problems = () if molecule is None else chem.DetectChemistryProblems(molecule)
    return problems[0].Message().rstrip(". \n") if problems else f"{text[:40]!r} is not SMILES"
