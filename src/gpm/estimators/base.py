"""What the estimators share once they are fitted: a run in a folder of their own, to ask, to save and to copy."""

from __future__ import annotations

import importlib
import logging
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from gpm.data.sources import TaskData
from gpm.errors import GpmError, nearest
from gpm.estimators.fit_inputs import check_encoding
from gpm.estimators.fit_source import Given
from gpm.estimators.frames import Tables, name_features
from gpm.estimators.parameters import Parameters, as_seed
from gpm.estimators.persistence import Memory, build_folder, recall, save_run
from gpm.explain.explanation import Explanation
from gpm.run.run import Run

if TYPE_CHECKING:
    import pandas as pd


_GIVEN = ("x", "nodes", "graphs", "graph", "target", "split", "directed")
_EXPLAIN = ("top", "method", "draws", "room")
_log = logging.getLogger("gpm")


class NotFittedError(GpmError, AttributeError):
    """An estimator was asked before it was fitted. A `ValueError` and an `AttributeError`, as scikit-learn's is."""


class Estimator(Parameters):
    """A model that is fitted, asked, explained, saved and copied.

    Attributes:
        run_: The run of the training, with its options, split and figures.
        n_features_in_: Columns of node features.
        feature_names_in_: Their names; only if they came from a table.
    """

    level: ClassVar[str]
    kind: ClassVar[str] = ""
    run_: Run
    n_features_in_: int
    feature_names_in_: NDArray

    def __getattr__(self, name: str) -> Any:
        if name.endswith("_") and not name.startswith("_") and "run_" not in vars(self):
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet; call fit first.")
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}.")

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn asks before it searches or cross-validates, which it can do with lists of graphs."""
        words = importlib.import_module("sklearn.utils")
        about = {f"{self.kind}_tags": getattr(words, f"{self.kind.capitalize()}Tags")()} if self.kind else {}
        return words.Tags(self.kind or None, words.TargetTags(required=False), **about)

    def __sklearn_is_fitted__(self) -> bool:
        return "run_" in vars(self)

    def save(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Write a run folder that `gpm.load` and the commands of gpm read.

        A graph that was in memory goes with it. Of parameters, `random_state` becomes the seed that was used.

        Args:
            path: A folder that is not there yet.
            overwrite: Replace a run that is there.
        """
        return save_run(self.run_, self._memory, Path(path), overwrite=overwrite)

    def explain(self, name: Any, data: Any = None, *, target: Any = None, **given: Any) -> Explanation:
        """Say which patterns a prediction rests on.

        Args:
            name: A node's name, a pair of names, or a graph's number or name.
            data: The graph that it is of; by default the one that was fitted.
            target: The class to explain; by default the one that is predicted.
            given: top, method, draws and room, as in `gpm.explain.explainer.explain`; and what goes with `data`.
        """
        options = {key: given.pop(key) for key in _EXPLAIN if key in given}
        run = self._on(data, given)
        if target is not None and self._memory.classes is not None:
            target = self._memory.classes.number(target)
        return run.explain(name, target=target, **options)

    def embed(
        self, data: Any = None, names: Any = None, *, frame: bool = False, **given: Any
    ) -> NDArray | pd.DataFrame:
        """Embeddings `[B, d]` of nodes or graphs: what the last map of the model reads.

        Args:
            data: The graph or graphs; by default what was fitted.
            names: Whose; by default of all.
            frame: Give a DataFrame with their names.
            given: What goes with `data`, as in `fit`.
        """
        found = self._on(data, given).embed(names, progress=self.progress)
        return found.frame() if frame else found.vectors

    def _on(self, data: Any, given: dict[str, Any]) -> Run:
        """The run on what was fitted, or on something else."""
        if data is not None:
            return self._open(data, given)[0]
        if stray := next((name for name, value in given.items() if value is not None), None):
            raise GpmError(f"{stray} goes with a graph; give that as data too.")
        return self.run_

    def _open(self, data: Any, given: dict[str, Any]) -> tuple[Run, Given]:
        """The run on something else, and that."""
        for name in given:
            if name not in _GIVEN:
                raise GpmError(f"nothing called {name!r} goes with a graph.{nearest(name, _GIVEN)}")
        run, folder = self.run_, Path(tempfile.mkdtemp(prefix="gpm-"))
        try:
            x, without = given.pop("x", None), tuple(run.facts.get("target_names") or ())
            tables = Tables(self.level, folder, like=self._memory.like, without=without, **given)
            found = self._read(data, x, tables)
            check_encoding(self._memory.facts, found)
            bare = replace(found.data, graph=replace(found.data.graph, y=None))
            other = Run.open(run.folder, bare, device=self.device, other=True, home=run)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        weakref.finalize(other, shutil.rmtree, folder, ignore_errors=True)
        for sentence in other.unseen():
            _log.warning("%s", sentence)
        return other, found

    def _read(self, data: Any, x: Any, tables: Tables, *, fitting: bool = False) -> Given:
        """Read a graph, or a collection of graphs."""
        raise NotImplementedError

    def _learn(self, data: TaskData, memory: Memory, folder: Path) -> Self:
        """Train on data that is ready."""
        from gpm.training.start import train

        options = self._options() | {"task": self.level, "seed": as_seed(self.random_state)}
        run = train(data, out=folder / "run", device=self.device, quiet=not self.progress, **options)
        assert isinstance(run, Run)
        if memory.source:
            run = run.with_config(run.config.with_(data=memory.source))
        count = data.graph.x.shape[1] if data.graph.x is not None else 0
        return self._adopt(run, replace(memory, features=count))

    def _adopt(self, run: Run, memory: Memory) -> Self:
        """Take a run as the one that was fitted."""
        vars(self).update(run_=run, _memory=memory)
        names = name_features(memory.facts)
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
        """A fresh folder that stays if the block ends well, as long as the estimator does, in place of an older one."""
        folder = Path(tempfile.mkdtemp(prefix="gpm-"))
        try:
            yield folder
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        older = vars(self).get("_cleanup")
        vars(self)["_cleanup"] = weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        if older is not None:
            older()

    def __getstate__(self) -> dict[str, Any]:
        """Parameters and, once fitted, the bytes of a run folder: a copy needs no folder of another's."""
        state: dict[str, Any] = {"params": self.get_params()}
        if not self.__sklearn_is_fitted__():
            return state
        with tempfile.TemporaryDirectory(prefix="gpm-") as scratch:
            made = Path(scratch) / "run"
            build_folder(self.run_, self._memory, made)
            files = {str(path.relative_to(made)): path.read_bytes() for path in made.rglob("*") if path.is_file()}
        return state | {"files": files, "classes": self._memory.classes, "features": self._memory.features}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state["params"])
        if "files" not in state:
            return
        with self._own_folder() as folder:
            for name, content in state["files"].items():
                path = folder / "run" / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            run = Run.open(folder / "run", device=self.device)
            self._adopt(run, replace(recall(run), classes=state["classes"], features=state["features"]))
