"""Tables of molecules: a column of SMILES, columns to predict, and maybe one that names the split."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gpm.data.graph_data import DEFAULT_SPLIT, GraphData, build_graph_data
from gpm.data.labels import VALUE_METRICS
from gpm.data.smiles import featurise, find_scaffolds, import_rdkit
from gpm.data.splits import as_masks
from gpm.data.tables.column_roles import SPLITS
from gpm.data.tables.detect_header import UNKNOWN, find_column
from gpm.data.tables.inputs import title_of
from gpm.data.tables.open_table import open_table, reading
from gpm.data.tables.read_text import check_file, is_text, read_form, read_rows
from gpm.data.tables.session import connect, quote
from gpm.data.tables.targets import PART_WORDS
from gpm.errors import GpmError
from gpm.graph.graph import Graph

WORDS = {"true": 1.0, "yes": 1.0, "false": 0.0, "no": 0.0}
_SHOWN = 5  # rows that a warning names
_ID = re.compile(r"(^|[^a-z])((c|u|mol|compound|chembl|zinc)?ids?|key|names?|title|code|index|cas|inchi|inchikey)$")
_FEW = 16  # rows that may all have different classes
_log = logging.getLogger("gpm")


@dataclass(frozen=True, eq=False)
class Molecules:
    """The molecules of a table, in its order: a graph per molecule, see `featurise`, with targets float `[G]` or
    `[G, C]` in `graph.y`, NaN where unknown.
    """

    graph: Graph
    smiles: list[str]  # as written in the table
    lines: NDArray[np.int64]  # of the file, whose first line is the header; row numbers, from 1, in a Parquet file
    skipped: list[tuple[int, str]]  # line and reason of each row that was left out
    classes: tuple[str, ...] = ()  # names of the classes 0, 1, ..., if the target is words
    ids: dict[str, list[str]] = field(default_factory=dict)  # columns that identify a molecule, that of SMILES first
    part: NDArray[np.int8] | None = None  # 0, 1 and 2 for train, val and test, -1 for none, if the table has a split


def read_molecules(path: str | Path, *, smiles: str = "smiles", target: str = "") -> Molecules:
    """Read a table of molecules; rows without a molecule are left out, with a warning that names them.

    Args:
        path: A table with a header: a text file such as .csv or .tsv, or a .parquet file.
        smiles: The column of SMILES.
        target: The column to predict, or several columns of numbers as "a,b,c"; empty if there are none. One column of
            words is classes; among numbers, true and yes are 1, false and no are 0. An empty cell is unknown.

    A column called split, part, set, partition or subset that says train, val and test is the split.
    """
    path = Path(path).expanduser()
    import_rdkit()  # before the work of reading
    header, lines, table = _read_table(path)
    if not lines:
        raise GpmError(f"{path} has no rows; write a molecule per row below the header.")
    several = [target] if target in header else [name.strip() for name in target.split(",") if name.strip()]
    chosen = [header.index(find_column(path, header, name)) for name in (smiles, *several)]
    texts, cells = [row[chosen[0]] for row in table], [[row[i] for i in chosen[1:]] for row in table]
    classes = _find_classes(cells)
    if len(classes) == len(lines) > _FEW:
        raise GpmError(
            f"{path}: column {header[chosen[1]]!r} has a different word in each of {len(lines):,} rows, so these are "
            "no classes; choose another column."
        )
    if classes:
        ids = {word: float(i) for i, word in enumerate(classes)}
        labels = np.array([[ids.get(row[0], ids.get(row[0].lower(), np.nan))] for row in cells])
    else:
        labels = _as_numbers(path, lines, cells)
    graph, failed = featurise(texts)
    skipped = [(lines[i], reason) for i, reason in failed]
    if len(skipped) == len(lines):
        line, reason = skipped[0]
        raise GpmError(
            f"{path}: no row has a molecule in column {smiles!r} (line {line}: {reason}); give SMILES there."
        )
    if skipped:
        shown = "; ".join(f"line {line}: {reason}" for line, reason in skipped[:_SHOWN])
        more = f"; and {len(skipped) - _SHOWN:,} more" if len(skipped) > _SHOWN else ""
        _log.warning(
            "%s: %s of %s rows left out (%s%s)", path.name, f"{len(skipped):,}", f"{len(lines):,}", shown, more
        )
    kept = np.delete(np.arange(len(lines)), [i for i, _ in failed])
    if labels.shape[1]:
        graph = replace(graph, y=labels[kept, 0] if labels.shape[1] == 1 else labels[kept])
    splits = [i for i, name in enumerate(header) if name.lower() in SPLITS and i not in chosen]
    part = _find_parts([[row[i] for i in splits] for row in table])
    free = [i for i in range(len(header)) if i not in (*chosen, *splits)]
    columns = {header[i]: [row[i] for row in table] for i in free}
    named = {header[chosen[0]]: texts} | {name: cells for name, cells in columns.items() if _identifies(name, cells)}
    return Molecules(
        graph, [texts[i] for i in kept], np.array(lines, dtype=np.int64)[kept], skipped, classes,
        {name: [cells[i] for i in kept] for name, cells in named.items()}, None if part is None else part[kept],
    )  # fmt: skip


def load_molecules(path: str | Path, *, smiles: str = "smiles", target: str = "", metric: str = "") -> GraphData:
    """Read a table of molecules as the data of a graph task; graphs are named by their SMILES.

    The default split is that of the table, if it names one; else a random one, as the molecules of a table may have too
    few scaffolds. The split "scaffold" is available too. Without a target there are no labels, which is enough to
    predict. The metric is as in `load_graph_data`.
    """
    table = read_molecules(path, smiles=smiles, target=target)
    title, graph = title_of(Path(path)), table.graph
    if graph.y is None:
        return GraphData(graph, title, names=table.smiles, lines=table.lines, ids=table.ids, smiles=table.smiles)
    groups, masks = find_scaffolds(table.smiles), as_masks(table.part)
    if table.classes:
        if metric in VALUE_METRICS:
            words = ", ".join(table.classes[:3])
            raise GpmError(f"{path}: column {target!r} holds words ({words}), which {metric} does not score.")
        graph = replace(graph, y=np.where(np.isnan(graph.y), -1, graph.y).astype(np.int64))
    split = DEFAULT_SPLIT if masks is None else "given"
    data = build_graph_data(graph, title, split, metric, masks, groups, table.smiles)
    return replace(data, lines=table.lines, ids=table.ids, class_names=table.classes, smiles=table.smiles)


def _read_table(path: Path) -> tuple[list[str], list[int], list[list[str]]]:
    """Read the header, the line of each row, and the cells as text without blanks around them; skip empty rows."""
    check_file(path)
    if is_text(path):
        form = read_form(path, {"header": True})
        header, rows = form.columns, list(read_rows(path, form))
    else:
        with connect() as base:
            table = open_table(base, path)
            header, columns = table.columns, ", ".join(f"CAST({quote(name)} AS VARCHAR)" for name in table.columns)
            with reading(table):
                fetched = base.execute(f"SELECT {columns} FROM {table.numbered()} ORDER BY gpm_row").fetchall()
        rows = [(number, ["" if cell is None else cell for cell in row]) for number, row in enumerate(fetched, 1)]
    stripped = [(line, [cell.strip() for cell in row]) for line, row in rows]
    filled = [(line, row) for line, row in stripped if any(row)]
    return list(header), [line for line, _ in filled], [row for _, row in filled]


def _identifies(name: str, cells: list[str]) -> bool:
    """Return whether a column identifies molecules: by its name, or by words of which no two are the same."""
    if _ID.search(name.strip().lower()):
        return any(cells)
    return len(set(cells)) == len(cells) > 1 and not any(map(_is_number, cells))


def _find_classes(cells: list[list[str]]) -> tuple[str, ...]:
    """Return the words in a single column of targets, sorted; none if it holds numbers, or nothing.

    Yes and no, or true and false, are two classes however they are written.
    """
    words = {row[0] for row in cells if len(row) == 1 and row[0].lower() not in UNKNOWN}
    if any(map(_is_number, words)):
        return ()
    small = {word.lower() for word in words}
    return tuple(sorted(small if small in ({"no", "yes"}, {"false", "true"}) else words))


def _as_numbers(path: Path, lines: list[int], cells: list[list[str]]) -> NDArray[np.float64]:
    """Return the numbers in rows of cells `[R, C]`: true and yes are 1, false and no are 0, an unknown cell is NaN."""
    numbers = np.full((len(cells), len(cells[0])), np.nan)
    for i, (line, row) in enumerate(zip(lines, cells, strict=True)):
        for column, cell in enumerate(row):
            word = cell.lower()
            if word in UNKNOWN:
                continue
            number = WORDS[word] if word in WORDS else float(cell) if _is_number(cell) else np.inf
            if not np.isfinite(number):
                raise GpmError(
                    f"{path}, line {line}: {cell!r} is not a number; fix the cell, or empty it if it is unknown."
                )
            numbers[i, column] = number
    return numbers


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _find_parts(columns: list[list[str]]) -> NDArray[np.int8] | None:
    """Return the split in the first column that says nothing but train, val and test."""
    for cells in zip(*columns, strict=True):
        words = [cell.lower() for cell in cells]
        if set(PART_WORDS) >= set(words) - {""} != set():
            return np.array([PART_WORDS.get(word, -1) for word in words], dtype=np.int8)
    return None
