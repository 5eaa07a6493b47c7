"""Save a fitted estimator as a self-contained run folder: with the classes, and with the graph if it was in memory."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from gpm.data.imported import is_imported
from gpm.data.tables.table_source import GRAPH, OWN_GRAPHS, locate
from gpm.errors import GpmError
from gpm.estimators.fit_inputs import Classes, as_objects
from gpm.graph.folder import read_extras, save_graph
from gpm.io.atomic import write_json
from gpm.io.json_schema import read_checked
from gpm.io.manifest import CHECKSUMS, check_files, list_files, write_checksums
from gpm.io.publish import claiming, publish, scratch_for
from gpm.io.run_files import CONFIG, write_config
from gpm.run.run import Run
from gpm.run.workplace import check_replaceable
from gpm.tasks import ClassTask, load_task

FILE = "estimator.json"
_KINDS = (str, int, float, bool)


class _Stored(Struct):
    """`estimator.json`, or the lack of it."""

    format: Literal["gpm-estimator"] = "gpm-estimator"
    version: Literal[1] = 1
    features: int | None = None
    classes: list[str | int | float | bool] | None = None
    dtype: str = ""


@dataclass(frozen=True, eq=False)
class Memory:
    """What an estimator keeps besides its run."""

    classes: Classes | None = None
    features: int | None = None  # number of feature columns of the nodes; None if the run has it
    metadata: dict[str, Any] = field(default_factory=dict)  # how features were made from tables, if they were
    like: Path | None = None  # folder that the tables were imported into
    source: str = ""  # name or path by which the graph can be read again; empty if it was in memory


def save_run(run: Run, memory: Memory, folder: Path, *, overwrite: bool = False) -> Path:
    """Write a run folder atomically."""
    folder = folder.expanduser().absolute()
    spelled = _spell(memory.classes)
    with claiming(folder):
        if folder.exists():
            if not overwrite:
                raise GpmError(f"{folder} exists: name another folder, or pass overwrite=True.")
            check_replaceable(folder)
        with scratch_for(folder) as scratch:
            made = scratch / "run"
            build_folder(run, memory, made)
            write_json(made / FILE, {"format": "gpm-estimator", "version": 1, "features": memory.features} | spelled)
            write_checksums(made)
            publish(made, folder)
    return folder


def build_folder(run: Run, memory: Memory, made: Path) -> None:
    """Write the files of a run with the graph, or with where to read it again."""
    made.mkdir()
    for name in list_files(run.folder):
        if "/" not in name and name not in (CHECKSUMS, CONFIG, FILE) and (run.folder / name).is_file():
            shutil.copyfile(run.folder / name, made / name)
    source = memory.source or run.config.data
    if not source:
        save_graph(run.data.graph, made / GRAPH, facts=_describe(run, memory.metadata))
    elif source in OWN_GRAPHS:
        shutil.copytree(locate(source, run.folder), made / GRAPH)
    path = source if source and source not in OWN_GRAPHS else OWN_GRAPHS[0]
    write_config(made / CONFIG, run.config.with_(data=path))


def recall(run: Run) -> Memory:
    """Read what is kept besides the run in a folder, also for one that `gpm train` wrote."""
    path = run.folder / FILE
    check_files(run.folder, [FILE])
    stored = read_checked(path, _Stored, "fit and save it again") if path.is_file() else _Stored()
    folder = Path(locate(run.config.data, run.folder))
    metadata = read_extras(folder)[0] if run.config.data and is_imported(folder) else {}
    like = folder if metadata.get("schema") else None
    return Memory(_recall_classes(run, stored, path), stored.features, metadata, like)


def _describe(run: Run, metadata: dict[str, Any]) -> dict[str, Any]:
    """Return the metadata of a saved graph, so that it is loaded as it was."""
    data, kind = run.data, str(run.facts.get("kind"))
    kind = "labels" if run.facts.get("multilabel") else kind if kind in ("classes", "values") else ""
    names = getattr(data, "names", None)
    return metadata | {
        "task": data.level, "title": data.title, "kind": kind, "targets": list(data.targets),
        "classes": list(data.class_names), **({} if names is None else {"graphs": names}),
    }  # fmt: skip


def _spell(classes: Classes | None) -> dict[str, Any]:
    """Return classes as JSON: texts, numbers, yes and no."""
    if classes is None:
        return {}
    listed = [value.item() if isinstance(value, np.generic) else value for value in classes.values.tolist()]
    if (strange := next((value for value in listed if type(value) not in _KINDS), None)) is not None:
        raise GpmError(f"The class {strange!r} cannot be written to a file; use texts or numbers as classes.")
    kind = classes.values.dtype.str if classes.values.dtype.kind in "iufb" else classes.values.dtype.kind
    return {"classes": listed, "dtype": kind}


def _recall_classes(run: Run, stored: _Stored, path: Path) -> Classes | None:
    """Return the classes of a run: as an estimator wrote them, else as predictions name them."""
    task = load_task(run.facts, None)
    if not isinstance(task, ClassTask):
        return None
    numbers = np.asarray(task.classes, dtype=np.int64)
    if stored.classes is None:
        return Classes(np.asarray(task.names), numbers)
    values = _revive(stored.classes, stored.dtype)
    if values is None or len(values) != len(numbers):
        raise GpmError(f"{path} is damaged: its classes are not those of the model; fit and save it again.")
    return Classes(values, numbers)


def _revive(values: list[str | int | float | bool], kind: str) -> NDArray | None:
    """Return classes as the array they were; None if their type is not one that is written here."""
    if kind == "O":
        return as_objects(values)
    if kind == "U":
        return np.array(values) if all(isinstance(value, str) for value in values) else None
    try:
        dtype = np.dtype(kind)
        return np.array(values, dtype=dtype) if dtype.kind in "iufb" else None
    except (TypeError, ValueError, OverflowError):
        return None
