"""What a collection of 250,000 molecule-like graphs costs: building it, drawing patterns, return probabilities, memory.

The graphs are as large as those of ZINC (23 nodes and 50 directed edges on average): a tree that is nearly a chain, and
rings. Times are medians of repeats, after a first call that compiles; memory is measured in processes of its own.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import numba
import numpy as np
import torch
from numpy.typing import NDArray
from walks import THREADS, peak_of, processor

from gpm import Graph, Tokenizer
from gpm.compute import keep_memory
from gpm.io.environment import describe_environment
from gpm.nn.positional.encodings import embed_returns

SIZES = (62_500, 125_000, 250_000)
LENGTHS, POOL, COUNT, BATCH = (0, 1, 4, 8), 128, 32, 256
WALKED = 32_768  # graphs whose patterns are drawn in one repeat
DIMS = (8, 16)
ATOMS, BONDS = 28, 4


@dataclass
class Molecules:
    """Molecule-like graphs side by side: node ids count through the collection, each bond stands in both directions."""

    edge_index: NDArray
    graph_ptr: NDArray
    x: NDArray
    edge_attr: NDArray

    def build(self) -> Graph:
        return Graph.from_edges(
            self.edge_index,
            int(self.graph_ptr[-1]),
            x=self.x,
            edge_attr=self.edge_attr,
            graph_ptr=self.graph_ptr,
        )


def make_molecules(count: int, seed: int = 0) -> Molecules:
    """Draw molecules: every atom but the first hangs on one of the three before it; up to three rings are closed."""
    rng = np.random.default_rng(seed)
    sizes = np.clip(np.rint(rng.normal(23.2, 4.5, count)), 9, 38).astype(np.int64)
    pointer = np.concatenate([[0], np.cumsum(sizes)])
    place = np.arange(pointer[-1]) - np.repeat(pointer[:-1], sizes)
    child = np.flatnonzero(place)
    parent = child - 1 - (rng.random(len(child)) ** 3 * np.minimum(place[child], 3)).astype(np.int64)
    graph, ring = np.divmod(np.flatnonzero(rng.random(3 * count) < 0.9), 3)  # the third of a molecule that has a ring
    corner = pointer[graph] + ((ring + rng.random(len(ring))) / 3 * (sizes[graph] - 5)).astype(np.int64)
    once = np.concatenate([[child, parent], [corner, corner + 5]], axis=1)
    kind = rng.integers(0, BONDS, once.shape[1])
    edges, kinds = np.concatenate([once, once[::-1]], axis=1), np.tile(kind, 2)
    order = np.argsort(edges[0], kind="stable")  # graph by graph
    atoms = np.minimum(rng.geometric(0.4, pointer[-1]) - 1, ATOMS - 1)
    return Molecules(np.ascontiguousarray(edges[:, order]), pointer, atoms[:, None], kinds[order, None])


def collate(molecules: Molecules) -> Any:
    """The same as PyG keeps a dataset in memory: whole tensors, slices, and ids that count from 0 in every graph."""
    from torch_geometric.data import Data, InMemoryDataset

    class Collated(InMemoryDataset):
        def __init__(self, data: Data, slices: dict[str, torch.Tensor]) -> None:
            super().__init__(None)
            self._data, self.slices = data, slices

    pointer = molecules.graph_ptr
    bounds = np.searchsorted(molecules.edge_index[0], pointer)
    edges = molecules.edge_index - np.repeat(pointer[:-1], np.diff(bounds))
    data = Data(*(torch.from_numpy(a) for a in (molecules.x, edges, molecules.edge_attr)))
    nodes, ends = torch.from_numpy(pointer), torch.from_numpy(bounds)
    return Collated(data, {"x": nodes, "edge_index": ends, "edge_attr": ends})


def rate(title: str, amount: int, work: Callable[[], object], repeats: int) -> dict[str, Any]:
    """How much is done per second: the median of repeats."""
    seconds, on_cores = [], []
    for _ in range(repeats):
        began, computed = time.perf_counter(), time.process_time()
        work()
        seconds.append(time.perf_counter() - began)
        on_cores.append(
            time.process_time() - computed
        )  # of all threads; less than the seconds where others compute too
    found = amount / statistics.median(seconds)
    print(f"{title:<40} {found:>14,.0f} per s", flush=True)
    return {
        "per_s": round(found),
        "seconds": [round(s, 3) for s in seconds],
        "cpu_seconds": [round(s, 3) for s in on_cores],
    }


def draw(tokenizer: Tokenizer, graphs: NDArray, turn: int = 0) -> None:
    """Patterns of graphs, batch by batch, dropped as a training loop would."""
    for first in range(0, len(graphs), BATCH):
        tokenizer.graphs(graphs[first : first + BATCH], count=COUNT, turn=turn)


def make_tokenizer(graph: Graph, threads: int = THREADS) -> Tokenizer:
    return Tokenizer(graph, lengths=LENGTHS, pool=POOL, edges=True, threads=threads)


def some_graphs(graph: Graph) -> NDArray:
    return np.random.default_rng(1).permutation(graph.num_graphs)[:WALKED]


def warm_up() -> None:
    """Compile everything that is measured."""
    molecules = make_molecules(64)
    Graph.from_pyg(collate(molecules))
    draw(make_tokenizer(molecules.build()), np.arange(64))
    embed_returns(molecules.build(), 2)


def measure(count: int) -> dict[str, Any]:
    molecules = make_molecules(count)
    dataset, graph = collate(molecules), molecules.build()
    print(graph.summary(), flush=True)
    graphs, turns = some_graphs(graph), itertools.count()
    figures = {
        "build_from_arrays": rate("graphs built from arrays", count, molecules.build, 3),
        "build_from_pyg": rate("graphs built from PyG's tensors", count, lambda: Graph.from_pyg(dataset), 3),
    }
    for dim in DIMS:
        title = f"graphs with {dim} return probabilities"
        figures[f"returns_{dim}"] = rate(title, count, partial(embed_returns, graph, dim), 1)
    for threads in range(1, THREADS + 1):  # last: threads that wait use the cores for a while
        walks = partial(draw, make_tokenizer(graph, threads), graphs)
        title = f"walks drawn by {threads} thread(s)"
        figures[f"walks_{threads}"] = rate(title, len(graphs) * COUNT, lambda walks=walks: walks(next(turns)), 5)
    return figures | {"summary": graph.summary()}


def measure_memory(count: int) -> dict[str, int]:
    """Bytes of the input, and by which resident memory rises at its highest above what is there before each work."""
    warm_up()
    molecules = make_molecules(count)
    arrays = (molecules.edge_index, molecules.graph_ptr, molecules.x, molecules.edge_attr)
    built: list[Graph] = []
    figures = {"input": sum(a.nbytes for a in arrays), "build": peak_of(lambda: built.append(molecules.build()))}
    graphs, tokenizer = some_graphs(built[0]), make_tokenizer(built[0])
    figures["walks"] = peak_of(lambda: draw(tokenizer, graphs))
    figures[f"returns_{DIMS[0]}"] = peak_of(lambda: embed_returns(built[0], DIMS[0]))
    return figures


def measure_start(count: int) -> dict[str, float]:
    """Seconds from starting `gpm train` on a saved collection, Python's own start included, to its first step's end."""
    molecules = make_molecules(count)
    with tempfile.TemporaryDirectory() as scratch:
        target = np.diff(molecules.graph_ptr).astype(np.float32) + 0.5
        replace(molecules.build(), y=target).save(Path(scratch) / "graphs")
        began = time.time()
        found = subprocess.run(
            [sys.executable, __file__, "--first-step", scratch], stdout=subprocess.PIPE, text=True, check=True
        )
    begins, ends = (round(float(moment) - began, 1) for moment in found.stdout.split()[-2:])
    print(f"first step of training on {count:,} graphs begins after {begins} s and ends after {ends} s", flush=True)
    return {"begins_s": begins, "ends_s": ends}


def train_one_step(scratch: Path) -> None:
    """Train on a saved collection and stop after the first step; prints when that began and ended."""
    from gpm.cli.main import main as gpm
    from gpm.training import lightning_module as learner

    step = learner.Learner.training_step

    def stop(self: Any, batch: Any, number: int) -> Any:
        began = time.time()
        step(self, batch, number)
        print(began, time.time())
        sys.stdout.flush()
        os._exit(0)

    learner.Learner.training_step = stop  # type: ignore[method-assign]
    options = ["--pe", "rwse", "--pe_dim", "8", "--readout", "sum", "--quiet", "--out", str(scratch / "run")]
    gpm(["train", str(scratch / "graphs"), "--task", "graph", *options])


def in_own_process(count: int) -> dict[str, int]:
    command = [sys.executable, __file__, "--memory", str(count)]
    found: dict[str, int] = json.loads(
        subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()[-1]
    )
    shown = ", ".join(f"{what} {size / 1e6:,.0f} MB" for what, size in found.items())
    print(f"memory, {count:,} graphs: {shown}", flush=True)
    return found


def summarise(figures: dict[str, Any], memory: dict[int, dict[str, int]], load: tuple[float, ...]) -> dict[str, Any]:
    least, most = min(memory), max(memory)
    per_graph = {what: round(size / most) for what, size in memory[most].items()}
    growth = {
        what: round(memory[most][what] / max(memory[least][what], 1) / (most / least), 3) for what in memory[most]
    }
    environment = describe_environment()
    return {
        "graphs_built_per_s": min(figures["build_from_arrays"]["per_s"], figures["build_from_pyg"]["per_s"]),
        "walks_per_s": {threads: figures[f"walks_{threads}"]["per_s"] for threads in range(1, THREADS + 1)},
        "returns_graphs_per_s": {dim: figures[f"returns_{dim}"]["per_s"] for dim in DIMS},
        "first_step_s": figures["first_step"]["begins_s"],
        "bytes_per_graph": per_graph,
        "memory_growth": growth,
        "protocol": {
            "graphs": most, "lengths": LENGTHS, "pool": POOL, "count": COUNT, "edges": True, "batch": BATCH,
            "graphs_walked": WALKED, "medians": "of 3 (building), 5 (walks), 1 (return probabilities)",
            "walks_per_s": "by the number of threads", "returns_graphs_per_s": "by the number of probabilities, one thread",
            "memory": "peak rise of resident memory in a process of its own; memory_growth is how many times the bytes grow "
            f"from {least:,} to {most:,} graphs, over how many times the graphs do: 1 is linear, less is better",
        },
        "raw": {"rates": figures, "memory_bytes": memory},
        "date": date.today().isoformat(),
        "machine": {"processor": processor(), "cores": os.cpu_count(), "load_before": load},
        "environment": environment,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/graphs.json"))
    parser.add_argument("--graphs", type=int, default=SIZES[-1], help="graphs of the whole collection")
    parser.add_argument("--memory", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--first-step", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    numba.set_num_threads(min(THREADS, numba.config.NUMBA_NUM_THREADS))
    if given.first_step:
        train_one_step(given.first_step)
        return
    if given.memory:
        print(json.dumps(measure_memory(given.memory)))
        return
    keep_memory()  # as training does
    load = os.getloadavg()
    warm_up()
    figures = measure(given.graphs)
    memory = {count: in_own_process(count) for count in (size * given.graphs // SIZES[-1] for size in SIZES)}
    result = summarise(figures | {"first_step": measure_start(given.graphs)}, memory, load)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(result, indent=1) + "\n")
    print(f"written to {given.out}")


if __name__ == "__main__":
    main()
