"""Features arrive at the linear map standardised, whatever form they have."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import Tensor

from gpm import Graph, Tokenizer
from gpm.compute import steady_threads, using_threads
from gpm.config import ModelOptions
from gpm.nn import FeatureTable, GraphPatternMachine, feature_rows
from gpm.nn.feature_map import FeatureMap, InputMap, _map_sparse
from gpm.nn.feature_rows import SparseRows

ROWS = 60


def _table(x: Any = None, edge_attr: Any = None, pe: Any = None, bags: bool | None = False) -> FeatureTable:
    """The features of a ring, not read as bags of words unless a test says so."""
    rows = ROWS if x is None else x.shape[0]
    ring = np.stack([np.arange(rows), (np.arange(rows) + 1) % rows])
    return FeatureTable(Graph.from_edges(ring, rows, x=x, edge_attr=edge_attr, undirected=True), pe, bags=bags)


def _standardised(table: FeatureTable, of: FeatureTable | None = None) -> Tensor:
    """What a map fitted on one table makes of another: the identity in place of W shows it."""
    spec = table.spec()
    part = FeatureMap(spec.node, spec.node_dim, spec.node_sizes, spec.node_dim)
    part.fit(table.node)
    torch.nn.init.eye_(part.weight)
    shown = table if of is None else of
    found: Tensor = part(shown.node, torch.arange(shown.num_nodes)).detach()
    return found


def _counts(share: float, columns: int = 40) -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.poisson(3.0, (ROWS, columns)) * (rng.random((ROWS, columns)) < share) * 2.0


def test_dense_columns_have_mean_0_and_variance_1() -> None:
    rng = np.random.default_rng(0)
    table = _table(rng.normal([0, 5, -1000], [1, 0.01, 30], (ROWS, 3)))
    assert table.node_form == "dense"
    found = _standardised(table)
    torch.testing.assert_close(found.mean(0), torch.zeros(3), atol=2e-3, rtol=0)  # float32 around 1000
    torch.testing.assert_close(found.var(0, correction=0), torch.ones(3), atol=1e-3, rtol=0)


@pytest.mark.parametrize(("share", "form"), [(0.3, "dense"), (0.05, "sparse")])
def test_what_is_mostly_zero_keeps_its_zeros_and_has_mean_square_1(share: float, form: str) -> None:
    x = _counts(share)
    table = _table(x)
    assert table.node_form == form
    found = _standardised(table)
    assert torch.equal(found == 0, torch.from_numpy(x) == 0)
    torch.testing.assert_close(found.square().mean(), torch.tensor(1.0))
    torch.testing.assert_close(found / found.max(), torch.from_numpy(x / x.max()).float())  # one scale for all


def test_features_that_are_sparse_by_form_or_by_content_are_the_same() -> None:
    x = _counts(0.05)
    by_content, by_form = _table(x), _table(sp.csr_array(x))
    assert isinstance(by_content.node, SparseRows)
    assert isinstance(by_form.node, SparseRows)
    dense = torch.from_numpy(x).float()
    plain = dense / dense.square().mean().sqrt()
    for table in (by_content, by_form):
        torch.testing.assert_close(_standardised(table), plain)
    torch.testing.assert_close(by_content.node.take(torch.arange(ROWS))[1], by_form.node.take(torch.arange(ROWS))[1])


def test_a_model_of_one_form_reads_the_other() -> None:
    """A graph with as many features, but fewer zeros than the one that was trained on, and the other way round."""
    few, many = _table(_counts(0.05)), _table(_counts(0.9))
    assert (few.node_form, many.node_form) == ("sparse", "dense")
    x = torch.from_numpy(_counts(0.9)).float()
    torch.testing.assert_close(
        _standardised(few, many), x / torch.from_numpy(_counts(0.05)).float().square().mean().sqrt()
    )
    y = torch.from_numpy(_counts(0.05)).float()
    expected = (y - x.mean(0)) / x.std(0, correction=0)
    torch.testing.assert_close(_standardised(many, few), expected)


@pytest.mark.parametrize("share", [0.3, 0.05])
def test_bags_of_words_have_rows_of_one_length_whatever_form_they_have(share: float) -> None:
    x = _counts(share)
    x[5] = 0
    tables = [_table(x, bags=None), _table(sp.csr_array(x), bags=None), _table(x, bags=True)]
    assert all(table.spec().bags for table in tables)
    damped = np.log1p(x)
    length = np.linalg.norm(damped, axis=1, keepdims=True)
    expected = torch.from_numpy(damped / np.where(length > 0, length, 1)).float()
    for table in tables:
        found = _standardised(table)
        torch.testing.assert_close(found.square().mean(), torch.tensor(1.0))
        torch.testing.assert_close(found / found.norm(dim=1).max(), expected)


def test_rows_are_taken_in_any_order_and_empty_ones_too() -> None:
    x = _counts(0.05)
    x[7] = 0
    table = _table(x)
    part = FeatureMap("sparse", 40, [], 8)
    part.fit(table.node)
    rows = torch.tensor([7, 3, 3, 59, 7, 0])
    whole = part(table.node, torch.arange(ROWS))
    torch.testing.assert_close(part(table.node, rows), whole[rows])
    assert (part(table.node, torch.tensor([7])) == 0).all()
    assert part(table.node, rows[:0]).shape == (0, 8)


@pytest.mark.parametrize("value", [0.0, 1.0, 1e6, -0.1, 1e-9])
def test_constants_do_not_blow_up(value: float) -> None:
    """A column that never varies says nothing: a later graph that does vary there must not be thrown far out."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(ROWS, 4))
    x[:, 2] = value
    table = _table(x)
    found = _standardised(table)
    assert (found[:, 2] == 0).all()
    x[:, 2] = value + 1
    assert (_standardised(table, _table(x))[:, 2] == 0).all()
    alone = _standardised(_table(np.full((ROWS, 1), value)))
    assert alone.isfinite().all()
    assert alone.abs().max() <= 1


