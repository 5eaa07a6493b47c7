"""Shards: together they are the whole, each is there whole or not at all, and only those that belong are merged."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpm.nn.gnn.gnn_predictor
import gpm.nn.predictor
import gpm.run.shards
from gpm import GpmError, Graph, Predictions, Run
from gpm.cli.main import main
from gpm.data.graph_files import read_pairs
from gpm.inference.predictions import Inference, Instances, opening_instances
from gpm.io.publish import claiming
from gpm.run.shards import merge_shards, parse_shard, part_path, share_out
from tests.small_runs import NODES, folder_of, make_graph, run_of

pytestmark = pytest.mark.usefixtures("one_thread")
COUNT = 3


@pytest.fixture
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many batches in a shard and many shards in a graph, though the graphs of tests are small."""
    monkeypatch.setattr(gpm.nn.predictor, "POSITIONS", 12 * 3 * 11)  # eleven nodes in a batch
    monkeypatch.setattr(gpm.nn.gnn.gnn_predictor, "ROWS", 7)
    monkeypatch.setattr(gpm.run.shards, "ROWS", 24)


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    """A table of pairs."""
    drawn = np.random.default_rng(3).integers(0, NODES, (50, 2))
    path = tmp_path / "pairs.csv"
    path.write_text("source,target\n" + "".join(f"n{a},n{b}\n" for a, b in drawn))
    return path


def _rows(path: Path) -> list[Any]:
    return duckdb.connect().execute("SELECT * FROM read_parquet(?)", [str(path)]).fetchall()


def _predict(run: Run, folder: Path, count: int = COUNT, **options: Any) -> None:
    for index in np.random.default_rng(0).permutation(count).tolist():  # they may run in any order
        part = run.predict_shard(folder, index, count, **options)
        assert part.made
        assert len(_rows(part.path)) == len(part)


@given(st.integers(0, 10**12), st.integers(1, 500))
def test_shards_are_contiguous_and_of_equal_size(total: int, count: int) -> None:
    ends = [share_out(total, index, count) for index in range(count)]
    assert ends[0][0] == 0
    assert ends[-1][1] == total
    assert all(a[1] == b[0] for a, b in itertools.pairwise(ends))
    sizes = {last - first for first, last in ends}
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("classes", {}),
        ("labels", {"patterns": 6}),
        ("values", {"interval": True, "draws": 2}),
        ("values", {"calibrate": True, "draws": 2}),
        ("sum", {"calibrate": True}),
        ("gcn", {}),
        ("graphs", {}),
    ],
)
@pytest.mark.usefixtures("_small_batches")
def test_shards_say_to_the_last_bit_what_one_prediction_says(kind: str, options: Any, tmp_path: Path) -> None:
    run = run_of(kind)
    _predict(run, tmp_path / "parts", **options)
    whole = run.predict(**options)
    for suffix in (".csv", ".jsonl"):
        assert merge_shards(tmp_path / "parts", tmp_path / f"merged{suffix}", run) == len(whole)
        whole.save(tmp_path / f"whole{suffix}")
        assert (tmp_path / f"merged{suffix}").read_bytes() == (tmp_path / f"whole{suffix}").read_bytes()


@pytest.mark.parametrize("kind", ["links", "product"])
@pytest.mark.usefixtures("_small_batches")
def test_shards_of_pairs_are_rows_of_their_table(kind: str, pairs: Path, tmp_path: Path) -> None:
    """Pairs by `product` share the embeddings of their nodes, so that batches, and with them last bits, differ."""
    run = run_of(kind)
    duckdb.connect().execute(f"COPY (FROM read_csv('{pairs}')) TO '{tmp_path}/pairs.parquet'")
    _predict(run, tmp_path / "csv", pairs=pairs)
    _predict(run, tmp_path / "parquet", pairs=tmp_path / "pairs.parquet")
    whole = run.predict(read_pairs(pairs)).frame()
    for form in ("csv", "parquet"):
        merge_shards(tmp_path / form, tmp_path / f"{form}.parquet")
        rows = _rows(tmp_path / f"{form}.parquet")
        assert [row[:2] for row in rows] == list(zip(whole["source"], whole["target"], strict=True))
        apart = 0.0 if kind == "links" else 1e-6
        np.testing.assert_allclose([row[2] for row in rows], whole["probability"], rtol=0, atol=apart)


