"""Prove that a link's own edge does not leak: what a trained model knows of a link, with the edge and without it."""

from __future__ import annotations

import numpy as np
import torch

from gpm.data.non_edges import drop_edges
from gpm.data.splits import LinkSplit
from gpm.errors import GpmError
from gpm.inference.opened import OpenedRun
from gpm.nn.link_table import LinkTable

LINKS = 4  # of the training split that are taken out, one at a time


def check_own_edges(run: OpenedRun) -> list[str]:
    """Check that what a model knows exactly of a training link is the same in the graph that never had the link.

    Return a line that says what holds; nothing for a run without such inputs, or whose protocol shows the edge.
    """
    if not run.metadata["inputs"].get("expected") or not isinstance(run.split, LinkSplit):
        return []
    predictor, split = run.pattern_predictor, run.split
    table, graph = predictor.expected, predictor.tokenizer.graph
    if not isinstance(table, LinkTable) or not table.hide:
        return []
    edges = split.edges_of("train")
    chosen = edges[np.argsort(graph.degree()[edges].sum(1), kind="stable")[:LINKS]]  # there an edge counts most
    for pair in chosen:
        left = drop_edges(graph, pair[None])
        kept = {} if table.projection is None else {"projection": table.projection}
        other = LinkTable.build(run.config, left, True, inputs=predictor.model.inputs, kept=kept)
        assert other is not None
        if not torch.allclose(table.take(pair[None]), other.take(pair[None]), rtol=1e-4, atol=1e-5):
            ends = " and ".join(repr(graph.name(int(end))) for end in pair)
            raise GpmError(
                f"What the model knows of the link of {ends} changes with the link itself: it leaks; do not use this "
                "model, and report it."
            )
    return [f"{'own edges':<16}{len(chosen)} training links are described as in the graph that never had them"]
