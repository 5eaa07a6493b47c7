"""The model card: what a model is, what it was trained on and how far to trust it, in the run folder's README."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpm.files import write_text

if TYPE_CHECKING:
    from gpm.recipes import Recipe
    from gpm.run import Run


def write_card(run: Run, result: dict[str, Any], recipe: Recipe) -> None:
    """Write `README.md` of a run with its final figures."""
    config, facts = run.config, run.facts
    metric = result["metric"]
    paper = "" if recipe.paper_mean is None else f" (the paper: {recipe.paper_mean:.2f} ± {recipe.paper_std:.2f})"
    classes, graph = len(facts["classes"]), run.data.graph
    epochs = f"Epoch {result['best_epoch']} of {result['epochs']}"
    lines = [
        f"# GPM on {result['data']}",
        "",
        f"A Neural Graph Pattern Machine with {facts['parameters']:,} parameters, trained on {result['data']}"
        f" ({graph.num_nodes:,} nodes, {graph.num_edges:,} directed edges) to predict {classes} classes of nodes.",
        "",
        "| | validation | test |",
        "|---|---|---|",
        f"| {metric} | {result['val'][metric]:.2%} | {result['test'][metric]:.2%}{paper} |",
        "",
        f"- Protocol: {result['protocol']}; seed {config.seed}; split digest `{result['split_digest']}`.",
        f"- {epochs}, {result['train_seconds']:.0f} s of training, {result['date']}.",
        f"- Patterns: walks of lengths {config.lengths}, {config.patterns} in training and {config.pool} at inference.",
        "- Every option is in `config.yaml`, versions and devices are in `environment.json`, epochs in `metrics.csv`.",
        *([f"- {recipe.note}"] if recipe.note else []),
        "",
        "```sh",
        "gpm evaluate .               # score the test part again",
        "gpm predict . -o nodes.csv   # the class of every node, with probabilities",
        "```",
        "",
        "The figure is of one split and one seed: expect another seed to differ. The model has seen the features and",
        "edges of all nodes, but only the labels of the training part.",
        "",
    ]
    write_text(run.folder / "README.md", "\n".join(lines))
