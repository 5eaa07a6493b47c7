from __future__ import annotations

import logging
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Batch
from torch_geometric.explain import Explainer, Explanation, ModelConfig

from gpm import GpmError, Run
from gpm.data.synthetic import PlantedMotifs
from gpm.explain.attribution import rank_patterns
from gpm.explain.bag import Bag
from gpm.explain.pyg_explainer import PatternExplainer, PatternExplanation, PatternModule
from gpm.tasks import ValueTask
from tests.explain.runs import NODES, group_graph, ring_graphs, train_houses, train_small, weighted_graph

pytestmark = pytest.mark.usefixtures("one_thread_for_all")
CASES = ("houses", "attention", "labels", "links", "graphs", "values")
LEVELS = {"node": "node", "link": "edge", "graph": "graph"}


@pytest.fixture(scope="module")
def houses(tmp_path_factory: pytest.TempPathFactory, one_thread_for_all: None) -> tuple[Run, PlantedMotifs]:
    return train_houses(tmp_path_factory.mktemp("houses") / "run")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, houses: tuple[Run, PlantedMotifs]) -> dict[str, Run]:
    """A run of every kind: topologies shape, loops and induced; weights, features and none; all levels and answers."""
    folder, random = tmp_path_factory.mktemp("runs"), np.random.default_rng(0)
    several = random.integers(0, 2, (NODES, 3)).astype(np.float32)
    values = random.normal(50, 10, (30, 2)).astype(np.float32)
    return {
        "houses": houses[0],
        "attention": train_small(weighted_graph(), folder / "attention", readout="class"),
        "labels": train_small(weighted_graph(y=several, x=None), folder / "labels"),
        "links": train_small(group_graph(), folder / "links", task="link"),
        "graphs": train_small(ring_graphs(), folder / "graphs", topology="induced"),
        "values": train_small(ring_graphs(values), folder / "values", metric="mae"),
    }


def _inputs(run: Run) -> dict[str, Tensor]:
    graph = run.data.graph
    data = graph.to_pyg()
    data = Batch.from_data_list(data) if isinstance(data, list) else data
    given = {key: data[key] for key in ("x", "edge_index", "edge_attr", "edge_weight", "batch") if key in data}
    if run.data.level == "link":
        given["edge_label_index"] = torch.tensor([[0, 3, 7], [3, 10, 11]])
    return {"x": torch.zeros(graph.num_nodes, 1)} | given


def _explainer(run: Run, about: str = "model", output: int | None = None, **options: Any) -> Explainer:
    several = isinstance(run.task, ValueTask) or getattr(run.task, "multilabel", False)
    module = PatternModule(run, output=1 if several and output is None else output)
    settings = {
        "explanation_type": about, "node_mask_type": "object", "edge_mask_type": "object",
        "model_config": ModelConfig(module.mode, LEVELS[module.level], "raw"),
    }  # fmt: skip
    extra = {key: options.pop(key) for key in list(options) if key in (*settings, "threshold_config")}
    return Explainer(module, PatternExplainer(**options), **settings | extra)


@pytest.fixture(params=CASES)
def run(request: pytest.FixtureRequest, runs: dict[str, Run]) -> Run:
    return runs[request.param]


def _visited(explanation: Explanation) -> list[list[int]]:
    return [[node for node in row if node >= 0] for row in explanation.patterns.tolist()]


def _weigh(explanation: Explanation, num_nodes: int) -> Tensor:
    """The node mask from the patterns alone."""
    mask = torch.zeros(num_nodes, dtype=torch.float64)
    for walk, score in zip(_visited(explanation), explanation.pattern_score.tolist(), strict=True):
        mask[list(set(walk))] += max(score, 0.0)
    return (mask / mask.max()).float() if mask.max() > 0 else mask.float()


@pytest.mark.parametrize("index", [2, [0, 2]])
def test_masks_are_the_scores_of_the_patterns(run: Run, index: Any) -> None:
    given = _inputs(run)
    found = _explainer(run)(**given, index=index if isinstance(index, int) else torch.tensor(index))
    assert found.validate()
    assert sorted(found.available_explanations) == ["edge_mask", "node_mask"]
    assert (found.patterns.dtype, found.patterns.shape[1]) == (torch.int64, 1 + max(run.config.lengths))
    assert found.node_mask.shape == (len(given["x"]), 1)
    assert (found.pattern_score.diff() <= 0).all()
    torch.testing.assert_close(found.node_mask[:, 0], _weigh(found, len(given["x"])))
    mask = dict(zip(map(tuple, given["edge_index"].T.tolist()), found.edge_mask.tolist(), strict=True))
    assert mask == {(v, u): weight for (u, v), weight in mask.items()}
    good = [walk for walk, score in zip(_visited(found), found.pattern_score, strict=True) if score > 0]
    stepped = {step for walk in good for step in pairwise(walk) if step[0] != step[1]}
    near = {(a, b) for walk in good for a in walk for b in walk}
    assert stepped <= mask.keys()
    assert stepped <= {edge for edge, weight in mask.items() if weight > 0} <= near
    if run.config.topology == "loops":
        assert {edge for edge, weight in mask.items() if weight > 0} == stepped | {(b, a) for a, b in stepped}
    if stepped:
        assert max(mask.values()) == 1.0


