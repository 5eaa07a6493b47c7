"""Links from end to end: trained, scored again, asked for pairs and for new neighbours, killed and resumed."""

from __future__ import annotations

import csv
import json
import logging
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpm import GpmError, Graph, Run, train
from gpm.cli.main import main
from gpm.data.link_data import LinkData, LinkSplit
from gpm.training.callbacks import SaveState

SMALL: dict[str, Any] = {
    "task": "link", "width": 16, "heads": 2, "lengths": [0, 1, 2], "patterns": 12, "pool": 24, "batch": 64,
    "epochs": 3, "warmup": 2, "lr": 0.02, "dropout": 0.1,
}  # fmt: skip
NODES, GROUPS = 60, 3


pytestmark = pytest.mark.usefixtures("one_thread_for_all")


def groups() -> Graph:
    """Three groups of nodes called n0, n1, ...; most edges lie inside a group, which a node's features give away."""
    rng = np.random.default_rng(0)
    group = np.arange(NODES) % GROUPS
    one, two = np.triu_indices(NODES, 1)
    kept = rng.random(len(one)) < np.where(group[one] == group[two], 0.4, 0.02)
    x = np.eye(GROUPS)[group] + rng.normal(0, 0.3, (NODES, GROUPS))
    names = [f"n{i}" for i in range(NODES)]
    return Graph.from_edges(np.stack([one[kept], two[kept]]), NODES, undirected=True, x=x, names=names)


def _train(source: Any, out: Path, **options: Any) -> Run:
    run = train(source, out=out, quiet=True, device="cpu", **SMALL | options)
    assert isinstance(run, Run)
    return run


