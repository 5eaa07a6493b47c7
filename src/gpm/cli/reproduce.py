"""The command `gpm reproduce`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any


def reproduce(
    tables: list[str] = [],  # noqa: B006 - the command line shows this default
    budget: str = "30m",
    seeds: int = 3,
    only: str = "",
    models: str = "",
    out: Path = Path("reproduction"),
    list: bool = False,  # noqa: A002 - the name of the flag
    quiet: bool = False,
) -> None:
    """Reproduce the paper's tables and figures: run what is missing within a time limit and write pages.

    Args:
        tables: Tables, figures and studies, such as 8 table-9 figure-7 further-nodes brec. Default: all; see --list.
        budget: Time limit, such as 30m or 2h. The same command resumes what is missing.
        seeds: Number of seeds, from 0.
        only: Recipes to run, such as blog,flickr-s, and no studies. Default: all.
        models: Models to run, such as gpm,gcn. Default: all.
        out: Folder for the records (results/reproduce) and the pages (docs/results).
        list: List the tables and studies, their runs and their cost, and run nothing.
        quiet: Show no progress bar.
    """
    from gpm.errors import GpmError, nearest
    from gpm.reproduce.pages import FOLDER, MOST_SEEDS, write_pages
    from gpm.reproduce.runner import list_jobs, run_jobs
    from gpm.reproduce.studies import choose, run_studies
    from gpm.training.tune import parse_time

    chosen, studies = choose(tables)
    recipes = dict.fromkeys(column.recipe for table in chosen for column in table.columns if column.recipe)
    named, kinds = (_split(text) for text in (only, models))
    if (named or kinds) and not chosen:
        raise GpmError("--only and --models choose runs of tables, but no table was asked for; leave them out.")
    for name in named:
        if name not in recipes:
            raise GpmError(f"No table has the recipe {name!r}.{nearest(name, recipes)} Recipes: {', '.join(recipes)}.")
    known = dict.fromkeys(row.model for table in chosen for row in table.ours)
    for name in kinds:
        if name not in known:
            raise GpmError(f"No table has the model {name!r}.{nearest(name, known)} Models: {', '.join(known)}.")
    if not 1 <= seeds <= MOST_SEEDS:
        raise GpmError(f"--seeds must lie between 1 and {MOST_SEEDS}, got {seeds}.")
    jobs, studies = list_jobs(chosen, seeds, named, kinds), [] if named or kinds else studies
    until = time.monotonic() + parse_time(budget)
    if list:
        _list(chosen, jobs, studies, out)
        return
    reasons: dict[tuple[str, str, int], str] = {}
    missing: dict[str, str] = {}
    pages = out / FOLDER
    pages.mkdir(parents=True, exist_ok=True)
    try:
        for ablation in (False, True):  # comparisons are worth more than studies, and these more than ablations
            some = [job for job in jobs if job.ablation == ablation]
            run_jobs(some, out, until - time.monotonic(), reasons, quiet=quiet)
            if not ablation:
                run_studies(studies, out, pages, until - time.monotonic(), missing)
    finally:
        index = write_pages(out, reasons, missing)
    print(f"{len(jobs) - len(reasons)} of {len(jobs)} runs are complete; pages: {index}")
    for study in studies:
        complete, why = len(study.find(out)), f" ({missing[study.id]})" if study.id in missing else ""
        print(f"{study.id}: {complete} of {len(study.parts)} parts are complete{why}")


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _list(tables: Any, jobs: Any, studies: Any, out: Path) -> None:
    from gpm.reproduce.paper_tables import is_measured
    from gpm.reproduce.records import Records
    from gpm.reproduce.runner import is_at_hand, show_minutes

    records = Records(out)
    for table in tables:
        print(f"{table.id}: {table.title}")
        print(f"  rows: {', '.join(row.name for row in table.ours)}")
    for study in studies:
        print(f"{study.id}: {study.title}")
        print(f"  parts: {', '.join(study.parts)} ({len(study.find(out))} complete)")
    print(f"\n{'recipe':<14} {'runs':>5} {'complete':>9}  {'left, on one core':<18} data")
    for recipe in dict.fromkeys(job.recipe for job in jobs):
        mine = [job for job in jobs if job.recipe == recipe]
        there = sum(records.find(job) is not None for job in mine)
        left = sum(job.minutes for job in mine if records.find(job) is None)
        cost = show_minutes(left) if is_measured(recipe) else "unknown"
        data = "here" if is_at_hand(recipe) else "not here: see gpm data"
        print(f"{recipe:<14} {len(mine):>5} {there:>9}  {cost:<18} {data}")
