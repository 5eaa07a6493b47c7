"""Inputs that were once answered wrongly, as `benchmarks/fuzz.py` found them: each stays answered rightly."""

from __future__ import annotations

import json
import os
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from torch_geometric.data import Data

from gpm import GpmError, Graph, Run
from gpm.cli.main import main
from gpm.data.graph_files import load_graph
from gpm.data.sources import load_task_data
from gpm.data.tables import import_tables
from gpm.io.manifest import CHECKSUMS, HEADER, checksum_of, write_checksums
from gpm.io.npy import map_array
from gpm.io.run_files import read_config, write_config
from tests.small_runs import folder_of

pytestmark = pytest.mark.usefixtures("one_thread_for_all")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A run folder that may be spoiled."""
    return Path(shutil.copytree(folder_of("classes"), tmp_path / "copy"))


def _names(graph: Graph) -> list[Any]:
    return [graph.name(node) for node in range(graph.num_nodes)]


# Tables, networks and PyG files


def test_an_edge_of_a_network_without_an_end(tmp_path: Path) -> None:
    nodes = '<node id="a"/><node id="b"/>'
    for name, edge in (("n.graphml", '<edge soUrce="a" target="b"/>'), ("n.gexf", '<edge source="a"/>')):
        kind = name.split(".")[1]
        (tmp_path / name).write_text(f"<{kind}><graph>{nodes}\n{edge}</graph></{kind}>")
        with pytest.raises(GpmError, match=rf"{name}, line 2: an edge has no (source|target); write both ends\."):
            import_tables(tmp_path / name, tmp_path / "graph")


def test_a_node_of_gml_that_is_no_whole_number(tmp_path: Path) -> None:
    nodes = "".join(f'  node [ id {i} label "the id x{i}" ]\n' for i in range(3))
    (tmp_path / "n.gml").write_text(f"graph [\n{nodes}  edge [ source 1e-320 target 2 ]\n]\n")
    with pytest.raises(GpmError, match=r"n\.gml, line 5: source '1e-320' is not an integer; fix it\."):
        import_tables(tmp_path / "n.gml", tmp_path / "graph")


def test_a_column_whose_name_has_line_ends_in_it_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "edges.jsonl").write_text(
        json.dumps({"a\n\x85\u2028\x1c\u202e": "x", "source": "y"} | dict.fromkeys("bcd", "z")) + "\n"
    )
    with pytest.raises(GpmError) as found:
        import_tables(tmp_path / "edges.jsonl", tmp_path / "graph")
    assert len(str(found.value).splitlines()) == 1
    assert r"a\n\x85\u2028\x1c\u202e" in str(found.value)


def test_an_object_with_a_vertical_tab_behind_it(tmp_path: Path) -> None:
    (tmp_path / "edges.jsonl").write_text('{"source": "a", "target": "b"}\v')
    assert _names(Graph.open(import_tables(tmp_path / "edges.jsonl", tmp_path / "graph"))) == ["a", "b"]


@pytest.mark.parametrize("count", [2**50, -1, 1.5, "7", True, 10**400])
def test_a_pyg_file_whose_number_of_nodes_is_none(tmp_path: Path, count: Any) -> None:
    data = Data(edge_index=torch.tensor([[0, 1], [1, 0]]))
    data.num_nodes = count
    torch.save(data, tmp_path / "data.pt")
    with pytest.raises(GpmError, match=r"data\.pt says that num_nodes is .*, which does not match its nodes"):
        load_graph(tmp_path / "data.pt")


def test_a_pyg_file_without_edges_is_refused_without_a_warning(tmp_path: Path) -> None:
    bare = Data(x=torch.zeros(3, 1), y=torch.zeros(3))
    for content in (bare, [bare, bare]):
        torch.save(content, tmp_path / "data.pt")
        with pytest.raises(GpmError, match="no edge_index"):
            load_graph(tmp_path / "data.pt")


@pytest.mark.parametrize("x", ["text", ["a", "b"]])
def test_a_pyg_file_whose_features_are_none_is_refused_without_a_warning(tmp_path: Path, x: Any) -> None:
    torch.save(Data(edge_index=torch.tensor([[0], [1]]), x=x), tmp_path / "data.pt")
    with pytest.raises(GpmError):
        load_graph(tmp_path / "data.pt")


def test_classes_as_halves(tmp_path: Path) -> None:
    y = torch.tensor([0, 1, 0, 1, 0, 1], dtype=torch.float16)
    torch.save(Data(edge_index=torch.tensor([[0, 1], [1, 2]]), y=y, num_nodes=6), tmp_path / "data.pt")
    assert load_task_data(tmp_path / "data.pt", "node").labels.tolist() == [0, 1, 0, 1, 0, 1]


# Graph folders


@pytest.mark.parametrize(
    "fact", [{"kind": "/etc/passwd"}, {"kind": 7}, {"task": "edge"}, {"classes": "ab"}, {"targets": [1]}]
)
def test_facts_of_a_graph_that_are_none(tmp_path: Path, fact: dict[str, Any]) -> None:
    folder = Path(shutil.copytree(folder_of("classes").parent / "graph", tmp_path / "graph"))
    header = json.loads((folder / HEADER).read_text())
    header["facts"] = {"task": "node", "kind": "classes", "classes": ["a"]} | fact
    header["checksum"] = checksum_of(header)
    (folder / HEADER).write_text(json.dumps(header))
    with pytest.raises(
        GpmError, match=rf"graph\.json is damaged: facts\.{next(iter(fact))}(\[0\])?: .*; save the graph again"
    ):
        load_task_data(folder)


@pytest.mark.parametrize(
    "header",
    [
        "'|S0', 'fortran_order': False, 'shape': (140737488355327,)",
        "'<i8', 'fortran_order': False, 'shape': (0, 140737488355327, 140737488355327)",
    ],
)
def test_arrays_that_stand_for_more_than_their_bytes(tmp_path: Path, header: str) -> None:
    text = f"{{'descr': {header}, }}".ljust(117) + "\n"
    path = tmp_path / "x.npy"
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode())
    with path.open("rb") as file, pytest.raises(GpmError, match="is not an array of numbers as gpm writes them"):
        map_array(file, path)


@pytest.mark.parametrize("way", ["ids", "buffer"])
def test_pyg_files_that_stand_for_more_than_their_bytes(tmp_path: Path, way: str) -> None:
    torch.save(
        Data(edge_index=torch.tensor([[0], [2**28]])) if way == "ids" else {"x": bytearray(9)}, tmp_path / "d.pt"
    )
    with pytest.raises(GpmError, match=r"d\.pt (has an edge to node 268435456|is refused: .* asks for a buffer)"):
        load_graph(tmp_path / "d.pt")


# Run folders


def test_a_training_from_elsewhere_does_not_say_what_is_overwritten(copy: Path, tmp_path: Path) -> None:
    part = copy.rename(copy.with_name("again.part"))
    for name in (CHECKSUMS, "result.json"):
        (part / name).unlink()
    plan = json.loads((part / "plan.json").read_text())
    (tmp_path / "keys").write_text("mine")
    (part / "plan.json").write_text(json.dumps(plan | {"result": str(tmp_path / "keys")}))
    assert main(["train", "--resume", str(part.with_name("again")), "--quiet"]) == 0
    assert (tmp_path / "keys").read_text() == "mine"


@pytest.mark.parametrize("missing", ["", "model.safetensors"])
def test_a_run_without_its_checksums_is_not_whole(copy: Path, missing: str, capsys: pytest.CaptureFixture[str]) -> None:
    listed = json.loads((copy / CHECKSUMS).read_text())
    (copy / CHECKSUMS).unlink()
    if missing:
        del listed["files"][missing]
        (copy / CHECKSUMS).write_text(json.dumps(listed))
    assert main(["doctor", str(copy)]) == 2
    assert f"damaged    {missing or CHECKSUMS}" in capsys.readouterr().out


def test_folders_in_folders_without_end(copy: Path) -> None:
    deep = copy
    for _ in range(40):
        deep = deep / "a"
        deep.mkdir()
    assert main(["doctor", str(copy)]) == 2


def test_explanations_are_not_written_through_a_link(copy: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (copy / "explain").symlink_to(tmp_path / "elsewhere")
    assert main(["explain", str(copy), "--node", "n0"]) == 2
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize("entry", [{"bytes": "x"}, {"bytes": []}, {"bytes": None}, {"bytes": -1}, {"sha256": {}}])
def test_checksums_that_are_none(copy: Path, entry: dict[str, Any]) -> None:
    listed = json.loads((copy / CHECKSUMS).read_text())
    listed["files"]["model.json"] |= entry
    (copy / CHECKSUMS).write_text(json.dumps(listed))
    with pytest.raises(GpmError, match=r"checksums\.json is damaged: files\['model\.json'\]"):
        Run.open(copy)
    assert main(["doctor", str(copy)]) == 2


@pytest.mark.parametrize("way", ["folder", "pipe", "link", "nowhere"])
def test_checksums_that_are_no_file(copy: Path, way: str) -> None:
    path = copy / CHECKSUMS
    path.unlink()
    if way == "pipe":
        os.mkfifo(path)
    elif way == "folder":
        path.mkdir()
    else:
        path.symlink_to("model.json" if way == "link" else "nowhere")
    assert main(["doctor", str(copy)]) == 2


def test_a_split_with_a_broken_header_of_an_array(copy: Path) -> None:
    with zipfile.ZipFile(copy / "split.npz") as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    entries["val.npy"] = entries["val.npy"].replace(b"), }", b"(, {", 1)
    with zipfile.ZipFile(copy / "split.npz", "w") as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    write_checksums(copy)
    with pytest.raises(GpmError, match=r"split\.npz is not a readable archive"):
        Run.open(copy).evaluate()
    assert main(["doctor", str(copy)]) == 2


def test_a_training_is_gone_on_with_by_its_plan_whatever_became_of_its_options(copy: Path) -> None:
    options = read_config(copy / "config.yaml")
    part = copy.rename(copy.with_name("again.part"))
    for name in (CHECKSUMS, "result.json"):
        (part / name).unlink()
    (part / "config.yaml").write_bytes(b"lr: [\xff")
    assert main(["train", "--resume", str(part.with_name("again")), "--quiet"]) == 0
    assert read_config(part.with_name("again") / "config.yaml") == options
    assert main(["doctor", str(part.with_name("again"))]) == 0


def test_classes_that_the_labels_do_not_have(copy: Path) -> None:
    facts = json.loads((copy / "model.json").read_text())
    facts["classes"][-1] += 1
    (copy / "model.json").write_text(json.dumps(facts))
    write_checksums(copy)
    with pytest.raises(GpmError, match="is of class 20, which is not a class of the model"):
        Run.open(copy).evaluate()
    assert main(["doctor", str(copy)]) == 2


def test_options_and_split_of_another_task(copy: Path) -> None:
    options = read_config(copy / "config.yaml")
    write_config(copy / "config.yaml", options.with_(task="link"))
    write_checksums(copy)
    with pytest.raises(GpmError, match="is damaged: the options are for links, the model is for nodes"):
        Run.open(copy).evaluate()
    write_config(copy / "config.yaml", options)
    shutil.copy(folder_of("links") / "split.npz", copy)
    write_checksums(copy)
    with pytest.raises(GpmError, match=r"split\.npz is not a split of nodes"):
        Run.open(copy).evaluate()
