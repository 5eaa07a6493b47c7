"""The verb `explain`, as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpm import Run
from gpm.cli.main import main
from tests.cli.conftest import SMALL

pytestmark = pytest.mark.usefixtures("one_thread")
FILES = {"explanation.json", "patterns.csv", "index.html"}
FEW = ["--draws", "2", "--top", "3", "--device", "cpu"]


def test_a_node_is_explained_below_its_run(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(copied), "--node", "c", *FEW]) == 0
    lines = capsys.readouterr().out.splitlines()
    folder = copied / "explain" / "node-c"
    assert {file.name for file in folder.iterdir()} == FILES | {"node-c.png", "node-c.svg"}
    (stored,) = json.loads((folder / "explanation.json").read_text(encoding="utf-8"))["explanations"]
    assert lines[0].startswith(stored["headline"])
    assert (stored["instance"], len(stored["patterns"]), stored["trust"]["draws"]) == (["c"], 3, 2)
    assert lines[-1] == f"page written to {folder / 'index.html'}; table, figures and JSON are in the same folder"
    found = Run.open(copied, device="cpu").explain("c", top=3, draws=2)
    assert stored["patterns"] == json.loads(json.dumps(found.to_dict()["patterns"]))
    assert all(any(" > ".join(p.names) in line or "-".join(p.names) in line for line in lines) for p in found.patterns)


def test_several_nodes_come_on_one_page(copied: Path, tmp_path: Path) -> None:
    out = tmp_path / "new" / "folder"
    arguments = [
        "explain",
        str(copied),
        "--node",
        "c",
        "--node",
        "a",
        "--target",
        "1",
        "--method",
        "left-out",
        "-o",
        str(out),
    ]
    assert main([*arguments, *FEW]) == 0
    stored = json.loads((out / "explanation.json").read_text(encoding="utf-8"))["explanations"]
    assert [each["name"] for each in stored] == ["node c", "node a"]
    assert [(each["target"], each["method"]) for each in stored] == [(1, "left-out")] * 2
    assert len(list(out.glob("*.png"))) == 2
    assert not (copied / "explain").exists()


def test_a_whole_part_is_surveyed(copied: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(copied), "--all", "--part", "train", "--most", "5", "--device", "cpu"]) == 0
    printed = capsys.readouterr().out
    assert "(all) (5 nodes)" in printed
    folder = copied / "explain" / "all-train"
    assert printed.endswith(f"figure written to {folder / 'overview.png'}\n")
    names = {"overview.json", "overview.csv", "overview.png", "overview.svg"}
    assert {file.name for file in folder.iterdir()} == names
    assert main(["explain", str(copied), "--all", "--out", str(tmp_path / "here"), "--device", "cpu"]) == 0
    assert json.loads((tmp_path / "here/overview.json").read_text(encoding="utf-8"))["instances"]["(all)"] == 4


def test_where_no_walk_counts_the_overview_is_a_table(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As in a run that keeps the linear model it begins with."""
    run = tmp_path / "run"
    assert (
        main(["train", str(trained.parent / "ring"), "--out", str(run), *SMALL, "--lr", "0", "--linear", "base"]) == 0
    )
    capsys.readouterr()
    assert main(["explain", str(run), "--all", "--device", "cpu"]) == 0
    printed = capsys.readouterr().out
    assert "no walk carries evidence" in printed
    assert printed.endswith(f"table written to {run / 'explain' / 'all-test' / 'overview.csv'}\n")


def test_links_are_explained_by_their_ends(trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "links"
    assert main(["train", str(trained.parent / "ring"), "--task", "link", "--out", str(run), *SMALL]) == 0
    capsys.readouterr()
    assert main(["explain", str(run), "--link", "a", "c", "--link", "b", "d", "--target", "no link", *FEW]) == 0
    assert "link a - c: no link, " in capsys.readouterr().out
    (folder,) = (run / "explain").iterdir()
    stored = json.loads((folder / "explanation.json").read_text(encoding="utf-8"))["explanations"]
    assert [(each["instance"], each["target"]) for each in stored] == [(["a", "c"], 0), (["b", "d"], 0)]
    assert main(["explain", str(run), "--node", "a", *FEW]) == 2
    assert capsys.readouterr().err == f"gpm explain: {run} predicts links, not nodes; use --link for --node.\n"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["{run}"], "Say what to explain by one of --node NAME, --link A B, --graph ID and --all."),
        (["{run}", "--node", "c", "--all"], "Say what to explain by one of --node NAME, --link A B"),
        (["{run}", "--node", "c", "--link", "a", "b"], "Say what to explain by one of --node NAME, --link A B"),
        (["{run}", "--link", "a"], "A link has two endpoints, but --link names 1 node(s); give pairs"),
        (["{run}", "--link", "a", "b", "c"], "A link has two endpoints, but --link names 3 node(s)"),
        (["{run}", "--link", "a", "b"], "{run} predicts nodes, not links; use --node for --link."),
        (["{run}", "--graph", "0"], "{run} predicts nodes, not graphs; use --node for --graph."),
        (["{run}", "--node", "c", "--out", "{file}"], "{file} is a file; name a folder to write to."),
        (["{run}", "--all", "--out", "{file}"], "{file} is a file; name a folder to write to."),
        (["{run}", "--node", "c", "--out", "{file}/below"], "{file}/below: Not a directory."),
        (["{run}", "--node", "zz"], "No node is named 'zz'."),
        (["{run}", "--node", "c", "--target", "7"], "There is no class '7'. Classes: 0, 1."),
        (["{run}", "--node", "c", "--top", "0"], "top must lie between 1 and 128, got 0."),
        (
            ["{run}", "--node", "c", "--draws", "1"],
            "draws must be at least 2, since one draw has no spread, got 1.",
        ),
        (["{run}", "--node", "c", "--method", "attention"], "A mean readout has no attention over patterns; choose "),
        (["{run}", "--node", "c", "--method", "atention"], "--method: expected "),
        (["{run}", "--all", "--part", "tset"], "--part: expected 'train', 'val', 'test', got tset."),
        (["{run}", "--all", "--most", "0"], "most and top must be at least 1, got 0 and 10."),
        (["{folder}/none", "--node", "c"], "There is no run folder {folder}/none; gpm train makes one."),
        (["--node", "c"], "The following arguments are required: run."),
    ],
)
def test_mistakes_in_asking_why_get_one_sentence_and_code_2(
    copied: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str
) -> None:
    (tmp_path / "file").write_text("kept")
    (tmp_path / "folder").mkdir()
    places = {"file": tmp_path / "file", "folder": tmp_path / "folder", "run": copied}
    assert main(["explain", *(argument.format(**places) for argument in arguments)]) == 2
    complaint = capsys.readouterr().err
    assert complaint.startswith("gpm explain: ")
    assert sentence.format(**places) in complaint
    assert complaint.count("\n") == 1
    assert not [file for file in (copied / "explain").rglob("*") if file.is_file()]
    assert (tmp_path / "file").read_text() == "kept"
