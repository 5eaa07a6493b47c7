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
from typing import Any, cast

import numpy as np
import torch
import yaml
from numpy.typing import NDArray
from safetensors.torch import load_file, save
from torch import Tensor, nn

from gpm.config import Config
from gpm.data.files import load_graph
from gpm.data.graphs import GraphData
from gpm.data.links import LinkData, LinkSplit
from gpm.data.load import TaskData, load_task_data, walked_graph
from gpm.data.splits import PARTS, Split
from gpm.data.tasks import NodeData
from gpm.errors import GpmError
from gpm.explain.explanation import Explanation
from gpm.files import replacing, write_json, write_text
from gpm.graph import Graph
from gpm.nn import InputSpec
from gpm.predictions import Predictions
from gpm.predictor import Predictor, Predicts
from gpm.tasks import Task, load_task
from gpm.walks import has_edge

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
        other: `data` is not what it was trained on: there is no split of it, and nothing is held out.
    """

    def __init__(
        self, folder: str | Path, data: TaskData | None = None, device: str = "cpu", *, other: bool = False
    ) -> None:
        self.folder, self.device, self.other = Path(folder), device, other
        self._data = data

    @classmethod
    def open(cls, folder: str | Path, data: Any = None, *, device: str = "auto", other: bool = False) -> Run:
        """Open a run folder.

        Args:
            folder: Where it is.
            data: What it was trained on, needed if that was in memory then; or what else to predict on.
            device: auto, cpu, cuda, cuda:1 or mps.
            other: `data` is something else: another graph, or another table of molecules.
        """
        from gpm.devices import choose_device

        run = cls(folder, None, choose_device(device), other=other)
        if not run.folder.is_dir():
            raise GpmError(f"there is no run folder {run.folder}; gpm train makes one.")
        for name in (CONFIG, MODEL, WEIGHTS):
            if not (run.folder / name).is_file():
                hint = "it is not a run folder, or its training ended before the first epoch did"
                raise GpmError(f"{run.folder} has no {name}: {hint}.")
        if data is not None:
            run._data = _read_given(data, run.config, run.facts.get("task", "node"), other)
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
    def data(self) -> TaskData:
        """The graph it was trained on, or that it was opened with."""
        if self._data is not None:
            return self._data
        config = self.config
        if not config.data:
            raise GpmError(f"{self.folder} was trained on a graph in memory; give it: Run.open(folder, graph).")
        return load_task_data(
            config.data, config.task, metric=config.metric, smiles=config.smiles, target=config.target
        )

    @cached_property
    def split(self) -> Split:
        if self.other:
            raise GpmError("the parts are of what the model was trained on; open the run without other data.")
        return Split.load(self.folder / SPLIT)

    @cached_property
    def task(self) -> Task:
        """What is predicted, with the labels of the data."""
        if isinstance(self.data, LinkData):
            return load_task(self.facts, None if self.other else self._pairs.labels)
        return load_task(self.facts, self.data.graph.y)

    @property
    def _pairs(self) -> LinkSplit:
        assert isinstance(self.split, LinkSplit)
        return self.split

    @cached_property
    def predictor(self) -> Predicts:
        """The model on the graph it was trained on, or that it was opened with."""
        return self.predictor_for(self.data.graph if self.other else walked_graph(self.data, self.split))

    def predictor_for(self, graph: Graph) -> Predicts:
        """The model on any graph with the same kind of features."""
        facts = self.facts
        if facts.get("format") != FORMAT:
            raise GpmError(f"{self.folder / MODEL} has format {facts.get('format')}, this gpm reads {FORMAT}.")
        inputs, level = InputSpec(**facts["inputs"]), facts.get("task", "node")
        outputs = load_task(facts, None).outputs
        predictor = build_predictor(self.config, graph, outputs, level, inputs=inputs, device=self.device)
        load_weights(predictor.model, self.folder / WEIGHTS)
        return predictor

    def evaluate(self, part: str = "test", *, patterns: int | None = None, progress: bool = False) -> dict[str, float]:
        """Score a part of the split: the metric and what goes with it, shares between 0 and 1."""
        return self.score(part, self.read(part, patterns=patterns, progress=progress))

    def read(self, part: str, *, patterns: int | None = None, progress: bool = False) -> Tensor:
        """Logits of a part of the split."""
        ids = getattr(self.split, part, None)
        if part not in PARTS or not isinstance(ids, np.ndarray):
            raise GpmError(f"there is no part {part!r}; choose train, val or test.")
        if isinstance(self.split, LinkSplit) and not (self.split.labels[ids] == 0).any():
            raise GpmError(f"the {part} part holds edges alone, without non-edges to rank them by; choose val or test.")
        return self.predictor.logits(self.inputs(ids), patterns=patterns, progress=progress)

    def score(self, part: str, logits: Tensor) -> dict[str, float]:
        """Score the logits of a part."""
        return self.task.score(logits, self.task.targets[torch.tensor(getattr(self.split, part))])

    def predict(self, names: Any = None, *, patterns: int | None = None, progress: bool = False) -> Predictions:
        """Predict nodes (by name), links (pairs of names) or graphs (by number); by default all nodes or graphs."""
        graph, level = self.data.graph, self.data.level
        if level == "link":
            if names is None:
                raise GpmError("say which pairs of nodes to score; run.recommend lists likely new neighbours.")
            pairs = np.array([[graph.find(a), graph.find(b)] for a, b in names], dtype=np.int64).reshape(-1, 2)
            return self.predict_pairs(pairs, patterns=patterns, progress=progress)
        if names is None:
            ids = np.arange(graph.num_nodes) if level == "node" else self._filled_graphs()
        elif level == "node":
            ids = np.array([graph.find(name) for name in names], dtype=np.int64)
        else:
            ids = np.array([find_graph(name, graph.num_graphs) for name in names], dtype=np.int64)
        return self.predict_ids(ids, patterns=patterns, progress=progress)

    def predict_ids(self, ids: NDArray, *, patterns: int | None = None, progress: bool = False) -> Predictions:
        """Predict nodes or graphs by their numbers; or pairs of the split by theirs."""
        inputs = self._pairs.pairs[ids] if self.data.level == "link" else ids
        return self.describe(ids, self.predictor.logits(inputs, patterns=patterns, progress=progress))

    def describe(self, ids: NDArray, logits: Tensor) -> Predictions:
        """Logits of nodes or graphs, or of pairs of the split, with their names."""
        names = self._name_pairs(self._pairs.pairs[ids]) if self.data.level == "link" else self._name(ids)
        return Predictions(names, logits, load_task(self.facts, None))

    def predict_pairs(self, pairs: NDArray, *, patterns: int | None = None, progress: bool = False) -> Predictions:
        """Score pairs of nodes `[B, 2]`, given by their numbers.

        An edge that the walked graph has is hidden from its own score by `joint`, and seen by `product` and baselines.
        """
        logits = self.predictor.logits(pairs, patterns=patterns, progress=progress)
        return Predictions(self._name_pairs(pairs), logits, load_task(self.facts, None))

    def _name_pairs(self, pairs: NDArray) -> dict[str, list[Any]]:
        graph = self.data.graph
        return {side: [graph.name(i) for i in pairs[:, at]] for at, side in enumerate(("source", "target"))}

    def recommend(
        self, node: object, top: int = 10, *, patterns: int | None = None, progress: bool = False
    ) -> Predictions:
        """The most likely new neighbours of a node: the likeliest first, without those that it has."""
        if self.data.level != "link":
            raise GpmError(
                f"{self.folder} predicts {self.data.level}s; train with --task link to recommend neighbours."
            )
        if top < 1:
            raise GpmError(f"at least one neighbour can be recommended, not {top}.")
        graph = self.data.graph
        start = graph.find(node)
        others = np.setdiff1d(np.arange(graph.num_nodes), [*graph.neighbors(start), start])
        others = others[~has_edge(graph, others, start)]  # a link has no direction
        pairs = np.stack([np.full(len(others), start), others], 1)
        logits = self.predictor.logits(pairs, patterns=patterns, progress=progress)
        best = np.argsort(-logits[:, 0].numpy(), kind="stable")[:top]
        keys = {"source": [graph.name(start)] * len(best), "target": [graph.name(i) for i in others[best]]}
        return Predictions(keys, logits[torch.from_numpy(best)], load_task(self.facts, None))

    def explain(self, name: Any, **options: Any) -> Explanation:
        """Say which patterns the prediction of a node, a pair of nodes or a graph rests on.

        Args:
            name: A node's name, a pair of names, or a graph's number.
            options: top, method, target, draws and room, as in `gpm.explain.explainer.explain`.
        """
        from gpm.explain.explainer import explain

        return explain(self, name, **options)

    def inputs(self, ids: NDArray) -> NDArray:
        """What the model reads of members of the split, by their numbers: nodes or graphs `[B]`, or pairs `[B, 2]`."""
        return self.split.pairs[ids] if isinstance(self.split, LinkSplit) else ids

    def _filled_graphs(self) -> NDArray:
        """Numbers of the graphs that have nodes."""
        pointer = self.data.graph.graph_ptr
        return np.arange(1) if pointer is None else np.flatnonzero(np.diff(pointer))

    def _name(self, ids: NDArray) -> dict[str, list[Any]]:
        if self.data.level == "node":
            return {"node": [self.data.graph.name(i) for i in ids]}
        assert isinstance(self.data, GraphData)
        keys: dict[str, list[Any]] = {"graph": ids.tolist()}
        if self.data.lines is not None:
            keys["line"] = self.data.lines[ids].tolist()
        if self.data.names is not None:
            keys["name"] = [self.data.names[i] for i in ids]
        return keys

    def __repr__(self) -> str:
        return f"Run({str(self.folder)!r})"


def build_predictor(
    config: Config,
    graph: Graph,
    outputs: int,
    level: str,
    *,
    inputs: InputSpec | None = None,
    device: str = "cpu",
    seen: NDArray | None = None,
) -> Predicts:
    """The model that the options name, with fresh weights, on a graph; see `Predictor.build`."""
    if config.model == "gpm":
        return Predictor.build(config, graph, outputs, level, inputs=inputs, device=device, seen=seen)
    from gpm.networks import NetworkPredictor

    hide = config.hide and config.protocol == "strict"
    return NetworkPredictor.build(
        config, graph, outputs, cast(Any, level), inputs=inputs, device=device, hide=hide, seen=seen
    )


def _read_given(data: Any, config: Config, level: str, other: bool) -> TaskData:
    """Data that a run is opened with; to predict, it needs no labels."""
    if isinstance(data, (NodeData, LinkData, GraphData)):
        return data
    if (config.smiles or config.target) and isinstance(data, (str, Path)):
        from gpm.data.molecules import load_molecules

        target = "" if other else config.target
        return load_molecules(data, smiles=config.smiles or "smiles", target=target, metric=config.metric)
    if level == "node" and isinstance(data, Graph) and data.y is None:
        return NodeData(data, "graph")
    if level == "graph" and other:
        graph = data if isinstance(data, Graph) else load_graph(data) if isinstance(data, (str, Path)) else None
        return GraphData(Graph.from_pyg(data) if graph is None else graph, "graphs")
    return load_task_data(data, level, metric=config.metric)


def find_graph(name: object, count: int) -> int:
    text = str(name)
    if not text.isdigit() or int(text) >= count:
        raise GpmError(f"no graph {name!r}: graphs are numbered 0 to {count - 1}.")
    return int(text)


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


def write_facts(folder: Path, predictor: Predicts, task: Task, level: str) -> None:
    """Write `model.json`."""
    facts = {"format": FORMAT, "task": level} | task.facts()
    facts |= {"inputs": asdict(predictor.model.inputs), "parameters": predictor.model.count_parameters()}
    write_json(folder / MODEL, facts)


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, json.JSONDecodeError, UnicodeDecodeError) as error:
        raise GpmError(f"cannot read {path} ({type(error).__name__}): it is missing or damaged; train again.") from None
    if not isinstance(content, dict):
        raise GpmError(f"{path} is damaged: it must hold an object; train again.")
    return content
