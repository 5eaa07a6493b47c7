"""The command line, as a user meets it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpm import __version__
from gpm.cli.main import COMMANDS, find_function, main
from tests.cli.conftest import SMALL


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == main(["--help"]) == 0
    printed = capsys.readouterr().out
    assert all(command in printed for command in COMMANDS)
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.strip() == __version__


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == 0
    assert find_function(command)[1] in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_its_flags_explained(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == main([command, "-h"]) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith(f"usage: gpm {command}")
    assert printed.err == ""


def test_info_says_what_it_runs_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info"]) == 0
    printed = capsys.readouterr().out
    assert all(word in printed for word in (__version__, "torch", "kernel", "threads", "data root"))


def test_patterns_prints_counts_and_draws(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "new" / "karate.svg"
    assert main(["patterns", "karate", "--top", "3", "--lengths", "2", "4", "-o", str(out)]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("karate: 34 nodes, 78 undirected edges")
    assert [line.split()[0] for line in printed[2:5]] == ["1", "2", "3"]
    assert out.is_file()


def test_the_users_names_come_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "edges.csv").write_text("ann,bob\nbob,eve\neve,ann\n")
    assert main(["patterns", str(tmp_path / "edges.csv"), "--node", "eve", "--lengths", "[2]"]) == 0
    assert "e.g. eve-" in capsys.readouterr().out


def test_the_graph_itself_is_not_drawn_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edges = tmp_path / "edges.csv"
    edges.write_text("ann,bob\n")
    assert main(["patterns", str(edges), "-o", str(edges)]) == 2
    assert "is the graph itself" in capsys.readouterr().err
    assert edges.read_text() == "ann,bob\n"


def test_flags_are_taken_as_people_type_them(capsys: pytest.CaptureFixture[str]) -> None:
    forms = (
        ["--non-backtracking", "--lengths", "2,4"],
        ["--non_backtracking", "true", "--lengths=2,4"],
        ["--non-backtracking=true", "--lengths", "[2,4]"],
    )
    printed = set()
    for form in forms:
        assert main(["patterns", "karate", *form]) == 0
        printed.add(capsys.readouterr().out)
    assert len(printed) == 1


def note(run: str, node: list[str] = [], lengths: list[int] = []) -> None:  # noqa: B006
    """Note what was asked for.

    Args:
        run: A name.
        node: Names.
        lengths: Numbers.
    """
    print(json.dumps([run, node, lengths]))


@pytest.mark.parametrize(
    ("words", "node", "lengths"),
    [
        ("--node 1 --node 2", ["1", "2"], []),
        ("--node a b --lengths 2 --node=c --lengths 4,6 --lengths=8", ["a", "b", "c"], [8]),
        ("--lengths 2 --lengths 4,6", [], [4, 6]),
        ('--node ["a"] --node b', ["a", "b"], []),
        ('--node b --node ["a"]', ["b", "a"], []),
        ("--node [x] --node [1,y]", ["[x]", "[1,y]"], []),
        ("--node=[x]", ["[x]"], []),
        ('--node ["a","b"]', ["a", "b"], []),
        ("--node -5 --lengths 3", ["-5"], [3]),
        ("--node -5 -6 a --node=-7", ["-5", "-6", "a", "-7"], []),
    ],
)
def test_names_that_are_given_again_add_up_and_of_numbers_the_last_count(
    words: str, node: list[str], lengths: list[int], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(COMMANDS, "note", f"{__name__}:note")
    assert main(["note", "this", *words.split()]) == 0
    assert json.loads(capsys.readouterr().out) == ["this", node, lengths]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["pattern", "karate"], "There is no command 'pattern'. Did you mean 'patterns'?"),
        (["patterns"], "The following arguments are required: graph."),
        (["patterns", "krate"], "Did you mean 'karate'?"),
        (["patterns", "karate", "--tp", "3"], "There is no flag '--tp'. Did you mean '--top'?"),
        (["patterns", "karate", "--top", "many"], "--top: expected int, got many."),
        (["patterns", "karate", "--top", "0"], "top must be at least 1, got 0."),
        (["patterns", "karate", "--topology", "shap"], "'loops', 'induced', 'shape', 'refined', got shap."),
        (["patterns", "karate", "--node", "99"], "No node '99': this graph's nodes are numbered 0 to 33."),
        (["patterns", "karate", "--out", "x.gif"], "let its name end in one of .png"),
        (["patterns", "karate", "--lengths", "99"], "lengths must be a list of 0 to 63"),
        (["patterns", "karate", "--q", "0"], "q must lie between"),
        (["patterns", "karate", "--p", "1e9"], "p must lie between"),
        (["patterns", "karate", "--node", "null"], "No node 'null'"),
        (
            ["patterns", "karate", "--samples", "2"],
            "samples must lie between the number of lengths (4) and 100,000,000",
        ),
        (["patterns", "karate", "--samples", str(2**63)], "samples must lie between"),
        (["patterns", "karate", "--directed"], "directed is for tables of edges"),
        (["patterns", "k" * 400], "File name too long"),
        (["patterns", "karate", "--top", "1000", "-o", "x.png"], "A figure shows at most 100 patterns, not 1000"),
    ],
)
def test_mistakes_get_one_sentence_and_code_2(
    arguments: list, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    complaint = capsys.readouterr().err
    assert sentence in complaint
    assert complaint.startswith("gpm")
    assert complaint.count("\n") == 1


@pytest.mark.usefixtures("one_thread")
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
        (["train", "karate", "--device", "gpu"], "There is no device 'gpu'; write auto, cpu, cuda, cuda:1 or mps."),
        (["train", "karate", "--threads", "-1"], "threads must be at least 0, got -1."),
        (["train", "karate", "--out", "{file}/below"], "Cannot write {file}/below: Not a directory."),
        (["train", "--resume", "{folder}"], "{folder} is not a run folder: it has no config.yaml."),
        (["train", "--resume", "{run}", "--epochs", "60"], "A resumed run keeps its options; leave out epochs."),
        (["train", "--resume", "{run}", "--seeds", "2"], "A resumed run keeps its options; leave out --out, --seeds"),
        (["evaluate"], "The following arguments are required: run."),
        (["evaluate", "{folder}"], "{folder} has no config.yaml: it is not a run folder"),
        (["evaluate", "{run}", "--part", "tset"], "--part: expected 'train', 'val', 'test', got tset."),
        (["evaluate", "{run}", "--patterns", "13"], "count must lie between 3 (one per length) and the pool's 12"),
        (["predict", "{run}"], "Name the table to write, as in -o predictions.csv."),
        (["predict", "{run}", "-o", "x.docx"], "x.docx: a table is written as .csv, .tsv, .parquet, .jsonl;"),
        (["predict", "{run}", "-o", "{file}/x.csv"], "Cannot write {file}/x.csv: "),
        (["predict", "{run}", "--nodes", "zz", "-o", "{folder}/x.csv"], "No node is named 'zz'."),
        (["predict", "{folder}/none", "-o", "x.csv"], "There is no run folder {folder}/none; gpm train makes one."),
        (["recipes", "motfs"], "There is no recipe 'motfs'. Did you mean 'motifs'?"),
        (["data", "motfs"], "Did you mean 'motifs'?"),
        (["demo", "--ot", "x"], "There is no flag '--ot'. Did you mean '--out'?"),
    ],
)  # fmt: skip
def test_mistakes_on_runs_get_one_sentence_and_code_2(
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


def test_a_reader_that_leaves_is_no_error() -> None:
    command = f"{sys.executable} -m gpm patterns karate | head -1"
    ran = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True, env=os.environ)
    assert "Traceback" not in ran.stderr
    assert ran.stdout.startswith("karate:")


HEAVY = (
    "torch", "torch_geometric", "lightning", "torchmetrics", "numba", "scipy", "pandas", "networkx", "duckdb",
    "matplotlib", "sklearn",
)  # fmt: skip


def test_what_computes_nothing_loads_nothing_heavy() -> None:
    """Help, lists and mistakes answer at once: they must not wait for torch & co. to be imported."""
    lines = [
        "import sys",
        "from gpm.cli.main import main",
        "answers = [main(words.split()) for words in sys.argv[1:]]",
        f"loaded = [name for name in {HEAVY} if name in sys.modules]",
        "assert not loaded, loaded",
        "print('codes', *answers)",
    ]
    quick = ["--help", "recipes", "recipes cora", "data", "train cora --help", "train cora --epoch 3", "predict --ot x"]
    commands = [*quick, *(f"{verb} --help" for verb in COMMANDS)]
    ran = subprocess.run([sys.executable, "-c", "\n".join(lines), *commands], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[-1] == "codes 0 0 0 0 0 2 2" + " 0" * len(COMMANDS)


def test_importing_gpm_does_not_load_torch() -> None:
    code = "import sys, gpm; assert 'torch' not in sys.modules; assert gpm.Graph.__name__ == 'Graph'"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_every_public_name_is_there() -> None:
    import gpm

    assert len(gpm.__all__) == 26
    assert all(getattr(gpm, name).__name__ == name for name in gpm.__all__)
    assert set(dir(gpm)) == {*gpm.__all__, "__version__"}
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        gpm.nothing  # noqa: B018
