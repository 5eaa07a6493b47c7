"""Load a graph from a dataset's name, a saved graph, a table of edges, a network file or a PyG file."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpm.data.catalog import CATALOG, spell
from gpm.data.named_datasets import allow_pyg_data, load_dataset
from gpm.data.tables.column_roles import Draft, find_ends, find_id
from gpm.data.tables.importer import import_tables
from gpm.data.tables.inputs import suffix_of
from gpm.data.tables.node_ids import id_of
from gpm.data.tables.open_table import TABLE_FILES, Table, open_table, reading
from gpm.data.tables.read_network import NETWORK_FILES
from gpm.data.tables.session import connect
from gpm.data.tables.table_source import is_table
from gpm.errors import GpmError, kind_of, nearest
from gpm.graph.folder import HEADER
from gpm.graph.graph import Graph
from gpm.io.archives import DENSEST, check_zip
from gpm.io.publish import settle

if TYPE_CHECKING:
    from torch_geometric.data import Data

PYG_FILES = (".pt", ".pth")
_FEW_NODES = 10_000_000  # that any file may have, however small
PAIRS = 1 << 16  # that are read at a time


def load_graph(source: str | Path, *, directed: bool = False) -> Graph:
    """Load a graph.

    Args:
        source: A dataset's name, a folder written by `Graph.save` or `gpm import`, a table of edges (.csv, .tsv, .txt,
            .parquet, .jsonl), a network file (.graphml, .gexf, .gml, .json) or a PyG file (.pt).
        directed: Read a table as directed edges; by default each row is an edge in both directions.
    """
    path = Path(source).expanduser()
    settle(path)
    if directed and not (path.is_file() and suffix_of(path) in TABLE_FILES):
        raise GpmError(f"directed is for tables of edges; {str(source)!r} has its own direction of edges.")
    if is_table(source):
        with tempfile.TemporaryDirectory(prefix="gpm-") as scratch:  # the arrays stay mapped when the files are gone
            return Graph.open(import_tables(path, Path(scratch) / "graph", task="link", directed=directed))
    if path.is_dir() and ((path / HEADER).exists() or spell(str(source)) not in CATALOG):
        return Graph.open(path)
    if path.suffix.lower() in PYG_FILES and path.is_file():
        several = read_pyg(path)
        return Graph.from_pyg(several[0] if isinstance(several, tuple) else several)
    if spell(str(source)) in CATALOG:
        dataset = load_dataset(str(source))
        return Graph.from_pyg(dataset if len(dataset) > 1 else dataset[0])
    if path.exists():
        kinds = ", ".join((*TABLE_FILES, *NETWORK_FILES, *PYG_FILES))
        raise GpmError(
            f"{path} is not a kind of file that is read here; give a saved graph's folder or one of {kinds}."
        )
    near = nearest(str(source).lower(), CATALOG)
    raise GpmError(f"{str(source)!r} is neither a file nor a dataset.{near} Datasets: {', '.join(CATALOG)}.")


def graph_of(value: Any) -> Graph:
    """Return a `Graph`, or a PyG `Data`, as a graph."""
    if not isinstance(value, Graph) and not hasattr(value, "edge_index"):
        raise GpmError(f"Give a dataset's name, a file, a PyG Data or a Graph, not a {kind_of(value)}.")
    return value if isinstance(value, Graph) else Graph.from_pyg(value)


def read_pairs(path: Path) -> list[tuple[str, str]]:
    """Read pairs of names from a table; its columns are found as those of a table of edges."""
    with opening_pairs(path) as pairs:
        return [pair for block in pairs.read() for pair in block]


def read_names(path: Path) -> list[str]:
    """Read names of nodes from a table; their column is found as the id of a table of nodes."""
    with connect() as base:
        draft = Draft("nodes", open_table(base, path), {})
        find_id(draft)
        names = f"SELECT {id_of(draft.table, draft.having('id')[0], 'VARCHAR')} AS name, gpm_row"
        with reading(draft.table):
            rows = base.execute(f"{names} FROM {draft.table.numbered()} ORDER BY gpm_row").fetchall()
    if not rows:
        raise GpmError(f"{path} holds no names; write one per line.")
    return [name for name, _ in rows]


@dataclass(frozen=True)
class PairTable:
    """A table of pairs of names that may be larger than memory. Made by `opening_pairs`; `ends` is SQL of the names."""

    table: Table
    ends: str

    def read(self, first: int = 0, last: int | None = None) -> Iterator[list[tuple[str, str]]]:
        """Yield the pairs of some rows, counted from 0, in the order of the table, some thousands at a time."""
        base, number = self.table.base, first
        end = "" if last is None else f" AND gpm_row < {last}"
        query = f"SELECT {self.ends}, gpm_row FROM {self.table.numbered()} WHERE gpm_row >= {first}{end}"
        with reading(self.table):
            base.execute(query)  # it keeps the order, see `connect`; to sort would take memory for all rows
            while rows := base.fetchmany(PAIRS):
                for expected, (source, target, row) in enumerate(rows, number):
                    if row != expected:
                        raise RuntimeError(f"{self.table.title}: row {row} came instead of row {expected}")
                    if source is None or target is None:
                        raise GpmError(f"{self.table.where(row)}: a pair needs two names; fix or remove the row.")
                yield [(source, target) for source, target, _ in rows]
                number += len(rows)
        if not number:
            raise GpmError(f"{self.table.path} holds no pairs; write one 'source,target' per line.")


@contextmanager
def opening_pairs(path: Path) -> Iterator[PairTable]:
    """Open a table of pairs, which is read lazily."""
    with connect() as base:
        table = open_table(base, path)
        draft = Draft("edges", table, {})
        find_ends(draft)
        ends = (id_of(table, draft.having(role)[0], "VARCHAR") for role in ("source", "target"))
        yield PairTable(table, ", ".join(ends))


def read_pyg(path: Path) -> list[Data] | tuple[Data]:
    """Read what `torch.save` made of a list of PyG `Data`, or of a single one; nothing in the file is executed."""
    import torch
    from torch_geometric.data import Data
    from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
    from torch_geometric.data.storage import GlobalStorage

    check_zip(path, follow=True)
    try:
        allow_pyg_data()
        with torch.serialization.safe_globals([DataEdgeAttr, DataTensorAttr, GlobalStorage]):
            data = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        raise GpmError(
            f"{path} cannot be read as a PyG file ({type(error).__name__}): it is damaged, or holds more than tensors, "
            "numbers and text; torch.save a plain Data or a list of them (batch.to_data_list() of a Batch)."
        ) from None
    several = list(data) if isinstance(data, (list, tuple)) and data else [data]
    if not all(isinstance(one, Data) for one in several):
        raise GpmError(f"{path} holds a {type(data).__name__}, not a PyG Data or a list of them.")
    _check_counts(path, several)
    return (data,) if isinstance(data, Data) else several


def _check_counts(path: Path, several: list[Any]) -> None:
    """Refuse node counts that the file is too small for: an array of that size would be allocated."""
    import torch

    most = max(_FEW_NODES, DENSEST * path.stat().st_size)
    for one in several:
        count = one.get("num_nodes")
        if count is not None and not (type(count) is int and 0 <= count <= most):
            shown = f"{count!r:.60}"
            raise GpmError(f"{path} says that num_nodes is {shown}, which does not match its nodes.")
        ends = one.get("edge_index")
        if isinstance(ends, torch.Tensor) and not ends.is_floating_point() and ends.numel() and ends.max() > most:
            raise GpmError(f"{path} has an edge to node {int(ends.max())}, of which it says nothing else; fix it.")
