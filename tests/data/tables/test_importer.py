"""Tables become graphs: whatever their form and order, names, features, labels and parts end where they belong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpm import GpmError, Graph
from gpm.data.tables import import_tables, show_tables
from gpm.data.tables.schema import read_schema
from gpm.graph.folder import read_extras
from tests.small_tables import edges_of, friends, graphs_of, nodes_of, people, rings, save, shuffled, without


def _facts(folder: Path) -> dict[str, Any]:
    return read_extras(folder)[0]


def _whole(folder: Path) -> tuple[Any, ...]:
    facts = _facts(folder)
    return nodes_of(folder), edges_of(folder), facts["encoding"], facts["classes"], facts["targets"], facts["kind"]


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("people")
    edges, nodes = save(root, edges=friends(), nodes=people())
    return import_tables(edges, root / "graph", nodes=nodes, target="pet")


@pytest.mark.parametrize("form", [".tsv", ".parquet", ".jsonl", "frames", "shuffled"])
def test_neither_form_nor_order_matters(imported: Path, tmp_path: Path, form: str) -> None:
    edges: Any = pd.DataFrame(friends())
    nodes: Any = pd.DataFrame(people())
    if form == "shuffled":
        edges, nodes = save(tmp_path, edges=shuffled(friends(), 1), nodes=shuffled(people(), 2))
    elif form != "frames":
        edges, nodes = save(tmp_path, form, edges=friends(), nodes=people())
    assert _whole(import_tables(edges, tmp_path / "graph", nodes=nodes, target="pet")) == _whole(imported)


def test_values_labels_and_parts_are_those_of_the_table(imported: Path) -> None:
    given, found, facts = people(), nodes_of(imported), _facts(imported)
    age = next(entry for entry in facts["encoding"]["node"] if entry["column"] == "age")
    for i, name in enumerate(given["id"]):
        features, label, part = found[name]
        assert features[0] * age["std"] + age["mean"] == pytest.approx(given["age"][i], abs=1e-2)
        assert facts["classes"][label] == given["pet"][i]
        assert ("train", "val", "test")[part] == given["part"][i]
    assert (facts["kind"], facts["targets"], facts["task"]) == ("classes", ["pet"], "node")


def test_an_edge_has_the_features_of_its_row_both_ways(imported: Path) -> None:
    given, found = friends(), edges_of(imported)
    years = np.array(given["years"])
    for a, b, weight, how, each in zip(*given.values(), strict=True):
        assert found[a, b] == found[b, a]
        scaled = (each - years.mean()) / years.std()
        np.testing.assert_allclose(found[a, b], [weight, how == "school", how == "work", scaled], atol=1e-3)
    assert len(found) == 2 * len(years)


def test_directed_edges_go_one_way(tmp_path: Path) -> None:
    given = friends()
    folder = import_tables(pd.DataFrame(given), tmp_path / "graph", directed=True)
    assert set(edges_of(folder)) == set(zip(given["source"], given["target"], strict=True))
    assert _facts(folder)["task"] == "link"


@pytest.mark.parametrize(
    ("target", "kind", "shape"),
    [
        ("income", "values", (24,)), ("sings,skis", "labels", (24, 2)), (["sings", "skis"], "labels", (24, 2)),
        (["age", "income"], "values", (24, 2)), ("sings", "classes", (24,)), ("PET", "classes", (24,)),
    ],
)  # fmt: skip
def test_targets_of_every_kind(tmp_path: Path, target: Any, kind: str, shape: tuple[int, ...]) -> None:
    folder = import_tables(pd.DataFrame(friends()), tmp_path / "graph", nodes=pd.DataFrame(people()), target=target)
    y, facts = Graph.open(folder).y, _facts(folder)
    assert y is not None
    assert (facts["kind"], y.shape) == (kind, shape)
    for place, name in enumerate(facts["targets"] if kind != "classes" else []):
        np.testing.assert_allclose(y.reshape(24, -1)[:, place], people()[name], rtol=1e-6)


def test_a_name_with_a_comma_is_one_column(tmp_path: Path) -> None:
    nodes = pd.DataFrame(people()).rename(columns={"pet": "sings,skis"})
    folder = import_tables(pd.DataFrame(friends()), tmp_path / "graph", nodes=nodes, target="sings,skis")
    assert (_facts(folder)["targets"], _facts(folder)["classes"]) == (["sings,skis"], ["cat", "dog"])
    with pytest.raises(GpmError, match="no column 'nowhere'"):
        import_tables(pd.DataFrame(friends()), tmp_path / "g", nodes=nodes, target="skis, nowhere")


def test_numbers_are_values_if_it_is_said_so(tmp_path: Path) -> None:
    given: dict[str, Any] = {"nodes": pd.DataFrame(people()), "target": "sings"}
    for values, kind in ((False, "classes"), (True, "values")):
        folder = import_tables(pd.DataFrame(friends()), tmp_path / kind, values=values, **given)
        assert _facts(folder)["kind"] == kind


# Collections


def _import_rings(folder: Path, form: str, seed: int = 0) -> Path:
    edges, nodes, graphs = rings()
    if form == "nodes":
        told = {name: i for i, name in enumerate(graphs["graph"])}
        for key in ("shape", "part"):
            nodes[key] = [graphs[key][told[name]] for name in nodes["graph"]]
    if seed:
        edges, nodes, graphs = (shuffled(table, seed) for table in (edges, nodes, graphs))
    frames = {key: pd.DataFrame(table) for key, table in (("nodes", nodes), ("graphs", graphs))}
    if form == "nodes":
        return import_tables(
            pd.DataFrame(edges), folder, nodes=frames["nodes"], graph="graph", target="shape", task="graph"
        )
    if form == "edges":
        return import_tables(pd.DataFrame(edges), folder, graphs=frames["graphs"], target="shape")
    return import_tables(pd.DataFrame(edges), folder, **frames, target="shape")


@pytest.mark.parametrize("form", ["graphs", "nodes", "edges"])
def test_labels_and_parts_end_at_their_graphs(tmp_path: Path, form: str) -> None:
    folder, other = _import_rings(tmp_path / "graph", form), _import_rings(tmp_path / "other", form, 3)
    assert graphs_of(folder) == graphs_of(other)
    assert nodes_of(folder) == nodes_of(other)
    assert edges_of(folder) == edges_of(other)
    given, classes = rings()[2], _facts(folder)["classes"]
    for name, shape, size, part in zip(*given.values(), strict=True):
        found = graphs_of(folder)[name]
        assert (found[0], classes[found[1]]) == (int(size), shape)
        assert ("train", "val", "test")[found[2]] == part


# Nodes that no table lists


def test_unlisted_nodes_are_refused_added_or_dropped(tmp_path: Path) -> None:
    edges = {key: [*values, values[-1]] for key, values in friends().items()}
    edges["target"][-1] = "nobody"
    edges_file, nodes_file = save(tmp_path, edges=edges, nodes=people())
    with pytest.raises(GpmError, match=rf"edges\.csv, line {len(edges['target']) + 1}: nodes\.csv does not list node"):
        import_tables(edges_file, tmp_path / "error", nodes=nodes_file, target="pet")
    assert not list(tmp_path.glob("*error*"))
    added = import_tables(edges_file, tmp_path / "add", nodes=nodes_file, target="pet", unlisted="add")
    dropped = import_tables(edges_file, tmp_path / "drop", nodes=nodes_file, target="pet", unlisted="drop")
    assert nodes_of(added)["nobody"][1:] == (-1, -1)
    assert (set(nodes_of(added)) - set(nodes_of(dropped)), len(edges_of(added)) - len(edges_of(dropped))) == (
        {"nobody"}, 2,
    )  # fmt: skip


# The YAML


def test_what_the_yaml_says_holds(tmp_path: Path) -> None:
    edges, nodes = save(tmp_path, edges=friends(), nodes=people())
    schema = show_tables(edges, nodes=nodes, target="pet")
    folder = import_tables(edges, tmp_path / "graph", nodes=nodes, schema=schema)
    assert read_schema(folder / "import.yaml") == schema
    path = folder / "import.yaml"
    text = path.read_text().replace("age: {role: feature, kind: number", "age: {role: ignore")
    text = text.replace("colour: {role: feature, kind: category", "colour: {role: feature, kind: text, buckets: 5")
    (tmp_path / "mine.yaml").write_text(text)
    mine = import_tables(edges, tmp_path / "mine", nodes=nodes, schema=tmp_path / "mine.yaml")
    kinds = {entry["column"]: entry["kind"] for entry in _facts(mine)["encoding"]["node"]}
    assert "age" not in kinds
    assert kinds["colour"] == "text"
    with pytest.raises(GpmError, match="The target is 'pet' in the YAML, but 'income' in the command"):
        import_tables(edges, tmp_path / "no", nodes=nodes, schema=tmp_path / "mine.yaml", target="income")


def test_showing_writes_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    edges, nodes = save(tmp_path, edges=friends(), nodes=people())
    with caplog.at_level("INFO", "gpm"):
        schema = show_tables(edges, nodes=nodes, target="pet", unlisted="add")
    assert schema.unlisted == "add"
    assert len(caplog.messages) == 1 + len(friends()) + len(people())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["edges.csv", "nodes.csv"]


# Other tables, read as these were


def test_other_tables_are_encoded_like_the_first(imported: Path, tmp_path: Path) -> None:
    given = without(people(), "pet", "part")
    given["age"] = [age + 100 for age in given["age"]]
    folder = import_tables(pd.DataFrame(friends()), tmp_path / "graph", nodes=pd.DataFrame(given), like=imported)
    assert _facts(folder)["encoding"] == _facts(imported)["encoding"]
    assert (_facts(folder)["kind"], Graph.open(folder).y) == ("", None)
    age = next(entry for entry in _facts(imported)["encoding"]["node"] if entry["column"] == "age")
    for name, (features, *_) in nodes_of(folder).items():
        before = nodes_of(imported)[name][0]
        assert features[0] - before[0] == pytest.approx(100 / age["std"], abs=1e-3)
        assert features[1:] == before[1:]


def test_what_is_new_in_other_tables_is_said(imported: Path, tmp_path: Path) -> None:
    given = without(people(), "since")
    given["colour"] = ["violet", *given["colour"][1:]]
    given["pet"] = ["fish", *given["pet"][1:]]
    given["part"] = ["later", *given["part"][1:]]
    given["shoe"] = list(range(24))
    _, nodes = save(tmp_path, edges=friends(), nodes=given)
    folder = import_tables(tmp_path / "edges.csv", tmp_path / "graph", nodes=nodes, like=imported)
    said = "\n".join(_facts(folder)["unseen"])
    for words in (
        "nodes.csv: not read, because training had no such column: 'shoe'.", "'since'", "'violet' (1)",
        "nodes.csv, line 2: 'fish' in column 'pet' is not a class of the training data.",
        "'later' in column 'part' is not a split",
    ):  # fmt: skip
        assert words in said
    assert len(_facts(folder)["unseen"]) == 5


# What goes wrong


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"target": "pets"}, r"nodes\.csv has no column 'pets'\. Did you mean 'pet'\?"),
        ({}, r"Name the column to predict: --target NAME; or predict edges: --task link\."),
        ({"target": "pet", "like": "x"}, "already describes the columns; leave out either it or a target"),
        ({"like": "x"}, "x is neither an imported graph nor a run trained on one"),
        ({"target": "pet", "memory": "lots"}, "memory must be a size such as 4GB"),
        ({"target": "source"}, r"'source' is a column of edges\.csv, but a target must be a column of nodes\.csv"),
    ],
)
def test_mistakes_leave_nothing(tmp_path: Path, options: dict[str, Any], sentence: str) -> None:
    edges, nodes = save(tmp_path, edges=friends(), nodes=people())
    with pytest.raises(GpmError, match=sentence):
        import_tables(edges, tmp_path / "graph", nodes=nodes, **{"task": "node"} | options)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["edges.csv", "nodes.csv"]


def test_a_graph_is_replaced_whole_or_stays(tmp_path: Path) -> None:
    edges, nodes = save(tmp_path, edges=friends(), nodes=people())
    folder = import_tables(edges, tmp_path / "graph", nodes=nodes, target="pet")
    before = (folder / "graph.json").read_text()
    with pytest.raises(GpmError, match="exists already"):
        import_tables(edges, folder, nodes=nodes, target="income")
    with pytest.raises(GpmError, match="no column"):
        import_tables(edges, folder, nodes=nodes, target="nothing", overwrite=True)
    assert (folder / "graph.json").read_text() == before
    import_tables(edges, folder, nodes=nodes, target="income", overwrite=True)
    assert _facts(folder)["kind"] == "values"


_NAMES = st.text(st.characters(codec="ascii", categories=["L", "N", "P", "S"]), min_size=1).map(lambda t: f"x{t}")


@given(st.lists(_NAMES, min_size=3, max_size=8, unique=True), st.randoms(use_true_random=False))
@settings(max_examples=8)
def test_labels_follow_any_names(tmp_path_factory: pytest.TempPathFactory, names: list[str], random: Any) -> None:
    folder = tmp_path_factory.mktemp("any")
    label = {name: ("a", "b")[i % 2] for i, name in enumerate(names)}
    listed = random.sample(names, len(names))
    nodes = {"id": listed, "label": [label[name] for name in listed]}
    ends = [random.choice(names) for _ in range(12)]
    edges, table = save(folder, edges={"source": ends[:6], "target": ends[6:]}, nodes=nodes)
    found = nodes_of(import_tables(edges, folder / "graph", nodes=table, target="label"))
    assert {name: "ab"[y] for name, (_, y, _) in found.items()} == label


def test_a_header_above_codes_is_no_edge(tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text("person_a,person_b\np00,p01\np01,p02\np02,p03\n")
    (tmp_path / "nodes.csv").write_text("person_id,gender\np00,f\np01,m\np02,f\np03,m\n")
    folder = import_tables(tmp_path / "edges.csv", tmp_path / "graph", nodes=tmp_path / "nodes.csv", target="gender")
    graph = Graph.open(folder)
    assert (graph.num_nodes, graph.num_edges) == (4, 6)
