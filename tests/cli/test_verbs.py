"""The verbs on runs, as a user types them."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import gpm.compute
import gpm.training.start
from gpm import Config, Graph, Run
from gpm.cli.main import COMMANDS, main
from gpm.config import (
    ComputeOptions,
    ModelOptions,
    OutputOptions,
    PatternOptions,
    RankOptions,
    ShiftOptions,
    TableOptions,
    TaskOptions,
    TrainOptions,
)
from gpm.io.run_files import read_config
from gpm.training.recipes import find_recipe, recipe_names

SMALL = [
    "--width", "8", "--heads", "2", "--lengths", "0", "1", "2", "--patterns", "6", "--pool", "12", "--epochs", "1",
    "--quiet", "--device", "cpu",
]  # fmt: skip


pytestmark = pytest.mark.usefixtures("one_thread")


def _named(folder: Path) -> Path:
    """A saved graph of 20 nodes called a, b, c, ..."""
    ring = np.stack([np.arange(20), (np.arange(20) + 1) % 20])
    graph = Graph.from_edges(ring, 20, undirected=True, y=np.arange(20) % 2, names=[chr(97 + i) for i in range(20)])
    graph.save(folder / "ring")
    return folder / "ring"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    assert main(["train", str(_named(folder)), "--out", str(folder / "run"), *SMALL]) == 0
    return folder / "run"


class Asked(list[tuple[Any, dict[str, Any]]]):
    """What `train` was asked for."""

    def config(self, recipe: str) -> Config:
        found = find_recipe(recipe)
        assert found is not None
        given = {key: value for key, value in self[-1][1].items() if key in Config().to_dict()}
        return found.config.with_(**given)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """Let the command line reach no further than `train`."""
    calls = Asked()
    monkeypatch.setattr(gpm.training.start, "train", lambda source, **given: calls.append((source, given)))
    return calls


# train


def test_train_evaluate_and_predict_go_together(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Run.open(trained)
    accuracy = run.result["test"]["accuracy"]
    assert main(["evaluate", str(trained), "--out", str(tmp_path / "scores.json")]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith(f"ring, test: accuracy {accuracy:.2%}, loss ")
    assert second == f"4 nodes, 12 patterns each, split random 60/20/20, seed 0 ({run.split.digest}), seed 0"
    scores = json.loads((tmp_path / "scores.json").read_text())
    assert scores["scores"] == run.result["test"]
    assert (scores["part"], scores["patterns"], scores["digest"]) == ("test", 12, run.split.digest)
    assert main(["evaluate", str(trained), "--part", "val", "--patterns", "3"]) == 0
    assert "4 nodes, 3 patterns each" in capsys.readouterr().out
    for form in (
        ["-o", str(tmp_path / "all.csv")],
        [f"-o={tmp_path / 'all.csv'}"],
        ["--out", str(tmp_path / "all.csv")],
    ):
        (tmp_path / "all.csv").unlink(missing_ok=True)
        assert main(["predict", str(trained), *form]) == 0
        assert capsys.readouterr().out == f"20 nodes of ring in {tmp_path / 'all.csv'}\n"
        assert len((tmp_path / "all.csv").read_text().splitlines()) == 21


def test_nodes_are_a_list_of_names(trained: Path, tmp_path: Path) -> None:
    out = tmp_path / "some.tsv"
    for form in (["--nodes", "c", "a"], ["--nodes", '["c", "a"]'], ['--nodes=["c","a"]']):
        assert main(["predict", str(trained), *form, "-o", str(out)]) == 0
        with out.open() as file:
            assert [row["node"] for row in csv.DictReader(file, delimiter="\t")] == ["c", "a"]
    assert main(["predict", "--nodes", "c", "--out", str(out), "--run", str(trained)]) == 2  # the run has no flag


def test_lengths_are_a_list(tmp_path: Path, trained: Path) -> None:
    assert read_config(trained / "config.yaml").lengths == [0, 1, 2]
    graph = str(trained.parent / "ring")
    for number, form in enumerate((["--lengths", "0", "1", "4", "8"], ["--lengths=[0,1,4,8]"])):  # the last one counts
        out = tmp_path / str(number)
        assert main(["train", graph, "--out", str(out), *SMALL, *form]) == 0
        assert read_config(out / "config.yaml").lengths == [0, 1, 4, 8]


def test_flags_reach_the_training(asked: Asked) -> None:
    arguments = [
        "karate",
        "--epochs",
        "7",
        "--lr",
        "5e-3",
        "--fusion",
        "--feature-dropout=0.5",
        "--threads",
        "2",
        "--quiet",
    ]
    assert main(["train", *arguments]) == 0
    source, given = asked[-1]
    assert source == "karate"
    options = {key: value for key, value in given.items() if key in Config().to_dict()}
    assert options == {"epochs": 7, "lr": 0.005, "fusion": True, "feature_dropout": 0.5}
    assert (given["threads"], given["quiet"], given["recipe"]) == (2, True, "")
    assert "seeds" not in given  # only what is named is passed on


def test_the_source_may_stand_anywhere(asked: Asked) -> None:
    for arguments in (["motifs", "--epochs", "3"], ["--epochs", "3", "motifs"], ["--epochs=3", "--source", "motifs"]):
        assert main(["train", *arguments]) == 0
        assert asked[-1][0] == "motifs"
        assert asked.config("motifs").epochs == 3
    for lengths in (["--lengths", "[2, 4]"], ["--lengths", "2", "4"], ["--lengths=2,4"]):
        assert main(["train", *lengths, "motifs"]) == 0
        assert asked[-1][0] == "motifs"
        assert asked.config("motifs").lengths == [2, 4]


@pytest.mark.parametrize(
    ("flags", "options"),
    [
        (["--readout", "mean"], {"readout": "mean"}),
        (["--epochs", "60"], {"epochs": 60}),
        (["--topology=loops"], {"topology": "loops"}),
        (["--non-backtracking", "false"], {"non_backtracking": False}),
        (["--width", "64"], {"width": 64}),
        (["--size", "xs"], {"width": 64, "heads": 4}),
        (["--size", "m", "--width", "32"], {"width": 32, "layers": 3}),
        (["--lengths", "0", "1", "4", "8"], {"lengths": [0, 1, 4, 8]}),
    ],
)
def test_flags_go_before_the_recipe(asked: Asked, flags: list[str], options: dict[str, Any]) -> None:
    """Also where they say what would be the default without a recipe, or what the recipe says already."""
    before = find_recipe("motifs")
    assert before is not None
    assert main(["train", "motifs", *flags]) == 0
    found = asked.config("motifs")
    assert {key: getattr(found, key) for key in options} == options
    untouched = set(Config().to_dict()) - {*options, "size", "layers", "heads", "width"}
    assert all(getattr(found, key) == getattr(before.config, key) for key in untouched)


def test_without_flags_the_recipe_decides(asked: Asked) -> None:
    for name in ("motifs", "blog"):
        assert main(["train", name]) == 0
        recipe = find_recipe(name)
        assert recipe is not None
        assert asked.config(name) == recipe.config


def test_your_own_recipe_is_trained(tmp_path: Path, trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.yaml").write_text(f"data: {trained.parent}/ring\nwidth: 8\nlengths: [1, 3]\nepochs: 1\n")
    arguments = ["train", str(tmp_path / "mine.yaml"), "--heads", "1", "--out", str(tmp_path / "run"), "--quiet"]
    assert main(arguments) == 0
    config = read_config(tmp_path / "run/config.yaml")
    assert (config.width, config.lengths, config.heads, config.data) == (8, [1, 3], 1, f"{trained.parent}/ring")
    assert json.loads((tmp_path / "run/recipe.json").read_text())["changed"] == ["heads"]
    (tmp_path / "mine.yaml").write_text("data: karate\nwidht: 8\n")
    assert main(arguments) == 2
    complaint = capsys.readouterr().err
    assert complaint.endswith("mine.yaml: There is no option 'widht'. Did you mean 'width'?\n")


def test_an_existing_folder_needs_leave(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path.name: path.read_bytes() for path in trained.iterdir()}
    assert main(["train", str(trained.parent / "ring"), "--out", str(trained), *SMALL, "--seed", "1"]) == 2
    assert "exists; name another folder, or add --overwrite" in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in trained.iterdir()} == before


def test_threads_are_those_that_are_asked_for(trained: Path, tmp_path: Path) -> None:
    graph = str(trained.parent / "ring")
    assert main(["train", graph, "--out", str(tmp_path / "run"), *SMALL, "--threads", "3"]) == 0
    assert torch.get_num_threads() == 3
    assert json.loads((tmp_path / "run/environment.json").read_text())["threads"]["torch"] == 3


# Mistakes


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["train"], "Say what to train on: a recipe (gpm recipes), a dataset (gpm data) or a file."),
        (["train", "motfs"], "'motfs' is neither a file nor a dataset. Did you mean 'motifs'?"),
        (["train", "none.yaml"], "There is no recipe file none.yaml."),
        (["train", "karate", "blog"], "Unrecognized arguments: blog."),
        (["train", "karate", "--epoch", "3"], "There is no flag '--epoch'. Did you mean '--epochs'?"),
        (["train", "karate", "--epochs", "many"], "--epochs: expected int, got many."),
        (["train", "karate", "--epochs", "0"], "epochs must lie between 1 and 1000000, got 0."),
        (["train", "karate", "--width", "7"], "width (7) must be a multiple of heads (4)."),
        (["train", "karate", "--readout", "clas"], "--readout: expected 'mean', 'class', 'sum', got clas."),
        (["train", "karate", "--patterns", "2"], "patterns (2) must lie between the number of lengths (4)"),
        (["train", "karate", "--split", "60/20"], "Split '60/20' must be three shares above 0 that add up to 100"),
        (["train", "karate", "--device", "gpu"], "there is no device 'gpu'; write auto, cpu, cuda, cuda:1 or mps."),
        (["train", "karate", "--threads", "-1"], "threads must be at least 0, got -1."),
        (["train", "karate", "--out", "{file}/below"], "cannot write {file}/below: Not a directory."),
        (["train", "--resume", "{folder}"], "{folder} is not a run folder: it has no config.yaml."),
        (["train", "--resume", "{run}", "--epochs", "60"], "A resumed run keeps its options; leave out epochs."),
        (["train", "--resume", "{run}", "--seeds", "2"], "A resumed run keeps its options; leave out --out, --seeds"),
        (["evaluate"], "The following arguments are required: run."),
        (["evaluate", "{folder}"], "{folder} has no config.yaml: it is not a run folder"),
        (["evaluate", "{run}", "--part", "tset"], "--part: expected 'train', 'val', 'test', got tset."),
        (["evaluate", "{run}", "--patterns", "13"], "count must lie between 3 (one per length) and the pool's 12"),
        (["predict", "{run}"], "Name the table to write, as in -o predictions.csv."),
        (["predict", "{run}", "-o", "x.docx"], "x.docx: a table is written as .csv, .tsv, .parquet, .jsonl;"),
        (["predict", "{run}", "-o", "{file}/x.csv"], "cannot write {file}/x.csv: "),
        (["predict", "{run}", "--nodes", "zz", "-o", "{folder}/x.csv"], "no node is named 'zz'."),
        (["predict", "{folder}/none", "-o", "x.csv"], "There is no run folder {folder}/none; gpm train makes one."),
        (["recipes", "motfs"], "There is no recipe 'motfs'. Did you mean 'motifs'?"),
        (["data", "motfs"], "Did you mean 'motifs'?"),
        (["demo", "--ot", "x"], "There is no flag '--ot'. Did you mean '--out'?"),
    ],
)  # fmt: skip
def test_mistakes_get_one_sentence_and_code_2(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    places = {"file": tmp_path / "file", "folder": tmp_path / "folder", "run": trained}
    small = [*SMALL[:10], "--quiet"] if arguments[-1].endswith("below") else []
    assert main([argument.format(**places) for argument in arguments] + small) == 2
    complaint = capsys.readouterr().err
    assert complaint.startswith(f"gpm {arguments[0]}: ")
    assert sentence.format(**places) in complaint
    assert complaint.count("\n") == 1
    assert list((tmp_path / "folder").iterdir()) == []


# recipes, data, help


def test_recipes_are_listed_and_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recipes"]) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split() == ["recipe", "the", "paper", "about"]
    assert [row.split()[0] for row in rows] == recipe_names()
    assert next(row for row in rows if row.startswith("blog ")).split()[1:4] == ["96.71", "±", "0.59"]
    assert main(["recipes", "blog"]) == 0
    shown = capsys.readouterr().out
    assert "the paper: 96.71 ± 0.59, with {'lr': 0.001" in shown
    recipe = find_recipe("blog")
    assert recipe is not None
    lines = {line.split()[0]: line[20:] for line in shown.splitlines() if line.startswith("  ")}
    assert lines == {key: str(value) for key, value in recipe.config.to_dict().items()}


def test_data_are_listed_and_described(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data"]) == 0
    assert "Karate Club" in capsys.readouterr().out
    assert main(["data", "karate"]) == 0
    assert "34 nodes, 78 undirected edges" in capsys.readouterr().out


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_its_flags_explained(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == main([command, "-h"]) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith(f"usage: gpm {command}")
    assert printed.err == ""


def test_the_help_of_train_has_every_option_and_the_recipes_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "motifs", "--help"]) == 0
    words = " ".join(capsys.readouterr().out.split())
    assert all(f"--{name}" in words for name in Config().to_dict() if name != "data")
    assert "Maximum number of epochs. Between 1 and 1000000. (type: int, default: 15)" in words
    classes = (OutputOptions, TableOptions, ComputeOptions, RankOptions, PatternOptions, ModelOptions, TrainOptions)
    titles = [f"{each.__doc__}:" for each in (*classes, ShiftOptions, TaskOptions)]
    places = [words.index(title) for title in titles]
    assert places == sorted(places)


# explain


@pytest.fixture
def copied(trained: Path, tmp_path: Path) -> Path:
    """A run folder to write below."""
    return Path(shutil.copytree(trained, tmp_path / "copy"))


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
    assert lines[-1] == f"drawn in {folder / 'index.html'}; table, figures and JSON are beside it"
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
    assert printed.endswith(f"drawn in {folder / 'overview.png'}\n")
    names = {"overview.json", "overview.csv", "overview.png", "overview.svg"}
    assert {file.name for file in folder.iterdir()} == names
    assert main(["explain", str(copied), "--all", "--out", str(tmp_path / "here"), "--device", "cpu"]) == 0
    assert json.loads((tmp_path / "here/overview.json").read_text(encoding="utf-8"))["instances"]["(all)"] == 4


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
        (["{run}", "--node", "zz"], "no node is named 'zz'."),
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


@pytest.mark.parametrize(
    "words",
    [
        ["evaluate"],
        ["predict", "-o", "{out}.csv"],
        ["embed", "-o", "{out}.npy"],
        ["explain", "--node", "c"],
        ["export"],
    ],
)
def test_every_verb_on_a_run_computes_with_the_threads_that_are_named(
    copied: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    counts: list[int] = []
    monkeypatch.setattr(gpm.compute, "set_threads", counts.append)
    command = [words[0], str(copied), *(word.format(out=tmp_path / "out") for word in words[1:])]
    assert main([*command, "--threads", "1"]) == 0
    assert counts == [1]
    assert main([*command, "--threads", "-1"]) == 2
    assert "threads must be at least 0, got -1." in capsys.readouterr().err
