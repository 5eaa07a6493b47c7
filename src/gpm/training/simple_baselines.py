"""Simple baselines: they take seconds, on the split of a run, and are scored by its own metric.

A baseline reads a `Question`, which holds targets of the training split alone, and yields logits for the held-out
instances, one set per value of its only option. The validation split chooses among them.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Collection, Iterator
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from gpm.data.non_edges import drop_edges
from gpm.data.splits import LinkSplit, Split
from gpm.data.task_data import TaskData
from gpm.errors import GpmError
from gpm.graph.graph import Graph
from gpm.patterns.walk_means import links_of, symmetric_law
from gpm.tasks import Task
from gpm.tasks.metrics import METRICS
from gpm.training.baseline_question import Logits, Question, Scores, log_left_out
from gpm.training.column_models import fit_linear, fit_trees

ALPHAS = (0.5, 0.9, 0.99)  # shares of its neighbours in the label of a node
MOST_PRODUCTS = 50
MOST_WORK = 2e9  # multiplications of a label propagation, or neighbours that are compared: some seconds
BLOCK = 10_000_000  # neighbours in memory at a time

Baseline = Callable[[], Iterator[Logits]]  # logits [V + T, C] of the validation and the test split, for each candidate


def score_baselines(
    data: TaskData, task: Task, split: Split, *, trees: bool = False, only: Collection[str] = ()
) -> Scores:
    """Score every simple baseline that the task has, with the metric of the task.

    A baseline that fails, or that would take too long, is left out, and a log line says why.

    Args:
        data: Data of the run.
        task: Task of the run.
        split: Split of the run. Targets of the test split are read by the final score only.
        trees: Add boosted trees, which take longer.
        only: Names of the baselines to score; by default all.
    """
    scores: Scores = {}
    try:
        baselines = _list_baselines(data, task, split, trees)
    except Exception as error:  # a comparison must not stop a training, whatever the data is like
        log_left_out("every baseline", error)
        return scores
    for name, baseline in baselines.items():
        if only and name not in only:
            continue
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                scores[name] = _score(baseline, task, split)
        except Exception as error:
            log_left_out(name, error)
    return scores


def _list_baselines(data: TaskData, task: Task, split: Split, trees: bool) -> dict[str, Baseline]:
    if isinstance(split, LinkSplit):
        graph = data.walked_graph(split)
        if split.protocol == "paper":
            graph = drop_edges(graph, split.edges_of("val", "test"))
        pairs = split.pairs[np.concatenate([split.val, split.test])]
        kinds = ("common neighbours", "Adamic-Adar", "preferential attachment")
        return {kind: partial(score_pairs, graph, pairs, kind) for kind in kinds}
    import sklearn.linear_model  # noqa: F401 - its thread pools must be there before `_score` limits them

    question = Question.of(data.walked_graph(split), data.level, task, split)
    constants = {"classes": "most frequent class", "labels": "label frequencies"}
    constants["values"] = "median" if task.metric == "mae" else "mean"
    baselines: dict[str, Baseline] = {constants[question.kind]: partial(predict_constant, question)}
    if data.level == "node":
        baselines["label propagation"] = partial(propagate_labels, question)
    baselines["linear model on neighbourhood means"] = partial(fit_linear, question)
    if trees:
        baselines["boosted trees"] = partial(fit_trees, question)
    return baselines


def _score(baseline: Baseline, task: Task, split: Split) -> dict[str, float]:
    """Score the candidate that does best on the validation split."""
    from threadpoolctl import threadpool_limits

    began, better = time.perf_counter(), METRICS[task.metric].larger
    targets = {part: task.targets[torch.tensor(getattr(split, part))] for part in ("val", "test")}
    best, kept = -math.inf, None
    with threadpool_limits(1):  # threads mostly wait for each other here, above all on a busy machine
        for found in baseline():
            logits = torch.from_numpy(np.asarray(found, dtype=np.float64))
            value = task.score(logits[: len(split.val)], targets["val"])[task.metric]
            if (rank := value if better else -value) > best:
                best, kept = rank, logits
    if kept is None:
        raise GpmError("its validation score is not a number")
    test = task.score(kept[len(split.val) :], targets["test"])[task.metric]
    seconds = round(time.perf_counter() - began, 3)
    return {"val": best if better else -best, "test": test, "seconds": seconds}


def predict_constant(question: Question) -> Iterator[Logits]:
    """Yield the shares of the training split, or the mean of numbers; for the metric MAE the median."""
    mean = np.nanmedian(question.targets, axis=0) if question.metric == "mae" else question.prior
    yield np.broadcast_to(question.to_logits(mean), (len(question.held), len(mean)))


def propagate_labels(question: Question) -> Iterator[Logits]:
    r"""Yield the targets of the training split, propagated over edges in both directions by weight.

    With S the normalised adjacency and Y the targets, zero where unknown, the scores are
    :math:`\sum_k \alpha^k S^k Y`, divided by the same sum for the known ones. A node that no target reaches has the
    mean of the training split.
    """
    graph, targets = question.graph, question.targets
    known = np.isfinite(targets)
    mask = known[:, :1] if question.kind == "classes" else known
    width = targets.shape[1] + mask.shape[1]
    products = min(MOST_PRODUCTS, int(MOST_WORK / max(1, graph.num_edges * width)))
    if products < 5:
        raise GpmError(f"{graph.num_edges:,} edges with {width} columns would take too long")
    state = np.zeros((graph.num_nodes, width), dtype=np.float32)
    state[question.train] = np.concatenate([np.where(known, targets, 0), mask], axis=1)
    law = symmetric_law(graph).astype(np.float32)
    sums = [np.zeros((len(question.held), width)) for _ in ALPHAS]
    for power in range(1, products + 1):
        state = law @ state
        for total, alpha in zip(sums, ALPHAS, strict=True):
            total += alpha**power * state[question.held]
    for total in sums:
        values, weight = total[:, : targets.shape[1]], total[:, targets.shape[1] :]
        yield question.to_logits(np.where(weight > 0, values / np.maximum(weight, 1e-300), question.prior))


def score_pairs(graph: Graph, pairs: NDArray, kind: str) -> Iterator[Logits]:
    """Yield scores of pairs `[P, 2]` by their neighbours in the walked graph, edges in both directions."""
    links = links_of(graph)
    degree = np.diff(links.indptr)
    if kind == "preferential attachment":
        yield np.log1p(degree[pairs]).sum(1, keepdims=True)
        return
    effort = degree[pairs].sum(1)
    if effort.sum() > MOST_WORK / 5:
        raise GpmError(f"{len(pairs):,} pairs with {effort.sum():,} neighbours would take too long")
    worth = np.ones(len(degree)) if kind == "common neighbours" else 1 / np.log(np.maximum(degree, 2))
    cuts = np.flatnonzero(np.diff(np.cumsum(effort) // BLOCK)) + 1
    blocks = [links[part[:, 0]].multiply(links[part[:, 1]]) @ worth for part in np.split(pairs, cuts)]
    yield np.concatenate(blocks)[:, None]
