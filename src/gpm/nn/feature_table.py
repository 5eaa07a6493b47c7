"""The features of one graph as tensors, and the plain description of what a model reads of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from gpm.config import Config
from gpm.errors import GpmError
from gpm.graph.graph import Graph
from gpm.nn import feature_rows
from gpm.nn.feature_rows import Form, SparseRows, Table, convert, take_rows
from gpm.nn.positional.encodings import embed_positions
from gpm.nn.star_features import BUCKETS, as_categories, find_stars

BAGS = {"auto": None, "yes": True, "no": False}  # what the option bag_of_words says; None: find out
MOST_DEGREES = 512  # degrees from here on are one category


@dataclass(frozen=True)
class InputSpec:
    """The form and width of a model's inputs, as plain values."""

    node: Form = "none"
    node_dim: int = 0  # columns of features
    node_sizes: list[int] = field(default_factory=list)  # categories in each column, if that is their form
    edge: Form = "none"
    edge_dim: int = 0
    edge_sizes: list[int] = field(default_factory=list)
    pe_dim: int = 0  # columns of the positional embedding
    bags: bool = False  # node features are bags of words: counts are damped, and every row has the same length
    label_dim: int = 0  # columns of known labels at the nodes of a walk
    expected: dict[str, int] = field(default_factory=dict)  # columns of each expected pattern, by its name
    expected_sizes: list[int] = field(default_factory=list)  # categories in each column that means are taken of
    expected_bags: bool = False  # means are taken of bags of words
    projected: int = 0  # columns of features that are projected before means are taken; 0 if they are not

    def with_expected(
        self, groups: Iterable[tuple[str, int]], sizes: Iterable[int], bags: bool, projection: NDArray | None
    ) -> InputSpec:
        """Return the description with expected patterns, whose means are taken of such features."""
        columns = 0 if projection is None else len(projection)
        known = replace(self, expected_sizes=list(sizes), expected_bags=bags, projected=columns)
        return replace(known, expected=dict(groups))


