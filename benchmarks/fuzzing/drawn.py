"""The importer and the options on what hypothesis draws: texts, bytes, grids of cells, records and nested values."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import hypothesis
import yaml
from hypothesis import HealthCheck, Phase
from hypothesis import strategies as st

from fuzzing.judge import ERROR, SUCCESS, attempt, check_nothing_left, command, listing
from fuzzing.options import check_config
from fuzzing.reference import Sheet
from fuzzing.sheets import Story
from fuzzing.tables import check_story, import_files
from gpm.config import Config, option_names

Take = Callable[[int, Callable[[Path], str]], None]
SUFFIXES = ["csv", "tsv", "txt", "csv.gz", "jsonl", "parquet", "graphml", "gexf", "gml", "json", "pt"]

_mark = st.sampled_from(
    [",", ";", "\t", '"', "\n", "\r", " ", "#", "a", "b", "1", ".", "é", "\ufeff", "source", "target", "-"]
)
_texts = st.one_of(st.text(max_size=200), st.lists(_mark, max_size=120).map("".join))
_cells = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
_names = st.sampled_from(["a", "b", "c", "007", "é", "x y", "1", "2", ",", '"', "\n"])
_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)
_plain = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), max_size=6)
_nested = st.recursive(  # what both readers write in the same way
    st.none() | st.booleans() | st.integers(-999, 999) | _plain,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_plain, inner, max_size=3),
    max_leaves=6,
)
_values = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12) | _nested
_columns = st.sampled_from(["source", "target", "weight", "graph", "x", "y", ""]) | st.text(max_size=6)
_options = st.dictionaries(st.sampled_from(option_names()) | st.text(max_size=8), _json, max_size=4)


@st.composite
def _grids(draw: Callable[[Any], Any]) -> Sheet:
    """Rows of an edge table, whose further cells may be anything."""
    more = draw(st.lists(st.sampled_from(["size", "colour", "text", "when"]), unique=True, max_size=3))
    row = st.tuples(_names, _names, *([_cells] * len(more)))
    rows = [[cell or None for cell in one] for one in draw(st.lists(row, min_size=3, max_size=12))]
    return Sheet(["source", "target", *more], rows)


INPUTS = st.one_of(
    st.tuples(st.just("text"), _texts),
    st.tuples(st.just("bytes"), st.tuples(st.sampled_from(SUFFIXES), st.binary(max_size=300))),
    st.tuples(st.just("grid"), _grids()),
    st.tuples(st.just("records"), st.lists(st.dictionaries(_columns, _values, max_size=5), max_size=8)),
    st.tuples(st.just("options"), _options),
    st.tuples(st.just("schema"), _json),
)


def run(begin: int, end: int, seed: int, take: Take) -> None:
    """Draw as many inputs as there are numbers, and have each of them taken."""
    numbers = iter(range(begin, end))

    @hypothesis.seed(seed * 1_000_003 + begin)
    @hypothesis.settings(
        max_examples=end - begin,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @hypothesis.given(INPUTS)
    def draw(made: tuple[str, Any]) -> None:
        number = next(numbers, None)
        if number is not None:
            take(number, lambda folder: READERS[made[0]](made[1], folder))

    draw()


def _import(path: Path, folder: Path, sheet: Sheet | None = None) -> str:
    """Import a file; what comes of it is what a second reader finds, and what was written if that is known."""
    story = Story({"edges": sheet or Sheet([])}, {"task": "link"}, valid=False)
    content = path.read_bytes()
    if not import_files({"edges": path}, story, Random(0), folder):
        return ERROR
    if path.suffix in (".csv", ".jsonl"):
        check_story(folder, {path.name: content}, {"files": {"edges": path.name}}, story, sheet is None)
    return SUCCESS


def _take_text(text: str, folder: Path) -> str:
    (folder / "edges.csv").write_bytes(text.encode("utf-8", "surrogatepass"))
    return _import(folder / "edges.csv", folder)


def _take_bytes(made: tuple[str, bytes], folder: Path) -> str:
    path = folder / f"edges.{made[0]}"
    path.write_bytes(made[1])
    if made[0] == "pt":
        before = listing(folder)
        _, sentence = command(["import", str(path), "--out", str(folder / "out")])
        check_nothing_left(folder, before if sentence else listing(folder))
        return ERROR if sentence else SUCCESS
    return _import(path, folder)


def _take_grid(sheet: Sheet, folder: Path) -> str:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL)  # else a return at the end of a cell is none
    writer.writerow(sheet.columns)
    writer.writerows(sheet.rows)
    (folder / "edges.csv").write_bytes(text.getvalue().encode())
    return _import(folder / "edges.csv", folder, sheet)


def _take_records(records: list[dict[str, Any]], folder: Path) -> str:
    lines = "".join(json.dumps(record) + "\n" for record in records)
    (folder / "edges.jsonl").write_text(lines, encoding="utf-8")
    return _import(folder / "edges.jsonl", folder)


def _take_options(options: dict[str, Any], folder: Path) -> str:
    config, sentence = attempt(lambda: Config.from_dict(options, "a.yaml"))
    if sentence:
        return ERROR
    check_config(config, options)
    return SUCCESS


def _take_schema(content: Any, folder: Path) -> str:
    """Any value as the YAML of an import."""
    (folder / "edges.csv").write_text("source,target,x\na,b,1\nb,c,2\nc,a,3\n")
    wrapped = {"format": "gpm-import", "version": 1} | (
        content if isinstance(content, dict) else {"edges": {"columns": content}}
    )
    (folder / "import.yaml").write_text(yaml.safe_dump(wrapped, allow_unicode=True), encoding="utf-8", errors="replace")
    before = listing(folder)
    words = [
        "import",
        str(folder / "edges.csv"),
        "--schema",
        str(folder / "import.yaml"),
        "--out",
        str(folder / "out"),
        "--quiet",
    ]
    _, sentence = command(words)
    check_nothing_left(folder, before if sentence else listing(folder))
    return ERROR if sentence else SUCCESS


READERS: dict[str, Callable[[Any, Path], str]] = {
    "text": _take_text, "bytes": _take_bytes, "grid": _take_grid, "records": _take_records, "options": _take_options, "schema": _take_schema,
}  # fmt: skip
