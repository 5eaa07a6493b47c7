import json
import shutil
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import gpm
from gpm import GpmError, Run
from gpm.cli.main import main
from gpm.compute import set_threads
from gpm.io.manifest import check_folder
from gpm.shift.sample import draw_sample
from gpm.shift.shift_report import report_shift, save_shift
from tests.shift.runs import NODES, SMALL, make_graph, plain_run, run_of, shift_of

pytestmark = pytest.mark.usefixtures("one_thread_for_all")


def test_two_halves_of_one_graph_are_as_far_apart_as_the_reference_says() -> None:
    for distance in shift_of().distances:
        assert distance.value == pytest.approx(distance.reference, abs=0.1), distance.name
        assert distance.word == "none"
    assert "do not differ" in shift_of().verdict


@pytest.mark.parametrize(
    ("planted", "seen", "unseen"),
    [("degree", {"degrees", "topologies"}, {"features", "classes"}),
     ("features", {"features"}, {"degrees", "topologies", "classes"})],
)  # fmt: skip
def test_a_planted_shift_is_seen_by_its_own_distance(planted: str, seen: set[str], unseen: set[str]) -> None:
    shift = shift_of(planted)
    assert all(shift[name].word != "none" for name in seen)
    assert all(shift[name].word == "none" for name in unseen)
    assert shift["features_auc"].value > 0.9 or planted == "degree"
    assert shift["embeddings_auc"].value > 0.9 or planted == "degree"
    if planted == "features":
        assert shift.columns[0].name == "column 1"
        assert shift.columns[0].target - shift.columns[0].source == pytest.approx(4, abs=0.3)
    else:
        assert shift.medians[1] > 2 * shift.medians[0]


