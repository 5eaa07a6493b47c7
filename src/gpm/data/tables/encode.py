"""Columns to features, by statistics that were taken of this or of another table."""

from __future__ import annotations

import re
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gpm.data.tables.cell_sql import LARGEST, cells, chunks, coded, fetch, part_floats, passes, refuse, value
from gpm.data.tables.fit_encoding import NUMBERS, fit_encoding
from gpm.data.tables.session import quote
from gpm.data.tables.unseen_values import LISTED, Unseen

if TYPE_CHECKING:
    from gpm.data.tables.open_table import Table

__all__ = ["Unseen", "encode", "fit_encoding", "names", "width"]
SPARSE_BELOW = 0.1  # share of entries that are not zero
_FURTHEST = 1e6  # standard deviations; what lies beyond is drawn in
_FLOATS = 200  # vectors of floats, over all columns
_TEXTS = 2  # vectors of texts that are held at a time, as they may be long
_TOKEN = re.compile(r"\w+")
Encoding = Sequence[Mapping[str, Any]]
Entries = tuple[NDArray, NDArray, NDArray]  # row, column and value of each


def encode(
    table: Table,
    encoding: Encoding,
    *,
    rows: int,
    place: NDArray | None = None,
    path: Path | None = None,
    known: Collection[str] | None = None,
    may_be_sparse: bool = True,
) -> tuple[NDArray[np.float32] | sp.csr_array, Unseen]:
    """Make features of a table's columns, some ten thousand cells at a time.

    Args:
        table: Any table with these columns, in any order; those that it lacks count as missing.
        encoding: What `fit_encoding` found.
        rows: Rows of the features.
        place: The row of the features that each row of the table makes `[R]`; by default the same. A negative one makes
            none; of several that make the same, the first does. Rows that none makes have all cells missing.
        path: Where dense features are put, as an .npy file; by default they are held in memory.
        known: Columns that are neither features nor new: ids, targets. By default new columns are not looked for.
        may_be_sparse: Give sparse rows if fewer than one in ten entries are not zero.

    Returns:
        float32 `[rows, width]`, and what is new in the table. A cell that is not of its column's kind is an error.
    """
    unseen = Unseen([entry["column"] for entry in encoding if entry["column"] not in table.columns])
    if known is not None:
        old = {entry["column"] for entry in encoding} | set(known)
        unseen.new_columns = [name for name in table.columns if name not in old]
    at, made = _place(place, rows, table.count())
    wide = width(encoding)
    sparse = may_be_sparse and wide and sum(entry["fill"] for entry in encoding) < SPARSE_BELOW * wide
    sink: _Dense | _Sparse = _Sparse(rows, wide) if sparse else _Dense(rows, wide, path)
    for row, column, values in _read(table, encoding, unseen):
        kept = at[row] >= 0
        sink.put(at[row[kept]], column[kept], values[kept])
    for row, column, values in _read_nothing(table, encoding, made):
        sink.put(row, column, values)
    return sink.finish(), unseen


def width(encoding: Encoding) -> int:
    """Columns of the features."""
    return int(_offsets(encoding)[-1])


def names(encoding: Encoding) -> list[str]:
    """What each column of the features is: "age", "age missing", "colour = red", "bio, word 7"."""
    listed: list[str] = []
    for entry in encoding:
        name = entry["column"]
        if entry["kind"] == "category":
            listed += [f"{name} = {value}" for value in entry["values"]] + [f"{name} = other"] * entry["other"]
        elif entry["kind"] == "text":
            listed += [f"{name}, word {bucket}" for bucket in range(entry["buckets"])]
        else:
            listed += [name] + [f"{name} missing"] * entry["missing"]
    return listed


def _offsets(encoding: Encoding) -> NDArray[np.int64]:
    """The first column of each entry, and the number of them all."""
    sizes = [0]
    for entry in encoding:
        if entry["kind"] == "category":
            sizes.append(len(entry["values"]) + entry["other"])
        else:
            sizes.append(entry["buckets"] if entry["kind"] == "text" else 1 + entry["missing"])
    return np.cumsum(sizes)


