"""What model.json says is of the type it must be, or it is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from gpm import GpmError
from gpm.inference.model_json import inputs_of, read_facts
from tests.small_runs import folder_of

pytestmark = pytest.mark.usefixtures("one_thread_for_all")
CHANGES: dict[str, list[dict[str, Any]]] = {
    "classes": [
        {"kind": "x"}, {"kind": []}, {"kind": "links"}, {"task": "link"}, {"classes": [1, 0]}, {"classes": []},
        {"classes": [0, "a"]}, {"metric": "mae"}, {"multilabel": 0}, {"smoothing": 1}, {"class_names": "ab"},
        {"inputs": []}, {"inputs": {"node": "thin"}}, {"inputs": {"node_dim": 2**60}}, {"inputs": {"width": 1}},
        {"parameters": "many"}, {"data_digest": 7},
    ],
    "values": [{"mean": [1e301]}, {"mean": []}, {"scale": [0]}, {"scale": [1, 2]}, {"mean": ["1"]}],
    "links": [{"protocol": "lax"}],
}  # fmt: skip


@pytest.mark.parametrize("kind", ["classes", "labels", "values", "two values", "links", "graphs", "gcn"])
def test_what_is_written_is_read(kind: str) -> None:
    facts = read_facts(folder_of(kind))
    assert facts["inputs"]["node_dim"] == inputs_of(facts).node_dim


@pytest.mark.parametrize(("kind", "change"), [(kind, change) for kind in CHANGES for change in CHANGES[kind]])
def test_what_is_of_a_wrong_type_is_refused(tmp_path: Path, kind: str, change: dict[str, Any]) -> None:
    facts = json.loads((folder_of(kind) / "model.json").read_text())
    (tmp_path / "model.json").write_text(json.dumps(facts | change))
    with pytest.raises(GpmError, match=r"model\.json is damaged: .*; train again\."):
        read_facts(tmp_path)


@pytest.mark.parametrize("missing", ["kind", "classes", "metric", "inputs", "task"])
def test_what_is_missing_is_refused(tmp_path: Path, missing: str) -> None:
    facts = json.loads((folder_of("classes") / "model.json").read_text())
    del facts[missing]
    (tmp_path / "model.json").write_text(json.dumps(facts))
    with pytest.raises(GpmError, match=rf"model\.json is damaged: .*{missing}"):
        read_facts(tmp_path)


def test_other_formats_are_refused(tmp_path: Path) -> None:
    shutil.copy(folder_of("classes") / "model.json", tmp_path)
    (tmp_path / "model.json").write_text((tmp_path / "model.json").read_text().replace('"format": 1', '"format": 2'))
    with pytest.raises(GpmError, match="has format 2, this gpm reads 1"):
        read_facts(tmp_path)
