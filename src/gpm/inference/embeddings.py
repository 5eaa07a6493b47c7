"""Embeddings: what the head of a model reads of nodes or graphs, as an array and as a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from gpm.errors import GpmError
from gpm.inference.opened import OpenedRun
from gpm.io.atomic import replacing
from gpm.io.table_files import WRITTEN, check_table, write_table
from gpm.nn import LinkPatternMachine
from gpm.nn.predictor import Predictor, Predicts

if TYPE_CHECKING:
    import pandas as pd


ARRAY = ".npy"


class Embeddings:
    """Vectors of some instances.

    Args:
        keys: Columns that say which they are, in the user's names.
        vectors: float32 `[B, d]`.
    """

    def __init__(self, keys: dict[str, list[Any]], vectors: NDArray[np.float32]) -> None:
        self.keys, self.vectors = keys, vectors

    def __len__(self) -> int:
        return len(self.vectors)

    def columns(self) -> dict[str, Any]:
        """The table by column: which instance, then e0, e1, ..."""
        return self.keys | {f"e{i}": self.vectors[:, i] for i in range(self.vectors.shape[1])}

    def frame(self) -> pd.DataFrame:
        """The table as a pandas frame."""
        import pandas as pd

        return pd.DataFrame(self.columns())

    def save(self, path: str | Path) -> None:
        """Write a table (.parquet, .csv, .tsv, .jsonl), or an array (.npy) with the names of its rows beside it.

        The names beside `emb.npy` are in `emb.keys.csv`, which is written first: where the array is, they are.
        """
        path = Path(path)
        check_embeddings(path)
        if path.suffix.lower() != ARRAY:
            write_table(path, self.columns())
            return
        write_table(path.with_name(f"{path.stem}.keys.csv"), self.keys)
        with replacing(path) as scratch, scratch.open("wb") as file:
            np.save(file, self.vectors, allow_pickle=False)


def check_embeddings(path: Path) -> None:
    """Refuse, before any work, a path that no embeddings can be written to."""
    check_table(path, (*WRITTEN, ARRAY))


def embed_run(
    run: OpenedRun, names: Any = None, *, new: bool = False, patterns: int | None = None, progress: bool = False
) -> Embeddings:
    """Embed the nodes or graphs of a run: what the head of the model reads, without dropout.

    Nodes and graphs are read from their patterns; a model of links that joins its ends by `product` embeds nodes.

    Args:
        run: The run.
        names: Of nodes or graphs; by default all.
        new: Only nodes that the training graph does not have.
        patterns: Per instance; by default the whole pool.
        progress: Show a bar.
    """
    level = "graph" if run.data.level == "graph" else "node"
    predictor: Any = _check(run)
    ids = run.find(names, new=new, level=level)
    if not isinstance(predictor, Predictor):
        found = predictor.embed()[torch.from_numpy(ids).to(predictor.device)]
    elif run.data.level == "link":
        found = predictor.embed_nodes(ids, patterns=patterns, progress=progress)
    else:
        parts = [out.embedding.cpu() for out in predictor.outputs(ids, patterns=patterns, progress=progress)]
        found = torch.cat(parts) if parts else torch.zeros(0, predictor.model.options.width or 0)
    return Embeddings(run.name(ids, level=level), found.float().cpu().numpy())


def _check(run: OpenedRun) -> Predicts:
    """The model, which must have embeddings of single instances."""
    predictor = run.predictor
    if not isinstance(predictor, Predictor) and run.data.level == "graph":
        raise GpmError(f"{run.folder} holds a {run.config.model}, whose graphs have no embedding; train a gpm.")
    if isinstance(predictor.model, LinkPatternMachine) and predictor.model.pair == "joint":
        raise GpmError(
            f"{run.folder} reads the two ends of a link together, so that a node has no embedding of its own; train "
            "with --pair product."
        )
    return predictor