def test_patterns_are_those_of_the_predicted_class(runs: dict[str, Run]) -> None:
    for name in ("houses", "attention"):
        run = runs[name]
        found = _explainer(run)(**_inputs(run), index=4)
        ranking = rank_patterns(Bag.draw(run.predictor, run.task, np.array([4])))  # type: ignore[arg-type]
        assert found.target[4] == ranking.target == run.predict().logits[4].argmax()
        np.testing.assert_allclose(found.pattern_score, ranking.scores, rtol=1e-5)
        assert {row[0] for row in _visited(found) if row} == {4}
        assert found.pattern_name == [group.expected for group in ranking.groups]
        assert [set(row) for row in _visited(found)] == [set(group.nodes) for group in ranking.groups]


def test_attention_is_shared_out_among_the_patterns(runs: dict[str, Run]) -> None:
    run = runs["attention"]
    found = _explainer(run, method="attention")(**_inputs(run), index=torch.tensor([4, 7]))
    assert float(found.pattern_score.sum()) == pytest.approx(2, abs=1e-5)
    assert (found.pattern_score >= 0).all()


def test_any_class_is_explained_as_a_phenomenon(runs: dict[str, Run]) -> None:
    run = runs["attention"]
    explainer = _explainer(run, "phenomenon")
    bag = Bag.draw(run.predictor, run.task, np.array([4]))  # type: ignore[arg-type]
    for place in range(3):
        found = explainer(**_inputs(run), target=torch.full((NODES,), place), index=4)
        np.testing.assert_allclose(found.pattern_score, rank_patterns(bag, target=place).scores, rtol=1e-5)
    with pytest.raises(GpmError, match="target 10 is not a class; give an index from 0 to 2"):
        explainer(**_inputs(run), target=torch.tensor(run.data.graph.y), index=1)


def test_what_speaks_against_a_link_speaks_for_none(runs: dict[str, Run]) -> None:
    explainer, given = _explainer(runs["links"], "phenomenon", method="gradient"), _inputs(runs["links"])
    yes, no = (explainer(**given, target=torch.full((3,), said), index=0) for said in (1, 0))
    torch.testing.assert_close(yes.pattern_score, -no.pattern_score.flip(0))
    torch.testing.assert_close(yes.pattern_score, yes.pattern_score.sort(descending=True)[0])


def test_naming_instances_gives_the_same_as_their_index(runs: dict[str, Run]) -> None:
    for name in ("houses", "graphs", "links"):
        run = runs[name]
        by_index = _explainer(run)(**_inputs(run), index=torch.tensor([1, 2]))
        by_name = _explainer(run)(**_inputs(run), instances=torch.tensor([1, 2]))
        assert torch.equal(by_name.edge_mask, by_index.edge_mask)
        assert torch.equal(by_name.patterns, by_index.patterns)
        assert len(by_name.target.view(-1)) == 2
    with pytest.raises(GpmError, match="index selects no prediction of the model"):
        _explainer(run)(**_inputs(run), index=torch.arange(0))


def test_a_motif_is_found(houses: tuple[Run, PlantedMotifs]) -> None:
    run, motifs = houses
    right = np.flatnonzero((run.predict().labels == motifs.graph.y) & np.isin(motifs.graph.y, (1, 2, 3, 4)))
    given, shares = _inputs(run), []
    explainer = _explainer(run, top=5)
    for node in right[:12]:
        found = explainer(**given, instances=torch.tensor([node]))
        inside = torch.from_numpy(motifs.motif == motifs.motif[node])[given["edge_index"]].all(0)
        shares.append(float(found.edge_mask[inside].sum() / found.edge_mask.sum()))
    assert len(shares) == 12
    print("SHARE", np.mean(shares), len(right))
    assert np.mean(shares) > 0.8


def test_only_the_best_count(runs: dict[str, Run]) -> None:
    for name in ("houses", "links"):
        run = runs[name]
        every, best = (_explainer(run, top=top)(**_inputs(run), index=0) for top in (None, 3))
        assert torch.equal(best.patterns, every.patterns[:3])
        assert torch.equal(best.pattern_score, every.pattern_score[:3])
        assert best.node_mask.count_nonzero() < every.node_mask.count_nonzero()
    both = _explainer(runs["houses"], top=3)(**_inputs(runs["houses"]), index=torch.tensor([0, 1]))
    assert len(both.patterns) == 6  # the best three of each


def test_thresholds_keep_what_they_should(runs: dict[str, Run]) -> None:
    run = runs["houses"]
    found = _explainer(run, threshold_config=("topk", 6))(**_inputs(run), index=0)
    assert (found.edge_mask.count_nonzero(), found.node_mask.count_nonzero()) == (6, 6)
    whole = _explainer(run)(**_inputs(run), index=0)
    assert torch.equal(whole.threshold("topk_hard", 6).edge_mask, (found.edge_mask > 0).float())
    assert torch.equal(whole.threshold("hard", 0.5).node_mask, (whole.node_mask > 0.5).float())


