"""Names of feature columns, as the tables have them that a graph was imported from."""

from __future__ import annotations

from pathlib import Path

from gpm.data.imported import is_imported
from gpm.data.tables.encode import names
from gpm.data.tables.table_source import locate
from gpm.graph.folder import read_extras

LONGEST = 80  # characters of a name


def name_columns(source: str, folder: Path, width: int) -> list[str]:
    """Name the columns of the node features by the tables that they were imported from; else by their indices.

    Args:
        source: Where the data was read from, as the options of a run name it.
        folder: The run folder, which may hold the graph.
        width: Number of columns.
    """
    place = locate(source, folder)
    if place and is_imported(place):
        encoding = read_extras(Path(place).expanduser())[0].get("encoding") or {}
        columns = names(encoding.get("node") or [])
        if len(columns) == width:
            return [name if len(name) <= LONGEST else name[: LONGEST - 1] + "…" for name in columns]
    return [f"column {column}" for column in range(width)]
