"""Trivial baselines: the most frequent class, and a network on features without edges."""

from __future__ import annotations

import torch
from torch import nn

from gpm.data.splits import Split
from gpm.graph.graph import Graph
from gpm.nn.feature_map import FeatureMap
from gpm.nn.feature_table import FeatureTable
from gpm.tasks import ClassTask

WIDTH, STEPS, CHECK_EVERY = 64, 400, 20


def score_baselines(graph: Graph, task: ClassTask, split: Split, seed: int = 0) -> dict[str, float]:
    """Return the metric of each baseline on the test split, between 0 and 1."""
    return {"majority": score_majority(task, split), "mlp": score_mlp(graph, task, split, seed)}


def score_majority(task: ClassTask, split: Split) -> float:
    """Return the score of always predicting the most frequent class of the training split."""
    labels = task.targets[torch.tensor(split.train)]
    if task.multilabel:
        logits = torch.logit(labels.nanmean(0).clamp(1e-6, 1 - 1e-6))
    else:
        logits = torch.bincount(labels, minlength=task.outputs).float()
    targets = task.targets[torch.tensor(split.test)]
    return task.score(logits.expand(len(targets), -1), targets)[task.metric]


def score_mlp(graph: Graph, task: ClassTask, split: Split, seed: int = 0) -> float:
    """Return the score of a two-layer network on a node's own features, its step chosen on validation."""
    torch.manual_seed(seed)
    table = FeatureTable(graph)
    spec = table.spec()
    first = FeatureMap(spec.node, spec.node_dim, spec.node_sizes, WIDTH)
    first.fit(table.node)
    rest = nn.Sequential(
        nn.ReLU(), nn.Dropout(0.5), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Dropout(0.5), nn.Linear(WIDTH, task.outputs)
    )
    model = nn.ModuleList([first, rest])

    def logits(nodes: torch.Tensor) -> torch.Tensor:
        return rest(first(table.node, nodes, 0.5))

    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=1e-2)
    train, val, test = (torch.from_numpy(part.copy()) for part in (split.train, split.val, split.test))
    chosen, best = 0.0, -1.0
    for step in range(1, STEPS + 1):
        batch = train[torch.randint(len(train), (min(len(train), 1024),))]
        optimizer.zero_grad()
        task.loss(logits(batch), task.targets[batch]).backward()
        optimizer.step()
        if step % CHECK_EVERY == 0:
            model.eval()
            with torch.no_grad():
                score = task.score(logits(val), task.targets[val])[task.metric]
                if score > best:
                    best, chosen = score, task.score(logits(test), task.targets[test])[task.metric]
            model.train()
    return chosen
