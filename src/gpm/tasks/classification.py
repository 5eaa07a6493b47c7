"""Classification of nodes or graphs: loss, metrics, probabilities. One class each, or several yes-or-no labels."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional
from torchmetrics.functional import classification as scores

from gpm.errors import GpmError
from gpm.io.table_files import distinct
from gpm.tasks.metrics import METRICS, chance, cool


@dataclass(frozen=True, eq=False)
class ClassTask:
    """What is predicted is a class, or several yes-or-no labels.

    Attributes:
        classes: The labels' own values: one per class, or one number per yes-or-no label.
        multilabel: Whether an instance has several labels.
        metric: accuracy, roc_auc (of class 1 if there are two, else the mean over classes or labels) or f1 (mean over
            classes; over all decisions if there are several labels).
        smoothing: Label smoothing of the loss.
        targets: Number of the class `[N]`, -1 where unknown, or labels `[N, C]`, NaN where unknown.
        class_names: What the user calls each of the classes; empty if they are known by their values.
        target_names: What the user calls the label, or each of several; empty if they have no names.
    """

    classes: list[int]
    multilabel: bool
    metric: str
    smoothing: float = 0.0
    targets: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.int64))
    class_names: tuple[str, ...] = ()
    target_names: tuple[str, ...] = ()

    @classmethod
    def of(cls, labels: NDArray, metric: str, smoothing: float = 0.0, classes: list[int] | None = None) -> ClassTask:
        """Read the task off the labels: int `[N]` for classes, float `[N, C]` for several labels.

        Args:
            labels: The labels.
            metric: What is reported.
            smoothing: Label smoothing of the loss.
            classes: Those of a trained model; by default those that occur.
        """
        if metric not in ("accuracy", "roc_auc", "f1"):
            raise GpmError(f"{metric} is not a metric of classes; choose --metric accuracy, roc_auc or f1.")
        if labels.ndim == 2:
            targets = torch.from_numpy(np.array(labels, dtype=np.float32))
            return cls(list(range(labels.shape[1])), True, metric, smoothing, targets)
        there = np.unique(labels[labels >= 0])
        known = there if classes is None else np.asarray(classes)
        if len(known) < 2:
            raise GpmError(f"all labelled instances are of class {there.tolist()}; there is nothing to tell apart.")
        if strange := sorted(set(there.tolist()) - set(known.tolist())):
            raise GpmError(
                f"an instance is of class {strange[0]}, which the model does not know; it knows {known.tolist()}."
            )
        numbers = np.where(labels >= 0, np.searchsorted(known, labels), -1)
        return cls(known.tolist(), False, metric, smoothing, torch.from_numpy(numbers.astype(np.int64)))

    @classmethod
    def from_facts(cls, facts: dict[str, Any], labels: NDArray | None) -> ClassTask:
        """The task of a trained model, on some labels or on none."""
        task = cls(facts["classes"], facts["multilabel"], facts["metric"])
        if labels is not None:
            task = cls.of(labels, facts["metric"], facts.get("smoothing", 0.0), facts["classes"])
        classes, targets = (tuple(map(str, facts.get(key) or ())) for key in ("class_names", "target_names"))
        return replace(task, class_names=classes, target_names=targets)

    def facts(self) -> dict[str, Any]:
        """What a run folder remembers."""
        return {
            "kind": "classes", "metric": self.metric, "multilabel": self.multilabel, "classes": self.classes,
            "smoothing": self.smoothing, "class_names": list(self.class_names), "target_names": list(self.target_names),
        }  # fmt: skip

    @property
    def outputs(self) -> int:
        return len(self.classes)

    @property
    def names(self) -> list[Any]:
        """What each class or label is called: its name, or its number if it has none."""
        known = self.target_names if self.multilabel and self.target_names else self.class_names
        return list(known) if len(known) == self.outputs else list(self.classes)

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Cross-entropy; for several labels, its mean over those that are known."""
        if not self.multilabel:
            return functional.cross_entropy(logits, targets, label_smoothing=self.smoothing)
        known = ~targets.isnan()
        wanted = targets[known] * (1 - self.smoothing) + self.smoothing / 2
        return functional.binary_cross_entropy_with_logits(logits[known], wanted)

    def count(self, targets: Tensor) -> int:
        """How many terms the loss has: instances, or labels that are known."""
        return int((~targets.isnan()).sum()) if self.multilabel else len(targets)

    def answers(self, logits: Tensor, temperature: float = 1.0) -> Tensor:
        """`[B, C]`: of the classes, adding up to 1; or of each label."""
        logits = cool(logits, temperature)
        return chance(logits) if self.multilabel else logits.softmax(-1)

    def score(self, logits: Tensor, targets: Tensor) -> dict[str, float]:
        """The metric, and accuracy and loss beside it. Shares are between 0 and 1."""
        found = {self.metric: self._measure(self.metric, logits, targets), "loss": float(self.loss(logits, targets))}
        if self.metric != "accuracy" and not self.multilabel:
            found["accuracy"] = self._measure("accuracy", logits, targets)
        return found

    def _measure(self, metric: str, logits: Tensor, targets: Tensor) -> float:
        logits = logits.double()  # in float32 the probabilities of sure answers would be 1, all of the same rank
        if self.multilabel:
            wanted = torch.where(targets.isnan(), -1, targets).long()
            kinds: dict[str, Any] = {
                "accuracy": scores.multilabel_accuracy,
                "f1": scores.multilabel_f1_score,
            }
            if metric == "roc_auc":
                return _mean_area(logits.sigmoid(), wanted)
            return float(kinds[metric](logits.sigmoid(), wanted, self.outputs, average="micro", ignore_index=-1))
        probability = logits.softmax(-1)
        if metric == "accuracy":
            return float((logits.argmax(-1) == targets).double().mean())
        if metric == "f1":
            return float(scores.multiclass_f1_score(probability, targets, self.outputs, average="macro"))
        each = functional.one_hot(targets, self.outputs)
        return _mean_area(probability[:, 1:], each[:, 1:]) if self.outputs == 2 else _mean_area(probability, each)

    def choose(self, answers: NDArray) -> NDArray:
        """The most probable class of each `[B]`; for several labels, yes or no `[B, C]`."""
        return answers >= 0.5 if self.multilabel else np.asarray(np.take(self.classes, answers.argmax(1)))

    def say(self, answers: NDArray) -> list[Any]:
        """The same in the user's names: a class each; of several labels, those that apply."""
        names = self.names
        if not self.multilabel:
            return [names[i] for i in answers.argmax(1).tolist()]
        between = "; " if names != list(self.classes) else " "
        return [between.join(str(names[i]) for i, yes in enumerate(row) if yes) for row in (answers >= 0.5).tolist()]

    def table(self, logits: Tensor, temperature: float = 1.0) -> dict[str, Any]:
        """The answers by column: prediction, and the probability of each class or label.

        What is predicted does not depend on the temperature, not even by rounding.
        """
        answers = self.answers(logits, temperature).numpy()
        columns = distinct([f"p_{name}" for name in self.names])
        said = self.say(self.answers(logits).numpy())
        return {"prediction": said} | {column: answers[:, i] for i, column in enumerate(columns)}

    def describe(self) -> str:
        """In words: how many classes, and the metric."""
        what = f"{self.outputs} labels each" if self.multilabel else f"{self.outputs} classes"
        return f"{what}, {METRICS[self.metric].title}"


def _mean_area(probability: Tensor, wanted: Tensor) -> float:
    """ROC-AUC, the mean over columns that have both a yes and a no; entries of -1 are unknown."""
    areas = []
    for column, truth in zip(probability.unbind(1), wanted.unbind(1), strict=True):
        known = truth >= 0
        if (truth[known] == 1).any() and (truth[known] == 0).any():
            areas.append(float(scores.binary_auroc(column[known], truth[known])))
    if not areas:
        raise GpmError("all that is to be scored is of one class, so that ROC-AUC says nothing; use --metric accuracy.")
    return sum(areas) / len(areas)
