"""GraphSAGE with PyG's NeighborLoader under DDP, as a peer: steps per second of so many ranks of one thread.

    python benchmarks/sage.py GRAPH RANKS

The global batch is that of gpm beside it, 512 nodes; two layers of 15 and 10 neighbours, width 64.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch_geometric.data import Data
from torch_geometric.loader import NeighborLoader
from torch_geometric.nn import GraphSAGE

BATCH, STEPS, WARM = 512, 40, 8


def work(rank: int, folder: str, ranks: int, port: str, out: str) -> None:
    from gpm.data.sources import load_task_data

    os.environ |= {"MASTER_ADDR": "localhost", "MASTER_PORT": port, "RANK": str(rank), "WORLD_SIZE": str(ranks)}
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    data = load_task_data(folder)
    graph, split = data.graph, data.make_split(0)
    assert graph.x is not None
    assert graph.y is not None
    torch.manual_seed(0)
    whole = Data(
        torch.from_numpy(np.array(graph.x)), torch.from_numpy(graph.edge_index()), y=torch.from_numpy(np.array(graph.y))
    )
    seeds = torch.from_numpy(np.array(split.train[rank::ranks]))
    loader = NeighborLoader(whole, [15, 10], seeds, batch_size=BATCH // ranks, shuffle=True)
    model = DistributedDataParallel(GraphSAGE(whole.num_features, 64, 2, 47))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    done, began = 0, 0.0
    while done < STEPS + WARM:
        for batch in loader:
            if done == WARM:
                dist.barrier()
                began = time.perf_counter()
            if done == STEPS + WARM:
                break
            said = model(batch.x, batch.edge_index)[: batch.batch_size]
            loss = functional.cross_entropy(said, batch.y[: batch.batch_size])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            done += 1
    dist.barrier()
    if rank == 0:
        rate = STEPS / (time.perf_counter() - began)
        Path(out).write_text(json.dumps({"ranks": ranks, "steps_per_second": rate, "loss": float(loss.detach())}))
    dist.destroy_process_group()


def main() -> None:
    import socket
    import tempfile

    folder, ranks = sys.argv[1], int(sys.argv[2])
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        port = str(probe.getsockname()[1])
    with tempfile.TemporaryDirectory() as place:
        out = f"{place}/found.json"
        torch.multiprocessing.spawn(work, (folder, ranks, port, out), nprocs=ranks)
        print(Path(out).read_text())


if __name__ == "__main__":
    main()
