"""The command `gpm import`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from gpm.errors import GpmError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from gpm.data.splits import Masks


def import_run(
    edges: str = "",
    out: Path | None = None,
    nodes: Path | None = None,
    graphs: Path | None = None,
    target: list[str] = [],  # noqa: B006 - the command line shows this default
    task: Literal["auto", "node", "link", "graph"] = "auto",
    graph: str = "",
    split: str = "",
    directed: bool = False,
    unlisted: Literal["", "error", "add", "drop"] = "",
    order: Literal["", "given", "degree", "locality"] = "",
    schema: Path | None = None,
    like: Path | None = None,
    show: bool = False,
    memory: str = "",
    overwrite: bool = False,
    quiet: bool = False,
) -> None:
    """Read tables of edges, nodes and graphs, check them, and write a graph folder.

    Args:
        edges: A table of edges (.csv, .tsv, .txt, .parquet, .jsonl), a network file (.graphml, .gexf, .gml, .json), a
            PyG file (.pt), or a folder with one file per graph; may be left out if --schema names it.
        out: The folder to write; it is there complete, or not at all. With --show, a .yaml file to write.
        nodes: A table with a row per node: its id, features, labels.
        graphs: A table with a row per graph: its name, labels.
        target: The column to predict, or several.
        task: What is predicted; auto sees it from the tables.
        graph: The column that says which graph a row belongs to.
        split: The column that says train, val or test; by default one of that name with such words in it.
        directed: Edges go one way; by default each goes both ways.
        unlisted: What to do with an edge's end that the table of nodes does not list: error, add the node, or drop the
            edge.
        order: How nodes lie on disk: given (the default), degree (those of most edges first), or locality (those that
            walks visit together near each other, which reads fewer pages of a graph larger than memory). Names stay.
        schema: The import.yaml of an earlier import, changed by hand: roles and kinds of columns.
        like: An imported folder or a run: read and encode the columns as there, to predict with its model.
        show: Only say what the columns are taken for.
        memory: The most that the tables may take in memory, such as 4GB; what does not fit goes to disk.
        overwrite: Replace a graph that is there, once the new one is complete.
        quiet: No progress bar.
    """
    said: dict[str, Any] = {
        "target": target, "task": task, "graph": graph, "split": split, "directed": directed, "unlisted": unlisted,
        "order": order, "schema": schema, "like": like,
    }  # fmt: skip
    if schema is not None and not edges:
        edges, nodes, graphs = _files_of(schema, nodes, graphs)
    if not edges:
        raise GpmError("say what to import: a table of edges, a network file, or a folder with a file per graph.")
    _check_like(said)
    if show:
        _show(edges, nodes, graphs, said, out, overwrite)
        return
    if out is None:
        raise GpmError("name the folder to write, as in -o graph.")
    from gpm.data.graph_files import PYG_FILES
    from gpm.data.tables.importer import import_tables

    if Path(edges).suffix.lower() in PYG_FILES:
        _refuse(Path(edges), said | {"nodes": nodes, "graphs": graphs, "memory": memory})
        _import_pyg(Path(edges).expanduser(), out, task, overwrite)
    else:
        import_tables(
            edges, out, nodes=nodes, graphs=graphs, memory=memory, overwrite=overwrite, progress=not quiet, **said
        )
    _tell(out)


def _tell(folder: Path) -> None:
    from gpm.data.tables.importer import SCHEMA
    from gpm.graph.folder import read_extras
    from gpm.graph.graph import Graph

    facts = read_extras(folder)[0]
    for sentence in facts.get("unseen", ()):
        print(sentence)
    print(f"{Graph.open(folder).summary()} in {folder}")
    if facts.get("order", "given") != "given":
        print(f"nodes are numbered by {facts['order']}; their names are as they were")
    if facts.get("schema"):
        trains = facts["kind"] or facts["task"] == "link"
        how = f"gpm train {folder} trains on it" if trains else f"gpm predict RUN --on {folder} predicts on it"
        print(f"what the columns were taken for is in {folder / SCHEMA}; {how}")


def _show(
    edges: str, nodes: Path | None, graphs: Path | None, said: dict[str, Any], out: Path | None, overwrite: bool
) -> None:
    """Say what columns are taken for, and write it to a YAML file if one is named."""
    if out is not None and out.suffix.lower() not in (".yaml", ".yml"):
        raise GpmError(f"{out}: with --show nothing is imported; name a .yaml file for what the columns are.")
    if out is not None and out.exists() and not overwrite:
        raise GpmError(f"{out} exists, and may have been changed by hand; name another, or add --overwrite.")
    from gpm.data.tables.importer import show_tables
    from gpm.data.tables.schema import write_schema

    found = show_tables(edges, nodes=nodes, graphs=graphs, **said)
    if out is not None:
        write_schema(out, found)
        print(f"what the columns are is in {out}; change it, and give it to gpm import --schema")


def _check_like(said: dict[str, Any]) -> None:
    """Refuse what an import that is followed says already."""
    for key in ("target", "graph", "split", "directed", "schema"):
        if said["like"] is not None and said[key]:
            raise GpmError(f"--like says what columns are, as in the other import; leave out --{key}.")


def _refuse(path: Path, said: dict[str, Any]) -> None:
    for key, value in said.items():
        if value and key != "task":
            raise GpmError(f"--{key} goes with tables; {path} is a PyG file, which says all by itself. Leave it out.")


def _files_of(schema: Path, nodes: Path | None, graphs: Path | None) -> tuple[str, Path | None, Path | None]:
    """The files that a schema names, where no others are given: from here, or from where it is itself."""
    from gpm.data.tables.schema import read_schema

    named = {}
    for name, table in read_schema(schema).tables().items():
        if table.file:
            near = schema.parent / table.file
            named[name] = near if near.exists() and not Path(table.file).exists() else Path(table.file)
    return str(named.get("edges", "")), nodes or named.get("nodes"), graphs or named.get("graphs")


def _import_pyg(path: Path, out: Path, task: str, overwrite: bool) -> None:
    """A PyG file as a graph folder, with labels and the masks of its splits."""
    from gpm.data.labels import VALUE_METRICS
    from gpm.data.link_data import LinkData
    from gpm.data.sources import load_task_data
    from gpm.graph.folder import save_graph

    data = load_task_data(path, task)
    facts = {"task": data.level, "title": data.title, "targets": [], "kind": "", "classes": []}
    extras = {}
    if not isinstance(data, LinkData):
        several = "labels" if data.labels.ndim == 2 else "classes"
        facts["kind"] = "values" if data.metric in VALUE_METRICS else several
        if data.masks is not None:
            extras["part"] = _number_parts(path, data.masks)
    save_graph(data.graph, out, overwrite=overwrite, facts=facts, extras=extras)


def _number_parts(path: Path, masks: Masks) -> NDArray[np.int8]:
    """The part of each instance, -1 for none, `[N]` or `[N, splits]`."""
    import numpy as np

    parts = [masks.train, masks.val, masks.test]
    if (np.sum(parts, axis=0, dtype=np.int8) > 1).any():
        raise GpmError(f"{path}: an instance is in two parts of a split; put each into one mask only.")
    found: NDArray[np.int8] = np.select(parts, range(3), default=-1).astype(np.int8)
    return found
