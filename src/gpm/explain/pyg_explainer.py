"""PyG's `Explainer` on a run: the algorithm that explains a `PatternModule` by the patterns that it reads.

PyG's fidelity and unfaithfulness mean nothing here: they weigh the messages of a network by the edge mask, and a model
without messages answers the same whatever the mask. `gpm.explain.faithfulness` leaves patterns out instead.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch_geometric.explain import Explanation
from torch_geometric.explain.algorithm import ExplainerAlgorithm
from torch_geometric.explain.config import ExplanationType, MaskType

from gpm.data.non_edges import number_pairs
from gpm.errors import GpmError, kind_of, whole_number
from gpm.explain.attribution import METHODS, rank_groups, rank_patterns, weigh_edges
from gpm.explain.bag import Bag, Group
from gpm.explain.explanation import Method
from gpm.explain.pyg_module import PatternModule
from gpm.graph.coerce import as_array, check_choice

__all__ = ["PatternExplainer", "PatternExplanation", "PatternModule"]

LEVELS = {"node": "node", "link": "edge", "graph": "graph"}  # what PyG calls them
_log = logging.getLogger("gpm")


class PatternExplanation(Explanation):  # type: ignore[misc]
    """PyG's explanation, and the patterns behind its masks.

    A subgraph of it keeps the patterns whose nodes are all in it, in its own numbers.

    Attributes:
        patterns: Nodes along a walk through each `[P, L+1]`, -1 past the end.
        pattern_score: How much each counts `[P]`, descending, in the units of the method.
    """

    def is_edge_attr(self, key: str) -> bool:
        """Whether there is an entry per edge; patterns are no edges, even if there are as many."""
        return key not in ("patterns", "pattern_score") and super().is_edge_attr(key)

    def subgraph(self, subset: Tensor) -> PatternExplanation:
        """The part on some nodes."""
        part: PatternExplanation = super().subgraph(subset)
        kept = subset.nonzero().view(-1) if subset.dtype == torch.bool else subset
        number = torch.full((self.num_nodes + 1,), -2, device=self.patterns.device)  # the last is for -1
        number[kept], number[-1] = torch.arange(len(kept), device=number.device), -1
        patterns = number[self.patterns]
        whole = (patterns > -2).all(1)
        part.patterns, part.pattern_score = patterns[whole], self.pattern_score[whole]
        return part


class PatternExplainer(ExplainerAlgorithm):  # type: ignore[misc]
    """Explains a `PatternModule` inside `torch_geometric.explain.Explainer` by the patterns that it reads.

    The masks of nodes and edges are the scores of the patterns through them, added up over patterns that speak for the
    answer and over all instances that are explained at once, and scaled to a maximum of 1. What is explained is the
    class in `target`, given by the place of its logit (for yes-or-no outputs, 0 is no), or the value of a regression.

    `Explainer` first asks the model for all its answers. On a large graph name those you want:
    `explainer(x, edge_index, instances=torch.tensor([17]))`.

    Args:
        method: How patterns are scored: auto or one that `gpm.explain.attribution` names. Attention is the same for
            every class, so it cannot explain a phenomenon.
        top: Count the best so many patterns of an instance alone; by default all.
    """

    def __init__(self, method: Method = "auto", top: int | None = None) -> None:
        super().__init__()
        check_choice("method", method, METHODS)
        if top is not None and whole_number(top, "top") < 1:
            raise GpmError(f"top must be at least 1, got {top}.")
        self.method, self.top = method, top

    def supports(self) -> bool:
        """Whether the settings of `Explainer` can be met; if not, the reason is logged."""
        config, name = self.explainer_config, type(self).__name__
        if config.node_mask_type not in (None, MaskType.object):
            _log.error("%s weighs nodes, not features; set node_mask_type to 'object' or None.", name)
            return False
        if self.method == "attention" and config.explanation_type is ExplanationType.phenomenon:
            _log.error("%s: attention is the same for every class; for a phenomenon choose another method.", name)
            return False
        return True

    def forward(
        self,
        model: nn.Module,
        x: Tensor,
        edge_index: Tensor,
        *,
        target: Tensor,
        index: int | Tensor | None = None,
        **kwargs: Any,
    ) -> PatternExplanation:
        """Explain the answers `index`, or all answers, of a `PatternModule`; `kwargs` are those of its `open`."""
        module = self._check(model)
        predictor, asked = module.open(x, edge_index, **kwargs)
        rows = np.arange(len(asked)) if index is None else np.arange(len(asked))[np.atleast_1d(as_array(index))]
        if not len(rows):
            raise GpmError("index names no answer of the model, so there is nothing to explain.")
        walks, groups, scores = [], [], []
        for row in rows:
            bag = Bag.draw(predictor, module.task, asked[row : row + 1])
            found, score = self._rank(module, bag, as_array(target), int(row))
            walks += [bag.walks[group.walks[0]] for group in found]
            groups += found
            scores.append(score)
        return self._assemble(np.array(walks), groups, np.concatenate(scores), edge_index, len(x))

    def _check(self, model: nn.Module) -> PatternModule:
        """The model, if it is as the settings say."""
        if not isinstance(model, PatternModule):
            raise GpmError(f"PatternExplainer explains a PatternModule(run), not a {kind_of(model)}.")
        settings = {name: getattr(self.model_config, name).value for name in ("mode", "task_level", "return_type")}
        mine = {"mode": model.mode, "task_level": LEVELS[model.level], "return_type": model.return_type}
        for name, value in mine.items():
            if settings[name] != value:
                raise GpmError(f"the model_config has {name} {settings[name]!r}, but the model's is {value!r}.")
        if model.mode != "multiclass_classification" and model.output is None and model.task.outputs > 1:
            raise GpmError(f"the model has {model.task.outputs} outputs; choose one with PatternModule(run, output=0).")
        return model

    def _rank(self, module: PatternModule, bag: Bag, target: NDArray, row: int) -> tuple[list[Group], NDArray]:
        """The patterns of an instance and their scores, the highest first."""
        place, sign = module.output or 0, 1
        if module.level == "link":
            place = int(bool(target.reshape(-1)[row]))
        elif module.mode == "multiclass_classification":
            place = int(target.reshape(-1)[row])
            if not 0 <= place < module.task.outputs:
                raise GpmError(f"target {place} is no class; give places 0 to {module.task.outputs - 1} of the logits.")
        elif module.mode == "binary_classification" and not target.reshape(-1)[row]:
            sign = -1
        ranking = rank_patterns(bag, self.method, place)
        scores = ranking.scores if ranking.method == "attention" else sign * ranking.scores
        order = rank_groups(scores, ranking.groups)[: self.top]
        return [ranking.groups[i] for i in order], scores[order]

    def _assemble(
        self, walks: NDArray, groups: Sequence[Group], scores: NDArray, edge_index: Tensor, num_nodes: int
    ) -> PatternExplanation:
        order, place = np.argsort(-scores, kind="stable"), edge_index.device
        explanation = PatternExplanation(
            patterns=torch.from_numpy(walks[order]).to(place),
            pattern_score=torch.from_numpy(scores[order]).float().to(place),
        )
        if self.explainer_config.node_mask_type is not None:
            nodes = np.zeros(num_nodes)
            for group, score in zip(groups, scores, strict=True):
                nodes[list(group.nodes)] += max(score, 0.0)
            explanation.node_mask = _scale(nodes)[:, None].to(place)
        if self.explainer_config.edge_mask_type is not None:
            explanation.edge_mask = _scale(_spread(weigh_edges(groups, scores), as_array(edge_index))).to(place)
        return explanation


def _spread(weights: dict[tuple[int, int], float], edge_index: NDArray) -> NDArray:
    """The weights of undirected edges on the edges of a graph `[E]`; a self-loop, which no pattern shows, has none."""
    numbers = np.append(number_pairs(np.array(list(weights), dtype=np.int64).reshape(-1, 2)), -1)
    values, order = np.append(list(weights.values()), 0.0), np.argsort(numbers)
    wanted = number_pairs(edge_index.T)
    place = order[np.minimum(np.searchsorted(numbers, wanted, sorter=order), len(order) - 1)]
    return np.where(numbers[place] == wanted, values[place], 0.0)


def _scale(mask: NDArray) -> Tensor:
    most = mask.max(initial=0.0)
    return torch.from_numpy(mask / most if most > 0 else mask).float()
