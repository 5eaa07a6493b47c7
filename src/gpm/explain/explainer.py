"""Explain a prediction of a run: from an instance to an `Explanation`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gpm.compute import alone
from gpm.data.column_names import name_columns
from gpm.data.link_data import LinkData
from gpm.errors import GpmError, nearest, whole_number
from gpm.explain.attribution import Ranking, rank_patterns
from gpm.explain.bag import EXPECTED, Bag
from gpm.explain.expected_content import Content, find_contents, name_expected, steps_of
from gpm.explain.explanation import Explanation, Method, ScoredPattern, View, spell_name
from gpm.explain.faithfulness import DELETED, INSERTED, TENTH, agree, overlap, score_again, trace, trace_edges
from gpm.explain.neighbourhood import build_view
from gpm.explain.node_types import Kinds, find_kinds, name_pattern
from gpm.explain.strength import Trust
from gpm.inference.opened import OpenedRun
from gpm.patterns.walks import has_edge
from gpm.tasks import ClassTask, LinkTask, ValueTask

ROOM = 60  # nodes to draw, unless the patterns need more
DRAWS = 5  # independent draws of all patterns
MOST_PATTERNS = 128
OTHER_CLASSES, OTHER_PATTERNS = 4, 5  # classes that a page can switch to, and patterns for each of them


@alone()
def explain(
    run: OpenedRun, name: Any, *, top: int = 10, method: Method = "auto", target: str | int | None = None,
    draws: int = DRAWS, room: int = ROOM,
) -> Explanation:  # fmt: skip
    """Find the patterns that a prediction rests on.

    Args:
        run: A trained run.
        name: A node's name, a pair of names, or a graph's id.
        top: Number of patterns to show.
        method: banzhaf, attention, left-out or gradient, as `gpm.explain.attribution` describes them; auto is banzhaf.
        target: The class to explain; by default the predicted one.
        draws: Number of times all patterns are drawn again, to measure the spread of scores and how far they agree.
        room: Nodes to draw. Neighbours are added to those of the patterns up to this number.
    """
    if not 1 <= whole_number(top, "top") <= MOST_PATTERNS:
        raise GpmError(f"top must lie between 1 and {MOST_PATTERNS}, got {top}.")
    if whole_number(draws, "draws") < 2:
        raise GpmError(f"draws must be at least 2, since one draw has no spread, got {draws}.")
    predictor = run.pattern_predictor
    instance = find_instance(run, name)
    bag = Bag.draw(predictor, run.task, instance)
    ranking = rank_patterns(bag, method, find_target(run, target, bag))
    seeds = [predictor.tokenizer.seed + 1 + i for i in range(draws)]
    others = [Bag.draw(predictor, run.task, instance, seed=seed) for seed in seeds]
    return _assemble(run, instance, ranking, others, top, room)


def find_instance(run: OpenedRun, name: Any) -> NDArray[np.int64]:
    """Find an instance by name: a node or graph `[1]`, or a pair `[1, 2]`."""
    instance, pointer = run.find([name]), run.data.graph.graph_ptr
    if run.data.level == "graph" and pointer is not None and pointer[instance[0]] == pointer[instance[0] + 1]:
        raise GpmError(f"Graph {instance[0]} has no nodes, so there is nothing to explain.")
    return instance


def class_names(run: OpenedRun) -> tuple[str, ...]:
    """Return the names of the model's outputs."""
    task = run.task
    if isinstance(task, LinkTask):
        return ("no link", "link")
    if isinstance(task, ValueTask):
        if len(task.target_names) == task.outputs:
            return tuple(task.target_names)
        return ("value",) if task.outputs == 1 else tuple(f"value {i}" for i in range(task.outputs))
    assert isinstance(task, ClassTask)
    if not (names := getattr(run.data, "class_names", ())):
        return tuple(map(str, task.names))
    return tuple(names[c] if c < len(names) else str(c) for c in task.classes)


