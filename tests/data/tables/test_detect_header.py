from pathlib import Path

import pytest

from gpm.data.tables.detect_header import find_column, is_header
from gpm.errors import GpmError


def _rows(text: str) -> list[list[str]]:
    return [line.split(",") for line in text.split()]


@pytest.mark.parametrize(
    "text",
    [
        "source,target a,b",
        "target,colour,source a,red,b",
        "Source,Target source,b",  # one node is called so
        "id,label a,x",
        "node_id,0,1 7,1,2",
        "name,job ann,cook",
        "graph,smiles a,CC",
        "smiles,activity CC,high",
        "a,b,weight x,y,2",
        "person,age ann,7 bob,",
        "person,born ann,1990-01-31 bob,NA",
        "person,friend,close ann,bob,yes bob,eve,no",
        "first,second 1,2 3,4",
        "label,split a,train",
        "person_a,person_b p00000,p00001 p00000,p00015",  # codes below
        "node1x,job p1,cook p2,maid",
        "id a b",
        "source,target",
    ],
)
def test_a_row_of_names_is_a_header(text: str) -> None:
    first, *body = _rows(text)
    assert is_header(first, body)


@pytest.mark.parametrize(
    "text",
    [
        "ann,bob bob,eve",
        "p1,p2 p3,p4",  # codes as below
        "admin,i1 u2,i2 u3,i3",  # a node that is called otherwise
        "ann,bob p1,q1 q2,p2",  # names of several kinds
        "ann,bob p1,bob p1,eve",  # one code tells nothing
        "1,2 3,4",
        "ann,bob,3 bob,eve,2",
        "ann,1 2,3",  # names of both kinds
        "ann,bob bob,7",
        "ann,bob, bob,eve,2",
        "from,to to,from",  # its words are nodes
        "a,b 1,2 a,3",
        "ann bob eve",
        "2020-01-01,x 2020-01-02,y",
        "1,2",
        "ann,bob",
    ],
)
def test_a_row_of_cells_is_none(text: str) -> None:
    first, *body = _rows(text)
    assert not is_header(first, body)


def test_a_name_that_is_asked_for_makes_a_header() -> None:
    first, *body = _rows("person,employer ann,acme bob,acme")
    assert not is_header(first, body)
    assert is_header(first, body, ["Employer"])
    assert not is_header(first, body, ["label"])


def test_columns_are_found_whatever_their_capitals() -> None:
    path = Path("t.csv")
    assert find_column(path, ["id", "SMILES"], "smiles") == "SMILES"
    assert find_column(path, ["Smiles", "SMILES"], "SMILES") == "SMILES"
    with pytest.raises(GpmError, match="has no column 'smiles'"):  # which of them?
        find_column(path, ["Smiles", "SMILES"], "smiles")
    with pytest.raises(GpmError, match=r"no column 'smile'\. Did you mean 'smiles'\? Its columns are id, SMILES\."):
        find_column(path, ["id", "SMILES"], "smile")
    with pytest.raises(GpmError, match="Its first line is empty"):
        find_column(path, [], "smiles")