def _place(place: NDArray | None, rows: int, count: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Where each row of the table goes, negative for all but the first that go to a row; and which rows are made."""
    if (count > rows) if place is None else (len(place) != count):
        raise ValueError(f"a table of {count} rows does not fit {rows if place is None else len(place)} places")
    if place is None:
        return np.arange(count), np.arange(rows) < count
    first = np.full(rows, count, dtype=np.int64)
    going = np.flatnonzero(place >= 0)
    np.minimum.at(first, place[going], going)
    at = np.full(count, -1, dtype=np.int64)
    at[going] = np.where(first[place[going]] == going, place[going], -1)
    return at, first < count


def _read(table: Table, encoding: Encoding, unseen: Unseen) -> Iterator[Entries]:
    """The entries of all columns that are there, kind after kind."""
    offsets = _offsets(encoding)
    for kinds, read in ((NUMBERS, _read_numbers), (("category",), _read_categories), (("text",), _read_texts)):
        there = [i for i, e in enumerate(encoding) if e["kind"] in kinds and e["column"] in table.columns]
        for chosen in passes(there):
            yield from read(table, [encoding[i] for i in chosen], offsets[chosen], unseen)


def _read_numbers(table: Table, entries: Encoding, first: NDArray, unseen: Unseen) -> Iterator[Entries]:
    mean, std, low, high = (np.array([entry[key] for entry in entries]) for key in ("mean", "std", "low", "high"))
    limit = np.where((mean == 0) & (std == 1), LARGEST, _FURTHEST)
    flagged = np.array([entry["missing"] for entry in entries])
    far, empty = np.zeros(len(entries), dtype=np.int64), np.zeros(len(entries), dtype=np.int64)
    zeros = bool((mean != 0).any())  # those of a bag of words need not be read
    for row, c, v in _read_values(table, entries, zeros):
        if (wrong := np.flatnonzero(np.abs(v) > LARGEST)).size:
            entry = entries[c[wrong[0]]]
            raise refuse(table, entry["column"], entry["kind"])
        gone = np.isnan(v)
        reach = (high - low)[c]
        far += np.bincount(c[(v < low[c] - reach) | (v > high[c] + reach)], minlength=len(entries))
        empty += np.bincount(c[gone], minlength=len(entries))
        with np.errstate(over="ignore"):  # what is too far away is drawn in below
            scaled = (v - mean[c]) / np.where(std[c] > 0, std[c], np.inf)
        there, flag = ~gone & (scaled != 0), gone & flagged[c]
        yield row[there], first[c[there]], np.clip(scaled, -limit[c], limit[c])[there]
        yield row[flag], first[c[flag]] + 1, np.ones(int(flag.sum()))
    for i, entry in enumerate(entries):
        if far[i]:
            unseen.far[entry["column"]] = int(far[i])
        if empty[i] and not flagged[i]:
            unseen.empty[entry["column"]] = int(empty[i])


def _read_values(table: Table, entries: Encoding, zeros: bool) -> Iterator[Entries]:
    """Row, entry and number of every cell: NaN where it is missing, infinite where it is no number.

    Args:
        zeros: Read zeros too.
    """
    plain, _ = part_floats(table, (entry["column"] for entry in entries if entry["kind"] == "number"))
    chosen = set(plain)
    places = {found: [i for i, e in enumerate(entries) if (e["column"] in chosen) == found] for found in (True, False)}
    if places[True]:
        yield from _read_floats(table, np.array(places[True]), plain, zeros)
    if not places[False]:
        return
    others = [entries[i] for i in places[False]]
    read = cells(table, [e["column"] for e in others], [e["kind"] for e in others], rows=True)
    marked = f"CASE WHEN x IS NOT NULL THEN coalesce({value(table, 'x', 'kind')}, 'inf'::DOUBLE) END"
    some = "" if zeros else "WHERE v IS NULL OR v <> 0"
    for frame in chunks(table, f"SELECT gpm_row, c, v FROM (SELECT gpm_row, c, {marked} AS v FROM ({read})) {some}"):
        row, c, v = (frame[key].to_numpy() for key in ("gpm_row", "c", "v"))
        yield row, np.array(places[False])[c], v


def _read_floats(table: Table, places: NDArray, names: Sequence[str], zeros: bool) -> Iterator[Entries]:
    """The cells of columns of floats, which come as they are, rows side by side."""
    listed = ", ".join(f"CAST({quote(name)} AS DOUBLE) AS c{i}" for i, name in enumerate(names))
    vectors = max(1, _FLOATS // len(names))
    for frame in chunks(table, f"SELECT gpm_row, {listed} FROM {table.numbered()}", vectors):
        v = np.stack([frame[f"c{i}"].to_numpy() for i in range(len(names))], axis=1).reshape(-1)
        row, c = np.repeat(frame["gpm_row"].to_numpy(), len(names)), np.tile(places, len(frame))
        kept = slice(None) if zeros else v != 0
        yield row[kept], c[kept], v[kept]


def _read_categories(table: Table, entries: Encoding, first: NDArray, unseen: Unseen) -> Iterator[Entries]:
    sizes, other = (np.array(found) for found in ([len(e["values"]) for e in entries], [e["other"] for e in entries]))
    new = 0
    with coded(table, [e["column"] for e in entries], [e["values"] for e in entries]) as read:
        for frame in chunks(table, f"SELECT gpm_row, c, k FROM ({read})"):
            row, c, k = (frame[key].to_numpy() for key in ("gpm_row", "c", "k"))
            k = np.where((k < 0) & other[c], sizes[c], k)
            seen = k >= 0
            new += len(k) - int(seen.sum())
            yield row[seen], first[c[seen]] + k[seen], np.ones(int(seen.sum()))
        strict = ", ".join(str(i) for i, entry in enumerate(entries) if not entry["other"])
        if new:
            counts = f"SELECT c, t, count(*) AS n FROM ({read}) WHERE k < 0 AND c IN ({strict}) GROUP BY c, t"
            order = "row_number() OVER (PARTITION BY c ORDER BY n DESC, t)"
            ranked = f"SELECT *, {order} AS place, sum(n) OVER (PARTITION BY c) AS total FROM ({counts})"
            listed = f"SELECT c, t, n, total FROM ({ranked}) WHERE place <= {LISTED} ORDER BY c, place"
            for i, found, n, total in fetch(table, listed):
                unseen.values.setdefault(entries[i]["column"], {})[found] = int(n)
                unseen.rows[entries[i]["column"]] = int(total)


def _read_texts(table: Table, entries: Encoding, first: NDArray, unseen: Unseen) -> Iterator[Entries]:
    buckets = np.array([entry["buckets"] for entry in entries])
    read = f"SELECT gpm_row, c, x FROM ({cells(table, [e['column'] for e in entries], rows=True)}) WHERE x IS NOT NULL"
    for frame in chunks(table, read, _TEXTS):
        c = frame["c"].to_numpy()
        words = [_TOKEN.findall(text.lower()) for text in frame["x"]]
        counts = np.array([len(found) for found in words])
        owner = np.repeat(np.arange(len(words)), counts)  # the cell that each word is in
        hashed = np.fromiter((_hash(word) for found in words for word in found), dtype=np.int64, count=counts.sum())
        most = int(buckets.max())
        entry, times = np.unique(owner * most + hashed % buckets[c[owner]], return_counts=True)
        owner, bucket = entry // most, entry % most
        length = np.sqrt(np.bincount(owner, weights=np.square(times), minlength=len(words)))
        yield frame["gpm_row"].to_numpy()[owner], first[c[owner]] + bucket, times / length[owner]


@lru_cache(maxsize=2**18)
def _hash(word: str) -> int:
    return zlib.crc32(word.encode("utf-8", "surrogatepass"))


def _read_nothing(table: Table, encoding: Encoding, made: NDArray[np.bool_]) -> Iterator[Entries]:
    """The flags of missing cells where there is no cell: in columns that the table lacks, and rows that none makes."""
    for entry, first in zip(encoding, _offsets(encoding)[:-1].tolist(), strict=True):
        if entry["kind"] in NUMBERS and entry["missing"]:
            rows = np.flatnonzero(~made) if entry["column"] in table.columns else np.arange(len(made))
            yield rows, np.full(len(rows), first + 1), np.ones(len(rows))


class _Dense:
    """Features as an array, in memory or on disk."""

    def __init__(self, rows: int, columns: int, path: Path | None) -> None:
        shape = (rows, columns)
        if path is None or not rows * columns:  # nothing cannot be mapped
            self.array: NDArray[np.float32] = np.zeros(shape, dtype=np.float32)
        else:
            self.array = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=shape)
        if path is not None and not rows * columns:
            with path.open("wb") as file:
                np.save(file, self.array)

    def put(self, row: NDArray, column: NDArray, values: NDArray) -> None:
        self.array[row, column] = values

    def finish(self) -> NDArray[np.float32]:
        if isinstance(self.array, np.memmap):
            self.array.flush()
        return self.array


class _Sparse:
    """Features as compressed sparse rows; entries are kept as they come and sorted at the end."""

    def __init__(self, rows: int, columns: int) -> None:
        self.shape = rows, columns
        nothing = np.empty(0)
        self.kind = np.int32 if max(self.shape) < 2**31 else np.int64
        self.parts: list[Entries] = []
        self.put(nothing, nothing, nothing)

    def put(self, row: NDArray, column: NDArray, values: NDArray) -> None:
        self.parts.append((row.astype(self.kind), column.astype(self.kind), values.astype(np.float32)))

    def finish(self) -> sp.csr_array:
        row, column, values = (np.concatenate(part) for part in zip(*self.parts, strict=True))
        self.parts.clear()
        matrix = sp.coo_array((values, (row, column)), shape=self.shape).tocsr()
        matrix.sort_indices()
        return matrix