def test_nothing_but_zeros_is_not_scaled_up() -> None:
    part = FeatureMap("dense", 3, [], 3)
    part.fit(torch.zeros(ROWS, 3))
    assert (part.scale == 1).all()


def test_categories_have_a_row_each_and_unseen_ones_the_last() -> None:
    table = _table(np.array([[0, 2], [1, 0], [2, 1]]))
    part = FeatureMap("categories", 2, table.spec().node_sizes, 5)
    assert table.spec().node_sizes == [3, 3]
    assert part.weight.shape == (8, 5)  # three values and the unseen, twice
    weight = part.weight
    expected = torch.stack([weight[0] + weight[6], weight[1] + weight[4], weight[2] + weight[5]])
    torch.testing.assert_close(part(table.node, torch.arange(3)), expected)
    later = _table(np.array([[3, 0], [99, 7], [1, 3]]))
    expected = torch.stack([weight[3] + weight[4], weight[3] + weight[7], weight[1] + weight[7]])
    torch.testing.assert_close(part(later.node, torch.arange(3)), expected)


def test_statistics_are_saved_with_the_weights() -> None:
    rng = np.random.default_rng(0)
    ring = np.stack([np.arange(ROWS), (np.arange(ROWS) + 1) % ROWS])
    graph = Graph.from_edges(ring, ROWS, x=rng.normal(3, 2, (ROWS, 4)), edge_attr=rng.normal(size=(ROWS, 2)))
    table = FeatureTable(graph, rng.normal(size=(ROWS, 3)))
    options = ModelOptions(width=8, layers=1, heads=1)
    model = GraphPatternMachine(table.spec(), options, 2, 8)
    model.fit(table, Tokenizer(graph))
    state = model.state_dict()
    for part, columns in (("node", 4), ("edge", 2), ("pe", 3)):
        assert state[f"input_map.{part}.shift"].shape == (columns,)
        assert not torch.equal(state[f"input_map.{part}.scale"], torch.ones(columns))
    fresh = GraphPatternMachine(table.spec(), options, 2, 8)
    fresh.load_state_dict(state)
    rows = torch.arange(ROWS)
    torch.testing.assert_close(fresh.input_map.nodes(table, rows), model.input_map.nodes(table, rows))


def test_a_second_fit_forgets_the_first() -> None:
    """A map that is fitted on counts after dense columns must keep zeros again."""
    part = FeatureMap("dense", 40, [], 40)
    part.fit(_table(_counts(0.9) + 5).node)
    assert (part.shift != 0).all()
    part.fit(_table(_counts(0.3)).node)
    assert (part.shift == 0).all()


@pytest.mark.parametrize("share", [0.05, 0.9])
def test_feature_dropout_keeps_the_expectation(share: float) -> None:
    table = _table(_counts(share))
    spec = table.spec()
    torch.manual_seed(0)
    inputs = InputMap(spec, 8, dropout=0.4)
    inputs.fit(table)
    rows = torch.tensor([5, 9])
    with torch.no_grad():
        drawn = torch.stack([inputs.nodes(table, rows) for _ in range(4_000)], 1)
        inputs.eval()
        exact = inputs.nodes(table, rows)
    assert drawn.std(1).min() > 0
    error = drawn.std(1) / np.sqrt(drawn.shape[1])
    assert ((drawn.mean(1) - exact).abs() < 5 * error).all()


def test_edges_that_were_not_crossed_map_to_zero() -> None:
    rng = np.random.default_rng(0)
    table = _table(edge_attr=rng.normal(2, 1, (ROWS, 3)))
    inputs = InputMap(table.spec(), 8, 0.0)
    inputs.fit(table)
    mapped = inputs.edges(table, torch.tensor([4, -1, 4, 0, 59]))
    assert mapped.shape == (5, 8)
    assert (mapped[1] == 0).all()
    torch.testing.assert_close(mapped[0], mapped[2])
    assert (mapped[3] != mapped[4]).all()


