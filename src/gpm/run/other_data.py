"""Data that a run is opened on, read as its model reads it, and what it contains that the training data did not."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gpm.config import Config
from gpm.data.graph_files import load_graph
from gpm.data.imported import describe_encoding, is_imported, load_imported
from gpm.data.sources import Source, bare_data, resolve
from gpm.data.tables.importer import import_tables
from gpm.data.tables.inputs import brings_nodes
from gpm.data.tables.table_source import is_table, locate
from gpm.data.task_data import TaskData
from gpm.errors import GpmError
from gpm.graph.coerce import column_ends
from gpm.graph.find import find_new
from gpm.graph.folder import read_extras
from gpm.graph.graph import Graph

FAR = 0.5  # share of the training range: values farther outside than this are reported


def read_given(data: Any, config: Config, level: str, folder: Path, *, other: bool) -> TaskData:
    """Read data that a run is opened on; `other` data than that of the training needs no labels.

    It is ready `TaskData`; a graph, a PyG `Data` or list, a dataset's name, a folder, a file; or the tables of edges,
    nodes and graphs, as a list.
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
            raise GpmError(f"{table} is not a table; give the tables of edges, nodes and graphs.")
    own = locate(config.data, folder)
    schema = read_extras(Path(own))[0].get("schema") if is_imported(own) else None
    if not schema:
        return _read_bare(tables, level, folder)
    others = [name for name in ("nodes", "graphs") if schema.get(name) is not None]
    if "nodes" in others and brings_nodes(tables[0]):
        others.remove("nodes")
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


def describe_unseen(data: TaskData, load_home: Callable[[], Graph], pe: str) -> list[str]:
    """Describe, in sentences, what the training graph had not: nodes, categories, degrees and ranges of features."""
    sentences = list(data.unseen)
    try:
        home = load_home()
    except GpmError as error:
        sentences.append(f"What is new cannot be told without the training graph: {error}")
    else:
        sentences += _compare_nodes(data.graph, home, data.level)
        sentences += _compare_features(data.graph.x, home.x, "node")
        sentences += _compare_features(data.graph.edge_attr, home.edge_attr, "edge")
    if pe == "lap":
        sentences.append(
            "The model reads Laplacian eigenvectors (pe lap), which differ between graphs: predictions on another "
            "graph may be far off; train with --pe rwse to predict on others."
        )
    return sentences


def _compare_nodes(graph: Graph, home: Graph, level: str) -> list[str]:
    sentences, degree, usual = [], graph.degree(), home.degree()
    if level != "graph":
        new = len(find_new(graph, home))
        sentences.append(f"{new:,} of {graph.num_nodes:,} nodes are new; {graph.num_nodes - new:,} were in training.")
    most = int(usual.max(initial=0))
    if far := int(np.count_nonzero(degree > (1 + FAR) * most)):
        sentences.append(
            f"{far:,} nodes have up to {degree.max():,} edges; in training no node had more than {most:,}."
        )
    if usual.size and usual.min() > 0 and (alone := int(np.count_nonzero(degree == 0))):
        sentences.append(f"{alone:,} nodes have no edges that lead away; in training every node had some.")
    return sentences


def _compare_features(features: Any, home: Any, what: str) -> list[str]:
    """Describe new categories, or numbers far outside; features of another form are refused elsewhere."""
    if features is None or home is None or features.shape[1] != home.shape[1] or not features.shape[0] * home.shape[0]:
        return []
    if np.issubdtype(home.dtype, np.integer):
        return _compare_categories(features, home, what)
    low, high = (column_ends(home, end) for end in ("min", "max"))
    room = FAR * (high - low)
    if sp.issparse(features):  # without its zeros
        rows, columns, values = features.tocoo(copy=False).row, features.indices, features.data
    else:
        grid = np.indices(features.shape, sparse=True)
        rows, columns = (np.broadcast_to(ids, features.shape).reshape(-1) for ids in grid)
        values = np.asarray(features).reshape(-1)
    outside = np.flatnonzero((values > (high + room)[columns]) | (values < (low - room)[columns]))
    if not outside.size:
        return []
    beyond = np.maximum(values - high[columns], low[columns] - values)[outside]
    worst = outside[beyond.argmax()]
    column = columns[worst]
    return [
        f"{len(np.unique(rows[outside])):,} {what}s have features far outside the training range, such as "
        f"{values[worst]:.4g} in column {column} (training range {low[column]:.4g} to {high[column]:.4g})."
    ]


def _compare_categories(features: NDArray, home: NDArray, what: str) -> list[str]:
    new = np.stack([~np.isin(mine, theirs) for mine, theirs in zip(features.T, home.T, strict=True)], 1)
    if not new.any():
        return []
    column = int(new.any(0).argmax())
    example = features[new[:, column].argmax(), column]
    return [
        f"{int(new.any(1).sum()):,} {what}s have categories that training did not, such as {example} in column "
        f"{column}; they are read as unknown."
    ]
