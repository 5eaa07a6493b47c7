"""Adaptation: what it adds is what it says, no label of the target reaches it, and it can be killed at any time."""

from __future__ import annotations

import csv
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import gpm
from gpm import Config, GpmError, Graph, Run, train
from gpm.cli.main import main
from gpm.data.domain_data import DomainData, unite
from gpm.data.node_data import build_node_data
from gpm.data.synthetic import shifted_pair
from gpm.nn.positional.encodings import find_modes
from gpm.tasks import make_task
from gpm.training.adaptation import Adaptation, DomainExamples, Reverse, ramp
from gpm.training.batches import Batches
from gpm.training.callbacks import History
from gpm.training.lightning_module import Learner

pytestmark = pytest.mark.usefixtures("one_thread")
METHODS = ("none", "dann", "ssreg", "dann+ssreg")
SMALL: dict[str, Any] = {
    "preset": "plain",
    "width": 8, "heads": 2, "lengths": [0, 1, 2], "patterns": 6, "pool": 12, "batch": 32, "epochs": 3, "quiet": True,
    "device": "cpu", "modes": 7, "lr": 0.01,
}  # fmt: skip


def _pair(nodes: int = 60, shift: float = 3.0) -> DomainData:
    one, two = (build_node_data(graph, title) for graph, title in zip(shifted_pair(shift, nodes), "ab", strict=True))
    return unite(replace(one, title="a"), replace(two, title="b"))


def _curve(folder: Path) -> list[dict[str, str]]:
    with (folder / "metrics.csv").open() as file:
        return [{key: value for key, value in row.items() if key != "seconds"} for row in csv.DictReader(file)]


# The parts of it


def test_reversing_turns_the_gradient_round_and_nothing_else() -> None:
    values = torch.randn(3, 4, requires_grad=True)
    turned = Reverse.apply(values, 0.5)  # type: ignore[no-untyped-call]
    torch.testing.assert_close(turned, values)
    (turned * torch.arange(4.0)).sum().backward()
    torch.testing.assert_close(values.grad, -0.5 * torch.arange(4.0).expand(3, 4))


def test_the_ramp_begins_at_nothing_and_rises() -> None:
    steps = [ramp(i / 20) for i in range(21)]
    assert steps[0] == 0
    assert steps == sorted(steps)
    assert 0.99 < steps[-1] < 1


def test_a_step_reads_as_many_nodes_of_the_target_without_their_labels() -> None:
    data = _pair()
    split = data.make_split(0)
    examples = DomainExamples(data, make_task(data, split, Config(metric="accuracy")), split, 0)
    seen = set()
    for draw in Batches(len(split.train), 20, 0):
        inputs, targets, rows, terms, share = examples.deal(draw)
        assert len(inputs) == 2 * len(targets) == 2 * terms
        assert not data.away[inputs[: len(targets)]].any()
        assert data.away[inputs[len(targets) :]].all()
        assert len(torch.unique(rows)) == len(inputs)
        assert share == 1
        torch.testing.assert_close(examples.deal(draw)[0], inputs)
        seen |= set(inputs[len(targets) :].tolist())
    assert len(seen) > 20


def test_the_classifier_learns_to_tell_domains_apart_and_the_embedding_to_be_like() -> None:
    config = Config(width=8, heads=2, adapt="dann", dann_weight=1.0)
    adaptation = Adaptation(config, _pair())
    z = torch.randn(100, 8, generator=torch.Generator().manual_seed(0))
    z[50:, 0] += 4
    z.requires_grad_()
    nodes = torch.zeros(100, dtype=torch.int64)
    before = adaptation(z, nodes, 0.5)["dann"].item()
    optimizer = torch.optim.SGD(adaptation.parameters(), lr=0.5)
    for _ in range(50):
        optimizer.zero_grad()
        adaptation(z.detach(), nodes, 0.5)["dann"].backward()
        optimizer.step()
    terms = adaptation(z, nodes, 0.5)
    assert terms["dann"].item() < 0.5 * before
    terms["dann"].backward()
    assert z.grad is not None
    moved = z.detach() - 10 * z.grad  # downhill for the model is uphill for the classifier
    assert adaptation(moved, nodes, 0.5)["dann"].item() > terms["dann"].item()
    assert torch.equal(torch.autograd.grad(adaptation(z, nodes, 0.0)["dann"], z)[0], torch.zeros_like(z))


def test_the_response_of_a_batch_estimates_that_of_the_graph_without_bias() -> None:
    data = _pair()
    adaptation = Adaptation(Config(width=8, heads=2, adapt="ssreg", modes=9), data)
    z = torch.randn(120, 8)
    for away in (False, True):
        nodes = torch.from_numpy(data.nodes(away))
        whole = torch.tensor(find_modes(data.graph, 9))[nodes].T @ z[nodes] / 60**0.5
        parts = [adaptation.respond(z[part], part, 60) for part in nodes[torch.randperm(60)].split(12)]
        torch.testing.assert_close(torch.stack(parts).mean(0), whole)


