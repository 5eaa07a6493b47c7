import numpy as np
import pytest
import scipy.sparse as sp

from gpm.shift.distances import cross_fit
from gpm.shift.sample import WIDEST, narrow, read_features
from tests.shift.runs import run_of

pytestmark = pytest.mark.usefixtures("one_thread_for_all")


def test_few_columns_stay_as_they_are() -> None:
    x = np.random.default_rng(0).normal(size=(30, WIDEST))
    np.testing.assert_array_equal(narrow(x, 0), x)
    np.testing.assert_array_equal(narrow(sp.csr_array(x), 0), x)


@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_main_directions_of_many_columns_keep_a_shift(form: str) -> None:
    random = np.random.default_rng(0)
    x, away = (random.random((300, 500)) < 0.05).astype(float), np.arange(300) % 2 == 0
    x[np.ix_(away, range(40))] += random.random((150, 40)) < 0.2
    found = narrow(sp.csr_array(x) if form == "sparse" else x, 0)
    assert found.shape == (300, WIDEST)
    np.testing.assert_array_equal(found, narrow(sp.csr_array(x) if form == "sparse" else x, 0))
    assert cross_fit(found, away, np.arange(300) // 2 % 2, np.ones(300, dtype=bool))[1] > 0.9


def test_categories_become_a_column_per_value() -> None:
    nodes = np.arange(0, 600, 7)
    features, names = read_features(run_of("category"), nodes)
    given = run_of("category").data.graph.x[nodes]  # type: ignore[index]
    assert names == [f"column {c} = {v}" for c in range(2) for v in range(3)]
    for place, name in enumerate(names):
        column, value = int(name.split()[1]), int(name.split()[-1])
        np.testing.assert_array_equal(features.toarray()[:, place], given[:, column] == value)
