"""Do explanations point at what is there, and does a prediction rest on what they point at?

`truth`: in graphs with planted motifs, the five best patterns of a node are held against its motif, beside PyG's
GNNExplainer on a GCN and AttentionExplainer on a GAT, which `tune` has set up on a seed that is not reported.
`deletion`: the best tenth of the patterns is taken from trained models, and random ones are, and the answer is watched.
`overview`: which shapes predictions rest on. `time`: the seconds of one explanation.

    python benchmarks/explain.py truth --seeds 0 1 2
    python benchmarks/explain.py deletion --runs blog=runs/blog
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from planted import BASE, COUNT, EDGES, LEAST_HOPS, MOTIFS, Planted, plant
from rivals import EPOCHS, EXPLAINERS, MASK_EPOCHS, MASK_LR, fit, tune
from table import show_deletion, show_truth

from gpm import Run, train
from gpm.compute import set_threads
from gpm.data.splits import Split, random_split
from gpm.explain.attribution import METHODS, Ranking, choose_method, rank_patterns
from gpm.explain.bag import Bag
from gpm.explain.by_class import survey
from gpm.explain.faithfulness import TENTH, draw_alike, find_best
from gpm.explain.write import save_overview
from gpm.io.atomic import write_json
from gpm.io.environment import describe_environment
from gpm.nn.predictor import Predictor

TUNING_SEED, TUNED_NODES = 100, 8
SPLIT, TOP, NODES = "80/10/10", 5, 25
GPM: dict[str, Any] = {
    "preset": "plain",  # walks alone: beside tokens of what is known exactly, walks have little left to carry
    "lengths": [2, 4, 6, 8], "patterns": 24, "pool": 96, "topology": "shape", "non_backtracking": True, "width": 32,
    "heads": 4, "readout": "class", "anonymous_weight": 1.0, "dropout": 0.1, "epochs": 20, "batch": 64, "lr": 0.005,
    "decay": 0.01, "split": SPLIT,
}  # fmt: skip
ABLATION = "GPM, topology loops"  # what the paper's walks tell of topology
VARIANTS: dict[str, dict[str, Any]] = {
    "GPM": {},
    "GPM, mean readout": {"readout": "mean"},
    ABLATION: {"topology": "loops"},
}
WITHOUT_ATTENTION = tuple(method for method in METHODS[1:] if method != "attention")
EXPLAINED = [
    *(("GPM", method) for method in METHODS[1:]),
    *(("GPM, mean readout", method) for method in WITHOUT_ATTENTION),
    *((ABLATION, method) for method in METHODS[1:]),
    *((name, method) for name, (method, _) in EXPLAINERS.items()),
    ("none", "nearest first"),
    ("none", "random"),
]

LOG = "trials.json"  # what was tuned, beside the results
RECIPES = ("blog", "computers", "motifs")
# Models that read walks alone, whose patterns are what is measured.
OPTIONS: dict[str, dict[str, Any]] = {
    "blog": {
        "preset": "plain", "lengths": [0, 1, 2, 4], "pe": "lap", "pe_dim": 16, "dropout": 0.5, "feature_dropout": 0.8,
        "decay": 0.5, "epochs": 80, "average": 3, "select": "loss",
    },
    "computers": {
        "preset": "plain", "lengths": [1, 2, 4, 8], "bag_of_words": "no", "pe": "lap", "pe_dim": 8, "dropout": 0.3,
        "feature_dropout": 0.2, "decay": 0.5, "epochs": 32,
    },
}  # fmt: skip
DELETED_NODES, DRAWS = 100, 20
SURVEYED = ("mutag", "computers")

COUNTS = ("nodes", "ablation_nodes", "motif_nodes", "candidates")
Scorer = Callable[[int], NDArray]
Answers = tuple[float, float, float]


def _train(name: str, folder: Path) -> Any:
    return train(name, out=folder, quiet=True, **OPTIONS.get(name, {}))


def split_of(planted: Planted, seed: int) -> Split:
    return random_split(planted.y.numpy(), SPLIT, seed)


def motif_nodes(planted: Planted, split: Split, seed: int) -> NDArray[np.int64]:
    """The test part's nodes that belong to motifs, in random order."""
    nodes = np.sort(split.test[planted.owner[split.test] >= 0])
    return np.random.default_rng(seed).permutation(nodes)


