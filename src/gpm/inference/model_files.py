"""The files of a model: its weights as safetensors, and `model.json`, which says what they belong to.

Both are checked before they are used: every key of `model.json` by its type, the shapes of the weights by their header.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, get_args

from safetensors import safe_open
from safetensors.torch import load_file, save
from torch import Tensor, nn

from gpm.errors import GpmError
from gpm.io.atomic import check_plain, read_json, replacing, write_json
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
from gpm.io.run_files import MODEL
from gpm.nn.feature_map import Form, InputSpec
from gpm.nn.predictor import Predicts
from gpm.tasks import Task

FORMAT = 1
_FORM = one_of(*get_args(Form))
_INPUTS: dict[str, Check] = {
    "node": _FORM, "node_dim": is_count, "node_sizes": list_of(is_count), "edge": _FORM, "edge_dim": is_count,
    "edge_sizes": list_of(is_count), "pe_dim": is_count, "bags": is_flag,
}  # fmt: skip
_REQUIRED: dict[str, Check] = {"task": one_of("node", "link", "graph"), "inputs": is_object, "parameters": is_count}
_OPTIONAL: dict[str, Check] = {
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


def write_metadata(folder: Path, predictor: Predicts, task: Task, level: str, digest: str = "") -> None:
    """Write `model.json`; `digest` is that of the data."""
    content = {"format": FORMAT, "task": level, "data_digest": digest} | task.facts()
    content |= {"inputs": asdict(predictor.model.inputs), "parameters": predictor.model.count_parameters()}
    write_json(folder / MODEL, content)


def read_metadata(folder: Path) -> dict[str, Any]:
    """Read `model.json` and check the type of every value."""
    path = folder / MODEL
    content = read_json(path)
    if content.get("format") != FORMAT:
        raise GpmError(f"{path} has format {content.get('format')!r:.60}, this gpm reads {FORMAT}.")
    if fault := _find_fault(content):
        raise GpmError(f"{path} is damaged: {fault}; train again.")
    return content


def _find_fault(content: dict[str, Any]) -> str:
    kind = content.get("kind")
    if not isinstance(kind, str) or kind not in _KINDS:
        return f"kind is {kind!r:.60}"
    needed = _REQUIRED | _KINDS[kind]
    if missing := [key for key in needed if key not in content]:
        return f"it does not say {missing[0]}"
    if odd := find_odd(content, needed | _OPTIONAL):
        return odd
    if unknown := sorted(set(content["inputs"]) - set(_INPUTS)):
        return f"inputs has {unknown[0]!r:.60}"
    if odd := find_odd(content["inputs"], _INPUTS):
        return f"of inputs {odd}"
    if kind == "values" and len(content["mean"]) != len(content["scale"]):
        return "mean and scale are of different lengths"
    return "" if (kind == "links") == (content["task"] == "link") else f"kind is {kind!r} for {content['task']}s"


def inputs_of(metadata: dict[str, Any]) -> InputSpec:
    """Return the inputs of the model that `model.json` describes."""
    return InputSpec(**metadata["inputs"])


def save_weights(model: nn.Module, path: Path) -> None:
    """Write weights and statistics as safetensors."""
    values = {name: value.detach().cpu().contiguous() for name, value in model.state_dict().items()}
    with replacing(path) as scratch:
        scratch.write_bytes(save(values))  # save_file would make it readable by its owner alone


def load_weights(model: nn.Module, path: Path) -> None:
    """Read weights and statistics into a model, which must have the same tensors in the same shapes."""
    check_plain(path)
    try:
        model.load_state_dict(load_file(path))
    except Exception as error:  # a damaged header, a missing tensor, another shape
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise _unfit(path, first) from None


def check_shapes(expected: Mapping[str, Tensor], path: Path) -> None:
    """Refuse a file whose header does not list exactly these tensors in these shapes, without reading the tensors."""
    check_plain(path)
    try:
        with safe_open(path, "pt") as file:
            stored = {name: list(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118 - no dict
    except Exception as error:
        raise _unfit(path, str(error) or type(error).__name__) from None
    shapes = {name: list(value.shape) for name, value in expected.items()}
    if odd := sorted(name for name in {*stored, *shapes} if stored.get(name) != shapes.get(name)):
        have, need = stored.get(odd[0], "nothing"), shapes.get(odd[0], "nothing")
        raise _unfit(path, f"{odd[0]} is {have} there, where the options ask for {need}")


def _unfit(path: Path, why: str) -> GpmError:
    return GpmError(f"{path} does not hold the weights of this model ({why}); train again.")
