"""Molecules from a table of SMILES: atoms and bonds as categories, as OGB numbers them. RDKit reads the SMILES."""

from __future__ import annotations

import logging
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpm.data.cells_gone import UNKNOWN, as_numbers, find_column, read_cells
from gpm.data.graph_data import DEFAULT_SPLIT, GraphData, build_graph_data
from gpm.data.labels import VALUE_METRICS
from gpm.data.splits import as_masks
from gpm.data.tables.column_roles import SPLITS
from gpm.data.tables.targets import PART_WORDS
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
_SHOWN = 5  # rows that a warning names
_FEW = 16  # rows that may all have different classes
_log = logging.getLogger("gpm")


@dataclass(frozen=True, eq=False)
class Molecules:
    """The molecules of a table, in its order.

    Attributes:
        graph: A graph per molecule. `x` `[N, 9]` are the categories of atoms, `edge_attr` `[E, 3]` those of bonds, each
            bond in both directions; `y` are the targets, float `[G]`, or `[G, C]` for several, NaN where unknown.
        smiles: As the table has them `[G]`.
        lines: Where they stand in the file `[G]`: lines, of which the header is the first; rows in a Parquet file.
        skipped: The other rows: line and reason.
        classes: What the classes 0, 1, ... are called, where the target is words; else empty.
        part: Where the table says train, val or test: 0, 1 and 2, and -1 where it says nothing `[G]`; else None.
    """

    graph: Graph
    smiles: list[str]
    lines: NDArray[np.int64]
    skipped: list[tuple[int, str]]
    classes: tuple[str, ...] = ()
    part: NDArray[np.int8] | None = None


def read_molecules(path: str | Path, *, smiles: str = "smiles", target: str = "") -> Molecules:
    """Read a table of molecules; rows that are no molecules are left out, and named in a warning.

    Args:
        path: A .csv, .tsv or .parquet file with a header.
        smiles: The column of SMILES.
        target: The column to predict, or several columns of numbers as "a,b,c"; empty if there are none. One column of
            words is classes; beside numbers, true and yes are 1, false and no are 0. An empty cell is not known.

    A column called split, part, set, partition or subset that says train, val and test is the split.
    """
    path = Path(path).expanduser()
    _rdkit()  # before the work of reading
    chosen: list[str] = []

    def choose(header: list[str]) -> list[str]:
        chosen[:] = _choose(path, header, smiles, target)
        return [*chosen, *[name for name in header if name.lower() in SPLITS and name not in chosen]]

    lines, rows = read_cells(path, choose)
    if not lines:
        raise GpmError(f"{path} has no rows; write a molecule per row below the header.")
    texts, answers = [row[0] for row in rows], [row[1 : len(chosen)] for row in rows]
    classes = _find_classes(answers)
    if len(classes) == len(lines) > _FEW:
        raise GpmError(
            f"{path}: column {chosen[1]!r} has a word of its own in each of {len(lines):,} rows: no classes; choose "
            "another column."
        )
    labels = _number_classes(answers, classes) if classes else as_numbers(path, lines, answers)
    graph, failed = featurise(texts)
    skipped = [(lines[i], reason) for i, reason in failed]
    if len(skipped) == len(lines):
        line, reason = skipped[0]
        raise GpmError(
            f"{path}: no row has a molecule in column {smiles!r} (line {line}: {reason}); give SMILES there."
        )
    if skipped:
        _log.warning("%s: %s", path.name, _describe(skipped, len(lines)))
    kept = np.delete(np.arange(len(lines)), [i for i, _ in failed])
    if labels.shape[1]:
        graph = replace(graph, y=labels[kept, 0] if labels.shape[1] == 1 else labels[kept])
    part = _find_parts([row[len(chosen) :] for row in rows])
    return Molecules(
        graph, [texts[i] for i in kept], np.array(lines, dtype=np.int64)[kept], skipped, classes,
        None if part is None else part[kept],
    )  # fmt: skip


def _find_classes(answers: list[list[str]]) -> tuple[str, ...]:
    """The words in a single column of targets, in their order; empty if it holds numbers, or nothing.

    Yes and no, or true and false, are two classes however they are written.
    """
    words = {row[0] for row in answers if len(row) == 1 and row[0].lower() not in UNKNOWN}
    if any(map(_is_number, words)):
        return ()
    small = {word.lower() for word in words}
    return tuple(sorted(small if small in ({"no", "yes"}, {"false", "true"}) else words))


def _number_classes(answers: list[list[str]], classes: tuple[str, ...]) -> NDArray[np.float64]:
    """The class of each row `[R, 1]`, NaN where it is unknown."""
    places = {word: float(place) for place, word in enumerate(classes)}
    return np.array([[places.get(row[0], places.get(row[0].lower(), np.nan))] for row in answers])


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _find_parts(columns: list[list[str]]) -> NDArray[np.int8] | None:
    """The parts in the first column that says nothing but train, val and test."""
    for cells in zip(*columns, strict=True):
        words = [cell.lower() for cell in cells]
        if set(PART_WORDS) >= set(words) - {""} != set():
            return np.array([PART_WORDS.get(word, -1) for word in words], dtype=np.int8)
    return None