def read_trials(out: Path) -> dict[str, Any]:
    """What was chosen for the rivals; tuned now where nobody has."""
    log = out / LOG
    return json.loads(log.read_text(encoding="utf-8")) if log.is_file() else tune_rivals(out)


def tune_rivals(out: Path) -> dict[str, Any]:
    chosen = {}
    for motif in MOTIFS:
        planted = plant(motif, TUNING_SEED)
        split = split_of(planted, TUNING_SEED)
        nodes = motif_nodes(planted, split, TUNING_SEED)[:TUNED_NODES]
        for name in EXPLAINERS:
            found = chosen[f"{motif} {name}"] = tune(name, planted, split, nodes, TUNING_SEED)
            print(f"{motif} {name}: {found['chosen']} {found['explainer']}", flush=True)
    write_json(out / LOG, chosen)
    return chosen


def find_truth(seeds: Sequence[int], motifs: Sequence[str], nodes: int, out: Path) -> None:
    """Explain nodes of planted motifs by all means, and write how well each finds the motifs."""
    began, trials = time.process_time(), read_trials(out)
    found = {motif: [explain_planted(motif, seed, nodes, trials) for seed in seeds] for motif in motifs}
    rows = [describe_row(model, method, found) for model, method in EXPLAINED]
    result = {
        "rows": rows,
        "accuracy": {
            name: {motif: [one["accuracy"][name] for one in found[motif]] for motif in motifs}
            for name in (*VARIANTS, *EXPLAINERS)
        },
        "seeds": list(seeds),
        **{what: {motif: [one[what] for one in found[motif]] for motif in motifs} for what in COUNTS},
        "top": TOP,
        "protocol": f"PyG's ExplainerDataset: {COUNT} motifs on BAGraph({BASE}, {EDGES}); split random {SPLIT}, seed as listed; "
        f"motif nodes of the test part that all models have right, at most {nodes} per graph (with topology loops those of them "
        "that it has right too); candidates are the edges of "
        f"the smallest neighbourhood, from {LEAST_HOPS} hops on, that reaches outside the node's motif; true are those of the "
        f"motif; GPM scores an edge by the sum of its {TOP} best patterns over it; mean over nodes of each node's ROC-AUC",
        "rivals": f"Adam on all nodes at once, {EPOCHS} epochs, the best by validation; options by validation accuracy on "
        f"seed {TUNING_SEED}, of equals and of explainers by ROC-AUC there ({LOG}); GNNExplainer with {MASK_EPOCHS} epochs, rate {MASK_LR}",
        "accuracies": "of the test part; seconds are of one core, the median over nodes",
        "config": GPM, "variants": VARIANTS, "chosen": {name: _choice(trial) for name, trial in trials.items()},
        "cpu_s": round(time.process_time() - began), "date": time.strftime("%Y-%m-%d"), "versions": describe_environment(),
    }  # fmt: skip
    write_json(out / "truth.json", result)
    print(show_truth(result))


def _choice(trial: dict[str, Any]) -> dict[str, Any]:
    return {key: trial[key] for key in ("chosen", "explainer")}


def explain_planted(motif: str, seed: int, most: int, trials: dict[str, Any]) -> dict[str, Any]:
    """Train all models on the graph of a seed and explain nodes that all have right."""
    planted = plant(motif, seed)
    split, y = split_of(planted, seed), planted.y.numpy()
    said, scorers, defaults = train_all(motif, planted, split, seed, trials)
    drawn = motif_nodes(planted, split, seed)
    right = {name: answer == y for name, answer in said.items()}
    nodes = drawn[np.all([right[name][drawn] for name in right if name != ABLATION], axis=0)][:most].tolist()
    found: dict[str, Any] = {
        "accuracy": {name: round(float((s[split.test] == y[split.test]).mean()), 4) for name, s in said.items()},
        "nodes": len(nodes),
        "ablation_nodes": int(right[ABLATION][nodes].sum()),
        "motif_nodes": len(drawn),
        "candidates": statistics.median(int(planted.candidates(v)[0].sum()) for v in nodes),
        "default": defaults,
        "auc": {},
        "seconds": {},
    }
    for key, scorer in scorers.items():
        values, seconds = [], []
        for node in (node for node in nodes if key[0] not in right or right[key[0]][node]):
            began = time.process_time()
            scores = scorer(node)
            seconds.append(time.process_time() - began)
            values.append(planted.auc(node, scores))
        found["auc"][key], found["seconds"][key] = statistics.fmean(values), statistics.median(seconds)
        print(f"{motif} {seed} {key[0]}, {key[1]}: {found['auc'][key]:.4f}, {found['seconds'][key]:.3f} s", flush=True)
    print(f"{motif} {seed}: {len(nodes)} of {len(drawn)} nodes, {found['accuracy']}", flush=True)
    return found


