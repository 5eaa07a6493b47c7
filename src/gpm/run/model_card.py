"""The model card, `README.md` of a run folder: what the model is, what it was trained on and how well it scores."""

from __future__ import annotations

from typing import Any

from gpm.data.domain_data import DomainData
from gpm.inference.opened import OpenedRun
from gpm.io.atomic import write_text
from gpm.io.run_files import CARD
from gpm.tasks import ClassTask, Task
from gpm.tasks.metrics import METRICS

_PREDICT = {
    "node": "gpm predict . -o nodes.csv   # of every node, {prediction}",
    "link": "gpm predict . --recommend 10 --node NAME   # likely new neighbours",
    "graph": "gpm predict . -o graphs.csv  # of every graph, {prediction}",
}
_SEEN = {
    "node": "The model has seen the features and edges of all nodes, but only the labels of the training split.",
    "link": "The model has seen the features of all nodes, but no edge of the validation and test splits.",
    "graph": "The model has seen no graph of the test split; those of the validation split chose the epoch.",
}
MOST_NAMES = 20
_LEAKY = "Protocol paper: the walks see test edges, so do not compare this score with those of the strict protocol."


def write_card(run: OpenedRun, result: dict[str, Any], paper: str = "", note: str = "") -> None:
    """Write the model card of a run with its `result.json`, the score of the paper and a note on the recipe."""
    config, metadata, level, graph = run.config, run.metadata, result["task"], run.data.graph
    graphs = f"{graph.num_graphs:,} graphs, " if level == "graph" else ""
    name = "Neural Graph Pattern Machine" if config.model == "gpm" else f"baseline ({config.model})"
    walks = f"- Patterns: walks of lengths {config.lengths}, {config.patterns} in training, {config.pool} at inference."
    lines = [
        f"# {config.model.upper()} on {result['data']}",
        "",
        f"A {name} with {metadata['parameters']:,} parameters, trained on the {level}s of {result['data']}"
        f" ({graphs}{graph.num_nodes:,} nodes, {graph.num_edges:,} directed edges): {run.task.describe()}.",
        *_name_outputs(metadata),
        "",
        "| | validation | test |",
        "|---|---|---|",
        *(
            f"| {METRICS[key].title} | {METRICS[key].show(result['val'][key])} | {METRICS[key].show(value)}"
            f"{paper if key == result['metric'] else ''} |"
            for key, value in result["test"].items()
        ),
        "",
        *_compare(result),
        *_list_classes(result.get("details") or {}),
        f"- Protocol: {result['protocol']}; seed {config.seed}; split digest `{result['split_digest']}`.",
        f"- Epoch {result['best_epoch']} of {result['epochs']}, {result['train_seconds']:.0f} s of training, "
        f"{result['date']}.",
        *([walks] if config.model == "gpm" else []),
        *_describe_threshold(run.task),
        *_describe_linear(result),
        "- `report.html` shows all this with charts; `gpm report .` writes it again, with figures and explanations.",
        "- Every option is in `config.yaml`, versions and devices are in `environment.json`, epochs in `metrics.csv`.",
        *([f"- {note}"] if note else []),
        "",
        "```sh",
        "gpm evaluate .               # score the test split again",
        _PREDICT[level].format(prediction=_describe_prediction(metadata)),
        "```",
        "",
        "The scores are of one split and one seed: expect another seed to differ.",
        _describe_seen(run, level),
        "",
    ]
    write_text(run.folder / CARD, "\n".join(lines))


def _compare(result: dict[str, Any]) -> list[str]:
    """Return a table of the model beside the baselines of its result."""
    kind, scores = METRICS[result["metric"]], result.get("baselines") or {}
    if not scores:
        return []
    rows = {"this model": {part: result[part][result["metric"]] for part in ("val", "test")}} | scores
    return [
        f"| {kind.title}, compared | validation | test |",
        "|---|---|---|",
        *(f"| {name} | {kind.show(row['val'])} | {kind.show(row['test'])} |" for name, row in rows.items()),
        "",
    ]


def _list_classes(details: dict[str, Any]) -> list[str]:
    """Return a table of the classes or labels on the test split; at most the first 20."""
    scores = details.get("classes") or details.get("labels") or []
    if not scores:
        return []
    rows = [
        f"| `{_plain(each['name'])}` | {each['count']:,} | "
        + " | ".join(f"{each[name]:.1%}" for name in ("precision", "recall", "f1"))
        + " |"
        for each in scores[:MOST_NAMES]
    ]
    more = [f"{len(scores) - MOST_NAMES:,} more are in `result.json`.", ""] if len(scores) > MOST_NAMES else []
    return ["| class | in test | precision | recall | F1 |", "|---|---|---|---|---|", *rows, "", *more]


def _describe_seen(run: OpenedRun, level: str) -> str:
    data, config = run.data, run.config
    if not isinstance(data, DomainData):
        return _SEEN[level] if config.protocol == "strict" or level != "link" else _LEAKY
    home, away = _plain(data.home_title), _plain(data.away_title)
    learned = f"The model has learned from labels of {home} alone"
    if config.adapt != "none":
        return f"{learned}; of {away} it has seen features and edges, without labels."
    if not data.home_graphs:
        return f"{learned}; it has seen features and edges of the whole graph."
    return f"{learned}; of {away} it has seen nothing."


def _name_outputs(metadata: dict[str, Any]) -> list[str]:
    """Name the classes or the targets, if there are several; at most the first 20."""
    several = metadata.get("multilabel") or metadata.get("kind") == "values"
    names = [_plain(name) for name in metadata.get("target_names" if several else "class_names") or []]
    if len(names) < 2:
        return []
    more = f" and {len(names) - MOST_NAMES:,} more" if len(names) > MOST_NAMES else ""
    shown = ", ".join(f"`{name}`" for name in names[:MOST_NAMES])
    return ["", f"It {'predicts' if several else 'tells apart'} {shown}{more}."]


def _describe_threshold(task: Task) -> list[str]:
    if not isinstance(task, ClassTask) or task.threshold is None:
        return []
    name = _plain(task.names[task.positive])
    return [f"- Threshold: `{name}` is predicted from a probability of {task.threshold:.3g} on, chosen on validation."]


def _describe_linear(result: dict[str, Any]) -> list[str]:
    share = result.get("linear_share")
    return [] if share is None else [f"- The linear part is {share:.0%} of the logits, chosen on validation."]


def _describe_prediction(metadata: dict[str, Any]) -> str:
    names = metadata.get("target_names") or []
    target = _plain(names[0]) if len(names) == 1 else ""
    if metadata.get("kind") == "values":
        return f"{target or 'the number'}, with an interval"
    return f"{target or 'the class'}, with probabilities"


def _plain(name: object) -> str:
    """Return a name on one line, without backticks and marks of tables."""
    return " ".join(str(name).replace("`", "'").replace("|", "/").split())
