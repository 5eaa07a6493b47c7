"""Read JSON Lines files as tables: one object per line, with its keys as columns."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb

from gpm.data.tables.read_text import MOST_COLUMNS, check_names, opened
from gpm.data.tables.session import file_literal, literal, quote
from gpm.errors import GpmError

JSON_FILES = (".jsonl", ".ndjson")
_WHOLE, _REAL = {"BIGINT", "UBIGINT"}, {"BIGINT", "UBIGINT", "DOUBLE"}


def select_records(base: duckdb.DuckDBPyConnection, path: Path) -> str:
    """Return SQL that selects the objects of a file with one column per key.

    Columns of integers are BIGINT, of numbers DOUBLE, of booleans BOOLEAN. All others are text: strings as they are,
    nested values as JSON, and numbers with more digits than a DOUBLE holds with all their digits.
    """
    objects = f"read_ndjson_objects({file_literal(path)}, hive_partitioning = false)"
    keys = _find_keys(base, path, objects)
    if not keys:
        raise GpmError(f'{path.name} has no rows; write one object per line, such as {{"id": "a"}}.')
    paths = "[" + ", ".join(literal("/" + key.replace("~", "~0").replace("/", "~1")) for key in keys) + "]"
    cells = f"(SELECT json_extract_string(json, {paths}) AS c, json_type(json, {paths}) AS t FROM {objects})"
    counts = ", ".join(
        f"list(DISTINCT t[{i}]), count(c[{i}]) = count(TRY_CAST(c[{i}] AS BIGINT)), "
        f"coalesce(bool_or(regexp_full_match(c[{i}], '-?[0-9]{{16,}}')), false)"
        for i in range(1, len(keys) + 1)
    )
    counted = base.execute(f"SELECT {counts} FROM {cells}").fetchall()[0]
    types = [_type(*counted[i : i + 3]) for i in range(0, len(counted), 3)]
    columns = (f"CAST(c[{i + 1}] AS {types[i]}) AS {quote(key)}" for i, key in enumerate(keys))
    return f"SELECT {', '.join(columns)} FROM {cells}"


def record_line(path: Path, row: int) -> int:
    """Return the line of a row; rows count from 0, lines from 1."""
    return next(itertools.islice(_lines(path), row, None), (0, b""))[0]


def check_records(path: Path) -> None:
    """Raise for the first line that is not an object with distinct keys."""
    for number, line in _lines(path):
        try:
            record = json.loads(line, object_pairs_hook=_pairs)
        except RecursionError:
            continue
        except UnicodeDecodeError:
            raise GpmError(f"{path.name}, line {number} is not UTF-8 text; save the file as UTF-8.") from None
        except ValueError as error:
            raise _refuse(path, number, f" ({getattr(error, 'msg', error)})") from None
        if not isinstance(record, dict):
            raise _refuse(path, number)


def _refuse(path: Path, line: int, reason: str = "") -> GpmError:
    return GpmError(f"{path.name}, line {line} is not a JSON object{reason}; write one complete object per line.")


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    with opened(path) as file:
        yield from ((number, line) for number, line in enumerate(file, 1) if line.strip())


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record: dict[str, Any] = {}
    for key, value in pairs:
        if key in record:
            raise ValueError(f"the key {key!r} occurs twice")
        record[key] = value
    return record


def _find_keys(base: duckdb.DuckDBPyConnection, path: Path, objects: str) -> list[str]:
    """Return the keys of all objects, those of the first object first and in its order."""
    odd = "json_type(json) <> 'OBJECT' OR len(json_keys(json)) <> len(list_distinct(json_keys(json)))"
    if base.execute(f"SELECT 1 FROM {objects} WHERE {odd} LIMIT 1").fetchall():
        check_records(path)
    listed = base.execute(
        f"SELECT DISTINCT unnest(json_keys(json)) AS k FROM {objects} ORDER BY k LIMIT {MOST_COLUMNS + 1}"
    ).fetchall()
    if len(listed) > MOST_COLUMNS:
        raise GpmError(f"{path.name} has more than {MOST_COLUMNS:,} keys; write ids as values instead of keys.")
    first = base.execute(f"SELECT json_keys(json) FROM {objects} LIMIT 1").fetchall()
    keys = list(dict.fromkeys([*(first[0][0] if first else []), *(key for (key,) in listed)]))
    check_names(path.name, keys)
    return keys


def _type(types: list[str | None], whole: bool, long: bool) -> str:
    kinds = {kind for kind in types if kind not in (None, "NULL")}
    if kinds == {"BOOLEAN"}:
        return "BOOLEAN"
    if kinds and kinds <= _WHOLE and whole:
        return "BIGINT"
    return "DOUBLE" if kinds and kinds <= _REAL and not long else "VARCHAR"
