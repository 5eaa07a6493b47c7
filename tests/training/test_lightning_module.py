from __future__ import annotations

import csv
import math
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gpm import Config, Graph, train
from gpm.data.graph_data import GraphData
from gpm.data.link_data import LinkData, LinkSplit, Protocol
from gpm.data.node_data import NodeData
from gpm.data.splits import Split, random_split
from gpm.nn.predictor import Predictor
from gpm.tasks import ClassTask, LinkTask, ValueTask
from gpm.training.batches import Draw, Examples
from gpm.training.lightning_module import Learner
from gpm.training.prepare import Training

NODES = 60
SMALL = {"width": 8, "heads": 2, "lengths": [0, 1, 2], "patterns": 6, "pool": 12, "batch": 10}


pytestmark = pytest.mark.usefixtures("one_thread")


def _graph() -> Graph:
    """Three classes that the features tell."""
    random = np.random.default_rng(0)
    y = np.arange(NODES) % 3
    x = np.eye(3)[y] + random.normal(0, 0.1, (NODES, 3))
    return Graph.from_edges(random.integers(0, NODES, (2, 120)), NODES, undirected=True, x=x, y=y)


def _learner(split: Split | None = None, **options: Any) -> Learner:
    config, graph = Config(**SMALL | options), _graph()
    assert graph.y is not None
    task = ClassTask.of(graph.y, "accuracy")
    torch.manual_seed(0)
    predictor = Predictor.build(config, graph, task.outputs)
    return Learner(
        predictor, Examples(NodeData(graph, "g"), task, split or random_split(graph.y, "60/20/20", 0), 0), config
    )


def test_a_loader_gives_the_nodes_of_its_part(monkeypatch: pytest.MonkeyPatch) -> None:
    split = Split(np.array([2, 9, 30]), np.array([1, 5, 8, 50]), np.array([7]), "by hand")
    learner = _learner(split, batch=3)
    (batch,) = list(learner.train_dataloader())
    assert batch.terms == 3
    assert batch.share == 1
    read: list[int] = []
    logits = Predictor.logits

    def note(self: Predictor, inputs: Any, **options: Any) -> torch.Tensor:
        read.extend(inputs.tolist())
        return logits(self, inputs, **options)

    monkeypatch.setattr(Predictor, "logits", note)
    monkeypatch.setattr(Learner, "log", lambda *_, **__: None)
    for number, one in enumerate(learner.val_dataloader()):
        learner.validation_step(one, number)
    assert read == [1, 5, 8, 50]


def _links(protocol: Protocol = "strict", seed: int = 0) -> tuple[Examples, LinkData, LinkSplit]:
    data = LinkData(_graph(), "g")
    split = data.make_split(0, "60/20/20", protocol=protocol)
    return Examples(data, LinkTask("mrr", protocol, 0.0, torch.tensor(split.labels)), split, seed), data, split


def test_examples_of_nodes_are_the_nodes_and_their_classes() -> None:
    examples = _learner().examples
    ids = torch.tensor([7, 3, 59])
    for inputs, targets in (examples.take(ids), examples.draw(ids, 5)):
        assert inputs.tolist() == [7, 3, 59]
        assert targets.tolist() == [1, 0, 2]


def test_examples_of_graphs_are_their_numbers_and_values() -> None:
    values = np.array([0.5, 2.5, np.nan, 1.5])
    graph = Graph.from_edges([[], []], 4, y=values, graph_ptr=np.arange(5))
    split = Split(np.array([0, 1]), np.array([2]), np.array([3]), "by hand")
    examples = Examples(GraphData(graph, "g", metric="mae"), ValueTask.of(values, "mae", split.train), split, 0)
    inputs, targets = examples.draw(torch.tensor([3, 0]), 1)
    assert inputs.tolist() == [3, 0]
    assert targets.tolist() == [[1.5], [0.5]]  # in their own units


@pytest.mark.parametrize("protocol", ["strict", "paper"])
def test_links_of_a_part_are_its_pairs(protocol: Protocol) -> None:
    examples, _, split = _links(protocol)
    for part in (split.val, split.test):
        pairs, targets = examples.take(torch.tensor(part))
        np.testing.assert_array_equal(pairs, split.pairs[part])
        np.testing.assert_array_equal(targets, split.labels[part])
        assert set(targets.tolist()) == {0, 1}


