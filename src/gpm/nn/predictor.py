"""What training and inference ask of a model on its graph, and the pattern machine with the graph it reads."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sized
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Self, TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from tqdm.auto import tqdm

from gpm.compute import steady_threads
from gpm.config import Config
from gpm.errors import GpmError
from gpm.graph.graph import Graph
from gpm.nn.expected_links import ExpectedLinks
from gpm.nn.expected_table import Answers, ExpectedTable, spread_answers
from gpm.nn.feature_table import FeatureTable, InputSpec, count_bytes, nodes_of
from gpm.nn.link_table import LinkTable
from gpm.nn.model import GraphPatternMachine, LinkPatternMachine, Output
from gpm.nn.reading import Reading
from gpm.nn.semantic_path import TokenMaps
from gpm.patterns.tokenizer import Patterns, Tokenizer

MOST_RESIDENT = 4 << 30  # bytes of graph and features that may be moved to a device
MOST_MAPS = 1 << 30  # bytes that the maps of all nodes may take in inference
ROWS = 65_536  # instances whose linear part is computed at a time
POSITIONS = 300_000  # path positions in one forward pass: bounds memory for any number of patterns
_Batch = TypeVar("_Batch", bound=Sized)


class Predicts(ABC):
    """A model with the graph it reads: instances in, logits out."""

    model: Any

    @property
    def device(self) -> torch.device:
        """Device of the model."""
        return self.model.input_map.bias.device

    @abstractmethod
    def prepare(self, inputs: Tensor, turn: int, rows: Tensor | None = None) -> tuple[Any, dict[str, float]]:
        """Return what the model reads of some instances in step `turn` of a training, and the seconds that it took.

        `rows` are the indices of the instances among all instances of the step, over all ranks.
        """

    @abstractmethod
    def compute(self, content: Any, model: nn.Module | None = None) -> Tensor:
        """Return the logits of a training step, with gradients, from what `prepare` returned."""

    @property
    def linear_share(self) -> float | None:
        """Share of the linear part in the logits, if it is mixed in after training; else None."""
        known = getattr(self.model, "expected", None)
        return round(float(known.share), 6) if known is not None and known.linear == "blend" else None

    def set_linear_share(self, share: float) -> None:
        """Set the share of the linear part in the logits, if there is one."""
        if self.linear_share is not None:
            self.model.expected.share.fill_(share)

    def linear_logits(self, inputs: NDArray) -> Tensor | None:
        """Return the logits `[B, C]` of the linear part alone, if it is mixed in after training, on the host."""
        return None

    def learn(self, inputs: Tensor, turn: int, model: nn.Module | None = None) -> Tensor:
        """Return the logits of a training step of a single process, with gradients."""
        return self.compute(self.prepare(inputs, turn)[0].to(self.device), model)

    @abstractmethod
    def logits(self, inputs: Any, *, patterns: int | None = None, model: Any = None, progress: bool = False) -> Tensor:
        """Return the logits `[B, C]` of nodes `[B]`, graphs `[B]` or pairs `[B, 2]`, on the host."""

    @abstractmethod
    def look_ahead(self, total: int, patterns: int | None = None) -> Self:
        """Return a predictor that computes once what `total` instances share, for reading a few of them at a time."""

    @abstractmethod
    def count_together(self, patterns: int | None = None) -> int:
        """Return how many instances one forward pass reads, or 1 if batches are not taken in order.

        The last bits of a prediction depend on the other instances of its batch.
        """


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Switch dropout off while the block runs."""
    mode = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(mode)


def show_progress(batches: Iterable[_Batch], total: int, unit: str, progress: bool) -> Iterator[_Batch]:
    """Yield batches and show a bar of how many of `total` instances are done."""
    with tqdm(total=total, unit=unit, disable=None if progress else True, leave=False) as bar:
        for batch in batches:
            yield batch
            bar.update(len(batch))


