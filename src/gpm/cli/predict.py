"""The command `gpm predict`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpm.cli.run_folder import name_instances, open_run, refuse
from gpm.config import ComputeOptions, accepts
from gpm.errors import GpmError


@accepts(ComputeOptions)
def predict_run(
    run: Path,
    out: Path | None = None,
    nodes: list[str] = [],  # noqa: B006 - the command line shows this default
    pairs: Path | None = None,
    graphs: list[str] = [],  # noqa: B006
    recommend: int = 0,
    node: str = "",
    on: list[str] = [],  # noqa: B006
    new: bool = False,
    interval: bool = True,
    draws: int = 8,
    calibrate: bool | None = None,
    patterns: int = 0,
    shard: str = "",
    merge: Path | None = None,
    overwrite: bool = False,
    **options: Any,
) -> None:
    """Write predictions for nodes, pairs of nodes or graphs to a table.

    Args:
        run: Run folder.
        out: Table to write: .csv, .tsv, .parquet or .jsonl. With --shard, folder for the shards.
        nodes: Names of nodes, or a file with one name per row. Default: all.
        pairs: Table of node pairs to score, with columns source and target. For link prediction.
        graphs: Names or ids of graphs. Default: all.
        recommend: Number of likely new neighbours to list: of --node, of each of --nodes, or else of every node. For
            link prediction.
        node: Node whose new neighbours to list.
        on: Other data than the run was trained on: a graph folder; the tables of edges, nodes and graphs, in this
            order; or another table of molecules.
        new: With --on, only the nodes that training did not see.
        interval: For numbers, also write columns low and high: an interval that covers 90% of the validation split.
            With --calibrate false, or where that split cannot be read, spread_low and spread_high: the spread of the
            prediction when patterns are drawn again.
        draws: Draws of patterns for the interval.
        calibrate: First fit probabilities (by a temperature) or intervals to the validation split. Default: intervals
            only.
        patterns: Patterns per instance. 0 takes the whole pool.
        shard: Predict one of many equal shards of all instances, such as 3/100 (counted from 0), into the folder -o.
        merge: Instead, merge all shards in this folder into one table.
        overwrite: Replace the file of a shard of another run, other data or other options.
    """
    from gpm.data.graph_files import read_names, read_pairs
    from gpm.io.table_files import check_table

    some: dict[str, Any] = {"--recommend": recommend, "--node": node, "--nodes": nodes, "--graphs": graphs}
    if merge is not None:
        refuse(
            some | {"--shard": shard, "--pairs": pairs, "--on": on, "--new": new},
            "--merge only merges the shards that --shard has written; leave out {flag}, or --merge.",
        )
        _merge_parts(run, out, merge)
        return
    index, count = _check_shard(shard, out, some) if shard else (0, 0)
    if out is None and not (recommend and node):
        raise GpmError("Name the table to write, as in -o predictions.csv.")
    if out is not None and not shard:
        check_table(out)
    if node and (nodes or not recommend):
        raise GpmError("--node names one node for --recommend 10, --nodes names several; give one of the two.")
    if len(nodes) == 1 and Path(nodes[0]).is_file():
        nodes = read_names(Path(nodes[0]))
    opened = open_run(run, on, **options, report=index == 0)
    level = opened.data.level
    drawing: dict[str, Any] = {"patterns": patterns or None, "calibrate": calibrate, "progress": True}
    for flag, value, of in (("--nodes", nodes, "node"), ("--pairs", pairs, "link"), ("--graphs", graphs, "graph")):
        if value and (level != of or recommend) and not (flag == "--nodes" and recommend):
            raise GpmError(f"{flag} is for predicting {of}s, but here {run} predicts {level}s; leave it out.")
    if level == "link" and new:
        raise GpmError(f"--new is for nodes, but {run} predicts links; leave it out.")
    wide = interval and opened.predicts_values and (opened.config.model == "gpm" or calibrate is not False)
    if level == "link" and pairs is None and not recommend:
        raise GpmError("Name a table of pairs with --pairs, or ask for new neighbours with --recommend 10.")
    if shard and out is not None:
        drawing |= {"pairs": pairs, "new": new, "interval": wide, "draws": draws, "overwrite": overwrite}
        part = opened.predict_shard(out, index, count, **drawing)
        what = f"{len(part):,} {name_instances(opened)}s of {opened.data.title} from id {part.first:,}"
        rows = f"{what}, written to {part.path}"
        print(rows if part.made else f"{part.path} exists already, of the same run, data and options; nothing to do")
        return
    if recommend:
        every: list[Any] = list(nodes or opened.data.instance_names)
        predictions = opened.recommend(node or every, recommend, **drawing)
    elif pairs is not None:
        predictions = opened.predict(read_pairs(pairs), **drawing)
    else:
        chosen = (nodes if level == "node" else graphs) or None
        predictions = opened.predict(chosen, new=new, interval=wide, draws=draws, **drawing)
    if out is None:
        for (_, name), chance in zip(predictions.names, predictions.probability[:, 0], strict=True):
            print(f"{chance:>7.2%}  {name}")
        return
    predictions.save(out)
    print(f"{len(predictions):,} {name_instances(opened)}s of {opened.data.title} written to {out}")


def _check_shard(shard: str, out: Path | None, some: dict[str, Any]) -> tuple[int, int]:
    """Return the index of a shard and the number of shards; a shard is of all instances, not of some."""
    from gpm.run.shards import check_folder, parse_shard

    refuse(some, "--shard predicts a share of all instances; leave out {flag}, or --shard.")
    if out is None:
        raise GpmError("Name the folder for the shards, as in -o predictions.")
    check_folder(out)
    return parse_shard(shard)


def _merge_parts(run: Path, out: Path | None, folder: Path) -> None:
    from gpm.run.run import Run
    from gpm.run.shards import merge_shards

    if out is None:
        raise GpmError("Name the table to write, as in -o predictions.parquet.")
    rows = merge_shards(folder, out, Run.open(run, device="cpu"))
    print(f"{rows:,} rows of the shards in {folder} written to {out}")
