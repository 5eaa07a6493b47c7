"""Encode columns as features, with statistics of this or of another table."""

from __future__ import annotations

import re
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gpm.data.tables import cell_sql as sql
from gpm.data.tables.fit_encoding import NUMBERS
from gpm.data.tables.session import quote
from gpm.io.npy import create_array

if TYPE_CHECKING:
    from gpm.data.tables.open_table import Table

SPARSE_BELOW = 0.1  # share of nonzero entries below which features are sparse
_FURTHEST = 1e6  # standardised values are clipped to this
_FLOATS = 200  # DuckDB vectors of floats to fetch at once, over all columns
_TEXTS = 2  # DuckDB vectors of texts to fetch at once, as they may be long
_NAMED = 5  # new values that are named
_TOKEN = re.compile(r"\w+")
Encoding = Sequence[Mapping[str, Any]]
Entries = tuple[NDArray, NDArray, NDArray]  # row, column and value of each


@dataclass
class Unseen:
    """What a table contains that the table of the training did not; counts are by column."""

    missing_columns: list[str] = field(default_factory=list)  # features without a column: all cells count as missing
    new_columns: list[str] = field(default_factory=list)  # columns that training did not have: they are not read
    values: dict[str, dict[str, int]] = field(default_factory=dict)  # most frequent new values of categories and flags
    rows: dict[str, int] = field(default_factory=dict)  # rows with a new value
    far: dict[str, int] = field(default_factory=dict)  # numbers outside the training range by more than its width
    empty: dict[str, int] = field(default_factory=dict)  # missing cells, where none were in training

    def sentences(self) -> list[str]:
        """Describe what is new, one sentence each."""
        sentences = []
        if self.missing_columns:
            sentences.append(f"there is no column {_enumerate(self.missing_columns)}: all its cells count as missing.")
        if self.new_columns:
            sentences.append(f"not read, because training had no such column: {_enumerate(self.new_columns)}.")
        for name, counts in self.values.items():
            listed = ", ".join(f"{value[:40]!r} ({count:,})" for value, count in counts.items())
            more = ", ..." if sum(counts.values()) < self.rows[name] else ""
            sentences.append(f"{self.rows[name]:,} row(s) have a value of {name!r} unseen in training: {listed}{more}.")
        for name, count in self.far.items():
            sentences.append(f"{count:,} value(s) of {name!r} are far outside the range seen in training.")
        for name, count in self.empty.items():
            sentences.append(f"{count:,} cell(s) of {name!r} are missing, but none were in training.")
        return sentences


