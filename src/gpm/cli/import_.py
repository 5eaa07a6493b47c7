"""The command `gpm import`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from gpm.errors import GpmError


def import_run(
    edges: str = "",
    out: Path | None = None,
    nodes: Path | None = None,
    graphs: Path | None = None,
    target: list[str] = [],  # noqa: B006 - the command line shows this default
    task: Literal["auto", "node", "link", "graph"] = "auto",
    graph: str = "",
    split: str = "",
    negatives: Path | None = None,
    from_column: str = "",
    to_column: str = "",
    id_column: str = "",
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
            PyG file (.pt), or a folder with one file per graph. May be left out if --schema names it.
        out: Folder to write; it appears only when it is complete. With --show, a .yaml file to write.
        nodes: Table with one row per node: its id, features, labels.
        graphs: Table with one row per graph: its name, labels.
        target: Column to predict, or several.
        task: What to predict; auto infers it from the tables.
        graph: Column with the graph of a row.
        split: Column that says train, val or test. Default: a column with a usual name and such words. For links, a
            column of the edges.
        negatives: For links, table of node pairs without an edge, to validate and test with.
        from_column: Column of the edges with the node where an edge starts. Default: by its name.
        to_column: Column of the edges with the node where an edge ends. Default: by its name.
        id_column: Column of the nodes with the id that edges use. Default: by its name.
        directed: Edges are directed. Default: each edge goes in both directions.
        unlisted: Edge endpoints that the table of nodes does not list: stop with an error, add the node, or drop the
            edge.
        order: Order of the nodes on disk: given (the default), degree (descending), or locality (nodes that walks visit
            together are close, so that fewer pages of a graph larger than memory are read). Names stay the same.
        schema: The edited import.yaml of an earlier import: roles and kinds of columns.
        like: An imported folder or a run: read and encode the columns as there, to predict with its model.
        show: Only show how each column is read.
        memory: Memory limit for the tables, such as 4GB; data that does not fit is written to disk.
        overwrite: Replace an existing graph, once the new one is complete.
        quiet: Show no progress bar.
    """
    from gpm.data.graph_files import PYG_FILES
    from gpm.data.tables import import_tables

    options: dict[str, Any] = {
        "target": target, "task": task, "graph": graph, "split": split, "directed": directed, "unlisted": unlisted,
        "order": order, "schema": schema, "like": like, "from_column": from_column, "to_column": to_column,
        "id_column": id_column,
    }  # fmt: skip
    if schema is not None and not edges:
        edges, nodes, graphs = _files_of(schema, nodes, graphs)
    if not edges:
        raise GpmError("Name what to import: a table of edges, a network file, or a folder with one file per graph.")
    for key in ("target", "graph", "split", "directed", "schema", "from_column", "to_column", "id_column"):
        if like is not None and options[key]:
            raise GpmError(f"--like reads the columns as in the other import; leave out --{key}.")
    if show:
        _show(edges, options | {"nodes": nodes, "graphs": graphs}, out, overwrite)
        return
    if out is None:
        raise GpmError("Name the folder to write, as in -o graph.")
    if (path := Path(edges)).suffix.lower() in PYG_FILES:
        for key, value in (
            options | {"nodes": nodes, "graphs": graphs, "memory": memory, "negatives": negatives}
        ).items():
            if value and key != "task":
                raise GpmError(f"--{key} is for tables, but {path} is a PyG file; leave it out.")
        _import_pyg(path.expanduser(), out, task, overwrite)
    else:
        options |= {"nodes": nodes, "graphs": graphs, "memory": memory, "overwrite": overwrite, "negatives": negatives}
        import_tables(edges, out, progress=not quiet, **options)
    _print_summary(out)


def _print_summary(folder: Path) -> None:
    from gpm.data.tables.importer import SCHEMA
    from gpm.graph.folder import read_extras
    from gpm.graph.graph import Graph

    facts = read_extras(folder)[0]
    for sentence in facts.get("unseen", ()):
        print(sentence)
    print(f"{Graph.open(folder).summary()}; written to {folder}")
    if facts.get("order", "given") != "given":
        print(f"nodes are ordered by {facts['order']}; their names are unchanged")
    if facts.get("schema"):
        trains = facts["kind"] or facts["task"] == "link"
        how = f"gpm train {folder} trains on it" if trains else f"gpm predict RUN --on {folder} predicts on it"
        print(f"roles and kinds of the columns are in {folder / SCHEMA}; {how}")


def _show(edges: str, options: dict[str, Any], out: Path | None, overwrite: bool) -> None:
    """Show what columns are taken for, and write it to a YAML file if one is named."""
    from gpm.data.tables import show_tables
    from gpm.data.tables.schema import write_schema

    if out is not None and out.suffix.lower() not in (".yaml", ".yml"):
        raise GpmError(f"{out}: --show imports nothing; name a .yaml file for the description of the columns.")
    if out is not None and out.exists() and not overwrite:
        raise GpmError(f"{out} exists and may have been edited; name another file, or add --overwrite.")
    schema = show_tables(edges, **options)
    if out is not None:
        write_schema(out, schema)
        print(f"roles and kinds of the columns written to {out}; edit the file and pass it to gpm import --schema")


def _files_of(schema: Path, nodes: Path | None, graphs: Path | None) -> tuple[str, Path | None, Path | None]:
    """Return the files that a schema names, relative to the current folder or to its own, unless others are given."""
    from gpm.data.tables.schema import read_schema

    named = {}
    for name, table in read_schema(schema).tables().items():
        if table.file:
            near = schema.parent / table.file
            named[name] = near if near.exists() and not Path(table.file).exists() else Path(table.file)
    return str(named.get("edges", "")), nodes or named.get("nodes"), graphs or named.get("graphs")


def _import_pyg(path: Path, out: Path, task: str, overwrite: bool) -> None:
    """Write a PyG file as a graph folder, with labels and the masks of its splits."""
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
            extras["part"] = data.masks.codes()
    save_graph(data.graph, out, overwrite=overwrite, facts=facts, extras=extras)