@pytest.mark.parametrize("share", [0.05, 0.9])
def test_feature_dropout_goes_by_the_node_whatever_its_company(share: float) -> None:
    """Ranks that have seeded alike drop the same entries of a node."""
    table = _table(_counts(share))
    inputs = InputMap(table.spec(), 8, dropout=0.4)
    found = []
    for rows in ([5, 9, 30], [9, 5], [5, 7]):
        torch.manual_seed(3)
        chosen = torch.tensor(rows)
        found.append(dict(zip(rows, inputs.nodes(table, chosen), strict=True)))
        torch.manual_seed(3)
        taken = inputs.nodes(table.take(chosen), torch.arange(len(rows)))
        torch.testing.assert_close(taken, torch.stack(list(found[-1].values())))
    assert torch.equal(found[0][5], found[1][5])
    assert torch.equal(found[0][5], found[2][5])
    assert torch.equal(found[0][9], found[1][9])


@pytest.mark.parametrize("kind", ["float64", "int32", "uint16", "bags", "sparse bags"])
def test_a_large_table_is_left_as_it_is_and_read_alike(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of a table that is too large to copy are converted as they are taken; statistics are found in blocks."""
    random = np.random.default_rng(0)
    if "bags" in kind:
        x: Any = _counts(0.4) if kind == "bags" else sp.csr_array(_counts(0.1))
    else:
        x = random.normal(2, 3, (ROWS, 5)) if kind == "float64" else random.integers(0, 9, (ROWS, 3)).astype(kind)
    graph = Graph.from_edges([[0], [1]], ROWS, x=x)
    bags = True if "bags" in kind else None
    table = FeatureTable(graph, bags=bags)
    monkeypatch.setattr(feature_rows, "LARGE", 1)
    monkeypatch.setattr(feature_rows, "BLOCK", 40)
    large = FeatureTable(graph, bags=bags)
    assert large.lazy
    assert not table.lazy
    assert large.spec() == table.spec()
    maps = []
    for each in (table, large):
        torch.manual_seed(0)
        inputs = InputMap(each.spec(), 8, dropout=0.0)
        inputs.fit(each)
        maps.append(inputs.nodes(each, torch.tensor([0, 7, 3, 59])))
    torch.testing.assert_close(maps[0], maps[1])


def test_the_gradient_of_sparse_rows_is_that_of_embedding_bag() -> None:
    torch.manual_seed(0)
    weight, offsets = (
        torch.randn(9, 4, requires_grad=True),
        torch.tensor([0, 3, 3, 7]),
    )  # a row is empty, and so the last
    columns, values = torch.tensor([2, 2, 8, 0, 5, 2, 1]), torch.randn(7)
    ours = _map_sparse(columns, offsets, values, weight)
    plain = torch.nn.functional.embedding_bag(columns, weight, offsets, per_sample_weights=values, mode="sum")
    torch.testing.assert_close(ours, plain)
    by_us, by_torch = (torch.autograd.grad(out.square().sum(), weight)[0] for out in (ours, plain))
    torch.testing.assert_close(by_us, by_torch)


@pytest.mark.parametrize("share", [0.05, 0.9])
def test_threads_change_no_bit_of_the_map_or_its_gradient(share: float) -> None:
    table = _table(np.tile(_counts(share, 200), (40, 1)))
    part = FeatureMap(table.spec().node, 200, [], 64)
    part.fit(table.node)
    found = []
    for threads in (1, 2):
        with using_threads(threads), steady_threads():
            out = part(table.node, torch.arange(table.num_nodes))
            found.append((out.detach(), torch.autograd.grad(out.square().sum(), part.weight)[0]))
    assert all(torch.equal(one, two) for one, two in zip(*found, strict=True))


@pytest.mark.parametrize("share", [0.05, 0.9])
def test_inputs_that_are_not_scaled_stay_as_they_are(share: float) -> None:
    table = _table(_counts(share), pe=np.full((ROWS, 2), 0.01, dtype=np.float32))
    inputs = InputMap(table.spec(), 8, 0.0)
    inputs.fit(table, rescale=False)
    for part in (inputs.node, inputs.pe):
        assert part is not None
        assert not part.shift.any()
        assert (part.scale == 1).all()


def test_categories_that_training_never_meets_say_nothing_whether_inputs_are_scaled_or_not() -> None:
    rng = np.random.default_rng(0)
    table = _table(rng.integers(0, 3, (ROWS, 1)))
    spec = replace(table.spec(), node_sizes=[5])
    inputs = InputMap(spec, 8, 0.0)
    inputs.fit(table, rescale=False)
    assert not inputs.node.weight[3:].any()
    assert inputs.node.weight[:3].all()
