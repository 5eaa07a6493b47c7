"""Measures of predictions: per class, over all thresholds, of probabilities, of errors, and intervals of scores."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpm.inference.calibration import BINS

RESAMPLES = 1000
FEWEST = 30  # instances from which resampling tells how far a score varies
FEWEST_SHOWN = 10  # instances of a range that is drawn
REDRAWS = 20  # of labels, to see what is chance in it
POINTS = 200  # of a curve on a page
LEVEL, QUANTILE = 0.95, 1.959964  # of intervals of a score, and the normal quantile that goes with it
COVERAGE = 0.9  # of intervals of numbers

Drawn = NDArray[np.int64]  # how often each instance was drawn


@dataclass(frozen=True, eq=False)
class Statistic:
    """A score as a function of how often each of `count` instances is drawn."""

    measure: Callable[[Drawn], float]
    count: int
    right: int | None = None  # if it is a share of the instances, how many of them are right

    def interval(self) -> tuple[float, float] | None:
        """Return a 95% interval: of a share Wilson's, else by resampling; None of too few instances."""
        if self.right is not None:
            return find_wilson(self.right, self.count)
        return resample(self.measure, self.count) if self.count >= FEWEST else None

    def interval_above(self, other: Statistic) -> tuple[float, float] | None:
        """Return a 95% interval of this score minus another, of the same instances drawn together."""
        if self.count < FEWEST:
            return None
        return resample(lambda drawn: self.measure(drawn) - other.measure(drawn), self.count)


@dataclass(frozen=True)
class ClassScore:
    """How well one class, or one yes-or-no label, is told from the others."""

    name: str
    count: int  # instances that have it
    precision: float
    recall: float
    f1: float
    roc_auc: float | None  # None where all instances have it, or none


@dataclass(frozen=True)
class Calibration:
    """Mean probability and observed frequency in equal ranges of probability that hold enough instances."""

    probability: NDArray[np.float64]
    frequency: NDArray[np.float64]
    error: float  # mean distance of the two over instances, in all ranges
    by_chance: float  # what it would be on average if every probability were right


@dataclass(frozen=True)
class Residuals:
    """Errors of one predicted number, and intervals from the errors on the validation split."""

    name: str
    true: NDArray[np.float64]
    predicted: NDArray[np.float64]
    mae: float
    rmse: float
    r2: float | None  # share of the variance that is explained; None if there is none
    width: float | None  # half of a 90% interval; None without validation errors
    coverage: float | None  # share of the test split inside


def count_confusions(true: NDArray, said: NDArray, classes: int) -> NDArray[np.int64]:
    """Return how many instances of each class (rows) are predicted as each class (columns)."""
    return np.bincount(true * classes + said, minlength=classes * classes).reshape(classes, classes)


def score_class(name: str, true: NDArray[np.bool_], said: NDArray[np.bool_], probability: NDArray) -> ClassScore:
    """Score a class against the others; a ratio without instances is 0."""
    right = int((true & said).sum())
    precision, recall = right / max(int(said.sum()), 1), right / max(int(true.sum()), 1)
    f1 = 2 * precision * recall / (precision + recall) if right else 0.0
    both = bool(true.any() and not true.all())
    area = Ranked.of(true, probability).area(np.ones(len(true), dtype=np.int64)) if both else None
    return ClassScore(name, int(true.sum()), precision, recall, f1, area)


