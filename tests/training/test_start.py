"""Training from end to end: what it writes, that it can be killed at any time, and what it refuses."""

from __future__ import annotations

import csv
import errno
import json
import logging
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import gpm.run.model_card
import gpm.run.run
import gpm.training.score
import gpm.training.seeds
from gpm import Config, GpmError, Graph, Run, train
from gpm.cli.main import main
from gpm.config import OutputOptions, TableOptions
from gpm.data.splits import Split
from gpm.data.synthetic import planted_motifs
from gpm.io.manifest import check_folder
from gpm.nn.predictor import Predictor
from gpm.training.callbacks import KeepBest, SaveState, StoppedError
from gpm.training.distributed.lead import Team
from gpm.training.distributed.ranks import World
from gpm.training.lightning_module import Learner
from gpm.training.start import _lead

SMALL: dict[str, Any] = {
    "preset": "plain",
    "width": 8, "heads": 2, "lengths": [0, 1, 2, 4], "patterns": 8, "pool": 16, "batch": 32, "epochs": 2, "warmup": 2,
}  # fmt: skip


pytestmark = pytest.mark.usefixtures("one_thread")


def _graph() -> Graph:
    return planted_motifs(num_houses=4, num_cycles=2, base_nodes=30, seed=1).graph


def _train(source: Any, out: Path, **options: Any) -> Run:
    run = train(source, out=out, quiet=True, **SMALL | options)
    assert isinstance(run, Run)
    return run


def _weights(folder: Path) -> bytes:
    return (folder / "model.safetensors").read_bytes()


def _rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "metrics.csv").open() as file:
        return list(csv.DictReader(file))


def _figures(folder: Path) -> dict[str, Any]:
    result = json.loads((folder / "result.json").read_text())
    for scores in result["baselines"].values():
        del scores["seconds"]
    return {
        key: value
        for key, value in result.items()
        if key not in ("train_seconds", "time_shares", "seconds_per_step", "peak_memory_mb", "date")
    }


def _without_time(rows: list[dict[str, str]]) -> list[dict[str, str]]:
    return [{key: value for key, value in row.items() if key != "seconds"} for row in rows]


def _flags(options: dict[str, Any]) -> list[str]:
    return [f"--{key}={json.dumps(value) if isinstance(value, list) else value}" for key, value in options.items()]


# What a run leaves behind


def test_a_run_folder_holds_what_it_promises(tmp_path: Path) -> None:
    run = _train(_graph(), tmp_path / "run", metric="accuracy")
    promised = set(re.findall(r"[\w.]+\.(?:yaml|json|safetensors|csv|npz|md|html|ckpt)\b", gpm.run.run.__doc__ or ""))
    assert {path.name for path in run.folder.iterdir()} == promised - {"checkpoint.ckpt"}
    result = json.loads((run.folder / "result.json").read_text())
    protocol = "split random 60/20/20, seed 0; epoch chosen by validation metric; test read once"
    assert result["protocol"].startswith(protocol)
    assert (result["seed"], result["metric"], result["epochs"]) == (0, "accuracy", 2)
    assert result["split_digest"] == run.split.digest
    assert [row["epoch"] for row in _rows(run.folder)] == ["1", "2"]
    assert {"train_loss", "val_loss", "val_accuracy", "lr", "seconds", "step"} < set(_rows(run.folder)[0])
    with (run.folder / "predictions.csv").open() as file:
        said = list(csv.DictReader(file))
    assert [int(row["node"]) for row in said] == run.split.test.tolist()
    right = [int(row["prediction"]) == run.data.labels[int(row["node"])] for row in said]
    assert np.mean(right) == pytest.approx(result["test"]["accuracy"])


def test_the_kept_epoch_is_the_best_of_validation(tmp_path: Path) -> None:
    run = _train(_graph(), tmp_path / "run", metric="accuracy", epochs=6, lr=0.02)
    found = [(float(row["val_accuracy"]), -float(row["val_loss"])) for row in _rows(run.folder)]
    assert run.result["best_epoch"] == found.index(max(found)) + 1


def test_the_card_says_what_was_done(tmp_path: Path) -> None:
    run = _train(_graph(), tmp_path / "run")
    card = (run.folder / "README.md").read_text(encoding="utf-8")
    result = run.result
    assert f"| accuracy | {result['val']['accuracy']:.2%} | {result['test']['accuracy']:.2%} |" in card
    assert all(word in card for word in ("94 nodes", result["split_digest"], "[0, 1, 2, 4]", "8 in training, 16"))


