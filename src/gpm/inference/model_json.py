"""`model.json`: what the weights of a run belong to; whatever it says is checked before it is believed."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from gpm.errors import GpmError
from gpm.io.atomic import read_json, write_json
from gpm.io.json_schema import Count, Finite, Integer, check_json
from gpm.nn.feature_rows import Form
from gpm.nn.feature_table import InputSpec
from gpm.nn.predictor import Predicts
from gpm.tasks import Task

FORMAT = 1
MODEL = "model.json"


class _Inputs(Struct, forbid_unknown_fields=True):
    node: Form = "none"
    node_dim: Count = 0
    node_sizes: list[Count] = []
    edge: Form = "none"
    edge_dim: Count = 0
    edge_sizes: list[Count] = []
    pe_dim: Count = 0
    bags: bool = False


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
    metric: Literal["accuracy", "roc_auc", "f1"]
    multilabel: bool
    classes: Annotated[list[Integer], Meta(min_length=1)]

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.classes != sorted(set(self.classes)):
            raise ValueError(f"classes is {self.classes!r:.60}, not in ascending order")


class _Values(_Model, tag="values"):
    metric: Literal["mae", "rmse"]
    mean: Annotated[list[Finite], Meta(min_length=1)]
    scale: list[Annotated[float, Meta(gt=0, lt=1e300)]]

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.mean) != len(self.scale):
            raise ValueError("mean and scale are of different lengths")


class _Links(_Model, tag="links"):
    metric: str
    protocol: Literal["strict", "paper"]


def write_facts(folder: Path, predictor: Predicts, task: Task, level: str, digest: str = "") -> None:
    """Write `model.json`; the digest is that of the data."""
    facts = {"format": FORMAT, "task": level, "data_digest": digest} | task.facts()
    facts |= {"inputs": asdict(predictor.model.inputs), "parameters": predictor.model.count_parameters()}
    write_json(folder / MODEL, facts)


def read_facts(folder: Path) -> dict[str, Any]:
    """Read `model.json` and check the type of every value."""
    path = folder / MODEL
    facts = read_json(path)
    if facts.get("format") != FORMAT:
        raise GpmError(f"{path} has format {facts.get('format')!r:.60}, this gpm reads {FORMAT}.")
    shape: Any = _Classes | _Values | _Links
    check_json(facts, shape, path, "train again")
    return facts


def inputs_of(facts: dict[str, Any]) -> InputSpec:
    """What the model reads."""
    return InputSpec(**facts["inputs"])