def _enumerate(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return ", ".join(map(repr, names[:_NAMED])) + more


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
    """Encode the columns of a table as float32 `[rows, width]`, and return them and what is new in the table.

    Absent columns count as missing, and so does a cell of a yes-or-no column that is neither; a number or date that
    cannot be read is an error. `place` is the row of the features for each row of the table `[R]`, by default the same;
    rows with a negative index are skipped, and of several rows with the same index the first is used. Other rows of the
    features have all cells missing. Dense features are written to the .npy file `path`, if there is one; sparse rows
    are returned if they are allowed and fewer than one in ten entries are nonzero. New columns are neither features nor
    `known`, such as ids and targets.
    """
    unseen = Unseen([entry["column"] for entry in encoding if entry["column"] not in table.columns])
    if known is not None:
        old = {entry["column"] for entry in encoding} | set(known)
        unseen.new_columns = [name for name in table.columns if name not in old]
    at, made = _place(place, rows, table.count())
    wide = len(names(encoding))
    sparse = may_be_sparse and wide and sum(entry["fill"] for entry in encoding) < SPARSE_BELOW * wide
    placed = ((at[row], column, values) for row, column, values in _read(table, encoding, unseen))
    entries = chain(
        ((row[row >= 0], column[row >= 0], values[row >= 0]) for row, column, values in placed),
        _read_nothing(table, encoding, made),
    )
    if sparse:
        return _as_sparse(entries, (rows, wide)), unseen
    shape = (rows, wide)
    features = np.zeros(shape, np.float32) if path is None else create_array(path, np.float32, shape)
    for row, column, values in entries:
        features[row, column] = values
    if isinstance(features, np.memmap):
        features.flush()
    return features, unseen


def names(encoding: Encoding) -> list[str]:
    """Return the name of each column of the features: "age", "age missing", "colour = red", "bio, word 7"."""
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
    """Return the first column of each entry, and the number of all columns."""
    return np.cumsum([0, *(len(names([entry])) for entry in encoding)])


def _place(place: NDArray | None, rows: int, count: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the index of each row of the table, negative if it is skipped; and which rows of the features are made."""
    if (count > rows) if place is None else (len(place) != count):
        raise ValueError(f"a table of {count} rows does not fit {rows if place is None else len(place)} rows")
    if place is None:
        return np.arange(count), np.arange(rows) < count
    first = np.full(rows, count, dtype=np.int64)
    going = np.flatnonzero(place >= 0)
    np.minimum.at(first, place[going], going)
    at = np.full(count, -1, dtype=np.int64)
    at[going] = np.where(first[place[going]] == going, place[going], -1)
    return at, first < count


def _read(table: Table, encoding: Encoding, unseen: Unseen) -> Iterator[Entries]:
    offsets = _offsets(encoding)
    for kinds, read in ((NUMBERS, _read_numbers), (("category",), _read_categories), (("text",), _read_texts)):
        there = [i for i, e in enumerate(encoding) if e["kind"] in kinds and e["column"] in table.columns]
        for chosen in sql.passes(there):
            yield from read(table, [encoding[i] for i in chosen], offsets[chosen], unseen)


def _read_numbers(table: Table, entries: Encoding, first: NDArray, unseen: Unseen) -> Iterator[Entries]:
    mean, std, low, high = (np.array([entry[key] for entry in entries]) for key in ("mean", "std", "low", "high"))
    limit = np.where((mean == 0) & (std == 1), sql.LARGEST, _FURTHEST)
    flagged = np.array([entry["missing"] for entry in entries])
    is_flag, strange = np.array([entry["kind"] == "flag" for entry in entries]), False
    far, empty = np.zeros(len(entries), dtype=np.int64), np.zeros(len(entries), dtype=np.int64)
    zeros = bool((mean != 0).any())  # zeros of a bag of words need not be read
    for row, c, v in _read_values(table, entries, zeros):
        wrong = np.abs(v) > sql.LARGEST
        if (refused := np.flatnonzero(wrong & ~is_flag[c])).size:
            entry = entries[c[refused[0]]]
            raise sql.refuse(table, entry["column"], entry["kind"])
        strange, gone = strange or bool(wrong.any()), np.isnan(v)
        reach = (high - low)[c]
        far += np.bincount(c[((v < low[c] - reach) | (v > high[c] + reach)) & ~wrong], minlength=len(entries))
        empty += np.bincount(c[gone], minlength=len(entries))
        v, gone = np.where(wrong, np.nan, v), gone | wrong
        with np.errstate(over="ignore"):  # clipped below
            scaled = (v - mean[c]) / np.where(std[c] > 0, std[c], np.inf)
        there, flag = ~gone & (scaled != 0), gone & flagged[c]
        yield row[there], first[c[there]], np.clip(scaled, -limit[c], limit[c])[there]
        yield row[flag], first[c[flag]] + 1, np.ones(int(flag.sum()))
    columns = [entry["column"] for entry in entries]
    unseen.far |= {columns[i]: int(far[i]) for i in np.flatnonzero(far)}
    unseen.empty |= {columns[i]: int(empty[i]) for i in np.flatnonzero(np.where(flagged, 0, empty))}
    if strange:
        flags = [column for column, flag in zip(columns, is_flag, strict=True) if flag]
        read = sql.cells(table, flags, ["flag"] * len(flags))
        _name_values(table, flags, f"SELECT c, t FROM ({read}) WHERE {sql.wrong(table)}", unseen)


def _read_values(table: Table, entries: Encoding, zeros: bool) -> Iterator[Entries]:
    """Yield row, entry and number of every cell, as `read_values` does; cells that are floats are not parsed."""
    plain, _ = sql.split_floats(table, (entry["column"] for entry in entries if entry["kind"] == "number"))
    is_plain = np.array([entry["column"] in set(plain) for entry in entries])
    if plain:
        yield from _read_floats(table, np.flatnonzero(is_plain), plain, zeros)
    if not is_plain.all():
        index = np.flatnonzero(~is_plain)
        columns, kinds = ([entries[int(i)][key] for i in index] for key in ("column", "kind"))
        yield from ((row, index[c], v) for row, c, v in sql.read_values(table, columns, kinds, zeros=zeros))


def _read_floats(table: Table, index: NDArray, names: Sequence[str], zeros: bool) -> Iterator[Entries]:
    """Yield the cells of columns of floats, which are fetched row by row."""
    listed = ", ".join(f"CAST({quote(name)} AS DOUBLE) AS c{i}" for i, name in enumerate(names))
    vectors = max(1, _FLOATS // len(names))
    for frame in table.chunks(f"SELECT gpm_row, {listed} FROM {table.numbered()}", vectors):
        v = np.stack([frame[f"c{i}"].to_numpy() for i in range(len(names))], axis=1).reshape(-1)
        row, c = np.repeat(frame["gpm_row"].to_numpy(), len(names)), np.tile(index, len(frame))
        kept = slice(None) if zeros else v != 0
        yield row[kept], c[kept], v[kept]


def _read_categories(table: Table, entries: Encoding, first: NDArray, unseen: Unseen) -> Iterator[Entries]:
    sizes, other = np.array([len(e["values"]) for e in entries]), np.array([e["other"] for e in entries])
    new = 0
    with sql.coded(table, [e["column"] for e in entries], [e["values"] for e in entries]) as read:
        for frame in table.chunks(f"SELECT gpm_row, c, k FROM ({read})"):
            row, c, k = (frame[key].to_numpy() for key in ("gpm_row", "c", "k"))
            k = np.where((k < 0) & other[c], sizes[c], k)
            seen = k >= 0
            new += len(k) - int(seen.sum())
            yield row[seen], first[c[seen]] + k[seen], np.ones(int(seen.sum()))
        if new:
            strict = ", ".join(str(i) for i in np.flatnonzero(~other))
            unknown = f"SELECT c, t FROM ({read}) WHERE k < 0 AND c IN ({strict})"
            _name_values(table, [entry["column"] for entry in entries], unknown, unseen)


def _name_values(table: Table, columns: Sequence[str], read: str, unseen: Unseen) -> None:
    """Note the most frequent of some cells, of which SQL selects the column `c` and the text `t`."""
    for i, value, count, _, total in table.fetch(sql.most_frequent(read, "t", _NAMED)):
        unseen.values.setdefault(columns[i], {})[value] = int(count)
        unseen.rows[columns[i]] = int(total)


def _read_texts(table: Table, entries: Encoding, first: NDArray, unseen: Unseen) -> Iterator[Entries]:
    buckets = np.array([entry["buckets"] for entry in entries])
    read = sql.cells(table, [entry["column"] for entry in entries], rows=True)
    for frame in table.chunks(f"SELECT gpm_row, c, x FROM ({read}) WHERE x IS NOT NULL", _TEXTS):
        c = frame["c"].to_numpy()
        words = [_TOKEN.findall(text.lower()) for text in frame["x"]]
        counts = np.array([len(tokens) for tokens in words])
        owner = np.repeat(np.arange(len(words)), counts)  # the cell of each word
        hashed = np.fromiter((_hash(word) for tokens in words for word in tokens), dtype=np.int64, count=counts.sum())
        most = int(buckets.max())
        entry, times = np.unique(owner * most + hashed % buckets[c[owner]], return_counts=True)
        owner, bucket = entry // most, entry % most
        length = np.sqrt(np.bincount(owner, weights=np.square(times), minlength=len(words)))
        yield frame["gpm_row"].to_numpy()[owner], first[c[owner]] + bucket, times / length[owner]


@lru_cache(maxsize=2**18)
def _hash(word: str) -> int:
    return zlib.crc32(word.encode("utf-8", "surrogatepass"))


def _read_nothing(table: Table, encoding: Encoding, made: NDArray[np.bool_]) -> Iterator[Entries]:
    """Yield the flags of cells that do not exist, because the table lacks the column or the row."""
    for entry, first in zip(encoding, _offsets(encoding)[:-1].tolist(), strict=True):
        if entry["kind"] in NUMBERS and entry["missing"]:
            rows = np.flatnonzero(~made) if entry["column"] in table.columns else np.arange(len(made))
            yield rows, np.full(len(rows), first + 1), np.ones(len(rows))


def _as_sparse(entries: Iterable[Entries], shape: tuple[int, int]) -> sp.csr_array:
    kind = np.int32 if max(shape) < 2**31 else np.int64
    types = (kind, kind, np.float32)
    parts = [[a.astype(dtype) for a, dtype in zip(entry, types, strict=True)] for entry in entries]
    row, column, values = (
        np.concatenate([np.empty(0, dtype), *(part[i] for part in parts)]) for i, dtype in enumerate(types)
    )
    del parts
    matrix = sp.coo_array((values, (row, column)), shape=shape).tocsr()
    matrix.sort_indices()
    return matrix
