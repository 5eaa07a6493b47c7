"""The run folder: all that a training leaves behind, and the verbs on it.

```
config.yaml          every option, resolved         recipe.json     which recipe, what was changed, the paper's figure
model.safetensors    weights and statistics         model.json      what they belong to: inputs, classes, metric
metrics.csv          one row per epoch              result.json     the final figures with seed, protocol and split
split.npz            the parts, with a digest       predictions.csv of the test part
environment.json     versions and devices           README.md       the model card
checkpoint.ckpt      the state to resume from, until the run is finished
```
"""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import yaml
from numpy.typing import NDArray
from safetensors.torch import load_file, save
from torch import nn

from gpm.config import Config
from gpm.data.splits import Split
from gpm.data.tasks import NodeData, load_node_data
from gpm.errors import GpmError
from gpm.files import replacing, write_json, write_text
from gpm.graph import Graph
from gpm.nn import InputSpec
from gpm.predictor import Predictor
from gpm.tasks import NodeTask

if TYPE_CHECKING:
    from torch_geometric.data import Data

FORMAT = 1
CONFIG, WEIGHTS, MODEL, SPLIT, RESULT = "config.yaml", "model.safetensors", "model.json", "split.npz", "result.json"
STATE, HISTORY, PREDICTIONS, ENVIRONMENT, CARD = (
    "checkpoint.ckpt", "metrics.csv", "predictions.csv", "environment.json", "README.md",
)  # fmt: skip


class Run:
    """A trained model in its folder. Opening reads little; the data and the model are loaded when first used.

    Args:
        folder: The run folder.
        data: The graph to work on; by default what it was trained on is loaded again.
        device: Where to compute.
    """

    def __init__(self, folder: str | Path, data: NodeData | None = None, device: str = "cpu") -> None:
        self.folder, self.device = Path(folder), device
        self._data = data

    @classmethod
    def open(cls, folder: str | Path, data: Data | Graph | None = None, *, device: str = "auto") -> Run:
        """Open a run folder; a graph that was in memory when it was trained must be given again."""
        from gpm.devices import choose_device

        given = NodeData(data, "graph") if isinstance(data, Graph) and data.y is None else data  # enough to predict
        given = load_node_data(given) if given is not None and not isinstance(given, NodeData) else given
        run = cls(folder, given, choose_device(device))
        if not run.folder.is_dir():
            raise GpmError(f"there is no run folder {run.folder}; gpm train makes one.")
        for name in (CONFIG, MODEL, WEIGHTS):
            if not (run.folder / name).is_file():
                hint = "it is not a run folder, or its training ended before the first epoch did"
                raise GpmError(f"{run.folder} has no {name}: {hint}.")
        return run

    @cached_property
    def config(self) -> Config:
        """The options it was trained with."""
        return read_config(self.folder / CONFIG)

    @cached_property
    def facts(self) -> dict[str, Any]:
        """What `model.json` says of the weights."""
        return _read_json(self.folder / MODEL)

    @property
    def result(self) -> dict[str, Any]:
        """The final figures."""
        return _read_json(self.folder / RESULT)

    @cached_property
    def data(self) -> NodeData:
        """The graph it was trained on."""
        if self._data is not None:
            return self._data
        if not self.config.data:
            raise GpmError(f"{self.folder} was trained on a graph in memory; give it: Run.open(folder, graph).")
        return load_node_data(self.config.data)

    @cached_property
    def split(self) -> Split:
        return Split.load(self.folder / SPLIT)

    @cached_property
    def task(self) -> NodeTask:
        """What is predicted, with the labels of the data."""
        return NodeTask.of(self.data.labels, self.facts["metric"], self.config.smoothing, self.facts["classes"])

    @cached_property
    def predictor(self) -> Predictor:
        """The model on the graph it was trained on."""
        return self.predictor_for(self.data)

    def predictor_for(self, data: NodeData) -> Predictor:
        """The model on any graph with the same kind of features."""
        facts = self.facts
        if facts.get("format") != FORMAT:
            raise GpmError(f"{self.folder / MODEL} has format {facts.get('format')}, this gpm reads {FORMAT}.")
        inputs = InputSpec(**facts["inputs"])
        predictor = Predictor.build(self.config, data.graph, len(facts["classes"]), inputs=inputs, device=self.device)
        load_weights(predictor.model, self.folder / WEIGHTS)
        return predictor

    def evaluate(self, part: str = "test", *, patterns: int | None = None, progress: bool = False) -> dict[str, float]:
        """Score a part of the split: the metric and what goes with it, shares between 0 and 1."""
        ids = getattr(self.split, part, None)
        if not isinstance(ids, np.ndarray):
            raise GpmError(f"there is no part {part!r}; choose train, val or test.")
        logits = self.predictor.logits(ids, patterns=patterns, progress=progress)
        return self.task.score(logits, self.task.targets[torch.tensor(ids)])

    def predict(self, nodes: Any = None, *, patterns: int | None = None, progress: bool = False) -> Predictions:
        """Predict nodes, given by their names; by default all."""
        graph = self.data.graph
        ids = (
            np.arange(graph.num_nodes)
            if nodes is None
            else np.array([graph.find(name) for name in nodes], dtype=np.int64)
        )
        return self.predict_ids(ids, patterns=patterns, progress=progress)

    def predict_ids(self, ids: NDArray, *, patterns: int | None = None, progress: bool = False) -> Predictions:
        """Predict nodes, given by their numbers."""
        logits = self.predictor.logits(ids, patterns=patterns, progress=progress)
        classes, several = self.facts["classes"], self.facts["multilabel"]
        probability = NodeTask(classes, several, self.facts["metric"]).probabilities(logits).numpy()  # needs no labels
        return Predictions([self.data.graph.name(i) for i in ids], probability, classes, several)

    def __repr__(self) -> str:
        return f"Run({str(self.folder)!r})"


