"""Embeddings of nodes or graphs: the vectors that the head of a model reads, as an array and as a table."""

from __future__ import annotations

from dataclasses import dataclass
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
from gpm.nn.predictor import Predictor

if TYPE_CHECKING:
    import pandas as pd

ARRAY = ".npy"


@dataclass(eq=False, repr=False)
class Embeddings:
    """Vectors of nodes or graphs."""

    keys: dict[str, list[Any]]  # columns that name the instances
    vectors: NDArray[np.float32]  # [B, d]

    def __len__(self) -> int:
        return len(self.vectors)

    def columns(self) -> dict[str, Any]:
        """Return the table by column: the names of the instance, then e0, e1, ..."""
        return self.keys | {f"e{i}": self.vectors[:, i] for i in range(self.vectors.shape[1])}

    def frame(self) -> pd.DataFrame:
        """Return the table as a pandas frame."""
        import pandas as pd

        return pd.DataFrame(self.columns())

    def save(self, path: str | Path) -> None:
        """Write a table (.parquet, .csv, .tsv, .jsonl), or an array (.npy) with the names of its rows beside it.

        The names of the rows of `emb.npy` are in `emb.keys.csv`, which is written first.
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
    """Embed the nodes or graphs of a run: return what the head of the model reads, without dropout.

    A model of links that joins its ends by `product` embeds nodes.

    Args:
        run: The run.
        names: Names of nodes or graphs; by default all.
        new: Only nodes that the training graph does not have.
        patterns: Patterns per instance; by default the whole pool.
        progress: Show a progress bar.
    """
    level, predictor = "graph" if run.data.level == "graph" else "node", run.predictor
    options: dict[str, Any] = {"patterns": patterns, "progress": progress}
    if not isinstance(predictor, Predictor) and level == "graph":
        raise GpmError(f"{run.folder} holds a {run.config.model}, whose graphs have no embedding; train a gpm.")
    if isinstance(predictor.model, LinkPatternMachine) and predictor.model.pair == "joint":
        raise GpmError(
            f"{run.folder} reads the two ends of a link together, so that a node has no embedding of its own; train "
            "with --pair product."
        )
    ids = run.find(names, new=new, level=level)
    if not isinstance(predictor, Predictor):
        network: Any = predictor
        vectors = network.embed()[torch.from_numpy(ids).to(network.device)]
    elif run.data.level == "link":
        vectors = predictor.embed_nodes(ids, **options)
    else:
        batches = [output.embedding.cpu() for output in predictor.outputs(ids, **options)]
        vectors = torch.cat(batches) if batches else torch.zeros(0, predictor.model.options.width or 0)
    return Embeddings(run.name(ids, level=level), vectors.float().cpu().numpy())
