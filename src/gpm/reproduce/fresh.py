"""Scores of a model of graphs on graphs that it has not seen, in an order and by walks that it has not seen either."""

from __future__ import annotations

import numpy as np
import torch

from gpm.errors import GpmError
from gpm.graph.copies import copy_graphs
from gpm.run.run import Run

UNSEEN = 1_000_003  # added to the seed of a training: no walk and no order is one of those


def score_fresh(run: Run, copies: int = 1) -> dict[str, float]:
    """Score copies of the test graphs, with their nodes permuted and patterns drawn under another seed."""
    if run.data.level != "graph":
        raise GpmError(f"{run.folder} predicts {run.data.level}s; only graphs can be copied with permuted nodes.")
    seed, ids = run.config.seed + UNSEEN, np.repeat(run.split.test, copies)
    other = run.with_config(run.config.with_(seed=seed))
    logits = other.predictor_for(copy_graphs(run.data.graph, ids, seed)).logits(np.arange(len(ids)))
    return run.task.score(logits, run.task.targets[torch.tensor(ids)])
