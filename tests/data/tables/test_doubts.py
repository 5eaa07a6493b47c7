"""Tables that could be read in more than one way: the wrong one is never taken without a word."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpm import GpmError, Graph
from gpm.data.link_data import LinkData
from gpm.data.sources import load_task_data
from gpm.data.tables import import_tables
from gpm.data.tables.importer import show_tables
from gpm.graph.folder import read_extras
from gpm.nn import FeatureTable

RING = "source,target\n" + "".join(f"n{i},n{(i + 1) % 40}\n" for i in range(40))


def _write(folder: Path, **files: str) -> None:
    for name, content in files.items():
        (folder / f"{name}.csv").write_text(content, encoding="utf-8")


def _nodes(**columns: Any) -> str:
    """A table of 40 nodes with a label, and a cell of each further column per node."""
    rows = (",".join([f"n{i}", "ab"[i % 2], *(str(cell(i)) for cell in columns.values())]) for i in range(40))
    return "\n".join([",".join(["id", "label", *columns]), *rows]) + "\n"


def _import(folder: Path, nodes: str = "", edges: str = RING, **options: Any) -> Path:
    _write(folder, edges=edges, **({"nodes": nodes} if nodes else {}))
    given = {"nodes": folder / "nodes.csv", "target": "label"} if nodes else {}
    return import_tables(folder / "edges.csv", folder / "graph", **given | options)


# Ends and ids


def test_columns_named_by_flag_are_the_ends_and_the_id(tmp_path: Path) -> None:
    edges = "when,payer,payee,amount,source\n" + "".join(f"1,n{i},n{(i + 1) % 40},5,x\n" for i in range(40))
    nodes = _nodes(account=lambda i: f"n{39 - i}").replace("id,", "number,")
    flags = {"from_column": "payer", "to_column": "Payee", "id_column": "account"}
    folder = _import(tmp_path, nodes, edges, **flags)
    schema = read_extras(folder)[0]["schema"]
    roles = {name: column["role"] for table in ("edges", "nodes") for name, column in schema[table]["columns"].items()}
    assert (roles["payer"], roles["payee"], roles["account"]) == ("source", "target", "id")
    graph = Graph.open(folder)
    assert graph.name(0) == "n39"  # the first row of the nodes
    assert sorted(graph.name(i) for i in graph.neighbors(graph.find("n7"))) == ["n6", "n8"]
    for flag, word, near in (("from_column", "payr", "payer"), ("id_column", "acount", "account")):
        with pytest.raises(GpmError, match=rf"has no column '{word}'\. Did you mean '{near}'\?"):
            _import(tmp_path, nodes, edges, overwrite=True, **flags | {flag: word})
    with pytest.raises(
        GpmError, match=r"--id_column account is a column of the nodes; give their table: --nodes FILE\."
    ):
        _import(tmp_path, "", edges, overwrite=True, **flags)
    with pytest.raises(GpmError, match="column 'payer' cannot be both source and target; give it one role"):
        _import(tmp_path, nodes, edges, overwrite=True, **flags | {"to_column": "payer"})


# Features


def test_one_dense_number_among_flags_is_standardised(tmp_path: Path) -> None:
    flags = {f"f{k}": lambda i, k=k: int(i % 7 == k) for k in range(4)}
    folder = _import(tmp_path, _nodes(income=lambda i: 20_000 + 1_000 * i, **flags))
    graph = Graph.open(folder)
    assert not FeatureTable(graph).bags
    assert graph.x is not None
    np.testing.assert_allclose(np.asarray(graph.x)[:, 0].std(), 1, rtol=1e-4)


def test_words_counted_and_features_of_edges(tmp_path: Path) -> None:
    words = {f"w{k}": lambda i, k=k: (i % 7 == k) * (i + 1) for k in range(4)}
    assert FeatureTable(Graph.open(_import(tmp_path, _nodes(**words)))).bags
    flags = "".join(f"n{i},n{(i + 1) % 40},{i + 1},{int(i % 5 == 0)},0,{int(i % 9 == 0)}\n" for i in range(40))
    found = show_tables(*_edges(tmp_path, f"source,target,amount,a,b,c\n{flags}"))
    assert "kept" not in found.edges.columns["amount"].why


def _edges(folder: Path, content: str) -> list[Path]:
    (folder / "more.csv").write_text(content)
    return [folder / "more.csv"]


def test_nodes_that_are_added_have_a_flag_for_what_is_missing(tmp_path: Path) -> None:
    folder = _import(tmp_path, _nodes(age=lambda i: i % 9), RING + "n0,extra\n", unlisted="add")
    graph = Graph.open(folder)
    assert graph.x is not None
    assert graph.x.shape == (41, 2)
    assert np.asarray(graph.x)[graph.find("extra")].tolist() == [0, 1]
    assert np.asarray(graph.x)[:40, 1].tolist() == [0] * 40


def test_thousands_and_decimal_commas_in_one_column(tmp_path: Path) -> None:
    rows = "".join(f"n{i};{'a' if i % 2 else 'b'};{'1.234' if i == 7 else f'{i},5'}\n" for i in range(40))
    (tmp_path / "nodes.csv").write_text(f"id;label;price\n{rows}")
    _write(tmp_path, edges=RING)
    with pytest.raises(GpmError, match="column 'price' has decimal commas, and cells such as"):
        import_tables(tmp_path / "edges.csv", tmp_path / "graph", nodes=tmp_path / "nodes.csv", target="label")


def test_values_of_the_yaml_are_those_of_the_column(tmp_path: Path) -> None:
    nodes = _nodes(level=lambda i: ("low", "mid", "high")[i % 3], size=lambda i: 1 + i % 3)
    yaml = "format: gpm-import\nversion: 1\nnodes:\n  columns:\n    {}: {{role: feature, values: [{}]}}\n"
    (tmp_path / "a.yaml").write_text(yaml.format("level", "Low, Mid, High"))
    with pytest.raises(GpmError, match=r"column 'level' has none of the values that the YAML lists for it, .* 'high'"):
        _import(tmp_path, nodes, schema=tmp_path / "a.yaml")
    (tmp_path / "b.yaml").write_text(yaml.format("size", "'1', '2'"))
    schema = read_extras(_import(tmp_path, nodes, schema=tmp_path / "b.yaml"))[0]["schema"]
    assert schema["nodes"]["columns"]["size"]["kind"] == "category"


def test_a_column_named_like_the_target_with_other_capitals_is_left_out(tmp_path: Path) -> None:
    edges = RING.replace("\n", ",x\n").replace("target,x", "target,Label")
    schema = read_extras(_import(tmp_path, _nodes(), edges))[0]["schema"]
    assert schema["edges"]["columns"]["Label"]["role"] == "ignore"


# Parts


def test_every_word_of_a_split_is_a_part(tmp_path: Path) -> None:
    words = ("train", "validate", "test")
    folder = _import(tmp_path, _nodes(split=lambda i: words[i % 3]))
    assert load_task_data(folder).make_split(0).name == "given"
    with pytest.raises(GpmError, match="column 'split' contains 'holdout', which is not a split; write train"):
        _import(tmp_path, _nodes(split=lambda i: ("train", "val", "holdout")[i % 3]), overwrite=True)
    with pytest.raises(GpmError, match="column 'Split' contains '0', which is not a split"):
        _import(tmp_path, _nodes(Split=lambda i: i % 3), overwrite=True)


def test_a_fold_of_part_words_is_a_split_and_another_is_a_feature(tmp_path: Path) -> None:
    columns = {"fold": lambda i: ("train", "valid", "test")[i % 3], "part": lambda i: f"p{i % 4}"}
    schema = read_extras(_import(tmp_path, _nodes(**columns)))[0]["schema"]
    roles = {name: column["role"] for name, column in schema["nodes"]["columns"].items()}
    assert (roles["fold"], roles["part"]) == ("split", "feature")


def test_masks_are_no_features(tmp_path: Path) -> None:
    with pytest.raises(GpmError, match=r"'train_mask' looks like the mask of a split; write the splits as one column"):
        _import(tmp_path, _nodes(train_mask=lambda i: i % 2 == 0))


def test_a_split_that_lacks_a_part_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(GpmError, match=r"nodes\.csv: no labelled row has 'val' in column 'split'"):
        _import(tmp_path, _nodes(split=lambda i: ("train", "test")[i % 2]))
    unlabelled = _nodes(split=lambda i: ("train", "val", "test")[i % 3]).replace(",a,test", ",,test")
    with pytest.raises(GpmError, match="no labelled row has 'test'"):
        _import(tmp_path, unlabelled.replace(",b,test", ",,test"))
    assert not (tmp_path / "graph").exists()


def test_parts_of_edges_are_read_for_links_and_said_not_to_be_read_for_nodes(tmp_path: Path) -> None:
    rows = [f"n{i},n{(i + 1) % 40},{('train', 'val', 'test', '')[i % 4]}" for i in range(40)]
    edges = "\n".join(["source,target,split", *rows, ""])
    _write(tmp_path, edges=edges, nodes=_nodes())
    found = show_tables(tmp_path / "edges.csv", nodes=tmp_path / "nodes.csv", target="label")
    assert (found.edges.columns["split"].role, found.edges.columns["split"].why) == ("ignore", "split of another task")
    data = load_task_data(_import(tmp_path, "", edges))
    assert isinstance(data, LinkData)
    splits = [data.make_split(seed) for seed in (0, 1)]
    for part, rest in (("val", 1), ("test", 2)):
        expected = {frozenset((f"n{i}", f"n{(i + 1) % 40}")) for i in range(rest, 40, 4)}
        for split in splits:
            assert {frozenset(data.graph.names_of(pair)) for pair in split.edges_of(part)} == expected
            assert len(split.negatives_of(part)) == 10
    assert len(splits[0].edges_of("train")) == 20
    assert [split.name for split in splits] == ["strict given, seed 0", "strict given, seed 1"]
    assert data.walked_graph(splits[0]).num_edges == 40
    assert data.make_split(0, "80/10/10").name == "strict 80/10/10, seed 0"
    with pytest.raises(GpmError, match=r"edges\.csv: no row has 'val' in column 'split'"):
        _import(tmp_path, "", edges.replace("val", "test"), overwrite=True)
    with pytest.raises(GpmError, match=r"line 2 and .*line 42: the same edge is in two splits; put it into one"):
        _import(tmp_path, "", edges + "n1,n0,test\n", overwrite=True)


def test_negatives_of_the_users_own_validate_and_test(tmp_path: Path) -> None:
    def load(rows: list[str]) -> LinkData:
        _write(tmp_path, negatives="\n".join([*rows, ""]))
        data = load_task_data(_import(tmp_path, "", RING, negatives=tmp_path / "negatives.csv", overwrite=True))
        assert isinstance(data, LinkData)
        return data

    pairs = [f"n{i},n{(i + 5) % 40}" for i in range(20)]
    data = load(["source,target", *pairs])
    split = data.make_split(0, "80/10/10")
    named = [{frozenset(data.graph.names_of(pair)) for pair in split.negatives_of(part)} for part in ("val", "test")]
    assert (len(named[0]), len(named[1])) == (10, 10)
    assert named[0] | named[1] == {frozenset(pair.split(",")) for pair in pairs}
    assert split.name.endswith("given negatives")
    drawn = {frozenset(pair) for pair in data.draw_negatives(split, 2000, 0, 0).tolist()}
    assert not drawn & {frozenset(pair) for pair in split.negatives_of("val", "test").tolist()}
    data = load(["source,target,split", *(f"{pair},{('val', 'test')[i > 4]}" for i, pair in enumerate(pairs))])
    split = data.make_split(1)
    assert {frozenset(data.graph.names_of(p)) for p in split.negatives_of("val")} == {
        frozenset(pair.split(",")) for pair in pairs[:5]
    }
    with pytest.raises(
        GpmError, match=r"n3 and n4 are given as a negative of .*, but have an edge; leave the pair out"
    ):
        load([*pairs, "n3,n4"]).make_split(0)
    with pytest.raises(
        GpmError, match=r"negatives\.csv, line 21: no edge or node is called 'n4O'; fix the name\. Did you"
    ):
        load([*pairs, "n3,n4O"])
    with pytest.raises(GpmError, match=r"Negatives are for training on links; leave out --negatives"):
        _import(tmp_path, _nodes(), negatives=tmp_path / "negatives.csv", overwrite=True)


# Edges


@pytest.mark.parametrize(("bad", "name"), [("1O", "edges.csv"), ("0,5", "edges.tsv")])
def test_a_weight_that_is_no_number_is_an_error(tmp_path: Path, bad: str, name: str) -> None:
    mark = "\t" if name.endswith("tsv") else ","
    cells = [bad if mark == "\t" or i == 3 else "1" for i in range(40)]
    rows = "".join(mark.join((f"n{i}", f"n{(i + 1) % 40}", cell)) + "\n" for i, cell in enumerate(cells))
    (tmp_path / name).write_text(mark.join(("source", "target", "weight")) + "\n" + rows)
    with pytest.raises(GpmError, match=rf"{name}, line \d: '{bad}' in column 'weight' is not a number"):
        import_tables(tmp_path / name, tmp_path / "graph")


def test_words_in_a_column_of_that_name_are_a_feature(tmp_path: Path) -> None:
    rows = "".join(f"n{i},n{(i + 1) % 40},{('light', 'heavy')[i % 2]}\n" for i in range(40))
    assert show_tables(*_edges(tmp_path, f"source,target,weight\n{rows}")).edges.columns["weight"].role == "feature"


def test_seconds_since_1970_are_no_weights(tmp_path: Path) -> None:
    rows = "".join(f"{i} {(i + 1) % 40} {{}}\n" for i in range(40))
    for number, role in ((1_082_040_961, "feature"), (3, "weight")):
        (tmp_path / "edges.txt").write_text(rows.format(*(number + 5 * (i % 13) for i in range(40))))
        assert show_tables(tmp_path / "edges.txt").edges.columns["column 3"].role == role


def test_what_says_which_way_edges_go_is_heeded(tmp_path: Path) -> None:
    rows = "".join(f"n{i},n{(i + 1) % 40},Directed\n" for i in range(40))
    path = _edges(tmp_path, f"Source,Target,Type\n{rows}")
    assert "WARNING: it says that edges are directed; add --directed" in show_tables(*path).edges.columns["Type"].why
    assert "WARNING" not in show_tables(*path, directed=True).edges.columns["Type"].why
    (tmp_path / "n.graphml").write_text(
        '<graphml><graph edgedefault="undirected"><node id="a"/><node id="b"/><edge source="a" target="b"/></graph>'
        "</graphml>"
    )
    with pytest.raises(GpmError, match="n declares its edges undirected; leave out --directed"):
        import_tables(tmp_path / "n.graphml", tmp_path / "graph", directed=True)


def test_usual_names_of_ends_are_a_header(tmp_path: Path) -> None:
    found = show_tables(*_edges(tmp_path, "follower,followee\nann,bob\nbob,cat\ncat,ann\n"))
    assert [found.edges.columns[name].role for name in ("follower", "followee")] == ["source", "target"]


# Graphs


def _molecules(value: Any) -> tuple[str, str]:
    nodes = "".join(f"{g}_{k},g{g},{value(g)}\n" for g in range(15) for k in range(6))
    edges = "".join(f"{g}_{k},{g}_{(k + 1) % 6}\n" for g in range(15) for k in range(6))
    return f"id,graph,label\n{nodes}", f"source,target\n{edges}"


def test_a_target_of_graphs_is_counted_once_per_graph(tmp_path: Path) -> None:
    nodes, edges = _molecules(lambda g: 100 + 7 * g)
    folder = _import(tmp_path, nodes, edges, graph="graph")
    assert read_extras(folder)[0]["kind"] == "values"


def test_graphs_that_differ_in_blanks_are_an_error(tmp_path: Path) -> None:
    nodes, edges = _molecules(lambda g: "ab"[g % 2])
    with pytest.raises(GpmError, match=r"nodes\.csv: graphs 'g3 ?' and 'g3 ?' differ only in blanks around them"):
        _import(tmp_path, nodes.replace("3_5,g3,", "3_5,g3 ,"), edges, graph="graph")


def test_a_table_of_graphs_whose_names_the_yaml_leaves_out(tmp_path: Path) -> None:
    nodes, edges = _molecules(lambda g: "ab"[g % 2])
    _write(tmp_path, edges=edges, nodes=nodes, graphs="graph,y\n" + "".join(f"g{g},{g % 2}\n" for g in range(15)))
    yaml = "format: gpm-import\nversion: 1\ngraphs:\n  columns:\n    graph: {role: ignore}\n"
    (tmp_path / "a.yaml").write_text(yaml)
    tables = {"nodes": tmp_path / "nodes.csv", "graphs": tmp_path / "graphs.csv", "schema": tmp_path / "a.yaml"}
    with pytest.raises(GpmError, match=r"graphs\.csv: which column names the graph of a row\?"):
        import_tables(tmp_path / "edges.csv", tmp_path / "graph", target="y", **tables)


def test_none_is_a_name_like_any_other(tmp_path: Path) -> None:
    _write(tmp_path, edges="source,target\nnone,NaN1\nNaN1,x\n", nodes="name,size\nnone,1\nNaN1,2\nx,3\n")
    graph = Graph.open(
        import_tables(tmp_path / "edges.csv", tmp_path / "graph", nodes=tmp_path / "nodes.csv", task="link")
    )
    assert [graph.name(node) for node in range(3)] == ["none", "NaN1", "x"]
