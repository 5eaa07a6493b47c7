"""`model.json`: what the weights of a run belong to; whatever it says is checked before it is believed."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any, get_args

from gpm.errors import GpmError
from gpm.io.atomic import read_json, write_json
from gpm.io.json_checks import (
    Check,
    find_odd,
    is_count,
    is_flag,
    is_number,
    is_object,
    is_text,
    is_whole,
    list_of,
    one_of,
)
from gpm.nn.feature_rows import Form
from gpm.nn.feature_table import InputSpec
from gpm.nn.predictor import Predicts
from gpm.tasks import Task

FORMAT = 1
MODEL = "model.json"
_FORM = one_of(*get_args(Form))
_INPUTS: dict[str, Check] = {
    "node": _FORM, "node_dim": is_count, "node_sizes": list_of(is_count), "edge": _FORM, "edge_dim": is_count,
    "edge_sizes": list_of(is_count), "pe_dim": is_count, "bags": is_flag,
}  # fmt: skip
_ALWAYS: dict[str, Check] = {"task": one_of("node", "link", "graph"), "inputs": is_object, "parameters": is_count}
_BESIDE: dict[str, Check] = {
    "data_digest": is_text, "class_names": list_of(is_text), "target_names": list_of(is_text),
    "smoothing": lambda value: is_number(value) and 0 <= value < 1,
}  # fmt: skip
_KINDS: dict[str, dict[str, Check]] = {
    "classes": {
        "metric": one_of("accuracy", "roc_auc", "f1"), "multilabel": is_flag,
        "classes": lambda value: list_of(is_whole)(value) and bool(value) and value == sorted(set(value)),
    },
    "values": {
        "metric": one_of("mae", "rmse"), "mean": lambda value: list_of(is_number)(value) and bool(value),
        "scale": lambda value: list_of(is_number)(value) and all(number > 0 for number in value),
    },
    "links": {"metric": is_text, "protocol": one_of("strict", "paper")},
}  # fmt: skip


def write_facts(folder: Path, predictor: Predicts, task: Task, level: str, digest: str = "") -> None:
    """Write `model.json`; the digest is that of the data."""
    facts = {"format": FORMAT, "task": level, "data_digest": digest} | task.facts()
    facts |= {"inputs": asdict(predictor.model.inputs), "parameters": predictor.model.count_parameters()}
    write_json(folder / MODEL, facts)


def read_facts(folder: Path) -> dict[str, Any]:
    """Read `model.json`; whatever it says is of the type that it must be."""
    path = folder / MODEL
    facts = read_json(path)
    if facts.get("format") != FORMAT:
        raise GpmError(f"{path} has format {facts.get('format')!r:.60}, this gpm reads {FORMAT}.")
    if fault := _model_fault(facts):
        raise GpmError(f"{path} is damaged: {fault}; train again.")
    return facts


def _model_fault(facts: dict[str, Any]) -> str:
    kind = facts.get("kind")
    if not isinstance(kind, str) or kind not in _KINDS:
        return f"kind is {kind!r:.60}"
    needed = _ALWAYS | _KINDS[kind]
    if missing := [key for key in needed if key not in facts]:
        return f"it does not say {missing[0]}"
    if odd := find_odd(facts, needed | _BESIDE):
        return odd
    if unknown := sorted(set(facts["inputs"]) - set(_INPUTS)):
        return f"inputs has {unknown[0]!r:.60}"
    if odd := find_odd(facts["inputs"], _INPUTS):
        return f"of inputs {odd}"
    if kind == "values" and len(facts["mean"]) != len(facts["scale"]):
        return "mean and scale are of different lengths"
    return "" if (kind == "links") == (facts["task"] == "link") else f"kind is {kind!r} for {facts['task']}s"


def inputs_of(facts: dict[str, Any]) -> InputSpec:
    """What the model reads."""
    return InputSpec(**facts["inputs"])
