"""Molecules from a table, as a user types it: trained, predicted on another table, and what is said of bad rows."""

from __future__ import annotations

import csv
import json
import logging
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gpm import GpmError, Run
from gpm.cli.main import main

pytest.importorskip("rdkit")

CHAINS = ["C" * n for n in range(1, 13)]
SMILES = [chain + end for chain in CHAINS for end in ("", "O", "N", "Cl")]  # 48 molecules of 1 to 12 carbons
SMALL = [
    "--width", "16", "--heads", "2", "--lengths", "0", "1", "2", "--patterns", "6", "--pool", "12", "--batch", "8",
    "--lr", "0.1", "--warmup", "2", "--dropout", "0", "--epochs", "8", "--readout", "sum", "--split", "60/20/20",
    "--quiet", "--device", "cpu",
]  # fmt: skip


pytestmark = pytest.mark.usefixtures("one_thread_for_all")


def count_carbons(smiles: str) -> int:
    return smiles.replace("Cl", "").count("C")


def write_rows(path: Path, rows: list[tuple[str, object]], header: str = "id,smiles,logp") -> Path:
    lines = [f"m{i},{smiles},{value}" for i, (smiles, value) in enumerate(rows)]
    path.write_text("\n".join([header, *lines]) + "\n")
    return path


