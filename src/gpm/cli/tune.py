"""The command `gpm tune`: search for the options that validate best."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal


def tune(
    source: str = "",
    out: Path | None = None,
    trials: int = 50,
    time: str = "",
    space: Path | None = None,
    startup: int = 10,
    device: str = "auto",
    threads: int = 0,
    quiet: bool = False,
    nodes: Path | None = None,
    graphs: Path | None = None,
    graph: str = "",
    directed: bool = False,
    unlisted: Literal["", "error", "add", "drop"] = "",
    schema: Path | None = None,
    recipe: str = "",
    **options: Any,
) -> Path:
    """Search for the options that validate best and write them as a recipe; the test part is not read.

    Args:
        source: What to tune on, or a recipe to begin with, as in gpm train.
        out: The folder of the study; by default one below tuned. The same command again goes on with it.
        trials: Stop after so many trials in total.
        time: Stop after so much time in total, as in 45s, 30m or 1h30m.
        space: A YAML file of what to choose from, in place of the usual space.
        startup: Trials drawn at random before the search learns from them.
        device: auto, cpu, cuda, cuda:1 or mps.
        threads: Threads to compute with; 0 takes what torch takes.
        quiet: No line for each trial.
        nodes: With a table of edges, a table with a row per node, as in gpm train; the graph is kept beside the study.
        graphs: With a table of edges, a table with a row per graph.
        graph: The column that says which graph a row belongs to.
        directed: The edges of a table go one way.
        unlisted: What to do with an edge's end that the table of nodes does not list: error, add or drop.
        schema: The import.yaml of an earlier import, changed by hand.
        recipe: Begin with the options of this recipe, where the source is data of your own.
        options: Any option of `Config`; those given are not tuned.

    Returns:
        The recipe's file.
    """
    arguments = dict(locals())
    arguments |= arguments.pop("options")
    from gpm.training.tune import tune as run_tune

    return run_tune(**arguments)
