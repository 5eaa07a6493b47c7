"""Tables as what a model is trained on, or predicts: found among the arguments, and imported where they are needed."""

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
from gpm.data.tables.inputs import name_of, suffix_of
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
    """What `import_tables` is told."""

    edges: Any
    options: dict[str, Any]

    @property
    def name(self) -> str:
        """What a run of them is called."""
        return name_of(Path(self.edges).absolute()) if isinstance(self.edges, (str, Path)) else "tables"

    def import_to(self, folder: Path, *, task: str = "auto", metric: str = "auto", progress: bool = False) -> Path:
        """Import them; a metric of numbers says that the target is one."""
        values = metric in VALUE_METRICS
        return import_tables(self.edges, folder, task=task, values=values, progress=progress, **self.options)

    @contextmanager
    def importing(self, near: Path, **options: Any) -> Iterator[Path]:
        """The graph made of them, in a folder beside the run to be; what is not moved away goes with the block.

        Args:
            near: The run folder to be; what killed processes left beside it goes too.
            options: As in `import_to`.
        """
        for left in near.parent.glob(f".{glob.escape(near.name)}.tables.*"):
            with suppress(GpmError), claiming(left):
                shutil.rmtree(left)
        room = near.with_name(f".{near.name}.tables.{secrets.token_hex(4)}")
        try:
            room.mkdir(parents=True)
        except OSError as error:
            raise WriteError(room, error) from None
        with claiming(room):
            try:
                yield self.import_to(room / GRAPH, **options)
            finally:
                shutil.rmtree(room, ignore_errors=True)


def find_tables(source: Any, *, target: Any = None, smiles: str | None = None, **options: Any) -> Tables | None:
    """The tables among the arguments of a command, or None if the source is none.

    Args:
        source: The first argument.
        target: The column to predict, or several; molecules have one too.
        smiles: The column of a table of molecules, which is no table of edges.
        options: Those of `import_tables` that are only for tables; a mistake if the source is none.
    """
    given = {key: value for key, value in options.items() if not _is_nothing(value)}
    if not smiles and is_table(source):
        return Tables(source, given if _is_nothing(target) else given | {"target": target})
    if given:
        kinds = ", ".join((*TABLE_FILES, *NETWORK_FILES))
        what = "is a table of molecules, as --smiles says" if smiles else "is none that is there"
        raise GpmError(f"--{next(iter(given))} goes with tables of edges ({kinds}), but {str(source)!r} {what}.")
    return None


def is_table(source: Any) -> bool:
    """Whether a source is a table of edges, a network file, a frame, or a folder with a file per graph."""
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
    known = {HEADER, *_RUN_FILES}
    return names.isdisjoint(known) and any(suffix_of(Path(name)) in (*TABLE_FILES, *NETWORK_FILES) for name in names)


def locate(data: str, folder: Path) -> str | Path:
    """Where the data of a run is: a graph that it carries is named from the run's own folder."""
    return folder / data if data in OWN_GRAPHS else data


def _is_nothing(value: Any) -> bool:
    return value is None or value is False or (isinstance(value, (str, list, tuple)) and not value)
