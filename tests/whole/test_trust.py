"""A folder from elsewhere is data, never code: a canary in every file that was ever loaded by unpickling."""

from __future__ import annotations

import io
import pickle
import shutil
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data, InMemoryDataset

from gpm import GpmError, Graph, Run, train
from gpm.cli.main import main
from gpm.data.catalog import CATALOG, copy_raw
from gpm.data.graph_files import load_graph
from gpm.data.named_datasets import load_dataset
from gpm.data.node_data import load_node_data
from gpm.data.splits import Split
from gpm.data.synthetic import planted_motifs
from gpm.io.manifest import write_checksums

SMALL: dict[str, Any] = {
    "width": 8, "heads": 2, "lengths": [0, 1, 2], "patterns": 6, "pool": 6, "batch": 64, "epochs": 3, "warmup": 1,
}  # fmt: skip
pytestmark = pytest.mark.usefixtures("one_thread_for_all")


class Canary:
    """Whoever unpickles it writes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


@pytest.fixture
def canary(tmp_path: Path) -> Canary:
    return Canary(tmp_path / "executed")


def test_the_canary_sings(canary: Canary) -> None:
    """Else the tests below show nothing."""
    pickle.loads(pickle.dumps(canary))
    assert canary.path.exists()


def _disguises(canary: Canary) -> dict[str, bytes]:
    """The canary in every wrapping that some loader unpickles."""
    zipped, legacy, npy, npz, tensors = (io.BytesIO() for _ in range(5))
    torch.save({"state_dict": canary, "epoch": 0}, zipped)
    torch.save({"x": canary}, legacy, _use_new_zipfile_serialization=False)
    np.save(npy, np.array([canary], dtype=object), allow_pickle=True)
    np.savez(npz, train=np.array([canary], dtype=object), name="x", digest="x")
    with zipfile.ZipFile(tensors, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(canary, protocol=2))
        archive.writestr("archive/version", "3\n")
    streams = {"torch": zipped, "legacy": legacy, "npy": npy, "npz": npz, "bare": tensors}
    return {"pickle": pickle.dumps(canary)} | {name: stream.getvalue() for name, stream in streams.items()}


DISGUISES = ["pickle", "torch", "legacy", "npy", "npz", "bare"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    planted_motifs(num_houses=4, num_cycles=2, base_nodes=30, seed=1).graph.save(folder / "graph")
    train(str(folder / "graph"), out=folder / "run", quiet=True, **SMALL)
    return folder


@pytest.mark.parametrize("disguise", DISGUISES)
@pytest.mark.parametrize("name", ["model.safetensors", "split.npz", "config.yaml", "model.json"])
@pytest.mark.parametrize("listed", [True, False], ids=["with checksums of its own", "without checksums"])
def test_files_of_a_run(made: Path, tmp_path: Path, canary: Canary, name: str, disguise: str, listed: bool) -> None:
    copy = Path(shutil.copytree(made / "run", tmp_path / "copy"))
    (copy / name).write_bytes(_disguises(canary)[disguise])
    write_checksums(copy) if listed else (copy / "checksums.json").unlink()

    def use() -> None:
        run = Run.open(copy)
        run.evaluate()

    with pytest.raises(GpmError, match=name):
        use()
    assert main(["doctor", str(copy)]) == 2
    assert not canary.path.exists()


@pytest.mark.parametrize("disguise", DISGUISES)
def test_a_checkpoint(
    made: Path, tmp_path: Path, canary: Canary, disguise: str, capsys: pytest.CaptureFixture[str]
) -> None:
    part = Path(shutil.copytree(made / "run", tmp_path / "new.part"))
    for name in ("checksums.json", "result.json"):
        (part / name).unlink()
    (part / "checkpoint.ckpt").write_bytes(_disguises(canary)[disguise])
    assert main(["train", "--resume", str(tmp_path / "new"), "--quiet"]) == 2
    assert "checkpoint.ckpt cannot be read" in capsys.readouterr().err
    assert not canary.path.exists()


@pytest.mark.parametrize("disguise", DISGUISES)
@pytest.mark.parametrize("name", ["indices.npy", "y.npy", "graph.json"])
def test_a_saved_graph(made: Path, tmp_path: Path, canary: Canary, name: str, disguise: str) -> None:
    copy = Path(shutil.copytree(made / "graph", tmp_path / "copy"))
    (copy / name).write_bytes(_disguises(canary)[disguise])
    with pytest.raises(GpmError):
        Graph.open(copy)
    assert not canary.path.exists()


@pytest.mark.parametrize("disguise", DISGUISES)
def test_a_pyg_file_and_a_split(tmp_path: Path, canary: Canary, disguise: str) -> None:
    for name in ("data.pt", "split.npz"):
        (tmp_path / name).write_bytes(_disguises(canary)[disguise])
    for read in (load_graph, load_node_data):
        with pytest.raises(GpmError, match=r"data\.pt"):
            read(tmp_path / "data.pt")
    with pytest.raises(GpmError, match=r"split\.npz"):
        Split.load(tmp_path / "split.npz")
    assert not canary.path.exists()


def test_a_pyg_data_that_hides_it(tmp_path: Path, canary: Canary) -> None:
    data = Data(edge_index=torch.tensor([[0], [1]]), x=torch.eye(2), y=torch.arange(2))
    data.extra = canary
    torch.save(data, tmp_path / "data.pt")
    with pytest.raises(GpmError, match=r"data\.pt cannot be read as a PyG file"):
        load_graph(tmp_path / "data.pt")
    assert not canary.path.exists()


# Caches of named datasets


def _raw_cornell(folder: Path) -> None:
    """Raw files of WebKB, in small: PyG makes its processed cache of them."""
    raw = folder / "WebKB/cornell/raw"
    raw.mkdir(parents=True)
    nodes = "".join(f"{i}\t{','.join('1' if i % 5 == k else '0' for k in range(5))}\t{i % 2}\n" for i in range(20))
    (raw / "out1_node_feature_label.txt").write_text(f"node_id\tfeature\tlabel\n{nodes}")
    (raw / "out1_graph_edges.txt").write_text("a\tb\n" + "".join(f"{i}\t{(i + 1) % 20}\n" for i in range(20)))
    part = np.arange(20) % 3
    for split in range(10):
        masks = {f"{name}_mask": part == k for k, name in enumerate(("train", "val", "test"))}
        np.savez(raw / f"cornell_split_0.6_0.2_{split}.npz", **masks)


@pytest.fixture
def cornell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The data root, with the cache of a dataset in it."""
    monkeypatch.setenv("GPM_DATA", str(tmp_path / "data"))
    monkeypatch.delenv("GPM_RAW", raising=False)
    _raw_cornell(tmp_path / "data")
    assert load_dataset("cornell")[0].num_nodes == 20
    return tmp_path / "data/WebKB/cornell"


