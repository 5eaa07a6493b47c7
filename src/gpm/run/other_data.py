"""Read the data that a run is opened on, instead of its training data, as its model reads it."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpm.data.graph_files import load_graph
from gpm.data.imported import describe_encoding, is_imported, load_imported
from gpm.data.sources import Source, bare_data, resolve
from gpm.data.tables.importer import import_tables
from gpm.data.tables.inputs import brings_nodes
from gpm.data.tables.table_source import is_table, locate
from gpm.data.task_data import TaskData
from gpm.errors import GpmError
from gpm.graph.folder import read_extras

if TYPE_CHECKING:
    from gpm.run.run import Run


def read_given(run: Run, data: Any) -> TaskData:
    """Read data that a run is opened on; predictions need no labels.

    Args:
        run: The run.
        data: Ready `TaskData`; a graph, a PyG `Data` or list, a dataset's name, a folder, a file; or the tables of
            edges, nodes and graphs, as a list.
    """
    config, level = run.config, run.facts["task"]
    if (config.smiles or config.target) and level == "graph" and isinstance(data, (str, Path)):
        source = resolve(data, smiles=config.smiles or "smiles", target="" if run.other else config.target)
        return source.load_to_predict(level, config.metric)
    source = resolve(data)
    if source.kind in ("tables", "smiles"):
        return _read_tables(run, source)
    if source.kind == "imported":
        return _read_imported(run, Path(data).expanduser())
    unlabelled = level == "node" and source.kind == "graph" and source.value.y is None
    if unlabelled or (run.other and level != "link"):
        return source.load_to_predict(level, config.metric)
    return source.load(level, config.metric)


def _read_tables(run: Run, source: Source) -> TaskData:
    """Read tables, and encode them as the training tables of the run were."""
    tables = source.value if isinstance(source.value, list) else [source.value]
    for table in tables:
        if not is_table(table):
            raise GpmError(f"{table} is no table; give the tables of edges, nodes and graphs.")
    own = locate(run.config.data, run.folder)
    schema = read_extras(Path(own))[0].get("schema") if is_imported(own) else None
    if not schema:
        return _read_bare(run, tables)
    others = [name for name in ("nodes", "graphs") if schema.get(name) is not None]
    others = [name for name in others if name != "nodes" or not brings_nodes(tables[0])]
    if len(tables) > 1 + len(others):
        listed = ", ".join(["edges", *others])
        raise GpmError(f"{len(tables)} tables are given, but {run.folder} was trained on {listed}; give these.")
    options = dict(zip(others, tables[1:], strict=False))
    with tempfile.TemporaryDirectory(prefix="gpm-") as scratch:
        folder = import_tables(tables[0], Path(scratch) / "graph", like=own, **options)
        return _read_imported(run, folder)  # the arrays stay mapped when the files are gone


def _read_bare(run: Run, tables: list[Any]) -> TaskData:
    """Read a table of edges without further columns, for a model that was not trained on tables."""
    why = f"The training tables of {run.folder} are not available"
    if len(tables) > 1 or not isinstance(tables[0], (str, Path)):
        raise GpmError(f"{why}, so columns cannot be encoded as in training; give a graph.")
    graph, level = load_graph(tables[0]), run.facts["task"]
    if graph.x is not None or graph.edge_attr is not None:
        raise GpmError(f"{why}, so the columns of {tables[0]} cannot be encoded as in training; give edges only.")
    return bare_data(graph, level, Path(tables[0]).stem if level == "node" else f"{level}s")


def _read_imported(run: Run, folder: Path) -> TaskData:
    """Read an imported graph if its columns were encoded as the run's own; its labels, if they have the same names."""
    metadata, own = read_extras(folder)[0], locate(run.config.data, run.folder)
    origin = read_extras(Path(own))[0] if is_imported(own) else {}
    if describe_encoding(metadata) != describe_encoding(origin):
        raise GpmError(
            f"The columns of {folder} were not encoded as those of {run.folder}, so its model would misread them; "
            f"import the tables again with --like {run.folder}."
        )
    same = all(metadata.get(key) == origin.get(key) for key in ("task", "kind", "classes", "targets"))
    data = load_imported(folder, run.facts["task"], run.config.metric, labels=same or not run.other)
    return replace(data, unseen=tuple(metadata.get("unseen", ())))
