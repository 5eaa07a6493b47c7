"""A linear model and boosted trees on columns of instances, fitted to the training split with scikit-learn."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gpm.training.baseline_question import Logits, Question
from gpm.training.instance_columns import MOST_ROWS, neighbourhood_columns, sample_rows, structure_columns

STRENGTHS = (1.0, 0.1, 0.01, 0.001)  # of the L2 penalty, per instance
MOST_FIT = 2e8  # rows x columns x outputs of a linear fit: some seconds
TREE_COLUMNS = 64  # to which wide features are reduced before trees read them
ROUNDS, MOST_TREES, STAGE = 100, 1000, 10  # of boosting; trees over all outputs; rounds between candidates


@dataclass(frozen=True, eq=False)
class Problem:
    """The task of one model: the classes, one yes-or-no label, or one number."""

    output: int  # column of the targets
    ids: NDArray[np.int64]  # instances of the training split whose target is known
    wanted: NDArray[np.floating]  # their classes, labels or numbers


def fit_linear(question: Question) -> Iterator[Logits]:
    """Yield the logits of a logistic or ridge regression on `[x, Px, P²x]` for each strength of regularisation."""
    from sklearn.linear_model import LogisticRegression, Ridge

    columns = _standardise(neighbourhood_columns(question.graph, question.level, question.train), question.train)
    entries = columns.nnz / columns.shape[0] if sp.issparse(columns) else columns.shape[1]
    most = min(MOST_ROWS, 100 + int(MOST_FIT / (1 + entries * question.targets.shape[1])))
    problems, numbers, held = _divide(question, most), question.kind == "values", columns[question.held]
    inputs = [columns[problem.ids] for problem in problems]
    make: Any = Ridge if numbers else partial(LogisticRegression, max_iter=100, tol=1e-3, warm_start=True)
    models = [make() for _ in problems]
    for strength in STRENGTHS:
        for model, rows, problem in zip(models, inputs, problems, strict=True):
            penalty = strength * len(problem.ids)
            model.set_params(**{"alpha": penalty} if numbers else {"C": 1 / penalty}).fit(rows, problem.wanted)
        found = [model.predict(held) if numbers else model.decision_function(held) for model in models]
        yield _join(question, problems, models, found)


def fit_trees(question: Question) -> Iterator[Logits]:
    """Yield the logits of boosted trees on `[x, Px, P²x]`, reduced if wide, and structure, after every tenth round."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    columns = neighbourhood_columns(question.graph, question.level, question.train, TREE_COLUMNS)
    columns = np.concatenate([columns, structure_columns(question.graph, question.level)], axis=1)
    problems, numbers, held = _divide(question, MOST_ROWS), question.kind == "values", columns[question.held]
    rounds = max(STAGE, min(ROUNDS, MOST_TREES // question.targets.shape[1]))
    kind: Any = HistGradientBoostingRegressor if numbers else HistGradientBoostingClassifier
    make = partial(kind, max_iter=rounds, early_stopping=False, random_state=0)
    loss = {"loss": "absolute_error"} if numbers and question.metric == "mae" else {}
    models = [make(**loss).fit(columns[problem.ids], problem.wanted) for problem in problems]
    stages = [model.staged_predict(held) if numbers else model.staged_decision_function(held) for model in models]
    for done, found in enumerate(zip(*stages, strict=True), start=1):
        if done % STAGE == 0:
            yield _join(question, problems, models, list(found))


def _divide(question: Question, most: int) -> list[Problem]:
    """Return a problem per model, of at most so many rows. A label that is always yes or always no needs no model."""
    rows = sample_rows(np.arange(len(question.train)), most)
    ids, targets = question.train[rows], question.targets[rows]
    if question.kind == "classes":
        return [Problem(0, ids, targets.argmax(axis=1))]
    known = np.isfinite(targets)
    problems = [Problem(at, ids[known[:, at]], targets[known[:, at], at]) for at in range(targets.shape[1])]
    return [each for each in problems if question.kind == "values" or np.ptp(each.wanted) > 0]


def _join(question: Question, problems: list[Problem], models: list[Any], found: list[NDArray]) -> Logits:
    """Return the outputs of all models side by side; a class that the training split lacks is never predicted."""
    if question.kind != "classes":
        logits = np.tile(question.to_logits(question.prior), (len(question.held), 1))
        for problem, scores in zip(problems, found, strict=True):
            logits[:, problem.output] = scores.reshape(-1)
        return logits
    scores = found[0].reshape(len(question.held), -1)
    if scores.shape[1] == 1:
        scores = np.concatenate([-scores / 2, scores / 2], axis=1)
    logits = np.full((len(scores), question.targets.shape[1]), -1e3)
    logits[:, models[0].classes_] = scores
    return logits


def _standardise(columns: Any, train: NDArray) -> Any:
    """Return columns with the mean 0 and the deviation 1 in the training split; a column that is constant there is 0.

    Sparse columns stay sparse. They are divided by the root of their deviation: a rare word must not count as much as
    a frequent one.
    """
    if not sp.issparse(columns):
        mean, spread = columns[train].mean(axis=0), columns[train].std(axis=0)
        return (columns - mean) * np.where(spread > 1e-6 * np.abs(mean), 1 / np.maximum(spread, 1e-30), 0)
    rows = columns[train]
    variance = rows.power(2).mean(axis=0) - np.square(rows.mean(axis=0))
    scale = np.where(variance > 0, np.maximum(variance, 1e-30) ** -0.25, 0).astype(np.float32)
    return sp.csr_array(columns @ sp.diags_array(scale))
