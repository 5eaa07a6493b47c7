"""Message passing with PyG's explainers, trained and tuned as anyone would who wants them to do well."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from planted import Planted
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.explain import AttentionExplainer, Explainer, GNNExplainer
from torch_geometric.nn.models import GAT, GCN
from torch_geometric.utils import degree

from gpm.data.splits import Split

LAYERS, HEADS, EPOCHS, CHECK_EVERY, DECAY = 3, 4, 1000, 5, 5e-4
MOST_DEGREE = 16  # higher ones are one class
MASK_EPOCHS, MASK_LR = 200, 0.01  # of GNNExplainer, as PyG sets the rate; twice its 100 epochs

Options = dict[str, Any]
WIDTHS = (32, 64)
DEGREES = [{"x": x, "width": width, "lr": 0.01} for x, width in product(("log-degree", "degree"), WIDTHS)]
TRIALS: dict[str, list[Options]] = {
    "GCN": [{"x": "ones", "width": width, "lr": lr} for width, lr in product(WIDTHS, (0.01, 0.003))],
    "GCN, degrees": DEGREES,
    "GAT, degrees": DEGREES,  # on ones its output is one and the same for all nodes
}
MASKS: list[Options] = [{"features": False}, {"features": True}]
ATTENTIONS: list[Options] = [{"reduce": "max"}, {"reduce": "mean"}, {"reduce": "min"}]
JOINS = ("mean", "max")  # of the two directions of an edge
EXPLAINERS: dict[str, tuple[str, list[Options]]] = {
    "GCN": ("GNNExplainer", MASKS),
    "GCN, degrees": ("GNNExplainer", MASKS),
    "GAT, degrees": ("AttentionExplainer", ATTENTIONS),
}


@dataclass(frozen=True, eq=False)
class Rival:
    """A trained network on a graph.

    Attributes:
        name: A key of `TRIALS`.
        planted: The graph.
        model: The network.
        x: What it is given of the nodes.
        val: Accuracy and negative loss of the validation part at the chosen epoch: what trials are compared by.
    """

    name: str
    planted: Planted
    model: nn.Module
    x: Tensor
    val: tuple[float, float]

    @torch.no_grad()
    def said(self) -> NDArray[np.int64]:
        """The predicted class of every node `[N]`."""
        return np.asarray(self.model(self.x, self.planted.edge_index).argmax(1).numpy())

    def explain(self, node: int, options: Options) -> NDArray:
        """Scores of the edges, in both directions `[2E]`, for a node's predicted class."""
        torch.manual_seed(node)
        masks = self.name.startswith("GCN")
        algorithm = GNNExplainer(MASK_EPOCHS, lr=MASK_LR) if masks else AttentionExplainer(options["reduce"])
        explainer = Explainer(
            self.model,
            algorithm,
            explanation_type="model",
            model_config={"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"},
            node_mask_type="attributes" if options.get("features") else None,
            edge_mask_type="object",
        )
        return np.asarray(explainer(self.x, self.planted.edge_index, index=node).edge_mask.numpy())

    def score_edges(self, options: Options, node: int) -> NDArray:
        """The same with one score per edge `[E]`."""
        return self.planted.join(self.explain(node, options), options["join"])


def make_features(planted: Planted, kind: str) -> Tensor:
    """What a network is given of the nodes `[N, F]`: ones, or also their degrees, as logarithms or as classes."""
    degrees = degree(planted.edge_index[0], planted.num_nodes)
    if kind == "ones":
        return torch.ones(planted.num_nodes, 1)
    if kind == "log-degree":
        return torch.stack([torch.ones_like(degrees), degrees.log()], 1)
    return functional.one_hot(degrees.long().clamp(max=MOST_DEGREE), MOST_DEGREE + 1).float()


def fit(name: str, planted: Planted, split: Split, options: Options, seed: int) -> Rival:
    """Train a network on all nodes at once; its epoch is the best by validation accuracy, then by validation loss."""
    torch.manual_seed(seed)
    x, y, edges = make_features(planted, options["x"]), planted.y, planted.edge_index
    sizes = {"in_channels": x.shape[1], "hidden_channels": options["width"], "out_channels": int(y.max()) + 1}
    model = GCN(num_layers=LAYERS, **sizes) if name.startswith("GCN") else GAT(num_layers=LAYERS, heads=HEADS, **sizes)
    optimizer = torch.optim.Adam(model.parameters(), lr=options["lr"], weight_decay=DECAY)
    train, val = torch.tensor(split.train), torch.tensor(split.val)
    best, state = (-1.0, 0.0), model.state_dict()
    for epoch in range(1, EPOCHS + 1):
        model.train()
        optimizer.zero_grad()
        functional.cross_entropy(model(x, edges)[train], y[train]).backward()
        optimizer.step()
        if epoch % CHECK_EVERY == 0 and (found := _validate(model, x, planted, val)) > best:
            best, state = found, copy.deepcopy(model.state_dict())
    model.load_state_dict(state)
    return Rival(name, planted, model.eval(), x, best)


@torch.no_grad()
def _validate(model: nn.Module, x: Tensor, planted: Planted, val: Tensor) -> tuple[float, float]:
    model.eval()
    logits, y = model(x, planted.edge_index)[val], planted.y[val]
    return float((logits.argmax(1) == y).float().mean()), -float(functional.cross_entropy(logits, y))


def tune(name: str, planted: Planted, split: Split, nodes: NDArray, seed: int) -> Options:
    """Choose the options of a network by validation accuracy, and among equals, as those of its explainer, by how well
    it then finds the motifs.

    The latter is more than a user could do; it is there so that no rival is held down by its settings.
    """
    trials: list[tuple[Rival, Options]] = []
    for options in TRIALS[name]:
        rival = fit(name, planted, split, options, seed)
        trials.append((rival, {"options": options, "val": round(rival.val[0], 4), "val_loss": round(-rival.val[1], 4)}))
    highest = max(trial["val"] for _, trial in trials)
    for rival, trial in trials:
        if trial["val"] == highest:
            trial |= try_explainers(rival, nodes)
    best = max((trial for _, trial in trials if "auc" in trial), key=lambda trial: trial["auc"])
    return {
        "seed": seed, "nodes": len(nodes), "trials": [trial for _, trial in trials],
        "chosen": best["options"], "explainer": best["explainer"],
    }  # fmt: skip


def try_explainers(rival: Rival, nodes: NDArray) -> Options:
    """The settings of a network's explainer with which it finds the motifs of some nodes best, and all others."""
    planted, said = rival.planted, rival.said()
    right = [node for node in nodes.tolist() if said[node] == planted.y[node]]
    found: list[Options] = []
    for options in EXPLAINERS[rival.name][1]:
        masks = {node: rival.explain(node, options) for node in right}
        for join in JOINS:
            reached = np.mean([planted.auc(node, planted.join(mask, join)) for node, mask in masks.items()])
            found.append({"options": options | {"join": join}, "auc": round(float(reached), 4)})
    best = max(found, key=lambda entry: entry["auc"])
    return {"auc": best["auc"], "explainer": best["options"], "explainers": found}
