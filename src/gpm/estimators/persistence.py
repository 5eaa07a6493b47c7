"""A fitted estimator as a run folder that stands on its own: with the graph, if that was in memory, and the classes."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpm.data.graph_data import GraphData
from gpm.data.imported import is_imported
from gpm.data.link_data import LinkData
from gpm.data.sources import TaskData
from gpm.data.tables.table_source import GRAPH, OWN_GRAPHS, locate
from gpm.errors import GpmError
from gpm.estimators.classes import Classes
from gpm.graph.folder import read_extras, save_graph
from gpm.io.atomic import read_json, write_json
from gpm.io.manifest import CHECKSUMS, check_files, list_files, write_checksums
from gpm.io.publish import claiming, publish, scratch_for
from gpm.io.run_files import CONFIG, write_config
from gpm.run.run import Run
from gpm.run.workplace import check_replaceable

FILE, FORMAT, VERSION = "estimator.json", "gpm-estimator", 1
_KINDS = {"str": str, "int": int, "float": float, "bool": bool}


@dataclass(frozen=True, eq=False)
class Memory:
    """What an estimator knows beside its run.

    Attributes:
        classes: Of a classifier, in the user's own values.
        features: How many columns of features the nodes have; None if the run says it.
        facts: How they were made of tables; empty if they were not.
        like: The folder that the tables were imported to.
        source: Where the graph can be read again; empty if it was in memory.
    """

    classes: Classes | None = None
    features: int | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    like: Path | None = None
    source: str = ""


def save_run(run: Run, memory: Memory, folder: Path, *, overwrite: bool = False) -> Path:
    """Write a run folder, which is there complete or not at all."""
    folder = folder.expanduser().absolute()
    spelled = _spell(memory.classes)
    with claiming(folder):
        if folder.exists() and not overwrite:
            raise GpmError(f"{folder} exists: name another folder, or pass overwrite=True.")
        if folder.exists():
            check_replaceable(folder)
        with scratch_for(folder) as scratch:
            made = scratch / "run"
            build_folder(run, memory, made)
            write_json(made / FILE, {"format": FORMAT, "version": VERSION, "features": memory.features} | spelled)
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
        save_graph(run.data.graph, made / GRAPH, facts=_describe(run, memory.facts))
    elif source in OWN_GRAPHS:
        shutil.copytree(locate(source, run.folder), made / GRAPH)
    place = source if source and source not in OWN_GRAPHS else OWN_GRAPHS[0]
    write_config(made / CONFIG, run.config.with_(data=place))


def recall(run: Run) -> Memory:
    """What is known of the run in a folder, also of one that `gpm train` wrote."""
    path = run.folder / FILE
    check_files(run.folder, [FILE])
    content = read_json(path) if path.is_file() else {}
    if content and (content.get("format"), content.get("version")) != (FORMAT, VERSION):
        raise GpmError(f"{path} is not of an estimator that this gpm reads; fit and save it again.")
    place = Path(locate(run.config.data, run.folder))
    facts, like = (read_extras(place)[0], place) if run.config.data and is_imported(place) else ({}, None)
    like = like if facts.get("schema") else None
    features = content.get("features")
    return Memory(_recall_classes(run, content, path), features if isinstance(features, int) else None, facts, like)


def _describe(run: Run, facts: dict[str, Any]) -> dict[str, Any]:
    """What a saved graph says of itself, so that it is loaded as it was."""
    data, kind = run.data, {"classes": "classes", "values": "values"}.get(str(run.facts.get("kind")), "")
    kind = "labels" if run.facts.get("multilabel") else kind
    named = {"graphs": data.names} if isinstance(data, GraphData) and data.names is not None else {}
    return facts | {"task": data.level, "title": data.title, "kind": kind} | _names(data) | named


def _names(data: TaskData) -> dict[str, Any]:
    if isinstance(data, LinkData):
        return {"targets": [], "classes": []}
    return {"targets": list(data.targets), "classes": list(data.class_names)}


def _spell(classes: Classes | None) -> dict[str, Any]:
    """Classes as JSON: texts, numbers, yes and no."""
    if classes is None:
        return {}
    listed = [value.item() if isinstance(value, np.generic) else value for value in classes.values.tolist()]
    strange = next((value for value in listed if type(value) not in _KINDS.values()), None)
    if strange is not None:
        raise GpmError(f"the class {strange!r} cannot be written to a file; use texts or numbers as classes.")
    kind = classes.values.dtype.str if classes.values.dtype.kind in "iufb" else classes.values.dtype.kind
    return {"classes": listed, "dtype": kind}


def _recall_classes(run: Run, content: dict[str, Any], path: Path) -> Classes | None:
    """The classes of a run: as an estimator wrote them, else as predictions name them."""
    from gpm.tasks import ClassTask, load_task

    task = load_task(run.facts, None)
    if not isinstance(task, ClassTask):
        return None
    numbers = np.asarray(task.classes, dtype=np.int64)
    if "classes" not in content:
        return Classes(np.asarray(task.names), numbers)
    values = _revive(content["classes"], str(content.get("dtype")))
    if values is None or len(values) != len(numbers):
        raise GpmError(f"{path} is damaged: its classes are not those of the model; fit and save it again.")
    return Classes(values, numbers)


def _revive(values: Any, kind: str) -> NDArray | None:
    """An array of classes, as it was; None if it is not one that was written here."""
    if not isinstance(values, list) or any(type(value) not in _KINDS.values() for value in values):
        return None
    if kind == "O":
        array = np.empty(len(values), dtype=object)
        array[:] = values
        return array
    if kind == "U":
        return np.array(values) if all(isinstance(value, str) for value in values) else None
    try:
        dtype = np.dtype(kind)
        return np.array(values, dtype=dtype) if dtype.kind in "iufb" else None
    except (TypeError, ValueError, OverflowError):
        return None
