"""Read which edges of a table are held out, and negatives of the user's own, as pairs of node numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpm.data.non_edges import number_pairs
from gpm.data.tables.column_roles import SPLITS, Draft, find_ends
from gpm.data.tables.node_ids import Ends, Ids, suggest
from gpm.data.tables.open_table import Table, open_table
from gpm.data.tables.targets import check_parts, read_parts
from gpm.data.tables.write_edges import UNLISTED, join_ends
from gpm.errors import GpmError

EITHER = 3  # the part of a negative that is for validation or test, as the seed decides


def read_held_out(ends: Ends, ids: Ids, column: str) -> NDArray[np.int64]:
    """Return the validation and test edges `[_, 3]` by their ends and 1 or 2; an edge with an empty cell trains."""
    parts, pairs = read_parts(ends.table, column), _number_rows(ends, ids)
    check_parts(np.maximum(parts, 0), ends.table.title, column, "row")
    numbers, parts = number_pairs(pairs), np.maximum(parts, 0)
    order = np.argsort(numbers, kind="stable")
    same = (np.diff(numbers[order]) == 0) & (numbers[order[1:]] >= 0) & (np.diff(parts[order]) != 0)
    if same.any():
        first = int(np.argmax(same))
        rows = " and ".join(ends.table.where(int(row)) for row in sorted(order[first : first + 2].tolist()))
        raise GpmError(f"{rows}: the same edge is in two splits; put it into one.")
    held = (parts > 0) & (numbers >= 0)
    return np.column_stack([pairs, parts])[held].astype(np.int64)


def read_negatives(base: Any, source: Any, ids: Ids) -> NDArray[np.int64]:
    """Return pairs without an edge `[_, 3]` by their ends and part: 1 or 2 as a split column says, else either."""
    path = Path(source).expanduser() if isinstance(source, (str, Path)) else source
    table = open_table(base, path, title="" if isinstance(path, Path) else "the table of negatives")
    draft = Draft("edges", table, {})
    find_ends(draft)
    pairs = _number_rows(Ends(table, *(draft.having(role)[0] for role in ("source", "target"))), ids)
    parts = np.full(len(pairs), EITHER, dtype=np.int64)
    for column in draft.named(SPLITS)[:1]:
        parts = read_parts(table, column).astype(np.int64)
        for part, name in ((1, "val"), (2, "test")):
            if not (parts == part).any():
                raise GpmError(f"{table.title}: no row has {name!r} in column {column!r}; assign some rows.")
    if not len(pairs):
        raise GpmError(f"{table.title} holds no pairs; write one 'source,target' per line.")
    if (wrong := np.flatnonzero((parts <= 0) | (pairs[:, 0] == pairs[:, 1]))).size:
        fix = "a negative joins two different nodes, and is for val or test"
        raise GpmError(f"{table.where(int(wrong[0]))}: {fix}; fix or remove the row.")
    return np.column_stack([pairs, parts])


def _number_rows(ends: Ends, ids: Ids) -> NDArray[np.int64]:
    """Return the node numbers of the ends of each row `[R, 2]`."""
    table: Table = ends.table
    pairs = np.full((table.count(), 2), UNLISTED, dtype=np.int64)
    for frame in table.chunks(f"SELECT gpm_row, s, t FROM ({join_ends(ends, ids, True)})"):
        pairs[frame["gpm_row"].to_numpy()] = frame[["s", "t"]].to_numpy()
    if ids.unlisted != "drop" and (wrong := np.flatnonzero((pairs < 0).any(1))).size:
        row = int(wrong[0])
        query = f"SELECT a, b FROM ({join_ends(ends, ids, True)}) WHERE gpm_row = {row}"
        name = table.fetch(query)[0][0 if pairs[row, 0] < 0 else 1]
        raise GpmError(f"{table.where(row)}: no edge or node is called {name!r}; fix the name.{suggest(ids, name)}")
    pairs[(pairs < 0).any(1)] = 0  # a dropped row: a node with itself is no pair
    return pairs
