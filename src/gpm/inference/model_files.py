"""The files of a model: its weights as safetensors, and `model.json`, which says what they belong to.

Both are checked before they are used: every key of `model.json` by its type, the shapes of the weights by their header.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from msgspec import Meta, Struct
from safetensors import safe_open
from safetensors.torch import load_file, save
from torch import Tensor, nn

from gpm.errors import GpmError
from gpm.io.atomic import check_plain, read_json, replacing, write_json
from gpm.io.json_schema import Count, Finite, Integer, check_json
from gpm.io.run_files import MODEL
from gpm.nn.feature_rows import Form
from gpm.nn.predictor import Predicts
from gpm.tasks import Task

FORMAT = 1


class _Inputs(Struct, forbid_unknown_fields=True):
    node: Form = "none"
    node_dim: Count = 0
    node_sizes: list[Count] = []
    edge: Form = "none"
    edge_dim: Count = 0
    edge_sizes: list[Count] = []
    pe_dim: Count = 0
    bags: bool = False
    label_dim: Count = 0
    expected: dict[str, Count] = {}
    expected_sizes: list[Count] = []
    expected_bags: bool = False
    projected: Count = 0


class _Model(Struct, tag_field="kind", kw_only=True):
    task: Literal["node", "link", "graph"]
    inputs: _Inputs
    parameters: Count
    data_digest: str = ""
    class_names: list[str] = []
    target_names: list[str] = []
    smoothing: Annotated[float, Meta(ge=0, lt=1)] = 0.0

    def __post_init__(self) -> None:
        if isinstance(self, _Links) != (self.task == "link"):
            raise ValueError(f"its kind does not go with the task {self.task}")


class _Classes(_Model, tag="classes"):
    metric: Literal["accuracy", "roc_auc", "f1", "ap"]
    multilabel: bool
    classes: Annotated[list[Integer], Meta(min_length=1)]
    weights: list[list[Annotated[float, Meta(gt=0, lt=1e300)]]] = []
    focal: Annotated[float, Meta(ge=0, le=100)] = 0.0
    positive: Literal[0, 1] = 1
    threshold: Annotated[float, Meta(gt=0, lt=1)] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        rows = [len(self.classes)] * (1 + self.multilabel)
        if self.weights and [len(row) for row in self.weights] != rows:
            raise ValueError("weights are not those of the classes")
        if self.threshold is not None and (self.multilabel or len(self.classes) != 2):
            raise ValueError("threshold is for two classes")
        if self.classes != sorted(set(self.classes)):
            raise ValueError(f"classes is {self.classes!r:.60}, not in ascending order")


class _Values(_Model, tag="values"):
    metric: Literal["mae", "rmse"]
    mean: Annotated[list[Finite], Meta(min_length=1)]
    scale: list[Annotated[float, Meta(gt=0, lt=1e300)]]
    low: list[Finite] = []
    high: list[Finite] = []

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.mean) != len(self.scale):
            raise ValueError("mean and scale are of different lengths")
        if {len(self.low), len(self.high)} not in ({0}, {len(self.mean)}):
            raise ValueError("low and high are of different lengths")
        if any(low > high for low, high in zip(self.low, self.high, strict=True)):
            raise ValueError("low is above high")


class _Links(_Model, tag="links"):
    metric: str
    protocol: Literal["strict", "paper"]


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
    shape: Any = _Classes | _Values | _Links
    check_json(content, shape, path, "train again")
    return content


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


def read_tensor(path: Path, name: str) -> Tensor:
    """Read one tensor of a file of weights."""
    check_plain(path)
    try:
        with safe_open(path, "pt") as file:
            return cast(Tensor, file.get_tensor(name))
    except Exception as error:
        raise _unfit(path, str(error) or type(error).__name__) from None


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
