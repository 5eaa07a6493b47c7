"""Batches are a function of seed and step, dealt out without overlap, and prepared alike by whoever prepares them."""

from __future__ import annotations

import pickle
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gpm import Config, Graph
from gpm.data.link_data import LinkData
from gpm.data.node_data import NodeData
from gpm.data.splits import Split, random_split
from gpm.nn.predictor import Predictor
from gpm.tasks import ClassTask, LinkTask, make_task
from gpm.training.batches import Batches, Draw, Examples, Loader, Prepared, count_batch

SMALL = {"width": 8, "heads": 2, "lengths": [0, 1, 2], "patterns": 6, "pool": 12, "batch": 10}


def _steps(batches: Batches) -> list[list[int]]:
    return [draw.whole[draw.mine].tolist() for draw in batches]


@given(st.integers(1, 50), st.integers(1, 60), st.integers(0, 2**63 - 1), st.integers(0, 5))
def test_the_batches_of_an_epoch_are_all_instances_once(count: int, size: int, seed: int, epoch: int) -> None:
    batches = Batches(count, size, seed)
    batches.set_epoch(epoch)
    dealt = _steps(batches)
    assert len(dealt) == len(batches)
    assert all(len(batch) == size for batch in dealt[:-1])
    assert sorted(place for batch in dealt for place in batch) == list(range(count))


@given(st.integers(2, 50), st.integers(1, 60), st.integers(0, 5))
def test_a_step_of_a_network_shows_half_of_the_labels_or_more(count: int, batch: int, epoch: int) -> None:
    """Those of the batch are hidden; without labels to read, and for the pattern machine, a batch is as given."""
    size = count_batch(Config(model="gcn", labels="on", batch=batch), "node", count)
    batches = Batches(count, size, 0, steps=7)
    batches.set_epoch(epoch)
    assert all(2 * len(draw.whole) <= count + 1 for draw in batches)
    assert size == batch or 2 * size >= count
    for same in (Config(model="gcn", batch=batch), Config(labels="on", batch=batch)):
        assert count_batch(same, "node", count) == batch


def test_the_order_is_a_function_of_seed_and_epoch() -> None:
    def order(seed: int, epoch: int) -> list[int]:
        batches = Batches(40, 7, seed)
        np.random.seed(0)  # noqa: NPY002 - what others draw does not matter
        batches.set_epoch(epoch)
        return [place for batch in _steps(batches) for place in batch]

    assert order(3, 5) == order(3, 5)
    assert len({tuple(order(seed, epoch)) for seed in (3, 4) for epoch in range(5)}) == 10


def test_the_epoch_may_be_set_until_the_first_batch_is_taken() -> None:
    """Lightning makes the iterator of a resumed run before it says at which epoch it goes on."""
    batches = Batches(40, 7, seed=0)
    early = iter(batches)
    batches.set_epoch(5)
    assert [draw.whole.tolist() for draw in early] == _steps(batches)


@given(st.integers(1, 40), st.integers(1, 50), st.integers(1, 5), st.integers(1, 4), st.integers(0, 3))
def test_ranks_and_parts_share_a_step_without_overlap(
    count: int, size: int, ranks: int, parts: int, epoch: int
) -> None:
    alone = Batches(count, size, 3)
    alone.set_epoch(epoch)
    shares = [Batches(count, size, 3, rank=rank, ranks=ranks, parts=parts) for rank in range(ranks)]
    for share in shares:
        share.set_epoch(epoch)
    drawn = [list(share) for share in shares]
    assert {len(each) for each in drawn} == {len(alone) * parts}  # nobody waits for a step that another lacks
    for i, draw in enumerate(alone):
        mine = [each[i * parts + part] for each, part in product(drawn, range(parts))]
        assert all(other.step == draw.step and np.array_equal(other.whole, draw.whole) for other in mine)
        places = [place for other in mine if not other.idle for place in other.mine.tolist()]
        assert sorted(places) == list(range(len(draw.whole)))
        assert all(len(other.mine) for other in mine)