def _table(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A run for each way in which the ends of a link meet."""
    folder = tmp_path_factory.mktemp("links")
    groups().save(folder / "groups")
    return {
        pair: _train(str(folder / "groups"), folder / pair, pair=pair, epochs=epochs).folder
        for pair, epochs in (("joint", 3), ("product", 6))
    }


@pytest.fixture(params=["joint", "product"])
def trained(request: pytest.FixtureRequest, runs: dict[str, Path]) -> Path:
    return runs[request.param]


def test_links_inside_a_group_are_found(trained: Path) -> None:
    result = Run(trained).result
    assert result["test"]["roc_auc"] > 0.7
    assert list(result["test"]) == ["hits@20", "hits@50", "hits@100", "mrr", "roc_auc", "ap", "loss"]
    assert (result["task"], result["metric"], result["data"]) == ("link", "hits@20", "groups")
    assert result["protocol"].startswith("split strict 80/5/15, seed 0; epoch chosen by validation metric")


def test_a_run_scored_again_has_the_same_figures(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = Run.open(trained)
    assert run.evaluate("test") == pytest.approx(run.result["test"], abs=1e-6)
    assert run.evaluate("val") == pytest.approx(run.result["val"], abs=1e-6)
    with pytest.raises(GpmError, match="The train split has edges but no non-edges to rank them against"):
        run.evaluate("train")
    assert main(["evaluate", str(trained)]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith(f"groups, test: Hits@20 {run.result['test']['hits@20']:.2%}, Hits@50 ")
    edges, negatives = (len(each("test")) for each in (run.split.edges_of, run.split.negatives_of))  # type: ignore[attr-defined]
    assert second.startswith(f"{edges} edges and {negatives} non-edges, 24 patterns each, split strict 80/5/15")


@pytest.mark.parametrize(
    ("metric", "kind", "said"), [("mrr", "80/5/15", True), ("mrr", "60/20/20", False), ("ap", "80/5/15", False)]
)
def test_edges_and_non_edges_are_counted_apart_and_unequal_ranks_are_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, metric: str, kind: str, said: bool
) -> None:
    caplog.set_level("INFO", logger="gpm")
    split = _train(groups(), tmp_path / "run", epochs=1, metric=metric, split=kind).split
    assert isinstance(split, LinkSplit)
    train, val, test = (len(split.edges_of(part)) for part in ("train", "val", "test"))
    sizes = f"{train} train, {val} val, {test} test edges; {val} val, {test} test non-edges"
    assert f"split {split.name}: {sizes} ({split.digest})" in caplog.messages
    against = f"do not compare validation with test: validation ranks against {val} non-edges, test against {test}"
    assert (against in caplog.messages) == said


def test_the_table_is_of_the_test_pairs(trained: Path) -> None:
    run, rows = Run.open(trained), _table(trained / "predictions.csv")
    split = run.split
    assert isinstance(split, LinkSplit)
    assert list(rows[0]) == ["source", "target", "probability", "label_true"]
    assert [int(row["label_true"]) for row in rows] == split.labels[split.test].tolist()
    pairs = [[int(row["source"][1:]), int(row["target"][1:])] for row in rows]
    assert pairs == split.pairs[split.test].tolist()
    chance, truth = np.array([float(row["probability"]) for row in rows]), split.labels[split.test]
    above = (chance[truth == 1][:, None] > chance[truth == 0]).mean() + 0.5 * (
        chance[truth == 1][:, None] == chance[truth == 0]
    ).mean()
    assert above == pytest.approx(run.result["test"]["roc_auc"], abs=0.01)


def test_the_parts_are_proved_to_keep_apart(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "check", str(trained)]) == 0
    assert Run(trained).split.digest in capsys.readouterr().out


def test_a_leak_in_the_parts_is_found(
    runs: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first test edge is put into the training part, too, the other way round."""
    folder = Path(shutil.copytree(runs["joint"], tmp_path / "copy"))
    split = Run(folder).split
    assert isinstance(split, LinkSplit)
    edges = [split.edges_of(part) for part in ("train", "val", "test")]
    negatives = [split.negatives_of(part) for part in ("val", "test")]
    edges[0] = np.concatenate([edges[0], edges[2][:1, ::-1]])
    LinkSplit.assemble(edges, negatives, split.name, "strict", NODES).save(folder / "split.npz")
    assert main(["data", "check", str(folder)]) == 2
    said = capsys.readouterr().err
    assert said.startswith("gpm data: ")
    assert said.count("\n") == 1


# Pairs


def test_a_file_of_pairs_is_scored(trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, out = tmp_path / "pairs.csv", tmp_path / "scores.csv"
    file.write_text("source,target,note\nn0,n3,same\nn3,n0,turned\nn0,n1,other\n")
    assert main(["predict", str(trained), "--pairs", str(file), "-o", str(out)]) == 0
    assert capsys.readouterr().out == f"3 pairs of groups written to {out}\n"
    rows = _table(out)
    assert [(row["source"], row["target"]) for row in rows] == [("n0", "n3"), ("n3", "n0"), ("n0", "n1")]
    same, turned, other = (float(row["probability"]) for row in rows)
    assert 0 <= other < same <= 1
    assert turned == pytest.approx(same, abs=1e-4)
    found = Run.open(trained).predict([("n0", "n3"), ("n3", "n0"), ("n0", "n1")])
    assert found.names[0] == ("n0", "n3")
    np.testing.assert_allclose(found.probability[:, 0], [same, turned, other], atol=1e-4)
    assert found.labels.tolist() == [chance >= 0.5 for chance in (same, turned, other)]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("n0,n3\nn0\n", "pairs.csv, line 2: 1 cell(s) instead of 2"),
        ("source,target\nn0, \n", "pairs.csv, line 2: a pair needs two names; fix or remove the row."),
        ("source,target\n", "{file} holds no pairs; write one 'source,target' per line."),
        ("", "pairs.csv has no rows; write one per line"),
        (None, "There is no file {file}; check its name."),
        ("n0,n99\n", "No node is named 'n99'. Did you mean 'n9'?"),
    ],
)
def test_a_file_of_pairs_that_is_none_gets_a_sentence(
    runs: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str | None, sentence: str
) -> None:
    file, out = tmp_path / "pairs.csv", tmp_path / "scores.csv"
    if content is not None:
        file.write_text(content)
    assert main(["predict", str(runs["product"]), "--pairs", str(file), "-o", str(out)]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"gpm predict: {sentence.format(file=file)}")
    assert said.count("\n") == 1
    assert not out.exists()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["-o", "{out}"], "Name a table of pairs with --pairs, or ask for new neighbours with --recommend"),
        (["--pairs", "x.csv"], "Name the table to write, as in -o predictions.csv."),
        (["--recommend", "3"], "Name the table to write, as in -o predictions.csv."),
        (["--node", "n0", "-o", "{out}"], "--node names one node for --recommend 10, --nodes names several; give one"),
        (["--recommend", "3", "--node", "n99"], "No node is named 'n99'. Did you mean 'n9'?"),
    ],
)
def test_what_is_missing_is_asked_for(
    runs: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str
) -> None:
    given = [word.format(out=tmp_path / "out.csv") for word in arguments]
    assert main(["predict", str(runs["product"]), *given]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"gpm predict: {sentence}")
    assert said.count("\n") == 1