def test_frequencies_are_penalised_as_they_are_defined() -> None:
    data = _pair()
    config = Config(width=8, heads=2, adapt="ssreg", modes=9, ssreg_weight=0.5, ssreg_threshold=0.05)
    adaptation = Adaptation(config, data)
    z = torch.randn(120, 8)
    expected = 0.0
    for nodes in (np.arange(60), np.arange(60, 120)):
        response = find_modes(data.graph, 9)[nodes].T @ z.numpy()[nodes] / 60**0.5
        rises = np.abs(np.diff(response, axis=0))
        expected += np.maximum(rises - 0.05, 0).mean() + np.maximum(np.abs(response) - 0.05, 0).mean()
    found = adaptation(z, torch.arange(120), 0.0)["ssreg"]
    assert float(found) == pytest.approx(0.5 * expected, rel=1e-4)
    free = Adaptation(replace(config, ssreg_threshold=1e6), data)
    assert float(free(z, torch.arange(120), 0.0)["ssreg"]) == 0


def test_modes_are_eigenvectors_of_each_graph_in_order_and_found_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GPM_DATA", str(tmp_path))
    monkeypatch.setattr("gpm.nn.positional.encodings.KEPT_FROM", 50)
    data = _pair()
    modes = find_modes(data.graph, 12)
    for nodes in (np.arange(60), np.arange(60, 120)):
        part = modes[nodes].astype(np.float64)
        np.testing.assert_allclose(part.T @ part, np.eye(12), atol=1e-5)
        edges = data.graph.edge_index()
        own = np.isin(edges[0], nodes)
        adjacency = np.zeros((60, 60))
        adjacency[edges[0, own] - nodes[0], edges[1, own] - nodes[0]] = 1
        degree = np.maximum(adjacency.sum(1), 1e-12) ** -0.5
        laplacian = np.eye(60) - degree[:, None] * adjacency * degree
        values = np.diag(part.T @ laplacian @ part)
        np.testing.assert_allclose(laplacian @ part, part * values, atol=1e-5)
        assert (np.diff(values) > -1e-6).all()
    with monkeypatch.context() as broken:
        broken.setattr("gpm.nn.positional.encodings._find_vectors", None)
        np.testing.assert_array_equal(find_modes(data.graph, 12), modes)
        with pytest.raises(TypeError):
            find_modes(data.graph, 13)


# The training


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("validate", ["source", "target"])
def test_no_label_of_the_target_reaches_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, validate: str
) -> None:
    """With the target's labels permuted, every weight is the same at the end, and so is what the source chooses."""
    last: list[dict[str, torch.Tensor]] = []

    def note(self: Learner) -> None:
        last.append({key: value.clone() for key, value in self.state_dict().items()})

    monkeypatch.setattr(Learner, "on_train_end", note)
    data = _pair()
    y = data.labels.copy()
    y[data.away] = np.random.default_rng(1).permutation(y[data.away])
    assert (y != data.labels).any()
    for name, given in (("one", data), ("two", replace(data, graph=replace(data.graph, y=y)))):
        train(given, out=tmp_path / name, adapt=method, validate=validate, **SMALL)  # type: ignore[arg-type]
    assert last[0].keys() == last[1].keys()
    for key, value in last[0].items():
        assert torch.equal(value, last[1][key]), key
    home = "val" if validate == "source" else "other"
    for one, two in zip(*(_curve(tmp_path / name) for name in ("one", "two")), strict=True):
        assert {k: v for k, v in one.items() if k.startswith((home, "train", "dann", "ssreg"))} == {
            k: v for k, v in two.items() if k.startswith((home, "train", "dann", "ssreg"))
        }
    if validate == "source":
        kept = [load_file(tmp_path / name / "model.safetensors") for name in ("one", "two")]
        assert all(torch.equal(value, kept[1][key]) for key, value in kept[0].items())


def test_features_of_the_target_are_read_by_adaptation_alone(tmp_path: Path) -> None:
    data = _pair()
    x = np.array(data.graph.x)
    x[data.away] += 1
    other = replace(data, graph=replace(data.graph, x=x))
    for method in ("none", "dann"):
        runs = [train(d, out=tmp_path / f"{method}-{i}", adapt=method, **SMALL) for i, d in enumerate((data, other))]  # type: ignore[arg-type]
        weights = [load_file(run.folder / "model.safetensors") for run in runs]  # type: ignore[union-attr]
        same = all(torch.equal(value, weights[1][key]) for key, value in weights[0].items())
        assert same == (method == "none")


