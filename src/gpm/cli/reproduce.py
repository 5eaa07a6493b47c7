"""The command `gpm reproduce`."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def reproduce(
    tables: list[str] = [],  # noqa: B006 - the command line shows this default
    budget: str = "30m",
    seeds: int = 3,
    only: str = "",
    out: Path = Path("reproduction"),
    list: bool = False,  # noqa: A002 - the name of the flag
    quiet: bool = False,
) -> None:
    """Reproduce the paper's tables and figures: run missing trainings within a time limit and write pages.

    Args:
        tables: Tables and figures of the paper, such as 8 table-9 figure-7. Default: all.
        budget: Time limit of all runs, such as 30m or 2h. The same command resumes what is missing.
        seeds: Number of seeds, from 0.
        only: Recipes to run, such as blog,flickr-s. Default: all.
        out: Folder for the records (results/reproduce) and the pages (docs/results).
        list: List the tables, their runs and their cost, and run nothing.
        quiet: Show no progress bar.
    """
    from gpm.errors import GpmError, nearest
    from gpm.reproduce.pages import MOST_SEEDS, write_pages
    from gpm.reproduce.paper_tables import choose_tables
    from gpm.reproduce.runner import list_jobs, run_jobs
    from gpm.training.tune import parse_time

    chosen = choose_tables(tables)
    recipes = dict.fromkeys(column.recipe for table in chosen for column in table.columns if column.recipe)
    named = [name.strip() for name in only.split(",") if name.strip()]
    for name in named:
        if name not in recipes:
            raise GpmError(f"No table has the recipe {name!r}.{nearest(name, recipes)} Recipes: {', '.join(recipes)}.")
    if not 1 <= seeds <= MOST_SEEDS:
        raise GpmError(f"--seeds must lie between 1 and {MOST_SEEDS}, got {seeds}.")
    jobs, seconds = list_jobs(chosen, seeds, named), parse_time(budget)
    if list:
        _list(chosen, jobs, out)
        return
    reasons: dict[tuple[str, str, int], str] = {}
    try:
        run_jobs(jobs, out, seconds, reasons, quiet=quiet)
    finally:
        index = write_pages(out, reasons)
    print(f"{len(jobs) - len(reasons)} of {len(jobs)} runs are complete; pages: {index}")


def _list(tables: Any, jobs: Any, out: Path) -> None:
    from gpm.reproduce.paper_tables import is_measured
    from gpm.reproduce.records import Records
    from gpm.reproduce.runner import is_at_hand, show_minutes

    records = Records(out)
    for table in tables:
        print(f"{table.id}: {table.title}")
        print(f"  rows: {', '.join(row.name for row in table.ours)}")
    print(f"\n{'recipe':<14} {'runs':>5} {'complete':>9}  {'left, on one core':<18} data")
    for recipe in dict.fromkeys(job.recipe for job in jobs):
        mine = [job for job in jobs if job.recipe == recipe]
        there = sum(records.find(job) is not None for job in mine)
        left = sum(job.minutes for job in mine if records.find(job) is None)
        time = show_minutes(left) if is_measured(recipe) else "unknown"
        data = "here" if is_at_hand(recipe) else "not here: see gpm data"
        print(f"{recipe:<14} {len(mine):>5} {there:>9}  {time:<18} {data}")