def read_rows(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on a table whose target is 50 and two for every carbon atom."""
    folder = tmp_path_factory.mktemp("molecules")
    table = write_rows(folder / "molecules.csv", [(s, 50 + 2 * count_carbons(s)) for s in SMILES])
    arguments = ["train", str(table), "--smiles", "smiles", "--target", "logp", "--metric", "mae"]
    assert main([*arguments, "--out", str(folder / "run"), *SMALL]) == 0
    return folder / "run"


def test_carbons_are_counted(trained: Path) -> None:
    run = Run.open(trained)
    assert (run.result["task"], run.result["metric"], run.result["data"]) == ("graph", "mae", "molecules")
    spread = np.abs(run.data.labels - np.median(run.data.labels)).mean()
    assert run.result["test"]["mae"] < 0.5 * spread
    assert run.evaluate() == pytest.approx(run.result["test"], rel=1e-5)
    rows = read_rows(trained / "predictions.csv")
    assert list(rows[0]) == ["graph", "line", "smiles", "id", "prediction", "label_true"]
    assert [row["smiles"] for row in rows] == [SMILES[i] for i in run.split.test]
    assert [float(row["label_true"]) for row in rows] == [50 + 2 * count_carbons(row["smiles"]) for row in rows]
    off = [abs(float(row["prediction"]) - float(row["label_true"])) for row in rows]
    assert np.mean(off) == pytest.approx(run.result["test"]["mae"], rel=1e-3)


def test_descriptors_are_computed_again_for_another_table(trained: Path, tmp_path: Path) -> None:
    home = Run.open(trained)
    assert home.config.descriptors
    other = write_rows(tmp_path / "other.csv", [(smiles, "") for smiles in reversed(SMILES)])
    mine, theirs = (run.pattern_predictor.expected for run in (home, Run.open(trained, other, other=True)))
    assert mine is not None
    assert theirs is not None
    assert dict(mine.groups)["descriptors"] > 0
    np.testing.assert_allclose(theirs.values.flip(0), mine.values, rtol=1e-5, atol=1e-6)
    with pytest.raises(GpmError, match="descriptors of molecules, which are computed from SMILES"):
        home.predictor_for(replace(home.data.graph))


def test_another_table_is_predicted_with_atoms_that_were_never_seen(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """It needs no target; its rows keep their order, and those that are no molecules are named by line."""
    other, out = tmp_path / "other.csv", tmp_path / "out.csv"
    other.write_text("name,smiles\na,CCCC\nb,C[Si](C)(C)[Se]c1ccccc1\nc,xyz\nd,[U]\ne,CCCCCCCC\n")
    assert main(["predict", str(trained), "--on", str(other), "-o", str(out)]) == 0
    assert capsys.readouterr().out == f"4 graphs of other written to {out}\n"
    assert "other.csv: 1 of 5 rows left out (line 4: 'xyz' is not SMILES)" in caplog.text
    rows = read_rows(out)
    assert [row["smiles"] for row in rows] == ["CCCC", "C[Si](C)(C)[Se]c1ccccc1", "[U]", "CCCCCCCC"]
    assert [row["name"] for row in rows] == ["a", "b", "d", "e"]  # a column of the user's that identifies the rows
    said = [float(row["prediction"]) for row in rows]
    assert np.isfinite(said).all()
    assert said[0] < said[3]


def test_the_same_molecules_in_another_table_get_the_same_answers(trained: Path, tmp_path: Path) -> None:
    write_rows(tmp_path / "again.csv", [(s, "") for s in SMILES])
    again = Run.open(trained, tmp_path / "again.csv", other=True)
    np.testing.assert_allclose(again.predict().probability, Run.open(trained).predict().probability, rtol=1e-5)


def test_bad_rows_are_named_by_line_and_unknown_targets_are_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows: list[tuple[str, object]] = [(s, float(count_carbons(s))) for s in SMILES]
    rows[2] = ("C(C", 1.0)  # line 4
    rows[5] = ("", 2.0)  # line 7
    rows[9] = ("C(C)(C)(C)(C)C", 6.0)  # line 11: a carbon with five bonds
    rows[12] = (rows[12][0], "")
    rows[20] = (rows[20][0], "nan")
    table = write_rows(tmp_path / "molecules.csv", rows)
    caplog.set_level(logging.INFO, logger="gpm")
    arguments = ["train", str(table), "--smiles", "smiles", "--target", "logp", "--metric", "mae"]
    assert main([*arguments, "--out", str(tmp_path / "run"), *SMALL, "--epochs", "1"]) == 0
    warning = next(text for text in caplog.messages if "left out" in text)
    assert warning.startswith(
        "molecules.csv: 3 of 48 rows left out (line 4: 'C(C' is not SMILES; line 7: empty; line 11: "
    )
    run = Run.open(tmp_path / "run")
    assert run.data.graph.num_graphs == 45
    ids = np.concatenate([run.split.train, run.split.val, run.split.test])
    assert len(ids) == 43
    assert not np.isnan(run.data.labels[ids]).any()


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        (["--smiles", "smile", "--target", "logp"], "has no column 'smile'. Did you mean 'smiles'? Its columns are id"),
        (
            ["--smiles", "smiles", "--target", "log"],
            "has no column 'log'. Did you mean 'logp'? Its columns are",
        ),
        (["--smiles", "id", "--target", "logp"], "no row has a molecule in column 'id' (line 2: 'm0' is not SMILES)"),
        (["--smiles", "smiles", "--target", "id"], "column 'id' has a different word in each of 48 rows"),
        (["--smiles", "smiles"], "molecules.csv: say which of its columns to predict with --target."),
        ([], "SMILES are rarely ends of edges. If molecules.csv contains molecules, add --smiles smiles and --target"),
    ],
)
def test_mistakes_get_one_sentence_and_no_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], columns: list[str], sentence: str
) -> None:
    table = write_rows(tmp_path / "molecules.csv", [(s, 1.0) for s in SMILES])
    assert main(["train", str(table), *columns, "--out", str(tmp_path / "run"), *SMALL]) == 2
    said = capsys.readouterr().err
    assert said.startswith("gpm train: ")
    assert sentence in said
    assert said.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_a_table_to_predict_without_the_column_gets_a_sentence(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other, out = tmp_path / "other.csv", tmp_path / "out.csv"
    other.write_text("name,structure\na,CCCC\n")
    for on, sentence in (
        (other, f"{other} has no column 'smiles'. Its columns are name, structure."),
        (tmp_path / "none.csv", f"There is no file {tmp_path / 'none.csv'}; check its name."),
    ):
        assert main(["predict", str(trained), "--on", str(on), "-o", str(out)]) == 2
        assert capsys.readouterr().err == f"gpm predict: {sentence}\n"
    assert not out.exists()


def test_yes_or_no_is_a_class_and_scaffolds_split(tmp_path: Path) -> None:
    """Scaffolds keep together: rings of one kind are in one part."""
    rings = ["C1CC1", "C1CCC1", "C1CCCC1", "C1CCCCC1", "c1ccccc1", "c1ccncc1", "c1ccoc1", "C1CCOC1"]
    rows = [(tail + ring, "yes" if "c" in ring else "no") for ring in rings for tail in ("", "C", "CC", "CO", "CN")]
    table = write_rows(tmp_path / "rings.csv", list(rows), header="id,smiles,aromatic")
    arguments = ["train", str(table), "--smiles", "smiles", "--target", "aromatic", "--out", str(tmp_path / "run")]
    assert main([*arguments, *SMALL, "--epochs", "2", "--split", "scaffold", "--lr", "0.02"]) == 0
    result = json.loads((tmp_path / "run/result.json").read_text())
    assert result["metric"] == "accuracy"
    assert result["protocol"].startswith("split scaffold 80/10/10; ")
    run = Run.open(tmp_path / "run")
    found = [{rows[i][0].lstrip("CON") for i in getattr(run.split, part)} for part in ("train", "val", "test")]
    assert not found[0] & found[1]
    assert not (found[0] | found[1]) & found[2]
    assert list(read_rows(tmp_path / "run/predictions.csv")[0]) == [
        "graph",
        "line",
        "smiles",
        "id",
        "prediction",
        "label_true",
        "p_no",
        "p_yes",
    ]