def test_the_figures_have_all_that_a_table_needs(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """--seeds trains several, prints mean ± standard deviation beside the paper's, and --result writes it too."""
    caplog.set_level(logging.INFO, logger="gpm")
    _graph().save(tmp_path / "rings")
    recipe = tmp_path / "mine.yaml"
    options = "metric: accuracy\nwidth: 8\nheads: 2\n"
    recipe.write_text(f"data: {tmp_path}/rings\npaper_result: [71.5, 0.25]\nnote: Of a test.\n{options}")
    runs = train(
        str(recipe), out=tmp_path / "runs", seeds=2, seed=3, result=tmp_path / "new/result.json", quiet=True,
        **SMALL | {"lr": 0.01},
    )  # fmt: skip
    assert isinstance(runs, list)
    summary = json.loads((tmp_path / "runs/summary.json").read_text())
    assert summary == json.loads((tmp_path / "new/result.json").read_text())
    values = [round(100 * run.result["test"]["accuracy"], 2) for run in runs]
    assert (summary["seeds"], summary["values"]) == ([3, 4], values)
    assert summary["mean"] == pytest.approx(np.mean(values), abs=0.01)
    assert summary["std"] == pytest.approx(np.std(values, ddof=1), abs=0.01)
    assert (summary["dataset"], summary["model"], summary["metric"]) == ("rings", "GPM", "accuracy")
    assert (summary["paper_mean"], summary["paper_std"], summary["note"]) == (71.5, 0.25, "Of a test.")
    assert "seed as listed" in summary["protocol"]
    assert {"lr", "epochs", "lengths"} <= set(summary["changed"])
    assert not {"width", "heads"} & set(summary["changed"])  # as the recipe has it
    assert Config.from_dict(summary["config"]) == runs[0].config.with_(seed=0)
    assert summary["versions"]["packages"]["torch"] == torch.__version__
    assert summary["wall_s"] > 0
    assert {run.folder.name for run in runs} == {"seed-3", "seed-4"}
    assert runs[0].split.digest != runs[1].split.digest
    assert f"over 2 seeds: {summary['mean']:.2f} ± {summary['std']:.2f} (most frequent class " in caplog.messages[-2]
    assert caplog.messages[-2].endswith("; the paper has 71.50 ± 0.25")
    for name, row in summary["baselines"].items():
        assert row["values"] == [round(100 * run.result["baselines"][name]["test"], 2) for run in runs]
        assert f"{name} {row['mean']:.2f} ± {row['std']:.2f}" in caplog.messages[-2]
    assert caplog.messages[-1] == f"saved in {tmp_path / 'runs'}"
    assert str(tmp_path) not in json.dumps(summary["versions"])


SIMPLE = ["most frequent class", "label propagation", "linear model on neighbourhood means"]


@pytest.mark.parametrize("more", [False, True])
def test_baselines_stand_beside_the_result(more: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="gpm")
    run = _train(_graph(), tmp_path / "run", baselines=more, metric="accuracy")
    scores = run.result["baselines"]
    assert list(scores) == SIMPLE + ["boosted trees", "gcn", "sage", "mlp"] * more
    assert all(set(row) == {"val", "test", "seconds"} and row["seconds"] < 10 for row in scores.values())
    shown = ", ".join(f"{name} {row['test']:.2%}" for name, row in scores.items())
    (line,) = [message for message in caplog.messages if message.startswith("graph accuracy: ")]
    assert f"test {run.result['test']['accuracy']:.2%} ({shown}), val " in line
    assert caplog.messages[-1] == f"saved in {tmp_path / 'run'}"
    card = (run.folder / "README.md").read_text(encoding="utf-8")
    assert all(f"| {name} | {row['val']:.2%} | {row['test']:.2%} |" in card for name, row in scores.items())


def test_a_network_beside_the_result_is_the_one_of_its_flag(tmp_path: Path) -> None:
    scores = _train(_graph(), tmp_path / "run", baselines=True, metric="accuracy").result["baselines"]
    alone = _train(_graph(), tmp_path / "sage", model="sage", metric="accuracy").result
    assert (scores["sage"]["val"], scores["sage"]["test"]) == (alone["val"]["accuracy"], alone["test"]["accuracy"])


def test_data_that_cannot_be_compared_does_not_stop_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="gpm")
    monkeypatch.setitem(sys.modules, "sklearn.linear_model", None)  # a broken installation
    assert _train(_graph(), tmp_path / "run").result["baselines"] == {}
    assert any(message.startswith("every baseline is left out of the comparison: ") for message in caplog.messages)


@pytest.mark.parametrize("task", ["link", "graph"])
def test_every_task_has_something_to_compare_with(task: str, tmp_path: Path) -> None:
    more: dict[str, Any] = {"task": "link", "batch": 256}
    graph = planted_motifs(seed=1).graph
    if task == "graph":
        edges, pointer = np.stack([np.arange(0, 80, 2), np.arange(1, 80, 2)]), np.arange(0, 81, 2)
        graph, more = Graph.from_edges(edges, 80, graph_ptr=pointer, undirected=True, y=np.arange(40) % 2), {}
    scores = _train(graph, tmp_path / "run", baselines=True, epochs=1, **more).result["baselines"]
    heuristics = ["common neighbours", "Adamic-Adar", "preferential attachment"]
    simple = heuristics if task == "link" else [SIMPLE[0], SIMPLE[2], "boosted trees"]
    assert list(scores) == [*simple, "gcn", "sage", "mlp"]


