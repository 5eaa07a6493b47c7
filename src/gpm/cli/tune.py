"""The command `gpm tune`: search for the options that validate best."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpm.config import ComputeOptions, Config, TableOptions, accepts


@accepts(TableOptions, ComputeOptions, Config, without=["data"])
def tune(
    source: str = "",
    out: Path | None = None,
    trials: int = 50,
    time: str = "",
    space: Path | None = None,
    startup: int = 10,
    quiet: bool = False,
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
        quiet: Print no line per trial.
        recipe: Start from the options of this recipe, where the source is data of your own.
        {options}

    Returns:
        The recipe's file.
    """
    arguments = dict(locals())
    arguments |= arguments.pop("options")
    from gpm.training.tune import tune as run_tune

    return run_tune(**arguments)
