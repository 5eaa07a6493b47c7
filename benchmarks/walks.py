"""Walks per second against a plain compiled loop and against every peer, in one run; and what building a graph costs.

Each figure is the median of repeats, and what is compared is measured in turn, repeat by repeat, so that a noisy
machine disturbs both sides. Every side has two threads and makes walks of eight steps.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from gpm import Graph, WalkRule, walk
from gpm.io.environment import describe_environment
from gpm.patterns.topologies import find_topologies
from gpm.patterns.walks.kernels import CHUNK
from gpm.random_bits import GOLDEN_U, make_key, mix

BEGIN, END = "<!-- figures of make bench-walks -->", "<!-- end of figures -->"
LENGTH, THREADS, BATCH = 8, 2, 32_768
BIASED = WalkRule(p=0.1, q=10)
LARGE, MIDDLE = (2_000_000, 50_000_000), (20_000, 500_000)
SMALL = {"cora": (2_708, 10_556), "blogcatalog": (5_196, 343_486)}
PECANPY_ONCE = "pecanpy PreComp, 1 walk per node"
DENSE = (5_000, 100_000)  # NetworkX keeps a dense matrix: 5,000 nodes already take it 400 MB


@njit(parallel=True, cache=True)
def walk_one_at_a_time(indptr, indices, starts, numbers, length, key, nodes):  # type: ignore[no-untyped-def]
    """The same walks, bit for bit, as anyone would write them: one walk after the other."""
    for w in prange(starts.size):
        v = starts[w]
        state = mix(mix(key ^ np.uint64(v)) + np.uint64(numbers[w]))
        nodes[w, 0] = v
        for step in range(length):
            begin = indptr[v]
            degree = np.uint64(indptr[v + 1] - begin)
            if degree > 0:
                bits = mix(state + ((np.uint64(step) << np.uint64(32)) + np.uint64(1)) * GOLDEN_U)
                high, low = bits >> np.uint64(32), bits & np.uint64(0xFFFFFFFF)
                v = indices[begin + np.int64((high * degree + ((low * degree) >> np.uint64(32))) >> np.uint64(32))]
            nodes[w, step + 1] = v


def power_law_edges(nodes: int, edges: int, seed: int = 0) -> NDArray:
    """Undirected edges `[2, edges]`, both directions, whose ends are drawn with weights rank^-0.6."""
    rng = np.random.default_rng(seed)
    cdf = np.cumsum(np.arange(1, nodes + 1) ** -0.6)
    ends = rng.permutation(nodes)[np.searchsorted(cdf, rng.random((2, edges // 2)) * cdf[-1])]
    return np.concatenate([ends, ends[::-1]], axis=1)


def make_graph(size: tuple[int, int]) -> Graph:
    return Graph.from_edges(power_law_edges(*size), size[0])


class Job:
    """Something that makes walks, and how fast it made them each time."""

    def __init__(self, run: Callable[[], tuple[int, float]]) -> None:
        self.run, self.rates = run, list[float]()

    def repeat(self) -> None:
        walks, seconds = self.run()
        self.rates.append(walks / seconds)

    @property
    def rate(self) -> float:
        return statistics.median(self.rates)


def different_walks(graph: Graph, walks: int) -> tuple[NDArray, NDArray]:
    """Starts in random order, each as often as the others, and numbers that make every walk another one."""
    order = np.random.default_rng(1).permutation(graph.num_nodes)
    return np.resize(order, walks), np.arange(walks) // graph.num_nodes


def ours(graph: Graph, rule: WalkRule = WalkRule(), walks: int = 2_000_000) -> Job:
    """Batches of walks through the public function, results dropped as a training loop would."""
    starts, numbers = different_walks(graph, walks)

    def run() -> tuple[int, float]:
        start = time.perf_counter()
        for first in range(0, walks, BATCH):
            batch = slice(first, first + BATCH)
            walk(graph, starts[batch], numbers[batch], LENGTH, rule=rule, threads=THREADS)
        return walks, time.perf_counter() - start

    walk(graph, starts[: 2 * CHUNK], numbers[: 2 * CHUNK], LENGTH, rule=rule, threads=THREADS)  # compiles
    return Job(run)


def plain_loop(graph: Graph, walks: int = 2_000_000) -> Job:
    (starts, numbers), key = different_walks(graph, walks), np.uint64(make_key(0))

    def batch(first: int) -> NDArray:
        some = slice(first, first + BATCH)
        nodes = np.empty((len(starts[some]), LENGTH + 1), dtype=graph.indices.dtype)
        walk_one_at_a_time(graph.indptr, graph.indices, starts[some], numbers[some], LENGTH, key, nodes)
        return nodes

    np.testing.assert_array_equal(batch(0), walk(graph, starts[:BATCH], numbers[:BATCH], LENGTH)[0])

    def run() -> tuple[int, float]:
        start = time.perf_counter()
        for first in range(0, walks, BATCH):
            batch(first)
        return walks, time.perf_counter() - start

    return Job(run)


class Peer(Job):
    """A peer in a process of its own, which waits between repeats."""

    def __init__(self, python: str, name: str, path: Path) -> None:
        command = [python, str(Path(__file__).with_name("peers.py")), name, str(path), str(LENGTH)]
        environment = os.environ | {"NUMBA_NUM_THREADS": str(THREADS), "RAYON_NUM_THREADS": str(THREADS)}
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        super().__init__(self._ask)
        while (line := self._read()) != "ready\n":
            if not line:
                raise RuntimeError(f"{name} cannot be run: {' '.join(command)}")

    def _read(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def _ask(self) -> tuple[int, float]:
        assert self.process.stdin is not None
        self.process.stdin.write("run\n")
        self.process.stdin.flush()
        while not (line := self._read()).startswith("{"):
            if not line:
                raise RuntimeError(f"{self.process.args} ended early")
        answer = json.loads(line)
        return int(answer["walks"]), float(answer["seconds"])

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


def compare(title: str, jobs: dict[str, Job], repeats: int) -> dict[str, Any]:
    """Repeat the jobs in turn; returns the median rate of each."""
    before = os.getloadavg()[0]
    for _ in range(repeats):
        for job in jobs.values():
            job.repeat()
    for job in jobs.values():
        if isinstance(job, Peer):
            job.close()
    for name, job in jobs.items():
        print(f"{title:<28} {name:<34} {job.rate:>14,.0f} walks/s", flush=True)
    return {
        "walks_per_s": {name: round(job.rate) for name, job in jobs.items()},
        "repeats": {name: [round(rate) for rate in job.rates] for name, job in jobs.items()},
        "load_before": round(before, 2),
        "load_after": round(os.getloadavg()[0], 2),
    }


def save_npz(graph: Graph, path: Path) -> Path:
    names = np.arange(graph.num_nodes).astype(str)
    data = np.ones(graph.num_edges, dtype=np.float32)
    np.savez(path, IDs=names, data=data, indptr=graph.indptr, indices=graph.indices)
    return path


def save_csv(graph: Graph, path: Path) -> Path:
    source, target = graph.edge_index()
    once = source <= target
    source, target = source[once], target[once]
    with path.open("w") as file:
        for first in range(0, len(source), 1_000_000):
            part = slice(first, first + 1_000_000)
            file.write("\n".join(map("{},{}".format, source[part].tolist(), target[part].tolist())) + "\n")
    return path


def ratio(result: dict[str, Any], peer: str) -> float:
    rates = result["walks_per_s"]
    return round(rates["gpm"] / rates[peer], 2)


def measure_peers(python: str, large: Graph, folder: Path) -> dict[str, dict[str, Any]]:
    """Ours beside each peer, on the large graph where the peer can load it.

    NetworkX keeps a dense matrix, so it gets 5,000 nodes; pecanpy's second-order modes get 20,000 (its third, DenseOTF,
    goes over a dense row for every step and is left out).
    """
    large_npz, large_csv = save_npz(large, folder / "large.npz"), save_csv(large, folder / "large.csv")
    middle, dense = make_graph(MIDDLE), make_graph(DENSE)
    middle_npz, dense_npz = save_npz(middle, folder / "middle.npz"), save_npz(dense, folder / "dense.npz")
    results = {}
    for name, path in (
        ("pecanpy FirstOrderUnweighted", large_npz),
        ("csrgraph", large_npz),
        ("ensmallen", large_csv),
    ):
        results[name] = compare(
            f"uniform, {large.num_nodes:,} nodes", {"gpm": ours(large), name: Peer(python, name, path)}, 3
        )
    jobs = {"gpm": ours(dense), "networkx": Peer(python, "networkx", dense_npz)}
    results["networkx"] = compare(f"uniform, {dense.num_nodes:,} nodes", jobs, 3)
    modes = "pecanpy SparseOTF", "pecanpy PreComp", PECANPY_ONCE
    jobs = {"gpm": ours(middle, BIASED)} | {name: Peer(python, name, middle_npz) for name in modes}
    results["biased"] = compare(f"p=0.1, q=10, {middle.num_nodes:,} nodes", jobs, 5)
    return results


# ----------------------------------------------------------------------------------------------------------------------
# Memory: each measurement in a process of its own, by the kernel's own high-water mark.


def _status(key: str) -> int:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(key))
    return int(line.split()[1]) * 1024


def peak_of(work: Callable[[], object]) -> int:
    """Bytes by which resident memory rose, at its highest, while `work` ran."""
    ctypes.CDLL("libc.so.6").malloc_trim(0)  # what the allocator kept is not to serve as a hidden buffer
    Path("/proc/self/clear_refs").write_text("5")  # resets the high-water mark
    before = _status("VmRSS")
    work()
    return _status("VmHWM") - before


def walk_memory(folder: str) -> float:
    """Extra resident memory, as a share of the graph's, while walks are drawn from every node."""
    graph = Graph.open(folder)
    resident = Graph(indptr=np.array(graph.indptr), indices=np.array(graph.indices), census=graph.census)
    job = ours(resident)
    return peak_of(job.run) / resident.nbytes


