"""The base of the estimators: a run in a folder of its own, which answers, is saved and is copied."""

from __future__ import annotations

import importlib
import logging
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from gpm.data.task_data import TaskData
from gpm.errors import GpmError, nearest
from gpm.estimators.fit_inputs import Classes, FitInput
from gpm.estimators.frames import Tables, find_columns
from gpm.estimators.parameters import Parameters, as_seed, defaults
from gpm.estimators.persistence import Memory, build_folder, recall, save_run
from gpm.estimators.read_inputs import check_encoding, read_input
from gpm.explain.explanation import Explanation
from gpm.run.run import Run
from gpm.training.start import train

if TYPE_CHECKING:
    import pandas as pd

_WITH_DATA = ("x", "nodes", "graphs", "graph", "target", "split", "directed")
_EXPLAIN = ("top", "method", "draws", "room")
_log = logging.getLogger("gpm")


class NotFittedError(GpmError, AttributeError):
    """An estimator is used before it is fitted. A `ValueError` and an `AttributeError`, as in scikit-learn."""


class Estimator(Parameters):
    """A model that is fitted, predicts, explains, and is saved and copied.

    Attributes:
        run_: The run of the training, with its options, split and scores.
        n_features_in_: Number of columns of node features.
        feature_names_in_: Names of these columns; only if they came from a table.
    """

    level: ClassVar[str]
    kind: ClassVar[str] = ""
    run_: Run
    n_features_in_: int
    feature_names_in_: NDArray

    def __getattr__(self, name: str) -> Any:
        if name.endswith("_") and not name.startswith("_") and "run_" not in vars(self):
            raise NotFittedError(f"This {type(self).__name__} is not fitted yet; call fit first.")
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}.")

    def __sklearn_tags__(self) -> Any:
        """Return what scikit-learn reads before it searches or cross-validates, as it can with lists of graphs."""
        utils = importlib.import_module("sklearn.utils")
        tags = {f"{self.kind}_tags": getattr(utils, f"{self.kind.capitalize()}Tags")()} if self.kind else {}
        return utils.Tags(self.kind or None, utils.TargetTags(required=False), **tags)

    def __sklearn_is_fitted__(self) -> bool:
        return "run_" in vars(self)

    def save(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Write a run folder that `gpm.load` and the commands of gpm read.

        A graph that was in memory is saved too. The parameter `random_state` becomes the seed that was used.

        Args:
            path: A folder that does not exist yet.
            overwrite: Replace an existing run.
        """
        return save_run(self.run_, self._memory, Path(path), overwrite=overwrite)

    def explain(self, name: Any, data: Any = None, *, target: Any = None, **options: Any) -> Explanation:
        """Explain a prediction by the patterns that it rests on.

        Args:
            name: A node's name, a pair of names, or a graph's id or name.
            data: The graph that contains it; by default the fitted one.
            target: The class to explain; by default the predicted one.
            options: top, method, draws and room, as in `gpm.explain.explainer.explain`; and those of `fit` for `data`.
        """
        chosen = {key: options.pop(key) for key in _EXPLAIN if key in options}
        run = self._on(data, options)
        if target is not None and self._memory.classes is not None:
            target = self._memory.classes.number(target)
        return run.explain(name, target=target, **chosen)

    def embed(
        self, data: Any = None, names: Any = None, *, frame: bool = False, **options: Any
    ) -> NDArray | pd.DataFrame:
        """Return embeddings `[B, d]` of nodes or graphs: the input of the last layer of the model.

        Args:
            data: The graph or graphs; by default the fitted ones.
            names: Nodes or graphs to embed; by default all.
            frame: Return a DataFrame with their names.
            options: Options of `fit` for `data`.
        """
        embeddings = self._on(data, options).embed(names, progress=self.progress)
        return embeddings.frame() if frame else embeddings.vectors

    def _on(self, data: Any, options: dict[str, Any]) -> Run:
        """Return the run on the fitted data, or on other data."""
        if data is not None:
            return self._open(data, options)[0]
        if stray := next((name for name, value in options.items() if value is not None), None):
            raise GpmError(f"{stray} goes with a graph; give the graph as data too.")
        return self.run_

    def _open(self, data: Any, options: dict[str, Any]) -> tuple[Run, FitInput]:
        """Return the run on other data, and that data."""
        for name in options:
            if name not in _WITH_DATA:
                raise GpmError(f"{name!r} is not an argument for a graph.{nearest(name, _WITH_DATA)}")
        run, x = self.run_, options.pop("x", None)
        with ExitStack() as stack:
            without = tuple(run.metadata.get("target_names") or ())
            tables = Tables(self.level, _enter_folder(stack), like=self._memory.like, without=without, **options)
            given = self._read(data, x, tables)
            check_encoding(self._memory.metadata, given)
            bare = replace(given.data, graph=replace(given.data.graph, y=None))
            other = Run.open(run.folder, bare, device=self.device, other=True, home=run)
            weakref.finalize(other, stack.pop_all().close)
        for sentence in other.unseen():
            _log.warning("%s", sentence)
        return other, given

    def _read(self, data: Any, x: Any, tables: Tables, *, fitting: bool = False) -> FitInput:
        """Read a graph, or a collection of graphs; labels in files as numbers or as classes."""
        metric, split = str(vars(self)["metric"]), str(vars(self)["split"])
        metric = "mae" if self.kind == "regressor" and metric == "auto" else metric
        scaffolds = fitting and split.startswith("scaffold")
        return read_input(data, tables, x=x, metric=metric, complete=not fitting, scaffolds=scaffolds)

    def _learn(self, data: TaskData, given: FitInput, folder: Path, classes: Classes | None = None) -> Self:
        """Train on data that is ready, made from the input."""
        options = self._changed() | {"task": self.level, "seed": as_seed(self.random_state)}
        run = train(
            data, out=folder / "run", device=self.device, threads=self.threads, quiet=not self.progress, **options
        )
        assert isinstance(run, Run)
        if given.source:
            run = run.with_config(run.config.with_(data=given.source))
        count = data.graph.x.shape[1] if data.graph.x is not None else 0
        return self._adopt(run, Memory(classes, count, given.metadata, given.like, given.source))

    def _adopt(self, run: Run, memory: Memory) -> Self:
        vars(self).update(run_=run, _memory=memory)
        names = find_columns(memory.metadata, "nodes", "feature")
        vars(self).pop("feature_names_in_", None)
        if names:
            self.feature_names_in_ = np.array(names, dtype=object)
        count = memory.features if memory.features is not None else run.facts["inputs"]["node_dim"]
        self.n_features_in_ = len(names) or int(count)
        if memory.classes is not None:
            vars(self)["classes_"] = memory.classes.values
        return self

    @contextmanager
    def _own_folder(self) -> Iterator[Path]:
        """Make a folder that replaces the older one if the block succeeds, and lives as long as the estimator."""
        with ExitStack() as stack:
            yield _enter_folder(stack)
            older = vars(self).get("_cleanup")
            vars(self)["_cleanup"] = weakref.finalize(self, stack.pop_all().close)
        if older is not None:
            older()

    def __getstate__(self) -> dict[str, Any]:
        """Return the parameters and, once fitted, the bytes of a run folder, so that a copy stands alone."""
        state: dict[str, Any] = {"params": self.get_params()}
        if not self.__sklearn_is_fitted__():
            return state
        with tempfile.TemporaryDirectory(prefix="gpm-") as scratch:
            made = Path(scratch) / "run"
            build_folder(self.run_, self._memory, made)
            files = {str(path.relative_to(made)): path.read_bytes() for path in made.rglob("*") if path.is_file()}
        return state | {"files": files, "classes": self._memory.classes, "features": self._memory.features}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(defaults() | state["params"])
        if "files" not in state:
            return
        with self._own_folder() as folder:
            for name, content in state["files"].items():
                path = folder / "run" / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            run = Run.open(folder / "run", device=self.device)
            self._adopt(run, replace(recall(run), classes=state["classes"], features=state["features"]))


def _enter_folder(stack: ExitStack) -> Path:
    return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gpm-", ignore_cleanup_errors=True)))
