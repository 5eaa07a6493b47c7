import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpm import GpmError
from gpm.names import Names, join_names

ADVERSARIAL = ["ä", "a,b", 'say "x"', "line\nbreak", "007", "7", "", " ", "<img src=x>", "数", "a" * 300]


@given(st.lists(st.text(), unique=True) | st.lists(st.integers(-(2**63), 2**63 - 1), unique=True))
def test_names_come_back_and_are_found(values: list) -> None:
    names = Names(values)
    assert [names[i] for i in range(len(names))] == values
    assert [names.find(value) for value in values] == list(range(len(values)))


def test_adversarial_names_survive_their_arrays() -> None:
    again = Names.from_arrays(Names(ADVERSARIAL).arrays())
    assert [again[i] for i in range(len(again))] == ADVERSARIAL
    assert again.find("007") != again.find("7")


def test_numbers_are_found_by_their_text() -> None:
    assert Names([10, 20, 30]).find("20") == 1
    with pytest.raises(GpmError, match="no node is named '020'"):
        Names([10, 20, 30]).find("020")


def test_names_that_are_neither_text_nor_numbers_become_text() -> None:
    names = Names([(0, 1), None, 2**70])
    assert [names[0], names[1], names[2]] == ["(0, 1)", "None", str(2**70)]


def test_an_unknown_name_gets_the_nearest_one() -> None:
    with pytest.raises(GpmError, match=r"no node is named 'alcie'\. Did you mean 'alice'\?"):
        Names(["alice", "bob"]).find("alcie")


def test_a_name_given_twice_is_found() -> None:
    assert Names(["a", "b", "a"]).first_duplicate() == "a"
    assert Names([1, 2]).first_duplicate() is None
    assert Names(np.array([5, 1, 5])).first_duplicate() == 5


def test_a_path_can_be_read_where_names_have_dashes() -> None:
    assert join_names(["a", "b", "a"]) == "a-b-a"
    assert join_names(["a-1", "b"]) == "a-1 > b"
    assert join_names(["a"]) == "a"