def test_networks_beside_the_result_need_one_process() -> None:
    team = Team(World(size=2), "cpu", 0, "ddp")
    with pytest.raises(GpmError, match="--baselines trains networks that read the whole graph in one process"):
        _lead(team, _graph(), "", OutputOptions(baselines=True), TableOptions(), {})


def test_baselines_that_fail_do_not_stop_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise ValueError("odd data.")

    caplog.set_level(logging.INFO, logger="gpm")
    for name in ("predict_constant", "propagate_labels", "fit_linear", "fit_trees"):
        monkeypatch.setattr(f"gpm.training.simple_baselines.{name}", fail)
    monkeypatch.setattr("gpm.training.fit._score_network", fail)
    run = _train(_graph(), tmp_path / "run", baselines=True)
    assert run.result["baselines"] == {}
    assert sum("is left out of the comparison: odd data." in message for message in caplog.messages) == 7
    assert not any("is at least as good" in message for message in caplog.messages)
    assert "compared" not in (run.folder / "README.md").read_text(encoding="utf-8")


# The same again


def test_the_same_seed_gives_the_same_bits(tmp_path: Path) -> None:
    for name, seed in (("one", 7), ("same", 7), ("other", 8)):
        torch.manual_seed(len(name))  # what was drawn before does not matter
        _train(_graph(), tmp_path / name, seed=seed, dropout=0.5, feature_dropout=0.2, pe="lap", average=1)
    assert _weights(tmp_path / "one") == _weights(tmp_path / "same")
    assert _weights(tmp_path / "one") != _weights(tmp_path / "other")
    figures = [json.loads((tmp_path / name / "result.json").read_text())["test"] for name in ("one", "same")]
    assert figures[0] == figures[1]


def test_test_labels_do_not_reach_the_weights(tmp_path: Path) -> None:
    graph = _graph()
    run = _train(graph, tmp_path / "as-is")
    y = np.array(graph.y)
    y[run.split.test] = np.roll(y[run.split.test], 1)
    assert (y != graph.y).any()
    other = _train(Graph.from_edges(graph.edge_index(), graph.num_nodes, x=graph.x, y=y), tmp_path / "turned")
    assert _weights(other.folder) == _weights(run.folder)
    assert other.result["val"] == run.result["val"]
    assert other.result["test"] != run.result["test"]


def test_a_linear_part_that_is_mixed_in_afterwards_leaves_the_training_as_it_is(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="gpm")
    alone = _train(_graph(), tmp_path / "alone", structure=True, metric="accuracy")
    mixed = _train(_graph(), tmp_path / "mixed", structure=True, metric="accuracy", linear="blend")
    assert _without_time(_rows(mixed.folder)) == _without_time(_rows(alone.folder))
    assert "linear_share" not in alone.result
    share = mixed.result["linear_share"]
    assert 0 < share <= 1  # two epochs are not enough to be better than it
    assert mixed.result["val"]["accuracy"] > alone.result["val"]["accuracy"]
    assert f"the linear part has a share of {share:.0%} in the logits, chosen by validation accuracy" in caplog.messages
    assert f"{share:.0%} of the logits" in (mixed.folder / "README.md").read_text(encoding="utf-8")
    assert mixed.evaluate() == mixed.result["test"]
    again = Run.open(mixed.folder, _graph())
    assert torch.equal(again.predict().logits, mixed.predict().logits)


# Killed and resumed


@dataclass
class Undisturbed:
    """A run that nobody interrupted, and how to start it again."""

    source: str
    options: dict[str, Any]
    weights: bytes
    rows: list[dict[str, str]]
    result: dict[str, Any]

    def assert_equal(self, folder: Path) -> None:
        assert _weights(folder) == self.weights
        assert _figures(folder) == self.result
        assert _without_time(_rows(folder)) == _without_time(self.rows)
        assert not (folder / "checkpoint.ckpt").exists()


def _undisturbed(folder: Path, epochs: int) -> Undisturbed:
    _graph().save(folder / "graph")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    options = SMALL | {"epochs": epochs, "lr": 0.003, "average": 2, "feature_dropout": 0.2, "pe": "lap", "pe_dim": 4}
    options |= {"structure": True, "linear": "blend"}  # whose share is written after the last epoch
    run = _train(str(folder / "graph"), folder / "run", **options)
    torch.set_num_threads(before)
    return Undisturbed(str(folder / "graph"), options, _weights(run.folder), _rows(run.folder), _figures(run.folder))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    return _undisturbed(tmp_path_factory.mktemp("undisturbed"), epochs=8)


class Killed(BaseException):
    """No one catches it."""


def _dies(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, when: Callable[..., bool] = lambda *arguments: True
) -> None:
    """Let a function die instead of doing its work."""
    usual = getattr(owner, name)

    def dying(*arguments: Any) -> Any:
        if when(*arguments):
            raise Killed
        return usual(*arguments)

    monkeypatch.setattr(owner, name, dying)