@given(st.integers(1, 40), st.integers(1, 50), st.integers(1, 20))
def test_an_epoch_of_so_many_steps_goes_on_where_the_last_one_ended(count: int, size: int, steps: int) -> None:
    passes, epochs = Batches(count, size, 3), Batches(count, size, 3, steps=steps)
    assert len(epochs) == steps
    ended: list[list[int]] = []
    for epoch in range(4):
        epochs.set_epoch(epoch)
        ended += _steps(epochs)
    whole: list[list[int]] = []
    for epoch in range(-(-4 * steps // len(passes))):
        passes.set_epoch(epoch)
        whole += _steps(passes)
    assert ended == whole[: 4 * steps]


def _graph(links: bool = False) -> Graph:
    random = np.random.default_rng(0)
    edges = random.integers(0, 60, (2, 120))
    extra: Any = {} if links else {"edge_attr": random.integers(0, 4, (120, 2))}
    return Graph.from_edges(edges, 60, undirected=True, x=random.normal(size=(60, 3)), y=np.arange(60) % 3, **extra)


def _examples(level: str) -> tuple[Examples, Predictor]:
    graph, config = _graph(level == "link"), Config(**SMALL)
    torch.manual_seed(0)
    if level == "link":
        data = LinkData(graph, "g")
        pairs = data.make_split(0, "60/20/20")
        task = LinkTask("mrr", "strict", 0.0, torch.tensor(pairs.labels))
        return Examples(data, task, pairs, 0), Predictor.build(config, data.walked_graph(pairs), 1, "link")
    assert graph.y is not None
    split = random_split(graph.y, "60/20/20", 0)
    return Examples(NodeData(graph, "g"), ClassTask.of(graph.y, "accuracy"), split, 0), Predictor.build(
        config, graph, 3
    )


@pytest.mark.parametrize("level", ["node", "link"])
def test_the_losses_of_all_shares_add_up_to_that_of_the_step(level: str) -> None:
    """With dropout: what is dropped depends on the place in the step, not on who has it."""
    examples, predictor = _examples(level)
    dataset = Prepared(examples, predictor.prepare)

    def loss(ranks: int, parts: int) -> torch.Tensor:
        total = torch.zeros(())
        for rank in range(ranks):
            for draw in list(Batches(len(examples.split.train), 11, 0, rank=rank, ranks=ranks, parts=parts))[-parts:]:
                torch.manual_seed(7)
                batch = dataset[draw]
                if batch.share:
                    total = total + batch.share * examples.task.loss(predictor.compute(batch.content), batch.targets)
        return total

    predictor.model.train()
    expected = loss(1, 1)
    for ranks, parts in ((2, 1), (1, 3), (4, 2), (7, 1)):
        torch.testing.assert_close(loss(ranks, parts), expected)


@given(st.integers(0, 99), st.booleans(), st.sampled_from([0.0, 2.0]), st.sampled_from([0.0, 0.1]))
def test_a_weighted_loss_is_the_mean_over_a_step_for_any_ranks_and_parts(
    seed: int, several: bool, focal: float, smoothing: float
) -> None:
    """Weights of classes are no weights of parts: each part counts by its number of terms."""
    random = np.random.default_rng(seed)
    labels: Any = random.choice(3, 40, p=[0.8, 0.15, 0.05])
    labels[:3] = range(3)
    if several:
        labels = np.where(random.random((40, 2)) < 0.1, np.nan, random.random((40, 2)) < 0.2).astype(np.float32)
    graph = Graph.from_edges([[0], [1]], 40, x=np.ones((40, 2)), y=labels)
    split = Split(np.arange(37), np.array([37, 38]), np.array([39]), "by hand")
    options: dict[str, Any] = {"class_weight": "balanced", "loss": "focal" if focal else "cross_entropy"}
    data = NodeData(graph, "g")
    task = make_task(data, split, Config(metric="f1", smoothing=smoothing, **options))
    examples, logits = Examples(data, task, split, 0), torch.from_numpy(random.normal(size=(40, task.outputs)))

    def losses(ranks: int, parts: int) -> list[float]:
        found: dict[int, float] = {}
        for rank in range(ranks):
            for draw in Batches(37, 11, 0, rank=rank, ranks=ranks, parts=parts):
                inputs, targets, _, _, share = examples.deal(draw)
                if share:
                    part = share * float(task.loss(logits[inputs], targets))
                    found[draw.step] = found.get(draw.step, 0.0) + part
        return list(found.values())

    for ranks, parts in ((2, 1), (1, 3), (4, 2), (11, 1)):
        assert losses(ranks, parts) == pytest.approx(losses(1, 1))


def test_labels_that_are_not_known_have_no_share() -> None:
    labels = np.array([[0, np.nan], [np.nan, np.nan], [1, 1], [np.nan, 0]], dtype=np.float32)
    graph = Graph.from_edges([[0, 1], [2, 3]], 4, x=np.ones((4, 2)), y=labels)
    split = random_split(np.zeros(4), "50/25/25", 0)
    examples = Examples(NodeData(graph, "g"), ClassTask.of(labels, "f1"), split, 0)
    whole = np.arange(2)
    shares = [examples.deal(Draw(0, whole, whole[i : i + 1]))[4] for i in range(2)]
    known = [int(np.isfinite(labels[i]).sum()) for i in split.train]
    assert shares == [count / sum(known) for count in known]


@pytest.mark.parametrize("level", ["node", "link"])
def test_what_is_gathered_is_read_as_the_whole_table_is(level: str) -> None:
    examples, predictor = _examples(level)
    predictor.model.eval()
    inputs, *_ = examples.deal(Draw(0, np.arange(9), np.arange(9)))
    reading, seconds = predictor.prepare(inputs, 5)
    assert set(seconds) == {"sampling", "gathering"}
    assert reading.table.num_nodes == len(torch.unique(predictor.tokenize(inputs, 6, 5).nodes)) - 1
    whole = predictor.model(predictor.tokenize(inputs, 6, 5), predictor.table).logits
    assert torch.equal(predictor.compute(reading), whole)


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_workers_prepare_what_one_process_would(start: str, tmp_path: Path) -> None:
    """From a mapped graph, which no worker copies."""
    graph = Graph.open(_graph().save(tmp_path / "graph"))
    assert graph.y is not None
    config = Config(**SMALL)
    predictor = Predictor.build(config, graph, 3)
    split = random_split(graph.y, "60/20/20", 0)
    dataset = Prepared(
        Examples(NodeData(graph, "g"), ClassTask.of(graph.y, "accuracy"), split, 0), predictor.reader.prepare
    )
    found = []
    for workers in (0, 2):
        loader = Loader(dataset, Batches(len(split.train), 10, 0, steps=3), workers, start if workers else None)
        loader.sampler.set_epoch(2)
        found.append(list(loader))
        assert loader.waited > 0
    for one, other in zip(*found, strict=True):
        assert torch.equal(one.content.patterns.nodes, other.content.patterns.nodes)
        assert torch.equal(one.content.table.node, other.content.table.node)
        assert torch.equal(one.targets, other.targets)


def test_a_mapped_graph_is_handed_on_by_its_files(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    big = Graph.from_edges(random.integers(0, 5000, (2, 60_000)), 5000, x=random.normal(size=(5000, 64)))
    opened = Graph.open(big.save(tmp_path / "graph"))
    content = pickle.dumps(opened)
    assert len(content) < 10_000
    again = pickle.loads(content)
    assert np.array_equal(again.indices, big.indices)
    assert np.array_equal(again.x, opened.x)
    assert not again.indices.flags.writeable
    assert len(pickle.dumps(big)) > 1_000_000  # what is in memory alone goes by value
