"""Adaptation to a target without its labels: embeddings in which domains are alike, or smooth over both graphs.

A training step reads as many nodes of the target beside those of the source. The terms that are added to the loss see
the ids of nodes and their embeddings, and never a label.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from gpm.config import Config
from gpm.data.domain_data import DomainData
from gpm.data.splits import Split
from gpm.nn.positional.encodings import find_modes
from gpm.random_bits import make_key
from gpm.tasks import Task
from gpm.training.batches import Draw, Examples

STEEPNESS = 0.1  # weight of the squared slope of the domain classifier
RAMP = 10.0  # steepness of the domain classifier's schedule, as in the paper that introduced it


class DomainExamples(Examples):
    """The source's examples of a step, followed by as many nodes of the target, which have no labels."""

    def __init__(self, data: DomainData, task: Task, split: Split, seed: int) -> None:
        super().__init__(data, task, split, seed)
        self.others = data.nodes(away=True)

    def deal(self, draw: Draw) -> tuple[Tensor, Tensor, Tensor, int, float]:
        inputs, targets, rows, terms, share = super().deal(draw)
        random = np.random.default_rng((make_key(self.seed), draw.step))
        drawn = self.others[random.integers(0, len(self.others), len(draw.whole))]
        others = torch.from_numpy(drawn[draw.mine])
        return torch.cat([inputs, others]), targets, torch.cat([rows, rows + len(draw.whole)]), terms, share


class Reverse(torch.autograd.Function):
    """Identity whose gradient is reversed and scaled: what follows learns, and what comes before unlearns."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, strength: float) -> Tensor:
        ctx.strength = strength
        return values.view_as(values)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return -ctx.strength * gradients[0], None


class Adaptation(nn.Module):
    """Terms that are added to the loss of a step; ssreg computes the eigenvectors `modes` `[N, k]` unless given."""

    modes: Tensor

    def __init__(self, config: Config, data: DomainData, modes: NDArray | None = None) -> None:
        super().__init__()
        self.config = config
        width = config.width or 0
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(make_key(config.seed, 1) >> 1)
            classifier = nn.Sequential(
                nn.LayerNorm(width, elementwise_affine=False), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1)
            )
        self.classifier = classifier if "dann" in config.adapt else None
        self.sizes = [len(data.nodes(away)) for away in (False, True)]
        if "ssreg" in config.adapt:
            modes = find_modes(data.graph, config.modes) if modes is None else modes
            self.register_buffer("modes", torch.tensor(modes), persistent=False)

    def forward(self, embedding: Tensor, nodes: Tensor, progress: float) -> dict[str, Tensor]:
        """Return the weighted terms for b nodes of the source and b of the target: embeddings `[2b, d]`, ids `[2b]`."""
        terms = {}
        if self.classifier is not None:
            strength = self.config.dann_weight * ramp(progress)
            turned = Reverse.apply(embedding, strength)  # type: ignore[no-untyped-call]
            guess = self.classifier(turned).squeeze(1)
            truth = (torch.arange(len(embedding), device=embedding.device) >= len(embedding) // 2).to(guess.dtype)
            terms["dann"] = functional.binary_cross_entropy_with_logits(guess, truth)
            terms["steepness"] = STEEPNESS * self._steepness(embedding)
        if "ssreg" in self.config.adapt:
            halves = zip(embedding.chunk(2), nodes.chunk(2), self.sizes, strict=True)
            terms["ssreg"] = self.config.ssreg_weight * torch.stack([self._roughness(*half) for half in halves]).sum()
        return terms

    def _steepness(self, embedding: Tensor) -> Tensor:
        """Return the squared slope of the classifier: a steep one makes the two sides chase each other in circles."""
        assert self.classifier is not None
        with torch.enable_grad():
            inputs = embedding.detach().requires_grad_()
            (slope,) = torch.autograd.grad(self.classifier(inputs).sum(), inputs, create_graph=True)
        return slope.square().sum(1).mean()

    def _roughness(self, embedding: Tensor, nodes: Tensor, size: int) -> Tensor:
        """Penalise spectral responses, and differences of neighbouring ones, above the threshold."""
        response, free = self.respond(embedding, nodes, size), self.config.ssreg_threshold
        smooth = functional.relu(response.diff(dim=0).abs() - free).mean() if len(response) > 1 else response.sum() * 0
        return smooth + functional.relu(response.abs() - free).mean()

    def respond(self, embedding: Tensor, nodes: Tensor, size: int) -> Tensor:
        """Return the spectral response of a domain `[k, d]`, estimated without bias from some of its nodes.

        With the unit eigenvectors U of a graph, in the order of their frequencies, it is `U^T Z / sqrt(N)` for the
        embeddings Z of its N nodes, so that it does not grow with the graph: ones respond with about 1.
        """
        return self.modes[nodes.to(self.modes.device)].T @ embedding.float() * (math.sqrt(size) / len(nodes))


def ramp(progress: float) -> float:
    """Return a weight that rises from 0 to nearly 1: embeddings should mean something before they are made alike."""
    return 2 / (1 + math.exp(-RAMP * progress)) - 1
