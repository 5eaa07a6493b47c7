"""Bars on a terminal while tables are read and sorted."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import duckdb
from tqdm import tqdm

_EVERY = 0.2  # seconds


def show_bar(title: str, progress: bool, total: int | None = None) -> Any:
    """A bar that counts, on standard error if that is a terminal; gone when it is done."""
    return tqdm(desc=title, total=total, unit="", unit_scale=True, leave=False, disable=None if progress else True)


@contextmanager
def watching(base: duckdb.DuckDBPyConnection, title: str, progress: bool) -> Iterator[None]:
    """Show how far DuckDB is with each query of the block."""
    if not (progress and sys.stderr.isatty() and hasattr(base, "query_progress")):
        yield
        return
    base.execute("SET enable_progress_bar = true")
    base.execute("SET enable_progress_bar_print = false")
    done = threading.Event()
    watcher = threading.Thread(target=_watch, args=(base, title, done), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


def _watch(base: duckdb.DuckDBPyConnection, title: str, done: threading.Event) -> None:
    with tqdm(desc=title, total=100, bar_format="{desc}: {percentage:3.0f}% |{bar}| {elapsed}", leave=False) as bar:
        while not done.wait(_EVERY):
            with suppress(duckdb.Error):
                bar.n = min(100.0, max(0.0, base.query_progress()))
                bar.refresh()