@pytest.mark.parametrize("place", ["weights saved, state not", "before the scores", "before the card", "in the end"])
def test_it_may_die_between_any_two_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, undisturbed: Undisturbed, place: str
) -> None:
    out = tmp_path / "run"
    with monkeypatch.context() as dying:
        if place == "weights saved, state not":
            _dies(dying, SaveState, "on_train_epoch_end", lambda self, trainer, learner: trainer.current_epoch == 5)
        elif place == "before the scores":
            _dies(dying, Run, "describe")
        elif place == "before the card":
            _dies(dying, gpm.run.model_card, "write_card")
        else:
            _dies(dying, gpm.training.score, "write_json", lambda path, content: path.name == "result.json")
        with pytest.raises(Killed):
            train(undisturbed.source, out=out, quiet=True, **undisturbed.options)
    assert not out.exists()
    assert main(["train", "--resume", str(out), "--quiet"]) == 0
    undisturbed.assert_equal(out)
    assert (out / "README.md").is_file()


def test_a_run_that_stopped_early_and_then_died_does_not_train_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = SMALL | {"epochs": 30, "patience": 2, "lr": 0.02}
    _graph().save(tmp_path / "graph")
    whole = _train(str(tmp_path / "graph"), tmp_path / "whole", **options)
    assert 3 <= whole.result["epochs"] < 30
    with monkeypatch.context() as dying:
        _dies(dying, Run, "describe")
        with pytest.raises(Killed):
            _train(str(tmp_path / "graph"), tmp_path / "run", **options)
    run = train(resume=tmp_path / "run", quiet=True)
    assert isinstance(run, Run)
    assert run.result["epochs"] == whole.result["epochs"]
    assert _weights(run.folder) == _weights(whole.folder)


def test_a_damaged_checkpoint_is_said_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, undisturbed: Undisturbed
) -> None:
    out = tmp_path / "run"
    with monkeypatch.context() as dying:
        _dies(dying, Run, "describe")
        with pytest.raises(Killed):
            train(undisturbed.source, out=out, quiet=True, **undisturbed.options)
    state = tmp_path / "run.part/checkpoint.ckpt"
    state.write_bytes(state.read_bytes()[:5000])
    with pytest.raises(GpmError, match=r"checkpoint\.ckpt cannot be read \(.*\); remove it to train anew"):
        train(resume=out, quiet=True)
    state.unlink()
    train(resume=out, quiet=True)
    undisturbed.assert_equal(out)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_finishes_the_epoch_and_says_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, undisturbed: Undisturbed, caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str], number: signal.Signals,
) -> None:  # fmt: skip
    caplog.set_level(logging.INFO, logger="gpm")
    out, part, handler = tmp_path / "run", tmp_path / "run.part", signal.getsignal(number)
    keep = KeepBest.on_train_epoch_end

    def interrupt(self: KeepBest, trainer: Any, learner: Any) -> None:
        keep(self, trainer, learner)
        if trainer.current_epoch == 4:
            signal.raise_signal(number)

    with monkeypatch.context() as patched:
        patched.setattr(KeepBest, "on_train_epoch_end", interrupt)
        arguments = ["train", undisturbed.source, "--out", str(out), "--quiet", *_flags(undisturbed.options)]
        assert main(arguments) == 130
    assert "gpm train: interrupted" in capsys.readouterr().err
    assert "finishing the epoch, then saving; press Ctrl-C again to stop at once" in caplog.text
    assert f"interrupted; gpm train --resume {out} resumes it" in caplog.text
    assert signal.getsignal(number) is handler
    assert len(_rows(part)) == 5
    assert torch.load(part / "checkpoint.ckpt", weights_only=True)["epoch"] == 4
    assert not out.exists()
    assert main(["train", "--resume", str(out), "--quiet"]) == 0
    undisturbed.assert_equal(out)