def train_all(
    motif: str, planted: Planted, split: Split, seed: int, trials: dict[str, Any]
) -> tuple[dict[str, NDArray], dict[tuple[str, str], Scorer], dict[str, str]]:
    """What every model says of all nodes; what scores edges for a node, by model and method; and the default methods."""
    said: dict[str, NDArray] = {}
    scorers: dict[tuple[str, str], Scorer] = {}
    defaults: dict[str, str] = {}
    for name, options in VARIANTS.items():
        run = train_on(planted, seed, GPM | options)
        assert np.array_equal(run.split.test, split.test)
        said[name] = run.predictor.logits(np.arange(planted.num_nodes)).argmax(1).numpy()
        defaults[name] = choose_method(draw_bag(run, 0), "auto")
        for method in (method for model, method in EXPLAINED if model == name):
            scorers[name, method] = partial(score_edges, run, planted, method)
    for name, (method, _) in EXPLAINERS.items():
        trial = trials[f"{motif} {name}"]
        rival = fit(name, planted, split, trial["chosen"], seed)
        said[name] = rival.said()
        scorers[name, method] = partial(rival.score_edges, trial["explainer"])
    scorers["none", "nearest first"] = lambda node: -planted.hops(node)[planted.edges].sum(1)
    scorers["none", "random"] = lambda node: np.random.default_rng(node).random(len(planted.edges))
    return said, scorers, defaults


def train_on(planted: Planted, seed: int, options: dict[str, Any]) -> Run:
    with tempfile.TemporaryDirectory() as scratch:
        run = train(planted.graph, out=Path(scratch) / "run", quiet=True, seed=seed, **options)
        assert isinstance(run, Run)
        _ = run.predictor, run.task, run.split  # read while the folder is there
    return run


def score_edges(run: Run, planted: Planted, method: str, node: int) -> NDArray:
    """Scores of the edges `[E]` by the best patterns of a node."""
    ranking = rank_patterns(draw_bag(run, node), method)  # type: ignore[arg-type]
    return planted.spread(ranking.edges(TOP))


def draw_bag(run: Run, node: int) -> Bag:
    assert isinstance(run.predictor, Predictor)
    return Bag.draw(run.predictor, run.task, np.array([node]))