def build_memory(folder: str) -> float:
    """Extra resident memory, as a multiple of the input's bytes, while a graph is built."""
    Graph.from_edges(np.zeros((2, 4), dtype=np.int64))  # compiles
    edges = np.load(Path(folder) / "edges.npy")
    return peak_of(lambda: Graph.from_edges(edges, LARGE[0])) / edges.nbytes


def in_own_process(task: str, folder: Path) -> float:
    ran = subprocess.run(
        [sys.executable, __file__, "--task", task, str(folder)], capture_output=True, text=True, check=True
    )
    return float(ran.stdout.splitlines()[-1])


def measure_build(edges: NDArray) -> dict[str, Any]:
    """Seconds to build the graph beside NumPy's own sort of the sources."""
    Graph.from_edges(edges[:, :1000], LARGE[0])  # compiles
    seconds: dict[str, list[float]] = {"build": [], "argsort": []}
    for _ in range(3):
        for name, work in (
            ("build", lambda: Graph.from_edges(edges, LARGE[0])),
            ("argsort", lambda: np.argsort(edges[0])),
        ):
            start = time.perf_counter()
            work()
            seconds[name].append(round(time.perf_counter() - start, 2))
    print(f"building 50 M edges: {seconds}", flush=True)
    return {"seconds": seconds}


