"""Estimators of nodes and of whole graphs: classifiers and regressors."""

from __future__ import annotations

from collections.abc import Sequence
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
from gpm.data.task_data import TaskData
from gpm.errors import GpmError
from gpm.estimators.base import Estimator
from gpm.estimators.fit_inputs import Classes, FitInput
from gpm.estimators.frames import Tables
from gpm.inference.predictions import Predictions
from gpm.tasks import ClassTask, load_task

if TYPE_CHECKING:
    import pandas as pd


class Predictive(Estimator):
    """An estimator of labels of nodes or of graphs."""

    def _fit(self, data: Any, y: Any, x: Any, *, target: Any, split: str, **options: Any) -> Self:
        self._check_given(y, target, split)
        self._check_values()  # before any work
        with self._own_folder() as folder:
            numbers = self.kind == "regressor"
            tables = Tables(self.level, folder, target=target or "", split=split, numbers=numbers, **options)
            given = self._read(data, x, tables, fitting=True).with_labels(y)
            labels, classes = self._form(given, None)
            return self._learn(self._assemble(given, labels, classes), given, folder, classes)

    def _form(self, given: FitInput, fitted: Classes | None) -> tuple[NDArray, Classes | None]:
        """Return labels in the form of the task, and the classes: those of a fitted model, or those found."""
        raise NotImplementedError

    def _metric(self, given: FitInput, labels: NDArray) -> str:
        raise NotImplementedError

    def _assemble(self, given: FitInput, labels: NDArray, classes: Classes | None) -> TaskData:
        data, graph, metric = given.data, replace(given.data.graph, y=labels), self._metric(given, labels)
        names = classes.names if classes is not None and labels.ndim == 1 else ()
        named: dict[str, Any] = {"class_names": names, "targets": given.columns or data.targets}
        named["named"] = data.named and bool(given.source)
        if isinstance(data, GraphData):
            split = data.split if given.source else "given" if data.masks is not None else DEFAULT_SPLIT
            made = build_graph_data(graph, data.title, split, metric, data.masks, data.groups, data.names)
            return replace(made, lines=data.lines, ids=data.ids, **named)
        assert isinstance(data, NodeData)
        nodes = build_node_data(graph, data.title, metric, data.masks)
        split = data.split if given.source else nodes.split
        return replace(nodes, split=split, stratify=data.stratify or not given.source, **named)

    def _predictions(self, data: Any, names: Any, options: dict[str, Any], **how: Any) -> Predictions:
        run = self._on(data, options)
        if names is None and run.other:
            empty = np.setdiff1d(np.arange(run.data.num_instances), run.data.find_instances())
            if empty.size:
                raise GpmError(f"Graph {empty[0]} has no nodes, so nothing can be predicted for it; leave it out.")
        return replace(run.predict(names, progress=self.progress, **how), truth=None)  # the user has y

    def _check_given(self, y: Any, target: Any, split: Any) -> None:
        """Refuse labels or splits that are given twice."""
        if not (target is None or isinstance(target, (str, list, tuple))):
            raise GpmError(f"target must be the name of a column, or a list of names, not {target!r:.60}.")
        if y is not None and target:
            raise GpmError("y and target both say what the labels are; leave out one of them.")
        parameter = vars(self).get("split", "auto")
        if split and parameter != "auto":
            raise GpmError(
                f"The parameter split is {parameter!r}, and fit names the column {split!r}; leave out one of them."
            )

    def _compare(self, data: Any, y: Any, options: dict[str, Any]) -> tuple[Any, torch.Tensor, torch.Tensor]:
        """Return the task, and logits and targets: of the test split, or of all labelled instances of some data."""
        run = self.run_
        if data is None and y is None:
            return run.task, run.read("test", progress=self.progress), run.task.targets[torch.tensor(run.split.test)]
        run, given = (run, FitInput(run.data)) if data is None else self._open(data, self._find_target(options))
        given = given.with_labels(y)
        labels = self._form(given, self._memory.classes)[0]
        ids = np.intersect1d(np.flatnonzero(is_labelled(labels)), given.data.find_instances())
        if not ids.size:
            raise GpmError("Nothing that is to be scored has a label; give y, or a target, with some.")
        task = load_task(run.facts, labels)
        return task, run.predictor.logits(ids, progress=self.progress), task.targets[torch.from_numpy(ids)]

    def _find_target(self, options: dict[str, Any]) -> dict[str, Any]:
        """Add where the labels of tables are, unless the user says it: in the columns that were fitted."""
        names = list(self.run_.facts.get("target_names") or ())
        table = options.get("graphs") if options.get("graphs") is not None else options.get("nodes")
        there = isinstance(table, (str, Path)) or all(name in getattr(table, "columns", ()) for name in names)
        return {"target": names} | options if names and there else options


