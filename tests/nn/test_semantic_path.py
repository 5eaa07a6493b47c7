"""Semantic path encoders: their shortcuts, and what they can and cannot tell apart."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from gpm.config import ModelOptions
from gpm.nn.semantic_path import ConvPath, PathLayer, SemanticPath, TokenMaps

ENCODERS: list[dict[str, Any]] = [
    {"path": "mean"},
    {"path": "gru"},
    {"path": "gru", "path_layers": 2},
    {"path": "conv"},
    {"path": "conv", "path_layers": 3},
    {"path": "transformer"},
    {"path": "transformer", "path_heads": 4},
    {"path": "transformer", "path_layers": 2, "path_heads": 2},
]


def _encoder(**options: Any) -> SemanticPath:
    torch.manual_seed(0)
    return SemanticPath(ModelOptions(width=8, **options))


def _nodes() -> Tensor:
    return torch.randn(10, 8, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("heads", [1, 4])
def test_the_mean_commutes_with_the_last_map(heads: int) -> None:
    torch.manual_seed(0)
    layer, x = PathLayer(8, heads, 20), torch.randn(3, 5, 8)
    torch.testing.assert_close(layer.feed_mean(x), layer.feed(x).mean(1))


@pytest.mark.parametrize("heads", [1, 4])
def test_the_first_layer_on_distinct_tokens_is_a_layer_on_positions(heads: int) -> None:
    torch.manual_seed(0)
    layer, h = PathLayer(8, heads, 20), _nodes()
    places = torch.randint(0, 10, (4, 5))
    torch.testing.assert_close(layer.first(TokenMaps(h, layer.qkv(h)), [places])[0], layer(h[places]))


def convolve_slowly(encoder: ConvPath, path: Tensor) -> Tensor:
    """One path `[S, d]`: three matrices per layer, one sum per position, nothing past the ends."""
    positions = range(len(path))
    x = list(path)
    for number, layer in enumerate(encoder.maps):
        read = x if number == 0 else [encoder.norms[number - 1](each) for each in x]
        (a, b, c), (on_a, on_b, on_c) = layer.weight.chunk(3), layer.bias.chunk(3)
        made = []
        for i in positions:
            total = b @ read[i] + on_b
            if i - 1 in positions:
                total = total + a @ read[i - 1] + on_a
            if i + 1 in positions:
                total = total + c @ read[i + 1] + on_c
            made.append(total.clamp(min=0))
        x = made if number == 0 else [old + new for old, new in zip(x, made, strict=True)]
    mean = torch.stack(x).mean(0)
    return path.mean(0) + encoder.shrink.weight @ mean + encoder.shrink.bias


@pytest.mark.parametrize("layers", [1, 3])
def test_convolutions_are_sums_over_a_position_and_its_neighbours(layers: int) -> None:
    semantic, h = _encoder(path="conv", path_layers=layers, path_ffn=1.5), _nodes()
    encoder = semantic.encoder
    assert isinstance(encoder, ConvPath)
    assert encoder.shrink.in_features == 12
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    blocks = [torch.randint(0, 10, (5, size)) for size in (1, 2, 3, 9)]
    for block, found in zip(blocks, semantic(semantic.map_tokens(h), blocks), strict=True):
        slow = torch.stack([convolve_slowly(encoder, h[places]) for places in block])
        torch.testing.assert_close(found, slow)


@pytest.mark.parametrize("layers", [1, 3])
def test_a_convolution_tells_an_order_from_the_same_tokens_in_another(layers: int) -> None:
    """Also one that has the same ends, and the same way back: in the middle."""
    encoder = _encoder(path="conv", path_layers=layers)
    tokens = encoder.map_tokens(_nodes())
    one, other = encoder(tokens, [torch.tensor([[0, 1, 2, 3, 4], [0, 2, 1, 3, 4]])])[0]
    assert (one - other).abs().max() > 1e-3


@pytest.mark.parametrize("options", ENCODERS)
def test_blocks_do_not_meet(options: dict[str, Any]) -> None:
    """Each scale is encoded as if it were alone, and each path too."""
    encoder = _encoder(**options)
    h = encoder.map_tokens(_nodes())
    blocks = [torch.randint(0, 10, (4, size)) for size in (1, 3, 7)]
    for block, together in zip(blocks, encoder(h, blocks), strict=True):
        assert together.shape == (4, 8)
        torch.testing.assert_close(encoder(h, [block])[0], together)
        torch.testing.assert_close(encoder(h, [block[2:3]])[0], together[2:3])


@pytest.mark.parametrize("options", ENCODERS)
def test_only_a_gru_and_a_convolution_see_the_order_of_tokens(options: dict[str, Any]) -> None:
    """A transformer reads a bag of tokens, as a mean does: it sees an order only in tokens that know their position."""
    encoder = _encoder(**options)
    tokens = encoder.map_tokens(_nodes())
    places = torch.tensor([[0, 1, 2, 3]])
    there, back = encoder(tokens, [places])[0], encoder(tokens, [places.flip(1)])[0]
    assert torch.allclose(there, back, atol=1e-6) != (options["path"] in ("gru", "conv"))


@pytest.mark.parametrize("options", ENCODERS)
def test_maps_made_ahead_change_nothing(options: dict[str, Any]) -> None:
    encoder, h = _encoder(**options).eval(), _nodes()
    blocks = [torch.randint(0, 10, (4, size)) for size in (1, 7)]
    with torch.inference_mode():
        for plain, ahead in zip(
            encoder(encoder.map_tokens(h), blocks), encoder(encoder.map_ahead(h), blocks), strict=True
        ):
            torch.testing.assert_close(plain, ahead, rtol=1e-4, atol=1e-5)
