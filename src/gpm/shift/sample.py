"""The nodes that a shift report looks at: their features, and what the model computes from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor
from tqdm.auto import tqdm

from gpm.data.column_names import name_columns
from gpm.data.domain_data import DomainData, DomainSplit
from gpm.data.splits import Split, is_labelled
from gpm.graph.coerce import one_hot
from gpm.inference.opened import OpenedRun
from gpm.nn.predictor import Predictor, evaluating
from gpm.patterns.tokenizer import Tokenizer
from gpm.random_bits import make_key, mix_array
from gpm.shift.topology_shares import Census

WIDEST = 64  # columns that the classifier of domains reads: of more, the main directions
_TOGETHER = 1024  # nodes whose patterns are counted at once, where no model reads them


@dataclass(frozen=True, eq=False)
class Sample:
    """Nodes of both domains: their ids, and for each purpose indices into these, or a mask of them."""

    nodes: NDArray[np.int64]  # ascending `[n]`
    source: NDArray[np.int64]  # nodes that stand for the domains
    target: NDArray[np.int64]
    known_source: NDArray[np.int64]  # nodes with labels, where labels are compared
    known_target: NDArray[np.int64]
    val: NDArray[np.int64]  # of the source's validation split
    test: NDArray[np.int64]  # of the target's test split; none if the target has no labels
    away: NDArray[np.bool_]  # mask of the nodes of the target `[n]`
    fold: NDArray[np.int64]  # two halves of the nodes, of each domain alike, 0 or 1 `[n]`

    @property
    def used(self) -> NDArray[np.bool_]:
        """Mask of the nodes that stand for the domains `[n]`."""
        mask = np.zeros(len(self.nodes), dtype=np.bool_)
        mask[self.source] = mask[self.target] = True
        return mask


def draw_sample(data: DomainData, split: Split, count: int, seed: int) -> Sample:
    """Draw at most `count` nodes for each purpose: those with the smallest hashes, so that most serve several."""
    key = np.uint64(make_key(seed))
    labelled = is_labelled(data.labels)
    groups = {
        "source": data.nodes(away=False),
        "target": data.nodes(away=True),
        "known_source": np.flatnonzero(labelled & ~data.away),
        "known_target": np.flatnonzero(labelled & data.away),
        "val": split.other if isinstance(split, DomainSplit) and split.chosen_on == "target" else split.val,
        "test": split.test if isinstance(split, DomainSplit) else np.zeros(0, dtype=np.int64),
    }
    drawn = {name: ids[np.argsort(_hash(ids, key), kind="stable")[:count]] for name, ids in groups.items()}
    nodes = np.unique(np.concatenate(list(drawn.values())))
    away, fold = data.away[nodes], np.zeros(len(nodes), dtype=np.int64)
    for mask in (away, ~away):  # every second one by its hash, so that any first so many are halved as well
        mine = np.flatnonzero(mask)
        fold[mine[np.argsort(_hash(nodes[mine], key), kind="stable")]] = np.arange(len(mine)) % 2
    indices = {name: np.sort(np.searchsorted(nodes, ids)) for name, ids in drawn.items()}
    return Sample(nodes=nodes, away=away, fold=fold, **indices)


def _hash(nodes: NDArray, key: np.uint64) -> NDArray[np.uint64]:
    return mix_array(nodes.astype(np.uint64) ^ key)


@dataclass(frozen=True, eq=False)
class Outputs:
    """Embeddings `[n, d]` and logits `[n, C]` of nodes, and the topologies of their patterns."""

    embedding: NDArray[np.float64]
    logits: Tensor
    census: Census


def read_nodes(run: OpenedRun, nodes: NDArray, *, progress: bool = False) -> Outputs:
    """Read nodes as in inference and count the topologies of their patterns; for a baseline, of those it could read."""
    predictor, census = run.predictor, Census()
    with tqdm(total=len(nodes), unit="node", disable=None if progress else True, leave=False) as bar:
        if isinstance(predictor, Predictor):
            return _read_patterns(predictor, nodes, census, bar)
        config, network = run.config, cast(Any, predictor)  # a network, which embeds all nodes at once
        tokenizer = Tokenizer.from_config(run.data.graph, config)
        for first in range(0, len(nodes), _TOGETHER):
            census.add(tokenizer.nodes(nodes[first : first + _TOGETHER]), None)
            bar.update(len(nodes[first : first + _TOGETHER]))
        embedding = network.embed()[torch.from_numpy(nodes).to(network.device)]
        return Outputs(_as_array(embedding), network.logits(nodes), census)


@torch.inference_mode()
def _read_patterns(predictor: Predictor, nodes: NDArray, census: Census, bar: tqdm) -> Outputs:
    pool, size, embedded, logits = predictor.tokenizer.pool, predictor.count_together(), [], []
    with evaluating(predictor.model):
        maps = predictor.map_nodes(predictor.model, pool * len(nodes))
        for first in range(0, len(nodes), size):
            patterns = predictor.tokenize(nodes[first : first + size], pool)
            output = predictor.model(patterns, predictor.table, maps)
            embedded.append(_as_array(output.embedding))
            logits.append(output.logits.float().cpu())
            walks = patterns.nodes.shape[1]  # expected patterns come after them, and have no topology
            census.add(patterns, None if output.weights is None else output.weights[:, :walks])
            bar.update(len(patterns.nodes))
    return Outputs(np.concatenate(embedded), torch.cat(logits), census)


def _as_array(values: Tensor) -> NDArray[np.float64]:
    return np.asarray(values.double().cpu().numpy())


def read_features(run: OpenedRun, nodes: NDArray) -> tuple[Any, list[str]]:
    """Return the features of nodes as numbers `[n, C]`, dense or sparse, and the names of the columns.

    A category becomes a column per value that these nodes have. The graph must have features.
    """
    x = run.data.graph.x
    assert x is not None
    titles = name_columns(run.config.data, run.folder, x.shape[1])
    rows = x[nodes]
    if sp.issparse(rows):
        return sp.csr_array(rows).astype(np.float64), titles
    rows = np.asarray(rows)
    if not np.issubdtype(rows.dtype, np.integer):
        return rows.astype(np.float64), titles
    columns, values = one_hot(rows)
    return columns, [f"{title} = {value}" for title, each in zip(titles, values, strict=True) for value in each]


def narrow(features: Any, seed: int) -> NDArray[np.float64]:
    """Return features in at most 64 columns: as they are, or along their main directions."""
    if features.shape[1] <= WIDEST:
        return np.asarray(features.toarray() if sp.issparse(features) else features)
    if sp.issparse(features):
        entries = features.tocoo()
        indices, values = torch.from_numpy(np.stack(entries.coords)), torch.from_numpy(entries.data)
        matrix = torch.sparse_coo_tensor(indices, values, entries.shape, check_invariants=False)
    else:
        scale = features.std(axis=0)
        matrix = torch.from_numpy((features - features.mean(axis=0)) / np.where(scale > 0, scale, 1.0))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(make_key(seed) >> 1)
        left, strength, _ = torch.svd_lowrank(matrix, q=min(WIDEST, *features.shape), niter=2)
    return np.asarray((left * strength).numpy())
