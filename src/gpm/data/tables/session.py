"""A DuckDB connection with bounded memory that reads local files only, and what SQL needs to be written safely."""

from __future__ import annotations

import re
import secrets
import tempfile
from pathlib import Path

import duckdb

from gpm.compute import count_threads
from gpm.errors import GpmError

_SETTINGS = (
    "autoinstall_known_extensions = false",
    "autoload_known_extensions = false",
    "allow_community_extensions = false",
    "allow_persistent_secrets = false",
    "python_enable_replacements = false",  # a name in SQL is never a variable of Python
    "preserve_insertion_order = true",  # rows are numbered in the order of the file
    "TimeZone = 'UTC'",
)
_MEGABYTE = 2**20
_LEAST, _MOST = 256, 2048  # megabytes that are taken unless told


def connect(*, memory: str = "", folder: Path | None = None) -> duckdb.DuckDBPyConnection:
    """Open a DuckDB connection that keeps to its memory and writes what does not fit into a folder.

    Args:
        memory: The most to hold, such as 4GB; by default a quarter of what is free, 2 GB at most.
        folder: Where to put what does not fit; by default a folder among the temporary files, gone when the connection
            is closed.
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
        raise GpmError(f"the tables cannot be read so: {str(error).splitlines()[0]}.") from None
    return base


def quote(name: str) -> str:
    """A name as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'


def text(name: str) -> str:
    """SQL for the cells of a column as text, NULL where they are empty."""
    return f"nullif(CAST({quote(name)} AS VARCHAR), '')"


def literal(value: str) -> str:
    """A text as SQL writes it."""
    return "'" + value.replace("'", "''") + "'"


def file_literal(path: Path) -> str:
    """A path as SQL writes it: this one file, whatever patterns its name could be taken for."""
    return literal(re.sub(r"([*?\[])", r"[\1]", str(path.absolute())))


def _free_memory() -> int:
    """A quarter of the memory that is free, in megabytes, within bounds."""
    free = [_MOST * 4 * _MEGABYTE]
    try:
        found = re.search(r"MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text())
        free += [int(found[1]) * 1024] if found else []
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
        used = Path("/sys/fs/cgroup/memory.current").read_text().strip()
        free += [int(limit) - int(used)] if limit.isdigit() else []
    except OSError:
        pass  # not Linux
    return max(_LEAST, min(free) // 4 // _MEGABYTE)
