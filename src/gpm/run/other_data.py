"""Read the data that a run is opened on, instead of its training data, as its model reads it."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpm.config import Config
from gpm.data.graph_files import load_graph
from gpm.data.imported import describe_encoding, is_imported, load_imported
from gpm.data.sources import Source, bare_data, resolve
from gpm.data.tables.importer import import_tables
from gpm.data.tables.inputs import brings_nodes
from gpm.data.tables.table_source import is_table, locate
from gpm.data.task_data import TaskData
from gpm.errors import GpmError
from gpm.graph.folder import read_extras


def read_given(data: Any, config: Config, level: str, folder: Path, *, other: bool) -> TaskData:
    """Read data that a run is opened on.

    Args:
        data: Ready `TaskData`; a graph, a PyG `Data` or list, a dataset's name, a folder, a file; or the tables of
            edges, nodes and graphs, as a list.
        config: The options of the run.
        level: The level of its task.
        folder: The run folder.
        other: It is not the training data, so it needs no labels.
    """
    if (config.smiles or config.target) and level == "graph" and isinstance(data, (str, Path)):
        source = resolve(data, smiles=config.smiles or "smiles", target="" if other else config.target)
        return source.load_to_predict(level, config.metric)
    source = resolve(data)
    if source.kind in ("tables", "smiles"):
        return _read_tables(source, config, level, folder, other)
    if source.kind == "imported":
        return _read_imported(Path(data).expanduser(), config, level, folder, other)
    unlabelled = level == "node" and source.kind == "graph" and source.value.y is None
    if unlabelled or (other and level != "link"):
        return source.load_to_predict(level, config.metric)
    return source.load(level, config.metric)


def _read_tables(source: Source, config: Config, level: str, folder: Path, other: bool) -> TaskData:
    """Read tables, and encode them as the training tables of the run were."""
    tables = source.value if isinstance(source.value, list) else [source.value]
    for table in tables:
        if not is_table(table):
            raise GpmError(f"{table} is no table; give the tables of edges, nodes and graphs.")
    own = locate(config.data, folder)
    schema = read_extras(Path(own))[0].get("schema") if is_imported(own) else None
    if not schema:
        return _read_bare(tables, level, folder)
    others = [name for name in ("nodes", "graphs") if schema.get(name) is not None]
    others = [name for name in others if name != "nodes" or not brings_nodes(tables[0])]
    if len(tables) > 1 + len(others):
        listed = ", ".join(["edges", *others])
        raise GpmError(f"{len(tables)} tables are given, but {folder} was trained on {listed}; give these.")
    options = dict(zip(others, tables[1:], strict=False))
    with tempfile.TemporaryDirectory(prefix="gpm-") as scratch:
        imported = import_tables(tables[0], Path(scratch) / "graph", like=own, **options)
        return _read_imported(imported, config, level, folder, other)  # the arrays stay mapped when the files are gone


def _read_bare(tables: list[Any], level: str, folder: Path) -> TaskData:
    """Read a table of edges without further columns, for a model that was not trained on tables."""
    why = f"The training tables of {folder} are not available"
    if len(tables) > 1 or not isinstance(tables[0], (str, Path)):
        raise GpmError(f"{why}, so columns cannot be encoded as in training; give a graph.")
    graph = load_graph(tables[0])
    if graph.x is not None or graph.edge_attr is not None:
        raise GpmError(f"{why}, so the columns of {tables[0]} cannot be encoded as in training; give edges only.")
    return bare_data(graph, level, Path(tables[0]).stem if level == "node" else f"{level}s")


def _read_imported(imported: Path, config: Config, level: str, folder: Path, other: bool) -> TaskData:
    """Read an imported graph if its columns were encoded as the run's own; its labels, if they have the same names."""
    metadata, own = read_extras(imported)[0], locate(config.data, folder)
    origin = read_extras(Path(own))[0] if is_imported(own) else {}
    if describe_encoding(metadata) != describe_encoding(origin):
        raise GpmError(
            f"The columns of {imported} were not encoded as those of {folder}, so its model would misread them; "
            f"import the tables again with --like {folder}."
        )
    same = all(metadata.get(key) == origin.get(key) for key in ("task", "kind", "classes", "targets"))
    data = load_imported(imported, level, config.metric, labels=same or not other)
    return replace(data, unseen=tuple(metadata.get("unseen", ())))
