"""The verbs of the command line that work on runs: thin, typed functions whose docstrings are their help."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, Literal

from gpm.errors import GpmError
from gpm.tables import check_table

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
    **options: Any,
) -> None:
    """Train a model on nodes, links or graphs, score it and save it all in a run folder.

    Args:
        source: A recipe's name (gpm recipes) or YAML file, a dataset's name (gpm data), a saved graph's folder, a PyG
            file (.pt), or a table of molecules with --smiles and --target.
        out: The run folder; by default a new one below runs.
        seeds: Train so many times, with seeds counted from --seed, and print mean and standard deviation.
        folds: Cross-validate: so many folds, each of which is the test part once.
        resume: Go on with a run that was interrupted, exactly as it would have gone on.
        device: auto, cpu, cuda, cuda:1 or mps.
        threads: Threads to compute with; 0 takes what torch takes.
        track: Also log to TensorBoard, Weights & Biases or MLflow.
        result: Also write the figures, over all seeds, to this JSON file.
        baselines: For nodes, also score the most frequent class and a network on features alone, on the same split.
        overwrite: Write into a run folder that is there.
        quiet: No progress bar.
    """
    from gpm.training import train

    train(
        source, out=out, seeds=seeds, folds=folds, resume=resume, device=device, threads=threads, track=track,
        result=result, baselines=baselines, overwrite=overwrite, quiet=quiet, **options,
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
    from gpm.files import write_json
    from gpm.run import Run
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
    on: str = "",
    patterns: int = 0,
    device: str = "auto",
) -> None:
    """Write what a model says of nodes, pairs of nodes or graphs, with probabilities.

    Args:
        run: The run folder.
        out: The table to write: .csv, .tsv or .parquet.
        nodes: Names of nodes; by default all.
        pairs: For links, a table whose first two columns name the pairs of nodes to score.
        graphs: Numbers of graphs; by default all.
        recommend: For links, list so many likely new neighbours of --node.
        node: Whose neighbours to recommend.
        on: Another graph, or another table of molecules, with the same kind of features.
        patterns: Patterns per instance; 0 takes the whole pool.
        device: auto, cpu, cuda, cuda:1 or mps.
    """
    from gpm.data.files import read_pairs
    from gpm.run import Run

    if out is None and not recommend:
        raise GpmError("name the table to write, as in -o predictions.csv.")
    if out is not None:
        check_table(out)
    if bool(recommend) != bool(node):
        raise GpmError("--recommend says how many neighbours and --node of whom; give both.")
    opened = Run.open(run, on or None, device=device, other=bool(on))
    level, used = opened.data.level, patterns or None
    for flag, given, of in (("--nodes", nodes, "node"), ("--pairs", pairs, "link"), ("--graphs", graphs, "graph")):
        if given and (level != of or recommend):
            raise GpmError(f"{flag} is for predicting {of}s, which is not asked of {run} here; leave it out.")
    if recommend:
        found = opened.recommend(node, recommend, patterns=used, progress=True)
    elif level == "link":
        if pairs is None:
            raise GpmError("name a table of pairs with --pairs, or a node with --recommend 10 --node NAME.")
        found = opened.predict(read_pairs(pairs), patterns=used, progress=True)
    else:
        found = opened.predict((nodes if level == "node" else graphs) or None, patterns=used, progress=True)
    if out is None:
        for (_, name), chance in zip(found.names, found.probability[:, 0], strict=True):
            print(f"{chance:>7.2%}  {name}")
        return
    found.save(out)
    what = "pair" if level == "link" else level
    print(f"{len(found):,} {what}s of {opened.data.title} in {out}")


def list_recipes(name: str = "") -> None:
    """List the recipes, with the paper's figures; or show one.

    Args:
        name: A recipe to show whole.
    """
    from gpm.errors import nearest
    from gpm.recipes import find_recipe, recipe_names

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
