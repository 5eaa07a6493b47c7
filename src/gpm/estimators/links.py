"""The estimator of links."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray

from gpm.errors import GpmError
from gpm.estimators.base import Estimator
from gpm.estimators.frames import Tables
from gpm.estimators.persistence import Memory
from gpm.run.run import Run
from gpm.tasks import load_task

if TYPE_CHECKING:
    import pandas as pd

Pairs = Sequence[tuple[Any, Any]] | NDArray


class LinkPredictor(Estimator):
    """Predict which nodes are linked, by the patterns between them.

    Args:
        device: auto, cpu, cuda, cuda:1 or mps.
        threads: Threads to train with; 0 for torch's default.
        progress: Show a progress bar.
        random_state: A number, a NumPy generator, or None for another seed in every fit.
        options: Any option of `gpm.Config`: epochs, width, lengths, split, pair, ...

    Attributes:
        classes_: False and True: not linked, linked.

    Example:
        >>> model = gpm.LinkPredictor(epochs=20).fit(edges)
        >>> model.recommend("alice", k=5)
    """

    level: ClassVar[str] = "link"
    classes_: NDArray

    def fit(self, data: Any, y: None = None, *, x: Any = None, nodes: Any = None, directed: bool = False) -> Self:
        """Train on the edges of a graph.

        Some of them are held out, and no walk uses them: by default 5% to choose the best epoch and 15% to test, as
        the parameter `split` says.

        Args:
            data: A PyG `Data`, a `gpm.Graph`, a NetworkX graph, a SciPy adjacency matrix, a DataFrame of edges, a file,
                or the name of a dataset.
            y: Not used: the edges are the labels.
            x: Features of the nodes in their order: an array, a sparse matrix or a DataFrame.
            nodes: A table of nodes, a DataFrame or a file, for a table of edges.
            directed: The rows of a table of edges go one way.
        """
        if y is not None:
            raise GpmError("Links have no labels other than the edges; leave out y.")
        self._check_values()  # before any work
        with self._own_folder() as folder:
            given = self._read(data, x, Tables(self.level, folder, nodes=nodes, directed=directed), fitting=True)
            return self._learn(given.data, given, folder)

    def predict_proba(
        self, pairs: Pairs, data: Any = None, *, frame: bool = False, calibrate: bool = False, **options: Any
    ) -> NDArray | pd.DataFrame:
        """Return probabilities `[B, 2]` that nodes are not linked, and that they are, among as many non-edges as edges.

        Args:
            pairs: Names of two nodes each.
            data: Their graph, of any kind that `fit` takes; by default the fitted one.
            frame: Return a DataFrame with the names.
            calibrate: Calibrate the probabilities on the validation split by a temperature.
            options: Options of `fit` for `data`.
        """
        predictions = self._on(data, options).predict(_listed(pairs), calibrate=calibrate, progress=self.progress)
        if frame:
            return predictions.frame()
        return np.concatenate([1 - predictions.probability, predictions.probability], axis=1)

    def predict(self, pairs: Pairs, data: Any = None, **options: Any) -> NDArray:
        """Say if nodes are linked `[B]`: if the probability is at least 0.5. Arguments as in `predict_proba`."""
        return np.asarray(self._on(data, options).predict(_listed(pairs), progress=self.progress).labels)

    def recommend(
        self, node: Any, k: int = 10, data: Any = None, *, frame: bool = False, **options: Any
    ) -> NDArray | pd.DataFrame:
        """Return the k most likely new neighbours of a node, the likeliest first.

        Args:
            node: Name of the node.
            k: Number of neighbours.
            data: The graph, of any kind that `fit` takes; by default the fitted one.
            frame: Return a DataFrame with their probabilities.
            options: Options of `fit` for `data`.
        """
        predictions = self._on(data, options).recommend(node, k, progress=self.progress)
        return predictions.frame() if frame else np.array(predictions.keys["target"])

    def score(self, pairs: Pairs | None = None, y: Any = None, data: Any = None, **options: Any) -> float:
        """Return the metric, such as Hits@20, on the edges and non-edges of the test split, or on pairs with labels.

        Args:
            pairs: Names of two nodes each; by default the test split.
            y: Whether they are linked.
            data, options: As in `predict_proba`.
        """
        run = self._on(data, options)
        metric = run.config.metric
        if pairs is None and y is None:
            return run.evaluate("test", progress=self.progress)[metric]
        if pairs is None or y is None or len(pairs) != len(y):
            raise GpmError("Pairs are scored by labels; give y with a yes or a no for each pair.")
        logits = run.predict(_listed(pairs), progress=self.progress).logits
        labels = np.asarray(y)
        if labels.dtype.kind not in "biuf" or not np.isin(labels, (0, 1)).all():
            raise GpmError("y must say 1 or 0, True or False, for each pair: whether it is linked.")
        return load_task(run.facts, None).score(logits, torch.from_numpy(labels.astype(np.int64)))[metric]

    def _adopt(self, run: Run, memory: Memory) -> Self:
        self.classes_ = np.array([False, True])
        return super()._adopt(run, memory)


def _listed(pairs: Pairs) -> list[Any]:
    array = pairs.to_numpy() if hasattr(pairs, "to_numpy") else pairs
    return array.tolist() if hasattr(array, "tolist") else list(array)