def test_both_ways_to_choose_are_reported_and_agree(tmp_path: Path) -> None:
    """One training has the figures of both: what is `other` in the one is chosen in the other."""
    data = _pair(100)
    one, two = (
        train(data, out=tmp_path / choice, validate=choice, adapt="dann", **SMALL | {"epochs": 6})  # type: ignore[arg-type]
        for choice in ("source", "target")
    )
    assert isinstance(one, Run)
    assert isinstance(two, Run)
    for mine, theirs in ((one.result, two.result), (two.result, one.result)):
        assert mine["chosen_on"] == theirs["other"]["chosen_on"]
        assert mine["best_epoch"] == theirs["other"]["best_epoch"]
        assert mine["test"] == pytest.approx(theirs["other"]["test"], abs=1e-6)
        assert mine["val"] == pytest.approx(theirs["other"]["val"], abs=1e-6)
    assert one.evaluate("test") == pytest.approx(one.result["test"], abs=1e-6)  # the kept weights are the chosen ones
    assert not (tmp_path / "source" / "other.safetensors").exists()


def test_a_killed_training_goes_on_to_the_same_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = _pair()
    options = SMALL | {"adapt": "dann+ssreg", "epochs": 5, "average": 1}
    train(data, out=tmp_path / "whole", **options)  # type: ignore[arg-type]
    usual = History.on_train_epoch_end

    def die(self: History, trainer: Any, learner: Any) -> None:
        usual(self, trainer, learner)
        if trainer.current_epoch == 3:
            raise RuntimeError("killed")

    with monkeypatch.context() as dying:
        dying.setattr("gpm.training.callbacks.SAVING_SHARE", 1e9)
        dying.setattr(History, "on_train_epoch_end", die)
        with pytest.raises(RuntimeError, match="killed"):
            train(data, out=tmp_path / "run", **options)  # type: ignore[arg-type]
    train(data, out=tmp_path / "run", **options)  # type: ignore[arg-type]
    assert _curve(tmp_path / "run") == _curve(tmp_path / "whole")
    one, two = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "run"))
    assert all(torch.equal(value, two[key]) for key, value in one.items())


def test_a_target_without_labels_is_learned_for_and_predicted(tmp_path: Path) -> None:
    one, two = shifted_pair(nodes=60)
    run = gpm.adapt(one, replace(two, y=None), method="dann", out=tmp_path / "run", **SMALL)
    assert isinstance(run, Run)
    assert "other" not in run.result
    assert "the target has no labels" in run.result["protocol"]
    with (run.folder / "predictions.csv").open() as file:
        assert [row["node"] for row in csv.DictReader(file)] == [f"1:{i}" for i in range(60)]
    assert run.predict(["1:7", "0:3"]).names == ["1:7", "0:3"]


def test_a_linear_part_is_not_mixed_in_where_labels_of_the_target_might_choose(tmp_path: Path) -> None:
    with pytest.raises(GpmError, match="--linear blend is for one graph: with a target graph, take --linear base"):
        gpm.adapt(*shifted_pair(nodes=60), out=tmp_path / "run", **SMALL | {"structure": True, "linear": "blend"})
    assert not (tmp_path / "run").exists()


def test_the_command_names_a_target_and_the_run_opens_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="gpm")
    for graph, name in zip(shifted_pair(nodes=60), ("one", "two"), strict=True):
        graph.save(tmp_path / name)
    flags = [f"--{key}={value}" for key, value in SMALL.items()]
    command = ["train", str(tmp_path / "one"), "--target", str(tmp_path / "two"), "--out", str(tmp_path / "run")]
    assert main([*command, "--adapt", "dann", *flags]) == 0
    run = Run.open(tmp_path / "run", device="cpu")
    assert isinstance(run.data, DomainData)
    assert (run.config.target, run.config.target_graph) == ("", str(tmp_path / "two"))
    assert f"write --target_graph {tmp_path / 'two'} for another graph" in caplog.text
    assert main([*command[:2], "--target-graph", *command[3:], "--adapt", "dann", *flags]) == 0  # the same training
    assert f"{tmp_path / 'run'} is complete" in caplog.text
    assert run.evaluate("test") == pytest.approx(run.result["test"], abs=1e-6)
    assert len(run.split.test) == 48
    shifted = ["train", str(tmp_path / "one"), "--shift", "degree", "--out", str(tmp_path / "shifted"), *flags]
    assert main(shifted) == 0
    assert "shifted by degree" in Run.open(tmp_path / "shifted").result["data"]
    capsys.readouterr()
    for more, sentence in (
        (["--adapt", "dann", "--accumulate", "2"], "needs all nodes of a step together; leave out --devices"),
        (["--adapt", "dann", "--model", "gcn"], "adapt is for the pattern machine; leave it out for gcn."),
        (["--split", "60/20/20"], "Source and target have their own splits, 80/20 and 20/80; leave out --split"),
    ):
        assert main([*command[:-1], str(tmp_path / "no"), *flags, *more]) == 2
        assert sentence in capsys.readouterr().err
    assert main(["train", str(tmp_path / "one"), "--adapt", "dann", "--out", str(tmp_path / "no"), *flags]) == 2
    assert "--adapt dann needs a target: name one with --target_graph, or try --shift" in capsys.readouterr().err
    nowhere = ["train", str(tmp_path / "one"), "--target-graph", "nowhere", "--out", str(tmp_path / "no"), *flags]
    assert main(nowhere) == 2
    assert "nowhere" in capsys.readouterr().err
    assert not (tmp_path / "no").exists()


