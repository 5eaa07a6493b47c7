"""Details of predicted classes and yes-or-no labels: each against the others, confusions, calibration, mistakes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from gpm.inference.opened import OpenedRun
from gpm.report.charts import Chart, Matrix, Series
from gpm.report.content import MOST_SHOWN, Details, Section, Table, draw_curves, name_instances, show_name
from gpm.report.diagnostics import Calibration, ClassScore, Ranked, Statistic, calibrate, count_confusions, score_class
from gpm.tasks import ClassTask

MOST_CLASSES = 40  # of a matrix of confusions; of more classes, the most frequent confusions are listed
MOST_CURVES = 6  # classes with a curve of their own


def describe_classes(run: OpenedRun, task: ClassTask, logits: Tensor, truth: Tensor) -> Details:
    known = (truth >= 0).numpy()
    true, said = truth.numpy()[known], task.decide(logits).numpy()[known]
    probability = task.answers(logits.double()).numpy()[known]
    names = [str(name) for name in task.names]
    scores = [score_class(name, true == i, said == i, probability[:, i]) for i, name in enumerate(names)]
    calibration = calibrate(probability[np.arange(len(said)), said], said == true)
    binary = len(names) == 2
    drawn = [task.positive] if binary else np.argsort([-score.count for score in scores], kind="stable")[:MOST_CURVES]
    curves = draw_curves([(names[i], true == i, probability[:, i]) for i in drawn])
    tables, figures = [_list_classes(scores)], []
    numbers: dict[str, Any] = {
        "classes": [_plain_score(score) for score in scores], "calibration_error": round(calibration.error, 6),
    }  # fmt: skip
    if len(names) <= MOST_CLASSES:
        confusions = count_confusions(true, said, len(names))
        numbers["confusion"] = confusions.tolist()
        figures.append(Matrix("confusion", "Predicted (columns) and true classes (rows)", names, confusions))
    else:
        tables.append(_list_confusions(names, true, said))
    wrong = np.flatnonzero(said != true)
    certain = probability[np.arange(len(said)), said]
    order = wrong[np.argsort(-certain[wrong], kind="stable")][:MOST_SHOWN]
    ids = run.split.test[np.flatnonzero(known)[order]]
    told = name_instances(run, ids)
    mistakes = Table(
        [run.data.level, "true", "predicted", "probability"],
        [
            [show_name(name), names[true[i]], names[said[i]], f"{certain[i]:.1%}"]
            for name, i in zip(told, order, strict=True)
        ],
        texts=3,
        instances=told,
    )
    ovr = "" if binary else "Each class against the others; the most frequent ones are drawn."
    sections = [
        Section("Classes", "On the test split. Rows of the matrix are true classes; shades are shares of a row.",
                figures, tables),
        Section("Over all thresholds", ovr, curves),
        Section("Can the probabilities be believed?", _tell_calibration(calibration, "the predicted class"),
                [_draw_calibration(calibration, "probability of the predicted class", "share that is right")]),
        _list_mistakes(mistakes, len(wrong), len(true)),
    ]  # fmt: skip
    return Details(sections, numbers=numbers)


def _list_mistakes(table: Table, wrong: int, count: int) -> Section:
    if not wrong:
        return Section("Most confident mistakes", "There are none on the test split.")
    about = f"{wrong:,} of {count:,} are wrong. If a prediction looks right to you, check its label."
    return Section("Most confident mistakes", about, tables=[table])


def describe_labels(run: OpenedRun, task: ClassTask, logits: Tensor, truth: Tensor) -> Details:
    probability, said, wanted = task.answers(logits.double()).numpy(), task.decide(logits).numpy(), truth.numpy()
    known, scores, curves = np.isfinite(wanted), [], []
    for i, name in enumerate(task.names):
        mine = known[:, i]
        true = wanted[mine, i] > 0.5
        if not len(true):
            scores.append(ClassScore(str(name), 0, 0.0, 0.0, 0.0, None))
            continue
        scores.append(score_class(str(name), true, said[mine, i], probability[mine, i]))
        curves.append((str(name), true, probability[mine, i]))
    calibration = calibrate(probability[known], wanted[known] > 0.5)
    curves = sorted(curves, key=lambda each: -int(each[1].sum()))[:MOST_CURVES]
    sections = [
        Section("Labels", "On the test split, with 0.5 as the threshold.", tables=[_list_classes(scores)]),
        Section("Over all thresholds", "The most frequent labels are drawn.", draw_curves(curves)),
        Section("Can the probabilities be believed?", _tell_calibration(calibration, "a label"),
                [_draw_calibration(calibration, "probability of a label", "share that has it")]),
    ]  # fmt: skip
    plain = [_plain_score(score) for score in scores]
    return Details(sections, numbers={"labels": plain, "calibration_error": round(calibration.error, 6)})


def _plain_score(score: ClassScore) -> dict[str, Any]:
    area = {} if score.roc_auc is None else {"roc_auc": round(score.roc_auc, 6)}
    return {
        "name": score.name, "count": score.count, "precision": round(score.precision, 6),
        "recall": round(score.recall, 6), "f1": round(score.f1, 6),
    } | area  # fmt: skip


def _list_classes(scores: Sequence[ClassScore]) -> Table:
    rows = [
        [score.name, f"{score.count:,}", f"{score.precision:.1%}", f"{score.recall:.1%}", f"{score.f1:.1%}",
         "-" if score.roc_auc is None else f"{score.roc_auc:.1%}"]
        for score in scores
    ]  # fmt: skip
    return Table(["class", "in test", "precision", "recall", "F1", "ROC-AUC"], rows)


def _list_confusions(names: Sequence[str], true: NDArray, said: NDArray) -> Table:
    wrong = true != said
    pairs, times = np.unique(np.stack([true[wrong], said[wrong]]), axis=1, return_counts=True)
    order = np.argsort(-times, kind="stable")[:20]
    rows = [[names[pairs[0, i]], names[pairs[1, i]], f"{times[i]:,}"] for i in order]
    return Table(["true", "predicted as", "times"], rows, "Most frequent confusions", texts=2)


def _draw_calibration(calibration: Calibration, x: str, y: str) -> Chart:
    series = [
        Series(calibration.probability, calibration.frequency, "model"),
        Series(np.array([0.0, 1.0]), np.array([0.0, 1.0]), "perfect", "dashed"),
    ]
    return Chart("calibration", "Calibration", x, y, series, (0.0, 1.0), (0.0, 1.0))


def _tell_calibration(calibration: Calibration, of: str) -> str:
    gap, chance = (f"{100 * value:.1f} points" for value in (calibration.error, calibration.by_chance))
    told = f"On average the stated probability of {of} is {gap} away from what is observed"
    if calibration.error <= 1.5 * calibration.by_chance:
        return f"{told}. On so few instances that is chance: right probabilities would be {chance} away."
    return f"{told}; right probabilities would be {chance} away, by chance. gpm predict --calibrate may reduce it."


def find_class_statistic(task: ClassTask, logits: Tensor, truth: Tensor) -> Statistic | None:
    """Return the metric as a function of how often each test instance is drawn; None if it is not resampled."""
    if task.multilabel or not len(truth) or (truth < 0).any():
        return None
    true, said, count = truth.numpy(), task.decide(logits).numpy(), task.outputs
    if task.metric == "accuracy":
        right = said == true
        return Statistic(lambda drawn: float((drawn @ right) / drawn.sum()), len(true), int(right.sum()))
    if task.metric == "f1" and count <= MOST_CLASSES:
        pairs = true * count + said
        return Statistic(lambda drawn: _mean_f1(np.bincount(pairs, drawn, count**2).reshape(count, count)), len(true))
    if task.metric == "roc_auc" and count == 2:
        ranked = Ranked.of(true == 1, (logits[:, 1].double() - logits[:, 0].double()).numpy())
        return Statistic(ranked.area, len(true))
    return None


def _mean_f1(confusions: NDArray) -> float:
    """Return the mean F1 over classes that are true or predicted somewhere, as the metric has it."""
    both = confusions.sum(0) + confusions.sum(1)
    return float((2 * np.diag(confusions)[both > 0] / both[both > 0]).mean())
