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
    """Search for the options that validate best and write them as a recipe; the test split is not read.

    Args:
        source: Data to tune on, or a recipe to start from, as in gpm train.
        out: Folder of the study. Default: a folder in tuned. The same command resumes the study.
        trials: Number of trials in total.
        time: Time limit in total, such as 45s, 30m or 1h30m.
        space: YAML file with the search space. Default: the built-in space.
        startup: Number of random trials before the search uses their results.
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