def measure_small() -> dict[str, Any]:
    results = {}
    for name, size in SMALL.items():
        graph = make_graph(size)
        starts, numbers = different_walks(graph, 30 * BATCH)

        def with_topology(
            graph: Graph = graph, starts: NDArray = starts, numbers: NDArray = numbers
        ) -> tuple[int, float]:
            start = time.perf_counter()
            for first in range(0, len(starts), BATCH):
                batch = slice(first, first + BATCH)
                nodes, _ = walk(graph, starts[batch], numbers[batch], LENGTH, threads=THREADS)
                find_topologies(graph, nodes, "loops", threads=THREADS)
            return len(starts), time.perf_counter() - start

        with_topology()
        jobs = {
            "gpm": ours(graph),
            "gpm p=0.1, q=10": ours(graph, BIASED, 500_000),
            "gpm with loops": Job(with_topology),
        }
        results[name] = compare(f"{name}-sized", jobs, 7)
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peers", help="Python of the environment in which the peers are installed")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/walks.json"))
    parser.add_argument("--task", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    numba.set_num_threads(min(THREADS, numba.config.NUMBA_NUM_THREADS))
    if given.task:
        print({"walk": walk_memory, "build": build_memory}[given.task[0]](given.task[1]))
        return
    small = measure_small()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        edges = power_law_edges(*LARGE)
        np.save(folder / "edges.npy", edges)
        build = measure_build(edges) | {"memory_per_input_byte": round(in_own_process("build", folder), 3)}
        large = Graph.from_edges(edges, LARGE[0])
        del edges
        print(large.summary(), flush=True)
        large.save(folder / "graph")
        extra = in_own_process("walk", folder / "graph")
        print(f"extra memory while walking: {extra:.2%} of the graph", flush=True)
        uniform = compare("uniform, 2,000,000 nodes", {"gpm": ours(large), "loop": plain_loop(large)}, 9)
        biased = compare("p=0.1, q=10, 2,000,000 nodes", {"gpm": ours(large, BIASED, 500_000)}, 3)
        peers = measure_peers(given.peers, large, folder) if given.peers else {}
    result = summarise(small, build, extra, uniform, biased, peers)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(result, indent=1) + "\n")
    if peers:
        update_page(result)
    print(f"written to {given.out}")


def processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "unknown")


def describe(result: dict[str, Any]) -> str:
    """The figures in words, as the docs show them."""
    rates, peers = result["raw"]["uniform"]["walks_per_s"], result["uniform_vs_peers"]
    pecanpy = peers["pecanpy FirstOrderUnweighted"]
    return f"""On {result["machine"]["cores"]} shared cores ({result["machine"]["processor"]}), walks of {LENGTH} steps, {result["date"]}; each row compares measurements
taken in turn in one run (`make bench-walks`, `benchmarks/results/walks.json`).

| power-law graph | gpm | compared with |
|---|---|---|
| 2 M nodes, 50 M edges, uniform | {rates["gpm"] / 1e6:.1f} M walks/s | {result["uniform_vs_loop"]:.1f}x a compiled loop that draws the same walks one after the other |
| the same | | {peers["ensmallen"]:.0f}x ensmallen, {peers["csrgraph"]:.0f}x csrgraph, {pecanpy:.0f}x pecanpy |
| 5,000 nodes, uniform | {result["raw"]["peers"]["networkx"]["walks_per_s"]["gpm"] / 1e6:.0f} M walks/s | {peers["networkx"]:,.0f}x NetworkX |
| 20,000 nodes, p = 0.1, q = 10 | {result["raw"]["peers"]["biased"]["walks_per_s"]["gpm"] / 1e6:.1f} M walks/s | {result["biased_vs_pecanpy_10_walks_per_node"]:.0f}x pecanpy's fastest mode making ten walks per node in a call, {result["biased_vs_pecanpy"]:.0f}x making one (it compiles in every call) |
| Cora- and BlogCatalog-sized, uniform | {result["small_graph_walks_per_s"] / 1e6:.0f} M walks/s or more | |
| memory while walking | | {result["extra_rss_share"]:.1%} of the graph |
| building 50 M edges | {statistics.median(result["raw"]["build"]["seconds"]["build"]):.1f} s | {result["build_vs_argsort"]:.2f}x the time of NumPy's argsort of the sources, {result["build_memory_per_input_byte"]:.1f}x the input's bytes |"""


def update_page(result: dict[str, Any], path: Path = Path("docs/results.md")) -> None:
    """Put the figures between the page's markers."""
    before, rest = path.read_text(encoding="utf-8").split(BEGIN)
    path.write_text(before + BEGIN + "\n" + describe(result) + "\n" + END + rest.split(END)[1], encoding="utf-8")


def summarise(small: dict, build: dict, extra: float, uniform: dict, biased: dict, peers: dict) -> dict[str, Any]:
    environment = describe_environment()
    seconds = build["seconds"]
    figures: dict[str, Any] = {
        "uniform_vs_loop": ratio(uniform, "loop"),
        "extra_rss_share": round(extra, 5),
        "small_graph_walks_per_s": min(r["walks_per_s"]["gpm"] for r in small.values()),
        "build_vs_argsort": round(statistics.median(seconds["build"]) / statistics.median(seconds["argsort"]), 3),
        "build_memory_per_input_byte": build["memory_per_input_byte"],
    }
    if peers:
        rivals = {name: ratio(result, name) for name, result in peers.items() if name != "biased"}
        biased_rivals = {name: ratio(peers["biased"], name) for name in peers["biased"]["walks_per_s"] if name != "gpm"}
        figures |= {
            "uniform_vs_best_peer": min(rivals.values()),
            "uniform_vs_peers": rivals,
            "biased_vs_pecanpy": biased_rivals[PECANPY_ONCE],
            "biased_vs_pecanpy_10_walks_per_node": min(v for k, v in biased_rivals.items() if k != PECANPY_ONCE),
        }
    return figures | {
        "protocol": {
            "length": LENGTH, "threads": THREADS, "batch": BATCH, "seed": 0, "medians": "of repeats made in turn",
            "graphs": "power law: ends drawn with weights rank^-0.6; directed edges before duplicates are merged",
            "large": LARGE, "middle": MIDDLE, "dense": DENSE, "small": SMALL,
            "pecanpy": "it compiles, and makes lists of text ids, in every call, so its rate grows with num_walks: "
            "biased_vs_pecanpy has one walk per node in a call, the other figure ten, as its documentation's example",
        },
        "raw": {"small": small, "build": build, "uniform": uniform, "biased": biased, "peers": peers},
        "date": date.today().isoformat(),
        "machine": {"processor": processor(), "cores": os.cpu_count()},
        "environment": environment,
    }  # fmt: skip


if __name__ == "__main__":
    main()
