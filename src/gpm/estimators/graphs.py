"""Estimators of whole graphs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

from gpm.estimators.fit_inputs import read_graphs
from gpm.estimators.fit_source import Given
from gpm.estimators.frames import Tables
from gpm.estimators.predictive import Classifier, Predictive, Regressor


class _Graphs(Predictive):
    level: ClassVar[str] = "graph"

    def fit(
        self,
        data: Any,
        y: Any = None,
        *,
        nodes: Any = None,
        graphs: Any = None,
        graph: str = "",
        target: str | Sequence[str] = "",
        split: str = "",
        directed: bool = False,
    ) -> Self:
        """Train on labelled graphs.

        Part of them is held out: by default 10% to choose the best epoch and 10% to test, as the parameter `split`
        says.

        Args:
            data: A list of PyG `Data`, of NetworkX graphs or of SMILES, a PyG `Dataset`, a collection as a `gpm.Graph`,
                a DataFrame of the edges of all graphs, a file, or the name of a dataset.
            y: Labels in the order of the graphs, or by their names; None and NaN are unknown. By default those that the
                data holds.
            nodes, graphs: Tables beside one of edges, DataFrames or files: a row per node, a row per graph.
            graph: The column that says which graph a row belongs to.
            target: The column of `graphs` that holds the labels; or several.
            split: The column that says train, val or test.
            directed: The rows of a table of edges go one way.
        """
        self._check_given(y, target, split)
        with self._own_folder() as folder:
            tables = Tables(
                self.level, folder, nodes=nodes, graphs=graphs, graph=graph, target=target or "", split=split,
                directed=directed, numbers=isinstance(self, Regressor),
            )  # fmt: skip
            return self._fit(data, y, None, tables)

    def _read(self, data: Any, x: Any, tables: Tables, *, fitting: bool = False) -> Given:
        metric, split = str(vars(self)["metric"]), str(vars(self)["split"])
        metric = "mae" if isinstance(self, Regressor) and metric == "auto" else metric
        scaffolds = fitting and split.startswith("scaffold")
        return read_graphs(data, tables, metric=metric, complete=not fitting, scaffolds=scaffolds)


class GraphClassifier(Classifier, _Graphs):
    """Classify graphs by their patterns.

    Args:
        device: auto, cpu, cuda, cuda:1 or mps.
        progress: Show a progress bar.
        random_state: A number, a NumPy generator, or None for another one in every fit.
        options: Any option of `gpm.Config`: epochs, width, lengths, split, ...

    Example:
        >>> model = gpm.GraphClassifier(epochs=20).fit(["CCO", "CCN", ...], y=["toxic", "safe", ...])
        >>> model.predict(["CCC"])
    """


class GraphRegressor(Regressor, _Graphs):
    """Predict a number of each graph, or several, by its patterns.

    Args:
        device, progress, random_state, options: As in `GraphClassifier`.

    Example:
        >>> model = gpm.GraphRegressor().fit(graphs, y=[0.5, 1.25, ...])
    """