class FeatureTable:
    """The features of one graph, as tensors that rows are taken from. Nothing in it is learned.

    Equal rows of edge categories are stored once: `edge` holds the distinct rows, `edge_row` the row of each edge.
    A large table is not copied: arrays mapped from disk stay there, and rows are converted when they are taken (then
    `lazy` is true). `take` returns a table of some rows, whose node ids are in `ids`.

    Args:
        graph: The graph.
        pe: Positional embeddings `[N, p]`, or None.
        device: Device of the tensors.
        features: What is read of a node: auto (its features; if there are none, the logarithm of its degree), degree (a
            category per degree, in place of the features) or constant (nothing).
        stars: Also read the star that a node is the centre of, see `gpm.nn.star_features`.
        bags: Read node features as bags of words, `log(1 + x)` scaled to rows of length 1, so that neither a long
            text nor a word repeated in it counts for more; None does so if they are not negative and mostly zero.
    """

    def __init__(
        self,
        graph: Graph,
        pe: NDArray | None = None,
        device: torch.device | str = "cpu",
        *,
        features: str = "auto",
        stars: bool = False,
        bags: bool | None = None,
    ) -> None:
        self.num_nodes = graph.num_nodes
        x = choose_features(graph, features, stars=stars)
        self.stars = stars
        if stars:
            x = as_categories(x)
            x = np.column_stack([x, find_stars(graph, x)])
        self.bags = feature_rows.look_like_bags(x) if bags is None else bags
        self.raw_bags = self.bags and feature_rows.is_large(x)  # rows are normalised when they are taken
        if self.raw_bags:
            feature_rows.check_not_negative(x)
        elif self.bags:
            x = feature_rows.normalise_bags(x)
        self.node, self.node_form = feature_rows.make_table(x, "x", device, may_be_sparse=True)
        rows, self.edge_row = feature_rows.merge_rows(graph.edge_attr, device)
        self.edge, self.edge_form = feature_rows.make_table(rows, "edge_attr", device, may_be_sparse=False)
        self.pe = None if pe is None else feature_rows.share_array(pe, np.float32, device)
        self.label: Tensor | None = None  # known labels (N, c), zeros where unknown
        self.ids: Tensor | None = None
        self.exact = False  # whether its rows are exactly the nodes of the patterns that are read with it

    @classmethod
    def build(
        cls, config: Config, graph: Graph, inputs: InputSpec | None = None, device: torch.device | str = "cpu"
    ) -> FeatureTable:
        """Make the table that the options name; it must agree with `inputs` if that is given."""
        bags = BAGS[config.bag_of_words] if inputs is None else inputs.bags
        pe = embed_positions(graph, config.pe, config.pe_dim)
        table = cls(graph, pe, device, features=config.features, stars=config.stars, bags=bags)
        if inputs is not None:
            table.check(inputs)
        return table

    def _change(self, **changes: Any) -> FeatureTable:
        """Return a copy with some attributes changed; arrays are not mapped again, as `copy.copy` would."""
        part = FeatureTable.__new__(FeatureTable)
        part.__dict__.update(self.__dict__ | changes)
        return part

    def __getstate__(self) -> dict[str, Any]:
        tables = ("node", "edge", "edge_row", "pe", "label")
        return vars(self) | {name: convert(getattr(self, name), feature_rows.freeze_tensor) for name in tables}

    def __setstate__(self, state: dict[str, Any]) -> None:
        tables = ("node", "edge", "edge_row", "pe", "label")
        self.__dict__.update(state | {name: convert(state[name], feature_rows.thaw_tensor) for name in tables})

    @property
    def num_rows(self) -> int:
        """Number of rows that can be taken: with known labels, row N + v is node v with its label hidden."""
        return self.num_nodes if self.label is None or self.ids is not None else 2 * self.num_nodes

    def show_labels(self, values: NDArray, known: NDArray) -> None:
        """Let nodes carry values `[N, C]` where they are known `[N]`, and a flag that they are."""
        columns = np.column_stack([np.where(known[:, None], values, 0.0), known])
        self.label = torch.from_numpy(columns.astype(np.float32)).to(self.device)

    def with_labels(self, values: NDArray, known: NDArray) -> FeatureTable:
        """Return the same table with other labels; see `show_labels`."""
        table = self._change()
        table.show_labels(values, known)
        return table

    def hide_labels(self, nodes: Tensor) -> FeatureTable:
        """Return the same table without the known labels of some nodes `[H]`."""
        assert self.label is not None
        return self._change(label=self.label.index_fill(0, nodes.to(self.label.device), 0.0))

    def find_labels(self, rows: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return the nodes of rows `[U]`, and their known labels `[U, c]` if the table has any."""
        if self.label is None:
            return rows, None
        nodes = rows % self.num_nodes
        shown = (rows < self.num_nodes).to(self.label.device)
        return nodes, self.label[nodes.to(self.label.device)] * shown[:, None]

    @property
    def lazy(self) -> bool:
        """Whether rows must be taken before they can be mapped."""
        return self.raw_bags or not (feature_rows.is_ready(self.node) and feature_rows.is_ready(self.edge))

    @property
    def device(self) -> torch.device:
        """Device of the tensors."""
        if self.node is None:
            return torch.device("cpu")
        return (self.node.indptr if isinstance(self.node, SparseRows) else self.node).device

    def take(self, nodes: Tensor, edges: Tensor | None = None) -> FeatureTable:
        """Return a table of rows `[U]` and of rows of `edge` (default none), in that order, ready to be mapped."""
        nodes, label = self.find_labels(nodes)
        return self._change(
            num_nodes=len(nodes),
            ids=nodes if self.ids is None else self.ids[nodes],
            label=label,
            raw_bags=False,
            edge_row=None,
            exact=False,
            node=take_rows(self.node, nodes, self.raw_bags),
            pe=None if self.pe is None else self.pe[nodes.to(self.pe.device)],
            edge=take_rows(self.edge, nodes[:0] if edges is None else edges),
        )

    def restrict(self, graph: Graph, nodes: NDArray) -> FeatureTable:
        """Return the rows that statistics may be taken from: those of some nodes and of the edges that leave them."""
        if self.edge is None:
            return self.take(torch.from_numpy(np.array(nodes)))
        leaving = np.zeros(graph.num_nodes, dtype=bool)
        leaving[nodes] = True
        entries = np.flatnonzero(np.repeat(leaving, graph.degree()))
        ids = torch.from_numpy(entries if graph.edge_ids is None else np.array(graph.edge_ids[entries])).long()
        rows = ids if self.edge_row is None else self.edge_row.cpu()[ids]
        return self.take(torch.from_numpy(np.array(nodes)), torch.unique(rows))

    def to(self, device: torch.device | str) -> FeatureTable:
        """Return the same table on another device."""
        names = ("node", "edge", "edge_row", "pe", "label", "ids")
        return self._change(**{n: convert(getattr(self, n), lambda t: t.to(device, non_blocking=True)) for n in names})

    def spec(self) -> InputSpec:
        """Describe what a model of this table reads."""
        sizes = _count_categories(self.node, self.node_form)
        return InputSpec(
            node=self.node_form,
            node_dim=_count_columns(self.node),
            node_sizes=[*sizes[:-1], BUCKETS] if self.stars else sizes,
            edge=self.edge_form,
            edge_dim=_count_columns(self.edge),
            edge_sizes=_count_categories(self.edge, self.edge_form),
            pe_dim=_count_columns(self.pe),
            bags=self.bags,
            label_dim=_count_columns(self.label),
        )

    def check(self, spec: InputSpec) -> None:
        """Refuse a graph whose features a model of that spec cannot read."""
        mine = self.spec()
        for part in ("node", "edge"):
            (form, dim), (wanted, wanted_dim) = ((getattr(s, part), getattr(s, f"{part}_dim")) for s in (mine, spec))
            if (form != "none", dim, form == "categories") != (wanted != "none", wanted_dim, wanted == "categories"):
                raise GpmError(
                    f"The model reads {wanted_dim} {part} features ({wanted}), this graph has {dim} ({form}); give "
                    "a graph with the features it was trained on."
                )


def choose_features(graph: Graph, features: str, *, stars: bool = False) -> Any:
    """Return the node features that are read `[N, d]`; for stars, a category per degree if there are none."""
    if stars and graph.x is None and features == "auto":
        features = "degree"
    if features == "constant":
        return np.zeros((graph.num_nodes, 1), dtype=np.int64)
    if features == "degree":
        return np.minimum(graph.degree(), MOST_DEGREES)[:, None].astype(np.int64)
    return np.log1p(graph.degree())[:, None].astype(np.float32) if graph.x is None else graph.x


def _count_columns(table: Table) -> int:
    if table is None:
        return 0
    return table.columns if isinstance(table, SparseRows) else table.shape[1]


def _count_categories(table: Table, form: Form) -> list[int]:
    if form != "categories" or not isinstance(table, Tensor) or not table.numel():
        return []
    largest = torch.stack([block.amax(0) for block in feature_rows.dense_blocks(table)]).amax(0)
    return [int(value) + 1 for value in largest.tolist()]


def nodes_of(graph: Graph, graphs: NDArray) -> NDArray[np.int64]:
    """Return the nodes of some graphs of a collection, ascending."""
    assert graph.graph_ptr is not None
    chosen = np.zeros(graph.num_graphs, dtype=bool)
    chosen[graphs] = True
    return np.flatnonzero(np.repeat(chosen, np.diff(graph.graph_ptr)))


def count_bytes(features: Any) -> int:
    """Return the memory that features take."""
    if features is None:
        return 0
    return int(features.data.nbytes + features.indices.nbytes if sp.issparse(features) else features.nbytes)
