"""Loss and metrics of node classification, against their definitions written out."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Tensor

from gpm import GpmError
from gpm.tasks import ClassTask

NAN = float("nan")


def count_pairs(scores: list[float], positive: list[bool]) -> float:
    """ROC-AUC: the share of pairs of a positive and a negative that are in the right order, ties counting a half."""
    upper = [score for score, yes in zip(scores, positive, strict=True) if yes]
    lower = [score for score, yes in zip(scores, positive, strict=True) if not yes]
    pairs = [(a, b) for a in upper for b in lower]
    return sum((a > b) + 0.5 * (a == b) for a, b in pairs) / len(pairs)


def average_precision(scores: list[float], positive: list[bool]) -> float:
    """The mean over positives of the precision among all that score at least as high."""
    each = []
    for score, yes in zip(scores, positive, strict=True):
        if yes:
            above = [other for value, other in zip(scores, positive, strict=True) if value >= score]
            each.append(sum(above) / len(above))
    return sum(each) / len(each)


def f1(found: list[int], wanted: list[int]) -> float | None:
    """`2 TP / (2 TP + FP + FN)`; None if there is neither."""
    right = sum(a and b for a, b in zip(found, wanted, strict=True))
    return 2 * right / (sum(found) + sum(wanted)) if sum(found) + sum(wanted) else None


def _draw(seed: int, count: int, classes: int) -> tuple[Tensor, Tensor]:
    rng = torch.Generator().manual_seed(seed)
    logits = torch.randn(count, classes, generator=rng)
    return logits, torch.randint(0, classes, (count,), generator=rng)


def _task(classes: int, metric: str, smoothing: float = 0.0) -> ClassTask:
    return ClassTask.of(np.arange(classes), metric, smoothing)


@given(st.integers(0, 999), st.integers(1, 30), st.integers(2, 5))
def test_accuracy_is_the_share_of_right_answers(seed: int, count: int, classes: int) -> None:
    logits, targets = _draw(seed, count, classes)
    answers = [row.index(max(row)) for row in logits.tolist()]
    right = [answer == target for answer, target in zip(answers, targets.tolist(), strict=True)]
    assert _task(classes, "accuracy").score(logits, targets)["accuracy"] == pytest.approx(sum(right) / count)


@given(st.integers(0, 999), st.integers(2, 40))
def test_the_roc_auc_of_two_classes_counts_pairs(seed: int, count: int) -> None:
    logits, targets = _draw(seed, count, 2)
    assume(0 < targets.sum() < count)
    logits = (4 * logits).round() / 4  # exact, so that there are ties
    found = _task(2, "roc_auc").score(logits, targets)
    margins = (logits[:, 1] - logits[:, 0]).tolist()
    assert found["roc_auc"] == pytest.approx(count_pairs(margins, targets.bool().tolist()), abs=1e-6)
    assert found["accuracy"] == pytest.approx(float((logits.argmax(1) == targets).float().mean()))


@given(st.integers(0, 999), st.integers(2, 40), st.integers(0, 1))
def test_the_average_precision_of_two_classes_is_that_of_the_positive_one(seed: int, count: int, which: int) -> None:
    logits, targets = _draw(seed, count, 2)
    assume(0 < targets.sum() < count)
    logits = (4 * logits).round() / 4
    found = replace(_task(2, "ap"), positive=which).score(logits, targets)
    margins = (logits[:, which] - logits[:, 1 - which]).tolist()
    assert found["ap"] == pytest.approx(average_precision(margins, (targets == which).tolist()), abs=1e-6)
    assert list(found) == ["ap", "loss", "accuracy", "roc_auc", "f1"]
    for metric in ("roc_auc", "f1", "accuracy"):
        assert found[metric] == _task(2, metric).score(logits, targets)[metric]
        assert next(iter(_task(2, metric).score(logits, targets))) == metric


def test_the_average_precision_of_more_is_the_mean_over_classes_or_labels() -> None:
    logits, targets = _draw(0, 40, 3)
    each = [average_precision(logits.softmax(1)[:, c].tolist(), (targets == c).tolist()) for c in range(3)]
    assert _task(3, "ap").score(logits, targets)["ap"] == pytest.approx(sum(each) / 3, abs=1e-6)
    several, wanted = _several()
    each = []
    for label in range(2):
        there = ~wanted[:, label].isnan()
        each.append(average_precision(several[there, label].tolist(), wanted[there, label].bool().tolist()))
    assert ClassTask.of(wanted.numpy(), "ap").score(several, wanted)["ap"] == pytest.approx(sum(each) / 2)
    with pytest.raises(GpmError, match="so average precision is not defined; use --metric accuracy"):
        _task(2, "ap").score(logits[:2, :2], torch.tensor([1, 1]))


def test_sure_answers_are_still_ranked() -> None:
    """Probabilities of 1 - 1e-9 and 1 - 1e-11 are equal in float32; the ranking must see that the logits are not."""
    logits = torch.tensor([[0.0, 21.0], [0.0, 25.0], [0.0, 23.0], [0.0, 27.0]])
    assert _task(2, "roc_auc").score(logits, torch.tensor([0, 1, 0, 1]))["roc_auc"] == 1.0
    labels = ClassTask.of(np.zeros((4, 2)), "roc_auc")
    wanted = torch.tensor([[0.0, 1], [1, 0], [0, 1], [1, 0]])
    assert labels.score(logits[:, 1:] * torch.tensor([1.0, -1.0]), wanted)["roc_auc"] == 1.0


@given(st.integers(0, 999), st.integers(6, 40))
def test_the_roc_auc_of_more_classes_is_the_mean_of_one_against_all(seed: int, count: int) -> None:
    logits, targets = _draw(seed, count, 3)
    assume(len(targets.unique()) == 3)
    probability = logits.double().softmax(1)
    each = [count_pairs(probability[:, c].tolist(), (targets == c).tolist()) for c in range(3)]
    assert _task(3, "roc_auc").score(logits, targets)["roc_auc"] == pytest.approx(sum(each) / 3, abs=1e-6)


@given(st.integers(0, 999), st.integers(1, 30), st.integers(2, 5))
def test_f1_is_the_mean_over_the_classes_that_occur(seed: int, count: int, classes: int) -> None:
    logits, targets = _draw(seed, count, classes)
    answers = logits.argmax(1)
    each = [f1((answers == c).int().tolist(), (targets == c).int().tolist()) for c in range(classes)]
    known = [value for value in each if value is not None]
    assert _task(classes, "f1").score(logits, targets)["f1"] == pytest.approx(sum(known) / len(known))


def test_the_loss_is_the_cross_entropy() -> None:
    logits, targets = torch.tensor([[1.0, 2.0, 0.5], [0.0, -1.0, 3.0]]), torch.tensor([1, 0])
    log_p = [[v - math.log(sum(math.exp(u) for u in row)) for v in row] for row in logits.tolist()]
    plain = -(log_p[0][1] + log_p[1][0]) / 2
    assert float(_task(3, "accuracy").loss(logits, targets)) == pytest.approx(plain)
    smooth = 0.7 * plain - 0.3 * sum(sum(row) / 3 for row in log_p) / 2
    assert float(_task(3, "accuracy", 0.3).loss(logits, targets)) == pytest.approx(smooth)
    assert _task(3, "accuracy").score(logits, targets)["loss"] == pytest.approx(plain)


@given(st.integers(0, 99), st.sampled_from([0.0, 0.2]), st.booleans(), st.booleans())
def test_weights_and_the_focal_factor_multiply_each_term(
    seed: int, smoothing: float, weighted: bool, focal: bool
) -> None:
    """Also with smoothed labels: the terms are those of the plain loss, one instance or label at a time."""
    rng = torch.Generator().manual_seed(seed)
    logits = torch.randn(9, 3, generator=rng).double()
    for targets in (torch.randint(0, 3, (9,), generator=rng), torch.randint(-1, 2, (9, 3), generator=rng).double()):
        several = targets.is_floating_point()
        wanted = torch.where(targets < 0, NAN, targets) if several else targets
        plain = ClassTask(list(range(3)), several, "f1", smoothing)
        weights = [[0.5, 2.0, 1.0], [3.0, 0.25, 1.5]][: 1 + several]
        task = replace(plain, weights=weights if weighted else [], focal=2.0 if focal else 0.0)
        terms = []
        for row, answer in zip(logits, wanted, strict=True):
            for column in range(3) if several else [int(answer)]:
                if several and answer.isnan()[column]:
                    continue
                truth = int(answer[column]) if several else 0
                chance = float(row.sigmoid()[column] if several else row.softmax(0)[column])
                right = chance if not several or truth else 1 - chance
                one = replace(plain, classes=[0]) if several else plain
                logit, label = (row[[column]], answer[[column]]) if several else (row, answer)
                term = float(one.loss(logit[None], label[None]))
                terms.append((weights[truth][column] if weighted else 1) * (1 - right) ** (2 * focal) * term)
        assert float(task.loss(logits, wanted)) == pytest.approx(sum(terms) / task.count(wanted))


def test_a_focal_loss_of_exponent_zero_is_the_cross_entropy() -> None:
    (logits, wanted), (plain, classes) = _several(), _draw(0, 20, 3)
    for task, scores, targets in (
        (ClassTask.of(wanted.numpy(), "f1", 0.1), logits, wanted),
        (_task(3, "f1", 0.1), plain, classes),
    ):
        even = replace(task, weights=[[1.0] * task.outputs] * 2, focal=0.0)  # which takes the other way
        assert float(even.loss(scores, targets)) == pytest.approx(float(task.loss(scores, targets)))
        assert float(replace(task, focal=2.0).loss(scores, targets)) < float(task.loss(scores, targets))


def test_the_weights_of_the_loss_come_back_from_a_run_folder() -> None:
    task = replace(_task(3, "f1", 0.1), weights=[[0.5, 1.0, 2.0]], focal=2.0)
    assert ClassTask.from_facts(json.loads(json.dumps(task.facts())), np.arange(3)).facts() == task.facts()
    assert not {"weights", "focal"} & set(_task(3, "f1", 0.1).facts())
    assert task.without_costs().loss(*_draw(1, 9, 3)) == _task(3, "f1").loss(*_draw(1, 9, 3))


def _several() -> tuple[Tensor, Tensor]:
    logits = torch.tensor([[1.0, -2.0], [-0.5, 0.3], [0.2, 4.0], [-1.0, -3.0], [2.0, 1.0]])
    wanted = torch.tensor([[1.0, 0.0], [NAN, 1.0], [0.0, NAN], [0.0, 1.0], [1.0, NAN]])
    return logits, wanted


def test_several_labels_leave_out_what_is_not_known() -> None:
    logits, wanted = _several()
    entries = zip(logits.flatten().tolist(), wanted.flatten().tolist(), strict=True)
    known = [(logit, label) for logit, label in entries if not math.isnan(label)]
    assert len(known) == 7
    losses = [math.log(1 + math.exp(-v if w else v)) for v, w in known]
    task = ClassTask.of(wanted.numpy(), "accuracy")
    found = task.score(logits, wanted)
    assert found["loss"] == pytest.approx(sum(losses) / 7, rel=1e-5)
    assert found["accuracy"] == pytest.approx(sum((v > 0) == bool(w) for v, w in known) / 7)
    task = ClassTask.of(wanted.numpy(), "f1")
    expected = f1([int(v > 0) for v, _ in known], [int(w) for _, w in known])
    assert task.score(logits, wanted)["f1"] == pytest.approx(expected)
    task = ClassTask.of(wanted.numpy(), "roc_auc")
    each = []
    for label in range(2):
        there = ~wanted[:, label].isnan()
        each.append(count_pairs(logits[there, label].tolist(), wanted[there, label].bool().tolist()))
    assert task.score(logits, wanted)["roc_auc"] == pytest.approx(sum(each) / 2)
    assert task.outputs == 2
    assert task.multilabel


def test_smoothing_moves_yes_and_no_towards_each_other() -> None:
    logits, wanted = _several()
    task = ClassTask.of(wanted.numpy(), "f1", smoothing=0.2)
    moved = torch.where(wanted == 1, 0.9, torch.where(wanted == 0, 0.1, NAN))
    assert float(task.loss(logits, wanted)) == pytest.approx(
        float(ClassTask.of(wanted.numpy(), "f1").loss(logits, moved))
    )


@given(st.integers(0, 99), st.integers(0, 1), st.sampled_from([0.05, 0.3, 0.5, 0.9]))
def test_a_threshold_decides_between_two_classes(seed: int, positive: int, threshold: float) -> None:
    logits, targets = _draw(seed, 30, 2)
    assume(0 < targets.sum() < 30)
    task = replace(ClassTask.of(np.array([4, 7]), "ap"), positive=positive, threshold=threshold, class_names=("a", "b"))
    said = torch.where(logits.double().softmax(1)[:, positive] >= threshold, positive, 1 - positive)
    assert torch.equal(task.decide(logits), said)
    assert task.choose(logits).tolist() == [[4, 7][i] for i in said.tolist()]
    assert task.say(logits) == task.table(logits, 3.0)["prediction"] == ["ab"[i] for i in said.tolist()]
    scores, usual = task.score(logits, targets), replace(task, threshold=None).score(logits, targets)
    assert scores["accuracy"] == pytest.approx(float((said == targets).float().mean()))
    each = [f1((said == c).int().tolist(), (targets == c).int().tolist()) for c in range(2)]
    assert scores["f1"] == pytest.approx(sum(value for value in each if value is not None) / 2)
    assert [scores[key] for key in ("ap", "roc_auc", "loss")] == [usual[key] for key in ("ap", "roc_auc", "loss")]
    assert ClassTask.from_facts(json.loads(json.dumps(task.facts())), None).threshold == threshold
    assert torch.equal(replace(task, threshold=None).decide(logits), logits.argmax(1))


def test_a_chosen_threshold_is_a_probability_however_sure_the_model_is() -> None:
    for scale in (1e-3, 1.0, 1e3):
        logits, targets = (
            torch.tensor([[0.0, 3.0], [0.0, 2.0], [0.0, 2.5], [0.0, -1.0]]) * scale,
            torch.tensor([1, 0, 1, 0]),
        )
        task = _task(2, "ap").with_threshold(logits, targets)
        assert task.threshold is not None
        assert 0 < task.threshold < 1
        assert scale > 1 or task.decide(logits).tolist() == targets.tolist()
    assert _task(2, "ap").with_threshold(torch.zeros(4, 2), targets).threshold is None


def test_classes_keep_their_own_values() -> None:
    task = ClassTask.of(np.array([7, -1, 40, 3, 7, -1]), "accuracy")
    assert task.classes == [3, 7, 40]
    assert task.targets.tolist() == [1, -1, 2, 0, 1, -1]
    assert task.outputs == 3
    assert not task.multilabel


@pytest.mark.parametrize("labels", [[2, 2, -1, 2], [-1, -1], [0]])
def test_one_class_only_is_refused(labels: list[int]) -> None:
    with pytest.raises(GpmError, match=r"All labelled instances are of class .*; there is nothing to tell apart"):
        ClassTask.of(np.array(labels), "accuracy")


def test_probabilities_add_up_to_one_or_are_of_each_label() -> None:
    logits = torch.tensor([[0.0, 0.0], [1.0, -1.0]])
    one = _task(2, "accuracy").answers(logits)
    torch.testing.assert_close(one.sum(1), torch.ones(2))
    assert float(one[0, 0]) == 0.5
    several = ClassTask.of(np.zeros((2, 2)), "accuracy").answers(logits)
    assert several.tolist() == [[0.5, 0.5], pytest.approx([1 / (1 + math.exp(-1)), 1 / (1 + math.e)])]


def test_a_task_says_what_it_is() -> None:
    assert _task(3, "accuracy").describe() == "3 classes, accuracy"
    assert ClassTask.of(np.zeros((4, 5)), "roc_auc").describe() == "5 labels each, ROC-AUC"


def test_roc_auc_is_the_mean_over_classes_that_occur() -> None:
    """A class that no scored node has (or that all have) says nothing; it does not count as a failure."""
    task = ClassTask.of(np.array([0, 1, 2]), "roc_auc")
    logits, targets = torch.eye(3)[[0, 1, 1, 0]] * 5, torch.tensor([0, 1, 1, 0])
    assert task.score(logits, targets)["roc_auc"] == 1.0
    several = ClassTask.of(np.array([[0.0, 1.0], [1.0, 0.0]]), "roc_auc")
    assert (
        several.score(torch.tensor([[5.0, 1.0], [-5.0, 1.0]]), torch.tensor([[1.0, 0.0], [0.0, 0.0]]))["roc_auc"] == 1.0
    )
    with pytest.raises(GpmError, match="ROC-AUC is not defined"):
        task.score(logits[:1], targets[:1])


def test_the_classes_of_a_model_stay_what_they_are() -> None:
    task = ClassTask.of(np.array([3, 7, -1]), "accuracy", classes=[3, 5, 7])
    assert task.classes == [3, 5, 7]
    assert task.targets.tolist() == [0, 2, -1]
    with pytest.raises(GpmError, match="An instance is of class 4, which is not a class of the model"):
        ClassTask.of(np.array([3, 4]), "accuracy", classes=[3, 5, 7])
