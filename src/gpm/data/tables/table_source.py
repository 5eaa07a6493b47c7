"""Tables of edges as a source of data: recognised, and imported where they are needed."""

from __future__ import annotations

import glob
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpm.data.catalog import CATALOG, spell
from gpm.data.labels import VALUE_METRICS
from gpm.data.tables.importer import import_tables
from gpm.data.tables.inputs import suffix_of, title_of
from gpm.data.tables.open_table import TABLE_FILES
from gpm.data.tables.read_network import NETWORK_FILES, PICKLES
from gpm.errors import GpmError
from gpm.graph.folder import HEADER
from gpm.io.atomic import WriteError
from gpm.io.publish import claiming

GRAPH = "graph"  # the folder of a run that holds the graph made of its tables
OWN_GRAPHS = (f"./{GRAPH}", f"../{GRAPH}")  # how a run, or one of several seeds, names it
_RUN_FILES = ("config.yaml", "plan.json", "checksums.json")  # what a folder with tables has that is a run's


@dataclass(frozen=True, eq=False)
class Tables:
    """Tables of edges, and the options of `import_tables`."""

    edges: Any
    options: dict[str, Any]

    @property
    def name(self) -> str:
        """Return the default name of a run."""
        return title_of(Path(self.edges)) if isinstance(self.edges, (str, Path)) else "tables"

    def import_to(self, folder: Path, *, task: str = "auto", metric: str = "auto", progress: bool = False) -> Path:
        """Import the tables; mae and rmse say that the target is a number."""
        values = metric in VALUE_METRICS
        return import_tables(self.edges, folder, task=task, values=values, progress=progress, **self.options)

    @contextmanager
    def importing(self, near: Path, **options: Any) -> Iterator[Path]:
        """Import the tables into a scratch folder next to a future run folder, and remove it afterwards.

        Scratch folders left there by killed processes are removed too. Options are those of `import_to`.
        """
        for left in near.parent.glob(f".{glob.escape(near.name)}.tables.*"):
            with suppress(GpmError), claiming(left):
                shutil.rmtree(left)
        scratch = near.with_name(f".{near.name}.tables.{secrets.token_hex(4)}")
        try:
            scratch.mkdir(parents=True)
        except OSError as error:
            raise WriteError(scratch, error) from None
        with claiming(scratch):
            try:
                yield self.import_to(scratch / GRAPH, **options)
            finally:
                shutil.rmtree(scratch, ignore_errors=True)


def find_tables(source: Any, *, target: Any = None, smiles: str | None = None, **options: Any) -> Tables | None:
    """Return a source with its options of `import_tables` as tables; None if it is no table of edges.

    A table of molecules, which has a column of SMILES, is none. Options other than a target are an error then.
    """
    chosen = {key: value for key, value in options.items() if not _is_nothing(value)}
    if not smiles and is_table(source):
        return Tables(source, chosen if _is_nothing(target) else chosen | {"target": target})
    if chosen:
        kinds = ", ".join((*TABLE_FILES, *NETWORK_FILES))
        what = "is a table of molecules, as --smiles says" if smiles else "is none that is there"
        raise GpmError(f"--{next(iter(chosen))} goes with tables of edges ({kinds}), but {str(source)!r} {what}.")
    return None


def is_table(source: Any) -> bool:
    """Check whether a source is a table of edges, a network file, a frame, or a folder with a file per graph."""
    if not isinstance(source, (str, Path)):
        return hasattr(source, "columns") and hasattr(source, "iloc")
    if not str(source):
        return False
    path = Path(source).expanduser()
    if path.is_file():
        return suffix_of(path) in (*TABLE_FILES, *NETWORK_FILES, *PICKLES)
    if not path.is_dir() or spell(str(source)) in CATALOG:
        return False
    names = {file.name for file in path.iterdir()}
    return names.isdisjoint({HEADER, *_RUN_FILES}) and any(
        suffix_of(Path(name)) in (*TABLE_FILES, *NETWORK_FILES) for name in names
    )


def locate(data: str, folder: Path) -> str | Path:
    """Return the path of a run's data: a graph inside the run folder is named relative to it."""
    return folder / data if data in OWN_GRAPHS else data


def _is_nothing(value: Any) -> bool:
    return value is None or value is False or (isinstance(value, (str, list, tuple)) and not value)
