"""The verbs of the command line that work on runs: thin, typed functions whose docstrings are their help."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from gpm.errors import GpmError
from gpm.explain.explanation import Method
from gpm.io.table_files import check_table

if TYPE_CHECKING:
    from gpm.run.run import Run
    from gpm.run.shards import Part

_log = logging.getLogger("gpm")


def train_run(
    source: str = "",
    out: Path | None = None,
    seeds: int = 1,
    folds: int = 0,
    resume: Path | None = None,
    device: str = "auto",
    threads: int = 0,
    track: Literal["none", "tensorboard", "wandb", "mlflow"] = "none",
    result: Path | None = None,
    baselines: bool = False,
    overwrite: bool = False,
    quiet: bool = False,
    nodes: Path | None = None,
    graphs: Path | None = None,
    graph: str = "",
    directed: bool = False,
    unlisted: Literal["", "error", "add", "drop"] = "",
    schema: Path | None = None,
    recipe: str = "",
    devices: int = 1,
    workers: int = 0,
    strategy: Literal["ddp", "fsdp"] = "ddp",
    restarts: int = 0,
    **options: Any,
) -> None:
    """Train a model on nodes, links or graphs, score it and save it all in a run folder.

    Args:
        source: A recipe's name (gpm recipes) or YAML file, a dataset's name (gpm data), a graph's folder (gpm import),
            a PyG file (.pt), a table of edges (.csv, .tsv, .txt, .parquet, .jsonl) or a network file (.graphml, .gexf,
            .gml, .json), a folder with one such file per graph, or a table of molecules with --smiles and --target.
        out: The run folder; by default a new one below runs.
        seeds: Train so many times, with seeds counted from --seed, and print mean and standard deviation.
        folds: Cross-validate: so many folds, each of which is the test part once.
        resume: Go on with a run that was interrupted, exactly as it would have gone on.
        device: auto, cpu, cuda, cuda:1 or mps.
        threads: Threads to compute with; 0 takes what torch takes. Of several ranks, each has so many; by default the
            processors are shared out.
        track: Also log to TensorBoard, Weights & Biases or MLflow.
        result: Also write the figures, over all seeds, to this JSON file.
        baselines: For nodes, also score the most frequent class and a network on features alone, on the same split.
        overwrite: Replace a run folder that is there, once the new run is complete.
        quiet: No progress bar.
        nodes: With a table of edges, a table with a row per node: its id, features, labels. As a whole number, how many
            machines train together, each by the same command, with MASTER_ADDR set to the name of one of them.
        graphs: With a table of edges, a table with a row per graph: its name, labels.
        graph: The column that says which graph a row belongs to.
        directed: The edges of a table go one way; by default each goes both ways.
        unlisted: What to do with an edge's end that the table of nodes does not list: error, add the node, or drop the
            edge.
        schema: The import.yaml of an earlier import, changed by hand: roles and kinds of columns.
        recipe: Begin with the options of this recipe, where the source is data of your own.
        devices: How many devices of this machine (on a CPU: processes) train together, each a share of every batch;
            torchrun -m gpm train does the same from outside.
        workers: Processes, of each rank, that draw patterns and gather features ahead of the model.
        strategy: How ranks share a model: ddp (each has all of it) or fsdp (a piece, for models that do not fit).
        restarts: How many times to start all ranks again where one has ended, from the last epoch that was saved.
    """
    from gpm.training.start import train

    train(
        source, out=out, seeds=seeds, folds=folds, resume=resume, device=device, threads=threads, track=track,
        result=result, baselines=baselines, overwrite=overwrite, quiet=quiet, nodes=nodes, graphs=graphs, graph=graph,
        directed=directed, unlisted=unlisted, schema=schema, recipe=recipe, devices=devices, workers=workers,
        strategy=strategy, restarts=restarts, **options,
    )  # fmt: skip


def evaluate_run(
    run: Path,
    part: Literal["train", "val", "test"] = "test",
    patterns: int = 0,
    device: str = "auto",
    out: Path | None = None,
) -> None:
    """Score a trained model again, on a part of its split.

    Args:
        run: The run folder.
        part: Which part.
        patterns: Patterns per instance; 0 takes the whole pool.
        device: auto, cpu, cuda, cuda:1 or mps.
        out: Also write the scores to this JSON file.
    """
    from gpm.io.atomic import write_json
    from gpm.run.run import Run
    from gpm.tasks.metrics import show_scores

    opened = Run.open(run, device=device)
    scores = opened.evaluate(part, patterns=patterns or None, progress=True)
    shown = show_scores(scores)
    used = patterns or opened.config.pool
    count = len(getattr(opened.split, part))
    print(f"{opened.data.title}, {part}: {shown}")
    split = f"split {opened.split.name} ({opened.split.digest})"
    what = "pair" if opened.data.level == "link" else opened.data.level
    each = f", {used} patterns each" if opened.config.model == "gpm" else ""
    print(f"{count:,} {what}s{each}, {split}, seed {opened.config.seed}")
    if out is not None:
        facts = {
            "run": str(run),
            "part": part,
            "patterns": used,
            "split": opened.split.name,
            "digest": opened.split.digest,
        }
        write_json(out, facts | {"scores": scores})


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
    calibrate: bool = False,
    patterns: int = 0,
    device: str = "auto",
    shard: str = "",
    merge: Path | None = None,
    overwrite: bool = False,
) -> None:
    """Write what a model says of nodes, pairs of nodes or graphs, with probabilities.

    Args:
        run: The run folder.
        out: The table to write: .csv, .tsv, .parquet or .jsonl; with --shard, the folder of the parts.
        nodes: Names of nodes; by default all.
        pairs: For links, a table of the pairs of nodes to score, with columns source and target.
        graphs: Names or numbers of graphs; by default all.
        recommend: For links, list so many likely new neighbours of --node.
        node: Whose neighbours to recommend.
        on: Something else than what it was trained on: a graph folder; the tables of edges, nodes and graphs, in this
            order; or another table of molecules.
        new: With --on, only the nodes that training did not know.
        interval: Of numbers, also write low and high: how far the answer moves with the patterns that are drawn; with
            --calibrate, wide enough for 90% of the validation part.
        draws: How many times patterns are drawn anew for that.
        calibrate: Fit probabilities (by a temperature) or intervals to the validation part first.
        patterns: Patterns per instance; 0 takes the whole pool.
        device: auto, cpu, cuda, cuda:1 or mps.
        shard: Predict one of many equal shards of all instances, such as 3/100 (numbered from 0), into the folder -o.
        merge: Instead, put the parts of all shards in this folder into one table.
        overwrite: Replace a shard's part that is of another run, other data or other options.
    """
    from gpm.data.graph_files import read_pairs

    some: dict[str, Any] = {"--recommend": recommend, "--node": node, "--nodes": nodes, "--graphs": graphs}
    if merge is not None:
        _merge_parts(run, out, merge, some | {"--shard": shard, "--pairs": pairs, "--on": on, "--new": new})
        return
    index, count = _check_shard(shard, out, some) if shard else (0, 0)
    if out is None and not recommend:
        raise GpmError("name the table to write, as in -o predictions.csv.")
    if out is not None and not shard:
        check_table(out)
    if bool(recommend) != bool(node):
        raise GpmError("--recommend says how many neighbours and --node of whom; give both.")
    opened = _open(run, on, device, tell=index == 0)
    level = opened.data.level
    options: dict[str, Any] = {"patterns": patterns or None, "calibrate": calibrate, "progress": True}
    for flag, given, of in (("--nodes", nodes, "node"), ("--pairs", pairs, "link"), ("--graphs", graphs, "graph")):
        if given and (level != of or recommend):
            raise GpmError(f"{flag} is for predicting {of}s, which is not asked of {run} here; leave it out.")
    if level == "link" and new:
        raise GpmError(f"--new is for nodes, but {run} predicts links; leave it out.")
    wide = interval and opened.predicts_values and (opened.config.model == "gpm" or calibrate)
    if level == "link" and pairs is None and not recommend:
        raise GpmError("name a table of pairs with --pairs, or a node with --recommend 10 --node NAME.")
    if shard and out is not None:
        options |= {"pairs": pairs, "new": new, "interval": wide, "draws": draws, "overwrite": overwrite}
        _tell_part(opened, opened.predict_shard(out, index, count, **options))
        return
    if recommend:
        found = opened.recommend(node, recommend, **options)
    elif pairs is not None:
        found = opened.predict(read_pairs(pairs), **options)
    else:
        chosen = (nodes if level == "node" else graphs) or None
        found = opened.predict(chosen, new=new, interval=wide, draws=draws, **options)
    if out is None:
        for (_, name), chance in zip(found.names, found.probability[:, 0], strict=True):
            print(f"{chance:>7.2%}  {name}")
        return
    found.save(out)
    what = "pair" if level == "link" else level
    print(f"{len(found):,} {what}s of {opened.data.title} in {out}")


def _check_shard(shard: str, out: Path | None, some: dict[str, Any]) -> tuple[int, int]:
    """The number of a shard and how many there are; a shard is of all instances, not of some."""
    from gpm.run.shards import check_folder, parse_shard

    for flag, given in some.items():
        if given:
            raise GpmError(f"--shard predicts a share of all that there is; leave out {flag}, or --shard.")
    if out is None:
        raise GpmError("name the folder of the parts, as in -o answers.")
    check_folder(out)
    return parse_shard(shard)


def _tell_part(run: Run, part: Part) -> None:
    what = "pair" if run.data.level == "link" else run.data.level
    if part.made:
        print(f"{len(part):,} {what}s of {run.data.title}, from number {part.first:,} on, in {part.path}")
    else:
        print(f"{part.path} is there already, of the same run, data and options; nothing to do")


def _merge_parts(run: Path, out: Path | None, folder: Path, others: dict[str, Any]) -> None:
    from gpm.run.run import Run
    from gpm.run.shards import merge_shards

    for flag, given in others.items():
        if given:
            raise GpmError(f"--merge puts together what shards have written; leave out {flag}, or --merge.")
    if out is None:
        raise GpmError("name the table to write, as in -o predictions.parquet.")
    rows = merge_shards(folder, out, Run.open(run, device="cpu"))
    print(f"{rows:,} rows of the parts in {folder} in {out}")


def embed_run(
    run: Path,
    out: Path | None = None,
    nodes: list[str] = [],  # noqa: B006
    graphs: list[str] = [],  # noqa: B006
    on: list[str] = [],  # noqa: B006
    new: bool = False,
    patterns: int = 0,
    device: str = "auto",
) -> None:
    """Write the embeddings of nodes or graphs that a model makes.

    Args:
        run: The run folder.
        out: The file to write: .parquet, .csv or .tsv with a row each; or .npy, with the names beside it.
        nodes: Names of nodes; by default all.
        graphs: Names or numbers of graphs; by default all.
        on: Something else than what it was trained on: a graph folder; the tables of edges, nodes and graphs, in this
            order; or another table of molecules.
        new: With --on, only the nodes that training did not know.
        patterns: Patterns per instance; 0 takes the whole pool.
        device: auto, cpu, cuda, cuda:1 or mps.
    """
    from gpm.inference.embeddings import check_embeddings

    if out is None:
        raise GpmError("name the file to write, as in -o embeddings.parquet.")
    check_embeddings(out)
    opened = _open(run, on, device)
    for flag, given, of in (("--nodes", nodes, "node"), ("--graphs", graphs, "graph")):
        if given and (opened.data.level == "graph") != (of == "graph"):
            raise GpmError(f"{flag} is for {of}s, but {run} predicts {opened.data.level}s; leave it out.")
    found = opened.embed(nodes or graphs or None, new=new, patterns=patterns or None, progress=True)
    found.save(out)
    print(f"{len(found):,} embeddings of {found.vectors.shape[1]} numbers in {out}")


def _open(run: Path, on: list[str], device: str, *, tell: bool = True) -> Run:
    """A run on what it was trained on, or on something else, of which is said what training had not seen."""
    from gpm.run.run import Run

    opened = Run.open(run, on[0] if len(on) == 1 else on or None, device=device, other=bool(on))
    for sentence in opened.unseen() if tell else ():
        _log.info("%s", sentence)
    return opened


def explain_run(
    run: Path,
    node: list[str] = [],  # noqa: B006
    link: list[str] = [],  # noqa: B006
    graph: list[str] = [],  # noqa: B006
    all: bool = False,  # noqa: A002
    top: int = 10,
    out: Path | None = None,
    method: Method = "auto",
    target: str = "",
    draws: int = 5,
    room: int = 60,
    part: Literal["train", "val", "test"] = "test",
    most: int = 500,
    on: list[str] = [],  # noqa: B006
    device: str = "auto",
) -> None:
    """Say which patterns a prediction rests on, and how far to believe it; draw them and write a page.

    Args:
        run: The run folder.
        node: The node to explain, by name; several come on one page, to be compared.
        link: The two ends of a link; several links are several pairs.
        graph: The number of a graph; several come on one page.
        all: Instead, which shapes carry the predictions of a whole part, class by class, against chance.
        top: Patterns to show; with --all, shapes per class.
        out: The folder to write to; by default below the run folder.
        method: How patterns are scored: banzhaf (what a pattern adds to random halves of the others, which is auto),
            left-out, gradient, or attention (of the class token).
        target: The class to explain; by default the predicted one.
        draws: How many times all patterns are drawn anew, to see how much scores spread.
        room: Nodes of the neighbourhood to draw.
        part: With --all, which part of the split.
        most: With --all, at most so many instances.
        on: Something else than what it was trained on: a graph folder; the tables of edges, nodes and graphs, in this
            order; or another table of molecules.
        device: auto, cpu, cuda, cuda:1 or mps.
    """
    from gpm.explain.by_class import survey
    from gpm.explain.explainer import find_instance
    from gpm.explain.write import file_name, save_explanations, save_overview, tell, tell_overview

    if sum(map(bool, (node, link, graph, all))) != 1:
        raise GpmError("say what to explain by one of --node NAME, --link A B, --graph NUMBER and --all.")
    if len(link) % 2:
        raise GpmError(f"a link has two ends, but --link names {len(link)} node(s); give pairs, as in --link A B.")
    if out is not None and out.exists() and not out.is_dir():
        raise GpmError(f"{out} is a file; name a folder to write to.")
    opened = _open(run, on, device)
    for flag, given, of in (("--node", node, "node"), ("--link", link, "link"), ("--graph", graph, "graph")):
        if given and opened.data.level != of:
            raise GpmError(f"{run} predicts {opened.data.level}s, not {of}s; use --{opened.data.level} for {flag}.")
    names: list[Any] = list(zip(link[::2], link[1::2], strict=True)) if link else node or graph
    for name in names:  # before any is explained
        find_instance(opened, name)
    called = " ".join([opened.data.level, *node, *link, *graph]) if names else f"all {part}"
    if out is None and (run / "explain").is_symlink():
        raise GpmError(f"{run / 'explain'} is a symbolic link, which is not followed here; name a folder with -o.")
    with _opening(out or run / "explain" / file_name(called)) as folder:
        if all:
            overview = survey(opened, part=part, most=most, top=top, method=method, progress=True)
            print("\n".join(tell_overview(overview)))
            print(f"drawn in {save_overview(overview, folder)}")
            return
        found = []
        for name in names:
            found.append(opened.explain(name, top=top, method=method, target=target, draws=draws, room=room))
            print("\n".join(tell(found[-1])))
        print(f"drawn in {save_explanations(found, folder)}; table, figures and JSON are beside it")


def shift_run(run: Path, out: Path | None = None, nodes: int = 2000, seed: int = 0, device: str = "auto") -> None:
    """Say how far the target of a run is from its source, how the model fares there and which patterns both have.

    Args:
        run: The run folder, of a training with --target or --shift.
        out: The page to write, an .html file, with a .json of the same name beside it; by default shift/index.html and
            shift/shift.json below the run folder.
        nodes: At most so many nodes are looked at in each domain.
        seed: Of the draw of these nodes.
        device: auto, cpu, cuda, cuda:1 or mps.
    """
    from gpm.explain.page_shell import check_page
    from gpm.run.run import Run
    from gpm.shift.shift_report import PAGE, report_shift, save_shift, tell_shift

    if out is None and (run / "shift").is_symlink():
        raise GpmError(f"{run / 'shift'} is a symbolic link, which is not followed here; name a file with -o.")
    page = out or run / "shift" / PAGE
    check_page(page)
    found = report_shift(Run.open(run, device=device), nodes=nodes, seed=seed, progress=True)
    with _opening(page.parent):
        beside = save_shift(found, page)
    print("\n".join(tell_shift(found)))
    print(f"drawn in {page}; the numbers are in {beside}")


@contextmanager
def _opening(folder: Path) -> Iterator[Path]:
    """A folder that can be written to, before the work whose result goes there; without a result it goes again."""
    folder.mkdir(parents=True, exist_ok=True)
    if not os.access(folder, os.W_OK):
        raise GpmError(f"{folder} cannot be written to; name another folder with -o.")
    try:
        yield folder
    finally:
        with suppress(OSError):
            folder.rmdir()  # if it is empty


def list_recipes(name: str = "") -> None:
    """List the recipes, with the paper's figures; or show one.

    Args:
        name: A recipe to show whole.
    """
    from gpm.errors import nearest
    from gpm.training.recipes import find_recipe, recipe_names

    names = recipe_names()
    if name:
        recipe = find_recipe(name)
        if recipe is None:
            raise GpmError(f"there is no recipe {name!r}.{nearest(name, names)} Recipes: {', '.join(names)}.")
        print(f"{recipe.name}: {recipe.about}")
        if recipe.note:
            print(recipe.note)
        if recipe.paper_mean is not None:
            print(f"the paper: {recipe.paper_mean:g} ± {recipe.paper_std:g}, with {recipe.paper}")
        for key, value in recipe.config.to_dict().items():
            print(f"  {key:<17} {value}")
        return
    print(f"{'recipe':<16} {'the paper':<14} about")
    for each in names:
        recipe = find_recipe(each)
        assert recipe is not None
        paper = "-" if recipe.paper_mean is None else f"{recipe.paper_mean:g} ± {recipe.paper_std:g}"
        print(f"{each:<16} {paper:<14} {recipe.about}")
