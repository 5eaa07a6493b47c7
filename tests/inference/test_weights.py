"""Weights come back to the bit, and are refused where they do not fit before a model of their size is made."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest
import torch
from torch import nn

from gpm import GpmError, Run
from gpm.inference.weights import check_shapes, load_weights, save_weights
from gpm.io.manifest import CHECKSUMS
from gpm.run.run import read_config, write_config
from tests.small_runs import folder_of

pytestmark = pytest.mark.usefixtures("one_thread_for_all")


def test_weights_come_back(tmp_path: Path) -> None:
    one, other = nn.Linear(3, 2), nn.Linear(3, 2)
    save_weights(one, tmp_path / "w.safetensors")
    check_shapes(one.state_dict(), tmp_path / "w.safetensors")
    load_weights(other, tmp_path / "w.safetensors")
    assert torch.equal(one.weight, other.weight)


@pytest.mark.parametrize("model", [nn.Linear(3, 3), nn.Linear(3, 2, bias=False), nn.Sequential(nn.Linear(3, 2))])
def test_weights_of_another_shape_or_name_are_refused(tmp_path: Path, model: nn.Module) -> None:
    save_weights(nn.Linear(3, 2), tmp_path / "w.safetensors")
    with pytest.raises(GpmError, match=r"w\.safetensors does not hold the weights of this model .* there, where"):
        check_shapes(model.state_dict(), tmp_path / "w.safetensors")


@pytest.mark.parametrize("kind", ["classes", "links", "gcn"])
def test_options_that_ask_for_a_model_larger_than_memory_are_refused_before_it_is_made(
    tmp_path: Path, kind: str
) -> None:
    copy = Path(shutil.copytree(folder_of(kind), tmp_path / "copy"))
    (copy / CHECKSUMS).unlink()
    write_config(copy / "config.yaml", read_config(copy / "config.yaml").with_(width=65_536, layers=200))  # terabytes
    began = time.perf_counter()
    with pytest.raises(GpmError, match=r"model\.safetensors does not hold the weights of this model"):
        _ = Run.open(copy).predictor
    assert time.perf_counter() - began < 30
