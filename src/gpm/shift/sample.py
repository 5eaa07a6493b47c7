"""The nodes that a report looks at, and what the model makes of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from tqdm.auto import tqdm

from gpm.data.domain_data import DomainData, DomainSplit
from gpm.data.splits import Split, is_labelled
from gpm.nn.gnn.gnn_predictor import NetworkPredictor
from gpm.nn.predictor import Predictor, evaluating
from gpm.patterns.tokenizer import Tokenizer
from gpm.patterns.walks import WalkRule
from gpm.random_bits import make_key, mix_array
from gpm.shift.topology_shares import Census

if TYPE_CHECKING:
    from gpm.run.run import Run

_TOGETHER = 1024  # nodes whose patterns are counted in one go, where no model reads them


@dataclass(frozen=True, eq=False)
class Sample:
    """Nodes of both domains.

    Attributes:
        nodes: All of them, ascending `[n]`; the rest are places among these.
        source, target: Those that stand for the domains.
        known_source, known_target: Those with labels, which stand for them where labels are compared.
        val: Of the source's validation part.
        test: Of the target's test part; none if the target has no labels.
        away: Which of the nodes are of the target `[n]`.
        fold: Two halves of the nodes, of each domain alike, 0 or 1 `[n]`.
    """

    nodes: NDArray[np.int64]
    source: NDArray[np.int64]
    target: NDArray[np.int64]
    known_source: NDArray[np.int64]
    known_target: NDArray[np.int64]
    val: NDArray[np.int64]
    test: NDArray[np.int64]
    away: NDArray[np.bool_]
    fold: NDArray[np.int64]

    @property
    def used(self) -> NDArray[np.bool_]:
        """Which nodes stand for the domains `[n]`."""
        mask = np.zeros(len(self.nodes), dtype=np.bool_)
        mask[self.source] = mask[self.target] = True
        return mask


def draw_sample(data: DomainData, split: Split, count: int, seed: int) -> Sample:
    """Draw at most `count` nodes for each purpose; those with the smallest hashes, so that most serve several."""
    key = np.uint64(make_key(seed))
    labelled = is_labelled(data.labels)
    domains = isinstance(split, DomainSplit)
    parts = {
        "source": data.nodes(away=False),
        "target": data.nodes(away=True),
        "known_source": np.flatnonzero(labelled & ~data.away),
        "known_target": np.flatnonzero(labelled & data.away),
        "val": split.other if isinstance(split, DomainSplit) and split.chosen_on == "target" else split.val,
        "test": split.test if domains else np.zeros(0, dtype=np.int64),
    }
    drawn = {name: ids[np.argsort(_hash(ids, key), kind="stable")[:count]] for name, ids in parts.items()}
    nodes = np.unique(np.concatenate(list(drawn.values())))
    away, fold = data.away[nodes], np.zeros(len(nodes), dtype=np.int64)
    for mask in (away, ~away):  # every second one by its hash: any first so many are halved as well
        mine = np.flatnonzero(mask)
        fold[mine[np.argsort(_hash(nodes[mine], key), kind="stable")]] = np.arange(len(mine)) % 2
    places = {name: np.sort(np.searchsorted(nodes, ids)) for name, ids in drawn.items()}
    return Sample(nodes=nodes, away=away, fold=fold, **places)


def _hash(nodes: NDArray, key: np.uint64) -> NDArray[np.uint64]:
    return mix_array(nodes.astype(np.uint64) ^ key)


@dataclass(frozen=True, eq=False)
class Answers:
    """What a model makes of nodes.

    Attributes:
        embedding: `[n, d]`.
        logits: `[n, C]`.
        census: The topologies of their patterns.
    """

    embedding: NDArray[np.float64]
    logits: Tensor
    census: Census


def read_nodes(run: Run, nodes: NDArray, *, progress: bool = False) -> Answers:
    """Read nodes as in inference, and count the topologies of what is read; a baseline's would-be patterns likewise."""
    predictor, census = run.predictor, Census()
    with tqdm(total=len(nodes), unit="node", disable=None if progress else True, leave=False) as bar:
        if isinstance(predictor, Predictor):
            return _read_patterns(predictor, nodes, census, bar)
        assert isinstance(predictor, NetworkPredictor)
        config = run.config
        tokenizer = Tokenizer(
            run.data.graph, lengths=config.lengths, pool=config.pool, topology=config.topology, seed=config.seed,
            rule=WalkRule.from_config(config),
        )  # fmt: skip
        for first in range(0, len(nodes), _TOGETHER):
            census.add(tokenizer.nodes(nodes[first : first + _TOGETHER]), None)
            bar.update(len(nodes[first : first + _TOGETHER]))
        embedding = predictor.embed()[torch.from_numpy(nodes).to(predictor.device)]
        return Answers(_as_array(embedding), predictor.logits(nodes), census)


@torch.inference_mode()
def _read_patterns(predictor: Predictor, nodes: NDArray, census: Census, bar: tqdm) -> Answers:
    pool, size, embedded, logits = predictor.tokenizer.pool, predictor.count_together(), [], []
    with evaluating(predictor.model):
        maps = predictor.map_nodes(predictor.model, pool * len(nodes))
        for first in range(0, len(nodes), size):
            patterns = predictor.tokenize(nodes[first : first + size], pool)
            output = predictor.model(patterns, predictor.table, maps)
            embedded.append(_as_array(output.embedding))
            logits.append(output.logits.float().cpu())
            census.add(patterns, output.weights)
            bar.update(len(patterns.nodes))
    return Answers(np.concatenate(embedded), torch.cat(logits), census)


def _as_array(values: Tensor) -> NDArray[np.float64]:
    return np.asarray(values.double().cpu().numpy())
