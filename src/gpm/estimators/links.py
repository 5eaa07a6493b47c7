"""The estimator of links."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray

from gpm.errors import GpmError
from gpm.estimators.base import Estimator
from gpm.estimators.fit_inputs import read_graph
from gpm.estimators.fit_source import Given
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
        progress: Show a progress bar.
        random_state: A number, a NumPy generator, or None for another one in every fit.
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

        Part of them is held out, and walked by nothing: by default 5% to choose the best epoch and 15% to test, as the
        parameter `split` says.

        Args:
            data: A PyG `Data`, a `gpm.Graph`, a NetworkX graph, a SciPy adjacency matrix, a DataFrame of edges, a file,
                or the name of a dataset.
            y: Not used: the edges say what is linked.
            x: Features of the nodes in their order: an array, a sparse matrix or a DataFrame.
            nodes: A table of nodes, a DataFrame or a file, beside edges.
            directed: The rows of a table of edges go one way.
        """
        if y is not None:
            raise GpmError("links have no labels: the edges say what is linked; leave out y.")
        self._check_values()  # before any work
        with self._own_folder() as folder:
            found = self._read(data, x, Tables(self.level, folder, nodes=nodes, directed=directed))
            memory = Memory(facts=found.facts, like=found.like, source=found.source)
            return self._learn(found.data, memory, folder)

    def predict_proba(
        self, pairs: Pairs, data: Any = None, *, frame: bool = False, calibrate: bool = False, **given: Any
    ) -> NDArray | pd.DataFrame:
        """Probabilities `[B, 2]` that nodes are not linked, and that they are, among as many non-edges as edges.

        Args:
            pairs: Names of two nodes each.
            data: Their graph, of any kind that `fit` takes; by default the one that was fitted.
            frame: Give a DataFrame with the names.
            calibrate: Fit the probabilities to the validation part by a temperature.
            given: What goes with `data`, as in `fit`.
        """
        said = self._on(data, given).predict(_listed(pairs), calibrate=calibrate, progress=self.progress)
        if frame:
            return said.frame()
        return np.concatenate([1 - said.probability, said.probability], axis=1)

    def predict(self, pairs: Pairs, data: Any = None, **given: Any) -> NDArray:
        """Whether nodes are linked `[B]`: whether that is at least as probable as not. Arguments as in
        `predict_proba`.
        """
        return np.asarray(self._on(data, given).predict(_listed(pairs), progress=self.progress).labels)

    def recommend(
        self, node: Any, k: int = 10, data: Any = None, *, frame: bool = False, **given: Any
    ) -> NDArray | pd.DataFrame:
        """The k most likely new neighbours of a node, the likeliest first.

        Args:
            node: Its name.
            k: How many.
            data: The graph, of any kind that `fit` takes; by default the one that was fitted.
            frame: Give a DataFrame with their probabilities.
            given: What goes with `data`, as in `fit`.
        """
        said = self._on(data, given).recommend(node, k, progress=self.progress)
        return said.frame() if frame else np.array(said.keys["target"])

    def score(self, pairs: Pairs | None = None, y: Any = None, data: Any = None, **given: Any) -> float:
        """The metric, such as Hits@20: of the held-out edges and non-edges of the test part, or of pairs with labels.

        Args:
            pairs: Names of two nodes each; by default the test part.
            y: Whether they are linked.
            data, given: As in `predict_proba`.
        """
        run = self._on(data, given)
        metric = run.config.metric
        if pairs is None and y is None:
            return run.evaluate("test", progress=self.progress)[metric]
        if pairs is None or y is None or len(pairs) != len(y):
            raise GpmError("pairs are scored by labels; give y with a yes or a no for each pair.")
        logits = run.predict(_listed(pairs), progress=self.progress).logits
        given_y = np.asarray(y)
        if given_y.dtype.kind not in "biuf" or not np.isin(given_y, (0, 1)).all():
            raise GpmError("y must say 1 or 0, True or False, of each pair: whether it is linked.")
        wanted = torch.from_numpy(given_y.astype(np.int64))
        return load_task(run.facts, None).score(logits, wanted)[metric]

    def _adopt(self, run: Run, memory: Memory) -> Self:
        self.classes_ = np.array([False, True])
        return super()._adopt(run, memory)

    def _read(self, data: Any, x: Any, tables: Tables, *, fitting: bool = False) -> Given:
        return read_graph(data, tables, x=x)


def _listed(pairs: Pairs) -> list[Any]:
    return (
        pairs.tolist()
        if hasattr(pairs, "tolist")
        else pairs.to_numpy().tolist()
        if hasattr(pairs, "to_numpy")
        else list(pairs)
    )
