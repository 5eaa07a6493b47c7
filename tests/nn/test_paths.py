"""Semantic path encoders: their shortcuts, and what they can and cannot tell apart."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from gpm.config import ModelOptions
from gpm.nn.paths import NodeMaps, PathBlock, PathLayer, SemanticPath, embed_positions

ENCODERS: list[dict[str, Any]] = [
    {"path": "mean"},
    {"path": "gru"},
    {"path": "gru", "path_layers": 2},
    {"path": "transformer"},
    {"path": "transformer", "path_heads": 4},
    {"path": "transformer", "path_layers": 2, "path_heads": 2},
]


def _encoder(**options: Any) -> SemanticPath:
    torch.manual_seed(0)
    return SemanticPath(ModelOptions(width=8, **options), 6)


def _nodes() -> Tensor:
    return torch.randn(10, 8, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("heads", [1, 4])
def test_the_mean_commutes_with_the_last_map(heads: int) -> None:
    torch.manual_seed(0)
    layer, x = PathLayer(8, heads, 20), torch.randn(3, 5, 8)
    torch.testing.assert_close(layer.feed_mean(x), layer.feed(x).mean(1))


@pytest.mark.parametrize("heads", [1, 4])
@pytest.mark.parametrize("edges", [False, True])
@pytest.mark.parametrize("position", [False, True])
def test_the_first_layer_on_distinct_nodes_is_a_layer_on_positions(heads: int, edges: bool, position: bool) -> None:
    torch.manual_seed(0)
    layer, h = PathLayer(8, heads, 20), _nodes()
    block = PathBlock(torch.randint(0, 10, (4, 5)), torch.randn(4, 5, 8) if edges else None)
    place = torch.randn(7, 8) if position else None
    nodes = NodeMaps(h, layer.qkv(h))
    torch.testing.assert_close(layer.first(nodes, [block], place)[0], layer(embed_positions(h, block, place)))


@pytest.mark.parametrize("options", ENCODERS)
def test_blocks_do_not_meet(options: dict[str, Any]) -> None:
    """Each scale is encoded as if it were alone, and each path too."""
    encoder = _encoder(**options)
    h = encoder.map_nodes(_nodes())
    blocks = [PathBlock(torch.randint(0, 10, (4, size))) for size in (1, 3, 7)]
    for block, together in zip(blocks, encoder(h, blocks), strict=True):
        assert together.shape == (4, 8)
        torch.testing.assert_close(encoder(h, [block])[0], together)
        torch.testing.assert_close(encoder(h, [PathBlock(block.places[2:3])])[0], together[2:3])


@pytest.mark.parametrize("options", ENCODERS)
@pytest.mark.parametrize("position", ["none", "learned"])
def test_order_is_seen_by_a_gru_or_by_learned_positions(options: dict[str, Any], position: str) -> None:
    """Without a position signal a transformer reads a bag of nodes; so does a mean, even with one."""
    encoder = _encoder(**options, path_position=position)
    h = encoder.map_nodes(_nodes())
    places = torch.tensor([[0, 1, 2, 3]])
    there, back = encoder(h, [PathBlock(places)])[0], encoder(h, [PathBlock(places.flip(1))])[0]
    sees = options["path"] == "gru" or (options["path"] == "transformer" and position == "learned")
    assert torch.allclose(there, back, atol=1e-6) != sees
