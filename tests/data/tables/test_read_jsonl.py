import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpm import GpmError
from gpm.data.tables.open_table import Table, open_table, reading
from gpm.data.tables.session import connect


@pytest.fixture(scope="module")
def base() -> Any:
    with connect(memory="400MB") as base:
        base.execute("SET threads = 2")
        yield base


def _open(folder: Path, base: Any, content: str | bytes, name: str = "t.jsonl") -> Table:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return open_table(base, path)


def _read(table: Table) -> list[dict[str, Any]]:
    with reading(table):
        rows = table.base.execute(f"SELECT * FROM {table.numbered()}").fetchall()
    assert [row[-1] for row in rows] == list(range(len(rows)))
    return [dict(zip(table.columns, row[:-1], strict=True)) for row in rows]


def test_numbers_strings_and_nested_values_come_back(tmp_path: Path, base: Any) -> None:
    rows = [
        {
            "id": "007",
            "n": 1,
            "x": 1,
            "flag": True,
            "nested": {"a": [1, "é"]},
            "mixed": 1,
            "big": int("123456" * 4),
        },
        {"id": 'a"\n\u2028', "n": -(2**63), "x": 0.1, "flag": False, "nested": [1], "mixed": "1.50", "big": 1},
        {"id": "NULL", "n": None, "x": 1e300, "late, key/~": "x", "mixed": True},
        {"id": ""},
    ]
    table = _open(tmp_path, base, "\n\n".join(json.dumps(row, ensure_ascii=False) for row in rows))
    kinds = {"id": "VARCHAR", "n": "BIGINT", "x": "DOUBLE", "flag": "BOOLEAN", "nested": "VARCHAR", "mixed": "VARCHAR"}
    assert table.types == kinds | {"big": "VARCHAR", "late, key/~": "VARCHAR"}
    found = _read(table)
    for row, got in zip(rows, found, strict=True):
        for key in ("id", "n", "x", "flag", "late, key/~"):
            assert got[key] == row.get(key)
    assert [row["big"] for row in found] == ["123456" * 4, "1", None, None]
    assert [row["mixed"] for row in found] == ["1", "1.50", "true", None]
    assert [row["nested"] for row in found[:2]] == ['{"a":[1,"é"]}', "[1]"]
    assert [table.where(row) for row in range(3)] == ["t.jsonl, line 1", "t.jsonl, line 3", "t.jsonl, line 5"]


NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=5)


@settings(max_examples=30, deadline=None)
@given(
    rows=st.lists(st.tuples(NAMES, st.integers(-(2**63), 2**63 - 1)), min_size=1, max_size=5), ascii_only=st.booleans()
)
def test_ids_come_back(tmp_path_factory: pytest.TempPathFactory, base: Any, rows: list, ascii_only: bool) -> None:
    lines = [json.dumps({"id": name, "n": n}, ensure_ascii=ascii_only) for name, n in rows]
    table = _open(tmp_path_factory.mktemp("t"), base, "\n".join(lines))
    assert _read(table) == [{"id": name, "n": n} for name, n in rows]


def test_many_rows_keep_their_order(tmp_path: Path, base: Any) -> None:
    lines = "\n".join(f'{{"id": {i}, "pad": "{"x" * 100}"}}' for i in range(100_000))
    assert [row["id"] for row in _read(_open(tmp_path, base, lines, "t.ndjson"))] == list(range(100_000))


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ('{"id": 1}\n{"id":\n', "t.jsonl, line 2 is not a JSON object (Expecting value)"),
        ('{"id": 1}\n\n[1]\n', "t.jsonl, line 3 is not a JSON object"),
        ('{"id": 1}\n5\n', "t.jsonl, line 2 is not a JSON object"),
        ('{"id": 1} {"id": 2}\n', "t.jsonl, line 1 is not a JSON object (Extra data)"),
        ('[{"id": 1},\n{"id": 2}]\n', "t.jsonl, line 1 is not a JSON object"),
        ('{"id": 1}\n{"id": 2, "id": 3}\n', "t.jsonl, line 2 is not a JSON object (the key 'id' occurs twice)"),
        (b'{"id": 1}\n{"id": "\xe9"}\n', "t.jsonl, line 2 is not UTF-8 text"),
        (b'{"id": 1}\n\x00\n', "t.jsonl, line 2 is not a JSON object"),
        ('{"id": 1}\n{"ID": 2}\n', "t.jsonl: columns 1 and 2 are both called"),
        ('{"": 1}\n', "t.jsonl: column 1 has no name"),
        ("", "t.jsonl has no rows"),
        ("{}\n{}\n", "t.jsonl has no rows"),
    ],
)
def test_bad_records_are_one_sentence(tmp_path: Path, base: Any, content: str | bytes, sentence: str) -> None:
    with pytest.raises(GpmError) as error:
        _read(_open(tmp_path, base, content))
    assert str(error.value).startswith(sentence)
    assert "\n" not in str(error.value)


def test_deep_nesting_is_text_or_a_sentence(tmp_path: Path, base: Any) -> None:
    deep = "[" * 50_000 + "]" * 50_000
    assert _read(_open(tmp_path, base, f'{{"id": 1, "deep": {deep}}}\n'))[0]["id"] == 1