@pytest.fixture
def _heeds_ctrl_c() -> Iterator[None]:
    """What a shell starts in the background ignores Ctrl-C, and so would the tests."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_heeds_ctrl_c")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_so_it_is_after_the_last_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, undisturbed: Undisturbed, caplog: pytest.LogCaptureFixture,
    number: signal.Signals,
) -> None:  # fmt: skip
    caplog.set_level(logging.INFO, logger="gpm")
    out = tmp_path / "run"
    command = ["train", undisturbed.source, "--out", str(out), "--quiet", *_flags(undisturbed.options)]
    with monkeypatch.context() as patched:
        patched.setattr(Run, "describe", lambda *_: signal.raise_signal(number))
        assert main(command) == 130
    assert caplog.messages[-1] == f"interrupted; gpm train --resume {out} resumes it"
    assert main(command) == 0
    undisturbed.assert_equal(out)


def test_a_second_ctrl_c_stops_at_once() -> None:
    state = SaveState(Path("nowhere"))

    def twice() -> None:
        with state.stop.listening():
            signal.raise_signal(signal.SIGINT)
            assert state.stop.asked
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(StoppedError):
        twice()


def test_a_graph_in_memory_is_given_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = _train(_graph(), tmp_path / "whole")
    with monkeypatch.context() as dying:
        _dies(dying, Run, "describe")
        with pytest.raises(Killed):
            _train(_graph(), tmp_path / "run")
    with pytest.raises(GpmError, match=r"on a graph in memory; pass it again: train\(graph, resume=folder\)"):
        train(resume=tmp_path / "run")
    train(_graph(), resume=tmp_path / "run", quiet=True)
    assert _weights(tmp_path / "run") == _weights(whole.folder)


def test_resuming_refuses_what_would_change_the_run(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="gpm")
    _graph().save(tmp_path / "graph")
    run = _train(str(tmp_path / "graph"), tmp_path / "run")
    before = {path.name: path.read_bytes() for path in run.folder.iterdir()}
    with pytest.raises(GpmError, match=r"^A resumed run keeps its options; leave out epochs, lr\.$"):
        train(resume=run.folder, epochs=60, width=8, lr=1.0)
    with pytest.raises(
        GpmError, match="A resumed run keeps its options; leave out --out, --seeds, --result, --baselines and --over"
    ):
        train(resume=run.folder, out=tmp_path / "other")
    with pytest.raises(GpmError, match=r"A resumed run keeps its data; leave out 'motifs'"):
        train("motifs", resume=run.folder)
    for folder in (tmp_path, tmp_path / "none"):
        with pytest.raises(GpmError, match=r"is not a run folder: it has no config\.yaml\.$"):
            train(resume=folder)
    finished = train(resume=run.folder)
    assert caplog.messages[-1] == f"{run.folder} is complete; nothing to resume"
    assert isinstance(finished, Run)
    assert finished.evaluate() == pytest.approx(run.result["test"], abs=1e-6)
    assert {path.name: path.read_bytes() for path in run.folder.iterdir()} == before


# What is refused


def test_a_folder_that_is_there_is_left_alone(tmp_path: Path) -> None:
    out = tmp_path / "run"
    out.mkdir()
    run = _train(_graph(), out)  # an empty one may be used
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    (tmp_path / "file").touch()
    for taken in (out, tmp_path / "file"):
        with pytest.raises(GpmError, match="exists; name another folder, or add --overwrite to replace it"):
            _train(_graph(), taken, seed=1)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    assert _train(_graph(), out, seed=1, overwrite=True).result["seed"] == 1
    assert _weights(run.folder) != before["model.safetensors"]


def test_without_a_name_a_new_folder_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("karate", "karate-2"):
        run = train("karate", quiet=True, **SMALL | {"epochs": 1})
        assert isinstance(run, Run)
        assert run.folder == Path("runs") / name


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"source": ""}, "Say what to train on: a recipe"),
        ({"source": "karat"}, "Did you mean 'karate'"),
        ({"source": "motifs", "epoch": 3}, "There is no option 'epoch'. Did you mean 'epochs'"),
        ({"source": "karate", "epoch": 3}, "There is no option 'epoch'. Did you mean 'epochs'"),
        ({"source": "karate", "data": "cora"}, "data is an option of recipes; without one, the first argument says"),
        ({"source": _graph(), "data": "cora"}, "data is an option of recipes"),
        ({"source": "karate", "seeds": 0}, "seeds must be at least 1, got 0"),
        ({"source": "karate", "threads": -1}, "threads must be at least 0, got -1"),
        ({"source": "karate", "split": "public"}, "Karate Club has no public split"),
        ({"source": "karate", "split": "98/1/1"}, "a split would be empty"),
        ({"source": "karate", "lengths": []}, "lengths must be one or more"),
        ({"source": "karate", "track": "tensorbord"}, "track must be one of none, .* Did you mean 'tensorboard'"),
    ],
)
def test_mistakes_are_found_before_anything_is_written(
    tmp_path: Path, arguments: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(GpmError, match=sentence):
        train(**arguments, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("tracker", ["tensorboard", "wandb", "mlflow"])
def test_a_tracker_that_is_not_there_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tracker: str
) -> None:
    monkeypatch.setitem(sys.modules, tracker, None)
    with pytest.raises(GpmError, match=rf"^--track {tracker} needs {tracker}: pip install '.*\[tracking\]'\.$"):
        _train(_graph(), tmp_path / "run", track=tracker)
    assert not (tmp_path / "run").exists()


def test_tensorboard_gets_its_events(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    _train(_graph(), tmp_path / "run", track="tensorboard")
    events = list((tmp_path / "run/tensorboard").glob("events.out.tfevents.*"))
    assert len(events) == 1
    assert b"val_accuracy" in events[0].read_bytes()


def test_an_empty_part_is_said_so(tmp_path: Path) -> None:
    data = _data()
    data.val_mask = torch.zeros(60, dtype=torch.bool)
    with pytest.raises(GpmError, match="No node is in the val split of 'given'; try --split 60/20/20"):
        _train(data, tmp_path / "run")
    assert not (tmp_path / "run").exists()


# What can be trained on


def _data(classes: int = 3, **facts: Any) -> Data:
    random = torch.Generator().manual_seed(0)
    ends = torch.randint(0, 60, (2, 150), generator=random)
    part = torch.arange(60) % 3
    usual = {
        "edge_index": ends, "x": torch.randn(60, 5, generator=random), "y": torch.arange(60) // 3 % classes,
        "train_mask": part == 0, "val_mask": part == 1, "test_mask": part == 2, "num_nodes": 60,
    }  # fmt: skip
    return Data(**{key: value for key, value in (usual | facts).items() if value is not None})


def _several() -> torch.Tensor:
    y = (torch.rand(60, 4, generator=torch.Generator().manual_seed(1)) < 0.5).float()
    y[torch.rand(60, 4, generator=torch.Generator().manual_seed(2)) < 0.3] = float("nan")
    y[::10] = float("nan")  # a node of which nothing is known
    return y


KINDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "given split": ({}, {"split": "given"}),
    "given split by its earlier name": ({}, {"split": "public"}),
    "shares": ({}, {"split": "50/25/25"}),
    "roc_auc": ({"classes": 2}, {"metric": "roc_auc"}),
    "roc_auc of three": ({}, {"metric": "roc_auc"}),
    "f1": ({}, {"metric": "f1"}),
    "several labels": ({"y": _several()}, {}),
    "several labels f1": ({"y": _several()}, {"metric": "f1", "smoothing": 0.2}),
    "unlabelled": ({"y": torch.where(torch.arange(60) % 7 == 0, -1, torch.arange(60) % 2)}, {}),
    "no features": ({"x": None}, {}),
    "edge features": ({"edge_attr": torch.arange(150.0).view(150, 1)}, {}),
    "edge categories": ({"edge_attr": torch.arange(150).view(150, 1) % 4}, {}),
    "categories": ({"x": torch.arange(60).view(60, 1) % 5}, {}),
    "sparse": ({"x": torch.eye(60)}, {"feature_dropout": 0.5}),
    "induced": ({}, {"topology": "induced"}),
    "shape": ({}, {"topology": "shape", "vocabulary": 16}),
    "class token": ({}, {"readout": "class", "learn_weight": True}),
    "fusion": ({}, {"fusion": True, "layers": 2, "path": "gru"}),
    "lap": ({}, {"pe": "lap", "pe_dim": 3}),
    "rwse": ({}, {"pe": "rwse", "pe_dim": 3}),
    "node2vec": ({}, {"p": 0.5, "q": 2.0, "path": "mean", "anonymous": "mean"}),
    "bf16": ({}, {"precision": "bf16-mixed"}),
    "16-mixed": ({}, {"precision": "16-mixed"}),
    "noam": ({}, {"schedule": "noam", "average": 2}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_all_kinds_of_data_and_options_train_and_score(tmp_path: Path, kind: str) -> None:
    facts, options = KINDS[kind]
    run = _train(_data(**facts), tmp_path / "run", **{"epochs": 1} | options)
    result, metric = run.result, run.config.metric
    wanted = options.get("metric", "roc_auc" if kind == "several labels" else "accuracy")
    assert metric == result["metric"] == wanted
    assert 0 <= result["test"][metric] <= 1
    assert all(np.isfinite(value) for part in ("val", "test") for value in result[part].values())
    again = Run.open(run.folder, _data(**facts))
    assert again.evaluate("test") == pytest.approx(result["test"], abs=1e-6)
    assert again.evaluate("val") == result["val"]
    chances = again.predict().probability
    assert chances.shape == (60, len(again.facts["classes"]))
    assert np.isfinite(chances).all()
    if not again.task.multilabel:
        assert chances.sum(1) == pytest.approx(1)


def test_a_given_split_is_taken_as_it_is(tmp_path: Path) -> None:
    run = _train(_data(), tmp_path / "run")
    for part, first in (("train", 0), ("val", 1), ("test", 2)):
        assert getattr(run.split, part).tolist() == list(range(first, 60, 3))
    assert Split.load(run.folder / "split.npz").digest == run.split.digest
    assert run.result["protocol"].startswith("split given; ")


def test_patience_stops(tmp_path: Path) -> None:
    run = _train(_graph(), tmp_path / "run", epochs=50, patience=3, lr=0.0)
    assert run.result["epochs"] == len(_rows(run.folder)) == 4  # the first, and three that were not better
    assert run.result["best_epoch"] == 1


def test_compile_reaches_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[tuple[torch.nn.Module, dict[str, Any]]] = []

    def note(model: torch.nn.Module, **options: Any) -> torch.nn.Module:
        compiled.append((model, options))
        return model

    monkeypatch.setattr(torch, "compile", note)
    run = _train(_graph(), tmp_path / "run", compile=True)
    assert [(type(model).__name__, options) for model, options in compiled] == [
        ("GraphPatternMachine", {"dynamic": True})
    ]
    monkeypatch.undo()
    assert _weights(run.folder) == _weights(_train(_graph(), tmp_path / "plain").folder)


def test_mixed_precision_validates_on_the_maps_of_all_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    find = Predictor.map_nodes

    def note(self: Predictor, model: Any, patterns: int) -> Any:
        asked.append(find(self, model, patterns))
        return asked[-1]

    monkeypatch.setattr(Predictor, "map_nodes", note)
    run = _train(_graph(), tmp_path / "run", precision="bf16-mixed", epochs=1)
    assert any(maps is not None for maps in asked)
    assert 0 <= run.result["test"]["accuracy"] <= 1


def test_sigterm_in_the_first_epoch_is_ours_also_where_validation_has_several_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _graph().save(tmp_path / "graph")
    step = Learner.training_step

    def interrupt(self: Learner, batch: Any, batch_idx: int) -> Any:
        if self.global_step == 1:
            signal.raise_signal(signal.SIGTERM)
        return step(self, batch, batch_idx)

    with monkeypatch.context() as patched:
        patched.setattr(Learner, "training_step", interrupt)
        flags = _flags(SMALL | {"batch": 4, "epochs": 3})
        assert main(["train", str(tmp_path / "graph"), "--out", str(tmp_path / "run"), "--quiet", *flags]) == 130
    assert (tmp_path / "run.part" / "checkpoint.ckpt").is_file()
    assert main(["train", "--resume", str(tmp_path / "run"), "--quiet"]) == 0
    assert (tmp_path / "run" / "result.json").is_file()


# The folder until it is finished


def _die_in(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Let the training of one seed die before it is scored."""
    _dies(monkeypatch, Run, "describe", lambda self, *_: self.config.seed == seed)


