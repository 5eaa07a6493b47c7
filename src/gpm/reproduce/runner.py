"""Run missing trainings, the cheapest first, within a time limit; the next call resumes an interrupted one."""

from __future__ import annotations

import _thread
import functools
import logging
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from gpm.data.catalog import CATALOG, find_compact, has_raw
from gpm.errors import GpmError
from gpm.reproduce.paper_tables import Table, is_measured
from gpm.reproduce.records import Job, Record, Records
from gpm.run.run import Run
from gpm.run.workplace import part_of
from gpm.tasks.metrics import METRICS
from gpm.training.recipes import find_recipe
from gpm.training.start import train

UNFINISHED = "results/unfinished"
_log = logging.getLogger("gpm")

T = TypeVar("T")
K = TypeVar("K")


class OverError(Exception):
    """The time limit is reached; the state of the training is saved."""


def list_jobs(tables: Sequence[Table], seeds: int, only: Sequence[str] = (), models: Sequence[str] = ()) -> list[Job]:
    """Return the runs that tables ask for, each once: comparisons before ablations, of each the cheapest first.

    A run that several tables ask for measures what any of them shows.
    """
    jobs: dict[tuple[str, str, int], Job] = {}
    for table in tables:
        for column in table.columns:
            for row in table.ours:
                if not column.recipe or (only and column.recipe not in only) or (models and row.model not in models):
                    continue
                for seed in range(column.seeds or seeds):
                    job = Job.of(table, column, row, seed)
                    known = jobs.get(job.key, job)
                    jobs[job.key] = replace(
                        known, extras=known.extras | job.extras, minutes=min(known.minutes, job.minutes),
                        ablation=known.ablation and job.ablation,
                    )  # fmt: skip
    return sorted(jobs.values(), key=lambda job: (job.ablation, job.minutes, job.seed))


def is_at_hand(recipe: str) -> bool:
    """Return whether the data of a recipe is there, so that nothing is downloaded."""
    found = find_recipe(recipe)
    entry = None if found is None else CATALOG.get(found.config.data)
    return entry is not None and (not entry.raw or has_raw(entry) or find_compact(entry) is not None)


def run_jobs(
    jobs: Sequence[Job], out: Path, seconds: float, reasons: dict[tuple[str, str, int], str], *, quiet: bool = False
) -> None:  # fmt: skip
    """Run the jobs that have no record yet.

    Args:
        jobs: Runs, in the order in which to try them.
        out: Folder of the records.
        seconds: Time limit of all. A run that is expected to take longer than what is left is not started.
        reasons: Gets the reason why a run is missing, by its key.
        quiet: Show no progress bar.
    """
    records, until = Records(out), time.monotonic() + seconds
    wanted = [job for job in jobs if records.find(job) is None]
    _log.info("%d of %d runs are complete", len(jobs) - len(wanted), len(jobs))
    for number, job in enumerate(wanted, 1):
        left = until - time.monotonic()
        if not is_at_hand(job.recipe):
            reasons[job.key] = "the data is not here"
        elif 60 * job.minutes > left and not _is_begun(job, out):
            time_ = show_minutes(job.minutes) if is_measured(job.recipe) else "unknown"
            reasons[job.key] = f"not within the time limit (on one core: {time_})"
        elif left <= 0:
            reasons[job.key] = "interrupted; the next call resumes it"
        else:
            _log.info("run %d of %d: %s", number, len(wanted), job.command)
            make = functools.partial(_make_record, records, job, out, left, quiet)
            record = attempt(make, job.key, reasons)
            if record is not None:
                shutil.rmtree(_place(job, out), ignore_errors=True)
                _log.info("%s: %s", job.command.removeprefix("gpm train "), _score(record))


def attempt(make: Callable[[], T], key: K, reasons: dict[K, str]) -> T | None:
    """Return what is made; where it fails for a reason that others need not share, `reasons` gets it by the key."""
    try:
        return make()
    except OverError:
        reasons[key] = "interrupted; the next call resumes it"
    except GpmError as error:
        reasons[key] = str(error).rstrip(".")
        _log.warning("failed: %s", error)
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and "memory" not in str(error):
            raise
        reasons[key] = "not enough memory"
        _log.warning("failed: there is not enough memory for this")
    return None


def _make_record(records: Records, job: Job, out: Path, seconds: float, quiet: bool) -> Record:
    return records.add(job, run_job(job, out, seconds, quiet))


def run_job(job: Job, out: Path, seconds: float, quiet: bool = False) -> Run:
    """Train, or resume an interrupted training; after so many seconds it is interrupted and saved."""
    place = _place(job, out)
    place.parent.mkdir(parents=True, exist_ok=True)
    with time_limit(seconds):
        run = train(job.recipe, out=place, seed=job.seed, quiet=quiet, **job.options)
    assert isinstance(run, Run)
    return run


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Interrupt the main thread after some seconds, as Ctrl-C does, and raise `OverError` in place of its exception."""
    is_over = threading.Event()

    def interrupt() -> None:
        is_over.set()
        _log.info("the time limit is reached")
        if hasattr(signal, "pthread_kill"):  # which also ends a wait
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        else:
            _thread.interrupt_main(signal.SIGINT)

    timer = threading.Timer(max(seconds, 0.1), interrupt)
    timer.daemon = True
    timer.start()
    try:
        yield
    except KeyboardInterrupt:
        if is_over.is_set():
            raise OverError from None
        raise
    finally:
        timer.cancel()


def _is_begun(job: Job, out: Path) -> bool:
    place = _place(job, out)
    return place.exists() or part_of(place).exists()


def _place(job: Job, out: Path) -> Path:
    """Return the folder of a training; that of an earlier recipe is another one."""
    return out / UNFINISHED / f"{job.file.removesuffix('.json')}-{job.digest}"


def _score(record: Record) -> str:
    kind = METRICS[record["metric"]]
    return f"test {kind.title} {kind.show(record['test'][record['metric']])}, {record['train_seconds']:.0f} s"


def show_minutes(minutes: float) -> str:
    """Return a time in words."""
    for unit, size in (("day", 24 * 60), ("hour", 60)):
        if minutes >= 2 * size:
            return f"about {minutes / size:.0f} {unit}s"
    return f"about {minutes:.0f} minute{'s' * (round(minutes) != 1)}"
