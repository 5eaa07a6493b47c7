r"""Expected patterns: tokens of what is known exactly about an instance, beside the walks that are drawn.

The mean of a feature over *all* walks of t steps is one product, :math:`P^t X`; sixteen walks cannot estimate it on a
dense graph. Each group of an `ExpectedTable` becomes one token, :math:`W_g \, ((v_g - \mu) \cdot s) + b_g`. A linear
model of the same columns, fitted in closed form, is added to the logits, or mixed with them after training.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from gpm.config import Linear
from gpm.nn.expected_table import LABELS, POSITION, STEP, VOCABULARIES, Answers, ExpectedTable
from gpm.nn.feature_table import InputSpec
from gpm.nn.linear_part import fit_linear

FARTHEST = 8.0  # standard deviations; a value beyond is cut off
GAINS = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0)  # of a linear score, to make it a logit


class Constant(nn.Module):
    """A token that is the same for every instance: for columns that the linear part alone reads."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.token = nn.Parameter(torch.randn(width) * 0.1)

    def forward(self, values: Tensor) -> Tensor:
        return self.token.expand(values.shape[0], -1)  # len would be a constant in an exported program


class ExpectedPatterns(nn.Module):
    """Standardise the columns of an `ExpectedTable`, map each group to a token, and put a linear part into the logits.

    With `linear="base"` the linear part is added, times a learned gain. With `"blend"` the logits are a mixture, in
    which the linear part has `share`: 0 in training, then chosen by validation.
    """

    shift: Tensor
    scale: Tensor
    weight: Tensor
    intercept: Tensor
    projection: Tensor
    group: Tensor
    share: Tensor
    ends = 1  # of an instance, in the columns of a step

    def __init__(self, inputs: InputSpec, width: int, outputs: int, linear: Linear) -> None:
        super().__init__()
        self.names, self.sizes = list(inputs.expected), list(inputs.expected.values())
        columns = sum(self.sizes)
        self.register_buffer("shift", torch.zeros(columns))
        self.register_buffer("scale", torch.ones(columns))
        if inputs.projected:
            self.register_buffer("projection", torch.zeros(inputs.projected, inputs.expected[f"{STEP} 0"] // self.ends))
        for name, buffer in VOCABULARIES.items():
            if counted := inputs.expected.get(name, 0):
                self.register_buffer(buffer, torch.zeros(counted, 2, dtype=torch.int64))
        self.maps = nn.ModuleList(self._make_map(name, size, width) for name, size in inputs.expected.items())
        self.linear = linear
        self.gain = nn.Parameter(torch.ones(1)) if linear == "base" else None
        if linear == "blend":
            self.register_buffer("share", torch.zeros(1))
        if linear != "none":
            self.register_buffer("weight", torch.zeros(columns, outputs))
            self.register_buffer("intercept", torch.zeros(outputs))
        group = [index for index, size in enumerate(self.sizes) for _ in range(size)]  # of each column
        self.register_buffer("group", torch.tensor(group, dtype=torch.int64), persistent=False)

    def _make_map(self, name: str, columns: int, width: int) -> nn.Module:
        return Constant(width) if name in VOCABULARIES else nn.Linear(columns, width)

    def __len__(self) -> int:
        return len(self.sizes)

    def standardise(self, values: Tensor) -> Tensor:
        """Return columns `[B, D]` with mean 0 and spread 1 over the training split; what is unknown is 0."""
        return ((values - self.shift) * self.scale).clamp(-FARTHEST, FARTHEST).nan_to_num(0.0)

    def forward(self, values: Tensor, rows: Tensor | None = None) -> Tensor:
        """Map standardised columns `[B, D]` to tokens `[B, K, d]`; `rows` are the indices of the instances in a step.

        In training positions are flipped at random: eigenvectors have no sign.
        """
        parts = list(values.split(self.sizes, 1))
        if self.training and POSITION in self.names:
            at = self.names.index(POSITION)
            parts[at] = parts[at] * (torch.randint(0, 2, (self.sizes[at],), device=values.device) * 2 - 1)
        return torch.stack([map_(part) for map_, part in zip(self.maps, parts, strict=True)], 1)

    def add_linear(
        self, logits: Tensor, values: Tensor, weight: Tensor | None = None, correction: Tensor | None = None
    ) -> Tensor:
        """Add or mix in the linear part of standardised columns `[B, D]`; groups may have weights `[B, K]`."""
        if self.linear == "none" or (self.linear == "blend" and self.training):
            return logits
        if weight is not None:
            values = values * weight[:, self.group]
        linear = self.read_linear(values)
        if self.gain is None:
            return torch.lerp(logits, linear, self.share)
        return logits + self.gain * (linear if correction is None else linear + correction)

    def read_linear(self, values: Tensor) -> Tensor:
        """Return the logits `[B, C]` of the linear part of standardised columns `[B, D]`."""
        return values @ self.weight + self.intercept

    @torch.no_grad()
    def fit(self, table: ExpectedTable, answers: Answers | None) -> ExpectedTable:
        """Find the statistics on the training instances, and the linear part; return the table with its corrections."""
        train = np.arange(len(table.values)) if answers is None else answers.train
        values = table.take(train).double()
        mean, spread = values.nanmean(0).nan_to_num(0), (values - values.nanmean(0)).square().nanmean(0).sqrt()
        for name, columns in zip(self.names, torch.arange(len(mean)).split(self.sizes), strict=True):
            if name in table.even:  # rare words stay smaller
                common = spread[columns].square().mean().sqrt()
                shared = common if table.projection is not None else (common * spread[columns]).sqrt()
                spread[columns] = torch.where(spread[columns] > 1e-6 * common, shared, 0.0)
        constant = ~(spread > 1e-6 * mean.abs().clamp(min=1e-6))
        self.shift.copy_(mean)
        self.scale.copy_(torch.where(constant, 0.0, 1 / spread))
        if table.projection is not None:
            self.projection.copy_(torch.from_numpy(table.projection))
        for each in table.counted:
            getattr(self, VOCABULARIES[each.name]).copy_(torch.from_numpy(each.vocabulary))
        if self.linear == "none" or answers is None:
            return table
        return self._fit_linear(table, answers)

    def _fit_linear(self, table: ExpectedTable, answers: Answers) -> ExpectedTable:
        device = self.shift.device
        x, held = (self.standardise(table.take(ids).to(device)).cpu().numpy() for ids in (answers.train, answers.val))
        even = np.repeat(1 / np.sqrt(np.array(self.sizes, dtype=float)), self.sizes)  # no group outweighs another
        held_targets = answers.val_targets if len(answers.val) else np.zeros((0, answers.targets.shape[1]))
        choices = [even * choice for choice in self._choices(table, x)]
        part = fit_linear(x, answers.targets, held, held_targets, choices)
        gain, offset = _choose_gain(part.left_out, answers.targets[part.rows], answers.kind)
        weight = torch.from_numpy(gain * part.weight).float()
        intercept = torch.from_numpy(gain * part.intercept - offset).float()
        self.weight.copy_(weight)
        self.intercept.copy_(intercept)
        if self.linear == "blend":  # training does not see it
            return table
        correction = torch.zeros(len(table.values), len(intercept))
        rows = torch.from_numpy(answers.train[part.rows])
        fitted = torch.from_numpy(x[part.rows]) @ weight + intercept
        correction[rows] = torch.from_numpy(gain * part.left_out - offset).float() - fitted
        return table.corrected(correction)

    def _choices(self, table: ExpectedTable, x: NDArray) -> list[NDArray]:
        """Return scales of the columns `[D]` for linear parts: own features, their means, and others but labels.

        Scales with the most columns come first.
        Where columns are words, rare ones may also be made as small as they are. A neighbour's mean of labels holds the
        label of the row itself, so a row cannot be left out of it.
        """
        steps = [name for name in self.names if name.startswith(STEP)]
        others = [name for name in self.names if name not in (LABELS, *VOCABULARIES, *steps)]
        sets = [steps[:1], steps, *([*first, *others[:n]] for first in (steps, []) for n in range(1, len(others) + 1))]
        counted = [name for name in VOCABULARIES if name in self.names]
        sets += [[*steps, *others, *counted[:n]] for n in range(1, len(counted) + 1)]
        group, words = self.group.cpu().numpy(), [self.names.index(name) for name in table.even if name in steps]
        rarity = np.where(np.isin(group, words), x.std(0), 1.0)
        choices: list[NDArray] = []
        for names in reversed(sets):
            chosen = np.isin(group, [self.names.index(name) for name in names]).astype(float)
            for each in (chosen, chosen * rarity):
                if each.any() and not any(np.array_equal(each, other) for other in choices):
                    choices.append(each)
        return choices


def _choose_gain(scores: np.ndarray, targets: np.ndarray, kind: str) -> tuple[float, float]:
    """Return by how much to multiply scores, and what to subtract then, to make them logits of the targets."""
    if kind == "values" or not len(scores):
        return 1.0, 0.0
    said, true = torch.from_numpy(scores), torch.from_numpy(np.nan_to_num(targets))
    known = torch.from_numpy(~np.isnan(targets))

    def loss(gain: float) -> float:
        if kind == "classes":
            return float(functional.cross_entropy(gain * said, true))
        return float(functional.binary_cross_entropy_with_logits((gain * (said - 0.5))[known], true[known]))

    best = min(GAINS, key=loss)
    return best, 0.0 if kind == "classes" else best / 2