def load_molecules(path: str | Path, *, smiles: str = "smiles", target: str = "", metric: str = "") -> GraphData:
    """Read a table of molecules as the data of a graph task, named by their SMILES.

    The usual split is that of the table, if it names one; else a random one, as the molecules of a table may have too
    few scaffolds; "scaffold" is there too.

    Args:
        path, smiles, target: As in `read_molecules`; without a target there are no labels, which is enough to predict.
        metric: As in `load_graph_data`.
    """
    found = read_molecules(path, smiles=smiles, target=target)
    title = Path(path).stem
    if found.graph.y is None:
        return GraphData(found.graph, title, names=found.smiles, lines=found.lines)
    graph, groups, masks = found.graph, find_scaffolds(found.smiles), as_masks(found.part)
    if found.classes:
        if metric in VALUE_METRICS:
            words = ", ".join(found.classes[:3])
            raise GpmError(f"{path}: column {target!r} holds words ({words}), which {metric} does not score.")
        graph = replace(graph, y=np.where(np.isnan(found.graph.y), -1, found.graph.y).astype(np.int64))
    split = DEFAULT_SPLIT if masks is None else "public"
    data = build_graph_data(graph, title, split, metric, masks, groups, found.smiles)
    return replace(data, lines=found.lines, class_names=found.classes)


def featurise(smiles: Sequence[str]) -> tuple[Graph, list[tuple[int, str]]]:
    """Parse SMILES into a collection of graphs, with atoms and bonds as OGB numbers them.

    Hydrogens are no atoms of their own unless the SMILES needs them as such. Chirality is the tag that RDKit gives,
    which depends on the order in which the SMILES names the neighbours; all else does not depend on how it is written.

    Returns:
        The graphs of those that parse, in their order, with `x` `[N, 9]` and `edge_attr` `[E, 3]`; and of the others
        the place in `smiles` and the reason.
    """
    chem = _rdkit()
    from rdkit.rdBase import BlockLogs

    atoms, bonds = _Answers(chem.Atom, _ATOMS), _Answers(chem.Bond, (*_ENDS, *_BONDS))
    bounds, bond_counts, failed = array("q", [0]), array("q"), list[tuple[int, str]]()
    with BlockLogs():
        for place, text in enumerate(smiles):
            text = text if isinstance(text, str) else ""  # a gap of a Series
            molecule = chem.MolFromSmiles(text)
            if molecule is None or not molecule.GetNumAtoms():
                failed.append((place, _explain(chem, text)))
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
    """Number the Bemis-Murcko scaffolds `[G]`: molecules with the same rings and links between rings share a number.

    Chirality is left out. Scaffolds are numbered as they appear; all molecules without rings share the empty one.
    """
    chem = _rdkit()
    from rdkit.Chem.Scaffolds.MurckoScaffold import MurckoScaffoldSmiles
    from rdkit.rdBase import BlockLogs

    numbers: dict[str, int] = {}
    found = np.empty(len(smiles), dtype=np.int64)
    with BlockLogs():
        for place, text in enumerate(smiles):
            molecule = chem.MolFromSmiles(text)
            if molecule is None:
                raise GpmError(f"molecule {place} has no scaffold: {_explain(chem, text)}; leave it out.")
            scaffold = MurckoScaffoldSmiles(mol=molecule, includeChirality=False)  # type: ignore[no-untyped-call]
            found[place] = numbers.setdefault(scaffold, len(numbers))
    return found


class _Answers:
    """What RDKit says of atoms or of bonds, column by column: twice as fast as thing by thing."""

    def __init__(self, kind: Any, columns: _Columns) -> None:
        self.questions = [getattr(kind, question) for question, _, _ in columns]
        self.columns = [array("i") for _ in columns]

    def ask(self, find: Callable[[int], Any], count: int) -> int:
        """Ask about the atoms or bonds 0 to `count`, and return how many that were."""
        things = list(map(find, range(count)))
        for question, column in zip(self.questions, self.columns, strict=True):
            column.extend(map(question, things))
        return count

    def raw(self) -> NDArray[np.int32]:
        """All answers `[columns, things]`."""
        return np.array(self.columns, dtype=np.int32)


def _number(chem: ModuleType, raw: NDArray, columns: _Columns, sizes: tuple[int, ...]) -> NDArray[np.int64]:
    """Categories `[things, columns]` of RDKit's answers `[columns, things]`."""
    numbered = np.empty(raw.T.shape, dtype=np.int64)
    for place, ((_, enumeration, values), size) in enumerate(zip(columns, sizes, strict=True)):
        kind = getattr(chem, enumeration) if enumeration else None
        known = [int(value if kind is None else getattr(kind, str(value))) for value in values]
        category = np.full(256, size - 1)
        category[known] = np.arange(len(known))
        numbered[:, place] = category[np.clip(raw[place], -128, 127)]  # negative ones count from the end
    return numbered


def _rdkit() -> ModuleType:
    try:
        from rdkit import Chem
    except ImportError:
        raise GpmError("molecules need RDKit: pip install 'graph-pattern-machine[molecules]'.") from None
    return Chem


def _choose(path: Path, header: list[str], smiles: str, target: str) -> list[str]:
    """The columns of the SMILES and of the targets; a column whose name has a comma is not taken for several."""
    several = [target] if target in header else [name.strip() for name in target.split(",") if name.strip()]
    return [find_column(path, header, name) for name in (smiles, *several)]


def _explain(chem: ModuleType, text: str) -> str:
    """Why there is no molecule in a text."""
    if not text.strip():
        return "empty"
    molecule = chem.MolFromSmiles(text, sanitize=False)
    problems = () if molecule is None else chem.DetectChemistryProblems(molecule)
    return problems[0].Message().rstrip(". \n") if problems else f"{text[:40]!r} is not SMILES"


def _describe(skipped: list[tuple[int, str]], rows: int) -> str:
    """Which rows were left out, the first of them with their reasons."""
    named = "; ".join(f"line {line}: {reason}" for line, reason in skipped[:_SHOWN])
    more = f"; and {len(skipped) - _SHOWN:,} more" if len(skipped) > _SHOWN else ""
    return f"{len(skipped):,} of {rows:,} rows left out ({named}{more})"