def test_labels_of_the_target_that_cannot_be_scored_end_nothing(tmp_path: Path) -> None:
    """Not in the epochs, that is: none of them is chosen by such labels, and the run is whole."""
    data = _pair()
    split = data.make_split(0)
    y = data.labels % 2
    y[split.extras()["other"]] = 1
    run = train(replace(data, graph=replace(data.graph, y=y)), out=tmp_path / "run", metric="roc_auc", **SMALL)  # type: ignore[arg-type]
    assert isinstance(run, Run)
    assert run.result["chosen_on"] == "source"
    assert "other" not in run.result


def test_a_run_on_graphs_in_memory_is_opened_with_both(tmp_path: Path) -> None:
    one, two = shifted_pair(nodes=60)
    gpm.adapt(one, two, method="none", out=tmp_path / "run", **SMALL)
    with pytest.raises(GpmError, match=r"give it: Run\.open\(folder, gpm\.unite\(source, target\)\)"):
        _ = Run.open(tmp_path / "run").data
    run = Run.open(tmp_path / "run", gpm.unite(one, two), device="cpu")
    assert run.evaluate("test") == pytest.approx(run.result["test"], abs=1e-6)
    assert "of target it has seen nothing" in (tmp_path / "run" / "README.md").read_text()


def test_targets_that_are_none_get_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = shifted_pair(nodes=60)
    with pytest.raises(GpmError, match=r"^A target in memory, such as this gpm Graph, is for gpm\.adapt"):
        train(one, target=two, out=tmp_path / "run", **SMALL)
    with pytest.raises(GpmError, match="--validate target needs a target"):
        train(one, validate="target", out=tmp_path / "run", **SMALL)
    monkeypatch.chdir(tmp_path)  # which is no target
    run = train(one, target="", out=tmp_path / "run", **SMALL)
    assert isinstance(run, Run)
    assert run.split.name.startswith("random")


@pytest.mark.parametrize("model", ["gcn", "gat", "mlp"])
def test_baselines_train_on_a_source_for_a_target_too(tmp_path: Path, model: str) -> None:
    run = train(_pair(), out=tmp_path / "run", model=model, **SMALL)  # type: ignore[arg-type]
    assert isinstance(run, Run)
    assert run.result["other"]["chosen_on"] == "target"


def test_the_graph_of_a_target_may_be_a_pyg_data(tmp_path: Path) -> None:
    one, two = shifted_pair(nodes=60)
    run = gpm.adapt(one.to_pyg(), two.to_pyg(), method="none", out=tmp_path / "run", **SMALL)
    assert isinstance(run, Run)
    assert run.result["data"] == "graph to target"
    with pytest.raises(GpmError, match="columns of features"):
        gpm.adapt(one, Graph.from_edges([[0], [1]], 2, x=np.zeros((2, 3))), out=tmp_path / "no", **SMALL)


@pytest.mark.slow
def test_adaptation_recovers_half_of_what_a_planted_shift_costs(tmp_path: Path) -> None:
    """As `benchmarks/shift.py` has it, on a smaller pair; the source chooses the epoch."""
    options = {
        "width": 32, "heads": 4, "lengths": [0, 1], "patterns": 8, "pool": 16, "epochs": 20, "batch": 128, "lr": 5e-3,
        "modes": 10, "dann_weight": 1.0, "ssreg_weight": 20.0, "ssreg_threshold": 0.3, "select": "loss", "average": 1,
    }  # fmt: skip
    found = {}
    for method, shift in (("none", 0.0), ("none", 4.0), ("dann", 4.0), ("ssreg", 4.0)):
        pair = shifted_pair(shift, nodes=2000, seed=0)
        run = gpm.adapt(*pair, method=method, out=tmp_path / f"{method}-{shift}", **SMALL | options)  # type: ignore[arg-type]
        assert isinstance(run, Run)
        found[method, shift] = run.result["test"]["accuracy"]
    half = (found["none", 0.0] + found["none", 4.0]) / 2
    assert found["none", 4.0] < found["none", 0.0] - 0.2
    assert found["dann", 4.0] > half
    assert found["ssreg", 4.0] > half
