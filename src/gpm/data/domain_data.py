"""Two domains: a source, whose labels are learned from, and a target, on which the model is to be used.

They are two graphs side by side in one collection, or two groups of nodes of one graph that differ in degree or in
time. Labels of the target are used for scores and, on request, to choose the epoch; training never reads them.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gpm.data.labels import are_classes, name_some
from gpm.data.node_data import NodeData
from gpm.data.splits import DomainSplit as DomainSplit  # where others look for it
from gpm.data.splits import Protocol, Split, is_labelled, random_split
from gpm.data.task_data import TaskData
from gpm.errors import GpmError
from gpm.graph.coerce import column_ends
from gpm.graph.graph import Graph

HOME_SHARES, AWAY_SHARES = "80/20", "20/80"  # train and validation of the source, validation and test of the target
SHIFTS = ("degree", "time")
SOURCE_SHARE = 0.6  # share of the nodes that are the source of a shift within one graph
_log = logging.getLogger("gpm")


@dataclass(frozen=True, eq=False)
class DomainData(NodeData):
    """Nodes of a source (home) and of a target (away)."""

    away: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))  # nodes of the target `[N]`
    home_title: str = "source"  # name in messages
    away_title: str = "target"
    neither: NDArray[np.bool_] | None = None  # nodes that are in neither domain `[N]`
    home_graphs: int = 0  # graphs of the source, if the target has other graphs; 0 if both are of one graph
    has_domains: ClassVar[bool] = True

    @property
    def scored(self) -> bool:
        """Whether nodes of the target have labels, by which the model can be scored."""
        return bool((is_labelled(self.labels) & self.away).any())

    def nodes(self, away: bool) -> NDArray[np.int64]:
        """Return the nodes of a domain, with labels or without."""
        mine = self.away == away
        return np.flatnonzero(mine if self.neither is None else mine & ~self.neither)

    def statistics_graphs(self, split: Split) -> NDArray[np.int64] | None:
        """Return the graphs of the source; None if both domains are of one graph."""
        return np.arange(self.home_graphs) if self.home_graphs else None

    def learnable_classes(self) -> list[int] | None:
        """Return the classes of the source: labels of the target must not decide which classes there are."""
        if self.labels.ndim > 1:
            return None
        classes: list[int] = np.unique(self.labels[~self.away & (self.labels >= 0)]).tolist()
        return classes

    def prediction_ids(self, split: Split) -> NDArray[np.int64]:
        """Return the test split; if the target has no labels, all its nodes."""
        return split.test if self.scored else self.nodes(away=True)

    def _draw_split(self, seed: int, kind: str, protocol: Protocol, validate: str) -> Split:
        """Draw 80% of the source for training and 20% for validation, 20% of the target for validation and 80% for
        testing. Without labels in the target, the source has a test split.
        """
        if kind:
            raise GpmError(
                f"Source and target have their own splits, {HOME_SHARES} and {AWAY_SHARES}; leave out --split {kind}."
            )
        home = np.flatnonzero(is_labelled(self.labels) & ~self.away)
        if not self.scored:
            if validate == "target":
                raise GpmError(f"{self.away_title} has no labels to choose the epoch by; leave out --validate target.")
            what = f"labelled nodes of {self.home_title}"
            split = random_split(self.labels[home], "60/20/20", seed, are_classes(self.labels), what)
            name = f"source 60/20/20, seed {seed}; the target has no labels"
            return Split(home[split.train], home[split.val], home[split.test], name)
        train, val = self._draw(home, HOME_SHARES, seed, self.home_title)
        away = np.flatnonzero(is_labelled(self.labels) & self.away)
        away_val, test = self._draw(away, AWAY_SHARES, seed, self.away_title)
        chosen, other = (away_val, val) if validate == "target" else (val, away_val)
        name = f"source {HOME_SHARES}, target {AWAY_SHARES}, seed {seed}, chosen on {validate}"
        return DomainSplit(train, chosen, test, name, other, validate)

    def _draw(self, nodes: NDArray, shares: str, seed: int, title: str) -> tuple[NDArray, NDArray]:
        """Divide some nodes at random into two splits, whatever their labels are."""
        first = int(shares.split("/")[0])
        count = round(len(nodes) * first / 100)
        if not 0 < count < len(nodes):
            raise GpmError(f"{len(nodes)} labelled nodes of {title} are too few for {shares}: a split would be empty.")
        drawn = nodes[np.random.Generator(np.random.PCG64((seed, first))).permutation(len(nodes))]
        return drawn[:count], drawn[count:]


def unite(source: TaskData, target: TaskData) -> DomainData:
    """Put two graphs side by side: the nodes of the source come first.

    Features must have the same form and number of columns. Labels of the target may be unknown, but must not be of
    classes that the source does not have.
    """
    if not isinstance(source, NodeData) or not isinstance(target, NodeData):
        raise GpmError("Source and target are for tasks on nodes; train on one of them alone.")
    home, away = source.graph, target.graph
    x = _join_features(home.x, _still(home.x, away.x, source.title), "nodes", source.title, target.title)
    edge_attr = _join_features(home.edge_attr, away.edge_attr, "edges", source.title, target.title)
    if (home.edge_weight is None) != (away.edge_weight is None):
        raise GpmError(
            f"Of {source.title} and {target.title}, only one has edge weights; give weights to both, or to neither."
        )
    if _are_same(home, away):
        raise GpmError(
            f"{target.title} is the very graph of {source.title}; leave it out to test on some of its nodes."
        )
    labels = _join_labels(source, target)
    edges = np.concatenate([home.edge_index(), away.edge_index() + home.num_nodes], axis=1)
    if edge_attr is not None:
        ids = [np.arange(g.num_edges) if g.edge_ids is None else g.edge_ids for g in (home, away)]
        assert home.edge_attr is not None
        edge_attr = edge_attr[np.concatenate([ids[0], ids[1] + home.edge_attr.shape[0]])]
    weights = None if home.edge_weight is None else np.concatenate([home.edge_weight, away.edge_weight])
    names = None
    if home.names is not None or away.names is not None:
        names = [f"{side}:{graph.name(i)}" for side, graph in enumerate((home, away)) for i in range(graph.num_nodes)]
    graph = Graph.from_edges(
        edges, home.num_nodes + away.num_nodes, x=x, edge_attr=edge_attr, edge_weight=weights, duplicates="keep",
        graph_ptr=np.concatenate([_pointer(home), _pointer(away)[1:] + home.num_nodes]), names=names,
    )  # fmt: skip
    return DomainData(
        replace(graph, y=labels), f"{source.title} to {target.title}", metric=source.metric,
        class_names=source.class_names, targets=source.targets, stratify=source.stratify, unseen=target.unseen,
        away=np.arange(graph.num_nodes) >= home.num_nodes, home_title=source.title, away_title=target.title,
        home_graphs=home.num_graphs, named=source.named,
    )  # fmt: skip


def divide(data: TaskData, shift: str, by: NDArray | None = None) -> DomainData:
    """Divide one graph into a source and a target that differ, so that a model can be tried under a shift.

    Of the nodes in the order of their degree, or of their time, the first three fifths are the source: the target has
    the larger degrees, or is later. Equal ones are on the same side. Walks cross from one to the other, as the whole
    graph is there in both domains. The shift "time" needs the time of each node `[N]`; NaN puts a node into neither.
    """
    if not isinstance(data, NodeData):
        raise GpmError(f"--shift {shift} is for tasks on nodes; leave it out.")
    if shift not in SHIFTS:
        raise GpmError(f"There is no shift {shift!r}; choose one of {', '.join(SHIFTS)}.")
    if shift == "degree":
        by = data.graph.degree()
    elif by is None:
        raise GpmError(
            f"{data.title} does not say when its nodes came; --shift time needs a column or an attribute called time, "
            "year, date, node_year or node_time."
        )
    values = np.asarray(by, dtype=np.float64).reshape(-1)
    known = np.isfinite(values)
    if len(values) != data.graph.num_nodes or known.sum() < 10:
        raise GpmError(f"{data.title} has a {shift} for {int(known.sum())} of its nodes only; too few to divide them.")
    border = np.quantile(values[known], SOURCE_SHARE, method="higher")
    if not (values[known] > border).any():  # most are equal to the largest: then these are the target
        border = np.max(values[known & (values < border)], initial=-np.inf)
    away = known & (values > border)
    if not away.any() or not (known & ~away).any():
        raise GpmError(
            f"All nodes of {data.title} have the same {shift}, so they cannot be divided by it; choose another --shift."
        )
    labels = data.labels.copy()
    labels[~known] = -1 if np.issubdtype(labels.dtype, np.integer) else np.nan
    if are_classes(labels):
        _check_classes(labels, away, data, shift)
    sides = ("degree ≤", "degree >") if shift == "degree" else ("until ", "after ")
    titles = [f"{data.title} ({side}{border:g})" for side in sides]
    kept = {key: value for key, value in vars(data).items() if key not in ("graph", "title", "masks", "split")}
    return DomainData(
        replace(data.graph, y=labels), f"{data.title}, shifted by {shift}", **kept, away=away,
        home_title=titles[0], away_title=titles[1], neither=None if known.all() else ~known,
    )  # fmt: skip


def _check_classes(labels: NDArray, away: NDArray, data: NodeData, shift: str) -> None:
    """Warn of classes that only the target has, and remove their labels: they can never be predicted."""
    new = np.setdiff1d(labels[away & (labels >= 0)], labels[~away & (labels >= 0)])
    if new.size:
        _log.warning(
            "%s, shifted by %s: classes %s occur only in the target, so the model cannot learn them; their "
            "nodes are not scored.", data.title, shift, name_some(new),
        )  # fmt: skip
        labels[away & np.isin(labels, new)] = -1


def _are_same(home: Graph, away: Graph) -> bool:
    """Check whether two graphs have the same edges and features: a test would be on the training data."""
    if home.num_nodes != away.num_nodes or not np.array_equal(home.indices, away.indices):
        return False
    one, two = home.x, away.x
    if one is None or two is None or one.shape != two.shape or sp.issparse(one) != sp.issparse(two):
        return one is two
    return not (one != two).nnz if sp.issparse(one) else np.array_equal(one, two, equal_nan=True)


def _pointer(graph: Graph) -> NDArray:
    return np.array([0, graph.num_nodes]) if graph.graph_ptr is None else graph.graph_ptr


def _still(home: Any, away: Any, source: str) -> Any:
    """Return features of the target with columns that are constant in the source set to that constant.

    Training cannot learn them: the model would read them with their initial weights.
    """
    if home is None or away is None or home.shape[1:] != away.shape[1:] or np.issubdtype(home.dtype, np.integer):
        return away
    low, high = (column_ends(home, end) for end in ("min", "max"))
    dead = low == high
    if not dead.any():
        return away
    _log.info("%d of %d columns are constant in %s and are ignored in the target", dead.sum(), len(dead), source)
    if sp.issparse(away) and not low[dead].any():
        return sp.csr_array(away @ sp.diags_array((~dead).astype(away.dtype)))
    dense = np.array(away.toarray() if sp.issparse(away) else away)
    dense[:, dead] = low[dead]
    return dense


def _join_features(home: Any, away: Any, what: str, source: str, target: str) -> Any:
    """Stack the features of both."""
    if home is None and away is None:
        return None
    if home is None or away is None:
        lacking = source if home is None else target
        raise GpmError(f"{lacking} has no features of {what}, which the other has; give both the same columns.")
    if home.shape[1] != away.shape[1]:
        raise GpmError(
            f"{source} has {home.shape[1]:,} columns of features of {what}, {target} has {away.shape[1]:,}; give both "
            "the same columns in the same order."
        )
    whole = [np.issubdtype(part.dtype, np.integer) for part in (home, away)]
    if whole[0] != whole[1]:
        category, number = (source, target) if whole[0] else (target, source)
        raise GpmError(
            f"The features of {what} are whole numbers in {category}, read as categories, and not in {number}; give "
            "both as floats or as integers."
        )
    if sp.issparse(home) or sp.issparse(away):
        return sp.csr_array(sp.vstack([sp.csr_array(home), sp.csr_array(away)]))
    return np.concatenate([home, away])


def _join_labels(source: NodeData, target: NodeData) -> NDArray:
    """Join the labels of both; a target without labels gets unknown ones."""
    home = source.labels
    nothing = -1 if np.issubdtype(home.dtype, np.integer) else np.nan
    away = target.graph.y
    if away is None:
        away = np.full((target.graph.num_nodes, *home.shape[1:]), nothing, dtype=home.dtype)
    if away.ndim != home.ndim or away.shape[1:] != home.shape[1:] or away.dtype.kind != home.dtype.kind:
        raise GpmError(
            f"The labels of {target.title} and {source.title} are of different kinds; give both the same kind."
        )
    if source.class_names and target.class_names and source.class_names != target.class_names:
        away = _rename(away, source, target)
    if are_classes(away):
        strange = np.flatnonzero((away >= 0) & ~np.isin(away, home[home >= 0]))
        if strange.size:
            assert target.graph.y is not None
            number = int(target.graph.y[strange[0]])
            name = target.class_names[number] if target.class_names else number
            raise GpmError(
                f"Node {target.graph.name(int(strange[0]))} of {target.title} is of class {name}, which no node of "
                f"{source.title} is of; a model of {source.title} could never say so. Take such labels out."
            )
    return np.concatenate([home, away.astype(home.dtype)])


def _rename(labels: NDArray, source: NodeData, target: NodeData) -> NDArray:
    """Number the classes of the target as the source does, by name; a new name gets a new number."""
    if labels.ndim > 1:
        raise GpmError(f"The labels of {target.title} and {source.title} have different names; rename them.")
    numbers = {name: number for number, name in enumerate(source.class_names)}
    new = [numbers.get(name, len(numbers) + i) for i, name in enumerate(target.class_names)]
    return np.where(labels >= 0, np.append(new, -1)[labels], -1)
