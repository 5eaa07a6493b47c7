"""DuckDB connections with bounded memory that read local files only, safe SQL literals, and progress bars."""

from __future__ import annotations

import re
import secrets
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
from tqdm import tqdm

from gpm.compute import count_threads
from gpm.errors import GpmError

if TYPE_CHECKING:
    import pandas as pd

VECTORS = 512  # DuckDB vectors of 2,048 rows to fetch at once
_SETTINGS = (
    "autoinstall_known_extensions = false",
    "autoload_known_extensions = false",
    "allow_community_extensions = false",
    "allow_persistent_secrets = false",
    "python_enable_replacements = false",  # a name in SQL never refers to a Python variable
    "preserve_insertion_order = true",  # rows are numbered in file order
    "TimeZone = 'UTC'",
)
_MEGABYTE = 2**20
_LEAST, _MOST = 256, 2048  # bounds of the default memory limit, in megabytes
_EVERY = 0.2  # seconds between updates of a progress bar


def connect(*, memory: str = "", folder: Path | None = None) -> duckdb.DuckDBPyConnection:
    """Open a DuckDB connection with a memory limit; data beyond the limit is written to a folder.

    The limit is a size such as 4GB, by default a quarter of the free memory and at most 2 GB. The folder is by default
    a temporary one, removed when the connection is closed.
    """
    if memory and not re.fullmatch(r"\s*\d+(\.\d+)?\s*[KMGT]i?B\s*", memory, re.IGNORECASE):
        raise GpmError(f"memory must be a size such as 4GB or 500MB, got {memory!r}.")
    spill = folder or Path(tempfile.gettempdir()) / f"gpm-{secrets.token_hex(8)}"
    base = duckdb.connect(":memory:")
    settings = (
        *_SETTINGS,
        f"memory_limit = '{memory.strip() or f'{_free_memory()}MiB'}'",
        f"temp_directory = {literal(str(spill.absolute()))}",
        f"threads = {count_threads()}",
    )
    try:
        for setting in settings:
            base.execute(f"SET {setting}")
    except duckdb.Error as error:
        base.close()
        raise GpmError(f"DuckDB rejected a setting: {str(error).splitlines()[0]}.") from None
    return base


def quote(name: str) -> str:
    """Quote an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def text(name: str) -> str:
    """Return SQL for the cells of a column as text, NULL where they are empty."""
    return f"nullif(CAST({quote(name)} AS VARCHAR), '')"


def literal(value: str) -> str:
    """Quote an SQL string."""
    return "'" + value.replace("'", "''") + "'"


def file_literal(path: Path) -> str:
    """Quote a path in SQL so that it names exactly this file, even if it contains glob characters."""
    return literal(re.sub(r"([*?\[])", r"[\1]", str(path.absolute())))


def fetch_value(base: duckdb.DuckDBPyConnection, query: str) -> Any:
    """Return the first cell of a query's result."""
    return base.execute(query).fetchall()[0][0]


def fetch_frames(base: duckdb.DuckDBPyConnection, query: str, vectors: int = VECTORS) -> Iterator[pd.DataFrame]:
    """Yield the rows of a query in frames of at most `vectors` times 2,048 rows."""
    base.execute(query)
    while len(frame := base.fetch_df_chunk(vectors)):
        yield frame


def show_bar(title: str, progress: bool, total: int | None = None) -> Any:
    """Return a progress bar on standard error, shown only on a terminal and cleared at the end."""
    return tqdm(desc=title, total=total, unit="", unit_scale=True, leave=False, disable=None if progress else True)


@contextmanager
def watching(base: duckdb.DuckDBPyConnection, title: str, progress: bool) -> Iterator[None]:
    """Show the progress of each DuckDB query in the block."""
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


def _free_memory() -> int:
    """Return a quarter of the free memory in megabytes, within bounds."""
    free = [_MOST * 4 * _MEGABYTE]
    try:
        match = re.search(r"MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text())
        free += [int(match[1]) * 1024] if match else []
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
        used = Path("/sys/fs/cgroup/memory.current").read_text().strip()
        free += [int(limit) - int(used)] if limit.isdigit() else []
    except OSError:
        pass  # not Linux
    return max(_LEAST, min(free) // 4 // _MEGABYTE)
