"""What cannot be run everywhere has its plan: with the files of a dataset at hand, its runs are made like any other."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gpm.data.catalog import CATALOG
from gpm.reproduce.paper_tables import read_tables
from gpm.reproduce.records import Job, Records
from gpm.reproduce.runner import is_at_hand, list_jobs, run_jobs
from tests.reproduce.toys import SMALL

pytestmark = pytest.mark.usefixtures("one_thread")
NODES = 60


@pytest.fixture
def raw(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GPM_RAW", str(tmp_path / "raw"))
    monkeypatch.setenv("GPM_DATA", str(tmp_path / "data"))
    return tmp_path / "raw"


def _write_wikics(raw: Path) -> None:
    """A ring in the format of WikiCS: its neighbours have one class."""
    random, classes = np.random.default_rng(0), np.arange(NODES) // 20
    part = np.arange(NODES) % 5
    masks = {
        f"{name}_masks": [(part == number).tolist()] * 20 for number, name in enumerate(("train", "val", "stopping"))
    }
    facts = {
        "features": (random.normal(size=(NODES, 4)) + classes[:, None]).tolist(), "labels": classes.tolist(),
        "links": [[(node + 1) % NODES, (node + 2) % NODES] for node in range(NODES)],
        "test_mask": (part > 2).tolist(), **masks,
    }  # fmt: skip
    (raw / "WikiCS/raw").mkdir(parents=True)
    (raw / "WikiCS/raw/data.json").write_text(json.dumps(facts), encoding="utf-8")


def _write_reddit(raw: Path) -> None:
    """Rings of three lengths in the format of TU collections, one class each."""
    title = "REDDIT-MULTI-5K"
    folder = raw / "TUDataset" / title / "raw"
    folder.mkdir(parents=True)
    sizes = [4 + 2 * (graph % 3) for graph in range(45)]
    first = np.cumsum([0, *sizes])
    edges = [
        (begin + i, begin + (i + 1) % size) for begin, size in zip(first, sizes, strict=False) for i in range(size)
    ]
    texts = {
        "A": "".join(f"{a + 1}, {b + 1}\n{b + 1}, {a + 1}\n" for a, b in edges),
        "graph_indicator": "".join(f"{graph + 1}\n" * size for graph, size in enumerate(sizes)),
        "graph_labels": "".join(f"{graph % 3 + 1}\n" for graph in range(45)),
    }
    for name, text in texts.items():
        (folder / f"{title}_{name}.txt").write_text(text, encoding="utf-8")


@pytest.mark.parametrize(("recipe", "task"), [("wikics", "node"), ("reddit-m5k", "graph")])
def test_a_dataset_is_run_once_its_files_are_there(recipe: str, task: str, raw: Path, tmp_path: Path) -> None:
    jobs = [Job(recipe, SMALL | extra, seed) for extra in ({}, {"model": "gcn"}) for seed in (0, 1)]
    reasons: dict[tuple[str, str, int], str] = {}
    run_jobs(jobs, tmp_path, 3600, reasons, quiet=True)
    assert set(reasons.values()) == {"the data is not here"}
    reasons.clear()
    {"wikics": _write_wikics, "reddit-m5k": _write_reddit}[recipe](raw)
    run_jobs(jobs, tmp_path, 3600, reasons, quiet=True)
    assert reasons == {}
    for job in jobs:
        record = Records(tmp_path).find(job)
        assert record is not None
        assert (record["task"], record["metric"]) == (task, "accuracy")
        assert 0 <= record["test"]["accuracy"] <= 1


def test_every_dataset_of_the_paper_has_its_runs(raw: Path) -> None:
    listed = {job.recipe for job in list_jobs(read_tables(), 1)}
    absent = {
        "products", "arxiv", "wikics", "corafull", "flickr", "ogbl-collab", "reddit-m5k", "reddit-m12k", "zinc-full",
    }  # fmt: skip
    assert absent <= listed
    assert not any(map(is_at_hand, absent))


def test_the_files_of_a_part_are_not_the_whole(raw: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the 12,000 molecules of ZINC have the names of those of all 249,456."""
    folder = raw / "ZINC/raw"
    folder.mkdir(parents=True)
    (folder / "train.pickle").write_bytes(b"molecules")
    assert is_at_hand("zinc")
    assert not is_at_hand("zinc-full")
    monkeypatch.setitem(CATALOG, "zinc-full", replace(CATALOG["zinc-full"], least_bytes=0))
    assert is_at_hand("zinc-full")
