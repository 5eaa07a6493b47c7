import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpm.data.tables import external_sort as sorting
from gpm.data.tables.external_sort import Pile, sort_pile


@pytest.fixture(autouse=True)
def _small_piles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorting, "MOST", 4)
    monkeypatch.setattr(sorting, "_DIGIT", 3)


@settings(max_examples=60)
@given(
    keys=st.lists(st.integers(0, 2**62 - 1) | st.integers(0, 5), max_size=60),
    rows=st.sampled_from(["none", "given", "mixed"]),
    seed=st.integers(0, 9),
)
def test_entries_come_back_by_key_and_then_by_row(
    tmp_path_factory: pytest.TempPathFactory, keys: list[int], rows: str, seed: int
) -> None:
    folder = tmp_path_factory.mktemp("piles")
    order = np.random.default_rng(seed).permutation(len(keys)) if rows == "mixed" else np.arange(len(keys))
    columns = {"key": np.array(keys, dtype=np.int64)[order]}
    if rows != "none":
        columns |= {"row": order.astype(np.int64), "weight": order / 2}
    pile = Pile(folder / "pile")
    for begin in range(0, len(keys), 7):
        pile.append({name: values[begin : begin + 7] for name, values in columns.items()})
    pieces = list(sort_pile(pile, 62))
    assert all(len(piece["key"]) <= 4 for piece in pieces)
    found = {name: np.concatenate([piece[name] for piece in pieces]) if pieces else np.array([]) for name in columns}
    assert found["key"].tolist() == sorted(keys)
    if rows != "none":
        assert found["row"].tolist() == sorted(range(len(keys)), key=lambda i: (keys[i], i))
        np.testing.assert_array_equal(found["weight"], found["row"] / 2)
    assert not list(folder.iterdir())  # what was sorted takes no room any more
