import contextlib
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from gpm import GpmError
from gpm.data.tables.schema import (
    FEATURE_KINDS,
    KEPT,
    TARGET_KINDS,
    Column,
    Schema,
    TableSchema,
    describe,
    read_schema,
    write_schema,
)
from gpm.io.yaml_files import read_schema_yaml

WORDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)  # a surrogate is no text
NASTY = st.sampled_from(
    ["yes", "no", "null", "~", "1:30", "010", "0x1F", "<<", "=", "- a", "a: b", "#", "&a", "*a", "!t"]
)
NAMES = st.one_of(WORDS, NASTY)
FEATURES = st.builds(
    Column,
    st.just("feature"),
    st.sampled_from(FEATURE_KINDS),
    st.none() | st.lists(NAMES, min_size=1, max_size=4, unique=True).map(tuple),
    st.integers(0, 512),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
)
TARGETS = st.builds(Column, st.just("target"), st.sampled_from(TARGET_KINDS))
COLUMNS = st.dictionaries(NAMES, st.one_of(FEATURES, TARGETS, st.just(Column("ignore", why="empty"))), max_size=5)
SCHEMAS = st.builds(
    Schema,
    st.sampled_from(["node", "link", "graph"]),
    st.booleans(),
    st.sampled_from(["merge", "keep"]),
    st.sampled_from(["keep", "drop"]),
    st.sampled_from(["error", "add", "drop"]),
    st.sampled_from(["given", "degree", "locality"]),
    st.just(TableSchema("edges.csv", {"delimiter": ";", "header": True, "trim": False}, {"a": Column("source")})),
    st.none() | st.builds(TableSchema, NAMES, st.just({}), COLUMNS),
)


def _write(folder: Path, text: str) -> Path:
    path = folder / "import.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def _refused(folder: Path, text: str, match: str) -> None:
    with pytest.raises(GpmError, match=match) as error:
        read_schema(_write(folder, text))
    assert "import.yaml" in str(error.value)


@given(schema=SCHEMAS)
def test_yaml_gives_back_what_was_written(tmp_path_factory: pytest.TempPathFactory, schema: Schema) -> None:
    """Whatever columns and categories are called."""
    path = tmp_path_factory.mktemp("yaml") / "import.yaml"
    write_schema(path, schema)
    assert read_schema(path) == schema
    assert Schema.from_dict(schema.to_dict()) == schema


def test_the_file_has_a_line_per_column(tmp_path: Path) -> None:
    table = TableSchema("n.csv", {"header": True}, {"id": Column("id"), "alter": Column("feature", "number")})
    write_schema(tmp_path / "s.yaml", Schema("node", edges=TableSchema("e.csv"), nodes=table))
    lines = (tmp_path / "s.yaml").read_text().splitlines()
    assert lines[:3] == ["format: gpm-import", "version: 1", "task: node"]
    assert "    id: {role: id}" in lines
    assert "    alter: {role: feature, kind: number}" in lines
    assert lines[-1] == "graphs: null"


def test_what_a_file_leaves_out_keeps_its_default(tmp_path: Path) -> None:
    found = read_schema(_write(tmp_path, "nodes:\n  columns:\n    zip: {role: feature, kind: category}\n"))
    assert found == Schema(nodes=TableSchema(columns={"zip": Column("feature", "category")}))
    assert found.task == "auto"


def test_categories_and_columns_are_read_as_they_are_written(tmp_path: Path) -> None:
    text = "nodes: {columns: {1:30: {role: feature}, no: {values: [yes, 010, 1.0, null]}}}"
    found = read_schema(_write(tmp_path, text)).nodes
    assert found is not None
    assert list(found.columns) == ["1:30", "no"]
    assert found.columns["no"].values == ("yes", "010", "1.0", "null")


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("tsak: node", r"no key 'tsak'\. Did you mean 'task'\?"),
        ("task: nodes", r"task must be one of .*, got 'nodes'\. Did you mean 'node'\?"),
        ("directed: 1", "directed must be true or false"),
        ("format: other", "format: gpm-import"),
        ("version: 2", "version: 1"),
        ("edges: [1]", "edges must be 'key: value' lines"),
        ("- a", "must be 'key: value' lines"),
        ("", "must be 'key: value' lines"),
        ("edges: {delimeter: ';'}", r"edges: there is no key 'delimeter'\. Did you mean 'delimiter'\?"),
        ("edges: {columns: {a: {role: sauce}}}", r"edges\.columns\.a\.role must be .* Did you mean 'source'\?"),
        ("nodes: {columns: {a: {role: weight}}}", r"nodes\.columns\.a\.role must be one of id"),
        ("nodes: {columns: {a: {kind: numbr}}}", r"nodes\.columns\.a\.kind must be .* Did you mean 'number'\?"),
        ("nodes: {columns: {a: {role: target, kind: text}}}", "kind must be one of category, number, flag"),
        ("nodes: {columns: {a: {role: id, kind: number}}}", "has no kind"),
        ("nodes: {columns: {a: {buckets: -1}}}", "buckets must be"),
        ("nodes: {columns: {a: {buckets: true}}}", "buckets must be an integer"),
        ("nodes: {columns: {a: {values: [x, x]}}}", "each category once"),
        ("nodes: {columns: {a: {values: x}}}", "values must be a list"),
        ("nodes: {columns: {a: {values: [[x]]}}}", "values must be text"),
        ("nodes: {columns: {a: {role: id}, b: {role: id}}}", "'a' and 'b' all have role id"),
        ("edges: {columns: {a: {role: target}, b: {role: target}}}", "'a' and 'b' all have role target"),
        ("nodes: {columns: {a: {why: 2020-99-99}}}", "cannot be read|must be text"),
        ("task: node\ntask: link", "line 2: the key 'task' is there twice"),
        ("? [a]\n: b", "line 1: a key must be a word"),
        ("a: &x [1]\nb: *x", "line 1: .* must be in quotes"),
        ("a: !!python/object/apply:os.system ['true']", "line 1: .* must be in quotes"),
        ("a: [", "line 2: not YAML"),
        ("a: \x07", "not YAML"),
        ("[" * 500, "nested too deep"),
        ("a: 1\n---\nb: 1", "not YAML"),
    ],
)
def test_mistakes_name_the_file_and_the_key(tmp_path: Path, text: str, match: str) -> None:
    _refused(tmp_path, text, match)


