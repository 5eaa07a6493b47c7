"""The model card: what a model is, what it was trained on and how far to trust it, in the run folder's README."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpm.data.domain_data import DomainData
from gpm.io.atomic import write_text
from gpm.tasks.metrics import METRICS

if TYPE_CHECKING:
    from gpm.config import Config
    from gpm.run.run import Run


_PREDICT = {
    "node": "gpm predict . -o nodes.csv   # of every node, {said}",
    "link": "gpm predict . --recommend 10 --node NAME   # likely new neighbours",
    "graph": "gpm predict . -o graphs.csv  # of every graph, {said}",
}
_SEEN = {
    "node": "The model has seen the features and edges of all nodes, but only the labels of the training part.",
    "link": "The model has seen the features of all nodes, but no edge of the validation and test parts.",
    "graph": "The model has seen no graph of the test part; those of the validation part chose the epoch.",
}
MOST_NAMES = 20
_LEAKY = "Protocol paper: test edges were walked, so that the figure is no measure of quality."


def _describe_target(run: Run) -> str:
    """What of a target a model has seen."""
    assert isinstance(run.data, DomainData)
    whose = f"The model has learned from labels of {_plain(run.data.home_title)} alone"
    if run.config.adapt != "none":
        return f"{whose}; of {_plain(run.data.away_title)} it has seen features and edges, without labels."
    if not run.data.home_graphs:
        return f"{whose}; it has seen features and edges of the whole graph."
    return f"{whose}; of {_plain(run.data.away_title)} it has seen nothing."


def _describe_patterns(config: Config) -> str:
    return f"- Patterns: walks of lengths {config.lengths}, {config.patterns} in training, {config.pool} at inference."


def _name_outputs(facts: dict[str, Any]) -> list[str]:
    """The names of classes or of several targets, if they have some; of many the first."""
    several = facts.get("multilabel") or facts.get("kind") == "values"
    names = [_plain(name) for name in facts.get("target_names" if several else "class_names") or []]
    if len(names) < 2:
        return []
    more = f" and {len(names) - MOST_NAMES:,} more" if len(names) > MOST_NAMES else ""
    shown = ", ".join(f"`{name}`" for name in names[:MOST_NAMES])
    return ["", f"It {'predicts' if several else 'tells apart'} {shown}{more}."]


def _describe_said(facts: dict[str, Any]) -> str:
    """What a prediction is, by the name of the target if there is one."""
    names = facts.get("target_names") or []
    what = _plain(names[0]) if len(names) == 1 else ""
    if facts.get("kind") == "values":
        return f"{what or 'the number'}, with an interval"
    return f"{what or 'the class'}, with probabilities"


def _plain(name: object) -> str:
    """A name on one line that ends no code."""
    return " ".join(str(name).replace("`", "'").split())


def write_card(run: Run, result: dict[str, Any], paper: str = "", note: str = "") -> None:
    """Write `README.md` of a run with its final figures, the paper's behind them, and a note on the recipe."""
    config, facts = run.config, run.facts
    level, graph = result["task"], run.data.graph
    several = f"{graph.num_graphs:,} graphs, " if level == "graph" else ""
    name = "Neural Graph Pattern Machine" if config.model == "gpm" else f"baseline ({config.model})"
    epochs = f"Epoch {result['best_epoch']} of {result['epochs']}"
    lines = [
        f"# {config.model.upper()} on {result['data']}",
        "",
        f"A {name} with {facts['parameters']:,} parameters, trained on the {level}s of {result['data']}"
        f" ({several}{graph.num_nodes:,} nodes, {graph.num_edges:,} directed edges): {run.task.describe()}.",
        *_name_outputs(facts),
        "",
        "| | validation | test |",
        "|---|---|---|",
        *(
            f"| {METRICS[key].title} | {METRICS[key].show(result['val'][key])} | {METRICS[key].show(value)}"
            f"{paper if key == result['metric'] else ''} |"
            for key, value in result["test"].items()
        ),
        "",
        f"- Protocol: {result['protocol']}; seed {config.seed}; split digest `{result['split_digest']}`.",
        f"- {epochs}, {result['train_seconds']:.0f} s of training, {result['date']}.",
        *([_describe_patterns(config)] if config.model == "gpm" else []),
        "- Every option is in `config.yaml`, versions and devices are in `environment.json`, epochs in `metrics.csv`.",
        *([f"- {note}"] if note else []),
        "",
        "```sh",
        "gpm evaluate .               # score the test part again",
        _PREDICT[level].format(said=_describe_said(facts)),
        "```",
        "",
        "The figure is of one split and one seed: expect another seed to differ.",
        _describe_target(run)
        if isinstance(run.data, DomainData)
        else _SEEN[level]
        if config.protocol == "strict" or level != "link"
        else _LEAKY,
        "",
    ]
    write_text(run.folder / "README.md", "\n".join(lines))