def test_a_subgraph_has_its_patterns_in_its_own_numbers(run: Run) -> None:
    given = _inputs(run)
    found = _explainer(run)(**given, index=2)
    part, rest = found.get_explanation_subgraph(), found.get_complement_subgraph()
    kept = found.node_mask[:, 0].nonzero().view(-1)
    assert part.num_nodes == len(kept)
    good = [walk for walk, score in zip(_visited(found), found.pattern_score, strict=True) if score > 0]
    mapped = [kept[walk].tolist() for walk in _visited(part)]
    assert good == mapped[: len(good)]
    edges = set(map(tuple, part.edge_index.T.tolist()))
    assert {step for walk in _visited(part)[: len(good)] for step in pairwise(walk) if step[0] != step[1]} <= edges
    others = (found.node_mask[:, 0] == 0).nonzero().view(-1)
    assert rest.num_nodes == len(others)
    assert not set(map(tuple, good)) & {tuple(others[walk].tolist()) for walk in _visited(rest) if walk}
    assert part.validate()
    assert rest.validate()


@pytest.mark.parametrize("num_nodes", [3, 4])
def test_patterns_are_not_taken_for_nodes_or_edges(num_nodes: int) -> None:
    patterns, score = torch.tensor([[0, 1, -1], [1, 2, 1], [0, 0, 1]]), torch.tensor([3.0, 2.0, 1.0])
    edges, x = torch.tensor([[0, 1, 2], [1, 2, 0]]), torch.ones(num_nodes, 1)
    whole = PatternExplanation(x=x, edge_index=edges, patterns=patterns, pattern_score=score)
    whole.node_mask, whole.edge_mask = torch.zeros(num_nodes, 1), torch.tensor([0.0, 1.0, 0.0])
    whole.node_mask[1:3] = 1.0
    part = whole.get_explanation_subgraph()
    assert (part.patterns.tolist(), part.pattern_score.tolist()) == ([[0, 1, 0]], [2.0])
    assert whole.subgraph(torch.tensor([1, 0])).patterns.tolist() == [[1, 0, -1], [1, 1, 0]]
    assert torch.equal(whole.edge_subgraph(torch.tensor([1])).patterns, patterns)


def test_only_the_masks_that_are_asked_for_are_made(runs: dict[str, Run]) -> None:
    run = runs["houses"]
    for left_out in ("node_mask", "edge_mask"):
        found = _explainer(run, **{f"{left_out}_type": None})(**_inputs(run), index=0)
        assert left_out not in found
        assert len(found.available_explanations) == 1
        assert len(found.get_explanation_subgraph().patterns)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"node_mask_type": "attributes"}, "PatternExplainer weighs nodes, not features; set node_mask_type"),
        ({"node_mask_type": "common_attributes"}, "PatternExplainer weighs nodes, not features"),
        ({"about": "phenomenon", "method": "attention"}, "attention is the same for every class; for a phenomenon"),
    ],
)
def test_what_it_cannot_do_is_refused(
    runs: dict[str, Run], options: dict[str, Any], reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR), pytest.raises(ValueError, match="'PatternExplainer' does not support the"):
        _explainer(runs["attention"], **options)
    assert reason in caplog.text


def test_settings_that_are_not_the_models_are_refused(runs: dict[str, Run]) -> None:
    for config, sentence in (
        (
            ("binary_classification", "node", "raw"),
            "model_config has mode 'binary_classification', but the model's",
        ),
        (("multiclass_classification", "edge", "raw"), "has task_level 'edge', but the model's is 'node'"),
        (("multiclass_classification", "node", "probs"), "has return_type 'probs', but the model's is 'raw'"),
    ):
        with pytest.raises(GpmError, match=sentence):
            _explainer(runs["houses"], model_config=ModelConfig(*config))(**_inputs(runs["houses"]), index=0)
    for name in ("labels", "values"):
        several = _explainer(runs[name])
        several.model.output = None
        with pytest.raises(GpmError, match=r"outputs; choose one with PatternModule\(run, output=0\)"):
            several(**_inputs(runs[name]), index=0)
    with pytest.raises(GpmError, match=r"explains a PatternModule\(run\), not a torch Linear"):
        several.algorithm(nn.Linear(1, 1), torch.zeros(1, 1), torch.zeros(2, 0).long(), target=torch.zeros(1))
    for options, sentence in (
        ({"method": "magic"}, "method must be one of auto, .*, got 'magic'"),
        ({"top": 0}, "top must be at least 1, got 0"),
    ):
        with pytest.raises(GpmError, match=sentence):
            PatternExplainer(**options)  # type: ignore[arg-type]


def test_of_several_values_the_chosen_one_is_explained(runs: dict[str, Run]) -> None:
    run = runs["values"]
    bag = Bag.draw(run.predictor, run.task, np.array([2]))  # type: ignore[arg-type]
    for output in (0, 1):
        found = _explainer(run, output=output)(**_inputs(run), index=2)
        np.testing.assert_allclose(found.pattern_score, rank_patterns(bag, target=output).scores, rtol=1e-4, atol=1e-6)