def test_a_step_on_links_reads_as_many_fresh_pairs_that_are_none() -> None:
    examples, data, split = _links()
    edges = {frozenset(pair) for pair in data.graph.edge_index().T.tolist()}
    saved = {frozenset(pair) for pair in split.pairs.tolist()}
    drawn = []
    for step in range(20):
        ids = torch.tensor(split.train[step : step + 9])
        pairs, targets = examples.draw(ids, step)
        assert pairs.shape == (18, 2)
        assert targets.tolist() == [1] * 9 + [0] * 9
        np.testing.assert_array_equal(pairs[:9], split.pairs[ids])
        drawn.append([frozenset(pair) for pair in pairs[9:].tolist()])
        assert not set(drawn[-1]) & (edges | saved)
        assert all(len(pair) == 2 for pair in drawn[-1])
    assert len({pair for step in drawn for pair in step}) > 0.9 * 180  # of 1,500 or so
    assert targets.dtype == examples.task.targets.dtype


@pytest.mark.parametrize("protocol", ["strict", "paper"])
def test_the_non_edges_of_a_step_are_a_function_of_seed_and_step(protocol: Protocol) -> None:
    def draw(seed: int, step: int) -> tuple[int, ...]:
        examples, _, split = _links(protocol, seed)
        torch.manual_seed(99 * step)  # what others draw does not matter
        pairs, _ = examples.draw(torch.tensor(split.train[:8]), step)
        assert len(pairs) == 16
        return tuple(pairs[8:].ravel().tolist())

    assert draw(0, 7) == draw(0, 7)
    assert len({draw(seed, step) for seed in (0, 1) for step in (0, 1, 2)}) == 6


@pytest.mark.parametrize("pair", ["joint", "product"])
def test_a_step_on_links_learns_from_both(pair: str) -> None:
    """The loss is the mean over the edges of the batch and the non-edges beside them."""
    examples, data, split = _links()
    config = Config(**SMALL | {"pair": pair, "dropout": 0.0})
    torch.manual_seed(0)
    learner = Learner(Predictor.build(config, data.walked_graph(split), 1, "link"), examples, config)
    draw = Draw(3, np.arange(8), np.arange(8))
    batch = learner.loader.dataset[draw]
    pairs, targets = examples.draw(torch.tensor(split.train[:8]), 3)
    logits = learner.predictor.learn(pairs, 3)
    expected = torch.nn.functional.binary_cross_entropy_with_logits(logits[:, 0], targets.float())
    torch.testing.assert_close(learner.training_step(batch, 0), expected)


def test_the_rate_rises_in_a_line() -> None:
    learner = _learner(warmup=8, epochs=20)
    assert [learner.rate(step) for step in range(8)] == pytest.approx([(step + 1) / 8 for step in range(8)])


