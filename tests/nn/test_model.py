"""The model equals the slow one of `tests/reference_model.py`, and keeps the symmetries that patterns have."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from gpm import Graph, Tokenizer
from gpm.config import SIZES, Config, ModelOptions
from gpm.nn import FeatureTable, GraphPatternMachine, InputSpec, Output
from gpm.nn.model import find_distinct
from gpm.nn.positional.encodings import embed_laplacian
from gpm.patterns.tokenizer import Patterns
from gpm.patterns.topologies import find_topologies
from tests.reference_model import ReferenceModel

NODES, EDGES, ISOLATED, CLASSES = 40, 90, 4, 3
POINTER = [0, 7, 8, 20, 36, 40]  # of a collection; its second graph is one node, its last has no edges

FACTORS: dict[str, list[Any]] = {
    # (path, path_layers, path_heads), (anonymous, topology) and (layers, heads) are factors of their own, so that all
    # of their combinations occur, and each beside every level of the others.
    "path": [("mean", 1, 1), ("gru", 1, 1), ("gru", 2, 1), ("conv", 1, 1), ("conv", 2, 1)]
    + [("transformer", layers, heads) for layers in (1, 2) for heads in (1, 4)],
    "anonymous": [(name, kind) for name in ("gru", "mean", "transformer") for kind in ("loops", "induced")]
    + [("gru", "shape"), ("none", "loops")],
    "inputs": [(edge, position) for edge in ("none", "dense", "categories") for position in ("none", "learned")],
    "node": ["none", "dense", "counts", "sparse", "categories"],
    "pe": ["none", "lap"],
    "learn_weight": [False, True],
    "readout": [(readout, fusion) for readout in ("mean", "class", "sum") for fusion in (False, True)],
    "head": ["linear", "mlp"],
    "machine": [(layers, heads) for layers in (1, 3) for heads in (1, 4)],
    "layer": ["residual", "literal"],
    "lengths": [(8,), (2, 4, 6, 8), (0, 1, 4, 8), (0,), (3, 1)],
    "directed": [False, True],
    "instances": ["nodes", "links", "graphs"],
    "batched": [False, True],
}


pytestmark = pytest.mark.usefixtures("one_thread")


def cover_pairs(factors: dict[str, list[Any]]) -> list[dict[str, Any]]:
    """Cases among which any two levels of any two factors meet, each case the best of some random ones."""
    rng = random.Random(0)
    # A dictionary for its order: that of a set would change from run to run, and the cases with it.
    pairs = (((a, x), (b, y)) for a, b in combinations(factors, 2) for x in factors[a] for y in factors[b])
    missing = dict.fromkeys(pairs)
    cases = []
    while missing:
        wanted = dict(next(iter(missing)))
        tries = [{name: wanted.get(name, rng.choice(levels)) for name, levels in factors.items()} for _ in range(60)]
        best = max(tries, key=lambda case: sum(pair in missing for pair in combinations(case.items(), 2)))
        for pair in combinations(best.items(), 2):
            missing.pop(pair, None)
        cases.append(best)
    return cases


def name_case(case: dict[str, Any]) -> str:
    """All levels of a case in a row."""
    return "-".join(str(part) for level in case.values() for part in (level if isinstance(level, tuple) else [level]))


def make_features(kind: str, rows: int, seed: int) -> Any:
    """Features of every kind that a graph may have; "counts" are dense but mostly zero."""
    rng = np.random.default_rng(seed)
    if kind == "none":
        return None
    if kind == "categories":
        return rng.integers(0, [3, 5], (rows, 2))
    if kind == "sparse":
        return sp.random_array((rows, 30), density=0.06, format="csr", rng=rng, data_sampler=rng.standard_normal)
    dense = rng.normal(2.0, 3.0, (rows, 5))
    dense[:, 4] = 0.7  # says nothing
    return dense if kind == "dense" else dense * (rng.random(dense.shape) < 0.25)


def make_graph(
    node: str = "dense", edge: str = "none", directed: bool = False, pointer: list[int] | None = None
) -> Graph:
    """A random graph whose last nodes are isolated; or a collection of such graphs, cut where the pointer says."""
    ends = np.random.default_rng(1).integers(0, NODES - ISOLATED, (2, EDGES))
    if pointer is not None:
        graph = np.searchsorted(pointer, ends[0], side="right") - 1
        first, size = np.array(pointer)[graph], np.diff(pointer)[graph]
        ends[1] = first + ends[1] % size
    x, edge_attr = make_features(node, NODES, 2), make_features(edge, EDGES, 3)
    return Graph.from_edges(ends, NODES, undirected=not directed, x=x, edge_attr=edge_attr, graph_ptr=pointer)


@dataclass
class Setting:
    """A model, what it reads and what it is asked."""

    graph: Graph
    tokenizer: Tokenizer
    table: FeatureTable
    model: GraphPatternMachine
    patterns: Patterns

    def run(self, patterns: Patterns | None = None) -> Output:
        with torch.no_grad():
            output: Output = self.model(self.patterns if patterns is None else patterns, self.table)
        return output


def make_setting(
    graph: Graph,
    *,
    topology: str = "loops",
    lengths: tuple[int, ...] = (2, 4, 6, 8),
    instances: str = "nodes",
    **options: Any,
) -> Setting:
    """A model with weights that are all different from zero and one, without dropout."""
    tokenizer = Tokenizer(graph, lengths=lengths, pool=12, topology=topology, seed=5)
    pe = embed_laplacian(graph, 3) if options.get("pe", "none") == "lap" else None
    table = FeatureTable(graph, pe)
    spec = table.spec()  # a model that was trained on fewer categories than this graph has
    spec = replace(spec, node_sizes=[n - 2 for n in spec.node_sizes], edge_sizes=[n - 2 for n in spec.edge_sizes])
    chosen = ModelOptions(**{"width": 16, "layers": 1, "heads": 4, "vocabulary": 8, "dropout": 0.0} | options)
    torch.manual_seed(7)
    model = GraphPatternMachine(spec, chosen, CLASSES, max(lengths), topology).eval()
    model.fit(table, tokenizer)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    ids = np.arange(NODES - 10, NODES - 2)  # six with edges, two isolated
    if instances == "nodes":
        patterns = tokenizer.nodes(ids)
    elif instances == "links":
        patterns = tokenizer.links(np.stack([ids, ids[::-1] - 20], 1), count=len(lengths) + 1)
    else:
        patterns = tokenizer.graphs(np.arange(graph.num_graphs))
    return Setting(graph, tokenizer, table, model, patterns)


def gradients(output: Output, model: GraphPatternMachine) -> dict[str, Tensor]:
    """Of every parameter, by a random linear function of all outputs."""
    torch.manual_seed(11)
    found = [t for t in (output.logits, output.embedding, output.weights) if t is not None]
    total = sum((t * torch.randn_like(t)).sum() for t in found)
    names, parameters = zip(*model.named_parameters(), strict=True)
    return dict(zip(names, torch.autograd.grad(total, parameters), strict=True))


def assert_near(found: Tensor | None, expected: Tensor | None, what: str) -> None:
    """Equal up to 1e-5 of the largest entry (of 1, if all are smaller)."""
    assert (found is None) == (expected is None), what
    if found is not None and expected is not None:
        scale = max(1.0, expected.detach().abs().max().item())
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-5 * scale, msg=lambda text: f"{what}: {text}")


@pytest.mark.parametrize("case", cover_pairs(FACTORS), ids=name_case)
def test_the_model_equals_the_reference(case: dict[str, Any]) -> None:
    path, path_layers, path_heads = case["path"]
    anonymous, topology = case["anonymous"]
    edge, position = case["inputs"]
    pointer = POINTER if case["instances"] == "graphs" else None
    setting = make_setting(
        make_graph(case["node"], edge, case["directed"], pointer), topology=topology, lengths=case["lengths"],
        instances=case["instances"], head=case["head"], path=path, path_layers=path_layers,
        path_heads=path_heads, path_position=position, anonymous=anonymous, learn_weight=case["learn_weight"],
        pe=case["pe"], layers=case["machine"][0], heads=case["machine"][1], readout=case["readout"][0],
        fusion=case["readout"][1],
    )  # fmt: skip
    found = setting.model(setting.patterns, setting.table)
    expected = ReferenceModel(setting.model, setting.graph, case["batched"])(setting.patterns, setting.table)
    for name in ("logits", "embedding", "weights"):
        assert_near(getattr(found, name), getattr(expected, name), name)
        assert_near(getattr(setting.run(), name), getattr(expected, name), f"{name} without gradient")
    setting.model.eval()
    with torch.inference_mode():
        maps = setting.model.map_all_nodes(setting.table, size=7)
        assert_near(setting.model(setting.patterns, setting.table, maps).logits, expected.logits, "logits from maps")
    setting.model.train()
    slow = gradients(expected, setting.model)
    for name, gradient in gradients(found, setting.model).items():
        assert_near(gradient, slow[name], f"gradient of {name}")


def test_the_cases_meet_in_pairs() -> None:
    met = {pair for case in cover_pairs(FACTORS) for pair in combinations(case.items(), 2)}
    assert len(met) == sum(len(FACTORS[a]) * len(FACTORS[b]) for a, b in combinations(FACTORS, 2))


@pytest.mark.parametrize("topology", ["loops", "induced", "shape"])
@pytest.mark.parametrize(
    ("readout", "fusion"), [("mean", False), ("mean", True), ("class", False), ("class", True), ("sum", False)]
)
@pytest.mark.parametrize("path", ["transformer", "gru", "conv", "mean"])
def test_gradients_reach_every_parameter(topology: str, readout: str, fusion: bool, path: str) -> None:
    graph = make_graph("sparse", "dense")
    setting = make_setting(
        graph, topology=topology, readout=readout, fusion=fusion, path=path, path_position="learned",
        learn_weight=True, pe="lap", layers=2, path_layers=2, head="mlp",
    )  # fmt: skip
    setting.model.train()
    setting.model(setting.tokenizer.nodes([0, 1, 2]), setting.table).logits.square().sum().backward()
    for name, parameter in setting.model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().max() > 0, name


@pytest.mark.parametrize("topology", ["loops", "shape"])
def test_saved_weights_give_the_same_model(topology: str) -> None:
    setting = make_setting(make_graph("dense", "categories"), topology=topology, pe="lap", fusion=True)
    model = setting.model
    torch.manual_seed(99)
    fresh = GraphPatternMachine(model.inputs, model.options, CLASSES, 8, topology).eval()
    fresh.load_state_dict(model.state_dict())
    with torch.no_grad():
        found = fresh(setting.patterns, setting.table)
    assert torch.equal(found.logits, setting.run().logits)
    assert all(torch.equal(value, fresh.state_dict()[name]) for name, value in model.state_dict().items())


def test_a_sum_is_the_mean_of_normalised_patterns_by_their_shares_times_the_size() -> None:
    setting = make_setting(make_graph("dense", "dense", pointer=POINTER), instances="graphs", readout="sum", layers=2)
    with torch.no_grad():
        x = setting.model.encode(setting.patterns, setting.table)
        for layer in setting.model.machine.layers:
            x = layer(x)
        normed = setting.model.machine.norm(x)
    assert setting.patterns.shares is not None
    mean = (setting.patterns.shares[:, :, None] * normed).sum(1)
    sizes = torch.tensor(np.diff(POINTER))
    assert float(setting.model.size) == pytest.approx(sizes.double().mean())
    assert_near(setting.run().embedding, mean * (sizes / sizes.double().mean()).float()[:, None], "embedding")


@pytest.mark.parametrize(("readout", "times"), [("sum", 2.0), ("mean", 1.0)])
def test_two_copies_of_a_graph_have_twice_the_sum(readout: str, times: float) -> None:
    """Patterns cover both evenly; what is left is how many starts a node happens to get."""
    ends, x = np.random.default_rng(0).integers(0, 5, (2, 8)), np.random.default_rng(1).normal(size=(5, 3))
    copies = np.concatenate([ends, ends + 5, ends + 10], 1)
    graph = Graph.from_edges(copies, 15, undirected=True, x=np.tile(x, (3, 1)), graph_ptr=[0, 5, 15])
    setting = make_setting(graph, lengths=(0,), instances="graphs", readout=readout, layers=2)
    setting.tokenizer.pool = 500
    one, two = setting.run(setting.tokenizer.graphs([0, 1])).embedding
    assert float((two - times * one).norm() / (times * one).norm()) < 0.02


def test_a_model_of_sums_keeps_its_size() -> None:
    """On other graphs a sum is measured in the mean size of those that it was trained on."""
    setting = make_setting(make_graph(pointer=POINTER), instances="graphs", readout="sum")
    assert float(setting.model.state_dict()["size"]) == NODES / 5
    fresh = GraphPatternMachine(setting.model.inputs, setting.model.options, CLASSES, 8).eval()
    fresh.load_state_dict(setting.model.state_dict())
    with torch.no_grad():
        assert torch.equal(fresh(setting.patterns, setting.table).logits, setting.run().logits)


def test_the_head_is_one_map_or_two() -> None:
    for head in ("linear", "mlp"):
        setting = make_setting(make_graph(), head=head)
        found, maps = setting.run(), [part for part in setting.model.head.modules() if isinstance(part, nn.Linear)]
        with torch.no_grad():
            z = found.embedding if head == "linear" else maps[0](found.embedding).clamp(min=0)
            assert_near(found.logits, maps[-1](z), head)
        assert len(maps) == (1 if head == "linear" else 2)


@pytest.mark.parametrize(("readout", "fusion"), [("mean", True), ("class", False), ("class", True)])
def test_pattern_weights_are_shares(readout: str, fusion: bool) -> None:
    weights = make_setting(make_graph(), readout=readout, fusion=fusion).run().weights
    assert weights is not None
    assert weights.shape == (8, 12)
    assert (weights >= 0).all()
    torch.testing.assert_close(weights.sum(1), torch.ones(8))
    assert make_setting(make_graph()).run().weights is None


@pytest.mark.parametrize("topology", ["loops", "induced", "shape"])
@pytest.mark.parametrize("readout", ["mean", "class"])
def test_the_order_of_patterns_does_not_matter(topology: str, readout: str) -> None:
    setting = make_setting(make_graph("dense", "dense"), topology=topology, readout=readout, fusion=True, layers=2)
    patterns = setting.patterns
    order = np.arange(12)
    for _, slots in patterns.groups():
        order[slots] = np.random.default_rng(0).permutation(order[slots])
    assert patterns.edges is not None
    moved = replace(
        patterns, nodes=patterns.nodes[:, order], numbers=patterns.numbers[:, order],
        topology=patterns.topology[:, order], edges=patterns.edges[:, order],
    )  # fmt: skip
    before, after = setting.run(), setting.run(moved)
    assert_near(after.logits, before.logits, "logits")
    assert before.weights is not None
    assert_near(after.weights, before.weights[:, order], "weights")


@pytest.mark.parametrize("topology", ["loops", "induced", "shape"])
@pytest.mark.parametrize("node", ["none", "dense", "sparse", "categories"])
def test_the_numbers_of_nodes_do_not_matter(topology: str, node: str) -> None:
    """Relabelled walks on the relabelled graph mean the same."""
    ends = np.random.default_rng(1).integers(0, NODES - ISOLATED, (2, EDGES))
    edge_attr, x = make_features("dense", EDGES, 3), make_features(node, NODES, 2)
    number = np.random.default_rng(4).permutation(NODES)  # the new number of each node
    back = np.argsort(number)
    graph = Graph.from_edges(ends, NODES, undirected=True, x=x, edge_attr=edge_attr)
    other = Graph.from_edges(
        number[ends], NODES, undirected=True, x=None if x is None else x[back], edge_attr=edge_attr
    )
    setting = make_setting(graph, topology=topology, pe="lap")
    nodes = setting.patterns.nodes.numpy()
    moved = np.where(nodes >= 0, number[nodes], -1)
    places, table = find_topologies(other, moved.reshape(-1, moved.shape[2]), topology)
    places = torch.from_numpy(places.reshape(nodes.shape[:2]))
    patterns = replace(setting.patterns, nodes=torch.from_numpy(moved), topology=places, table=table)
    assert setting.table.pe is not None
    with torch.no_grad():
        found = setting.model(patterns, FeatureTable(other, setting.table.pe.numpy()[back]))
    assert_near(found.logits, setting.run().logits, "logits")


@pytest.mark.parametrize("topology", ["loops", "induced", "shape"])
def test_an_instance_does_not_depend_on_its_batch(topology: str) -> None:
    setting = make_setting(make_graph("sparse", "categories"), topology=topology, readout="class")
    whole = setting.run(setting.tokenizer.nodes(np.arange(NODES)))
    assert whole.weights is not None
    for node in range(0, NODES, 3):
        alone = setting.run(setting.tokenizer.nodes([node]))
        assert_near(alone.logits[0], whole.logits[node], "logits")
        assert alone.weights is not None
        assert_near(alone.weights[0], whole.weights[node], "weights")


def test_no_instances_have_no_logits() -> None:
    setting = make_setting(make_graph("dense", "dense"))
    assert setting.run(setting.tokenizer.nodes([])).logits.shape == (0, CLASSES)


@pytest.mark.parametrize("edge_attr", [np.zeros((0, 2)), np.zeros((0, 2), dtype=np.int64)])
def test_a_graph_may_have_no_edges(edge_attr: NDArray) -> None:
    """Every walk stays, no edge is crossed, and all nodes but for their features are alike."""
    x = np.random.default_rng(0).normal(size=(NODES, 2))
    setting = make_setting(Graph.from_edges([[], []], NODES, x=x, edge_attr=edge_attr), topology="shape")
    assert setting.run().logits.isfinite().all()


def test_the_number_of_threads_does_not_matter() -> None:
    setting = make_setting(make_graph("sparse", "dense"), layers=3, readout="class", width=64)
    patterns = setting.tokenizer.nodes(np.arange(NODES))
    before = torch.get_num_threads()
    try:
        found = []
        for threads in (1, 2):
            torch.set_num_threads(threads)
            found.append(setting.run(patterns).logits)
    finally:
        torch.set_num_threads(before)
    torch.testing.assert_close(found[0], found[1], rtol=0, atol=1e-6)


@pytest.mark.parametrize("path_heads", [1, 4])
@pytest.mark.parametrize("path", ["transformer", "gru", "mean"])
def test_a_step_in_mixed_precision_is_near_the_exact_one(path: str, path_heads: int) -> None:
    setting = make_setting(make_graph("dense", "none"), path=path, path_heads=path_heads, readout="class")
    parameters = list(setting.model.parameters())
    exact = setting.model(setting.patterns, setting.table)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rough = setting.model(setting.patterns, setting.table)
    assert (rough.logits - exact.logits).norm() < 0.05 * exact.logits.norm()
    slow, fast = (
        torch.cat([g.reshape(-1) for g in torch.autograd.grad(o.logits.float().square().sum(), parameters)])
        for o in (exact, rough)
    )
    assert (fast - slow).norm() < 0.1 * slow.norm()


def test_larger_sizes_have_more_parameters() -> None:
    counts = []
    for size in SIZES:
        with torch.device("meta"):  # counted without being made
            inputs = InputSpec(node="dense", node_dim=100, edge="categories", edge_dim=2, edge_sizes=[3, 4], pe_dim=8)
            counts.append(GraphPatternMachine(inputs, Config(size=size), 10, 8).count_parameters())
    assert counts == sorted(set(counts))
    assert counts[0] < 150_000
    assert counts[-1] > 20_000_000


@pytest.mark.parametrize("num_nodes", [50, 10_000_000])
def test_distinct_nodes_are_those_of_unique(num_nodes: int) -> None:
    """The small graph is marked, the large one sorted."""
    rng = torch.Generator().manual_seed(0)
    parts = [torch.randint(0, 50, (n,), generator=rng, dtype=torch.int32) for n in (30, 0, 17)]
    nodes, places = find_distinct(parts, num_nodes)
    expected, inverse = torch.unique(torch.cat(parts).long(), return_inverse=True)
    assert torch.equal(nodes, expected)
    assert torch.equal(torch.cat(places), inverse)
    assert [len(place) for place in places] == [30, 0, 17]
