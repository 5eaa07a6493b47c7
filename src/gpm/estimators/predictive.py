"""What is predicted of nodes or graphs: classes, or numbers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray

from gpm.data.graph_data import DEFAULT_SPLIT, GraphData, build_graph_data
from gpm.data.labels import VALUE_METRICS
from gpm.data.node_data import NodeData, build_node_data
from gpm.data.splits import is_labelled
from gpm.errors import GpmError
from gpm.estimators.base import Estimator
from gpm.estimators.classes import Classes
from gpm.estimators.estimator_targets import find_classes, find_values
from gpm.estimators.fit_source import Given
from gpm.estimators.frames import Tables
from gpm.estimators.persistence import Memory
from gpm.inference.predictions import Predictions
from gpm.tasks import load_task

if TYPE_CHECKING:
    import pandas as pd


class Predictive(Estimator):
    """An estimator of labels, of nodes or of graphs."""

    def _fit(self, data: Any, y: Any, x: Any, tables: Tables) -> Self:
        """Read what is given, put the labels into the form of the task and train."""
        self._check_values()  # before any work
        found = self._read(data, x, tables, fitting=True).with_labels(y)
        labels, classes = self._form(found, None)
        memory = Memory(classes, facts=found.facts, like=found.like, source=found.source)
        return self._learn(self._assemble(found, labels, classes), memory, tables.folder)

    def _form(self, found: Given, known: Classes | None) -> tuple[NDArray, Classes | None]:
        """Labels in the form of the task, and the classes among them, or those that are known."""
        raise NotImplementedError

    def _metric(self, found: Given, labels: NDArray) -> str:
        raise NotImplementedError

    def _assemble(self, found: Given, labels: NDArray, classes: Classes | None) -> NodeData | GraphData:
        data, graph = found.data, replace(found.data.graph, y=labels)
        metric = self._metric(found, labels)
        names = classes.names if classes is not None and labels.ndim == 1 else ()
        if isinstance(data, GraphData):
            split = data.split if found.source else "public" if data.masks is not None else DEFAULT_SPLIT
            made = build_graph_data(graph, data.title, split, metric, data.masks, data.groups, data.names)
            return replace(made, lines=data.lines, class_names=names, targets=found.columns or data.targets)
        assert isinstance(data, NodeData)
        nodes = build_node_data(graph, data.title, metric, data.masks)
        return replace(
            nodes,
            split=data.split if found.source else nodes.split,
            stratify=data.stratify or not found.source,
            class_names=names,
            targets=found.columns or data.targets,
        )

    def _say(self, data: Any, names: Any, given: dict[str, Any], **options: Any) -> Predictions:
        run = self._on(data, given)
        if names is None and run.other and self.level == "graph":
            empty = np.setdiff1d(np.arange(run.data.graph.num_graphs), run.find())
            if empty.size:
                raise GpmError(f"graph {empty[0]} has no nodes, so that nothing can be predicted of it; leave it out.")
        return run.predict(names, progress=self.progress, **options)

    def _check_given(self, y: Any, target: Any, split: Any) -> None:
        """Refuse what is said twice, of which one would win without a word."""
        if not (target is None or isinstance(target, (str, list, tuple))):
            raise GpmError(f"target must be the name of a column, or a list of names, not {target!r:.60}.")
        if y is not None and target:
            raise GpmError("y and target both say what the labels are; leave out one of them.")
        said = vars(self).get("split", "auto")
        if split and said != "auto":
            raise GpmError(
                f"the parameter split says {said!r}, and fit names the column {split!r}; leave out one of them."
            )

    def _compare(self, data: Any, y: Any, given: dict[str, Any]) -> tuple[Any, torch.Tensor, torch.Tensor]:
        """The task, and logits and targets of all that is labelled in some data."""
        if data is None:
            run, found = self.run_, Given(replace(self.run_.data)).with_labels(y)
        else:
            run, found = self._open(data, self._find_target(given))
            found = found.with_labels(y)
        labels = self._form(found, self._memory.classes)[0]
        usable = is_labelled(labels)
        if self.level == "graph" and found.data.graph.graph_ptr is not None:
            usable &= np.diff(found.data.graph.graph_ptr) > 0
        known = np.flatnonzero(usable)
        if not known.size:
            raise GpmError("nothing that is to be scored has a label; give y, or a target, with some.")
        task = load_task(run.facts, labels)
        logits = run.predictor.logits(known, progress=self.progress)
        return task, logits, task.targets[torch.from_numpy(known)]

    def _find_target(self, given: dict[str, Any]) -> dict[str, Any]:
        """Where the labels of tables are, unless the user says it: in the columns that were fitted."""
        names = list(self.run_.facts.get("target_names") or ())
        table = given.get("graphs") if given.get("graphs") is not None else given.get("nodes")
        there = bool(names) and (
            isinstance(table, (str, Path)) or all(name in getattr(table, "columns", ()) for name in names)
        )
        return {"target": names} | given if there else given


class Classifier(Predictive):
    """An estimator of classes, or of several yes-or-no labels.

    Attributes:
        classes_: The classes in the user's own values, in the order of the probabilities; of several labels, their
            names or numbers.
    """

    kind: ClassVar[str] = "classifier"
    classes_: NDArray

    def predict_proba(
        self, data: Any = None, names: Any = None, *, frame: bool = False, calibrate: bool = False, **given: Any
    ) -> NDArray | pd.DataFrame:
        """Probabilities `[B, C]` of the classes, or of each of several labels.

        Args:
            data: The graph or graphs, of any kind that `fit` takes; by default what was fitted.
            names: Which nodes or graphs; by default all. The answers come in this order.
            frame: Give a DataFrame, with names and predictions too.
            calibrate: Fit the probabilities to the validation part by a temperature.
            given: What goes with `data`, as in `fit`.
        """
        said = self._say(data, names, given, calibrate=calibrate)
        return self._tabulate(said) if frame else said.probability

    def predict(
        self, data: Any = None, names: Any = None, *, frame: bool = False, **given: Any
    ) -> NDArray | pd.DataFrame:
        """Classes `[B]` in the user's own values; for several labels, yes or no `[B, C]`.

        Args:
            data, names, frame, given: As in `predict_proba`.
        """
        said = self._say(data, names, given)
        return self._tabulate(said) if frame else self._decide(said)

    def score(self, data: Any = None, y: Any = None, **given: Any) -> float:
        """The metric, between 0 and 1: of the test part; or of all that is labelled in other data.

        Args:
            data: The graph or graphs, with labels; by default what was fitted, of which the test part is scored.
            y: The labels, if `data` does not hold them.
            given: What goes with `data`, as in `fit`.
        """
        metric = self.run_.config.metric
        if data is None and y is None:
            return self.run_.evaluate("test", progress=self.progress)[metric]
        task, logits, targets = self._compare(data, y, given)
        return float(task.score(logits, targets)[metric])

    def _decide(self, said: Predictions) -> NDArray:
        answers = said.task.answers(said.logits).numpy()
        several = self.run_.facts["multilabel"]
        return np.asarray(answers >= 0.5 if several else self.classes_[answers.argmax(1)])

    def _tabulate(self, said: Predictions) -> pd.DataFrame:
        table = said.frame()
        return table if self.run_.facts["multilabel"] else table.assign(prediction=self._decide(said))

    def _form(self, found: Given, known: Classes | None) -> tuple[NDArray, Classes | None]:
        return find_classes(found, known)

    def _metric(self, found: Given, labels: NDArray) -> str:
        metric = vars(self)["metric"]
        if metric in VALUE_METRICS:
            raise GpmError(f"{metric} is for numbers; fit a regressor, or choose accuracy, roc_auc or f1.")
        if metric != "auto":
            return str(metric)
        return found.data.metric if found.source else "accuracy" if labels.ndim == 1 else "roc_auc"


class Regressor(Predictive):
    """An estimator of a number, or of several."""

    kind: ClassVar[str] = "regressor"

    def predict(
        self, data: Any = None, names: Any = None, *, frame: bool = False, interval: bool = False,
        calibrate: bool = False, **given: Any,
    ) -> NDArray | pd.DataFrame:  # fmt: skip
        """Numbers `[B]`, or `[B, C]` if there are several, in their own units.

        Args:
            data: The graph or graphs, of any kind that `fit` takes; by default what was fitted.
            names: Which nodes or graphs; by default all. The answers come in this order.
            frame: Give a DataFrame, with names too.
            interval: Let the DataFrame say how far chance, the draw of patterns, moves each number.
            calibrate: Let the interval hold 9 in 10 true numbers, as found on the validation part.
            given: What goes with `data`, as in `fit`.
        """
        said = self._say(data, names, given, interval=interval, calibrate=calibrate)
        if frame:
            return said.frame()
        return np.asarray(said.probability[:, 0] if said.probability.shape[1] == 1 else said.probability)

    def score(self, data: Any = None, y: Any = None, **given: Any) -> float:
        """R², the share of the variance that is explained: of the test part, or of all that is labelled in other data.

        Of several numbers the mean. What `run_.result` reports is the error in the numbers' own units.

        Args:
            data: The graph or graphs, with labels; by default what was fitted, of which the test part is scored.
            y: The labels, if `data` does not hold them.
            given: What goes with `data`, as in `fit`.
        """
        if data is None and y is None:
            run = self.run_
            task, logits = run.task, run.read("test", progress=self.progress)
            targets = task.targets[torch.tensor(run.split.test)]
        else:
            task, logits, targets = self._compare(data, y, given)
        return _explained(task.answers(logits).numpy(), targets.double().numpy())

    def _form(self, found: Given, known: Classes | None) -> tuple[NDArray, Classes | None]:
        return find_values(found), None

    def _metric(self, found: Given, labels: NDArray) -> str:
        metric = vars(self)["metric"]
        if metric not in ("auto", *VALUE_METRICS):
            raise GpmError(f"{metric} is for classes; fit a classifier, or choose mae or rmse.")
        usual = found.data.metric if found.source and found.data.metric in VALUE_METRICS else "mae"
        return usual if metric == "auto" else str(metric)


def _explained(said: NDArray, wanted: NDArray) -> float:
    """R² of columns `[B, C]`, the mean; NaN in what is wanted is unknown, and a column without variance counts 0."""
    shares = []
    for answer, truth in zip(said.T, wanted.T, strict=True):
        known = ~np.isnan(truth)
        spread = float(np.square(truth[known] - truth[known].mean()).sum()) if known.any() else 0.0
        off = float(np.square(answer[known] - truth[known]).sum())
        shares.append(1 - off / spread if spread else 0.0)
    return float(np.mean(shares))