def test_a_small_file_cannot_fill_the_memory(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 30)]
    _refused(tmp_path, "\n".join(lines), "must be in quotes")


def test_files_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(GpmError, match="not UTF-8"):
        read_schema(tmp_path / "s.yaml")
    with pytest.raises(GpmError, match="cannot be read"):
        read_schema(tmp_path / "none.yaml")


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpm.io.yaml_files.SCHEMA_BYTES", 10)
    _refused(tmp_path, "task: node # and more", "has more than")


@given(text=st.text(max_size=60), tail=st.sampled_from(["", "{}", "nodes: {columns: {a: {role: "]))
def test_any_text_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, text: str, tail: str) -> None:
    path = tmp_path_factory.mktemp("yaml") / "s.yaml"
    path.write_bytes((tail + text).encode("utf-8", "replace"))
    with contextlib.suppress(GpmError):
        assert isinstance(read_schema(path), Schema)


PLAIN: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4) | st.sampled_from(["id", "number"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["nodes", "columns", "a", "role", "kind", "values", "buckets"]), inner)
    ),
    max_leaves=8,
)


@given(values=PLAIN)
def test_any_values_are_a_schema_or_refused(values: Any) -> None:
    try:
        found = Schema.from_dict(values)
    except GpmError:
        return
    assert Schema.from_dict(found.to_dict()) == found


def test_values_are_those_of_yaml_otherwise(tmp_path: Path) -> None:
    text = "a: 1\nb: true\nc: {d: 1.5, e: null}\nf: 'x'\n"
    assert read_schema_yaml(_write(tmp_path, text)) == yaml.safe_load(text)


def test_the_table_says_what_happens_to_each_column() -> None:
    nodes = TableSchema(
        "n.csv",
        {},
        {
            "id": Column("id"),
            "age": Column("feature", "number", why="12 missing: mean and a flag"),
            "url": Column("ignore", why="different in every row"),
            "line\nbreak": Column("feature", "category", why="5 values"),
            "label": Column("target", "category"),
            "part": Column("split"),
        },
    )
    edges = TableSchema("e.csv", {}, {"a": Column("source"), "b": Column("target")})
    lines = describe(Schema("node", edges=edges, nodes=nodes), {"nodes": {"age": "41", "id": "x" * 99}})
    assert len(lines) == 9
    assert lines[0].split()[:3] == ["table", "column", "role"]
    assert [line.split()[1] for line in lines[1:4]] == ["a", "b", "id"]
    assert "names the node" in lines[3]
    assert "xxx..." in lines[3]
    assert "standardised; 12 missing: mean and a flag" in lines[4]
    assert lines[4].endswith("41")
    assert "left out: different in every row" in lines[5]
    assert r"line\nbreak" in lines[6]
    assert "one column per value; 5 values" in lines[6]
    assert "predicted: a class" in lines[7]
    assert "train, val or test" in lines[8]


def test_columns_that_are_alike_share_a_line() -> None:
    words = {f"w{i}": Column("feature", "number", why=f"{KEPT}: mostly zeros") for i in range(1433)}
    table = TableSchema("n.csv", {}, {"id": Column("id"), **words})
    lines = describe(Schema("node", nodes=table))
    assert len(lines) == 3
    assert "w0 ... w1432 (1,433)" in lines[2]
    assert "kept as it is: mostly zeros" in lines[2]
    assert "standardised" not in lines[2]
