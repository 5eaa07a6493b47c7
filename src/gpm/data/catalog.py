"""The named datasets: loaded by PyG into the data root, from raw files at hand before any download.

`GPM_DATA` names the data root (by default `gpm` in the user's cache folder). `GPM_RAW` may name a read-only folder of
raw files in PyG's layout; what is needed is copied from there before anything is downloaded.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpm.errors import GpmError, nearest


@dataclass(frozen=True)
class Entry:
    """A named dataset: the PyG class, its root below the data root, its arguments, and the folder of its raw files."""

    loader: str
    root: str = ""
    options: tuple[tuple[str, str], ...] = ()
    raw: str = ""


def _named(loader: str, name: str) -> Entry:
    return Entry(loader, loader, (("name", name),), f"{loader}/{name}")


CATALOG = {
    "karate": Entry("KarateClub"),
    "cora": _named("Planetoid", "Cora"),
    "citeseer": _named("Planetoid", "CiteSeer"),
    "pubmed": _named("Planetoid", "PubMed"),
    "computers": _named("Amazon", "Computers"),
    "photo": _named("Amazon", "Photo"),
    "cs": _named("Coauthor", "CS"),
    "mutag": _named("TUDataset", "MUTAG"),
    "proteins": _named("TUDataset", "PROTEINS"),
    "enzymes": _named("TUDataset", "ENZYMES"),
}


def data_root() -> Path:
    """The folder for datasets: `GPM_DATA`, or `gpm` in the user's cache folder."""
    if given := os.environ.get("GPM_DATA"):
        return Path(given).expanduser()
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "gpm"


def dataset_names() -> list[str]:
    """The names that `load_dataset` knows."""
    return list(CATALOG)


def load_dataset(name: str) -> Any:
    """Load a named dataset as PyG's `Dataset`, without a download where the raw files are at hand."""
    import torch_geometric.datasets

    entry = CATALOG.get(name.lower())
    if entry is None:
        raise GpmError(f"no dataset is named {name!r}.{nearest(name.lower(), CATALOG)} Known: {', '.join(CATALOG)}.")
    loader = getattr(torch_geometric.datasets, entry.loader)
    if not entry.root:
        return loader()
    try:
        _copy_raw(entry)
        return loader(str(data_root() / entry.root), **dict(entry.options))
    except Exception as error:  # whatever a download, an archive or a parser may raise
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise GpmError(
            f"could not load {name!r} ({reason}); without a connection, let GPM_RAW name a folder with {entry.raw}/raw."
        ) from error


def _copy_raw(entry: Entry) -> None:
    """Copy the raw files that `GPM_RAW` has and the data root has not, each whole or not at all."""
    given = os.environ.get("GPM_RAW")
    source, target = Path(given or "") / entry.raw / "raw", data_root() / entry.raw / "raw"
    if not given or not source.is_dir():
        return
    for file in source.rglob("*"):
        copy = target / file.relative_to(source)
        if not file.is_file() or copy.exists():
            continue
        copy.parent.mkdir(parents=True, exist_ok=True)
        scratch = copy.with_name(f".{copy.name}.{os.getpid()}")
        shutil.copyfile(file, scratch)  # contents only: the source may be read-only
        scratch.replace(copy)
