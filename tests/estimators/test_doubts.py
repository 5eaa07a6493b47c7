"""What could be meant in two ways, or says nothing, is refused in one sentence; what is left out is said."""

from __future__ import annotations

import logging
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest

from gpm import GpmError, LinkPredictor, NodeClassifier, NodeRegressor
from gpm.estimators.fit_inputs import align, as_labels
from tests.estimators.samples import NODES, SMALL, make_data

pytestmark = pytest.mark.usefixtures("one_thread")


def test_targets_that_32_bits_do_not_tell_apart() -> None:
    seconds = 1.6e9 + np.arange(NODES) % 2 * 40
    with pytest.raises(GpmError, match="too close together to be told apart in 32 bits; subtract a constant"):
        NodeRegressor(**SMALL).fit(make_data(), y=seconds)


def test_an_index_that_counts_beside_names_that_count_otherwise() -> None:
    counted = pd.Series([f"label {i}" for i in range(4)])
    with pytest.raises(GpmError, match=r"indexed by 0, 1, 2, \.\.\., which are also the names of the nodes"):
        align(counted, [2, 0, 3, 1])
    assert list(align(counted, range(4))) == counted.tolist()
    assert align(dict(enumerate(counted)), [2, 0, 3, 1]) == [f"label {i}" for i in (2, 0, 3, 1)]
    assert list(align(counted.tolist(), [2, 0, 3, 1])) == counted.tolist()


@pytest.mark.parametrize("make", [pd.array, pd.Categorical, lambda cells: pd.Series(cells).values, np.array, list])
def test_labels_of_any_kind_of_array(make: Any) -> None:
    assert as_labels(make(["red", "blue", "red"])).tolist() == ["red", "blue", "red"]


@pytest.mark.parametrize("y", [3, object()])
def test_labels_that_are_none(y: Any) -> None:
    with pytest.raises(GpmError, match=r"^y must "):
        NodeClassifier(**SMALL).fit(make_data(), y=y)


def test_what_is_said_twice_is_refused() -> None:
    edges, nodes = pd.DataFrame({"source": ["a"], "target": ["b"]}), pd.DataFrame({"id": ["a", "b"], "t": [0, 1]})
    with pytest.raises(GpmError, match="y and target both say what the labels are"):
        NodeClassifier(**SMALL).fit(edges, [0, 1], nodes=nodes, target="t")
    with pytest.raises(GpmError, match="The parameter split is '80/10/10', and fit names the column 'part'"):
        NodeClassifier(**SMALL | {"split": "80/10/10"}).fit(edges, nodes=nodes, target="t", split="part")
    with pytest.raises(GpmError, match="target must be the name of a column, or a list of names, not 3"):
        NodeClassifier(**SMALL).fit(edges, nodes=nodes, target=3)  # type: ignore[arg-type]


def test_nothing_is_scored_by_no_labels(fitted: NodeClassifier, linked: LinkPredictor) -> None:
    with pytest.raises(GpmError, match="Nothing that is to be scored has a label"):
        fitted.score(y=[None] * NODES)
    for y in ([1, 0, np.nan], ["yes", "no", "no"]):
        with pytest.raises(GpmError, match="y must say 1 or 0, True or False, for each pair"):
            linked.score([("0", "1"), ("0", "2"), ("0", "3")], y)


def test_columns_of_x_that_are_left_out_are_said(caplog: pytest.LogCaptureFixture) -> None:
    x = pd.DataFrame({"rank": range(NODES), "size": np.arange(NODES) % 7})
    with caplog.at_level(logging.WARNING, "gpm"):
        NodeClassifier(**SMALL | {"epochs": 1}).fit(nx.cycle_graph(NODES), [0, 1] * (NODES // 2), x=x)
    assert "x: column 'rank' is left out: numbers the rows" in caplog.text