def test_groups_are_the_test_nodes_by_distance_and_their_mean_is_the_score() -> None:
    scores = shift_of("features").scores
    assert [group.count for group in scores.groups] == [NODES * 4 // 5 // 5] * 5
    assert scores.target_count == NODES * 4 // 5
    assert np.mean([group.score for group in scores.groups]) == pytest.approx(scores.target, abs=1e-5)
    away = [group.away for group in scores.groups]
    assert away == sorted(away)
    run = run_of("features")
    assert scores.target == pytest.approx(run.result["test"]["accuracy"], abs=1e-6)
    assert scores.source == pytest.approx(run.result["val"]["accuracy"], abs=1e-6)


@pytest.mark.parametrize("form", ["sparse", "category", "none", "gcn"])
def test_features_of_every_form_and_baselines_are_told_of(form: str) -> None:
    shift = shift_of(form)
    names = {distance.name for distance in shift.distances}
    assert ({"features", "features_auc"} <= names) is (form != "none")
    assert len(shift.columns) == (0 if form == "none" else 5)
    assert any("no features" in note for note in shift.notes) is (form == "none")
    assert all(" = " in column.name for column in shift.columns) or form != "category"
    assert not shift.attention
    assert any("no attention" in note for note in shift.notes)


def test_attention_is_told_where_there_is_some() -> None:
    shift = shift_of("attended")
    assert shift.attention
    assert not shift.notes
    for share in (shift.source_shares, shift.target_shares):
        assert sum(asdict(share).values()) == pytest.approx(1, abs=1e-6)
    assert all(entry.source_attention for entry in shift.topologies if entry.source)


def test_a_target_without_labels_is_not_scored() -> None:
    shift = shift_of("unlabelled")
    assert shift.scores.groups == ()
    assert shift.scores.target is None
    assert shift.scores.source is not None
    assert any("no labels" in note for note in shift.notes)
    assert "not known" in shift.verdict
    with pytest.raises(KeyError):
        shift["classes"]


def test_the_same_seed_gives_the_same_report_for_any_number_of_threads() -> None:
    run = run_of("attended")
    found = report_shift(run, nodes=100, seed=3)
    try:
        set_threads(2)
        assert report_shift(run, nodes=100, seed=3) == found
    finally:
        set_threads(1)
    assert report_shift(run, nodes=100, seed=4).distances != found.distances
    assert found.source_nodes == found.target_nodes == 100


def test_samples_are_of_their_parts_and_halved_evenly() -> None:
    run = run_of("degree")
    sample = draw_sample(run.data, run.split, 50, 0)  # type: ignore[arg-type]
    assert not sample.away[sample.source].any()
    assert sample.away[sample.target].all()
    assert np.isin(sample.nodes[sample.test], run.split.test).all()
    assert np.isin(sample.nodes[sample.val], run.split.val).all()
    for part in (sample.source, sample.target):
        assert len(part) == 50
        assert sample.fold[part].sum() == 25
    assert sample.used.sum() == 100


def test_values_are_compared_and_scored(tmp_path: Path) -> None:
    home, away = make_graph(0), make_graph(1)
    values = [(graph.x[:, 0] + add).astype(np.float32) for graph, add in ((home, 0), (away, 3))]
    home, away = (
        gpm.Graph.from_edges(graph.edge_index(), NODES, x=graph.x, y=y)
        for graph, y in zip((home, away), values, strict=True)
    )
    away.save(tmp_path / "away")
    run = gpm.train(home, target=str(tmp_path / "away"), out=tmp_path / "run", quiet=True, device="cpu", **SMALL)
    shift = run.shift(nodes=200)
    assert shift["values"].word == "clear"
    assert shift.scores.metric == "mae"
    assert shift.scores.target > shift.scores.source  # type: ignore[operator]


def test_columns_of_tables_have_their_names(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    for name, add in (("home", 0), ("away", 5)):
        ages, kinds = random.normal(size=120) + add, random.choice(["a", "b"], 120)
        nodes = pd.DataFrame({"id": range(120), "age": ages, "kind": kinds, "y": random.choice(["yes", "no"], 120)})
        edges = pd.DataFrame(random.integers(0, 120, (480, 2)), columns=["source", "target"])
        nodes.to_csv(tmp_path / "nodes.csv", index=False)
        edges.to_csv(tmp_path / "edges.csv", index=False)
        tables = [str(tmp_path / "edges.csv"), "--nodes", str(tmp_path / "nodes.csv")]
        assert main(["import", *tables, "--target", "y", "-o", str(tmp_path / name)]) == 0
    run = gpm.train(
        str(tmp_path / "home"), target=str(tmp_path / "away"), out=tmp_path / "run", quiet=True, device="cpu", **SMALL
    )
    assert run.shift(nodes=100).columns[0].name == "age"


# The command


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A run folder to write below."""
    return Path(shutil.copytree(run_of("attended").folder, tmp_path / "run"))


def test_the_command_writes_page_and_numbers_and_the_run_still_verifies(
    copied: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["shift", str(copied), "--nodes", "100"]) == 0
    stored = json.loads((copied / "shift/shift.json").read_text())
    assert stored["verdict"] in capsys.readouterr().out
    assert (copied / "shift/index.html").is_file()
    assert check_folder(copied) == []
    assert stored == {"format": 1} | json.loads(json.dumps(Run.open(copied, device="cpu").shift(nodes=100).to_dict()))
    assert main(["shift", str(copied), "--nodes", "100", "-o", str(copied.parent / "page.html")]) == 0
    assert json.loads((copied.parent / "page.json").read_text()) == stored


def test_a_run_without_a_target_gets_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    folder = plain_run().folder
    assert main(["shift", str(folder)]) == 2
    assert capsys.readouterr().err == (
        f"gpm shift: {folder} has no target to compare with its source; train with --target_graph or --shift.\n"
    )
    assert not (folder / "shift").exists()


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [(["--nodes", "3"], "nodes must be at least 20, got 3."), (["-o", "page.pdf"], "let its name end in .html.")],
)
def test_mistakes_get_a_sentence(
    copied: Path, flags: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["shift", str(copied), *flags]) == 2
    assert sentence in capsys.readouterr().err


def test_a_link_in_place_of_the_folder_is_not_followed(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (copied / "shift").symlink_to(copied.parent)
    assert main(["shift", str(copied)]) == 2
    assert "symbolic link" in capsys.readouterr().err


def test_a_folder_in_place_of_the_page_is_refused(tmp_path: Path) -> None:
    (tmp_path / "page.html").mkdir()
    with pytest.raises(GpmError, match="is a folder"):
        save_shift(shift_of(), tmp_path / "page.html")