@pytest.mark.parametrize("flags", [["--nodes", "n0", "--pairs", "{pairs}"], ["--graphs", "1", "--pairs", "{pairs}"]])
def test_flags_for_another_kind_of_instance_are_not_passed_over(
    runs: dict[str, Path], tmp_path: Path, flags: list[str]
) -> None:
    (tmp_path / "pairs.csv").write_text("n0,n3\n")
    given = [word.format(pairs=tmp_path / "pairs.csv") for word in flags]
    assert main(["predict", str(runs["product"]), *given, "-o", str(tmp_path / "out.csv")]) == 2


# New neighbours


def test_recommended_are_the_likeliest_that_are_no_neighbours_yet(trained: Path) -> None:
    run, graph = Run.open(trained), groups()
    found = run.recommend("n5", 8)
    assert len(found) == 8
    assert {source for source, _ in found.names} == {"n5"}
    near = {graph.name(i) for i in graph.neighbors(5)} | {"n5"}
    others = [name for name in (f"n{i}" for i in range(NODES)) if name not in near]
    assert not near & {target for _, target in found.names}
    chance = found.probability[:, 0]
    assert (np.diff(chance) <= 0).all()
    everyone = run.predict([("n5", name) for name in others]).probability[:, 0]
    np.testing.assert_allclose(chance, np.sort(everyone)[::-1][:8], atol=1e-5)


def test_no_neighbours_or_fewer_cannot_be_asked_for(runs: dict[str, Path]) -> None:
    for top in (0, -1):
        with pytest.raises(GpmError, match=rf"^The number of neighbours to recommend must be at least 1, got {top}\.$"):
            Run.open(runs["product"]).recommend("n5", top)


def test_asking_for_more_than_there_are_gives_all_that_are_left(runs: dict[str, Path]) -> None:
    found = Run.open(runs["product"]).recommend("n5", 1000)
    assert len(found) == NODES - 1 - len(groups().neighbors(5))


def test_neighbours_are_printed_or_written(
    runs: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["predict", str(runs["joint"]), "--recommend", "3", "--node", "n5"]) == 0
    lines = capsys.readouterr().out.splitlines()
    found = Run.open(runs["joint"]).recommend("n5", 3)
    assert lines == [f"{p:>7.2%}  {name}" for (_, name), p in zip(found.names, found.probability[:, 0], strict=True)]
    out = tmp_path / "new.csv"
    assert main(["predict", str(runs["joint"]), "--recommend", "3", "--node", "n5", "-o", str(out)]) == 0
    rows = _table(out)
    assert list(rows[0]) == ["source", "target", "probability"]
    assert [row["target"] for row in rows] == [target for _, target in found.names]


