"""The demonstration: a task whose answer is known, from training to the patterns behind one prediction."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from gpm.draw import save_frequent
from gpm.errors import GpmError
from gpm.frequent import FrequentPattern
from gpm.predictor import Predictor
from gpm.run import Run
from gpm.shapes import name_shape, shape_of
from gpm.topology import find_topologies


def weigh_patterns(run: Run, node: object, top: int = 10) -> list[FrequentPattern]:
    """The shapes that a prediction rests on: the weights of a node's patterns, added up by shape.

    Args:
        run: A run with a class token (readout: class) or fusion, whose attention weighs the patterns.
        node: The node, by the user's name.
        top: How many shapes, the heaviest first.
    """
    graph, predictor = run.data.graph, run.predictor
    if not isinstance(predictor, Predictor):
        raise GpmError(f"a {run.config.model} has no patterns to weigh; train a gpm.")
    patterns = predictor.tokenizer.nodes([graph.find(node)])
    output = next(predictor.outputs(np.array([graph.find(node)])))
    if output.weights is None:
        raise GpmError("a mean readout weighs all patterns alike; train with --readout class.")
    weights, walks = output.weights[0].float().cpu().numpy(), patterns.nodes[0].cpu().numpy()
    places, table = find_topologies(graph, walks, "shape")
    heavy = np.bincount(places, weights=weights, minlength=len(table))
    found = []
    for place in np.argsort(-heavy, kind="stable")[:top]:
        mine = np.flatnonzero(places == place)
        example = walks[mine[np.argmax(weights[mine])]]
        adjacency = shape_of(table, place)
        found.append(
            FrequentPattern(
                name_shape(adjacency), int(table.keys[place]), len(mine), float(heavy[place]), adjacency,
                tuple(graph.name(v) for v in example if v >= 0), None,
            )
        )  # fmt: skip
    return found


def demo(out: Path = Path("demo"), quiet: bool = False) -> None:
    """Train on planted motifs, score beside two baselines, and show the patterns behind one prediction.

    Args:
        out: The folder to write to.
        quiet: No progress bar.
    """
    from gpm.data.synthetic import CLASSES
    from gpm.training import train

    run = train("motifs", out=out / "motifs", baselines=True, overwrite=True, quiet=quiet)
    assert isinstance(run, Run)
    said = run.predict_ids(run.split.test)
    right = [
        i for i, (node, label) in enumerate(zip(run.split.test, said.labels, strict=True))
        if label == int(run.task.targets[node]) and CLASSES[label] == "house roof"
    ]  # fmt: skip
    chosen = max(right, key=lambda i: float(said.probability[i].max()), default=0)  # the surest of them
    node, label = said.names[chosen], int(said.labels[chosen])
    found = weigh_patterns(run, node, top=8)
    chance = said.probability[chosen].max()
    title = f"Why node {node} is a {CLASSES[label]} ({chance:.0%} sure)"
    print(f"\n{title}: the shapes that the model looked at, with their share of its attention")
    for pattern in found:
        print(f"  {pattern.share:>6.1%}  {pattern.name:<24} {pattern.count:>3} patterns, e.g. {pattern.path}")
    page = out / "node.html"
    save_frequent(found, page, title=f"{title}: shapes by their share of the attention")
    print(f"drawn in {page}; the run is in {run.folder}: gpm predict {run.folder} -o nodes.csv")
