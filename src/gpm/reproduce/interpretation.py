"""Figures 6 and 8: the patterns that single predictions rest on, by attention as in the paper and by our default."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpm.explain.figure import save_figure
from gpm.run.run import Run
from gpm.tasks.metrics import METRICS
from gpm.training.command import spell_flags
from gpm.training.start import train

# The walks, encoders and class token of the paper at width 64, with our training.
PARTS: dict[str, Any] = {
    "preset": "paper", "size": "xs", "layer": "residual", "ffn": 2.0, "path_ffn": 2.0, "scale_inputs": True,
    "flip_signs": True, "readout": "class", "schedule": "cosine", "lr": 0.005, "patience": 0,
}  # fmt: skip
ON_ZINC = PARTS | {"dropout": 0.0, "decay": 0.01, "batch": 64, "epochs": 20}
ON_COMPUTERS = PARTS | {"dropout": 0.5, "feature_dropout": 0.5, "decay": 0.1, "epochs": 40}
MOLECULE = 23  # the 24th molecule of ZINC
NODES = (1003, 1056, 5885)  # of Computers
METHODS = {"attention": "attention", "banzhaf": "evidence"}


def explain_molecule(folder: Path, figures: Path) -> dict[str, Any]:
    """Train on ZINC and explain the molecule of figure 6 by its best 9 patterns."""
    run = _train("zinc", folder, ON_ZINC)
    return _explain(run, {"molecule": MOLECULE}, 9, figures, "figure-6", ON_ZINC)


def explain_nodes(folder: Path, figures: Path) -> dict[str, Any]:
    """Train on Computers and explain the nodes of figure 8 by their best 10 patterns each."""
    run = _train("computers", folder, ON_COMPUTERS)
    return _explain(run, {f"node-{node}": node for node in NODES}, 10, figures, "figure-8", ON_COMPUTERS)


def _train(recipe: str, folder: Path, options: Mapping[str, Any]) -> Run:
    run = train(recipe, out=folder, seed=0, quiet=True, **options)
    assert isinstance(run, Run)
    return run


def _explain(
    run: Run, instances: Mapping[str, int], top: int, figures: Path, name: str, options: Mapping[str, Any]
) -> dict[str, Any]:
    """Explain instances by each method, draw them, and return what is listed."""
    found = {}
    for title, instance in instances.items():
        for method in METHODS:
            explanation = run.explain(instance, method=method, top=top)
            save_figure(explanation, figures / f"{name}-{title}-{method}.svg", top=top)
            found[f"{title}, {method}"] = [
                {"label": best.label, "nodes": list(best.names), "score": best.score, "spread": best.spread}
                for best in explanation.patterns[:top]
            ]
    result = run.result
    return {
        "options": dict(options), "test": result["test"][result["metric"]], "metric": result["metric"], "top": top,
        "split_digest": result["split_digest"], "train_seconds": result["train_seconds"], "patterns": found,
    }  # fmt: skip


def describe(found: Mapping[str, Mapping[str, Any]], name: str, recipe: str) -> list[str]:
    """Return the lines of the page: the figures, and the shapes of the patterns that they show."""
    lines = [
        "A model with the paper's walks, encoders and class token, at width 64. *By attention*: the share of the",
        "class token's attention, as in the paper. *By evidence*: how far a pattern moves the prediction (its Banzhaf",
        "value), our default. Attention says where the model looks, evidence what changes its answer.",
        "",
    ]
    for record in found.values():
        kind = METRICS[record["metric"]]
        flags = spell_flags(record["options"])
        lines += [f"`gpm train {recipe} {flags} --seed 0`: test {kind.title} {kind.show(record['test'])}.", ""]
        for title, patterns in record["patterns"].items():
            instance, method = title.split(", ")
            shapes = Counter(pattern["label"] for pattern in patterns)
            listed = ", ".join(f"{label} ({count})" if count > 1 else label for label, count in shapes.most_common())
            lines += [
                f"## {instance.replace('-', ' ').capitalize()}, by {METHODS[method]}",
                "",
                f"![The {record['top']} best patterns]({name}-{instance}-{method}.svg)",
                "",
                f"{listed}.",
                "",
            ]
    return lines
