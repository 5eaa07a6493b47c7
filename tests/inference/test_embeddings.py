"""Embeddings: what the head reads, in tables and arrays."""

from __future__ import annotations

import csv
from pathlib import Path

import duckdb
import numpy as np
import pytest
import torch

from gpm import GpmError, Graph, Run
from gpm.inference.embeddings import Embeddings, embed_run
from gpm.nn.predictor import Predictor, evaluating
from tests.io.test_table_files import hostile_names
from tests.small_runs import GRAPHS, NODES, SMALL, folder_of, make_graph, run_of

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize("kind", ["classes", "sum", "labels", "values", "graphs"])
def test_the_head_makes_the_answers_of_them(kind: str) -> None:
    run = run_of(kind)
    assert isinstance(run.predictor, Predictor)
    found = embed_run(run)
    assert found.vectors.shape == (GRAPHS if kind == "graphs" else NODES, SMALL["width"])
    assert found.vectors.dtype == np.float32
    with torch.inference_mode(), evaluating(run.predictor.model):
        logits = run.predictor.model.head(torch.from_numpy(found.vectors))
    torch.testing.assert_close(logits, run.predict().logits, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(run.embed().vectors, found.vectors)  # the same every time


def test_the_ends_of_a_link_make_its_score() -> None:
    run = run_of("product")
    found = run.embed()
    assert found.keys == {"node": [f"n{i}" for i in range(NODES)]}
    model = run.predictor.model
    with torch.inference_mode(), evaluating(model):
        score = model.join(*torch.from_numpy(found.vectors[[[3], [8]]]))
    torch.testing.assert_close(score, run.predict([("n3", "n8")]).logits, rtol=1e-4, atol=1e-5)


def test_a_baseline_has_its_own() -> None:
    run = run_of("gcn")
    found = run.embed(["n9", "n2"])
    with torch.inference_mode(), evaluating(run.predictor.model):
        logits = run.predictor.model.head(torch.from_numpy(found.vectors))
    torch.testing.assert_close(logits, run.predict(["n9", "n2"]).logits, rtol=1e-4, atol=1e-5)


def test_ends_that_are_read_together_have_none() -> None:
    with pytest.raises(GpmError, match="a node has no embedding of its own; train with --pair product"):
        run_of("links").embed()


def test_some_names_in_their_order_and_new_ones() -> None:
    run = run_of("classes")
    every, names = run.embed(), ["n30", "n2", "n30"]
    some = run.embed(names)
    assert some.keys == {"node": names}
    np.testing.assert_allclose(some.vectors, every.vectors[[30, 2, 30]], rtol=1e-4, atol=1e-5)
    assert run.embed([]).vectors.shape == (0, SMALL["width"])
    other = Run.open(folder_of("classes"), make_graph(nodes=NODES + 3), device="cpu", other=True)
    assert other.embed(new=True).keys == {"node": ["n160", "n161", "n162"]}


@pytest.mark.parametrize("suffix", ["csv", "tsv", "parquet", "npy"])
def test_names_and_vectors_come_back(tmp_path: Path, suffix: str) -> None:
    names = hostile_names(300)
    vectors = np.random.default_rng(0).normal(size=(300, 4)).astype(np.float32)
    path = tmp_path / "deep" / f"emb.{suffix}"
    Embeddings({"node": names}, vectors).save(path)
    if suffix == "npy":
        np.testing.assert_array_equal(np.load(path, allow_pickle=False), vectors)
        path = path.with_name("emb.keys.csv")
    if suffix == "parquet":
        read = duckdb.sql(f"SELECT * FROM '{path}'")
        head, rows = read.columns, [list(row) for row in read.fetchall()]
    else:
        with path.open(encoding="utf-8", newline="") as file:
            head, *rows = csv.reader(file, delimiter="\t" if suffix == "tsv" else ",")
    assert [row[0] for row in rows] == names
    if suffix != "npy":
        assert head == ["node", "e0", "e1", "e2", "e3"]
        np.testing.assert_array_equal(np.array([row[1:] for row in rows], dtype=np.float32), vectors)
    assert len(list(path.parent.iterdir())) == (2 if suffix == "npy" else 1)


def test_a_frame_has_a_column_per_number() -> None:
    frame = Embeddings({"graph": [4, 2]}, np.eye(2, dtype=np.float32)).frame()
    assert frame.to_dict("list") == {"graph": [4, 2], "e0": [1.0, 0.0], "e1": [0.0, 1.0]}


def test_other_kinds_of_file_are_refused(tmp_path: Path) -> None:
    found = Embeddings({"node": [0]}, np.zeros((1, 2), dtype=np.float32))
    with pytest.raises(
        GpmError, match=r"emb\.pkl: a table is written as \.csv, \.tsv, \.parquet, \.jsonl, \.npy; name"
    ):
        found.save(tmp_path / "emb.pkl")
    assert list(tmp_path.iterdir()) == []


def test_a_collection_of_other_graphs_is_embedded() -> None:
    graph = Graph.open(folder_of("graphs").parent / "graph")
    other = Run.open(folder_of("graphs"), graph, device="cpu", other=True)
    np.testing.assert_array_equal(other.embed().vectors, run_of("graphs").embed().vectors)
