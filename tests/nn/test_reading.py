from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gpm.nn.reading import index_nodes


@given(st.lists(st.integers(-1, 30), max_size=60), st.sampled_from([np.int32, np.int64]), st.sampled_from([31, 40]))
def test_it_is_what_sorting_finds(values: list[int], kind: type, count: int) -> None:
    nodes = np.array(values, dtype=kind).reshape(-1, 1)
    distinct, places = index_nodes(nodes, count)
    there = nodes[nodes >= 0]
    assert np.array_equal(distinct, np.unique(there))
    assert places.shape == nodes.shape
    assert np.array_equal(distinct[places[nodes >= 0]], there)
    assert (places[nodes < 0] == -1).all()