def test_parquet_is_merged_with_the_types_of_one_prediction(tmp_path: Path) -> None:
    run = run_of("classes")
    _predict(run, tmp_path / "parts")
    merge_shards(tmp_path / "parts", tmp_path / "merged.parquet")
    run.predict().save(tmp_path / "whole.parquet")
    merged, whole = (duckdb.connect().read_parquet(str(tmp_path / f"{name}.parquet")) for name in ("merged", "whole"))
    assert (merged.columns, merged.types) == (whole.columns, whole.types)
    assert merged.fetchall() == whole.fetchall()


def test_more_shards_than_instances_leave_some_empty(tmp_path: Path) -> None:
    grown = make_graph(nodes=NODES + 2)
    run = Run.open(folder_of("classes"), grown, device="cpu", other=True)
    _predict(run, tmp_path / "parts", 5, new=True)
    assert merge_shards(tmp_path / "parts", tmp_path / "new.csv") == 2
    run.predict(new=True).save(tmp_path / "whole.csv")
    assert (tmp_path / "new.csv").read_text() == (tmp_path / "whole.csv").read_text()


def test_no_instances_are_a_table_without_rows(tmp_path: Path) -> None:
    run = Run.open(folder_of("classes"), make_graph(), device="cpu", other=True)
    _predict(run, tmp_path / "parts", 2, new=True)
    assert merge_shards(tmp_path / "parts", tmp_path / "none.csv") == 0
    assert (tmp_path / "none.csv").read_text() == "node,prediction,p_0,p_10,p_20\n"


def test_a_finished_part_is_left_as_it_is(tmp_path: Path) -> None:
    run = run_of("classes")
    made = run.predict_shard(tmp_path, 1, COUNT)
    before = made.path.stat().st_mtime_ns
    again = run.predict_shard(tmp_path, 1, COUNT, overwrite=True)
    assert (again.made, again.path, len(again)) == (False, made.path, len(made))
    assert made.path.stat().st_mtime_ns == before
    assert [path.name for path in tmp_path.iterdir()] == ["part-00001-of-00003.parquet"]


@pytest.mark.parametrize(
    ("kind", "options", "sentence"),
    [
        ("classes", {"patterns": 6}, r"of other options \(patterns: None, not 6\)"),
        ("classes", {"calibrate": True}, r"of other options \(calibrate: False, not True\)"),
        ("sum", {}, "of another run"),
    ],
)
def test_a_part_of_something_else_is_refused_or_replaced(
    kind: str, options: Any, sentence: str, tmp_path: Path
) -> None:
    path = run_of("classes").predict_shard(tmp_path, 0, COUNT).path
    with pytest.raises(GpmError, match=f"part-00000-of-00003.parquet is there, but {sentence}; .* --overwrite"):
        run_of(kind).predict_shard(tmp_path, 0, COUNT, **options)
    before = path.read_bytes()
    assert run_of(kind).predict_shard(tmp_path, 0, COUNT, overwrite=True, **options).made
    assert path.read_bytes() != before


def test_a_part_of_other_data_is_refused(tmp_path: Path, pairs: Path) -> None:
    run_of("classes").predict_shard(tmp_path, 0, COUNT)
    other = Run.open(folder_of("classes"), make_graph(x=np.ones((NODES, 3))), device="cpu", other=True)
    with pytest.raises(GpmError, match="but of other data"):
        other.predict_shard(tmp_path, 0, COUNT)
    (tmp_path / "part-00002-of-00003.parquet").write_text("something else")
    with pytest.raises(GpmError, match=r"part-00002-of-00003.parquet is there, but of no run at all"):
        other.predict_shard(tmp_path, 2, COUNT)
    run_of("product").predict_shard(tmp_path / "links", 0, COUNT, pairs=pairs)
    pairs.write_text(pairs.read_text().replace("n1", "n2"))
    with pytest.raises(GpmError, match="but of another table of pairs"):
        run_of("product").predict_shard(tmp_path / "links", 0, COUNT, pairs=pairs)


def test_a_part_that_another_process_writes_is_refused(tmp_path: Path) -> None:
    with (
        claiming(part_path(tmp_path, 0, COUNT)),
        pytest.raises(GpmError, match=r"part-00000-of-00003.parquet is being written by another process"),
    ):
        run_of("classes").predict_shard(tmp_path, 0, COUNT)
    assert run_of("classes").predict_shard(tmp_path, 0, COUNT).made


def test_a_failure_in_the_middle_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpm.run.shards, "ROWS", 1)
    monkeypatch.setattr(gpm.nn.predictor, "POSITIONS", 12 * 3 * 11)
    with monkeypatch.context() as patched:
        patched.setattr(Inference, "predict", _fail_later(Inference.predict))
        with pytest.raises(GpmError, match="enough"):
            run_of("classes").predict_shard(tmp_path, 0, COUNT)
    assert list(tmp_path.iterdir()) == []


