"""Make the shift report of a run on two domains, print it and save it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gpm.compute import alone
from gpm.data.domain_data import DomainData
from gpm.errors import GpmError, whole_number
from gpm.explain.page_shell import check_page
from gpm.inference.opened import OpenedRun
from gpm.io.atomic import write_json, write_text
from gpm.shift.distances import column_distance, compare, compare_columns, cross_fit, find_gap, halve, total_variation
from gpm.shift.result import Column, Distance, Group, Scores, Shift, rounded
from gpm.shift.sample import Outputs, Sample, draw_sample, narrow, read_features, read_nodes
from gpm.shift.topology_shares import compare_lengths, list_topologies, share_out, topology_distance
from gpm.shift.verdict import TITLES, judge, judge_area, write_verdict
from gpm.tasks.metrics import METRICS

NODES, FEWEST = 2000, 20  # per domain
GROUPS = 5  # of test nodes
_AREA_HALVINGS = 3  # of the source, for the classifier's reference
_COLUMNS = 5
JSON, PAGE = "shift.json", "index.html"


@alone()
def report_shift(run: OpenedRun, *, nodes: int = NODES, seed: int = 0, progress: bool = False) -> Shift:
    """Measure how far a target is from its source, how the model scores on it, and which patterns both share.

    Args:
        run: A run that was trained with a target, or with a shift.
        nodes: Largest number of nodes to sample in each domain.
        seed: Seed of the sample; the patterns are those that the model reads in inference.
        progress: Show a progress bar.
    """
    data = run.data
    if not isinstance(data, DomainData) or run.other:
        raise GpmError(f"{run.folder} has no target to compare with its source; train with --target_graph or --shift.")
    if whole_number(nodes, "nodes") < FEWEST:
        raise GpmError(f"nodes must be at least {FEWEST}, got {nodes}.")
    sample = draw_sample(data, run.split, nodes, seed)
    for title, ids in ((data.home_title, sample.source), (data.away_title, sample.target)):
        if len(ids) < FEWEST:
            raise GpmError(f"{title} has {len(ids)} nodes; a report needs at least {FEWEST} of each domain.")
    return _assemble(run, data, sample, read_nodes(run, sample.nodes, progress=progress), seed)


def _assemble(run: OpenedRun, data: DomainData, sample: Sample, outputs: Outputs, seed: int) -> Shift:
    census, notes = outputs.census, list[str]()
    degrees = data.graph.degree()[sample.nodes].astype(np.float64)
    distances = [_compare("degrees", degrees[sample.source], degrees[sample.target], find_gap, seed)]
    columns: tuple[Column, ...] = ()
    features: list[Distance] = []
    if data.graph.x is None:
        notes.append("The nodes have no features, so there is nothing to say of them.")
    else:
        columns, compared, features = _compare_features(run, sample, seed)
        distances.append(compared)
    source, target = census.telling[sample.source], census.telling[sample.target]
    distances.append(_compare("topologies", source, target, topology_distance, seed))
    if len(sample.known_target):
        distances.append(_compare_labels(run, data, sample, seed))
    else:
        notes.append("The target has no labels, so there is nothing to compare those of the source with, or to score.")
    odds, embedded = _classify("embeddings_auc", outputs.embedding, sample, seed)
    scores = _score(run, sample, outputs, odds, notes)
    if not census.attention:
        model = f"The readout {run.config.readout}" if run.config.model == "gpm" else f"A {run.config.model}"
        notes.append(f"{model} has no attention over patterns, so patterns are compared by their frequency alone.")
    home, away, shared = share_out(census, sample.source, sample.target, seed)
    every = (*distances, *features, embedded)
    medians = rounded(np.median(degrees[sample.source])), rounded(np.median(degrees[sample.target]))
    return Shift(
        data=data.title, source=data.home_title, target=data.away_title, source_nodes=len(sample.source),
        target_nodes=len(sample.target), seed=seed, verdict=write_verdict(every, scores), notes=tuple(notes),
        distances=every, medians=medians, columns=columns,
        lengths=compare_lengths(census, sample.source, sample.target, seed), scores=scores, topology=census.kind,
        attention=census.attention, topologies=list_topologies(census, sample.source, sample.target),
        found=len(census), source_shares=home, target_shares=away, reference_shared=shared,
    )  # fmt: skip


_MEASURES = {
    "degrees": "Kolmogorov-Smirnov distance: the largest gap between the shares of nodes up to any degree",
    "features": "Mean difference of column means, in standard deviations",
    "topologies": "Total variation: the share of walks that would have to have another topology, over all lengths that "
    "have several",
    "classes": "Total variation: the share of nodes that would have to be of another class",
    "labels": "Mean difference of the shares of nodes that have a label",
    "values": "Kolmogorov-Smirnov distance of what is predicted; of several values, the mean",
    "features_auc": "AUC of a classifier of domains that reads features",
    "embeddings_auc": "AUC of a classifier of domains that reads the model's embeddings",
}


def _compare(name: str, source: Any, target: Any, measure: Callable[[Any, Any], float], seed: int) -> Distance:
    """Measure a distance, and that of two halves of the source."""
    value, reference = map(rounded, compare(source, target, measure, seed))
    return Distance(name, value, reference, judge(value, reference), _MEASURES[name])


def _compare_features(run: OpenedRun, sample: Sample, seed: int) -> tuple[tuple[Column, ...], Distance, list[Distance]]:
    """Return the columns that differ the most, the distance of all, and the AUC of a classifier that reads them."""
    features, titles = read_features(run, sample.nodes)
    source, target = features[sample.source], features[sample.target]
    apart = np.nan_to_num(compare_columns(source, target))
    order = np.argsort(-np.round(np.abs(apart), 9), kind="stable")[:_COLUMNS]
    means = [np.asarray(part.mean(axis=0)).reshape(-1) for part in (source, target)]
    columns = tuple(
        Column(titles[i], rounded(means[0][i]), rounded(means[1][i]), rounded(apart[i]))
        for i in order.tolist()
        if apart[i]
    )
    areas = [_classify("features_auc", narrow(features, seed), sample, seed)[1]] if features.shape[1] else []
    return columns, _compare("features", source, target, column_distance, seed), areas


def _compare_labels(run: OpenedRun, data: DomainData, sample: Sample, seed: int) -> Distance:
    """Measure the distance of the known classes, yes-or-no labels or values."""
    source, target = (data.labels[sample.nodes[part]] for part in (sample.known_source, sample.known_target))
    if run.predicts_values:
        return _compare("values", source, target, _value_gap, seed)
    if data.labels.ndim == 2:
        return _compare("labels", source, target, _label_gap, seed)
    most = int(max(source.max(), target.max())) + 1

    def measure(one: NDArray, two: NDArray) -> float:
        return total_variation(np.bincount(one, minlength=most), np.bincount(two, minlength=most))

    return _compare("classes", source, target, measure, seed)


def _value_gap(source: NDArray, target: NDArray) -> float:
    pairs = zip(source.reshape(len(source), -1).T, target.reshape(len(target), -1).T, strict=True)
    finite = [(one[np.isfinite(one)], two[np.isfinite(two)]) for one, two in pairs]
    return float(np.mean([find_gap(one, two) for one, two in finite if len(one) and len(two)] or [0.0]))


def _label_gap(source: NDArray, target: NDArray) -> float:
    counts = [(np.nansum(each, axis=0), np.isfinite(each).sum(axis=0)) for each in (source, target)]
    both = (counts[0][1] > 0) & (counts[1][1] > 0)
    one, two = (total[both] / number[both] for total, number in counts)
    return float(np.abs(one - two).mean()) if both.any() else 0.0


def _classify(name: str, x: NDArray, sample: Sample, seed: int) -> tuple[NDArray, Distance]:
    """Return the log-odds of the target for all nodes, and the AUC beside that for halves of the source."""
    odds, value = cross_fit(x, sample.away, sample.fold, sample.used)
    mine, folds, areas = x[sample.source], sample.fold[sample.source], []
    for _, two in halve(len(mine), seed, _AREA_HALVINGS):
        second = np.zeros(len(mine), dtype=np.bool_)
        second[two] = True
        areas.append(cross_fit(mine, second, folds, np.ones(len(mine), dtype=np.bool_))[1])
    value = rounded(value)
    return odds, Distance(name, value, rounded(np.mean(areas)), judge_area(value), _MEASURES[name])


def _score(run: OpenedRun, sample: Sample, outputs: Outputs, odds: NDArray, notes: list[str]) -> Scores:
    """Score the source, the target, and groups of the target's nodes by distance."""
    metric = run.task.metric

    def measure(rows: NDArray) -> float | None:
        ids = torch.from_numpy(sample.nodes[rows])
        try:
            scores = run.task.score(outputs.logits[torch.from_numpy(rows)], run.task.targets[ids])
        except GpmError:  # such as an AUC of nodes of one class
            return None
        return rounded(scores[metric]) if np.isfinite(scores[metric]) else None

    order = sample.test[np.argsort(odds[sample.test], kind="stable")]
    parts = np.array_split(order, GROUPS) if len(order) >= GROUPS else []
    if len(sample.test) and not parts:
        notes.append(f"The test split of the target has {len(sample.test)} nodes, too few for {GROUPS} groups.")
    groups = [Group(len(part), rounded(torch.from_numpy(odds[part]).sigmoid().mean()), measure(part)) for part in parts]
    if any(group.score is None for group in groups):
        notes.append(f"{METRICS[metric].title} says nothing of a group whose nodes are all of one class.")
    target = measure(sample.test) if len(sample.test) else None
    source = measure(sample.val) if len(sample.val) else None
    return Scores(metric, source, len(sample.val), target, len(sample.test), tuple(groups))


def save_shift(shift: Shift, page: Path) -> Path:
    """Write a report as a page and, beside it, as JSON: of the same name, or `shift.json` beside an index.html.

    Returns the JSON file.
    """
    from gpm.shift.page import page_text

    check_page(page)
    beside = page.with_name(JSON) if page.name == PAGE else page.with_suffix(".json")
    write_json(beside, {"format": 1} | shift.to_dict())
    write_text(page, page_text(shift))
    return beside


def tell_shift(shift: Shift) -> list[str]:
    """Return a report as lines to print."""
    lines = [shift.verdict, f"{'':<24} {'distance':>8} {'halves of the source':>22}"]
    lines += [f"{TITLES[d.name]:<24} {d.value:>8.3f} {d.reference:>22.3f}  {d.word}" for d in shift.distances]
    return [*lines, *shift.notes]
