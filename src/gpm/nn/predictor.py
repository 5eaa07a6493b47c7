"""A model with the graph it reads: instances in, logits out."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from tqdm.auto import tqdm

from gpm.config import Config
from gpm.errors import GpmError
from gpm.graph.graph import Graph
from gpm.nn import FeatureTable, GraphPatternMachine, InputSpec, LinkPatternMachine, Output
from gpm.nn.distinct import find_places
from gpm.nn.positional.encodings import embed_positions
from gpm.nn.semantic_path import TokenMaps
from gpm.patterns.tokenizer import Patterns, Tokenizer
from gpm.patterns.walks import WalkRule

MOST_RESIDENT = 4 << 30  # bytes of graph and features that may be moved to a device
MOST_MAPS = 1 << 30  # bytes that the maps of all nodes may take in inference
POSITIONS = 300_000  # of paths in one forward pass: bounds memory whatever the number of patterns


class Predicts(Protocol):
    """What training and runs ask of a model on its graph, whatever kind of model it is."""

    @property
    def model(self) -> Any: ...
    def prepare(self, inputs: Tensor, turn: int, rows: Tensor | None = None) -> tuple[Any, dict[str, float]]: ...
    def compute(self, content: Any, model: nn.Module | None = None) -> Tensor: ...
    def learn(self, inputs: Tensor, turn: int, model: nn.Module | None = None) -> Tensor: ...
    def logits(
        self, inputs: Any, *, patterns: int | None = None, model: Any = None, progress: bool = False
    ) -> Tensor: ...
    def look_ahead(self, total: int, patterns: int | None = None) -> Predicts: ...
    def count_together(self, patterns: int | None = None) -> int: ...


@dataclass(frozen=True)
class Reading:
    """The patterns of some instances and the features that they touch, and no more of the graph.

    Attributes:
        patterns: Whose nodes and edges are numbered as the table's rows are.
        table: Those rows.
    """

    patterns: Patterns
    table: FeatureTable

    @classmethod
    def of(cls, patterns: Patterns, table: FeatureTable) -> Reading:
        """Gather what patterns touch from the table of the whole graph."""
        distinct, nodes = map(torch.from_numpy, find_places(patterns.nodes.numpy(), table.num_nodes))
        if patterns.edges is None or table.edge is None:
            part = table.take(distinct)
            part.exact = True
            return cls(replace(patterns, nodes=nodes), part)
        rows = patterns.edges.long()
        crossed = rows >= 0
        rows = rows[crossed] if table.edge_row is None else table.edge_row[rows[crossed]]
        edges, at = torch.unique(rows, return_inverse=True)
        ids = torch.full(crossed.shape, -1, dtype=torch.int64).masked_scatter_(crossed, at)
        return cls(replace(patterns, nodes=nodes, edges=ids), table.take(distinct, edges))

    def to(self, device: torch.device | str) -> Reading:
        """The same on another device."""
        return Reading(self.patterns.to(device), self.table.to(device))


@dataclass(frozen=True, eq=False)
class Reader:
    """Draws the patterns of instances and gathers the features that they touch: all of a predictor but its model, so
    that it goes to another process at little cost.

    Attributes:
        tokenizer, table, level, count, forbid: As of a `Predictor`.
        joint: The patterns of the ends of a link are marked by where they meet.
    """

    tokenizer: Tokenizer
    table: FeatureTable
    level: str
    count: int
    forbid: bool
    joint: bool

    def tokenize(self, inputs: Any, count: int, turn: int = 0, share: tuple[int, int] = (0, 1)) -> Patterns:
        """The patterns of some instances: nodes `[B]`, graphs `[B]` or pairs `[B, 2]`."""
        if self.level == "link":
            return self.tokenizer.links(
                inputs, count=count, turn=turn, forbid=self.forbid, marks=self.joint, share=share
            )
        draw = self.tokenizer.graphs if self.level == "graph" else self.tokenizer.nodes
        return draw(inputs, count=count, turn=turn)

    def prepare(self, inputs: Tensor, turn: int, rows: Tensor | None = None) -> tuple[Reading, dict[str, float]]:
        """What the model reads of some instances in a training step, and the seconds that it took.

        Args:
            inputs: The instances.
            turn: Number of the step.
            rows: Their places among all instances of the step.
        """
        began = time.perf_counter()
        patterns = replace(self.tokenize(inputs, self.count, turn), rows=rows)
        drawn = time.perf_counter()
        device = patterns.nodes.device
        if device.type != "cpu":  # the graph lives there, with its features
            patterns = replace(patterns, rows=None if rows is None else rows.to(device))
            return Reading(patterns, self.table), {"sampling": drawn - began}
        reading = Reading.of(patterns, self.table)
        return reading, {"sampling": drawn - began, "gathering": time.perf_counter() - drawn}


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """The model without dropout while the block runs."""
    mode = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(mode)


@dataclass(eq=False)
class Predictor:
    """Tokenizer, features and model of one graph, or of a collection of graphs.

    Attributes:
        model: The model.
        tokenizer: Draws the patterns of instances.
        table: The graph's features.
        level: What an instance is: a node, a link or a graph.
        count: m, patterns per instance in training.
        forbid: A link's own edge is hidden from its patterns.
        maps: The maps of all nodes, where they were made ahead, see `look_ahead`.
    """

    model: GraphPatternMachine
    tokenizer: Tokenizer
    table: FeatureTable
    level: str = "node"
    count: int = 16
    forbid: bool = True
    maps: TokenMaps | None = None

    @classmethod
    def build(
        cls,
        config: Config,
        graph: Graph,
        outputs: int,
        level: str = "node",
        *,
        inputs: InputSpec | None = None,
        device: torch.device | str = "cpu",
        seen: NDArray | None = None,
        stream: bool = False,
    ) -> Predictor:
        """Make a model for a graph, with fresh weights.

        Args:
            config: The options.
            graph: What is walked.
            outputs: C, the classes or targets.
            level: What an instance is.
            inputs: What a trained model reads; without it, statistics are found.
            device: Where to compute.
            seen: Of a collection, the graphs that statistics may be taken from; by default all.
            stream: Walk and gather on the host, and bring to the device what a batch touches; a graph of gigabytes is
                always read so.
        """
        home = "cpu" if stream or graph.nbytes + count_bytes(graph.x) > MOST_RESIDENT else device
        table = make_table(config, graph, inputs, home)
        nodes = None if seen is None else nodes_of(graph, seen)
        spec = inputs or (table if nodes is None else table.restrict(graph, nodes)).spec()
        tokenizer = Tokenizer(
            graph, lengths=config.lengths, pool=config.pool, topology=config.topology, seed=config.seed,
            rule=WalkRule.from_config(config), device=home,
        )  # fmt: skip
        model = make_machine(config, spec, outputs, level).to(device)
        model.machine.checkpointing = config.checkpointing
        if inputs is None:
            model.fit(table, tokenizer, nodes)
        return cls(model, tokenizer, table, level, config.patterns, config.protocol == "strict")

    @property
    def reader(self) -> Reader:
        """What reads the graph for the model."""
        joint = isinstance(self.model, LinkPatternMachine) and self.model.pair == "joint"
        return Reader(self.tokenizer, self.table, self.level, self.count, self.forbid, joint)

    def tokenize(self, inputs: Any, count: int, turn: int = 0, share: tuple[int, int] = (0, 1)) -> Patterns:
        """The patterns of some instances: nodes `[B]`, graphs `[B]` or pairs `[B, 2]`."""
        return self.reader.tokenize(inputs, count, turn, share)

    def prepare(self, inputs: Tensor, turn: int, rows: Tensor | None = None) -> tuple[Reading, dict[str, float]]:
        """What the model reads of some instances in a training step, see `Reader.prepare`."""
        return self.reader.prepare(inputs, turn, rows)

    def compute(self, content: Reading, model: nn.Module | None = None) -> Tensor:
        """Logits of a training step, with gradients."""
        return self.read(content, model).logits

    def read(self, content: Reading, model: nn.Module | None = None) -> Output:
        """All that the model says in a training step, with gradients."""
        output: Output = (model or self.model)(content.patterns, content.table)
        return output

    def learn(self, inputs: Tensor, turn: int, model: nn.Module | None = None) -> Tensor:
        """Logits of a training step of one process, with gradients."""
        return self.compute(self.prepare(inputs, turn)[0].to(self.model.input_map.bias.device), model)

    def map_nodes(self, model: GraphPatternMachine, patterns: int) -> TokenMaps | None:
        """The maps of all nodes, if so many patterns are to be read that it pays and they fit into memory."""
        if self.maps is not None and model is self.model:
            return self.maps
        positions = patterns * (sum(self.tokenizer.lengths) / len(self.tokenizer.lengths) + 1)
        options = model.options
        columns = 4 + 2 * options.path_ffn if model.is_plain else 1
        size = 4 * columns * self.table.num_nodes * (options.width or 0)
        return model.map_all_nodes(self.table) if positions > self.table.num_nodes and size < MOST_MAPS else None

    def look_ahead(self, total: int, patterns: int | None = None) -> Predictor:
        """The same, with what it would make for so many instances, for those who ask for a few of them at a time."""
        count, rounds = self.portion(patterns)
        read = 2 * total if self.level == "link" else total
        if self._is_product:
            read = min(read, self.table.num_nodes)
        with evaluating(self.model):
            return replace(self, maps=self.map_nodes(self.model, count * rounds * read))

    def count_together(self, patterns: int | None = None) -> int:
        """How many instances one forward pass reads.

        The last bits of an answer depend on which others are read with it: they are the same where all of these are.
        Pairs by `product` are not read in turn; of them it is 1.
        """
        return 1 if self._is_product else self._batch(self.portion(patterns)[0])

    @property
    def _is_product(self) -> bool:
        return isinstance(self.model, LinkPatternMachine) and self.model.pair == "product"

    def _batch(self, count: int) -> int:
        ends = 2 if self.level == "link" else 1
        return max(1, POSITIONS // (ends * count * (max(self.tokenizer.lengths) + 1)))

    @torch.inference_mode()
    def outputs(
        self,
        inputs: Any,
        *,
        patterns: int | None = None,
        turn: int = 0,
        model: GraphPatternMachine | None = None,
        progress: bool = False,
        share: tuple[int, int] = (0, 1),
        maps: TokenMaps | None = None,
    ) -> Iterator[Output]:
        """What the model says of some instances, batch by batch, from all k patterns or from fewer."""
        count = self.tokenizer.pool if patterns is None else patterns
        model = self.model if model is None else model
        ends, size = 2 if self.level == "link" else 1, self._batch(count)
        with evaluating(model):
            maps = self.map_nodes(model, ends * count * len(inputs)) if maps is None else maps
            with tqdm(total=len(inputs), unit=self.level, disable=None if progress else True, leave=False) as bar:
                for first in range(0, len(inputs), size):
                    chosen = inputs[first : first + size]
                    yield model(self.tokenize(chosen, count, turn, share), self.table, maps)
                    bar.update(len(chosen))

    def logits(
        self,
        inputs: Any,
        *,
        patterns: int | None = None,
        model: GraphPatternMachine | None = None,
        progress: bool = False,
    ) -> Tensor:
        """Logits `[B, C]` of some instances, on the host.

        Pairs by `product` read embeddings that are computed once for every node among them. Pairs by `joint` are read
        as in training, from m patterns at a time, since marks depend on their number; the logits of such shares of the
        pool are averaged.
        """
        model = self.model if model is None else model
        given = np.asarray(inputs)
        if not isinstance(model, LinkPatternMachine):
            return self._gather(given, patterns=patterns, model=model, progress=progress)
        if model.pair == "product":
            return self._join(given, patterns, model, progress)
        count, rounds = self.portion(patterns)
        with evaluating(model):
            maps = self.map_nodes(model, 2 * count * rounds * len(given))
        shared: dict[str, Any] = {"patterns": count, "model": model, "progress": progress, "maps": maps}
        parts = [self._gather(given, share=(i, rounds), **shared) for i in range(rounds)]
        return torch.stack(parts).mean(0)

    def portion(self, patterns: int | None = None) -> tuple[int, int]:
        """How many patterns are read at a time in inference, and how many times."""
        least, most = len(self.tokenizer.lengths), self.tokenizer.pool
        wanted = most if patterns is None else patterns
        if not least <= wanted <= most:
            raise GpmError(f"patterns must lie between {least} (one per length) and the pool's {most}, got {wanted}.")
        if isinstance(self.model, LinkPatternMachine) and self.model.pair == "joint":
            return min(self.count, wanted), max(1, wanted // self.count)
        return wanted, 1

    def _gather(self, inputs: NDArray, **options: Any) -> Tensor:
        parts = [out.logits.float().cpu() for out in self.outputs(inputs, **options)]
        return torch.cat(parts) if parts else torch.zeros(0, self.model.outputs)

    @torch.inference_mode()
    def embed_nodes(
        self, nodes: NDArray, *, patterns: int | None = None, model: GraphPatternMachine | None = None,
        progress: bool = False,
    ) -> Tensor:  # fmt: skip
        """Embeddings of nodes `[B, d]`, each from its own patterns."""
        count = self.tokenizer.pool if patterns is None else patterns
        model = self.model if model is None else model
        size = max(1, POSITIONS // (count * (max(self.tokenizer.lengths) + 1)))
        parts = []
        with evaluating(model):
            maps = self.map_nodes(model, count * len(nodes))
            with tqdm(total=len(nodes), unit="node", disable=None if progress else True, leave=False) as bar:
                for first in range(0, len(nodes), size):
                    chosen = nodes[first : first + size]
                    parts.append(model.embed(self.tokenizer.nodes(chosen, count=count), self.table, maps)[0])
                    bar.update(len(chosen))
        return torch.cat(parts) if parts else torch.zeros(0, model.options.width or 0)

    @torch.inference_mode()
    def _join(self, pairs: NDArray, patterns: int | None, model: LinkPatternMachine, progress: bool) -> Tensor:
        """Scores of pairs from embeddings that are computed once per node."""
        if not len(pairs):
            return torch.zeros(0, 1)
        nodes, places = np.unique(pairs, return_inverse=True)
        embedded = self.embed_nodes(nodes, patterns=patterns, model=model, progress=progress)
        ends = torch.from_numpy(places.reshape(-1, 2)).to(embedded.device)
        with evaluating(model):
            parts = [model.join(*embedded[part].unbind(1)).float().cpu() for part in torch.split(ends, 65_536)]
        return torch.cat(parts) if parts else torch.zeros(0, 1)


def nodes_of(graph: Graph, graphs: NDArray) -> NDArray[np.int64]:
    """The nodes of some graphs of a collection, ascending."""
    assert graph.graph_ptr is not None
    chosen = np.zeros(graph.num_graphs, dtype=bool)
    chosen[graphs] = True
    return np.flatnonzero(np.repeat(chosen, np.diff(graph.graph_ptr)))


def count_bytes(features: Any) -> int:
    """What features take."""
    if features is None:
        return 0
    return int(features.data.nbytes + features.indices.nbytes if sp.issparse(features) else features.nbytes)


def make_machine(config: Config, inputs: InputSpec, outputs: int, level: str) -> GraphPatternMachine:
    """The model that reads such inputs, with fresh weights."""
    longest = max(config.lengths)
    if level == "link":
        return LinkPatternMachine(inputs, config, longest, config.topology, config.pair)
    return GraphPatternMachine(inputs, config, outputs, longest, config.topology)


def make_table(
    config: Config, graph: Graph, inputs: InputSpec | None = None, device: torch.device | str = "cpu"
) -> FeatureTable:
    """The features that a model reads of a graph; they must go with `inputs` if that is given."""
    wanted = {"auto": None, "yes": True, "no": False}[config.bag_of_words] if inputs is None else inputs.bags
    pe = embed_positions(graph, config.pe, config.pe_dim)
    table = FeatureTable(graph, pe, device, features=config.features, stars=config.stars, bags=wanted)
    if inputs is not None:
        table.check(inputs)
    return table
