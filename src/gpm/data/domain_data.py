"""Two domains: a source, whose labels are learned from, and a target, on which the model is to be used.

They are two graphs side by side in one collection, or two groups of nodes of one graph that differ in degree or in
time. Labels of the target are there to be scored, and for the one who asks for it to choose the epoch by; training
never reads them.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gpm.data.align_columns import align
from gpm.data.catalog import CATALOG, spell
from gpm.data.graph_files import load_graph
from gpm.data.imported import is_imported, load_imported
from gpm.data.node_data import NodeData, build_node_data, load_node_data
from gpm.data.splits import Split, is_labelled, name_some, random_split
from gpm.errors import GpmError
from gpm.graph.coerce import column_ends
from gpm.graph.folder import HEADER, read_extras
from gpm.graph.graph import Graph

HOME_SHARES, AWAY_SHARES = "80/20", "20/80"  # train and validation of the source, validation and test of the target
_log = logging.getLogger("gpm")
SHIFTS = ("degree", "time")
SOURCE_SHARE = 0.6  # of the nodes are the source of a shift within one graph


@dataclass(frozen=True, eq=False)
class DomainSplit(Split):
    """Parts of two domains. `train` is of the source, `test` of the target, `val` of the one that chooses the epoch.

    Attributes:
        other: The part of the other domain by which the epoch might have been chosen instead.
        chosen_on: Whose nodes are in `val`: "source" or "target".
    """

    other: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    chosen_on: str = "source"

    def __post_init__(self) -> None:
        super().__post_init__()
        other = np.sort(np.asarray(self.other, dtype=np.int64))
        other.flags.writeable = False
        object.__setattr__(self, "other", other)
        held = np.concatenate([self.train, self.val, self.test])
        if np.isin(other, held).any() or (other.size and other[0] < 0):
            raise GpmError(f"a node of the split {self.name!r} is in two parts; put each into one only.")
        if self.chosen_on not in ("source", "target"):
            raise GpmError(f"the split {self.name!r} is chosen on {self.chosen_on!r}, which is no domain.")

    def extras(self) -> dict[str, NDArray]:
        return {"other": self.other.astype("<i8"), "chosen_on": np.array(self.chosen_on)}


@dataclass(frozen=True, eq=False)
class DomainData(NodeData):
    """Nodes of a source and of a target.

    Attributes:
        away: Which nodes are of the target `[N]`.
        home_title, away_title: The two domains in print.
        neither: Nodes that are in none of the two `[N]`; None for no such node.
        home_graphs: How many graphs the source has, where the target has others; 0 if both are of one graph.
    """

    away: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    home_title: str = "source"
    away_title: str = "target"
    neither: NDArray[np.bool_] | None = None
    home_graphs: int = 0

    @property
    def scored(self) -> bool:
        """Whether nodes of the target have labels to be scored by."""
        return bool((is_labelled(self.labels) & self.away).any())

    def nodes(self, away: bool) -> NDArray[np.int64]:
        """The nodes of a domain, with labels or without."""
        mine = self.away == away
        return np.flatnonzero(mine if self.neither is None else mine & ~self.neither)

    def make_split(self, seed: int, kind: str = "", chosen_on: str = "source") -> Split:
        """Four fifths of the source train and one validates; a fifth of the target validates, and the rest tests.

        Without labels in the target there is nothing to test there: the source has a test part then.

        Args:
            seed: Of the draw.
            kind: Has to be empty: the parts are these.
            chosen_on: The domain by whose validation part the epoch is chosen.
        """
        if kind:
            raise GpmError(
                f"source and target have their own parts, {HOME_SHARES} and {AWAY_SHARES}; leave out --split {kind}."
            )
        classes = self.labels.ndim == 1 and np.issubdtype(self.labels.dtype, np.integer)
        home = np.flatnonzero(is_labelled(self.labels) & ~self.away)
        if not self.scored:
            if chosen_on == "target":
                raise GpmError(f"{self.away_title} has no labels to choose the epoch by; leave out --validate target.")
            split = random_split(self.labels[home], "60/20/20", seed, classes, f"labelled nodes of {self.home_title}")
            name = f"source 60/20/20, seed {seed}; the target has no labels"
            return Split(home[split.train], home[split.val], home[split.test], name)
        train, val = self._draw(home, HOME_SHARES, seed, self.home_title)
        away = np.flatnonzero(is_labelled(self.labels) & self.away)
        away_val, test = self._draw(away, AWAY_SHARES, seed, self.away_title)
        chosen, other = (away_val, val) if chosen_on == "target" else (val, away_val)
        name = f"source {HOME_SHARES}, target {AWAY_SHARES}, seed {seed}, chosen on {chosen_on}"
        return DomainSplit(train, chosen, test, name, other, chosen_on)

    def _draw(self, nodes: NDArray, shares: str, seed: int, title: str) -> tuple[NDArray, NDArray]:
        """Two parts of some nodes, drawn whatever their labels are."""
        first = int(shares.split("/")[0])
        count = round(len(nodes) * first / 100)
        if not 0 < count < len(nodes):
            raise GpmError(f"{len(nodes)} labelled nodes of {title} are too few for {shares}: a part would be empty.")
        drawn = nodes[np.random.Generator(np.random.PCG64((seed, first))).permutation(len(nodes))]
        return drawn[:count], drawn[count:]


def unite(source: NodeData, target: NodeData) -> DomainData:
    """Put two graphs side by side: the nodes of the source come first.

    Features must have the same form and number of columns. Labels of the target may be unknown, but must not be of
    classes that the source does not have.
    """
    for data in (source, target):
        if not isinstance(data, NodeData):
            raise GpmError("source and target are for tasks on nodes; train on one of them alone.")
    home, away = source.graph, target.graph
    x = _join_features(home.x, _still(home.x, away.x, source.title), "nodes", source.title, target.title)
    edge_attr = _join_features(home.edge_attr, away.edge_attr, "edges", source.title, target.title)
    if (home.edge_weight is None) != (away.edge_weight is None):
        raise GpmError(f"of {source.title} and {target.title} one has weights of edges; give them to both, or to none.")
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
    graph = Graph.from_edges(
        edges, home.num_nodes + away.num_nodes, x=x, edge_attr=edge_attr, edge_weight=weights, duplicates="keep",
        graph_ptr=np.concatenate([_pointer(home), _pointer(away)[1:] + home.num_nodes]), names=_join_names(home, away),
    )  # fmt: skip
    return DomainData(
        replace(graph, y=labels), f"{source.title} to {target.title}", metric=source.metric,
        class_names=source.class_names, targets=source.targets, stratify=source.stratify, unseen=target.unseen,
        away=np.arange(graph.num_nodes) >= home.num_nodes, home_title=source.title, away_title=target.title,
        home_graphs=home.num_graphs,
    )  # fmt: skip


def divide(data: NodeData, shift: str, by: NDArray | None = None) -> DomainData:
    """Divide one graph into a source and a target that differ, so that a model can be tried under a shift.

    Of the nodes in the order of their degree, or of their time, the first three fifths are the source: the target has
    the larger degrees, or is later. Equal ones are on the same side. Walks cross from one to the other, as the whole
    graph is there in both domains.

    Args:
        data: The graph.
        shift: "degree" or "time".
        by: The time of each node `[N]`; NaN where unknown, which puts a node into neither.
    """
    if not isinstance(data, NodeData):
        raise GpmError(f"--shift {shift} is for tasks on nodes; leave it out.")
    if shift not in SHIFTS:
        raise GpmError(f"there is no shift {shift!r}; choose one of {', '.join(SHIFTS)}.")
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
        raise GpmError(f"all nodes of {data.title} have the same {shift}; there is no shift to be had.")
    labels = data.labels.copy()
    labels[~known] = -1 if np.issubdtype(labels.dtype, np.integer) else np.nan
    _check_classes(labels, away, data, shift)
    words = {"degree": ("degree", "degree"), "time": ("until", "after")}[shift]
    signs = ("≤", ">") if shift == "degree" else ("", "")
    titles = [f"{data.title} ({word} {sign}{border:g})" for word, sign in zip(words, signs, strict=True)]
    known_facts = {key: value for key, value in vars(data).items() if key not in ("graph", "title", "masks", "split")}
    return DomainData(
        replace(data.graph, y=labels), f"{data.title}, shifted by {shift}", **known_facts, away=away,
        home_title=titles[0], away_title=titles[1], neither=None if known.all() else ~known,
    )  # fmt: skip


def _check_classes(labels: NDArray, away: NDArray, data: NodeData, shift: str) -> None:
    """Take note of classes that only the target has: they are never predicted, and so not scored either."""
    if labels.ndim > 1 or not np.issubdtype(labels.dtype, np.integer):
        return
    new = np.setdiff1d(labels[away & (labels >= 0)], labels[~away & (labels >= 0)])
    if new.size:
        _log.warning(
            "%s, shifted by %s: classes %s are in the target alone, so that nothing can be learned of them; their "
            "nodes are left out of the score.", data.title, shift, name_some(new),
        )  # fmt: skip
        labels[away & np.isin(labels, new)] = -1


def _are_same(home: Graph, away: Graph) -> bool:
    """Whether two graphs have the same edges and features: what is tested would have been trained on."""
    if home.num_nodes != away.num_nodes or not np.array_equal(home.indices, away.indices):
        return False
    one, two = home.x, away.x
    if one is None or two is None or one.shape != two.shape or sp.issparse(one) != sp.issparse(two):
        return one is two
    return not (one != two).nnz if sp.issparse(one) else np.array_equal(one, two, equal_nan=True)


def _pointer(graph: Graph) -> NDArray:
    return np.array([0, graph.num_nodes]) if graph.graph_ptr is None else graph.graph_ptr


def _join_names(home: Graph, away: Graph) -> list[str] | None:
    """Names of both, told apart by a number before them; None if neither has names: a collection numbers them so."""
    if home.names is None and away.names is None:
        return None
    return [f"{side}:{graph.name(i)}" for side, graph in enumerate((home, away)) for i in range(graph.num_nodes)]


def _still(home: Any, away: Any, source: str) -> Any:
    """Features of the target, of which columns that never change in the source do not change either.

    No training tells what they mean: a model would read them with the weights that it happened to begin with.
    """
    if home is None or away is None or home.shape[1:] != away.shape[1:] or np.issubdtype(home.dtype, np.integer):
        return away
    low, high = (column_ends(home, end) for end in ("min", "max"))
    dead = low == high
    if not dead.any():
        return away
    _log.info(
        "%d of %d columns are the same for all nodes of %s, and not read elsewhere", dead.sum(), len(dead), source
    )
    if sp.issparse(away) and not low[dead].any():
        return sp.csr_array(away @ sp.diags_array((~dead).astype(away.dtype)))
    dense = np.array(away.toarray() if sp.issparse(away) else away)
    dense[:, dead] = low[dead]
    return dense


def _join_features(home: Any, away: Any, what: str, source: str, target: str) -> Any:
    """Features of both, one below the other."""
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
            f"the features of {what} are whole numbers in {category}, read as categories, and not in {number}; give "
            "both as floats or as integers."
        )
    if sp.issparse(home) or sp.issparse(away):
        return sp.csr_array(sp.vstack([sp.csr_array(home), sp.csr_array(away)]))
    return np.concatenate([home, away])


def _join_labels(source: NodeData, target: NodeData) -> NDArray:
    """Labels of both; unknown ones where the target has none."""
    home = source.labels
    nothing = -1 if np.issubdtype(home.dtype, np.integer) else np.nan
    away = target.graph.y
    if away is None:
        away = np.full((target.graph.num_nodes, *home.shape[1:]), nothing, dtype=home.dtype)
    if away.ndim != home.ndim or away.shape[1:] != home.shape[1:] or away.dtype.kind != home.dtype.kind:
        raise GpmError(f"the labels of {target.title} are of another kind than those of {source.title}.")
    if source.class_names and target.class_names and source.class_names != target.class_names:
        away = _rename(away, source, target)
    if away.ndim == 1 and np.issubdtype(away.dtype, np.integer):
        strange = np.flatnonzero((away >= 0) & ~np.isin(away, home[home >= 0]))
        if strange.size:
            assert target.graph.y is not None
            number = int(target.graph.y[strange[0]])
            name = target.class_names[number] if target.class_names else number
            raise GpmError(
                f"node {target.graph.name(int(strange[0]))} of {target.title} is of class {name}, which no node of "
                f"{source.title} is of; a model of {source.title} could never say so. Take such labels out."
            )
    return np.concatenate([home, away.astype(home.dtype)])


def _rename(labels: NDArray, source: NodeData, target: NodeData) -> NDArray:
    """Classes of the target by the numbers that the source has for their names; a new name gets a new number."""
    if labels.ndim > 1:
        raise GpmError(f"the labels of {target.title} are called otherwise than those of {source.title}.")
    place = {name: number for number, name in enumerate(source.class_names)}
    new = [place.get(name, len(place) + i) for i, name in enumerate(target.class_names)]
    return np.where(labels >= 0, np.append(new, -1)[labels], -1)


def load_domains(source: NodeData, target: Any, metric: str) -> DomainData:
    """A source that is loaded, and a target by its name: a dataset, a graph's folder or a PyG file."""
    if isinstance(target, NodeData):
        return unite(source, target)
    if is_imported(target):
        folder = Path(target).expanduser()
        found = load_imported(folder, "node", metric, labels="kind" in read_extras(folder)[0])
        assert isinstance(found, NodeData)
        return unite(source, align(found, folder, source))
    other = _load_target(target, metric)
    if source.graph.folder is not None and is_imported(source.graph.folder) and other.graph.x is not None:
        raise GpmError(
            f"the columns of {source.title} have names, those of {other.title} have none; import its tables with "
            f"--like {source.graph.folder}."
        )
    return unite(source, other)


def _is_graph(path: Path) -> bool:
    return path.is_file() or (path / HEADER).is_file()


def _load_target(target: Any, metric: str) -> NodeData:
    """A target that was not imported, with its labels if it has any."""
    title = Path(target).stem if isinstance(target, (str, Path)) else "target"
    if not isinstance(target, (str, Path)):
        graph = target if isinstance(target, Graph) else Graph.from_pyg(target)
    elif spell(str(target)) in CATALOG and not _is_graph(Path(target).expanduser()):
        return load_node_data(target, metric)
    elif not Path(target).expanduser().exists():
        raise GpmError(
            f"the target {str(target)!r} is no dataset (gpm data lists them), graph folder or PyG file that is there; "
            "columns to predict are named of tables only."
        )
    else:
        graph = load_graph(target)
    return NodeData(graph, title) if graph.y is None else build_node_data(graph, title, metric)