def test_the_same_command_again_goes_on_also_with_several_seeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="gpm")
    _graph().save(tmp_path / "graph")
    source, given = str(tmp_path / "graph"), {"seeds": 3, "quiet": True, **SMALL}
    train(source, out=tmp_path / "whole", **given)
    for again in ({"source": source, "out": tmp_path / "a", **given}, {"resume": tmp_path / "b", "quiet": True}):
        out = tmp_path / ("a" if "out" in again else "b")
        with monkeypatch.context() as dying:
            _die_in(dying, 1)
            with pytest.raises(Killed):
                train(source, out=out, **given)
        assert not out.exists()
        first = tmp_path / f"{out.name}.part/seed-0/model.safetensors"
        written = first.stat().st_mtime_ns
        caplog.clear()
        runs = train(**again)
        assert isinstance(runs, list)
        assert f"resuming {out}.part, an unfinished training with the same options and data" in caplog.messages
        assert sum("model: " in message for message in caplog.messages) == 2  # seed 0 was finished
        assert (out / "seed-0/model.safetensors").stat().st_mtime_ns == written
        assert [run.folder for run in runs] == [out / f"seed-{seed}" for seed in range(3)]
        for seed in range(3):
            assert _weights(out / f"seed-{seed}") == _weights(tmp_path / f"whole/seed-{seed}")
        assert json.loads((out / "summary.json").read_text())["seeds"] == [0, 1, 2]
        assert check_folder(out) == []


