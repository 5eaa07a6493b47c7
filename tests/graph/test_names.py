import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpm import GpmError
from gpm.graph import names as lookup
from gpm.graph.names import Names, join_names

ADVERSARIAL = ["ä", "a,b", 'say "x"', "line\nbreak", "007", "7", "", " ", "<img src=x>", "数", "a" * 300]


@given(st.lists(st.text(), unique=True) | st.lists(st.integers(-(2**63), 2**63 - 1), unique=True))
def test_names_come_back_and_are_found(values: list) -> None:
    names = Names(values)
    assert [names[i] for i in range(len(names))] == values
    assert [names.find(value) for value in values] == list(range(len(values)))
    assert names.find_many(values[::-1]).tolist() == list(range(len(values)))[::-1]
    assert names.first_duplicate() is None


@given(st.lists(st.sampled_from(["a", "b", "ab", "", "ä", "8" * 8, "8" * 9]), max_size=6), st.integers(1, 4))
def test_many_names_are_looked_up_as_one_is(values: list[str], size: int) -> None:
    chunks = [values[i : i + size] for i in range(0, len(values), size)]
    names, wanted = Names.from_chunks(chunks), ["a", "", "ab", "8" * 8, "b", "ä", "c", "a"]
    assert [names[i] for i in range(len(names))] == values
    assert names.look_up(wanted).tolist() == [values.index(name) if name in values else -1 for name in wanted]
    twice = names.first_duplicate()
    assert (twice is not None) == (len(set(values)) < len(values))
    assert twice is None or values.count(str(twice)) > 1


def test_adversarial_names_survive_their_arrays() -> None:
    again = Names.from_arrays(Names(ADVERSARIAL).arrays())
    assert [again[i] for i in range(len(again))] == ADVERSARIAL
    assert again.find("007") != again.find("7")


def test_numbers_are_found_by_their_text() -> None:
    assert Names([10, 20, 30]).find("20") == 1
    with pytest.raises(GpmError, match="No node is named '020'"):
        Names([10, 20, 30]).find("020")


def test_many_numbers_are_found_by_their_text() -> None:
    names = Names([30, -10, 20, 30])
    assert names.look_up(["20", 30, "030", "x", "-10", 2**70, "0"]).tolist() == [2, 0, -1, -1, 1, -1, -1]
    assert Names([]).look_up(["a", 1]).tolist() == [-1, -1]
    with pytest.raises(GpmError, match="No node is named 'x'"):
        names.find_many([20, "x"])


def test_names_with_equal_hashes_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup, "hash_names", lambda names: np.zeros(len(names["pointer"]) - 1, dtype=np.uint64))
    names = Names(["b", "a", "ab", "c"])
    assert names.look_up(["ab", "c", "b", "d"]).tolist() == [2, 3, 0, -1]
    assert names.first_duplicate() is None
    assert Names(["b", "a", "c", "a"]).first_duplicate() == "a"


def test_a_million_names_are_found_in_seconds() -> None:
    texts = [f"user_{i:07d}" for i in range(1_000_000)]
    start = time.process_time()
    names = Names.from_chunks([texts[:400_000], texts[400_000:]])
    assert names.first_duplicate() is None
    np.testing.assert_array_equal(names.find_many(texts[::-1]), np.arange(1_000_000)[::-1])
    assert time.process_time() - start < 10


def test_names_that_are_neither_text_nor_numbers_become_text() -> None:
    names = Names([(0, 1), None, 2**70])
    assert [names[0], names[1], names[2]] == ["(0, 1)", "None", str(2**70)]


def test_an_unknown_name_gets_the_nearest_one() -> None:
    with pytest.raises(GpmError, match=r"No node is named 'alcie'\. Did you mean 'alice'\?"):
        Names(["alice", "bob"]).find("alcie")


def test_a_name_given_twice_is_found() -> None:
    assert Names(["a", "b", "a"]).first_duplicate() == "a"
    assert Names([1, 2]).first_duplicate() is None
    assert Names(np.array([5, 1, 5])).first_duplicate() == 5


def test_a_path_can_be_read_where_names_have_dashes() -> None:
    assert join_names(["a", "b", "a"]) == "a-b-a"
    assert join_names(["a-1", "b"]) == "a-1 > b"
    assert join_names(["a"]) == "a"