def _fail_later(honest: Any) -> Any:
    calls = iter(range(10))

    def of(answers: Inference, inputs: Any) -> Predictions:
        if next(calls) == 2:
            raise GpmError("enough.")
        return honest(answers, inputs)  # type: ignore[no-any-return]

    return of


_KILLED = """
import os, signal, sys
import gpm.run.shards
from gpm import Run
gpm.run.shards._join = lambda *given, **options: os.kill(os.getpid(), signal.SIGKILL)
Run.open(sys.argv[1], device="cpu").predict_shard(sys.argv[2], 0, 3)
"""


@pytest.mark.skipif(os.name != "posix", reason="kills a process")
def test_a_kill_leaves_what_the_next_run_clears(tmp_path: Path) -> None:
    given = [sys.executable, "-c", _KILLED, str(folder_of("classes")), str(tmp_path)]
    assert subprocess.run(given, check=False, capture_output=True).returncode == -signal.SIGKILL
    left = [path.name for path in tmp_path.iterdir()]
    assert left
    assert all(name.startswith(".part-00000-of-00003.parquet.") for name in left)
    assert run_of("classes").predict_shard(tmp_path, 0, COUNT).made
    assert [path.name for path in tmp_path.iterdir()] == ["part-00000-of-00003.parquet"]


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The parts of a run."""
    folder = tmp_path_factory.mktemp("parts")
    _predict(run_of("classes"), folder, 5)
    return folder


@pytest.fixture
def copied(parts: Path, tmp_path: Path) -> Iterator[Path]:
    """A copy of them that a test may spoil; nothing is merged of it."""
    yield Path(shutil.copytree(parts, tmp_path / "copied"))
    assert not (tmp_path / "out.csv").exists()


def test_missing_parts_are_named(copied: Path, tmp_path: Path) -> None:
    part_path(copied, 1, 5).unlink()
    with pytest.raises(GpmError, match=r"Shard 1 of 5 is missing in .*copied: run --shard 1/5\."):
        merge_shards(copied, tmp_path / "out.csv")
    part_path(copied, 3, 5).unlink()
    part_path(copied, 4, 5).unlink()
    with pytest.raises(GpmError, match=r"Shards 1, 3 and 4 of 5 are missing in .*: run --shard 1/5\."):
        merge_shards(copied, tmp_path / "out.csv")


def test_parts_that_do_not_belong_together_are_not_merged(copied: Path, tmp_path: Path) -> None:
    run = run_of("classes")
    run.predict_shard(copied, 2, 5, overwrite=True, patterns=6)
    with pytest.raises(
        GpmError, match=r"part-00002-of-00005.parquet differs from .*: other options \(patterns: 6, not None\)"
    ):
        merge_shards(copied, tmp_path / "out.csv")
    shutil.copy(part_path(copied, 1, 5), part_path(copied, 2, 5))
    with pytest.raises(GpmError, match=r"part-00002-of-00005.parquet holds shard 1 of 5; rename it accordingly"):
        merge_shards(copied, tmp_path / "out.csv")
    run.predict_shard(copied, 0, 2)
    with pytest.raises(GpmError, match=r"holds shards out of 2 and 5; remove"):
        merge_shards(copied, tmp_path / "out.csv")


def test_parts_of_another_run_are_not_merged(copied: Path, tmp_path: Path) -> None:
    with pytest.raises(GpmError, match="are of another run than"):
        merge_shards(copied, tmp_path / "out.csv", run_of("sum"))


def test_a_damaged_part_is_not_merged(copied: Path, tmp_path: Path) -> None:
    path = part_path(copied, 4, 5)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(GpmError, match=r"part-00004-of-00005.parquet cannot be read"):
        merge_shards(copied, tmp_path / "out.csv")
    duckdb.connect().execute(f"COPY (SELECT 1 AS node) TO '{path}'")
    with pytest.raises(GpmError, match=r"part-00004-of-00005.parquet is not a shard that gpm predict --shard wrote"):
        merge_shards(copied, tmp_path / "out.csv")


def test_a_folder_without_parts_is_told(tmp_path: Path) -> None:
    with pytest.raises(GpmError, match="holds no shards"):
        merge_shards(tmp_path, tmp_path / "out.csv")
    with pytest.raises(GpmError, match="There is no folder"):
        merge_shards(tmp_path / "none", tmp_path / "out.csv")


def test_a_part_says_what_it_was_made_from(parts: Path) -> None:
    query = f"SELECT value FROM parquet_kv_metadata('{part_path(parts, 3, 5)}') WHERE key = 'gpm'"
    facts = json.loads(duckdb.connect().execute(query).fetchall()[0][0])
    assert (facts["shard"], facts["of"], facts["total"]) == (3, 5, NODES)
    assert facts["data"] == run_of("classes").metadata["data_digest"].partition(" ")[0]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [("3", "as in 3/100; got '3'"), ("a/b", "got 'a/b'"), ("-1/4", "got '-1/4'"), ("5/4", "There is no shard 5 of 4"),
     ("4/4", "numbered from 0 to 3"), ("0/0", "between 1 and 999,999,999, got 0")],
)  # fmt: skip
def test_a_shard_that_there_is_not_gets_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(GpmError, match=sentence):
        parse_shard(text)
    assert parse_shard("3/100") == (3, 100)


def test_the_command_predicts_and_merges(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, answers = str(folder_of("values")), str(tmp_path / "answers")
    shard = ["predict", folder, "-o", answers, "--draws", "2", "--device", "cpu", "--shard"]
    for index in range(2):
        assert main([*shard, f"{index}/2"]) == 0
    assert "80 nodes of values from id 80, written to" in capsys.readouterr().out
    assert main([*shard, "0/2"]) == 0
    assert "exists already, of the same run, data and options; nothing to do" in capsys.readouterr().out
    assert main(["predict", folder, "-o", str(tmp_path / "merged.csv"), "--merge", answers]) == 0
    assert "160 rows of the shards in" in capsys.readouterr().out
    assert main(["predict", folder, "-o", str(tmp_path / "whole.csv"), "--draws", "2", "--device", "cpu"]) == 0
    assert (tmp_path / "merged.csv").read_text() == (tmp_path / "whole.csv").read_text()


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--shard", "0/2", "--recommend", "5", "--node", "n1"], "--shard predicts a share of all .* --recommend"),
        (["--shard", "0/2", "--nodes", "n1"], "leave out --nodes, or --shard"),
        (["--shard", "3", "-o", "answers"], "A shard is its index, from 0 on"),
        (["--shard", "0/2"], "Name the folder for the shards, as in -o predictions"),
        (["--shard", "0/2", "-o", "answers.csv"], "answers.csv is the name of a file; shards are written"),
        (["--merge", "answers", "--shard", "0/2", "-o", "a.csv"], "leave out --shard, or --merge"),
        (["--merge", "answers"], "Name the table to write"),
    ],
)
def test_what_does_not_go_with_a_shard_gets_one_sentence(
    flags: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["predict", str(folder_of("classes")), *flags]) == 2
    assert re.search(sentence, (said := capsys.readouterr().err))
    assert said.count("\n") == 1


def test_pairs_are_for_links_alone(tmp_path: Path, pairs: Path) -> None:
    with pytest.raises(GpmError, match="predicts nodes, for which it needs no table of pairs"):
        run_of("classes").predict_shard(tmp_path, 0, 2, pairs=pairs)
    with pytest.raises(GpmError, match="predicts links, for which it needs a table of pairs"):
        run_of("product").predict_shard(tmp_path, 0, 2)


@given(st.lists(st.integers(0, 2), min_size=1, max_size=30), st.integers(1, 7), st.data())
def test_instances_come_in_pieces_of_one_size(sizes: list[int], size: int, data: st.DataObject) -> None:
    filled = np.flatnonzero(sizes)
    first = data.draw(st.integers(0, len(filled)))
    last = data.draw(st.integers(first, len(filled)))
    blocks = Instances(len(filled), lambda a, b: [filled[i : min(i + 3, b)] for i in range(a, b, 3)])
    pieces = list(blocks.read(first, last, size))
    assert all(len(piece) == size for piece in pieces[:-1])
    assert np.concatenate([np.zeros(0, int), *pieces]).tolist() == filled[first:last].tolist()


def test_instances_of_a_large_graph_take_no_memory_each() -> None:
    nodes = 2_000_000
    graph = Graph.from_edges(np.zeros((2, 1), dtype=np.int64), nodes, x=np.zeros((nodes, 3), dtype=np.float32))
    run = Run.open(folder_of("classes"), graph, device="cpu", other=True)
    tracemalloc.start()
    with opening_instances(run) as instances:
        (chunk,) = instances.read(nodes - 100, nodes, 1000)
        named = run.name(chunk)["node"]
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert instances.total == nodes
    assert named == list(range(nodes - 100, nodes))
    assert most < 1_000_000
