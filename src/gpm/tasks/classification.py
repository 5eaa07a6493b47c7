"""Classification of nodes or graphs: loss, metrics, probabilities. One class each, or several yes-or-no labels."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from gpm.errors import GpmError
from gpm.io.table_files import distinct
from gpm.tasks.metrics import METRICS, chance, cool


@dataclass(frozen=True, eq=False)
class ClassTask:
    """Predict a class, or several yes-or-no labels.

    The metric is accuracy, roc_auc (of class 1 if there are two, else the mean over classes or labels) or f1 (mean over
    classes; over all decisions if there are several labels).
    """

    classes: list[int]  # values of the labels: one per class, or one index per yes-or-no label
    multilabel: bool
    metric: str
    smoothing: float = 0.0  # of the labels in the loss
    # index of the class [N], -1 where unknown, or labels [N, C], NaN where unknown
    targets: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.int64))
    class_names: tuple[str, ...] = ()  # empty if classes are called by their values
    target_names: tuple[str, ...] = ()  # of the label, or of each of several; empty if they have no names

    @classmethod
    def of(cls, labels: NDArray, metric: str, smoothing: float = 0.0, classes: list[int] | None = None) -> ClassTask:
        """Make the task of labels: int `[N]` for classes, by default those that occur; float `[N, C]` for several."""
        if metric not in ("accuracy", "roc_auc", "f1"):
            raise GpmError(f"{metric} is not a metric of classes; choose --metric accuracy, roc_auc or f1.")
        if labels.ndim == 2:
            targets = torch.from_numpy(np.array(labels, dtype=np.float32))
            return cls(list(range(labels.shape[1])), True, metric, smoothing, targets)
        present = np.unique(labels[labels >= 0]).tolist()
        classes = present if classes is None else list(classes)
        if len(classes) < 2:
            raise GpmError(f"All labelled instances are of class {present}; there is nothing to tell apart.")
        if unknown := sorted(set(present) - set(classes)):
            raise GpmError(
                f"An instance is of class {unknown[0]}, which is not a class of the model; its classes are {classes}."
            )
        indices = np.where(labels >= 0, np.searchsorted(classes, labels), -1)
        return cls(classes, False, metric, smoothing, torch.from_numpy(indices.astype(np.int64)))

    @classmethod
    def from_facts(cls, facts: dict[str, Any], labels: NDArray | None) -> ClassTask:
        """Make the task of a trained model, with labels or without."""
        task = cls(facts["classes"], facts["multilabel"], facts["metric"])
        if labels is not None:
            task = cls.of(labels, facts["metric"], facts.get("smoothing", 0.0), facts["classes"])
        classes, targets = (tuple(map(str, facts.get(key) or ())) for key in ("class_names", "target_names"))
        return replace(task, class_names=classes, target_names=targets)

    def facts(self) -> dict[str, Any]:
        """Return what a run folder stores of the task."""
        return {
            "kind": "classes", "metric": self.metric, "multilabel": self.multilabel, "classes": self.classes,
            "smoothing": self.smoothing, "class_names": list(self.class_names), "target_names": list(self.target_names),
        }  # fmt: skip

    @property
    def outputs(self) -> int:
        return len(self.classes)

    @property
    def names(self) -> list[Any]:
        """Names of the classes or labels; values if they have no names."""
        known = self.target_names if self.multilabel and self.target_names else self.class_names
        return list(known) if len(known) == self.outputs else list(self.classes)

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Return the cross-entropy; for several labels, its mean over the known ones."""
        if not self.multilabel:
            return functional.cross_entropy(logits, targets, label_smoothing=self.smoothing)
        known = ~targets.isnan()
        wanted = targets[known] * (1 - self.smoothing) + self.smoothing / 2
        return functional.binary_cross_entropy_with_logits(logits[known], wanted)

    def count(self, targets: Tensor) -> int:
        """Return the number of terms of the loss: instances, or known labels."""
        return int((~targets.isnan()).sum()) if self.multilabel else len(targets)

    def answers(self, logits: Tensor, temperature: float = 1.0) -> Tensor:
        """Return probabilities `[B, C]`: of the classes, adding up to 1, or of each label."""
        logits = cool(logits, temperature)
        return chance(logits) if self.multilabel else logits.softmax(-1)

    def score(self, logits: Tensor, targets: Tensor) -> dict[str, float]:
        """Return the metric, the loss and the accuracy (not of several labels). Shares are between 0 and 1."""
        scores = {self.metric: self._measure(self.metric, logits, targets), "loss": float(self.loss(logits, targets))}
        if self.metric != "accuracy" and not self.multilabel:
            scores["accuracy"] = self._measure("accuracy", logits, targets)
        return scores

    def _measure(self, metric: str, logits: Tensor, targets: Tensor) -> float:
        if metric == "accuracy" and not self.multilabel:
            return float((logits.double().argmax(-1) == targets).double().mean())
        from torchmetrics.functional import classification  # slow to import

        logits = logits.double()  # in float32 the probabilities of certain predictions would all be 1, with equal ranks
        if self.multilabel:
            wanted = torch.where(targets.isnan(), -1, targets).long()
            if metric == "roc_auc":
                return _mean_area(logits.sigmoid(), wanted)
            by_name = {"accuracy": classification.multilabel_accuracy, "f1": classification.multilabel_f1_score}
            return float(by_name[metric](logits.sigmoid(), wanted, self.outputs, average="micro", ignore_index=-1))
        probability = logits.softmax(-1)
        if metric == "f1":
            return float(classification.multiclass_f1_score(probability, targets, self.outputs, average="macro"))
        each = functional.one_hot(targets, self.outputs)
        return _mean_area(probability[:, 1:], each[:, 1:]) if self.outputs == 2 else _mean_area(probability, each)

    def choose(self, answers: NDArray) -> NDArray:
        """Return the most probable class of each instance `[B]`; for several labels, yes or no `[B, C]`."""
        return answers >= 0.5 if self.multilabel else np.asarray(np.take(self.classes, answers.argmax(1)))

    def say(self, answers: NDArray) -> list[Any]:
        """Return the same in the user's names: a class each; of several labels, those that apply."""
        names = self.names
        if not self.multilabel:
            return [names[i] for i in answers.argmax(1).tolist()]
        between = "; " if names != list(self.classes) else " "
        return [between.join(str(names[i]) for i, yes in enumerate(row) if yes) for row in (answers >= 0.5).tolist()]

    def table(self, logits: Tensor, temperature: float = 1.0) -> dict[str, Any]:
        """Return columns: the prediction, and the probability of each class or label.

        The prediction does not depend on the temperature, not even by rounding.
        """
        answers = self.answers(logits, temperature).numpy()
        columns = distinct([f"p_{name}" for name in self.names])
        return {"prediction": self.say(self.answers(logits).numpy())} | {
            column: answers[:, i] for i, column in enumerate(columns)
        }

    def describe(self) -> str:
        """Describe the task: the number of classes, and the metric."""
        what = f"{self.outputs} labels each" if self.multilabel else f"{self.outputs} classes"
        return f"{what}, {METRICS[self.metric].title}"


def _mean_area(probability: Tensor, wanted: Tensor) -> float:
    """Return ROC-AUC, the mean over columns that have both a yes and a no; entries of -1 are unknown."""
    from torchmetrics.functional.classification import binary_auroc

    areas = []
    for column, truth in zip(probability.unbind(1), wanted.unbind(1), strict=True):
        known = truth >= 0
        if (truth[known] == 1).any() and (truth[known] == 0).any():
            areas.append(float(binary_auroc(column[known], truth[known])))
    if not areas:
        raise GpmError("All instances to score are of one class, so ROC-AUC is not defined; use --metric accuracy.")
    return sum(areas) / len(areas)