class Classifier(Predictive):
    """An estimator of classes, or of several yes-or-no labels.

    Attributes:
        classes_: The classes in the user's own values, in the order of the probabilities; for several labels, their
            names or numbers.
    """

    kind: ClassVar[str] = "classifier"
    classes_: NDArray

    def predict_proba(
        self, data: Any = None, names: Any = None, *, frame: bool = False, calibrate: bool = False, **options: Any
    ) -> NDArray | pd.DataFrame:
        """Return probabilities `[B, C]` of the classes, or of each of several labels.

        Args:
            data: The graph or graphs, of any kind that `fit` takes; by default the fitted ones.
            names: Nodes or graphs to predict, in this order; by default all.
            frame: Return a DataFrame, with names and predictions too.
            calibrate: Calibrate the probabilities on the validation split by a temperature.
            options: Options of `fit` for `data`.
        """
        predictions = self._predictions(data, names, options, calibrate=calibrate)
        return self._tabulate(predictions) if frame else predictions.probability

    def predict(
        self, data: Any = None, names: Any = None, *, frame: bool = False, **options: Any
    ) -> NDArray | pd.DataFrame:
        """Return classes `[B]` in the user's own values; for several labels, yes or no `[B, C]`.

        Args:
            data, names, frame, options: As in `predict_proba`.
        """
        predictions = self._predictions(data, names, options)
        return self._tabulate(predictions) if frame else self._decide(predictions)

    def score(self, data: Any = None, y: Any = None, **options: Any) -> float:
        """Return the metric, between 0 and 1, on the test split, or on all labelled instances of other data.

        Args:
            data: The graph or graphs, with labels; by default the test split of the fitted ones.
            y: The labels, if `data` does not hold them.
            options: Options of `fit` for `data`.
        """
        task, logits, targets = self._compare(data, y, options)
        return float(task.score(logits, targets)[self.run_.config.metric])

    def _decide(self, predictions: Predictions) -> NDArray:
        assert isinstance(predictions.task, ClassTask)
        decided = predictions.task.decide(predictions.logits).numpy()
        return decided if predictions.task.multilabel else np.asarray(self.classes_[decided])

    def _tabulate(self, predictions: Predictions) -> pd.DataFrame:
        table = predictions.frame()
        return table if self.run_.facts["multilabel"] else table.assign(prediction=self._decide(predictions))

    def _form(self, given: FitInput, fitted: Classes | None) -> tuple[NDArray, Classes | None]:
        return given.find_classes(fitted)

    def _metric(self, given: FitInput, labels: NDArray) -> str:
        metric = vars(self)["metric"]
        if metric in VALUE_METRICS:
            raise GpmError(f"{metric} is for numbers; fit a regressor, or choose accuracy, roc_auc, f1 or ap.")
        if metric != "auto":
            return str(metric)
        return given.data.metric if given.source else "accuracy" if labels.ndim == 1 else "roc_auc"


class Regressor(Predictive):
    """An estimator of a number, or of several."""

    kind: ClassVar[str] = "regressor"

    def predict(
        self, data: Any = None, names: Any = None, *, frame: bool = False, interval: bool = False,
        calibrate: bool | None = None, **options: Any,
    ) -> NDArray | pd.DataFrame:  # fmt: skip
        """Return numbers `[B]`, or `[B, C]` for several, in their own units.

        Args:
            data: The graph or graphs, of any kind that `fit` takes; by default the fitted ones.
            names: Nodes or graphs to predict, in this order; by default all.
            frame: Return a DataFrame, with names too.
            interval: Add intervals to the DataFrame, which hold 9 in 10 true numbers of the validation split.
            calibrate: False leaves the intervals as they are: how far redrawing the patterns moves each number.
            options: Options of `fit` for `data`.
        """
        predictions = self._predictions(data, names, options, interval=interval, calibrate=calibrate)
        if frame:
            return predictions.frame()
        numbers = predictions.probability
        return np.asarray(numbers[:, 0] if numbers.shape[1] == 1 else numbers)

    def score(self, data: Any = None, y: Any = None, **options: Any) -> float:
        """Return R², the explained share of variance, on the test split, or on all labelled instances of other data.

        For several numbers it is the mean. `run_.result` reports the error in the numbers' own units.

        Args:
            data: The graph or graphs, with labels; by default the test split of the fitted ones.
            y: The labels, if `data` does not hold them.
            options: Options of `fit` for `data`.
        """
        task, logits, targets = self._compare(data, y, options)
        return _explained(task.answers(logits).numpy(), targets.double().numpy())

    def _form(self, given: FitInput, fitted: Classes | None) -> tuple[NDArray, Classes | None]:
        return given.find_values(), None

    def _metric(self, given: FitInput, labels: NDArray) -> str:
        metric = vars(self)["metric"]
        if metric not in ("auto", *VALUE_METRICS):
            raise GpmError(f"{metric} is for classes; fit a classifier, or choose mae or rmse.")
        usual = given.data.metric if given.source and given.data.metric in VALUE_METRICS else "mae"
        return usual if metric == "auto" else str(metric)