def test_many_nodes_get_their_neighbours_in_one_table(runs: dict[str, Path], tmp_path: Path) -> None:
    run, out = Run.open(runs["product"]), tmp_path / "new.csv"
    (tmp_path / "some.txt").write_text("n5\nn2\nn7\n")
    for chosen, names in (
        (["--nodes", "n5", "n2", "n7"], ["n5", "n2", "n7"]),
        (["--nodes", str(tmp_path / "some.txt")], ["n5", "n2", "n7"]),
        ([], [f"n{i}" for i in range(NODES)]),
    ):
        assert main(["predict", str(runs["product"]), "--recommend", "2", *chosen, "-o", str(out)]) == 0
        pairs = [(row["source"], row["target"]) for row in _table(out)]
        assert pairs == [pair for name in names for pair in run.recommend(name, 2).names]


def test_a_split_and_negatives_of_the_users_own_are_trained_and_scored_with(tmp_path: Path) -> None:
    graph, words = groups(), ("train", "train", "train", "val", "test")
    ends = [(a, b) for a, b in graph.edge_index().T.tolist() if a < b]
    rows = [f"n{a},n{b},{words[i % 5]}" for i, (a, b) in enumerate(ends)]
    none = [f"n{a},n{b}" for a in range(20) for b in range(40, 60) if [a, b] not in graph.edge_index().T.tolist()]
    (tmp_path / "edges.csv").write_text("\n".join(["source,target,split", *rows, ""]))
    (tmp_path / "none.csv").write_text("\n".join([*none, ""]))
    flags = [f"--{key}={value}" for key, value in (SMALL | {"epochs": 1}).items()]
    command = ["train", str(tmp_path / "edges.csv"), "--negatives", str(tmp_path / "none.csv"), "--quiet", *flags]
    assert main([*command, "--out", str(tmp_path / "run"), "--device", "cpu"]) == 0
    run = Run.open(tmp_path / "run")
    split = run.split
    assert isinstance(split, LinkSplit)
    assert split.name == "strict given, seed 0, given negatives"
    for part in ("val", "test"):
        held = {tuple(sorted(run.data.graph.names_of(pair))) for pair in split.edges_of(part)}
        assert held == {tuple(sorted((f"n{a}", f"n{b}"))) for i, (a, b) in enumerate(ends) if words[i % 5] == part}
    assert len(split.negatives_of("val", "test")) == len(none)
    assert run.data.make_split(0).digest == split.digest
    assert main(["data", "check", str(tmp_path / "run")]) == 0
    assert main([*command[:2], "--protocol", "paper", *flags, "--out", str(tmp_path / "paper")]) == 2


# Two sides


def shop() -> Graph:
    """Customers c0, c1, ... and goods g0, g1, ... of three kinds, mostly bought by the customers of their kind."""
    rng = np.random.default_rng(0)
    kept = rng.random((40, 30)) < np.where(np.arange(40)[:, None] % 3 == np.arange(30) % 3, 0.4, 0.02)
    one, two = np.nonzero(kept)
    names = [f"c{i}" for i in range(40)] + [f"g{i}" for i in range(30)]
    return Graph.from_edges(np.stack([one, two + 40]), 70, undirected=True, names=names)


def test_in_a_bipartite_graph_non_edges_and_recommendations_join_the_sides(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="gpm")
    run = _train(shop(), tmp_path / "run", epochs=1)
    assert "the graph is bipartite: non-edges join its sides of 40 and 30 nodes" in caplog.text
    split, data = run.split, run.data
    assert isinstance(split, LinkSplit)
    assert isinstance(data, LinkData)
    assert split.name == "strict 80/5/15, seed 0, bipartite"
    for pairs in (split.pairs, data.draw_negatives(split, 500, 1, 2)):
        assert ((pairs < 40).sum(1) == 1).all()
    again = Run.open(tmp_path / "run", shop())
    assert again.split.digest == split.digest
    for name, other in (("c3", "g"), ("g3", "c")):
        assert {target[0] for _, target in again.recommend(name, 100).names} == {other}
    plain = _train(shop(), tmp_path / "plain", epochs=1, bipartite="no").split
    assert isinstance(plain, LinkSplit)
    assert (plain.name, plain.sides) == ("strict 80/5/15, seed 0", None)
    np.testing.assert_array_equal(plain.edges_of("test"), split.edges_of("test"))
    assert (np.diff(plain.negatives_of("test") < 40) == 0).any()


