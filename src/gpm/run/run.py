"""The run folder: all that a training leaves behind, and the verbs on it.

```
config.yaml          every option, resolved         recipe.json     which recipe, what was changed, the paper's figure
model.safetensors    weights and statistics         model.json      what they belong to: inputs, classes, metric
metrics.csv          one row per epoch              result.json     the final figures with seed, protocol and split
split.npz            the parts, with a digest       predictions.csv of the test part
environment.json     versions and devices           README.md       the model card
plan.json            what was asked for             checksums.json  size and SHA-256 of every file, written last
checkpoint.ckpt      the state to resume from, until the run is finished
```

Until it is finished, all this is in a folder of the same name with `.part` behind it; see `gpm.run.workplace`.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
import yaml
from numpy.typing import NDArray
from torch import Tensor, nn

from gpm.config import Config
from gpm.data.domain_data import DomainSplit
from gpm.data.graph_data import GraphData
from gpm.data.link_data import LinkData, LinkSplit
from gpm.data.sources import TaskData, load_task_data, walked_graph
from gpm.data.splits import PARTS, Split
from gpm.data.tables.table_source import OWN_GRAPHS
from gpm.errors import GpmError
from gpm.explain.explanation import Explanation
from gpm.graph.find import find_graph as find_graph  # where others look for it
from gpm.graph.find import find_graphs, find_new, find_nodes, name_nodes
from gpm.graph.graph import Graph
from gpm.inference.model_json import MODEL, inputs_of, read_facts
from gpm.inference.predictions import Predictions
from gpm.inference.weights import check_shapes, load_weights
from gpm.io.atomic import read_json, read_yaml, write_text
from gpm.io.manifest import check_digest, check_files
from gpm.nn import InputSpec
from gpm.nn.predictor import Predictor, Predicts, make_machine
from gpm.patterns.walks import has_edge
from gpm.run.workplace import part_of, settle
from gpm.tasks import Task, load_task

if TYPE_CHECKING:
    from gpm.inference.embeddings import Embeddings
    from gpm.run.shards import Part
    from gpm.shift.result import Shift

CONFIG, WEIGHTS, SPLIT, RESULT = "config.yaml", "model.safetensors", "split.npz", "result.json"
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
        self.source = ""  # the folder or file that the data was read from, if it was

    @classmethod
    def open(cls, folder: str | Path, data: Any = None, *, device: str = "auto", other: bool = False) -> Run:
        """Open a run folder.

        Args:
            folder: Where it is.
            data: What it was trained on, needed if that was in memory then; or what else to predict on.
            device: auto, cpu, cuda, cuda:1 or mps.
            other: `data` is something else: another graph, or another table of molecules.
        """
        from gpm.compute import choose_device

        run = cls(folder, None, choose_device(device), other=other)
        settle(run.folder)
        if not run.folder.is_dir():
            if part_of(run.folder).is_dir():
                how = f"gpm train --resume {run.folder} goes on; {part_of(run.folder)} is what there is of it"
                raise GpmError(f"the training of {run.folder} is not finished: {how}.")
            raise GpmError(f"there is no run folder {run.folder}; gpm train makes one.")
        if seeds := sorted(path.parent for path in run.folder.glob(f"seed-*/{CONFIG}")):
            raise GpmError(f"{run.folder} holds runs of several seeds; name one of them, such as {seeds[0]}.")
        for name in (CONFIG, MODEL, WEIGHTS):
            if not (run.folder / name).is_file():
                hint = "it is not a run folder, or its training ended before the first epoch did"
                raise GpmError(f"{run.folder} has no {name}: {hint}.")
        check_files(run.folder, (CONFIG, MODEL, WEIGHTS, SPLIT))
        if data is not None:
            from gpm.run.other_data import read_given

            run._data = read_given(run, data)
            run.source = str(data) if isinstance(data, (str, Path)) else ""
            if not other:
                check_digest(run, run._data)
        return run

    @cached_property
    def config(self) -> Config:
        """The options it was trained with."""
        return read_config(self.folder / CONFIG)

    @cached_property
    def facts(self) -> dict[str, Any]:
        """What `model.json` says of the weights."""
        return read_facts(self.folder)

    @property
    def result(self) -> dict[str, Any]:
        """The final figures."""
        return read_json(self.folder / RESULT)

    @cached_property
    def data(self) -> TaskData:
        """The graph it was trained on, or that it was opened with."""
        if self._data is not None:
            return self._data
        config = self.config
        if config.task not in ("auto", self.facts["task"]):
            other = f"the options are of {config.task}s, the model is of {self.facts['task']}s"
            raise GpmError(f"{self.folder} is damaged: {other}; train again.")
        if not config.data:
            both = "gpm.unite(source, target)" if isinstance(self.split, DomainSplit) else "graph"
            raise GpmError(f"{self.folder} was trained on a graph in memory; give it: Run.open(folder, {both}).")
        source: str | Path = config.data
        if source in OWN_GRAPHS and not (source := self.folder / source).is_dir():
            raise GpmError(f"{self.folder} comes with its graph in {source}, which is not there; copy that as well.")
        data = load_task_data(
            source,
            config.task,
            metric=config.metric,
            smiles=config.smiles,
            target=config.target_graph or config.target,
            shift=config.shift,
        )
        check_digest(self, data)
        return data

    @cached_property
    def home(self) -> Run:
        """The same run on what it was trained on."""
        return Run(self.folder, device=self.device) if self.other else self

    @cached_property
    def split(self) -> Split:
        if self.other:
            raise GpmError("the parts are of what the model was trained on; open the run without other data.")
        split = Split.load(self.folder / SPLIT, follow=False)
        if isinstance(split, LinkSplit) != (self.facts["task"] == "link"):
            raise GpmError(f"{self.folder / SPLIT} is not a split of {self.facts['task']}s, which the model is of.")
        return split

    @cached_property
    def task(self) -> Task:
        """What is predicted, with the labels of the data."""
        if isinstance(self.data, LinkData):
            return load_task(self.facts, None if self.other else self._pairs.labels)
        return load_task(self.facts, self.data.graph.y)

    @property
    def predicts_values(self) -> bool:
        """Whether it predicts numbers."""
        return self.facts.get("kind") == "values"

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
        inputs, level, path = inputs_of(self.facts), self.facts["task"], self.folder / WEIGHTS
        outputs = load_task(self.facts, None).outputs
        with torch.device("meta"):  # what the options ask for may be more than memory holds: nothing is made yet
            check_shapes(build_model(self.config, inputs, outputs, level).state_dict(), path)
        predictor = build_predictor(self.config, graph, outputs, level, inputs=inputs, device=self.device)
        load_weights(predictor.model, path)
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

    def predict(self, names: Any = None, *, new: bool = False, **options: Any) -> Predictions:
        """Predict nodes (by name), links (pairs of names) or graphs (by number or name), in the order asked for.

        Args:
            names: By default all nodes or graphs.
            new: Only nodes that the training graph does not have, of a run that is opened on another graph.
            options: patterns, interval, draws, calibrate and progress, as in `gpm.inference.answer.answer`.
        """
        if self.data.level != "link":
            return self.predict_ids(self.find(names, new=new), **options)
        if names is None or new:
            raise GpmError("say which pairs of nodes to score; run.recommend lists likely new neighbours.")
        pairs = list(names)
        if any(isinstance(pair, str) or not hasattr(pair, "__len__") or len(pair) != 2 for pair in pairs):
            raise GpmError("a link has two ends; give pairs of names.")
        ends = find_nodes(self.data.graph, [end for pair in pairs for end in pair])
        return self.predict_pairs(ends.reshape(-1, 2), **options)

    def predict_shard(self, folder: str | Path, index: int, count: int, **options: Any) -> Part:
        """Predict one of so many equal shards of all instances and write it, see `gpm.run.shards.predict_shard`."""
        from gpm.run.shards import predict_shard

        return predict_shard(self, folder, index, count, **options)

    def predict_ids(self, ids: NDArray, **options: Any) -> Predictions:
        """Predict nodes or graphs by their numbers; or pairs of the split by theirs."""
        inputs = self._pairs.pairs[ids] if self.data.level == "link" else ids
        return self.predict_inputs(inputs, **options)

    def predict_pairs(self, pairs: NDArray, **options: Any) -> Predictions:
        """Score pairs of nodes `[B, 2]`, given by their numbers.

        An edge that the walked graph has is hidden from its own score by `joint`, and seen by `product` and baselines.
        """
        return self.predict_inputs(pairs, **options)

    def predict_inputs(self, inputs: NDArray, **options: Any) -> Predictions:
        """Predict nodes or graphs `[B]` or pairs `[B, 2]` by their numbers, see `gpm.inference.answer.answer`."""
        from gpm.inference.answer import answer

        return answer(self, inputs, **options)

    def describe(self, ids: NDArray, logits: Tensor) -> Predictions:
        """Logits of nodes or graphs, or of pairs of the split, with their names."""
        return Predictions(self.name(self.inputs(ids)), logits, load_task(self.facts, None))

    def find(self, names: Any = None, *, new: bool = False, level: str = "") -> NDArray[np.int64]:
        """Numbers of nodes or graphs by name; by default of all, or of all that the training graph does not have."""
        level, graph = level or self.data.level, self.data.graph
        if new:
            if names is not None or level != "node" or not self.other:
                raise GpmError("new nodes are those of another graph that were not in training; open the run on it.")
            return find_new(graph, self.home.data.graph)
        if names is None:
            return np.arange(graph.num_nodes) if level == "node" else self._filled_graphs()
        given = [names] if isinstance(names, (str, int, float, np.number)) else list(names)
        if level == "node":
            return find_nodes(graph, given)
        return find_graphs(given, graph.num_graphs, self.data.names if isinstance(self.data, GraphData) else None)

    def name(self, ids: NDArray, *, level: str = "") -> dict[str, list[Any]]:
        """The columns that say which nodes or graphs `[B]` or pairs `[B, 2]` some numbers are."""
        graph, level = self.data.graph, level or self.data.level
        if level == "node":
            return {"node": name_nodes(graph, ids)}
        if level == "link":
            return {side: name_nodes(graph, ids[:, at]) for at, side in enumerate(("source", "target"))}
        assert isinstance(self.data, GraphData)
        keys: dict[str, list[Any]] = {"graph": ids.tolist()}
        if self.data.lines is not None:
            keys["line"] = self.data.lines[ids].tolist()
        if self.data.names is not None:
            keys["name"] = [self.data.names[i] for i in ids]
        return keys

    def unseen(self) -> list[str]:
        """What of the other graph that it was opened on the training had not, in sentences."""
        from gpm.run.unseen_data import describe_unseen

        return describe_unseen(self)

    def embed(self, names: Any = None, **options: Any) -> Embeddings:
        """Embed nodes or graphs, see `gpm.inference.embeddings.embed_run`."""
        from gpm.inference.embeddings import embed_run

        return embed_run(self, names, **options)

    def recommend(self, node: object, top: int = 10, **options: Any) -> Predictions:
        """The most likely new neighbours of a node: the likeliest first, without those that it has.

        Args:
            node: Whose neighbours.
            top: How many.
            options: patterns, calibrate and progress, as in `gpm.inference.answer.answer`.
        """
        if self.data.level != "link":
            raise GpmError(
                f"{self.folder} predicts {self.data.level}s; train with --task link to recommend neighbours."
            )
        if not isinstance(top, (int, np.integer)) or top < 1:
            raise GpmError(f"at least one neighbour can be recommended, not {top}.")
        graph = self.data.graph
        start = graph.find(node)
        others = np.setdiff1d(np.arange(graph.num_nodes), [*graph.neighbors(start), start])
        others = others[~has_edge(graph, others, start)]  # a link has no direction
        pairs = np.stack([np.full(len(others), start), others], 1)
        found = self.predict_pairs(pairs, **options)
        best = np.argsort(-found.logits[:, 0].numpy(), kind="stable")[:top]
        logits = found.logits[torch.from_numpy(best)]
        return Predictions(self.name(pairs[best]), logits, found.task, temperature=found.temperature)

    def explain(self, name: Any, **options: Any) -> Explanation:
        """Say which patterns the prediction of a node, a pair of nodes or a graph rests on.

        Args:
            name: A node's name, a pair of names, or a graph's number.
            options: top, method, target, draws and room, as in `gpm.explain.explainer.explain`.
        """
        from gpm.explain.explainer import explain

        return explain(self, name, **options)

    def shift(self, **options: Any) -> Shift:
        """Say how far the target is from the source, how the model fares there and which patterns both have.

        Args:
            options: nodes, seed and progress, as in `gpm.shift.shift_report.report_shift`.
        """
        from gpm.shift.shift_report import report_shift

        return report_shift(self, **options)

    def inputs(self, ids: NDArray) -> NDArray:
        """What the model reads of members of the split, by their numbers: nodes or graphs `[B]`, or pairs `[B, 2]`."""
        return self.split.pairs[ids] if isinstance(self.split, LinkSplit) else ids

    def _filled_graphs(self) -> NDArray:
        """Numbers of the graphs that have nodes."""
        pointer = self.data.graph.graph_ptr
        return np.arange(1) if pointer is None else np.flatnonzero(np.diff(pointer))

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
    stream: bool = False,
) -> Predicts:
    """The model that the options name, with fresh weights, on a graph; see `Predictor.build`."""
    if config.model == "gpm":
        return Predictor.build(config, graph, outputs, level, inputs=inputs, device=device, seen=seen, stream=stream)
    from gpm.nn.gnn.gnn_predictor import NetworkPredictor

    hide = config.hide and config.protocol == "strict"
    return NetworkPredictor.build(
        config, graph, outputs, cast(Any, level), inputs=inputs, device=device, hide=hide, seen=seen
    )


def build_model(config: Config, inputs: InputSpec, outputs: int, level: str) -> nn.Module:
    """The model that the options name, with fresh weights, for such inputs."""
    if config.model == "gpm":
        return make_machine(config, inputs, outputs, level)
    from gpm.nn.gnn.gnn_predictor import make_network

    return make_network(config, inputs, outputs, cast(Any, level))


def read_config(path: Path) -> Config:
    """Read the options of a run."""
    return Config.from_dict(read_yaml(path), str(path))


def write_config(path: Path, config: Config) -> None:
    """Write the options of a run."""
    write_text(path, yaml.safe_dump(config.to_dict(), sort_keys=False, default_flow_style=None))