def test_the_cosine_falls_to_zero_at_the_last_step() -> None:
    learner = _learner(warmup=8, epochs=20)
    last = 20 * learner.steps_per_epoch - 1
    rates = [learner.rate(step) for step in range(8, last + 1)]
    assert rates[0] == 1
    assert all(a > b for a, b in pairwise(rates))
    assert 0 < rates[-1] < 1e-3
    assert rates[len(rates) // 2] == pytest.approx(0.5, abs=0.02)
    assert learner.rate(last + 100) == pytest.approx(0)  # never rises again


def test_a_constant_rate_stays() -> None:
    learner = _learner(schedule="constant", warmup=4)
    assert [learner.rate(step) for step in (3, 4, 100, 10**6)] == [1, 1, 1, 1]
    assert _learner(schedule="constant", warmup=0).rate(0) == 1


def test_noam_falls_as_the_root_of_the_step() -> None:
    learner = _learner(schedule="noam", warmup=25)
    assert learner.rate(25) == learner.rate(24) == 1
    assert learner.rate(100) == pytest.approx(0.5)
    assert learner.rate(2500) == pytest.approx(0.1)
    assert _learner(schedule="noam", warmup=0).rate(0) == 1


@given(st.integers(1, 30), st.integers(1, 30), st.integers(3, 12))
def test_validation_uses_between_m_and_k_patterns(train: int, val: int, patterns: int) -> None:
    ids = np.arange(NODES)
    split = Split(ids[:train], ids[train : train + val], ids[train + val :], "by hand")
    learner = _learner(split, patterns=patterns)
    assert patterns <= learner.val_patterns <= 12
    if patterns < learner.val_patterns < 12:  # a quarter of an epoch, of which a step costs three forward passes
        assert learner.val_patterns * val <= 0.25 * 3 * patterns * train < (learner.val_patterns + 3) * val


def test_validation_uses_what_is_asked_for() -> None:
    assert _learner(val_patterns=9).val_patterns == 9


def test_averaged_weights_follow_the_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    learner = _learner(average=2)
    assert learner.averaged is not None
    assert learner.final_model is learner.averaged
    horizon = 2 * learner.steps_per_epoch
    name = "head.weight"
    now = dict(learner.model.named_parameters())[name]
    expected = now.detach().clone().double()
    least = 1.0
    for step in range(1, 200):
        monkeypatch.setattr(Learner, "global_step", property(lambda self, step=step: step))
        with torch.no_grad():
            now.copy_(torch.full_like(now, float(step % 5)))
        learner.on_train_batch_end(None, torch.zeros(1), 0)
        share = max(1 / (1 + horizon), 1 / (2 + 0.2 * step))
        least = min(least, share)
        expected += share * (step % 5 - expected)
    assert least == 1 / (1 + horizon)  # so long is the memory in the end
    kept = dict(learner.averaged.named_parameters())[name]
    torch.testing.assert_close(kept.double(), expected, rtol=0, atol=1e-5)
    assert not kept.requires_grad


def test_without_averaging_the_weights_themselves_are_kept() -> None:
    learner = _learner()
    learner.on_train_batch_end(None, torch.zeros(1), 0)
    assert learner.final_model is learner.model


def test_the_random_bits_of_a_step_are_a_function_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def draw(seed: int, step: int) -> float:
        learner = _learner(seed=seed)
        monkeypatch.setattr(Learner, "global_step", property(lambda self: step))
        torch.manual_seed(99)
        learner.on_train_batch_start(torch.zeros(1), 0)
        return float(torch.rand(1, dtype=torch.float64))

    assert draw(0, 7) == draw(0, 7)
    assert len({draw(seed, step) for seed in (0, 1) for step in (0, 1, 2)}) == 6


def test_decay_pulls_at_matrices_only() -> None:
    learner = _learner(decay=0.3, lr=0.25)
    groups = learner.configure_optimizers()["optimizer"].param_groups
    for group in groups:
        assert {p.ndim >= 2 for p in group["params"]} == {group["weight_decay"] == 0.3}
    assert sorted(group["weight_decay"] for group in groups) == [0, 0.3]
    assert sum(len(group["params"]) for group in groups) == len(list(learner.model.parameters()))
    assert groups[0]["initial_lr"] == 0.25


def test_the_loss_falls_on_an_easy_task(tmp_path: Path) -> None:
    options = SMALL | {"preset": "plain", "epochs": 8, "warmup": 4, "lr": 0.02, "dropout": 0.0, "average": 1}
    run = train(_graph(), out=tmp_path / "run", quiet=True, **options)
    with (tmp_path / "run/metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    losses = [float(row["train_loss"]) for row in rows]
    assert len(losses) == 8
    assert losses[0] > 0.9 * math.log(3)  # it begins by guessing
    assert losses[-1] < 0.5 * losses[0]
    assert run.result["test"]["accuracy"] > 0.9  # type: ignore[union-attr]
    assert [float(row["lr"]) for row in rows][-1] < 1e-3  # what the next step would have


@pytest.mark.parametrize(
    ("kind", "metric"), [("classes", "accuracy"), ("labels", "roc_auc"), ("values", "mae")], ids=str
)
def test_labels_that_are_held_out_reach_no_weight_of_a_network(kind: str, metric: str) -> None:
    graph = _graph()
    y: Any = graph.y if kind == "classes" else np.random.default_rng(1).normal(size=(NODES, 2)) > 0
    y = y if kind == "classes" else y.astype(np.float32)
    split = random_split(np.zeros(NODES, dtype=np.int64), "50/25/25", 0)
    config = Config(model="gcn", labels="on", width=8, batch=NODES, metric=metric, epochs=1, epoch_steps=3)

    def learn(labels: Any) -> dict[str, torch.Tensor]:
        data = NodeData(replace(graph, y=labels), "g")
        training = Training.of(config, data, split)
        learner = training.make_learner(training.build())
        optimizer = torch.optim.SGD(learner.parameters(), 0.1)
        for batch in learner.train_dataloader():
            torch.manual_seed(0)
            learner.compute_loss(batch, learner.model)[0].backward()
            optimizer.step()
        return {name: value.clone() for name, value in learner.model.state_dict().items()}

    def turn(nodes: Any) -> dict[str, torch.Tensor]:
        changed = y.copy()
        changed[nodes] = (changed[nodes] + 1) % 3 if kind == "classes" else 1 - changed[nodes]
        return learn(changed)

    weights, held, told = learn(y), turn(np.concatenate([split.val, split.test])), turn(split.train[:5])
    assert "input_map.label" in weights
    assert all(torch.equal(value, held[name]) for name, value in weights.items())
    assert not all(torch.equal(value, told[name]) for name, value in weights.items())