class Predictions:
    """What was predicted of some nodes.

    Args:
        names: The user's names of the nodes `[B]`.
        probability: Of each class or label `[B, C]`.
        classes: The labels' own values.
        multilabel: Whether a node may have several.
    """

    def __init__(self, names: list[Any], probability: NDArray, classes: list[int], multilabel: bool) -> None:
        self.names, self.probability, self.classes, self.multilabel = names, probability, classes, multilabel

    @property
    def labels(self) -> NDArray:
        """The class of each node `[B]`; for several labels, yes or no `[B, C]`."""
        if self.multilabel:
            return self.probability >= 0.5
        return np.asarray(np.take(self.classes, self.probability.argmax(1)))

    def columns(self) -> dict[str, Any]:
        """The table by column: node, prediction, probability of each class."""
        if self.multilabel:
            said: list[Any] = [
                " ".join(str(c) for c, yes in zip(self.classes, row, strict=True) if yes) for row in self.labels
            ]
        else:
            said = self.labels.tolist()
        chances = {f"p_{name}": self.probability[:, i] for i, name in enumerate(self.classes)}
        return {"node": self.names, "prediction": said} | chances

    def __len__(self) -> int:
        return len(self.names)

    def save(self, path: str | Path) -> None:
        """Write a table: .csv, .tsv or .parquet."""
        from gpm.tables import write_table

        write_table(Path(path), self.columns())


def read_config(path: Path) -> Config:
    """Read the options of a run."""
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError, UnicodeDecodeError) as error:
        raise GpmError(f"cannot read {path}: {str(error).splitlines()[0]}.") from None
    if not isinstance(values, dict):
        raise GpmError(f"{path} holds no options; each line must be 'key: value'.")
    return Config.from_dict(values, str(path))


def write_config(path: Path, config: Config) -> None:
    """Write the options of a run."""
    write_text(path, yaml.safe_dump(config.to_dict(), sort_keys=False, default_flow_style=None))


def save_weights(model: nn.Module, path: Path) -> None:
    """Write weights and statistics as safetensors."""
    values = {name: value.detach().cpu().contiguous() for name, value in model.state_dict().items()}
    with replacing(path) as scratch:
        scratch.write_bytes(save(values))  # save_file would let nobody but the user read it


def load_weights(model: nn.Module, path: Path) -> None:
    """Read weights and statistics; they must be those of the model, whole and of the right shapes."""
    try:
        model.load_state_dict(load_file(path))
    except Exception as error:  # a damaged header, a missing tensor, another shape
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise GpmError(f"{path} does not hold the weights of this model ({first}); train again.") from None


def write_facts(folder: Path, predictor: Predictor, task: NodeTask) -> None:
    """Write `model.json`."""
    facts = {
        "format": FORMAT, "task": "node", "metric": task.metric, "multilabel": task.multilabel, "classes": task.classes,
        "inputs": asdict(predictor.model.inputs), "parameters": predictor.model.count_parameters(),
    }  # fmt: skip
    write_json(folder / MODEL, facts)


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, json.JSONDecodeError, UnicodeDecodeError) as error:
        raise GpmError(f"cannot read {path} ({type(error).__name__}): it is missing or damaged; train again.") from None
    if not isinstance(content, dict):
        raise GpmError(f"{path} is damaged: it must hold an object; train again.")
    return content