def find_target(run: OpenedRun, wanted: str | int | None, bag: Bag) -> int | None:
    """Find the index of an output by the name of its class, or its number in the data; None for the predicted one."""
    names = class_names(run)
    if wanted is None or wanted == "":
        if bag.classes > 1 and isinstance(run.task, ValueTask):
            raise GpmError(f"{run.folder} predicts several values; name one with --target, as in {names[0]!r}.")
        return None
    if str(wanted) in names:
        return names.index(str(wanted))
    if isinstance(run.task, ClassTask) and str(wanted) in map(str, run.task.classes):
        return [str(c) for c in run.task.classes].index(str(wanted))
    raise GpmError(f"There is no class {str(wanted)!r}.{nearest(str(wanted), names)} Classes: {', '.join(names)}.")


def _assemble(
    run: OpenedRun, instance: NDArray, ranking: Ranking, others: list[Bag], top: int, room: int
) -> Explanation:
    bag, data, level = ranking.bag, run.data, run.data.level
    kinds = find_kinds(data, run.config.data if not run.other else "")
    with torch.no_grad():
        logits = bag.logits()
        answers, predicted = bag.answers(logits)[0], bag.decide(logits)
    best = list(range(min(top, len(ranking.groups))))
    shown = best + _find_others(run, ranking, answers, len(best))
    walks = [bag.walks[ranking.groups[i].walks[0]] for i in shown]
    starts, name = list(map(int, instance.reshape(-1))), tuple(map(str, instance.tolist()))
    if level == "graph":  # drawn from its first node
        starts = [0 if data.graph.graph_ptr is None else int(data.graph.graph_ptr[instance[0]])]
    else:
        name = tuple(spell_name(data.graph.name(node)) for node in starts)
    view, places = build_view(
        bag.predictor.tokenizer.graph, starts, [walk[walk >= 0].tolist() for walk in walks],
        [float(ranking.scores[i]) if i in best else 0.0 for i in shown],
        edges=[ranking.groups[i].edges for i in shown], level=level, room=room, kinds=kinds, labels=_labels(run),
        columns=None if data.graph.x is None else name_columns(run.config.data, run.folder, data.graph.x.shape[1]),
    )  # fmt: skip
    fitting = [i for i in shown if all(node in places for node in ranking.groups[i].nodes)]
    contents = find_contents(run, bag, instance, ranking.target, class_names(run))
    areas = find_areas(bag, starts if level != "graph" else [], places)
    patterns = _describe(run, ranking, fitting, others, view, places, kinds)
    patterns = [
        _fill_expected(p, contents[p.expected], areas[p.expected], level) if p.expected else p for p in patterns
    ]
    count = sum(i in best for i in fitting)
    kind = "link" if isinstance(run.task, LinkTask) else "value"
    if isinstance(run.task, ClassTask):
        kind = "labels" if run.task.multilabel else "classes"
    return Explanation(
        data=data.title, level=level, instance=name, kind=kind, classes=class_names(run), target=ranking.target,
        answers=tuple(answers.tolist()), predicted=predicted, truth=_truth(run, instance),
        method=ranking.method, walks=int((bag.scales != EXPECTED).sum()), found=len(ranking.groups),
        patterns=tuple(patterns[:count]),
        others=tuple(patterns[count:]), view=view, trust=measure_trust(ranking, instance, others, top),
        seed=bag.predictor.tokenizer.seed,
    )  # fmt: skip


def _find_others(run: OpenedRun, ranking: Ranking, answers: Tensor, top: int) -> list[int]:
    """Find the patterns that speak most for other likely classes, without the first `top`."""
    if isinstance(run.task, ValueTask):
        return []
    likely = [c for c in answers.argsort(descending=True).tolist() if c != ranking.target][:OTHER_CLASSES]
    best = [np.argsort(-ranking.evidence[:, c], kind="stable")[: min(top, OTHER_PATTERNS)] for c in likely]
    return [i for i in np.unique(np.array(best, dtype=np.int64)).tolist() if i >= top]


def measure_trust(ranking: Ranking, instance: NDArray, others: list[Bag], top: int) -> Trust:
    """Measure how far a ranking of patterns can be trusted."""
    seed = ranking.bag.predictor.tokenizer.seed
    deletion = trace(ranking, DELETED, seed=seed)
    tenth = DELETED.index(TENTH)
    again = [rank_patterns(other, ranking.method, ranking.target).by_pattern(top) for other in others]
    scores = [ranking.by_pattern(top), *again]
    return Trust(
        deletion=deletion, insertion=trace(ranking, INSERTED, insert=True, seed=seed),
        edges=trace_edges(ranking, instance, seed=seed), drop=deletion.top[0] - deletion.top[tenth],
        random_drop=deletion.random[0] - deletion.random[tenth], stability=agree(scores), overlap=overlap(scores),
        draws=len(others),
    )  # fmt: skip


