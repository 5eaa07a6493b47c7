"""The command `gpm embed`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpm.cli.run_folder import open_run
from gpm.config import ComputeOptions, accepts
from gpm.errors import GpmError


@accepts(ComputeOptions)
def embed_run(
    run: Path,
    out: Path | None = None,
    nodes: list[str] = [],  # noqa: B006 - the command line shows this default
    graphs: list[str] = [],  # noqa: B006
    on: list[str] = [],  # noqa: B006
    new: bool = False,
    patterns: int = 0,
    **options: Any,
) -> None:
    """Write the embeddings of nodes or graphs to a file.

    Args:
        run: Run folder.
        out: File to write: a table (.parquet, .csv, .tsv or .jsonl), or .npy with the names in a .keys.csv.
        nodes: Names of nodes. Default: all.
        graphs: Names or ids of graphs. Default: all.
        on: Other data than the run was trained on: a graph folder; the tables of edges, nodes and graphs, in this
            order; or another table of molecules.
        new: With --on, only the nodes that training did not see.
        patterns: Patterns per instance. 0 takes the whole pool.
    """
    from gpm.inference.embeddings import check_embeddings

    if out is None:
        raise GpmError("Name the file to write, as in -o embeddings.parquet.")
    check_embeddings(out)
    opened = open_run(run, on, **options)
    for flag, value, of in (("--nodes", nodes, "node"), ("--graphs", graphs, "graph")):
        if value and (opened.data.level == "graph") != (of == "graph"):
            raise GpmError(f"{flag} is for {of}s, but {run} predicts {opened.data.level}s; leave it out.")
    embeddings = opened.embed(nodes or graphs or None, new=new, patterns=patterns or None, progress=True)
    embeddings.save(out)
    print(f"{len(embeddings):,} embeddings of {embeddings.vectors.shape[1]} dimensions written to {out}")
