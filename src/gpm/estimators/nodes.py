"""Estimators of nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

from gpm.estimators.fit_inputs import read_graph
from gpm.estimators.fit_source import Given
from gpm.estimators.frames import Tables
from gpm.estimators.predictive import Classifier, Predictive, Regressor


class _Nodes(Predictive):
    level: ClassVar[str] = "node"

    def fit(
        self,
        data: Any,
        y: Any = None,
        *,
        x: Any = None,
        nodes: Any = None,
        target: str | Sequence[str] = "",
        split: str = "",
        directed: bool = False,
    ) -> Self:
        """Train on the labelled nodes of a graph.

        Part of them is held out: by default 20% to choose the best epoch and 20% to test, as the parameter `split` says
        (`"80/10/10"`), unless masks of the data or a column of the table say which.

        Args:
            data: A PyG `Data`, a `gpm.Graph`, a NetworkX graph, a SciPy adjacency matrix, a DataFrame of edges, a file,
                or the name of a dataset.
            y: Labels in the order of the nodes, or by their names as a dict or an indexed Series; None and NaN are
                unknown. By default those that the data holds.
            x: Features of the nodes in their order: an array, a sparse matrix or a DataFrame.
            nodes: A table of nodes, a DataFrame or a file, beside edges.
            target: The column of that table, or the attribute of NetworkX nodes, that holds the labels; or several.
            split: The column that says train, val or test.
            directed: The rows of a table of edges go one way.
        """
        self._check_given(y, target, split)
        with self._own_folder() as folder:
            numbers = isinstance(self, Regressor)
            tables = Tables(
                self.level, folder, nodes=nodes, target=target or "", split=split, directed=directed, numbers=numbers
            )
            return self._fit(data, y, x, tables)

    def _read(self, data: Any, x: Any, tables: Tables, *, fitting: bool = False) -> Given:
        return read_graph(data, tables, x=x, metric=self._reading())

    def _reading(self) -> str:
        """How labels of files are read: as numbers or as classes."""
        metric = str(vars(self)["metric"])
        return "mae" if isinstance(self, Regressor) and metric == "auto" else metric


class NodeClassifier(Classifier, _Nodes):
    """Classify nodes by their patterns.

    Args:
        device: auto, cpu, cuda, cuda:1 or mps.
        progress: Show a progress bar.
        random_state: A number, a NumPy generator, or None for another one in every fit.
        options: Any option of `gpm.Config`: epochs, width, lengths, split, ...

    Example:
        >>> model = gpm.NodeClassifier(epochs=20).fit(edges, nodes=nodes, target="label")
        >>> model.predict(names=["alice", "bob"])
    """


class NodeRegressor(Regressor, _Nodes):
    """Predict a number of each node, or several, by its patterns.

    Args:
        device, progress, random_state, options: As in `NodeClassifier`.

    Example:
        >>> model = gpm.NodeRegressor(metric="rmse").fit(graph, y=[0.5, None, 2.25, ...])
    """