def _describe(
    run: OpenedRun, ranking: Ranking, shown: list[int], others: list[Bag], view: View, places: dict[int, int],
    kinds: Kinds | None,
) -> list[ScoredPattern]:  # fmt: skip
    bag, target = ranking.bag, ranking.target
    groups = [ranking.groups[i] for i in shown]
    again = score_again(ranking, groups, others)
    spread, mean = again.std(0, ddof=1), again.mean(0)
    with torch.no_grad():
        without = bag.answers(bag.leave_out([group.walks for group in groups]))[:, target]
    patterns = []
    for row, (i, group) in enumerate(zip(shown, groups, strict=True)):
        walk = [node for node in bag.walks[group.walks[0]].tolist() if node >= 0]
        shape, content = ("", "") if group.expected else name_pattern(group.adjacency(), group.nodes, kinds)
        evidence = ranking.evidence[i]
        argues = int(evidence[target] > 0) if isinstance(run.task, ValueTask) else int(evidence.argmax())
        pattern = ScoredPattern(
            walk=tuple(places[node] for node in walk), names=tuple(view.nodes[places[node]].name for node in walk),
            edges=tuple((places[a], places[b]) for a, b in group.edges), shape=shape, content=content,
            scale=max(len(walk) - 1, 0), count=0 if group.expected else len(group.walks),
            score=float(ranking.scores[i]), spread=float(spread[row]),
            again=float(mean[row]), without=float(without[row]), argues=argues, evidence=tuple(evidence.tolist()),
            expected=group.expected,
        )  # fmt: skip
        patterns.append(pattern)
    return patterns


def _fill_expected(pattern: ScoredPattern, content: Content, area: tuple[int, ...], level: str) -> ScoredPattern:
    return replace(
        pattern, shape=name_expected(pattern.expected, level), content=content.text, columns=content.columns, area=area,
        scale=max(steps_of(pattern.expected), 0),
    )  # fmt: skip


def find_areas(bag: Bag, starts: list[int], places: dict[int, int]) -> dict[str, tuple[int, ...]]:
    """Return the drawn nodes that each expected pattern reads, the explained ones first.

    These are all nodes that walks of its steps pass through; without starts, as in a graph task, all that are drawn.
    """
    graph, areas = bag.predictor.tokenizer.graph, {}
    rings = [list(dict.fromkeys(starts))]
    for _ in range(max(map(steps_of, bag.expected), default=0)):
        near = dict.fromkeys(int(v) for node in rings[-1] for v in graph.neighbors(node) if int(v) in places)
        rings.append([*rings[-1], *(node for node in near if node not in set(rings[-1]))])
    for name in bag.expected:
        reached = rings[max(steps_of(name), 0)] if starts else list(places)
        areas[name] = tuple(places[node] for node in reached)
    return areas


def _truth(run: OpenedRun, instance: NDArray) -> str:
    """Return the true class, labels or values as text; empty if unknown."""
    task, names = run.task, class_names(run)
    if isinstance(run.data, LinkData):
        pair = instance[0]
        return "link" if has_edge(run.data.graph, pair, pair[::-1]).any() else "no link"
    if not len(task.targets):
        return ""
    truth = task.targets[int(instance[0])]
    if isinstance(task, ClassTask) and not task.multilabel:
        return names[int(truth)] if int(truth) >= 0 else ""
    if isinstance(task, ClassTask):
        return ", ".join(name for name, yes in zip(names, truth.tolist(), strict=True) if yes == 1)
    return ", ".join(f"{value:.4g}" for value in truth.reshape(-1).tolist() if value == value)


def _labels(run: OpenedRun) -> Callable[[int], str] | None:
    """Return a function that names the known class of a node, for the drawing."""
    task = run.task
    if run.data.level != "node" or not isinstance(task, ClassTask) or task.multilabel or not len(task.targets):
        return None
    names = class_names(run)
    return lambda node: names[int(task.targets[node])] if int(task.targets[node]) >= 0 else ""
