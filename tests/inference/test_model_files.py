"""model.json and weights come back as written, and are refused where they are damaged or do not fit."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from gpm import GpmError, Run
from gpm.inference.model_files import check_shapes, load_weights, read_metadata, save_weights
from gpm.io.manifest import CHECKSUMS
from gpm.io.run_files import read_config, write_config
from gpm.nn.feature_table import InputSpec
from tests.small_runs import folder_of

pytestmark = pytest.mark.usefixtures("one_thread_for_all")
CHANGES: dict[str, list[dict[str, Any]]] = {
    "classes": [
        {"kind": "x"}, {"kind": []}, {"kind": "links"}, {"task": "link"}, {"classes": [1, 0]}, {"classes": []},
        {"classes": [0, "a"]}, {"metric": "mae"}, {"multilabel": 0}, {"smoothing": 1}, {"class_names": "ab"},
        {"inputs": []}, {"inputs": {"node": "thin"}}, {"inputs": {"node_dim": 2**60}}, {"inputs": {"width": 1}},
        {"parameters": "many"}, {"data_digest": 7}, {"weights": [1.0]}, {"weights": [[1.0]]}, {"focal": -1},
        {"positive": 2}, {"threshold": 0.3}, {"threshold": 1},
    ],
    "values": [
        {"mean": [1e301]}, {"mean": []}, {"scale": [0]}, {"scale": [1, 2]}, {"low": [0, 1]}, {"low": [2], "high": [1]},
        {"mean": ["1"]},
    ],
    "links": [{"protocol": "lax"}],
}  # fmt: skip


@pytest.mark.parametrize("kind", ["classes", "labels", "values", "two values", "links", "graphs", "gcn"])
def test_what_is_written_is_read(kind: str) -> None:
    facts = read_metadata(folder_of(kind))
    assert facts["inputs"]["node_dim"] == InputSpec(**facts["inputs"]).node_dim


@pytest.mark.parametrize(("kind", "change"), [(kind, change) for kind in CHANGES for change in CHANGES[kind]])
def test_what_is_of_a_wrong_type_is_refused(tmp_path: Path, kind: str, change: dict[str, Any]) -> None:
    facts = json.loads((folder_of(kind) / "model.json").read_text())
    (tmp_path / "model.json").write_text(json.dumps(facts | change))
    with pytest.raises(GpmError, match=r"model\.json is damaged: .*; train again\."):
        read_metadata(tmp_path)


@pytest.mark.parametrize("missing", ["kind", "classes", "metric", "inputs", "task"])
def test_what_is_missing_is_refused(tmp_path: Path, missing: str) -> None:
    facts = json.loads((folder_of("classes") / "model.json").read_text())
    del facts[missing]
    (tmp_path / "model.json").write_text(json.dumps(facts))
    with pytest.raises(GpmError, match=rf"model\.json is damaged: .*{missing}"):
        read_metadata(tmp_path)


def test_other_formats_are_refused(tmp_path: Path) -> None:
    shutil.copy(folder_of("classes") / "model.json", tmp_path)
    (tmp_path / "model.json").write_text((tmp_path / "model.json").read_text().replace('"format": 1', '"format": 2'))
    with pytest.raises(GpmError, match="has format 2, this gpm reads 1"):
        read_metadata(tmp_path)


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