def test_other_options_are_told_how_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, graph = tmp_path / "run", _graph()
    with monkeypatch.context() as dying:
        _dies(dying, Run, "describe")
        with pytest.raises(Killed):
            _train(graph, out)
    with pytest.raises(GpmError, match=r"there lr is 0\.005, not 0\.5; gpm train --resume .*run resumes it, --ov"):
        _train(graph, out, lr=0.5)
    changed = Graph.from_edges(graph.edge_index(), graph.num_nodes, x=2 * graph.x, y=graph.y)
    with pytest.raises(GpmError, match="there the graph was changed"):
        _train(changed, out)
    with pytest.raises(GpmError, match="cannot be resumed: the graph has changed; train again with --over"):
        train(changed, resume=out)
    with pytest.raises(GpmError, match="A resumed run keeps its options; leave out lr"):
        train(graph, resume=out, lr=0.5)
    assert _train(graph, out, lr=0.5, overwrite=True).config.lr == 0.5
    assert not (tmp_path / "run.part").exists()


def test_the_same_command_after_the_end_has_nothing_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="gpm")
    out, result = tmp_path / "run", tmp_path / "result.json"
    with monkeypatch.context() as dying:
        _dies(dying, gpm.training.seeds, "write_json", lambda path, content: path == result)  # the last that is written
        with pytest.raises(Killed):
            _train(_graph(), out, metric="accuracy", result=result)
    before = {path.name: path.stat().st_mtime_ns for path in out.iterdir()}
    run = _train(_graph(), out, metric="accuracy", result=result)
    assert caplog.messages[-1].startswith(f"{out} is complete, with the same options and data; --overwrite")
    assert json.loads(result.read_text())["values"] == [round(100 * run.result["test"]["accuracy"], 2)]
    assert {path.name: path.stat().st_mtime_ns for path in out.iterdir()} == before
    (out / "model.safetensors").write_bytes(b"")
    with pytest.raises(GpmError, match="exists; name another folder, or add --overwrite to replace it"):
        _train(_graph(), out)


def test_an_old_run_stays_whole_until_the_new_one_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = _weights(_train(_graph(), tmp_path / "run").folder)
    with monkeypatch.context() as dying:
        _dies(dying, Run, "describe")
        with pytest.raises(Killed):
            _train(_graph(), tmp_path / "run", seed=1, overwrite=True)
    assert check_folder(tmp_path / "run") == []
    assert _weights(tmp_path / "run") == old
    run = train(_graph(), resume=tmp_path / "run.part", quiet=True)
    assert isinstance(run, Run)
    assert (run.folder, run.result["seed"]) == (tmp_path / "run", 1)
    assert {path.name for path in tmp_path.iterdir() if path.name != "data"} == {"run"}