def describe_row(model: str, method: str, found: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """A row of the table: figures by motif, and over all motifs, each over the seeds."""
    values = {motif: [one["auc"][model, method] for one in some] for motif, some in found.items()}
    values["all"] = [statistics.fmean(each) for each in zip(*values.values(), strict=True)]
    seconds = [one["seconds"][model, method] for some in found.values() for one in some]
    return {
        "model": model,
        "method": method,
        "default": all(one["default"].get(model) == method for some in found.values() for one in some),
        "auc": {motif: [round(value, 4) for value in some] for motif, some in values.items()},
        "mean": {motif: round(statistics.fmean(some), 4) for motif, some in values.items()},
        "std": {motif: round(statistics.stdev(some), 4) if len(some) > 1 else 0.0 for motif, some in values.items()},
        "seconds": round(statistics.median(seconds), 4),
    }


def delete(runs: dict[str, Path], count: int, out: Path) -> None:
    """Take the best patterns of nodes away, and random ones, and write by how much the answers fall."""
    began, rows = time.process_time(), []
    with tempfile.TemporaryDirectory() as scratch:
        for name in RECIPES:
            run = Run.open(runs[name]) if name in runs else _train(name, Path(scratch) / name)
            assert isinstance(run, Run)
            rows += delete_from(name, run, count)
    result = {
        "rows": rows,
        "protocol": f"{count} random nodes of the test part, the probability of their predicted class; random ones {DRAWS} times",
        "by": {
            "patterns": "the best tenth of the patterns, with all their walks, beside as many random walks of every length",
            "patterns, any length": "the same beside random patterns with as many walks, whatever their lengths",
            "patterns with edges": "the best tenth of the patterns that leave the node; its own features are never taken away",
            "walks": "walks of the best patterns, up to a tenth of all, beside as many random ones of every length",
        },
        "figures": "drop, random_drop: medians over nodes, and their ratio; node_ratio: the median of the ratios of nodes; odds: "
        "of the log-odds of the (mean) probability; a ratio above all bounds, where only the best lower it, is null",
        "date": time.strftime("%Y-%m-%d"), "cpu_s": round(time.process_time() - began), "versions": describe_environment(),
    }  # fmt: skip
    write_json(out / "deletion.json", result)
    print(show_deletion(result))


def look_over(runs: dict[str, Path], out: Path) -> None:
    """Which shapes predictions on MUTAG and Computers rest on, and the picture of the docs; MUTAG by every method."""
    with tempfile.TemporaryDirectory() as scratch:
        for name in SURVEYED:
            run = Run.open(runs[name]) if name in runs else _train(name, Path(scratch) / name)
            assert isinstance(run, Run)
            folder = Path(scratch) / "overview"
            picture = save_overview(survey(run, top=8 if name == "mutag" else 20, most=300), folder)
            shutil.copy(folder / "overview.json", out / f"{name}.json")
            if name == "mutag":
                shutil.copy(picture, out.parent.parent / "docs/explain-mutag.png")
                for method in METHODS[2:]:  # beside the default
                    save_overview(survey(run, top=8, most=300, method=method), folder)
                    shutil.copy(folder / "overview.json", out / f"{name}-{method}.json")


def time_explanations(runs: dict[str, Path], out: Path) -> None:
    """How long one explanation takes, all draws and curves included; start-up, loading and drawing are not."""
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        for name in RECIPES:
            run = Run.open(runs[name]) if name in runs else _train(name, Path(scratch) / name)
            assert isinstance(run, Run)
            nodes = np.sort(run.split.test)[:: len(run.split.test) // 9][:9]
            run.explain(run.data.graph.name(int(nodes[0])))
            seconds = []
            for node in nodes:
                began = time.perf_counter()
                run.explain(run.data.graph.name(int(node)))
                seconds.append(time.perf_counter() - began)
            rows.append(
                {"data": run.data.title, "median_s": _round(statistics.median(seconds)), "most_s": _round(max(seconds))}
            )
            print(rows[-1], flush=True)
    load = os.getloadavg()[0]
    write_json(
        out / "time.json",
        {"rows": rows, "load": load, "date": time.strftime("%Y-%m-%d"), "versions": describe_environment()},
    )


def delete_from(name: str, run: Run, count: int) -> list[dict[str, Any]]:
    nodes = np.random.default_rng(0).permutation(np.sort(run.split.test))[:count]
    falls: dict[tuple[str, str], list[Answers]] = {}
    default = ""
    for node in nodes:
        bag = draw_bag(run, int(node))
        default = choose_method(bag, "auto")
        for method in METHODS[1:]:
            if method != "attention" or bag.attention() is not None:
                ranking = rank_patterns(bag, method)  # type: ignore[arg-type]
                for unit, answers in measure_falls(ranking, int(node)):
                    falls.setdefault((method, unit), []).append(answers)
    shared = {"recipe": name, "data": run.data.title, "readout": run.config.readout}
    rows = []
    for (method, unit), some in falls.items():
        what = {"method": method, "default": method == default, "by": unit, "nodes": len(some)}
        rows.append(row := shared | what | summarise(np.array(some)))
        print(f"{name} {method} by {unit}: {row['drop']} {row['random_drop']} {row['ratio']}", flush=True)
    return rows


def measure_falls(ranking: Ranking, seed: int) -> Iterator[tuple[str, Answers]]:
    """The answer as it is, without the best, and without random ones on average; by what is taken away."""
    random, best = np.random.default_rng(seed), find_best(ranking, TENTH)
    lengths = ranking.bag.scales
    yield "patterns", leave_out(ranking, best, draw_alike(lengths, best, DRAWS, random))
    yield "patterns, any length", leave_out(ranking, best, draw_as_many(ranking, len(best), random))
    joined = [i for i, group in enumerate(ranking.groups) if group.edges]
    if 0 < len(joined) < len(ranking.groups):
        groups = tuple(ranking.groups[i] for i in joined)
        fewer = replace(ranking, groups=groups, scores=ranking.scores[joined], evidence=ranking.evidence[joined])
        some = find_best(fewer, TENTH)
        yield "patterns with edges", leave_out(ranking, some, draw_alike(lengths, some, DRAWS, random))
    order = np.concatenate([group.walks for group in ranking.groups])[: max(1, round(TENTH * len(lengths)))]
    yield "walks", leave_out(ranking, order, draw_alike(lengths, order, DRAWS, random))


def draw_as_many(ranking: Ranking, count: int, random: np.random.Generator) -> list[NDArray[np.int64]]:
    """So many walks of random patterns: all of a pattern's walks, of the last one as many as fit."""
    orders = (random.permutation(len(ranking.groups)) for _ in range(DRAWS))
    return [np.concatenate([ranking.groups[i].walks for i in order])[:count] for order in orders]


@torch.no_grad()
def leave_out(ranking: Ranking, best: NDArray[np.int64], others: list[NDArray[np.int64]]) -> Answers:
    bag = ranking.bag
    said = bag.answers(bag.leave_out([np.zeros(0, dtype=np.int64), best, *others]))[:, ranking.target].numpy()
    return float(said[0]), float(said[1]), float(said[2:].mean())


def summarise(answers: NDArray) -> dict[str, Any]:
    """Figures over nodes of their answers `[N, 3]`: as they are, without the best, without random ones."""
    drop, random_drop = (answers[:, :1] - answers[:, 1:]).T
    odds = np.log(np.clip(answers, 1e-12, 1)) - np.log(np.clip(1 - answers, 1e-12, 1))
    odds_drop, random_odds = (odds[:, :1] - odds[:, 1:]).T
    return {
        "drop": _round(np.median(drop)), "random_drop": _round(np.median(random_drop)),
        "ratio": _round(ratio(np.median(drop), np.median(random_drop))),
        "node_ratio": _round(np.median([ratio(a, b) for a, b in zip(drop, random_drop, strict=True)])),
        "quartiles": [_round(q) for q in np.quantile(drop, (0.25, 0.75))],
        "random_quartiles": [_round(q) for q in np.quantile(random_drop, (0.25, 0.75))],
        "mean_drop": _round(drop.mean()), "mean_random_drop": _round(random_drop.mean()),
        "mean_ratio": _round(ratio(drop.mean(), random_drop.mean())),
        "odds_drop": _round(np.median(odds_drop)), "random_odds_drop": _round(np.median(random_odds)),
        "odds_ratio": _round(ratio(np.median(odds_drop), np.median(random_odds))),
    }  # fmt: skip


def ratio(drop: float, random_drop: float) -> float:
    """How many times as much; nothing if it does not fall, above all bounds if only it does."""
    if drop <= 0:
        return 0.0
    return float(drop / random_drop) if random_drop > 0 else float("inf")


def _round(value: float) -> float | None:
    return float(f"{value:.4g}") if np.isfinite(value) else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["tune", "truth", "deletion", "overview", "time", "all"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--motifs", nargs="+", choices=MOTIFS, default=list(MOTIFS))
    parser.add_argument(
        "--nodes", type=int, help=f"to explain: {NODES} of each planted graph, {DELETED_NODES} to delete from"
    )
    parser.add_argument(
        "--runs", nargs="+", default=[], help="recipe=folder of runs to delete from; others are trained"
    )
    parser.add_argument("--out", type=Path, default=Path("results/explain"))
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    set_threads(given.threads)
    if given.what in ("tune", "all"):
        tune_rivals(given.out)
    if given.what in ("truth", "all"):
        find_truth(given.seeds, given.motifs, given.nodes or NODES, given.out)
    runs = {name: Path(folder) for name, folder in (pair.split("=", 1) for pair in given.runs)}
    if given.what in ("deletion", "all"):
        delete(runs, given.nodes or DELETED_NODES, given.out)
    if given.what in ("overview", "all"):
        look_over(runs, given.out)
    if given.what in ("time", "all"):
        time_explanations(runs, given.out)


if __name__ == "__main__":
    main()
