"""Estimators in scikit-learn's manner: `fit`, `predict`, `predict_proba`."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gpm.config import Config
from gpm.data.tasks import load_node_data
from gpm.errors import GpmError
from gpm.graph import Graph
from gpm.predictor import Predicts
from gpm.run import Run
from gpm.tasks import ClassTask

if TYPE_CHECKING:
    from torch_geometric.data import Data


class NodeClassifier:
    """Classify nodes by their patterns.

    Args:
        device: auto, cpu, cuda, cuda:1 or mps.
        progress: Show a progress bar.
        options: Any option of `Config`: width, lengths, epochs, seed, ...

    Example:
        >>> model = gpm.NodeClassifier(epochs=20).fit(data)  # a PyG Data with labels, and masks if it has them
        >>> classes = model.predict(data)
    """

    def __init__(self, *, device: str = "auto", progress: bool = False, **options: Any) -> None:
        self.config = Config.from_dict(options)
        self.device, self.progress, self._options = device, progress, options
        self.run_: Run | None = None

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The arguments it was made with."""
        return {"device": self.device, "progress": self.progress} | self._options

    def set_params(self, **options: Any) -> NodeClassifier:
        """Change arguments; the model must be fitted again."""
        self.__init__(**(self.get_params() | options))  # type: ignore[misc]
        return self

    def fit(self, data: Data | Graph | str, out: str | Path | None = None) -> NodeClassifier:
        """Train on the labelled nodes; the run folder is kept if `out` names one."""
        from gpm.training import train

        if out is None:
            folder = tempfile.mkdtemp(prefix="gpm-")
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)  # it lives as long as the estimator
            out = Path(folder) / "run"
        run = train(
            data, out=Path(out), device=self.device, quiet=not self.progress, **(self._options | {"task": "node"})
        )
        assert isinstance(run, Run)
        self.run_ = run
        return self

    @property
    def classes_(self) -> NDArray:
        """The classes, in the order of the probabilities."""
        return np.asarray(self._fitted().facts["classes"])

    def predict_proba(self, data: Data | Graph | str | None = None, nodes: NDArray | None = None) -> NDArray:
        """Probabilities `[B, C]` of nodes (by default all) of a graph (by default the one that was fitted)."""
        run = self._fitted()
        predictor, graph = self._predictor(run, data)
        ids = np.arange(graph.num_nodes) if nodes is None else np.asarray(nodes)
        return run.task.answers(predictor.logits(ids, progress=self.progress)).numpy()

    def predict(self, data: Data | Graph | str | None = None, nodes: NDArray | None = None) -> NDArray:
        """Classes `[B]`; for several labels per node, yes or no `[B, C]`."""
        chances = self.predict_proba(data, nodes)
        task = self._fitted().task
        assert isinstance(task, ClassTask)
        return task.choose(chances)

    def score(self, data: Data | Graph | str | None = None) -> float:
        """The metric on the test part of the split, between 0 and 1; given a graph, on all its labelled nodes."""
        run = self._fitted()
        if data is None:
            return run.evaluate("test")[run.config.metric]
        given = load_node_data(data)
        task, mine = ClassTask.of(given.labels, run.config.metric), run.task
        assert isinstance(mine, ClassTask)
        if task.classes != mine.classes:
            raise GpmError(
                f"the graph's classes are {task.classes}, the model's {mine.classes}; they must be the same."
            )
        known = np.flatnonzero(~np.isnan(given.labels).all(-1) if task.multilabel else given.labels >= 0)
        return task.score(self._predictor(run, given.graph)[0].logits(known), task.targets[known])[run.config.metric]

    def _predictor(self, run: Run, data: Any) -> tuple[Predicts, Graph]:
        if data is None:
            return run.predictor, run.data.graph
        graph = data if isinstance(data, Graph) else None
        if graph is None:
            graph = load_node_data(data).graph if isinstance(data, (str, Path)) else Graph.from_pyg(data)
        return run.predictor_for(graph), graph

    def _fitted(self) -> Run:
        if self.run_ is None:
            raise GpmError("this NodeClassifier is not fitted yet; call fit first.")
        return self.run_