@pytest.mark.filterwarnings("ignore")  # as errors they would keep PyG from doing what it does
@pytest.mark.parametrize("disguise", DISGUISES)
@pytest.mark.parametrize("name", ["data.pt", "pre_transform.pt", "pre_filter.pt"])
def test_a_processed_cache(cornell: Path, canary: Canary, name: str, disguise: str) -> None:
    """PyG loads what it cannot read safely once more, with everything allowed, and some files so at once."""
    (cornell / "processed" / name).write_bytes(_disguises(canary)[disguise])
    with pytest.raises(GpmError, match="Could not load 'cornell'"):
        load_dataset("cornell")
    assert not canary.path.exists()


@pytest.mark.filterwarnings("ignore")
def test_a_cache_with_a_canary_beside_the_data(cornell: Path, canary: Canary) -> None:
    data = Data(edge_index=torch.tensor([[0], [1]]), x=torch.eye(2))
    data.extra = canary
    torch.save((*InMemoryDataset.collate([data]), Data), cornell / "processed/data.pt")
    with pytest.raises(GpmError, match="Could not load 'cornell'"):
        load_dataset("cornell")
    assert not canary.path.exists()


class _Script(torch.nn.Module):
    """A program of TorchScript that writes a file when it is loaded."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path
        self.made = torch.zeros(1)

    @torch.jit.export
    def __getstate__(self) -> tuple[str, bool]:
        return self.path, self.training

    @torch.jit.export
    def __setstate__(self, state: tuple[str, bool]) -> None:
        self.path, self.training = state
        self.made = torch.from_file(self.path, True, 8, dtype=torch.uint8)

    def forward(self) -> int:
        return 1


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["data.pt", "pre_transform.pt", "pre_filter.pt"])
def test_a_program_of_torchscript(cornell: Path, tmp_path: Path, name: str) -> None:
    """torch.load hands it to another loader, whatever it is asked."""
    torch.jit.save(torch.jit.script(_Script(str(tmp_path / "executed"))), tmp_path / "program.pt")
    (tmp_path / "executed").unlink(missing_ok=True)
    torch.jit.load(tmp_path / "program.pt")
    assert (tmp_path / "executed").exists()  # it sings
    (tmp_path / "executed").unlink()
    shutil.copy(tmp_path / "program.pt", cornell / "processed" / name)
    with pytest.raises(GpmError, match="Could not load 'cornell'"):
        load_dataset("cornell")
    assert not (tmp_path / "executed").exists()


def test_raw_files(cornell: Path, canary: Canary) -> None:
    shutil.rmtree(cornell / "processed")
    np.savez(cornell / "raw/cornell_split_0.6_0.2_0.npz", train_mask=np.array([canary], dtype=object))
    with pytest.raises(GpmError, match="Could not load 'cornell'"):
        load_dataset("cornell")
    planetoid = cornell.parents[1] / "Planetoid/Cora/raw"
    planetoid.mkdir(parents=True)
    for name in ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index"):
        (planetoid / f"ind.cora.{name}").write_bytes(pickle.dumps(canary))
    with pytest.raises(GpmError, match="Could not load 'cora'"):
        load_dataset("cora")
    assert not canary.path.exists()


def test_links_among_raw_files_are_copied_as_what_they_lead_to_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPM_RAW", str(tmp_path / "given"))
    monkeypatch.setenv("GPM_DATA", str(tmp_path / "data"))
    _raw_cornell(tmp_path / "given")
    copy_raw(f"{CATALOG['cornell'].raw}/raw")
    assert load_dataset("cornell")[0].num_nodes == 20
    assert not any(path.is_symlink() for path in (tmp_path / "data").rglob("*"))
