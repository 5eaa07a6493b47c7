"""A peer's walks, called as its documentation says. Runs in the peers' own environment.

usage: python peers.py PEER GRAPH.npz|GRAPH.csv LENGTH      (see PEERS below)

Set-up is done first and not counted; then every line on standard input asks for one run, answered by a line of JSON
with the number of walks and the seconds they took.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

Run = Callable[[], tuple[int, float]]


def timed(make_walks: Callable[[], object]) -> tuple[int, float]:
    start = time.perf_counter()
    walks = make_walks()
    seconds = time.perf_counter() - start
    return len(walks), seconds  # type: ignore[arg-type]


def pecanpy(mode: str, p: float, q: float, num_walks: int) -> Callable[[str, int], Run]:
    def setup(path: str, length: int) -> Run:
        from pecanpy import pecanpy as node2vec

        graph = getattr(node2vec, mode)(p=p, q=q, workers=2, verbose=False)
        graph.read_npz(path, weighted=False)
        graph.simulate_walks(num_walks=1, walk_length=2)  # precomputes what the mode keeps between calls
        return lambda: timed(lambda: graph.simulate_walks(num_walks=num_walks, walk_length=length))

    return setup


def csrgraph(path: str, length: int) -> Run:
    import numpy as np
    import scipy.sparse as sp
    from csrgraph import csrgraph as make_graph

    raw = np.load(path)
    nodes = len(raw["indptr"]) - 1
    matrix = sp.csr_matrix((raw["data"], raw["indices"], raw["indptr"]), shape=(nodes, nodes))
    graph = make_graph(matrix, threads=2)

    def run() -> tuple[int, float]:
        # Each call first normalises the weights: that is set-up, measured by itself and taken off.
        start = time.perf_counter()
        graph.normalize(return_self=False)
        setup = time.perf_counter() - start
        walks, seconds = timed(lambda: graph.random_walks(walklen=length + 1, epochs=1))
        return walks, seconds - setup

    run()  # compiles
    return run


def networkx(path: str, length: int) -> Run:
    import networkx as nx
    import numpy as np
    import scipy.sparse as sp

    raw = np.load(path)
    nodes = len(raw["indptr"]) - 1
    graph = nx.from_scipy_sparse_array(sp.csr_array((raw["data"], raw["indices"], raw["indptr"]), shape=(nodes, nodes)))

    def run() -> tuple[int, float]:
        paths = nx.generate_random_paths(graph, sample_size=301, path_length=length, seed=0)
        next(paths)  # the first one builds the transition matrix
        return timed(lambda: list(paths))

    return run


def ensmallen(path: str, length: int) -> Run:
    from ensmallen import Graph

    graph = Graph.from_csv(
        edge_path=path, directed=False, sources_column_number=0, destinations_column_number=1, edge_list_separator=",",
        edge_list_header=False, edge_list_numeric_node_ids=True, name="graph", verbose=False,
    )  # fmt: skip
    seeds = iter(range(10_000))
    return lambda: timed(lambda: graph.complete_walks(walk_length=length + 1, iterations=1, random_state=next(seeds)))


PEERS: dict[str, Callable[[str, int], Run]] = {
    "pecanpy FirstOrderUnweighted": pecanpy("FirstOrderUnweighted", 1, 1, 1),
    "pecanpy SparseOTF": pecanpy("SparseOTF", 0.1, 10, 10),
    "pecanpy PreComp": pecanpy("PreComp", 0.1, 10, 10),
    "pecanpy PreComp, 1 walk per node": pecanpy("PreComp", 0.1, 10, 1),
    "csrgraph": csrgraph,
    "networkx": networkx,
    "ensmallen": ensmallen,
}


def main() -> None:
    run = PEERS[sys.argv[1]](sys.argv[2], int(sys.argv[3]))
    print("ready", flush=True)
    for _ in sys.stdin:
        walks, seconds = run()
        print(json.dumps({"walks": walks, "seconds": seconds}), flush=True)


if __name__ == "__main__":
    main()
