"""The overview: which shapes carry the evidence over many instances, against how often they are drawn."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from tqdm.auto import tqdm

from gpm.compute import alone
from gpm.data.splits import PARTS
from gpm.errors import GpmError, whole_number
from gpm.explain.attribution import Ranking, rank_patterns
from gpm.explain.bag import Bag, Group
from gpm.explain.expected_content import name_expected
from gpm.explain.explainer import class_names
from gpm.explain.explanation import ALL, Method, Overview, ShapeShare, spell_name
from gpm.explain.node_types import Kinds, find_kinds, name_pattern
from gpm.graph.coerce import check_choice
from gpm.inference.opened import OpenedRun
from gpm.nn.predictor import evaluating
from gpm.tasks import ClassTask, ValueTask

MOST = 500  # instances to explain
RESAMPLES = 1000
# Of each class, the instances: shares of the evidence and of the walks by shape.
Ledger = list[tuple[NDArray, NDArray]]
FEWEST = 3  # instances that a shape must occur in: with fewer, an interval says nothing


@dataclass(eq=False)
class _Vocabulary:
    """The columns of shapes by name, with one pattern to show for each."""

    kinds: Kinds | None
    level: str
    columns: dict[tuple[str, str], int] = field(default_factory=dict)
    examples: list[Group] = field(default_factory=list)

    def find(self, group: Group) -> int:
        """Return the column of a pattern."""
        name = name_expected(group.expected, self.level), ""
        if not group.expected:
            name = name_pattern(group.adjacency(), group.nodes, self.kinds)
        if name not in self.columns:
            self.columns[name] = len(self.columns)
            self.examples.append(group)
        return self.columns[name]


@alone()
def survey(
    run: OpenedRun, *, part: str = "test", most: int = MOST, top: int = 10, method: Method = "auto",
    progress: bool = False,
) -> Overview:  # fmt: skip
    """Find the shapes that the predictions of a split rest on.

    For each instance, the scores of the patterns that speak for its prediction are scaled to sum to 1, and summed by
    shape. Their mean over the instances of a class is compared with the share of the patterns that have the shape; the
    ratio of the two is the lift. An expected pattern is a shape of its own, and one pattern of an instance. Intervals
    are from 1,000 resamples of the instances; shapes that occur in fewer than three instances are left out. At most
    `most` instances, spread evenly over the split, are explained, and the `top` heaviest shapes of a class are kept.
    """
    if min(whole_number(most, "most"), whole_number(top, "top")) < 1:
        raise GpmError(f"most and top must be at least 1, got {most} and {top}.")
    check_choice("part", part, PARTS)
    vocabulary = _Vocabulary(find_kinds(run.data, run.config.data), run.data.level)
    ledgers: dict[str, Ledger] = defaultdict(list)
    chosen = ""
    for ranking in _rank_all(run, part, most, method, progress):
        chosen = ranking.method
        columns = [vocabulary.find(group) for group in ranking.groups]
        walks = np.bincount(columns, [len(group.walks) / len(ranking.bag) for group in ranking.groups])
        for name, weights in _sort(run, ranking):
            total = weights.sum()
            shares = weights / total if total > 0 else 0 * weights
            ledgers[name].append((np.bincount(columns, shares), walks))
    order = [name for name in _headings(run) if name in ledgers]
    shares = [row for name in order for row in _weigh(run, name, ledgers[name], vocabulary, top)]
    counts = {name: len(ledgers[name]) for name in order}
    atoms = vocabulary.kinds is not None and vocabulary.kinds.atoms
    return Overview(run.data.title, run.data.level, chosen, part, counts, tuple(shares), atoms, run.config.seed)


def _rank_all(run: OpenedRun, part: str, most: int, method: Method, progress: bool) -> Iterator[Ranking]:
    predictor = run.pattern_predictor
    ids = getattr(run.split, part)
    if len(ids) > most:
        ids = ids[np.linspace(0, len(ids) - 1, most).astype(np.int64)]
    inputs = run.inputs(ids)
    with evaluating(predictor.model):
        maps = predictor.map_nodes(predictor.model, len(inputs) * predictor.tokenizer.pool)
    for i in tqdm(range(len(inputs)), unit=run.data.level, disable=None if progress else True, leave=False):
        bag = Bag.draw(predictor, run.task, inputs[i : i + 1], maps=maps)
        yield from (rank_patterns(bag, method, target) for target in _find_targets(run, bag))


def _find_targets(run: OpenedRun, bag: Bag) -> list[int | None]:
    """Return the outputs to explain: the predicted class, each predicted label, or each value."""
    if isinstance(run.task, ClassTask) and run.task.multilabel:
        with torch.no_grad():
            probability = bag.answers(bag.logits())[0]
        return [i for i, chance in enumerate(probability.tolist()) if chance >= 0.5]
    return list(range(bag.classes)) if isinstance(run.task, ValueTask) else [None]


def _headings(run: OpenedRun) -> tuple[str, ...]:
    """Return the headings of the overview: classes, or the direction in which a value is pushed."""
    names = class_names(run)
    if not isinstance(run.task, ValueTask):
        return (ALL, *names)
    return tuple(f"{way} {n}" if len(names) > 1 else way for n in names for way in ("raises", "lowers"))


def _sort(run: OpenedRun, ranking: Ranking) -> list[tuple[str, NDArray]]:
    """Return the headings of an instance, and the weights of its patterns under each."""
    names, scores = _headings(run), ranking.scores
    if not isinstance(run.task, ValueTask):
        return [(name, scores.clip(0)) for name in (ALL, names[1 + ranking.target])]
    speaks = np.sign(ranking.evidence[:, ranking.target])
    strength = np.abs(scores)  # attention has no direction, its evidence does
    up, down = names[2 * ranking.target : 2 * ranking.target + 2]
    return [(up, strength * (speaks > 0)), (down, strength * (speaks < 0))]


def _weigh(run: OpenedRun, name: str, ledger: Ledger, vocabulary: _Vocabulary, top: int) -> Iterator[ShapeShare]:
    """Yield the heaviest shapes of one class, with intervals."""
    width, pairs = len(vocabulary.examples), zip(*ledger, strict=True)
    carried, chance = (np.stack([np.pad(row, (0, width - len(row))) for row in rows]) for rows in pairs)
    random = np.random.default_rng(0)
    counts = random.multinomial(len(carried), np.full(len(carried), 1 / len(carried)), RESAMPLES)  # (R, I)
    often_met = (chance > 0).sum(0) >= FEWEST
    order = np.argsort(-carried.mean(0), kind="stable")
    order = order[often_met[order]][:top]
    drawn, often = counts @ carried[:, order] / len(carried), counts @ chance[:, order] / len(carried)
    lifts = np.divide(drawn, often, out=np.full_like(drawn, np.nan), where=often > 0)
    labels = list(vocabulary.columns)
    for at, column in enumerate(order):
        if carried[:, column].mean() <= 0:
            return
        group = vocabulary.examples[column]
        index = {node: i for i, node in enumerate(group.nodes)}
        low, high = np.quantile(drawn[:, at], (0.025, 0.975)).tolist()
        lift_low, lift_high = np.nanquantile(lifts[:, at], (0.025, 0.975)).tolist()
        share, usual = float(carried[:, column].mean()), float(chance[:, column].mean())
        yield ShapeShare(
            predicted=name, shape=labels[column][0], content=labels[column][1], carried=share, low=low, high=high,
            chance=usual, lift=share / usual, lift_low=lift_low, lift_high=lift_high, nodes=len(index),
            edges=tuple((index[a], index[b]) for a, b in group.edges),
            kinds=() if vocabulary.kinds is None else tuple(vocabulary.kinds.of_node(group.nodes)),
            example=tuple(spell_name(run.data.graph.name(node)) for node in group.nodes),
        )  # fmt: skip