@dataclass(frozen=True, eq=False)
class Ranked:
    """Instances by descending score; those with equal scores are one group."""

    true: NDArray[np.bool_]
    order: NDArray[np.int64]
    starts: NDArray[np.int64]  # of the groups

    @classmethod
    def of(cls, true: NDArray[np.bool_], score: NDArray) -> Ranked:
        order = np.argsort(-score, kind="stable")
        ordered = score[order]
        starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
        return cls(true[order], order, starts)

    def count(self, weight: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the hits and false alarms at each threshold, from the highest one down, given weights of instances."""
        weight = weight[self.order]
        hits, alarms = (np.add.reduceat(weight * mine, self.starts) for mine in (self.true, ~self.true))
        return np.cumsum(hits), np.cumsum(alarms)

    def area(self, weight: NDArray[np.int64]) -> float:
        """Return the area under the ROC curve; NaN without positives or without negatives."""
        hits, alarms = (np.concatenate([[0], each]) for each in self.count(weight))
        whole = float(hits[-1]) * float(alarms[-1])
        if not whole:
            return float("nan")
        return float((np.diff(alarms) * (hits[1:] + hits[:-1]) / 2).sum() / whole)

    def roc(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return false-positive and true-positive rates, thinned for drawing."""
        hits, alarms = self.count(np.ones(len(self.order), dtype=np.int64))
        x, y = (np.concatenate([[0.0], each / max(int(each[-1]), 1)]) for each in (alarms, hits))
        return thin(x, y)

    def precision_recall(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return recall and precision, thinned for drawing."""
        hits, alarms = self.count(np.ones(len(self.order), dtype=np.int64))
        return thin(hits / max(int(hits[-1]), 1), hits / (hits + alarms))


def thin(x: NDArray, y: NDArray) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Keep at most `POINTS` points of a curve, evenly along both of its axes."""
    if len(x) <= POINTS:
        return x, y
    way = np.concatenate([[0.0], np.cumsum(np.abs(np.diff(x)) + np.abs(np.diff(y)))])
    kept = np.unique(np.searchsorted(way, np.linspace(0, way[-1], POINTS)))
    return x[kept], y[kept]


def calibrate(probability: NDArray, right: NDArray[np.bool_]) -> Calibration:
    """Compare stated probabilities with how often they come true, in equal ranges of probability."""
    bins = np.minimum((probability * BINS).astype(np.int64), BINS - 1)
    counts = np.bincount(bins, minlength=BINS)
    stated, found = (np.bincount(bins, each, BINS)[counts > 0] for each in (probability, right))
    random, total = np.random.default_rng(0), max(len(bins), 1)
    drawn = [np.bincount(bins, random.random(len(bins)) < probability, BINS)[counts > 0] for _ in range(REDRAWS)]
    chance = float(np.mean([np.abs(stated - each).sum() for each in drawn])) / total
    held, error = counts[counts > 0], float(np.abs(stated - found).sum()) / total
    enough = held >= min(FEWEST_SHOWN, held.max(initial=0))
    return Calibration((stated / held)[enough], (found / held)[enough], error, chance)


def describe_residuals(
    name: str, true: NDArray, predicted: NDArray, held_true: NDArray, held_predicted: NDArray
) -> Residuals:  # fmt: skip
    """Measure the errors of known numbers; intervals are as wide as the errors on held-out instances say."""
    known, held = np.isfinite(true), np.isfinite(held_true)
    true, predicted = true[known].astype(float), predicted[known].astype(float)
    error = predicted - true
    spread = float(np.square(true - true.mean()).sum()) if len(true) else 0.0
    errors = np.sort(np.abs(held_predicted[held] - held_true[held]).astype(float))
    rank = int(np.ceil((len(errors) + 1) * COVERAGE))  # split conformal
    width = float(errors[rank - 1]) if 0 < rank <= len(errors) else None
    return Residuals(
        name, true, predicted, float(np.abs(error).mean()) if len(true) else 0.0,
        float(np.sqrt(np.square(error).mean())) if len(true) else 0.0,
        1 - float(np.square(error).sum()) / spread if spread else None, width,
        None if width is None else float((np.abs(error) <= width).mean()),
    )  # fmt: skip


def resample(statistic: Callable[[Drawn], float], count: int, seed: int = 0) -> tuple[float, float] | None:
    """Return a 95% bootstrap interval of a statistic of `count` instances; None if it is undefined too often."""
    random, found = np.random.default_rng(seed), []
    for _ in range(RESAMPLES):
        drawn = np.bincount(random.integers(0, count, count), minlength=count)
        found.append(statistic(drawn))
    kept = np.array(found)[np.isfinite(found)]
    if len(kept) < RESAMPLES // 2:
        return None
    low, high = np.quantile(kept, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def find_wilson(right: int, count: int) -> tuple[float, float] | None:
    """Return Wilson's 95% interval of a share, which holds for few instances and shares near 0 and 1 too."""
    if not count:
        return None
    share, square = right / count, QUANTILE**2
    middle = (share + square / (2 * count)) / (1 + square / count)
    half = QUANTILE / (1 + square / count) * math.sqrt(share * (1 - share) / count + square / (4 * count**2))
    return max(0.0, middle - half), min(1.0, middle + half)


def rank_among(edges: NDArray, others: NDArray) -> NDArray[np.float64]:
    """Return the rank of each edge behind all non-edges with at least its score, as Hits@K counts."""
    return np.asarray(1.0 + len(others) - np.searchsorted(np.sort(others), edges))
