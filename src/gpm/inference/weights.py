"""Weights as safetensors: written whole, and read only into a model that their header fits, before it is built."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from safetensors import safe_open
from safetensors.torch import load_file, save
from torch import Tensor, nn

from gpm.errors import GpmError
from gpm.io.atomic import check_plain, replacing


def save_weights(model: nn.Module, path: Path) -> None:
    """Write weights and statistics as safetensors."""
    values = {name: value.detach().cpu().contiguous() for name, value in model.state_dict().items()}
    with replacing(path) as scratch:
        scratch.write_bytes(save(values))  # save_file would let nobody but the user read it


def load_weights(model: nn.Module, path: Path) -> None:
    """Read weights and statistics; they must be those of the model, whole and of the right shapes."""
    check_plain(path)
    try:
        model.load_state_dict(load_file(path))
    except Exception as error:  # a damaged header, a missing tensor, another shape
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise _unfit(path, first) from None


def check_shapes(wanted: Mapping[str, Tensor], path: Path) -> None:
    """Refuse a file whose header does not list just these tensors, in their shapes; nothing of them is read."""
    check_plain(path)
    try:
        with safe_open(path, "pt") as file:
            found = {name: list(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118 - no dict
    except Exception as error:
        raise _unfit(path, str(error) or type(error).__name__) from None
    shapes = {name: list(value.shape) for name, value in wanted.items()}
    if odd := sorted(name for name in {*found, *shapes} if found.get(name) != shapes.get(name)):
        have, need = found.get(odd[0], "nothing"), shapes.get(odd[0], "nothing")
        raise _unfit(path, f"{odd[0]} is {have} there, where the options ask for {need}")


def _unfit(path: Path, why: str) -> GpmError:
    return GpmError(f"{path} does not hold the weights of this model ({why}); train again.")
