"""What the doctor says of runs and graphs, whole, damaged and unfinished."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from gpm import Graph, train
from gpm.cli.main import main
from gpm.data.synthetic import planted_motifs
from gpm.io.manifest import write_checksums

SMALL: dict[str, Any] = {
    "width": 8, "heads": 2, "lengths": [0, 1, 2], "patterns": 6, "pool": 6, "batch": 64, "epochs": 1, "warmup": 1,
}  # fmt: skip
pytestmark = pytest.mark.usefixtures("one_thread_for_all")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a graph, a run and runs of two seeds."""
    folder = tmp_path_factory.mktemp("made")
    planted_motifs(num_houses=4, num_cycles=2, base_nodes=30, seed=1).graph.save(folder / "graph")
    train(str(folder / "graph"), out=folder / "run", quiet=True, **SMALL)
    train(str(folder / "graph"), out=folder / "runs", seeds=2, quiet=True, **SMALL)
    return folder


def _doctor(folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, str], str]:
    """The exit code, the state of each file and the last sentence."""
    code = main(["doctor", str(folder)])
    said = capsys.readouterr()
    lines = [line for line in said.out.splitlines() if not line.startswith(str(folder))]
    states = {line[11:].partition(": ")[0]: line[:11].strip() for line in lines}
    return code, states, said.err.strip() or said.out.splitlines()[-1]


def _copy(folder: Path, tmp_path: Path, name: str = "copy") -> Path:
    return Path(shutil.copytree(folder, tmp_path / name))


def test_whole_folders_are_told_file_by_file(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("run", "runs", "graph"):
        code, states, last = _doctor(made / name, capsys)
        assert code == 0
        assert set(states.values()) == {"ok"}
        assert last == f"{made / name}: nothing is damaged"
        files = {str(path.relative_to(made / name)) for path in (made / name).rglob("*") if path.is_file()}
        files = {file for file in files if Path(file).name != "report.html"}  # written again by gpm report
        assert files == {name for name in states if not name.endswith(("weights in the model", "arrays together"))}


@pytest.mark.parametrize("name", ["model.safetensors", "config.yaml", "predictions.csv", "split.npz", "checksums.json"])
def test_a_damaged_file_is_named_with_what_to_do(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    copy = _copy(made / "run", tmp_path)
    content = (copy / name).read_bytes()
    (copy / name).write_bytes(content[: len(content) // 2])
    assert main(["doctor", str(copy)]) == 2
    said = capsys.readouterr()
    (line,) = [line for line in said.out.splitlines() if line.startswith("damaged")]
    assert line.startswith(f"damaged    {name}: ")
    assert ("train again" in line) == (name not in ("predictions.csv", "checksums.json"))
    assert said.err == f"gpm doctor: {copy} is damaged: {name}.\n"


def test_of_several_seeds_each_is_told(made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy = _copy(made / "runs", tmp_path)
    (copy / "seed-1/model.json").unlink()
    code, states, last = _doctor(copy, capsys)
    assert code == 2
    assert [name for name, state in states.items() if state != "ok"] == ["seed-1/model.json"]
    assert last == f"gpm doctor: {copy} is damaged: seed-1/model.json."


def test_an_unfinished_training_is_no_damage(made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    part = _copy(made / "runs", tmp_path, "new.part")
    for name in ("checksums.json", "summary.json", "seed-1/checksums.json", "seed-1/result.json"):
        (part / name).unlink()
    for folder in (part, tmp_path / "new"):
        assert main(["doctor", str(folder)]) == 0
        assert f"gpm train --resume {tmp_path / 'new'} resumes it" in capsys.readouterr().out
    (part / "seed-1/split.npz").write_bytes(b"PK")
    code, states, _ = _doctor(part, capsys)
    assert code == 2
    assert states["seed-1/split.npz"] == "damaged"


def test_files_that_are_as_written_but_do_not_go_together(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = _copy(made / "run", tmp_path)
    facts = json.loads((copy / "result.json").read_text())
    (copy / "result.json").write_text(json.dumps(facts | {"split_digest": "0" * 16}))
    write_checksums(copy)
    assert main(["doctor", str(copy)]) == 2
    assert "split.npz: it is not the split of the figures in the result" in capsys.readouterr().out
    copy = _copy(made / "run", tmp_path, "other")
    text = (copy / "config.yaml").read_text()
    (copy / "config.yaml").write_text(text.replace("width: 8", "width: 16"))
    write_checksums(copy)
    assert main(["doctor", str(copy)]) == 2
    assert "weights in the model: " in capsys.readouterr().out


def test_data_that_is_gone_is_said_and_is_no_damage_of_the_run(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = _copy(made / "run", tmp_path)
    text = (copy / "config.yaml").read_text()
    (copy / "config.yaml").write_text(text.replace(str(made / "graph"), str(tmp_path / "gone")))
    write_checksums(copy)
    code, states, _ = _doctor(copy, capsys)
    assert code == 0
    assert states["model.safetensors"] == "unchecked"


def test_what_is_more_and_what_was_left_over(made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy = _copy(made / "run", tmp_path)
    (copy / "mine.csv").touch()
    (copy / ".model.123.json").touch()
    shutil.copytree(copy, tmp_path / "copy.part")
    code, states, _ = _doctor(copy, capsys)
    assert code == 0
    assert states["mine.csv"] == "unknown"
    assert states[".model.123.json"] == "left over"
    assert states["copy.part"] == "unfinished"


def test_a_damaged_graph(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Graph.from_edges([[0, 1], [1, 2]]).save(tmp_path / "graph")
    content = bytearray((tmp_path / "graph/indices.npy").read_bytes())
    content[-1] ^= 1
    (tmp_path / "graph/indices.npy").write_bytes(content)
    code, states, last = _doctor(tmp_path / "graph", capsys)
    assert code == 2
    assert states == {"graph.json": "ok", "indices.npy": "damaged", "indptr.npy": "ok"}
    assert last == f"gpm doctor: {tmp_path / 'graph'} is damaged: indices.npy."


def test_what_is_neither_is_said_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", str(tmp_path)]) == 2
    assert "is neither a run folder nor a saved graph" in capsys.readouterr().err
    assert main(["doctor", str(tmp_path / "none")]) == 2
    assert f"There is no folder {tmp_path / 'none'}." in capsys.readouterr().err
