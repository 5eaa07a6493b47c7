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
    """Train a model on the nodes of a graph, score it and save it all in a run folder.

    Args:
        source: A recipe's name (gpm recipes) or YAML file, a dataset's name (gpm data), a saved graph's folder or a PyG
            file (.pt).
        out: The run folder; by default a new one below runs.
        seeds: Train so many times, with seeds counted from --seed, and print mean and standard deviation.
        resume: Go on with a run that was interrupted, exactly as it would have gone on.
        device: auto, cpu, cuda, cuda:1 or mps.
        threads: Threads to compute with; 0 takes what torch takes.
        track: Also log to TensorBoard, Weights & Biases or MLflow.
        result: Also write the figures, over all seeds, to this JSON file.
        baselines: Also score the most frequent class and a network on features alone, on the same split.
        overwrite: Write into a run folder that is there.
        quiet: No progress bar.
    """
    from gpm.training import train

    train(
        source, out=out, seeds=seeds, resume=resume, device=device, threads=threads, track=track, result=result,
        baselines=baselines, overwrite=overwrite, quiet=quiet, **options,
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
        patterns: Patterns per node; 0 takes the whole pool.
        device: auto, cpu, cuda, cuda:1 or mps.
        out: Also write the scores to this JSON file.
    """
    from gpm.files import write_json
    from gpm.run import Run
    from gpm.tasks.node import METRICS

    opened = Run.open(run, device=device)
    scores = opened.evaluate(part, patterns=patterns or None, progress=True)
    shown = ", ".join(f"{METRICS[k]} {v:.2%}" if k in METRICS else f"{k} {v:.4f}" for k, v in scores.items())
    used = patterns or opened.config.pool
    count = len(getattr(opened.split, part))
    print(f"{opened.data.title}, {part}: {shown}")
    split = f"split {opened.split.name} ({opened.split.digest})"
    print(f"{count:,} nodes, {used} patterns each, {split}, seed {opened.config.seed}")
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
    patterns: int = 0,
    device: str = "auto",
) -> None:
    """Write the class of every node, with probabilities.

    Args:
        run: The run folder.
        out: The table to write: .csv, .tsv or .parquet.
        nodes: Names of nodes; by default all.
        patterns: Patterns per node; 0 takes the whole pool.
        device: auto, cpu, cuda, cuda:1 or mps.
    """
    from gpm.run import Run

    if out is None:
        raise GpmError("name the table to write, as in -o nodes.csv.")
    check_table(out)
    opened = Run.open(run, device=device)
    found = opened.predict(nodes or None, patterns=patterns or None, progress=True)
    found.save(out)
    print(f"{len(found):,} nodes of {opened.data.title} in {out}")


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
            print(f"the paper: {recipe.paper_mean:.2f} ± {recipe.paper_std:.2f}, with {recipe.paper}")
        for key, value in recipe.config.to_dict().items():
            print(f"  {key:<17} {value}")
        return
    print(f"{'recipe':<16} {'the paper':<14} about")
    for each in names:
        recipe = find_recipe(each)
        assert recipe is not None
        paper = "-" if recipe.paper_mean is None else f"{recipe.paper_mean:.2f} ± {recipe.paper_std:.2f}"
        print(f"{each:<16} {paper:<14} {recipe.about}")