class _Nodes(Predictive):
    level: ClassVar[str] = "node"

    def fit(
        self, data: Any, y: Any = None, *, x: Any = None, nodes: Any = None, target: str | Sequence[str] = "",
        split: str = "", directed: bool = False,
    ) -> Self:  # fmt: skip
        """Train on the labelled nodes of a graph.

        Some of them are held out: by default 20% to choose the best epoch and 20% to test, as the parameter `split`
        says (`"80/10/10"`), unless masks of the data or a column of the table give the split.

        Args:
            data: A PyG `Data`, a `gpm.Graph`, a NetworkX graph, a SciPy adjacency matrix, a DataFrame of edges, a file,
                or the name of a dataset.
            y: Labels in the order of the nodes, or by their names as a dict or an indexed Series; None and NaN are
                unknown. By default the labels in the data.
            x: Features of the nodes in their order: an array, a sparse matrix or a DataFrame.
            nodes: A table of nodes, a DataFrame or a file, for a table of edges.
            target: The column of that table, or the attribute of NetworkX nodes, that holds the labels; or several.
            split: The column that says train, val or test.
            directed: The rows of a table of edges go one way.
        """
        return self._fit(data, y, x, target=target, split=split, nodes=nodes, directed=directed)


class _Graphs(Predictive):
    level: ClassVar[str] = "graph"

    def fit(
        self, data: Any, y: Any = None, *, nodes: Any = None, graphs: Any = None, graph: str = "",
        target: str | Sequence[str] = "", split: str = "", directed: bool = False,
    ) -> Self:  # fmt: skip
        """Train on labelled graphs.

        Some of them are held out: by default 10% to choose the best epoch and 10% to test, as the parameter `split`
        says.

        Args:
            data: A list of PyG `Data`, of NetworkX graphs or of SMILES, a PyG `Dataset`, a collection as a `gpm.Graph`,
                a DataFrame of the edges of all graphs, a file, or the name of a dataset.
            y: Labels in the order of the graphs, or by their names; None and NaN are unknown. By default the labels in
                the data.
            nodes, graphs: Tables for a table of edges, DataFrames or files: a row per node, a row per graph.
            graph: The column that says which graph a row belongs to.
            target: The column of `graphs` that holds the labels; or several.
            split: The column that says train, val or test.
            directed: The rows of a table of edges go one way.
        """
        tables = {"nodes": nodes, "graphs": graphs, "graph": graph, "directed": directed}
        return self._fit(data, y, None, target=target, split=split, **tables)


class NodeClassifier(Classifier, _Nodes):
    """Classify nodes by their patterns.

    Args:
        device: auto, cpu, cuda, cuda:1 or mps.
        threads: Threads to train with; 0 for torch's default.
        progress: Show a progress bar.
        random_state: A number, a NumPy generator, or None for another seed in every fit.
        options: Any option of `gpm.Config`: epochs, width, lengths, split, ...

    Example:
        >>> model = gpm.NodeClassifier(epochs=20).fit(edges, nodes=nodes, target="label")
        >>> model.predict(names=["alice", "bob"])
    """


class NodeRegressor(Regressor, _Nodes):
    """Predict a number for each node, or several, by its patterns.

    Args:
        device, threads, progress, random_state, options: As in `NodeClassifier`.

    Example:
        >>> model = gpm.NodeRegressor(metric="rmse").fit(graph, y=[0.5, None, 2.25, ...])
    """


class GraphClassifier(Classifier, _Graphs):
    """Classify graphs by their patterns.

    Args:
        device, threads, progress, random_state, options: As in `NodeClassifier`.

    Example:
        >>> model = gpm.GraphClassifier(epochs=20).fit(["CCO", "CCN", ...], y=["toxic", "safe", ...])
        >>> model.predict(["CCC"])
    """


class GraphRegressor(Regressor, _Graphs):
    """Predict a number for each graph, or several, by its patterns.

    Args:
        device, threads, progress, random_state, options: As in `NodeClassifier`.

    Example:
        >>> model = gpm.GraphRegressor().fit(graphs, y=[0.5, 1.25, ...])
    """


def _explained(predicted: NDArray, truths: NDArray) -> float:
    """Return the mean R² of columns `[B, C]`; a true NaN is unknown, and a column without variance counts 0."""
    shares = []
    for answer, truth in zip(predicted.T, truths.T, strict=True):
        known = ~np.isnan(truth)
        spread = float(np.square(truth[known] - truth[known].mean()).sum()) if known.any() else 0.0
        off = float(np.square(answer[known] - truth[known]).sum())
        shares.append(1 - off / spread if spread else 0.0)
    return float(np.mean(shares))