# Another graph


def test_the_links_of_another_graph_are_scored(trained: Path) -> None:
    """Nothing is held out there, so that all of it is walked; there are no parts to score."""
    graph = groups()
    other = Graph.from_edges(graph.edge_index()[:, :200], NODES, undirected=True, x=graph.x)  # without names
    run = Run.open(trained, other, other=True)
    found = run.predict([(0, 3), (0, 1)])
    assert found.names == [(0, 3), (0, 1)]
    assert found.probability[0] > found.probability[1]
    assert len(run.recommend(0, 4)) == 4
    with pytest.raises(GpmError, match="Only the training data has a split; open the run without"):
        run.evaluate()


# Protocols


def test_the_protocol_of_the_paper_is_named_wherever_its_figures_are(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.INFO, logger="gpm")
    groups().save(tmp_path / "groups")
    run = _train(str(tmp_path / "groups"), tmp_path / "run", protocol="paper", pair="product", epochs=1)
    visible = "paper 80/5/15 (directed edges, full graph walked: test edges are visible)"
    assert visible in run.result["protocol"]
    card = (run.folder / "README.md").read_text(encoding="utf-8")
    assert visible in card
    assert "Protocol paper: the walks see test edges, so do not compare this score" in card
    assert "links, Hits@20, protocol paper" in caplog.text
    assert "do not compare: test edges are visible to the walks under protocol paper; see strict" in caplog.messages
    assert json.loads((run.folder / "model.json").read_text())["protocol"] == "paper"
    assert main(["evaluate", str(run.folder)]) == 0
    assert visible in capsys.readouterr().out
    assert Run.open(run.folder).evaluate() == pytest.approx(run.result["test"], abs=1e-6)


def test_strict_does_not_say_so(runs: dict[str, Path]) -> None:
    card = (runs["joint"] / "README.md").read_text(encoding="utf-8")
    assert "no edge of the validation and test splits" in card
    assert "paper" not in card


# Killed and resumed


class Killed(BaseException):
    """No one catches it."""


def test_a_killed_run_resumes_to_the_same_bits(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usual, config = SaveState.on_train_epoch_end, Run(trained).config

    def dying(self: SaveState, trainer: Any, learner: Any) -> None:
        if trainer.current_epoch == 1:
            raise Killed
        usual(self, trainer, learner)

    with monkeypatch.context() as patched:
        patched.setattr(SaveState, "on_train_epoch_end", dying)
        with pytest.raises(Killed):
            _train(config.data, tmp_path / "run", pair=config.pair, epochs=config.epochs)
    assert not (tmp_path / "run/result.json").exists()
    assert main(["train", "--resume", str(tmp_path / "run"), "--quiet"]) == 0
    for name in ("model.safetensors", "predictions.csv", "split.npz"):
        assert (tmp_path / "run" / name).read_bytes() == (trained / name).read_bytes()
    assert Run(tmp_path / "run").result["test"] == Run(trained).result["test"]


# Graphs that are no ordinary ones


def test_a_graph_too_dense_or_too_small_gets_a_sentence(tmp_path: Path) -> None:
    whole = np.stack(np.triu_indices(12, 1))
    with pytest.raises(GpmError, match="too dense for link prediction"):
        _train(Graph.from_edges(whole, 12, undirected=True), tmp_path / "run")
    with pytest.raises(GpmError, match="too few for 80/5/15: a split would be empty"):
        _train(Graph.from_edges([[0, 1], [1, 2]], 3, undirected=True), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_isolated_nodes_and_pieces_can_be_paired(tmp_path: Path) -> None:
    graph = groups()
    larger = Graph.from_edges(graph.edge_index(), NODES + 2, x=np.vstack([graph.x, np.zeros((2, GROUPS))]))
    for pair in ("joint", "product"):
        run = _train(larger, tmp_path / pair, pair=pair, epochs=1)
        assert np.isfinite(run.predict([(NODES, NODES + 1), (0, NODES), (7, 7)]).probability).all()