@dataclass(eq=False)
class Predictor(Predicts):
    """Tokenizer, features and model of one graph, or of a collection of graphs."""

    model: GraphPatternMachine
    tokenizer: Tokenizer
    table: FeatureTable
    level: str = "node"  # what an instance is: a node, a link or a graph
    count: int = 16  # m, patterns per instance in training
    forbid: bool = True  # hide a link's own edge from its patterns
    maps: TokenMaps | None = None  # maps of all nodes, see `look_ahead`
    expected: ExpectedTable | LinkTable | None = None  # what is known exactly of the instances
    joint: bool | None = None  # mark where the patterns of a link's two ends meet; by default as the model has it

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
        answers: Answers | None = None,
        kept: Mapping[str, NDArray] = MappingProxyType({}),
        descriptors: NDArray | None = None,
    ) -> Predictor:
        """Make a model for a graph, with fresh weights.

        Statistics are computed from the graph, of a collection from the graphs `seen` alone, unless the `inputs` of a
        trained model are given. With `stream`, walks and features stay on the host, and only what a batch touches is
        moved to the device; a graph of gigabytes is always read so. `answers` are known labels, as inputs and for the
        linear part; `kept` are arrays of a trained model, see `ExpectedTable.build`; `descriptors` are
        numbers that come with the graphs of a collection.
        """
        home = "cpu" if stream or graph.nbytes + count_bytes(graph.x) > MOST_RESIDENT else device
        table = FeatureTable.build(config, graph, inputs, home)
        nodes = None if seen is None else nodes_of(graph, seen)
        known: dict[str, Any] = {"inputs": inputs, "kept": kept}
        expected: ExpectedTable | LinkTable | None
        if level == "link":
            expected = LinkTable.build(config, graph, config.protocol == "strict", **known)
        else:
            expected = ExpectedTable.build(config, graph, level, answers, seen=nodes, descriptors=descriptors, **known)
        if config.labels == "on" and level == "node":
            assert answers is not None
            table.show_labels(*spread_answers(answers, graph.num_nodes))
        spec = inputs or (table if nodes is None else table.restrict(graph, nodes)).spec()
        if inputs is None and expected is not None:
            spec = expected.describe(spec)
        tokenizer = Tokenizer.from_config(graph, config, home)
        model = make_machine(config, spec, outputs, level).to(device)
        model.machine.checkpointing = config.checkpointing
        if inputs is None:
            model.fit(table, tokenizer, nodes)
            if isinstance(expected, ExpectedTable) and model.expected is not None:
                expected = model.expected.fit(expected, answers)
            elif isinstance(expected, LinkTable):
                cast(ExpectedLinks, model.expected).fit_links(expected)
        forbid = config.protocol == "strict"
        return cls(model, tokenizer, table, level, config.patterns, forbid, expected=expected)

    def __post_init__(self) -> None:
        if self.joint is None:
            self.joint = isinstance(self.model, LinkPatternMachine) and self.model.pair == "joint"

    @torch.inference_mode()
    def linear_logits(self, inputs: NDArray) -> Tensor | None:
        known, table = self.model.expected, self.expected
        if self.linear_share is None or known is None or table is None:
            return None
        parts = (table.take(ids).to(self.device) for ids in _split(inputs, ROWS))
        return torch.cat([known.read_linear(known.standardise(part)).cpu() for part in parts])

    @property
    def reader(self) -> Predictor:
        """The predictor without its model: what another process needs to prepare batches."""
        return replace(self, model=None, maps=None)  # type: ignore[arg-type]

    def tokenize(self, inputs: Any, count: int, turn: int = 0, share: tuple[int, int] = (0, 1)) -> Patterns:
        """Draw the patterns of nodes `[B]`, graphs `[B]` or pairs `[B, 2]`."""
        if self.level == "link":
            marks = bool(self.joint)
            drawn = self.tokenizer.links(inputs, count=count, turn=turn, forbid=self.forbid, marks=marks, share=share)
            return self._know(drawn, inputs)
        draw = self.tokenizer.graphs if self.level == "graph" else self.tokenizer.nodes
        return self._know(draw(inputs, count=count, turn=turn), inputs)

    def _know(self, patterns: Patterns, inputs: Any) -> Patterns:
        """Add what is known of instances to their patterns."""
        if self.table.label is not None:
            own = torch.from_numpy(np.array(inputs)).to(patterns.nodes)
            patterns = replace(patterns, own=own)
        if self.expected is None:
            return patterns
        return replace(patterns, expected=self.expected.take(inputs).to(patterns.nodes.device))

    def prepare(self, inputs: Tensor, turn: int, rows: Tensor | None = None) -> tuple[Reading, dict[str, float]]:
        """Draw the patterns of a training step and gather the features that they touch; see `Predicts.prepare`."""
        began = time.perf_counter()
        patterns = replace(self.tokenize(inputs, self.count, turn), rows=rows)
        if isinstance(self.expected, ExpectedTable):
            values, correction = self.expected.take_training(inputs, self.tokenizer.seed, turn)
            patterns = replace(patterns, expected=values, correction=correction)
        drawn = time.perf_counter()
        device = patterns.nodes.device
        if device.type != "cpu":  # the graph lives there, with its features
            patterns = replace(patterns, rows=None if rows is None else rows.to(device))
            return Reading(patterns, self.table), {"sampling": drawn - began}
        reading = Reading.of(patterns, self.table)
        return reading, {"sampling": drawn - began, "gathering": time.perf_counter() - drawn}

    def compute(self, content: Reading, model: nn.Module | None = None) -> Tensor:
        """Return the logits of a training step, with gradients."""
        return self.read(content, model).logits

    def read(self, content: Reading, model: nn.Module | None = None) -> Output:
        """Return the output of the model in a training step, with gradients."""
        return (model or self.model)(content.patterns, content.table)

    def map_nodes(self, model: GraphPatternMachine, patterns: int) -> TokenMaps | None:
        """Return the maps of all nodes, if they fit into memory and pay for so many patterns; else None."""
        if self.maps is not None and model is self.model:
            return self.maps
        positions = patterns * (sum(self.tokenizer.lengths) / len(self.tokenizer.lengths) + 1)
        options = model.options
        columns = 4 + 2 * options.path_ffn if model.is_plain else 1
        size = 4 * columns * self.table.num_rows * (options.width or 0)
        return model.map_all_nodes(self.table) if positions > self.table.num_rows and size < MOST_MAPS else None

    def look_ahead(self, total: int, patterns: int | None = None) -> Predictor:
        """Return a predictor with the maps of all nodes, if they pay for `total` instances."""
        count, rounds = self.portion(patterns)
        read = 2 * total if self.level == "link" else total
        if self._is_product:
            read = min(read, self.table.num_nodes)
        with evaluating(self.model):
            return replace(self, maps=self.map_nodes(self.model, count * rounds * read))

    def count_together(self, patterns: int | None = None) -> int:
        """Return how many instances one forward pass reads; 1 for pairs by `product`, which are not read in order."""
        return 1 if self._is_product else self._batch(self.portion(patterns)[0])

    @property
    def _is_product(self) -> bool:
        return self.level == "link" and not self.joint

    def _batch(self, count: int, ends: int | None = None) -> int:
        ends = ends or (2 if self.level == "link" else 1)
        return max(1, POSITIONS // (ends * count * (max(self.tokenizer.lengths) + 1)))

    @torch.inference_mode()
    def outputs(
        self,
        inputs: Any,
        *,
        patterns: int | None = None,
        model: GraphPatternMachine | None = None,
        progress: bool = False,
        share: tuple[int, int] = (0, 1),
        maps: TokenMaps | None = None,
    ) -> Iterator[Output]:
        """Yield the output of the model for some instances, batch by batch, from all k patterns or from fewer."""
        count = self.tokenizer.pool if patterns is None else patterns
        model = self.model if model is None else model
        ends = 2 if self.level == "link" else 1
        with evaluating(model), steady_threads():
            maps = self.map_nodes(model, ends * count * len(inputs)) if maps is None else maps
            for batch in show_progress(_split(inputs, self._batch(count)), len(inputs), self.level, progress):
                yield model(self.tokenize(batch, count, share=share), self.table, maps)

    def logits(self, inputs: Any, *, patterns: int | None = None, model: Any = None, progress: bool = False) -> Tensor:
        """Return the logits `[B, C]` of some instances, on the host.

        Pairs by `product` are scored from embeddings that are computed once per node. Pairs by `joint` are read as in
        training, from m patterns at a time, since marks depend on their number; the logits of such shares of the pool
        are averaged.
        """
        model = self.model if model is None else model
        inputs = np.asarray(inputs)
        if not isinstance(model, LinkPatternMachine):
            return self._gather(inputs, patterns=patterns, model=model, progress=progress)
        if model.pair == "product":
            return self._join(inputs, patterns, model, progress)
        count, rounds = self.portion(patterns)
        with evaluating(model):
            maps = self.map_nodes(model, 2 * count * rounds * len(inputs))
        shared: dict[str, Any] = {"patterns": count, "model": model, "progress": progress, "maps": maps}
        parts = [self._gather(inputs, share=(i, rounds), **shared) for i in range(rounds)]
        return torch.stack(parts).mean(0)

    def portion(self, patterns: int | None = None) -> tuple[int, int]:
        """Return how many patterns inference reads at a time, and how many times."""
        least, most = len(self.tokenizer.lengths), self.tokenizer.pool
        wanted = most if patterns is None else patterns
        if not least <= wanted <= most:
            raise GpmError(f"patterns must lie between {least} (one per length) and the pool's {most}, got {wanted}.")
        return (min(self.count, wanted), max(1, wanted // self.count)) if self.joint else (wanted, 1)

    def _gather(self, inputs: NDArray, **options: Any) -> Tensor:
        parts = [out.logits.float().cpu() for out in self.outputs(inputs, **options)]
        return torch.cat(parts) if parts else torch.zeros(0, self.model.outputs)

    @torch.inference_mode()
    def embed_nodes(
        self, nodes: NDArray, *, patterns: int | None = None, model: GraphPatternMachine | None = None,
        progress: bool = False,
    ) -> Tensor:  # fmt: skip
        """Return the embeddings of nodes `[B, d]`, each from its own patterns."""
        count = self.tokenizer.pool if patterns is None else patterns
        model = self.model if model is None else model
        with evaluating(model):
            maps = self.map_nodes(model, count * len(nodes))
            batches, draw = _split(nodes, self._batch(count, ends=1)), self.tokenizer.nodes
            batches = show_progress(batches, len(nodes), "node", progress)
            parts = [model.embed(self._know(draw(batch, count=count), batch), self.table, maps)[0] for batch in batches]
        return torch.cat(parts) if parts else torch.zeros(0, model.options.width or 0)

    @torch.inference_mode()
    def _join(self, pairs: NDArray, patterns: int | None, model: LinkPatternMachine, progress: bool) -> Tensor:
        """Score pairs from embeddings that are computed once per node."""
        if not len(pairs):
            return torch.zeros(0, 1)
        nodes, inverse = np.unique(pairs, return_inverse=True)
        embedded = self.embed_nodes(nodes, patterns=patterns, model=model, progress=progress)
        ends = torch.from_numpy(inverse.reshape(-1, 2)).to(embedded.device)
        with evaluating(model):
            return torch.cat([model.join(*embedded[part].unbind(1)).float().cpu() for part in ends.split(65_536)])


def _split(inputs: Any, size: int) -> Iterator[Any]:
    return (inputs[first : first + size] for first in range(0, len(inputs), size))


def make_machine(config: Config, inputs: InputSpec, outputs: int, level: str) -> GraphPatternMachine:
    """Make the pattern machine that reads such inputs, with fresh weights."""
    longest = max(config.lengths)
    if level == "link":
        return LinkPatternMachine(inputs, config, longest, config.topology, config.pair)
    return GraphPatternMachine(inputs, config, outputs, longest, config.topology, drawn=config.patterns)
