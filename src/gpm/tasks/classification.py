"""Classification of nodes or graphs: loss, metrics, probabilities. One class each, or several yes-or-no labels."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from gpm.errors import GpmError
from gpm.io.table_files import distinct
from gpm.tasks.class_balance import Weights, find_cut
from gpm.tasks.metrics import METRICS, chance, cool

MOST_CERTAIN = 30.0  # log-odds of the farthest threshold: beyond, 1 - p has too few digits
_RANKED = ("roc_auc", "ap")  # metrics of the order of the probabilities
# Fields that a run folder has only where they differ from these values.
_OWN: dict[str, Any] = {"weights": [], "focal": 0.0, "positive": 1, "threshold": None}


@dataclass(frozen=True, eq=False)
class ClassTask:
    """Predict a class, or several yes-or-no labels.

    The metric is accuracy, f1 (mean over classes; over all decisions if there are several labels), roc_auc or ap (mean
    over classes or labels; of two classes roc_auc is the same for both, and ap is that of the positive one).
    """

    classes: list[int]  # values of the labels: one per class, or one index per yes-or-no label
    multilabel: bool
    metric: str
    smoothing: float = 0.0  # of the labels in the loss
    # index of the class [N], -1 where unknown, or labels [N, C], NaN where unknown
    targets: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.int64))
    class_names: tuple[str, ...] = ()  # empty if classes are called by their values
    target_names: tuple[str, ...] = ()  # of the label, or of each of several; empty if they have no names
    weights: Weights = field(default_factory=list)  # of classes or labels in the loss; empty if they are equal
    focal: float = 0.0  # exponent of the focal loss; 0 for the cross-entropy
    positive: int = 1  # of two classes, the index of the rarer one in the training split
    threshold: float | None = None  # probability from which the positive class is predicted; None for argmax

    @classmethod
    def of(cls, labels: NDArray, metric: str, smoothing: float = 0.0, classes: list[int] | None = None) -> ClassTask:
        """Make the task of labels: int `[N]` for classes, by default those that occur; float `[N, C]` for several."""
        if metric not in ("accuracy", "roc_auc", "f1", "ap"):
            raise GpmError(f"{metric} is not a metric of classes; choose --metric accuracy, roc_auc, f1 or ap.")
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
        own = {key: facts[key] for key in _OWN if key in facts}
        return replace(task, class_names=classes, target_names=targets, **own)

    def facts(self) -> dict[str, Any]:
        """Return what a run folder stores of the task; what few tasks have is left out of the others."""
        own = {key: value for key, default in _OWN.items() if (value := getattr(self, key)) != default}
        return {
            "kind": "classes", "metric": self.metric, "multilabel": self.multilabel, "classes": self.classes,
            "smoothing": self.smoothing, "class_names": list(self.class_names), "target_names": list(self.target_names),
        } | own  # fmt: skip

    @property
    def outputs(self) -> int:
        return len(self.classes)

    @property
    def names(self) -> list[Any]:
        """Names of the classes or labels; values if they have no names."""
        known = self.target_names if self.multilabel and self.target_names else self.class_names
        return list(known) if len(known) == self.outputs else list(self.classes)

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        r"""Return the mean over instances, or over known labels, of :math:`w (1 - p)^\gamma H`.

        H is the cross-entropy with smoothed labels, p the probability of the true class or label, w its weight and
        :math:`\gamma` the exponent `focal`. By default w is 1 and :math:`\gamma` is 0.
        """
        if self.multilabel:
            known = ~targets.isnan()
            column = known.nonzero()[:, 1]
            logits, targets = logits[known], targets[known]
        if not self.weights and not self.focal:
            return self._entropy(logits, targets, self.smoothing)
        terms = self._entropy(logits, targets, self.smoothing, "none")
        if self.focal:
            terms = terms * (-torch.expm1(-self._entropy(logits, targets, 0.0, "none"))) ** self.focal
        if self.weights:
            weights = terms.new_tensor(self.weights)
            terms = terms * (weights[targets.long(), column] if self.multilabel else weights[0, targets])
        return terms.mean()

    def _entropy(self, logits: Tensor, targets: Tensor, smoothing: float, reduction: str = "mean") -> Tensor:
        """Return the cross-entropy of classes, or of labels that are all known."""
        if not self.multilabel:
            return functional.cross_entropy(logits, targets, label_smoothing=smoothing, reduction=reduction)
        wanted = targets * (1 - smoothing) + smoothing / 2
        return functional.binary_cross_entropy_with_logits(logits, wanted, reduction=reduction)

    def without_costs(self) -> ClassTask:
        """Return the task whose loss is the plain likelihood of the labels."""
        return replace(self, smoothing=0.0, weights=[], focal=0.0)

    def count(self, targets: Tensor) -> int:
        """Return the number of terms of the loss: instances, or known labels."""
        return int((~targets.isnan()).sum()) if self.multilabel else len(targets)

    def answers(self, logits: Tensor, temperature: float = 1.0) -> Tensor:
        """Return probabilities `[B, C]`: of the classes, adding up to 1, or of each label."""
        logits = cool(logits, temperature)
        return chance(logits) if self.multilabel else logits.softmax(-1)

    def score(self, logits: Tensor, targets: Tensor) -> dict[str, float]:
        """Return the metric, the loss and, of classes, the accuracy. Shares are between 0 and 1.

        Where the metric ranks the instances of two classes (roc_auc or ap), the other one and f1 are there too.
        """
        scores = {self.metric: self._measure(self.metric, logits, targets), "loss": float(self.loss(logits, targets))}
        if self.multilabel:
            return scores
        ranked = self.metric in _RANKED and self.outputs == 2
        more = ["accuracy", *_RANKED, "f1"] if ranked else ["accuracy"]
        return scores | {name: self._measure(name, logits, targets) for name in more if name != self.metric}

    def _measure(self, metric: str, logits: Tensor, targets: Tensor) -> float:
        if metric == "accuracy" and not self.multilabel:
            return float((self.decide(logits) == targets).double().mean())
        from torchmetrics.functional import classification  # slow to import

        logits = logits.double()  # in float32 the probabilities of certain predictions would all be 1, with equal ranks
        if self.multilabel:
            wanted = torch.where(targets.isnan(), -1, targets).long()
            if metric in _RANKED:
                return _mean_area(metric, logits.sigmoid(), wanted)
            by_name = {"accuracy": classification.multilabel_accuracy, "f1": classification.multilabel_f1_score}
            return float(by_name[metric](logits.sigmoid(), wanted, self.outputs, average="micro", ignore_index=-1))
        if metric == "f1":
            said = self.decide(logits)
            return float(classification.multiclass_f1_score(said, targets, self.outputs, average="macro"))
        probability = logits.softmax(-1)
        each = functional.one_hot(targets, self.outputs)
        columns = [self.positive if metric == "ap" else 1] if self.outputs == 2 else list(range(self.outputs))
        return _mean_area(metric, probability[:, columns], each[:, columns])

    def decide(self, logits: Tensor) -> Tensor:
        """Return the index of the predicted class `[B]`; for several labels, yes or no `[B, C]`."""
        if self.multilabel:
            return self.answers(logits) >= 0.5
        if self.threshold is None:
            return logits.double().argmax(-1)
        cut = math.log(self.threshold / (1 - self.threshold))
        return torch.where(self._margin(logits) >= cut, self.positive, 1 - self.positive)

    def choose(self, logits: Tensor) -> NDArray:
        """Return the predicted class of each instance `[B]`; for several labels, yes or no `[B, C]`."""
        decided = self.decide(logits).numpy()
        return decided if self.multilabel else np.asarray(np.take(self.classes, decided))

    def say(self, logits: Tensor) -> list[Any]:
        """Return the same in the user's names: a class each; of several labels, those that apply."""
        names, decided = self.names, self.decide(logits).tolist()
        if not self.multilabel:
            return [names[i] for i in decided]
        between = "; " if names != list(self.classes) else " "
        return [between.join(str(names[i]) for i, yes in enumerate(row) if yes) for row in decided]

    def with_threshold(self, logits: Tensor, targets: Tensor) -> ClassTask:
        """Return the task of two classes with the threshold that is best for some instances, see `find_cut`."""
        cut = find_cut(self._margin(logits).numpy(), (targets == self.positive).numpy(), self.metric)
        if cut is None:
            return replace(self, threshold=None)
        return replace(self, threshold=1 / (1 + math.exp(-min(max(cut, -MOST_CERTAIN), MOST_CERTAIN))))

    def _margin(self, logits: Tensor) -> Tensor:
        """Return the log-odds of the positive one of two classes."""
        return logits[:, self.positive].double() - logits[:, 1 - self.positive].double()

    def table(self, logits: Tensor, temperature: float = 1.0) -> dict[str, Any]:
        """Return columns: the prediction, and the probability of each class or label.

        The prediction does not depend on the temperature, not even by rounding.
        """
        answers = self.answers(logits, temperature).numpy()
        columns = distinct([f"p_{name}" for name in self.names])
        return {"prediction": self.say(logits)} | {column: answers[:, i] for i, column in enumerate(columns)}

    def truth(self, targets: Tensor) -> dict[str, Any]:
        """Return the true class, or a column of 0 and 1 for each of several labels; unknown ones are None or NaN."""
        if self.multilabel:
            columns = distinct([f"label_true_{name}" for name in self.names])
            return {column: targets[:, i].float().numpy() for i, column in enumerate(columns)}
        names, known = [*self.names, None], targets.tolist()  # the last is that of an unknown class, -1
        texts = any(isinstance(name, str) for name in names)
        return {
            "label_true": [names[i] for i in known] if texts else np.array([names[i] for i in known], dtype=np.float64)
        }

    def describe(self) -> str:
        """Describe the task: the number of classes, and the metric."""
        what = f"{self.outputs} labels each" if self.multilabel else f"{self.outputs} classes"
        return f"{what}, {METRICS[self.metric].title}"


def _mean_area(metric: str, probability: Tensor, wanted: Tensor) -> float:
    """Return ROC-AUC or average precision, the mean over columns that have both a yes and a no; -1 is unknown."""
    from torchmetrics.functional.classification import binary_auroc, binary_average_precision

    measure = binary_auroc if metric == "roc_auc" else binary_average_precision
    areas = []
    for column, truth in zip(probability.unbind(1), wanted.unbind(1), strict=True):
        known = truth >= 0
        if (truth[known] == 1).any() and (truth[known] == 0).any():
            areas.append(float(measure(column[known], truth[known])))
    if not areas:
        title = METRICS[metric].title
        raise GpmError(f"All instances to score are of one class, so {title} is not defined; use --metric accuracy.")
    return sum(areas) / len(areas)