def test_an_unfinished_run_says_so_and_can_be_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as dying:
        _dies(dying, Run, "describe")
        with pytest.raises(Killed):
            _train(_graph(), tmp_path / "run")
    with pytest.raises(
        GpmError, match=r"The training of .*run is not finished; gpm train --resume .*run continues it from .*run\.p"
    ):
        Run.open(tmp_path / "run")
    assert len(Run.open(tmp_path / "run.part", _graph()).predict()) == _graph().num_nodes


def test_names_of_unfinished_runs_are_taken_but_by_themselves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    given = SMALL | {"epochs": 1, "quiet": True}
    with monkeypatch.context() as dying:
        _dies(dying, Run, "describe")
        with pytest.raises(Killed):
            train("karate", **given)
    other, same = train("karate", **given | {"lr": 0.5}), train("karate", **given)
    assert isinstance(other, Run)
    assert isinstance(same, Run)
    assert (other.folder, same.folder) == (Path("runs/karate-2"), Path("runs/karate"))


def test_a_second_process_on_the_same_folder_gets_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    usual = Run.describe

    def meanwhile(self: Run, *arguments: Any) -> Any:
        with monkeypatch.context() as patched:
            patched.setattr(Run, "describe", usual)
            for again in ({"out": tmp_path / "run"}, {"out": tmp_path / "run", "overwrite": True}):
                with pytest.raises(GpmError) as error:
                    train(_graph(), quiet=True, **SMALL | again)
                said.append(str(error.value))
        return usual(self, *arguments)

    monkeypatch.setattr(Run, "describe", meanwhile)
    _train(_graph(), tmp_path / "run")
    busy = f"{tmp_path}/run is being written by another process; wait for it to end, or name another folder."
    assert said == [busy] * 2
    assert check_folder(tmp_path / "run") == []


def test_a_run_that_diverges_leaves_nothing_in_the_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KeepBest, "on_train_epoch_end", lambda *_: None)
    with pytest.raises(GpmError, match="The validation score was never a number: the training diverged; lower --lr"):
        _train(_graph(), tmp_path / "run")
    assert not (tmp_path / "run.part").exists()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES, errno.EROFS])
def test_what_cannot_be_written_ends_it_with_one_sentence_and_it_can_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, undisturbed: Undisturbed, capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture, number: int,
) -> None:  # fmt: skip
    """The disk fills up at some write, another time at a later one; in the end there is room."""
    caplog.set_level(logging.INFO, logger="gpm")
    out, usual = tmp_path / "run", os.fsync
    command = ["train", undisturbed.source, "--out", str(out), "--quiet", *_flags(undisturbed.options)]
    for room in (0, 3, 9, 8, 10):
        left = [room]

        def sync(handle: int, left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] < 0:
                raise OSError(number, os.strerror(number))
            usual(handle)

        with monkeypatch.context() as full:
            full.setattr(os, "fsync", sync)
            assert main(command) == 2
        said = capsys.readouterr().err
        assert said.startswith(f"gpm train: Cannot write {out}")
        assert said.count("\n") == 1
        assert not out.exists()
    assert f"interrupted; gpm train --resume {out} resumes it" in caplog.messages
    assert main(command) == 0
    undisturbed.assert_equal(out)


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk with room for little; skipped where none can be mounted."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)]
    try:
        mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    except OSError:
        mounted = False
    if not mounted:
        pytest.skip("no disk can be mounted here")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_disk_that_is_really_full(
    tiny_disk: Path, undisturbed: Undisturbed, capsys: pytest.CaptureFixture[str]
) -> None:
    out, ballast = tiny_disk / "run", tiny_disk / "ballast"
    command = ["train", undisturbed.source, "--out", str(out), "--quiet", *_flags(undisturbed.options)]
    ballast.write_bytes(b"x" * (2**20 - 4096))
    for room in (4, 30, 60, 90):
        os.truncate(ballast, 2**20 - 1024 * room)
        assert main(command) == 2
        said = capsys.readouterr().err
        assert re.fullmatch(r"gpm train: Cannot write .*No space left on device; make room and run it again\.\n", said)
        assert not out.exists()
    ballast.unlink()
    assert main(command) == 0
    undisturbed.assert_equal(out)


def test_threads_change_no_bit_of_a_training(tmp_path: Path) -> None:
    graph = planted_motifs(seed=1).graph
    options = {"width": 64, "batch": 256, "pool": 32, "patterns": 32}  # large enough for several pieces
    folders = [_train(graph, tmp_path / str(n), threads=n, **options).folder for n in (1, 2, 3)]
    assert _weights(folders[0]) == _weights(folders[1]) == _weights(folders[2])
    assert _rows(folders[0])[-1]["val_loss"] == _rows(folders[2])[-1]["val_loss"]
