"""Message-passing networks to compare with: PyG's own layers behind the same input map as the pattern machine's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional

from gpm.config import ModelOptions
from gpm.errors import GpmError, nearest
from gpm.nn.dropout import drop
from gpm.nn.feature_map import InputMap
from gpm.nn.feature_table import FeatureTable, InputSpec
from gpm.nn.gnn.subgraph import Subgraph

Network = Literal["gcn", "gat", "sage", "gin", "gcnii", "appnp", "gps", "mlp"]
Level = Literal["node", "link", "graph"]
LAYERS: dict[Level, int] = {"node": 2, "link": 2, "graph": 4}
DEEP = 8  # layers of gcnii
PERCEPTRONS = ("appnp", "mlp")  # their layers read one node each
RESIDUAL = ("gcnii", "gps")  # their layers have residual connections of their own
OWN_MAP = ("sage", *PERCEPTRONS)  # their layers map the node itself, which a linear residual would only repeat
READ_EDGES = ("gat", "gin", "gps")  # their layers read edge features
HOPS, TELEPORT = 10, 0.1  # of personalised PageRank, as in the paper of APPNP
ALPHA, THETA = 0.1, 0.5  # of GCNII: share of the first embedding, and how fast the weight of its maps falls
ONE_ROW: dict[str, Any] = {"allow_single_element": True}  # a batch may be a single node
MOST_PAIRS = 1 << 27  # pairs of nodes that attend to each other in one pass


class GraphNetwork(nn.Module):
    r"""Map the inputs, pass messages a few times, read out nodes, pairs or graphs.

    With a linear residual and a norm, as in `Classic GNNs are Strong Baselines <https://arxiv.org/abs/2406.08993>`_,

    .. math:: h^{l+1} = \text{dropout}(\text{relu}(\text{norm}(\text{layer}(h^l) + W_l h^l + b_l)))

    without ReLU and dropout after the last layer. Messages follow the direction of edges. gat, gin and gps read edge
    features, gcn, gcnii and appnp edge weights; mlp reads no edges. A link is read from the product of its endpoints, a
    graph from the mean of its nodes, or, for gin, their sum. Layers of appnp and mlp are layers of the perceptron. Of
    the options only width, heads, dropout, feature dropout and those of baselines are read.
    """

    def __init__(
        self,
        kind: Network,
        inputs: InputSpec,
        options: ModelOptions,
        outputs: int,
        level: Level,
        layers: int | None = None,
    ) -> None:
        from torch_geometric import nn as pyg

        super().__init__()
        if kind not in (names := get_args(Network)):
            raise GpmError(f"There is no network {kind!r}; choose one of {', '.join(names)}.{nearest(kind, names)}")
        self.kind, self.inputs, self.options, self.outputs, self.level = kind, inputs, options, outputs, level
        width = options.width or 0
        read = inputs if kind in READ_EDGES else replace(inputs, edge="none")
        flips = options.pe == "lap" and options.flip_signs
        self.input_map = InputMap(read, width, options.feature_dropout, flip_signs=flips, hidden=0.0)
        count = usual_layers(kind, level) if layers is None else layers
        self.layers = nn.ModuleList(_make_layer(kind, options, read.edge != "none", i + 1) for i in range(count))
        norm, self.residual = choose_norm(kind, options, level), choose_residual(kind, options, level)
        self.norms = nn.ModuleList(_make_norm(norm, width) for _ in range(count))
        self.skips = nn.ModuleList(nn.Linear(width, width) for _ in range(count if self.residual == "linear" else 0))
        self.jump = None if options.gnn_jump == "none" else pyg.JumpingKnowledge(options.gnn_jump)
        self.spread = pyg.APPNP(HOPS, TELEPORT, normalize=False) if kind == "appnp" else None
        read_out = width * count if options.gnn_jump == "cat" else width
        self.head = nn.Linear(read_out, outputs) if level == "node" else pyg.MLP([read_out, width, outputs], norm=None)

    def embed(self, table: FeatureTable, part: Subgraph) -> Tensor:
        """Return the embeddings of nodes `[n, d]`, in single precision, which sparse products require."""
        with torch.autocast(part.nodes.device.type, enabled=False):
            h = self.input_map.nodes(table, part.nodes)
            edge_attr = self._map_edges(table, part)
            if active := self.kind in (*PERCEPTRONS, "gcnii"):
                h = h.relu()
            first, after = h, []
            h = drop(h, self.options.dropout, self.training and active)
            for number, (layer, norm) in enumerate(zip(self.layers, self.norms, strict=True)):
                passed = self._pass_messages(layer, h, first, part, edge_attr)
                passed = norm(passed + self.skips[number](h) if self.residual == "linear" else passed)
                if self.kind != "gps" and number < len(self.layers) - 1:
                    passed = drop(passed.relu(), self.options.dropout, self.training)
                h = h + passed if self.residual == "identity" else passed
                after.append(h)
            h = h if self.jump is None else self.jump(after)
            return h if self.spread is None else self.spread(h, part.normalised)

    def _map_edges(self, table: FeatureTable, part: Subgraph) -> Tensor | None:
        """Map the features of edges `[E, d]`; if there are few distinct rows, each is mapped once."""
        if self.input_map.edge is None:
            return None
        assert part.edge_ids is not None
        assert isinstance(table.edge, Tensor)
        if not len(part.edge_ids):
            return self.input_map.bias.new_zeros(0, len(self.input_map.bias))
        rows = part.edge_ids if table.edge_row is None else table.edge_row[part.edge_ids]
        if len(table.edge) > len(rows):
            return self.input_map.edge(table.edge, rows)
        distinct = torch.arange(len(table.edge), device=rows.device)
        return functional.embedding(rows, self.input_map.edge(table.edge, distinct))

    def _pass_messages(
        self, layer: nn.Module, h: Tensor, first: Tensor, part: Subgraph, edge_attr: Tensor | None
    ) -> Tensor:
        """Apply one layer, with the edges in the form that is fastest for it."""
        if self.kind in PERCEPTRONS:
            return layer(h)
        if self.kind == "gcn":
            return layer(h, part.normalised)
        if self.kind == "gcnii":
            return layer(h, first, part.normalised)
        more: dict[str, Tensor | None] = {} if edge_attr is None else {"edge_attr": edge_attr}
        if self.kind == "gps":
            _check_attention(part)
            more["batch"] = part.batch
        sparse = edge_attr is None and self.kind != "gat"
        return layer(h, part.adjacency if sparse else part.edge_index, **more)

    def read(self, h: Tensor, instances: Tensor) -> Tensor:
        """Return the logits `[B, C]` of nodes `[B]` or pairs `[B, 2]`, from the embeddings of all nodes."""
        chosen = h[instances] if self.level == "node" else h[instances[:, 0]] * h[instances[:, 1]]
        return self.head(drop(chosen, self.options.dropout, self.training))

    def forward(self, table: FeatureTable, part: Subgraph, instances: Tensor | None = None) -> Tensor:
        """Return the logits of nodes or pairs, given as indices in the subgraph; by default of its graphs."""
        h = self.embed(table, part)
        if instances is not None:
            return self.read(h, instances)
        from torch_geometric import nn as pyg

        batch = torch.zeros_like(part.nodes) if part.batch is None else part.batch
        pool = pyg.global_add_pool if self.kind == "gin" else pyg.global_mean_pool
        return self.head(drop(pool(h, batch, part.num_graphs), self.options.dropout, self.training))

    def count_parameters(self) -> int:
        """Return the number of learned parameters."""
        return sum(p.numel() for p in self.parameters() if p.requires_grad)


def usual_layers(kind: str, level: Level) -> int:
    """Return the number of layers where none is given."""
    return DEEP if kind == "gcnii" else LAYERS[level]


def choose_norm(kind: Network, options: ModelOptions, level: Level) -> str:
    """Return the norm after each layer. auto is that of runs without the option: batch for graphs, else none."""
    if options.gnn_norm == "auto":
        return "batch" if level == "graph" and kind not in ("gin", "gps") else "none"  # these have norms inside
    return "none" if kind == "gps" else options.gnn_norm


def choose_residual(kind: Network, options: ModelOptions, level: Level) -> str:
    """Return the kind of residual. auto is that of runs without the option: the identity for links, else none."""
    found = options.gnn_residual
    if found == "auto":
        found = "identity" if level == "link" else "none"
    return "none" if kind in RESIDUAL or (found == "linear" and kind in OWN_MAP) else found


def _make_norm(name: str, width: int) -> nn.Module:
    from torch_geometric import nn as pyg

    if name == "none":
        return nn.Identity()
    return pyg.BatchNorm(width, **ONE_ROW) if name == "batch" else pyg.LayerNorm(width, mode="node")


def _make_layer(kind: Network, options: ModelOptions, edges: bool, number: int) -> nn.Module:
    from torch_geometric import nn as pyg

    width, heads = options.width or 0, options.heads or 1
    if kind in PERCEPTRONS:
        return nn.Linear(width, width)
    if kind == "gcn":
        return pyg.GCNConv(width, width, normalize=False)  # the matrix is normalised once for all layers
    if kind == "gcnii":
        return pyg.GCN2Conv(width, ALPHA, THETA, number, normalize=False)
    if kind == "gat":
        edge_dim = width if edges else None
        return pyg.GATConv(width, width // heads, heads, dropout=options.dropout, edge_dim=edge_dim)
    if kind == "sage":
        return pyg.SAGEConv(width, width)
    inner = pyg.MLP([width, width, width], norm="batch_norm", norm_kwargs=ONE_ROW)
    layer = pyg.GINEConv(inner, train_eps=True) if edges else pyg.GINConv(inner, train_eps=True)
    return layer if kind == "gin" else pyg.GPSConv(width, layer, heads, options.dropout, norm_kwargs=ONE_ROW)


def _check_attention(part: Subgraph) -> None:
    largest = len(part.nodes) if part.batch is None else int(torch.bincount(part.batch).max())
    if part.num_graphs * largest**2 > MOST_PAIRS:
        raise GpmError(
            f"gps attends from every node to every other: {part.num_graphs:,} graphs of up to {largest:,} nodes at a "
            "time are too many; lower --batch, or choose another model."
        )
