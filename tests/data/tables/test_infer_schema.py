"""Roles and kinds of columns; tables are written as text, as users have them."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpm import GpmError
from gpm.data.tables.column_kinds import profile
from gpm.data.tables.encode import encode
from gpm.data.tables.fit_encoding import fit_encoding
from gpm.data.tables.infer_schema import examples, infer
from gpm.data.tables.open_table import Table, open_table
from gpm.data.tables.schema import Column, Schema, TableSchema, describe
from gpm.data.tables.session import connect

Open = Callable[..., Table]
EDGES = "source,target\n1,2\n2,3\n"


@pytest.fixture(scope="module")
def base() -> Iterator[Any]:
    with connect() as found:
        yield found


@pytest.fixture
def opened(base: Any, tmp_path: Path) -> Open:
    """Open text, or a column of cells, as a table."""

    def _open(text: str, name: str = "nodes.csv", **options: Any) -> Table:
        (tmp_path / name).write_text(text, encoding="utf-8")
        return open_table(base, tmp_path / name, options=options)

    return _open


def _kind(base: Any, cells: list[Any], **facts: Any) -> Column:
    """What a column of the nodes is taken for."""
    ids = [f"n{i}" for i in range(len(cells))]
    labels = ["a", "b"] * (len(cells) // 2) + ["a"] * (len(cells) % 2)
    nodes = open_table(base, pd.DataFrame({"id": ids, "col": pd.Series(cells, dtype=object), "label": labels}))
    edges = open_table(base, pd.DataFrame({"source": ids[:1], "target": ids[1:2]}))
    found = infer(edges, replace(nodes, **facts), target=["label"]).nodes
    assert found is not None
    return found.columns["col"]


def _target(base: Any, *columns: list[Any]) -> list[Column]:
    """What columns are taken for as targets."""
    frame = pd.DataFrame({"id": [f"n{i}" for i in range(len(columns[0]))]})
    for place, cells in enumerate(columns):
        frame[f"y{place}"] = pd.Series(cells, dtype=object)
    edges = open_table(base, pd.DataFrame({"source": ["n0"], "target": ["n1"]}))
    found = infer(edges, open_table(base, frame), target=[name for name in frame if name != "id"]).nodes
    assert found is not None
    return [column for column in found.columns.values() if column.role == "target"]


def _roles(table: TableSchema | None) -> dict[str, str]:
    assert table is not None
    return {name: column.role for name, column in table.columns.items()}


def test_a_usual_pair_of_tables(opened: Open) -> None:
    rows = "".join(
        f"n{i},{20 + i % 40},bio of person {i},{'ab'[i % 2]},{['train', 'val', 'test'][i % 3]}\n" for i in range(60)
    )
    edges = opened("source,target,weight,since\n" + "n1,n2,0.5,2020-01-31\nn2,n3,1.5,2021-02-28\n", "edges.csv")
    nodes = opened("id,age,bio,label,part\n" + rows)
    found = infer(edges, nodes, target=["label"])
    assert found.task == "node"
    assert _roles(found.edges) == {"source": "source", "target": "target", "weight": "weight", "since": "feature"}
    assert found.edges.columns["since"].kind == "date"
    assert _roles(found.nodes) == {"id": "id", "age": "feature", "bio": "feature", "label": "target", "part": "split"}
    assert found.nodes is not None
    assert [found.nodes.columns[name].kind for name in ("age", "bio", "label")] == ["number", "text", "category"]
    assert found.nodes.file.endswith("nodes.csv")
    assert found.nodes.options["delimiter"] == ","
    assert Schema.from_dict(found.to_dict()) == found
    lines = describe(found, {"edges": examples(edges), "nodes": examples(nodes)})
    assert "2020-01-31" in lines[4]
    assert infer(edges, nodes, given=found) == found  # what was written is read as it is


@pytest.mark.parametrize(
    ("header", "roles"),
    [
        ("source,target", "st"), ("target,source", "ts"), ("From,To,Weight", "stw"), ("id1,id2", "st"),
        ("weight,src,dst", "wst"), ("a,b", "st"), ("a,b,c", "stf"), ("source,target,start,end", "stff"),
        ("from node,to-node", "st"), ("x,target", "st"), ("source_id,target_id,source,target", "ffst"),
    ],
)  # fmt: skip
def test_ends_are_found_by_name_and_place(opened: Open, header: str, roles: str) -> None:
    width = len(roles)
    rows = "".join(",".join(str((3 * row + col) % (8 + col)) for col in range(width)) + "\n" for row in range(40))
    found = infer(opened(f"{header}\n{rows}", "edges.csv", header=True)).edges
    full = {"s": "source", "t": "target", "w": "weight", "f": "feature"}
    assert list(_roles(found).values()) == [full[role] for role in roles]


@pytest.mark.parametrize(
    ("header", "match"),
    [
        ("from,src,to", "'from' and 'src' could each be the source; name it with --from_column NAME, or set"),
        ("a,b,c,d", r"which column is the source of an edge\? Its columns are a, b, c, d\."),
        ("source,b,c,d", "which column is the target"),
        ("source", "which column is the target"),
        ("source,target,w,weight", "'w' and 'weight' could each be the weight"),
    ],
)
def test_doubt_about_edges_is_an_error(opened: Open, header: str, match: str) -> None:
    rows = "".join(",".join(str(i + c) for c in range(header.count(",") + 1)) + "\n" for i in range(3))
    with pytest.raises(GpmError, match=match):
        infer(opened(f"{header}\n{rows}", "edges.csv", header=True))


def test_without_a_header_places_say_it(opened: Open) -> None:
    edges = opened("1,2,0.5\n2,3,1.5\n", "edges.csv", header=False)
    assert list(_roles(infer(edges).edges).values()) == ["source", "target", "weight"]
    words = opened("1,2,friend\n2,3,foe\n3,1,foe\n", "words.csv", header=False)
    assert list(_roles(infer(words).edges).values()) == ["source", "target", "feature"]
    nodes = opened("a,5,x\nb,6,y\nc,5,x\n", header=False)
    found = infer(edges, nodes, target=["column 3"]).nodes
    assert _roles(found) == {"column 1": "id", "column 2": "feature", "column 3": "target"}


@pytest.mark.parametrize(
    ("header", "expected"), [("x,name,id", "id"), ("name,node", "node"), ("Node ID,name", "Node ID"), ("who,x", "who")]
)
def test_ids_are_found_by_name_or_are_first(opened: Open, header: str, expected: str) -> None:
    width = header.count(",") + 1
    nodes = opened(f"{header},label\n" + "".join(f"{','.join([f'v{i}'] * width)},{i % 2}\n" for i in range(9)))
    found = infer(opened(EDGES, "edges.csv"), nodes, target=["label"]).nodes
    assert found is not None
    assert found.one("id") == expected


def test_a_doubtful_name_is_an_id_if_no_two_rows_share_a_value(opened: Open) -> None:
    edges = opened(EDGES, "edges.csv")
    songs = opened("song,key,label\n" + "".join(f"s{i},{'CDE'[i % 3]},{i % 2}\n" for i in range(9)))
    assert _roles(infer(edges, songs, target=["label"]).nodes) == {"song": "id", "key": "feature", "label": "target"}
    people = opened("age,name,label\n" + "".join(f"{i % 4},s{i},{i % 2}\n" for i in range(9)), "people.csv")
    assert _roles(infer(edges, people, target=["label"]).nodes) == {"age": "feature", "name": "id", "label": "target"}


def test_a_first_column_that_repeats_is_no_id(opened: Open) -> None:
    with pytest.raises(GpmError, match=r"which column names the node\? Its columns are city, label\. Call it id"):
        infer(opened(EDGES, "edges.csv"), opened("city,label\na,0\na,1\n"), target=["label"])


def test_what_the_yaml_says_holds(opened: Open) -> None:
    edges = opened("x,from,to,w\n1,a,b,1\n2,b,c,2\n3,b,a,1\n", "edges.csv")
    nodes = opened("id,zip,label\na,1234,0\nb,2345,1\nc,1234,0\n")
    said = Schema(
        edges=TableSchema(columns={"x": Column("source"), "w": Column("feature")}),
        nodes=TableSchema(columns={"zip": Column("feature", "category", ("1234", "2345"))}),
        duplicates="keep",
    )
    found = infer(edges, nodes, target=["label"], given=said)
    assert _roles(found.edges) == {"x": "source", "from": "feature", "to": "target", "w": "feature"}
    assert found.nodes is not None
    assert found.nodes.columns["zip"].kind == "category"
    assert found.nodes.columns["zip"].values == ("1234", "2345")
    assert found.duplicates == "keep"


def test_a_column_that_is_asked_for_is_not_left_out(opened: Open) -> None:
    nodes = opened("id,url,same,label\n" + "".join(f"{i},http://{i},1,{i % 2}\n" for i in range(20)))
    edges = opened(EDGES, "edges.csv")
    assert _roles(infer(edges, nodes, target=["label"]).nodes)["url"] == "ignore"
    said = Schema(nodes=TableSchema(columns={"url": Column("feature"), "same": Column("feature")}))
    found = infer(edges, nodes, target=["label"], given=said).nodes
    assert found is not None
    assert [found.columns[name].kind for name in ("url", "same")] == ["category", "number"]


@pytest.mark.parametrize(
    ("said", "options", "match"),
    [
        (
            {"task": "link"},
            {"task": "node", "target": ["label"]},
            "task is link in the YAML, but node in the command",
        ),
        ({}, {"task": "link", "target": ["label"]}, "has no target; leave out the target 'label'"),
        ({}, {"task": "node"}, r"--target NAME.* Its columns are id, age, label\."),
        ({}, {"task": "nodes"}, r"task must be .* Did you mean 'node'\?"),
        ({}, {"task": "graph", "target": ["label"]}, "--graph NAME"),
        ({}, {"target": ["labl"]}, r"has no column 'labl'\. Did you mean 'label'\?"),
        ({}, {"target": ["source"]}, "'source' is a column of edges.csv, but a target must be a column of nodes.csv"),
        ({}, {"target": ["label"], "split": "age"}, ""),
        ({}, {"target": ["label"], "split": "label"}, "'label' cannot be both target and split"),
        ({}, {"split": "age"}, "edges.csv has no column .age."),
        ({}, {"target": ["label"], "graph": "house"}, r"no column 'house'"),
        ({"nodes": TableSchema(columns={"agee": Column("feature")})}, {}, r"no column 'agee'.* Did you mean 'age'\?"),
        ({"graphs": TableSchema(columns={"g": Column("graph")})}, {}, "describes columns of graphs"),
        (
            {"nodes": TableSchema(columns={"age": Column("target")})},
            {"target": ["label"]},
            "target is 'age' in the YAML",
        ),
        ({"nodes": TableSchema(columns={"label": Column("id")})}, {"target": ["label"]}, "both id and target"),
    ],
)
def test_contradictions_are_errors(opened: Open, said: Any, options: Any, match: str) -> None:
    edges, nodes = opened(EDGES, "edges.csv"), opened("id,age,label\n1,30,a\n2,40,b\n3,30,a\n")
    if not match:
        assert _roles(infer(edges, nodes, given=Schema(**said), **options).nodes)["age"] == "split"
        return
    with pytest.raises(GpmError, match=match):
        infer(edges, nodes, given=Schema(**said), **options)


def test_targets_need_nodes_and_graphs_a_task(opened: Open) -> None:
    edges, nodes = opened(EDGES, "edges.csv"), opened("id,label\n1,a\n2,b\n3,a\n")
    with pytest.raises(GpmError, match="--nodes FILE with a column 'label'"):
        infer(edges, target=["label"])
    with pytest.raises(GpmError, match="is for --task graph, not for node"):
        infer(edges, nodes, opened("graph,label\n1,a\n", "graphs.csv"), task="node", target=["label"])
    with pytest.raises(GpmError, match="a nodes or a graphs table"):
        infer(opened("source,target,graph\n1,2,a\n", "e.csv"), graph="graph", target=["y"])


def test_links_need_no_target_and_take_all_nodes_as_they_are(opened: Open) -> None:
    found = infer(opened(EDGES, "edges.csv"), opened("id,label,part\n1,a,train\n2,b,test\n3,a,train\n"), directed=True)
    assert (found.task, found.directed) == ("link", True)
    assert _roles(found.nodes) == {"id": "id", "label": "feature", "part": "ignore"}


def test_columns_named_like_the_target_are_never_features(opened: Open) -> None:
    edges = opened("source,target,label\n1,2,a\n2,3,b\n3,1,a\n", "edges.csv")
    nodes = opened("id,label,target\n" + "".join(f"{i},{'ab'[i % 2]},{i % 3}\n" for i in range(12)))
    found = infer(edges, nodes, target=["label"])
    assert _roles(found.edges) == {"source": "source", "target": "target", "label": "ignore"}
    assert "may leak" in found.edges.columns["label"].why
    found = infer(edges, nodes, target=["target"])  # an end of an edge that happens to have the name
    assert _roles(found.edges)["target"] == "target"
    assert _roles(found.nodes)["target"] == "target"


def test_copies_of_the_target_get_a_warning(opened: Open) -> None:
    """Equal in every row, or one-to-one with it; a column that differs once is not."""
    rows = []
    for i in range(60):
        label = "abc"[i % 3]
        almost = "xyz"[i % 3] if i else "y"
        rows.append(f"{i},{label},{label},{i % 3 + 5},{almost},{label if i % 10 else ''}\n")
    nodes = opened("id,copy,label,code,almost,hidden\n" + "".join(rows))
    edges = opened(EDGES, "edges.csv")
    found = infer(edges, nodes, target=["label"]).nodes
    assert found is not None
    assert "WARNING: equal to the target 'label'" in found.columns["copy"].why
    assert "WARNING: one-to-one with the target 'label'" in found.columns["code"].why
    assert "WARNING" not in found.columns["almost"].why
    masked = infer(edges, nodes, target=["hidden"]).nodes  # it tells the target also where that is not known
    assert masked is not None
    assert "WARNING: equal to the target 'hidden'" in masked.columns["copy"].why


def test_graphs_are_found_by_name(opened: Open) -> None:
    edges = opened("graph,source,target\n1,a,b\n2,a,b\n", "edges.csv")
    nodes = opened("id,graph,mass,label\na,1,1.5,x\nb,1,2.5,x\na,2,1.5,y\nb,2,3.5,y\n")
    found = infer(edges, nodes, graph="graph", target=["label"])
    assert found.task == "graph"
    assert _roles(found.edges)["graph"] == "graph"
    assert _roles(found.nodes) == {"id": "id", "graph": "graph", "mass": "feature", "label": "target"}
    graphs = opened("id,label,split\n1,x,train\n2,y,test\n", "graphs.csv")
    with_table = infer(edges, nodes, graphs, target=["label"])
    assert _roles(with_table.graphs) == {"id": "graph", "label": "target", "split": "split"}
    assert _roles(with_table.nodes)["label"] == "ignore"  # it would tell
    assert _roles(infer(edges, nodes, graph="graph", task="node", target=["label"]).nodes)["graph"] == "graph"


def test_a_graphs_label_is_the_same_for_all_its_nodes(opened: Open) -> None:
    nodes = opened("id,graph,label\n1,g1,x\n2,g1,x\n3,g2,y\n4,g2,x\n")
    with pytest.raises(GpmError, match="'label' is not the same for all nodes of graph 'g2'"):
        infer(opened(EDGES, "edges.csv"), nodes, graph="graph", target=["label"])
    graphs = opened("graph,label\ng1,x\ng2,y\n", "graphs.csv")
    with pytest.raises(GpmError, match=r"which column names the graph of a row\? Its columns are id, label"):
        infer(opened(EDGES, "edges.csv"), opened("id,label\n1,x\n", "n.csv"), graphs, target=["label"])


def test_parts_are_known_by_name_and_words(opened: Open) -> None:
    edges = opened(EDGES, "edges.csv")
    nodes = opened("id,label,Split,set\n1,a,TRAIN,red\n2,b,Validation,blue\n3,a,,red\n4,b,test,blue\n")
    found = _roles(infer(edges, nodes, target=["label"]).nodes)
    assert found == {"id": "id", "label": "target", "Split": "split", "set": "feature"}
    both = opened("id,label,split,part\n1,a,train,train\n2,b,val,test\n3,a,test,val\n", "both.csv")
    with pytest.raises(GpmError, match="'split' and 'part' could each be the split; choose one with --split NAME"):
        infer(edges, both, target=["label"])
    assert _roles(infer(edges, both, target=["label"], split="part").nodes)["part"] == "split"


MANY = 40
COLUMNS: list[tuple[str, list[Any], str, str]] = [
    ("numbers", [str(i % 7) for i in range(MANY)], "number", ""),
    ("fractions", [f"{i / 7:.3f}" for i in range(MANY)], "number", ""),
    ("exponents", ["1e3", "-2.5E-1", "+.5", "5."] * 10, "number", ""),
    ("bits", ["0", "1"] * 20, "number", ""),
    ("blanks around", [f" {i % 3} " for i in range(MANY)], "number", ""),
    ("missing", ["1", "NA", "2.5", None, "n/a", "NULL", "nan", "none"] * 5, "number", "30 missing ('n/a', 'null')"),
    ("flags", ["True", "FALSE", "true", "False"] * 10, "flag", ""),
    ("flags of one letter", ["Y", "n"] * 20, "flag", ""),
    ("letters of two pairs", ["N", "F"] * 20, "category", "2 value(s)"),
    ("letters of a pair, and another", ["T", "F", "N", "F"] * 10, "category", "3 value(s)"),
    ("dates with points or slashes", ["31.12.2023", "1.2.2024", "2023/12/31", "2024-01-01"] * 10, "date", ""),
    ("dates of which the month is open", ["12/31/2023", "01/02/2023"] * 20, "category", ""),
    ("native flags", [True, False] * 20, "flag", ""),
    ("dates", ["2020-01-31", "1969-12-31T23:59:59Z", "2021-02-28 10:00:00+02:00", "2020-02-29 10:00"] * 10, "date", ""),
    ("no such dates", ["2020-02-30", "2020-02-28"] * 20, "category", ""),
    ("zip codes", [f"0123{i % 5}" for i in range(MANY)], "category", "5 value(s)"),
    ("some leading zeros", ["007", "8", "9"] * 13 + ["8"], "category", ""),
    ("long digits", [f"123456789012345678{i % 4}" for i in range(MANY)], "category", ""),
    ("underscores", ["1_000", "2_000"] * 20, "category", ""),
    ("other digits", ["١٢", "٣٤"] * 20, "category", ""),
    ("hexadecimal", ["0x1F", "0x2F"] * 20, "category", ""),
    ("letters", ["M", "F"] * 20, "category", "2 value(s)"),
    ("one value or none", ["x", ""] * 20, "category", "20 missing: zeros"),
    ("almost numbers", ["1", "2", "3", "4", "x"] * 8, "category", "8 of 40 cells are not numbers, such as 'x'"),
    ("marks of Excel and others", ["1", "#N/A", "2.5", "?", "<NA>"] * 8, "number", "24 missing ('#n/a', '?')"),
    ("plus nan", ["+nan", "1"] * 20, "category", ""),
    ("words", [f"this is a text about {i}" for i in range(MANY)], "text", ""),
    ("same words again", ["this is a long text", "this is another long text"] * 20, "category", ""),
    ("names", [f"Person {i}" for i in range(MANY)], "", "different in every row"),
    ("web addresses", [f"http://example.org/{i}" for i in range(MANY)], "", "different in every row"),
    ("nearly names", [f"p{max(i, 2)}" for i in range(MANY)], "", "38 values in 40 rows"),
    ("empty", ["", None, "NA", "null"] * 10, "", "empty"),
    ("constant", ["7"] * MANY, "", "the same in every row"),
    ("constant words", ["x"] * MANY, "", "the same in every row"),
    ("row numbers", list(range(MANY)), "", "numbers the rows"),
    ("shuffled row numbers", [(7 * i) % MANY + 1 for i in range(MANY)], "", "numbers the rows"),
    ("mixed", ["1", "true", "2020-01-01", "x"] * 10, "category", ""),
]  # fmt: skip


@pytest.mark.parametrize(
    ("cells", "kind", "why"), [entry[1:] for entry in COLUMNS], ids=[entry[0] for entry in COLUMNS]
)
def test_kinds_of_columns(base: Any, cells: list[Any], kind: str, why: str) -> None:
    cells = cells[:MANY]
    found = _kind(base, cells)
    assert (found.role, found.kind) == (("feature", kind) if kind else ("ignore", ""))
    assert why in found.why


def test_decimal_commas_are_numbers_between_semicolons(base: Any) -> None:
    cells = ["1,5", "2,25", "-0,5", "3"] * 10
    assert _kind(base, cells, options={"delimiter": ";"}).kind == "number"
    assert _kind(base, cells).kind == "category"
    assert _kind(base, ["1,2,3", "1.234,5"] * 20, options={"delimiter": ";"}).kind == "category"


def test_infinite_numbers_are_an_error_with_the_line(opened: Open) -> None:
    nodes = opened("id,mass,label\n" + "".join(f"{i},{'inf' if i == 7 else i / 3},{i % 2}\n" for i in range(20)))
    with pytest.raises(GpmError, match=r"nodes.csv, line 9: 'inf' in column 'mass' is not a number"):
        infer(opened(EDGES, "edges.csv"), nodes, target=["label"])


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (["cat", "dog", ""] * 20, "category"),
        ([0, 1] * 30, "category"),
        (["yes", "no"] * 30, "category"),
        ([i % 5 for i in range(60)], "category"),
        ([float(i % 5) for i in range(60)], "category"),
        ([1, -1] * 30, "category"),
        ([i % 25 for i in range(60)], "category"),  # numbered from 0 without a gap
        ([f"0{i % 5}" for i in range(60)], "category"),
        ([20 + i % 50 for i in range(60)], "number"),
        ([i**2 for i in range(60)], "number"),
        ([i / 4 for i in range(60)], "number"),
        ([0.5, 1.5] * 30, "number"),
    ],
)
def test_kinds_of_one_target(base: Any, cells: list[Any], kind: str) -> None:
    (found,) = _target(base, cells)
    assert found.kind == kind


def test_kinds_of_several_targets(base: Any) -> None:
    flags, numbers, words = ["yes", "no", ""] * 20, [i / 4 for i in range(60)], ["x", "y"] * 30
    assert [c.kind for c in _target(base, [0, 1] * 30, flags)] == ["flag", "flag"]
    assert [c.kind for c in _target(base, [0, 1] * 30, numbers)] == ["number", "number"]
    with pytest.raises(GpmError, match="'y1' contains other text, such as 'x'"):
        _target(base, numbers, words)


@pytest.mark.parametrize(
    ("cells", "match"),
    [
        ([""] * 20, "the target 'y0' is empty"),
        (["x"] * 20, "the same in every row"),
        ([f"x{i}" for i in range(20)], "20 distinct values in 20 rows, too many for classes"),
        (["x"] + [f"{i}.5" for i in range(19)], "row 1: 'x' in column 'y0' is not a number"),
        ([*map(str, range(30)), "unknown"] * 2, "row 31: 'unknown' in column 'y0' is not a number"),
    ],
)
def test_targets_from_which_nothing_is_learned_are_errors(base: Any, cells: list[Any], match: str) -> None:
    with pytest.raises(GpmError, match=match):
        _target(base, cells)


def test_the_kind_of_a_target_can_be_said(opened: Open) -> None:
    nodes = opened("id,stars\n" + "".join(f"{i},{i % 5 + 1}\n" for i in range(50)))
    said = Schema(nodes=TableSchema(columns={"stars": Column("target", "number")}))
    for target in ([], ["stars"]):
        found = infer(opened(EDGES, "edges.csv"), nodes, target=target, given=said).nodes
        assert found is not None
        assert found.columns["stars"].kind == "number"


def test_a_bag_of_words_is_kept_as_it_is(base: Any) -> None:
    rng = np.random.default_rng(0)
    words = pd.DataFrame((rng.random((50, 30)) < 0.1).astype(int)).add_prefix("w")
    frame = pd.concat([pd.DataFrame({"id": [f"n{i}" for i in range(50)], "y": rng.integers(0, 3, 50)}), words], axis=1)
    edges = open_table(base, pd.DataFrame({"source": ["n0"], "target": ["n1"]}))
    found = infer(edges, open_table(base, frame), target=["y"]).nodes
    assert found is not None
    features = found.having("feature").values()
    assert len(features) > 25
    assert all(column.why.startswith("kept as it is: mostly zeros") for column in features)
    frame["w0"] = -1 - frame["w0"]
    below = infer(edges, open_table(base, frame), target=["y"]).nodes
    assert below is not None
    assert not any("kept" in column.why for column in below.having("feature").values())


def test_columns_may_have_any_name(base: Any) -> None:
    """Those of SQL, those that are used inside, and those that need quotes."""
    names = ["x", "c", "t", "kind", "y", "n", "k", "v", "pairs", "select", 'a"b', "a'b", "{0}", "%s", "ü\n", " ", "="]
    frame = pd.DataFrame({name: [str((i * (place + 2)) % 5) for i in range(40)] for place, name in enumerate(names)})
    frame.insert(0, "id", [f"n{i}" for i in range(40)])
    edges = open_table(base, pd.DataFrame({"source": ["n0"], "target": ["n1"]}))
    nodes = open_table(base, frame)
    for target in ("c", "y", "t"):
        found = infer(edges, nodes, target=[target]).nodes
        assert found is not None
        assert list(found.having("target")) == [target]
        same = [name for name in names if (frame[name] == frame[target]).all() and name != target]
        assert [name for name, column in found.columns.items() if "equal to the target" in column.why] == same
        encoding = fit_encoding(nodes, found.columns)
        features, _ = encode(nodes, encoding, rows=40)
        numbers = frame[[entry["column"] for entry in encoding]].astype(float)
        np.testing.assert_allclose(features, (numbers - numbers.mean()) / numbers.std(ddof=0), atol=1e-5)


def test_lists_are_left_out(base: Any, tmp_path: Path) -> None:
    base.execute(f"COPY (SELECT i AS id, [i, i] AS x, i % 2 AS y FROM range(9) AS t(i)) TO '{tmp_path}/n.parquet'")
    edges = open_table(base, pd.DataFrame({"source": [0], "target": [1]}))
    found = infer(edges, open_table(base, tmp_path / "n.parquet"), target=["y"]).nodes
    assert found is not None
    assert found.columns["x"] == Column("ignore", why="cells of type BIGINT[]")


def test_a_table_without_rows_has_no_features(opened: Open) -> None:
    found = infer(opened(EDGES, "edges.csv"), opened("id,age\n", header=True)).nodes
    assert found is not None
    assert found.columns["age"] == Column("ignore", why="empty")


CELLS = st.one_of(
    st.none(), st.integers(-5, 5).map(str), st.floats().map(str), st.text(max_size=6), st.dates().map(str)
)


@settings(max_examples=40)
@given(cells=st.lists(CELLS, min_size=1, max_size=12))
def test_counts_agree_with_python(base: Any, cells: list[Any]) -> None:
    """Missing, different and numeric cells are those that Python finds."""
    table = open_table(
        base, pd.DataFrame({"c": pd.Series([str(i) for i in range(len(cells))]), "x": pd.Series(cells, dtype=object)})
    )
    found = profile(table, ["x"])["x"]
    blanks = " \t\n\r\u00a0\u3000"
    texts = [cell.strip(blanks) for cell in cells if cell is not None]
    known = [text for text in texts if text.lower() not in {"", "nan", "na", "n/a", "none", "null"}]
    assert found.rows == len(cells)
    if all(text.isascii() for text in known):  # Python and SQL differ in what other blanks are
        assert found.filled == len(known)
        assert found.distinct == len(set(known)) or not found.exact
    numbers = [float(text) for text in known if text.isascii() and "_" not in text and _is_number(text)]
    assert found.numbers == len(numbers)


def _is_number(text: str) -> bool:
    try:
        return not np.isnan(float(text))
    except ValueError:
        return False
