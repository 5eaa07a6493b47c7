"""Scale: a graph of the size of ogbn-products within 8 GB, steps whose cost does not grow, ranks, and sizes of models.

    python benchmarks/scale.py products --work /tmp/scale     # generate, import, 200 steps, evaluate: seconds and memory
    python benchmarks/scale.py walks --work /tmp/scale        # 128 walks from every node, beside memory bandwidth
    python benchmarks/scale.py steps --work /tmp/scale        # cost of a step from 10^4 to 2.4 million nodes
    python benchmarks/scale.py ranks --work /tmp/scale        # two ranks against one, GraphSAGE under DDP beside
    python benchmarks/scale.py sizes                          # xs to xl: parameters and a step
    python benchmarks/scale.py summary                        # results/scale/summary.json and the plot

Each writes its raw measurements to results/scale. Graphs are made in the work folder once, and found there again.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

NODES, EDGES = 2_449_029, 123_718_024
STEPS, BATCH, POOL, WARM = 200, 256, 16, 100
A40_BANDWIDTH, A40_MINUTES = 696.0, 2.0  # GB/s by its data sheet; the paper's time for 128 patterns of every node
SIZES_OF_GRAPHS = (10_000, 100_000, 1_000_000, NODES)
PAPER_PARAMETERS = {
    "arxiv": {"xs": 0.19, "s": 2.94, "m": 4.52, "l": 20.04, "xl": 96.72},
    "products": {"xs": 0.21, "s": 3.21, "m": 4.79, "l": 21.12, "xl": 100.96},
}  # millions
HERE = Path(__file__).resolve().parent
RESULTS = HERE.parent / "results" / "scale"


# ----------------------------------------------------------------------------------------------------------------------
# Processes and what they hold


def resident(pid: int) -> int:
    """Bytes that a process and those below it hold in memory, mapped files included; shared pages count each time."""
    total = 0
    with suppress(OSError):
        text = Path(f"/proc/{pid}/statm").read_text()
        total = int(text.split()[1]) * os.sysconf("SC_PAGE_SIZE")
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                total += resident(int(child))
    return total


def run(command: list[str], env: dict[str, str] | None = None) -> dict[str, Any]:
    """Run a command; seconds, peak of resident memory over its processes, and what it said."""
    began, peak = time.perf_counter(), 0
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=os.environ | (env or {})
    )
    said: list[str] = []
    assert process.stdout is not None
    reader = threading.Thread(target=lambda: said.extend(process.stdout))  # type: ignore[arg-type]
    reader.start()
    while process.poll() is None:
        peak = max(peak, resident(process.pid))
        time.sleep(0.05)
    reader.join()
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}:\n{''.join(said)}")
    return {"seconds": round(time.perf_counter() - began, 1), "peak_gb": round(peak / 1e9, 3), "said": said}


def gpm(*words: object) -> list[str]:
    return [sys.executable, "-m", "gpm", *map(str, words)]


def save(name: str, content: dict[str, Any]) -> None:
    from gpm.compute import describe_environment
    from gpm.io.atomic import write_json

    RESULTS.mkdir(parents=True, exist_ok=True)
    facts = {"date": str(date.today()), "command": f"benchmarks/scale.py {sys.argv[1]}", "load": os.getloadavg()}
    write_json(RESULTS / f"{name}.json", content | {"measured": facts | {"environment": describe_environment()}})
    print(f"wrote {RESULTS / name}.json")


def make_graph(work: Path, nodes: int) -> tuple[Path, dict[str, Any]]:
    """The planted graph of so many nodes, at the mean degree of ogbn-products, imported; and what that took."""
    folder = work / f"products-{nodes}"
    graph, log = folder / "graph", folder / "made.json"
    if not log.is_file():
        edges = EDGES if nodes == NODES else 2 * round(nodes * EDGES / NODES / 2)
        folder.mkdir(parents=True, exist_ok=True)
        script = [sys.executable, str(HERE / "products.py"), "--nodes", str(nodes), "--edges", str(edges)]
        made = {"generate": run([*script, "--out", str(folder)])}
        tables = (folder / "edges.parquet", "--nodes", folder / "nodes.parquet", "--target", "category")
        made["import"] = run(gpm("import", *tables, "-o", graph, "--overwrite"))
        log.write_text(json.dumps(made, indent=1))
    return graph, json.loads(log.read_text())


# ----------------------------------------------------------------------------------------------------------------------
# Products


def measure_products(work: Path) -> None:
    graph, made = make_graph(work, NODES)
    out = work / "run-products"
    options = ["--split", "public", "--batch", BATCH, "--pool", POOL, "--epochs", 2, "--epoch_steps", STEPS // 2]
    trained = run(gpm("train", graph, "-o", out, "--overwrite", "--threads", 2, *options))
    scored = run(gpm("evaluate", out, "--part", "val"))
    result = json.loads((out / "result.json").read_text())
    stages = {"generate": made["generate"], "import": made["import"], "train": trained, "evaluate": scored}
    alone = score_features(graph)
    content = {
        "what": f"{NODES:,} nodes, {EDGES:,} directed edges, 100 features, 47 classes: generated, imported, trained "
        f"for {STEPS} steps and scored on 39,323 validation and 2,213,091 test nodes with {POOL} patterns each",
        "stages": {name: {key: stage[key] for key in ("seconds", "peak_gb")} for name, stage in stages.items()},
        "peak_gb": max(stage["peak_gb"] for stage in stages.values()),
        "limit_gb": 8, "steps": STEPS, "batch": BATCH, "test": result["test"], "val": result["val"],
        "features_alone": alone, "time_shares": result["time_shares"], "seed": result["seed"],
        "note": "memory is the resident set of all processes of a stage, pages of mapped files included",
    }  # fmt: skip
    save("products", content)


def score_features(graph_folder: Path) -> float:
    """Test accuracy of a network on features alone, to show that structure matters."""
    import torch

    from gpm.data.sources import load_task_data
    from gpm.graph.graph import Graph

    data = load_task_data(graph_folder)
    split = data.make_split(0)
    assert isinstance(data.graph, Graph)
    x, y = data.graph.x, data.graph.y
    assert isinstance(x, np.ndarray)
    assert y is not None
    torch.manual_seed(0)
    chosen = np.random.default_rng(0).choice(split.test, 100_000, replace=False)
    train, test = (torch.from_numpy(np.array(x[np.sort(ids)])) for ids in (split.train, chosen))
    wanted, truth = (torch.from_numpy(np.array(y[np.sort(ids)]).astype(np.int64)) for ids in (split.train, chosen))
    net = torch.nn.Sequential(torch.nn.Linear(x.shape[1], 128), torch.nn.ReLU(), torch.nn.Linear(128, 47))
    optimizer = torch.optim.AdamW(net.parameters(), lr=2e-3)
    for _ in range(5):
        for part in torch.randperm(len(train)).split(1024):
            loss = torch.nn.functional.cross_entropy(net(train[part]), wanted[part])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    with torch.no_grad():
        return float((net(test).argmax(1) == truth).double().mean())


# ----------------------------------------------------------------------------------------------------------------------
# Walks


def measure_walks(work: Path) -> None:
    """128 walks of eight steps from every node, and the bandwidth of memory, both with two threads."""
    from gpm import Graph, walk

    graph = Graph.open(make_graph(work, NODES)[0])
    block, numbers = 8192, np.arange(128)[None]
    walk(graph, np.arange(block)[:, None], numbers, 8)
    bandwidth = [measure_bandwidth()]
    began, met = time.perf_counter(), 0
    for first in range(0, graph.num_nodes, block):
        starts = np.arange(first, min(first + block, graph.num_nodes))[:, None]
        met ^= int(walk(graph, starts, numbers, 8)[0][:, :, -1].sum())
    seconds = time.perf_counter() - began
    bandwidth.append(measure_bandwidth())
    here = statistics.median(bandwidth)
    allowed = 60 * A40_MINUTES * A40_BANDWIDTH / here
    save("walks", {
        "walks": graph.num_nodes * 128, "steps_each": 8, "seconds": round(seconds, 1), "checksum": met,
        "walks_per_second": round(graph.num_nodes * 128 / seconds), "bandwidth_gb_s": bandwidth,
        "a40_bandwidth_gb_s": A40_BANDWIDTH, "ratio_of_bandwidths": round(A40_BANDWIDTH / here, 1),
        "paper_seconds": 60 * A40_MINUTES, "allowed_seconds": round(allowed, 1), "within": seconds <= allowed,
    })  # fmt: skip


def measure_bandwidth(entries: int = 1 << 27) -> float:
    """GB/s of a copy between two arrays of a gigabyte, read and written, with torch's threads."""
    import torch

    source, target = torch.ones(entries, dtype=torch.float64), torch.empty(entries, dtype=torch.float64)
    rates = []
    for _ in range(5):
        began = time.perf_counter()
        target.copy_(source)
        rates.append(2 * source.nbytes / (time.perf_counter() - began) / 1e9)
    return round(statistics.median(rates), 2)


# ----------------------------------------------------------------------------------------------------------------------
# Steps


def measure_steps(work: Path, rounds: int = 15, each: int = 6) -> None:
    """Steps of one model on graphs of one degree and four sizes, in turn, in this process."""
    from gpm.compute import keep_memory

    keep_memory()
    graphs = {nodes: make_graph(work, nodes)[0] for nodes in SIZES_OF_GRAPHS}
    trainers = {nodes: make_trainer(folder) for nodes, folder in graphs.items()}
    for step in trainers.values():  # first steps compile, and fault in the pages of what is mapped
        for i in range(WARM):
            step(i)
    spent: dict[int, list[dict[str, float]]] = {nodes: [] for nodes in trainers}
    for i in range(rounds):
        for nodes, step in trainers.items():
            for j in range(each):
                spent[nodes].append(step(1000 + i * each + j))
    rows = []
    for nodes, found in spent.items():
        rows.append({"nodes": nodes} | {key: statistics.median(row[key] for row in found) for key in found[0]})
        print(rows[-1])
    growth = rows[-1]["total"] / rows[0]["total"]
    save("steps", {
        "what": f"seconds of a training step, batch {BATCH}, 16 patterns, width 64, graphs mapped from disk at a mean "
        "degree of 50.5; medians of interleaved steps in one process",
        "rows": rows, "growth": round(growth, 4),
        "worst_over_best": round(max(r["total"] for r in rows) / min(r["total"] for r in rows), 4),
        "steps_each": rounds * each, "threads": 2,
    })  # fmt: skip


def make_trainer(folder: Path) -> Callable[[int], dict[str, float]]:
    """A function that does one training step on a graph and says what it took."""
    import torch

    from gpm.config import Config
    from gpm.data.sources import load_task_data
    from gpm.nn.predictor import Predictor
    from gpm.tasks import make_task
    from gpm.training.batches import Batches, Examples, Prepared

    config = Config(batch=BATCH, metric="accuracy")
    data = load_task_data(folder)
    split = data.make_split(0)
    task = make_task(data, split, config)
    torch.manual_seed(0)
    predictor = Predictor.build(config, data.graph, task.outputs)
    dataset = Prepared(Examples(data, task, split, 0), predictor.reader.prepare)
    optimizer = torch.optim.AdamW(predictor.model.parameters(), lr=1e-3, fused=True)
    batches = Batches(len(split.train), BATCH, 0, steps=10_000)
    draws = {}

    def step(number: int) -> dict[str, float]:
        if number not in draws:  # the shuffle of an epoch is made once, and is no part of a step
            draws.update((i, draw) for i, draw in zip(range(number + 100), batches, strict=False))
        began = time.perf_counter()
        batch = dataset[draws[number]]
        loss = task.loss(predictor.compute(batch.content), batch.targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total = time.perf_counter() - began
        return batch.seconds | {"computing": total - sum(batch.seconds.values()), "total": total}

    return step


# ----------------------------------------------------------------------------------------------------------------------
# Ranks


def measure_ranks(work: Path, repeats: int = 3) -> None:
    """Two ranks of a thread each against one, of gpm and of GraphSAGE with PyG's loader under DDP, in turn."""
    graph = make_graph(work, 100_000)[0]
    rates: dict[str, list[float]] = {}
    curves: dict[int, list[list[float]]] = {}
    results: dict[int, dict[str, Any]] = {}
    notes: dict[str, Any] = {}
    options = ["--split", "public", "--batch", 512, "--pool", 32, "--epochs", 4, "--epoch_steps", 15, "--threads", 1]
    for _ in range(repeats):
        for ranks in (1, 2):
            out = work / f"run-ranks-{ranks}"
            one = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
            run(gpm("train", graph, "-o", out, "--overwrite", "--devices", ranks, *options), one)
            rows = list(csv.DictReader((out / "metrics.csv").open()))
            results[ranks] = json.loads((out / "result.json").read_text())
            curves[ranks] = [[float(row[key]) for key in ("train_loss", "val_loss", "val_accuracy")] for row in rows]
            rates.setdefault(f"gpm {ranks}", []).append(1 / results[ranks]["seconds_per_step"])
            if sage_is_possible():
                said = run([sys.executable, str(HERE / "sage.py"), str(graph), str(ranks)], one)["said"]
                found = json.loads(next(line for line in reversed(said) if line.startswith("{")))
                rates.setdefault(f"sage {ranks}", []).append(found["steps_per_second"])
                notes[f"sage {ranks}"] = found
        print({key: [round(rate, 2) for rate in each] for key, each in rates.items()})
    middle = {key: statistics.median(each) for key, each in rates.items()}
    difference = float(np.abs(np.array(curves[1]) - np.array(curves[2])).max())
    content: dict[str, Any] = {
        "what": "steps per second of two ranks of one thread over those of one rank of one thread, equal global batch of "
        "512; 100,000 nodes, mean degree 50.5; medians of interleaved trainings",
        "steps_per_second": rates, "speedup": round(middle["gpm 2"] / middle["gpm 1"], 3),
        "curves": curves, "largest_difference_of_curves": difference,
        "test": {ranks: result["test"] for ranks, result in results.items()},
        "communicating_share": results[2]["time_shares"]["communicating"], "repeats": repeats,
        "time_shares": {ranks: result["time_shares"] for ranks, result in results.items()},
    }  # fmt: skip
    if "sage 2" in middle:
        content |= {"sage_speedup": round(middle["sage 2"] / middle["sage 1"], 3), "sage": notes}
    else:
        content["sage_speedup"] = None
        content["sage_note"] = "PyG's NeighborLoader needs pyg-lib or torch-sparse, of which neither is installed"
    save("ranks", content)


def sage_is_possible() -> bool:
    import torch_geometric.typing as there

    return bool(there.WITH_PYG_LIB or there.WITH_TORCH_SPARSE)


# ----------------------------------------------------------------------------------------------------------------------
# Sizes


def measure_sizes() -> None:
    """Each size: its parameters for Arxiv's and Products' inputs beside the paper's, and what a training step takes."""
    import torch

    from gpm import Graph
    from gpm.config import SIZES, Config
    from gpm.nn.feature_map import InputSpec
    from gpm.nn.predictor import Predictor, make_machine

    random = np.random.default_rng(0)
    graph = Graph.from_edges(random.integers(0, 5000, (2, 60_000)), 5000, undirected=True, x=random_features(random))
    shapes = {"arxiv": (128, 40), "products": (100, 47)}
    rows = []
    for size, (layers, heads, width) in SIZES.items():
        config = Config(size=size)  # type: ignore[arg-type]
        row: dict[str, Any] = {"size": size, "layers": layers, "heads": heads, "width": width, "millions": {}}
        for name, (columns, classes) in shapes.items():
            model = make_machine(config, InputSpec("dense", columns), classes, "node")
            row["millions"][name] = round(model.count_parameters() / 1e6, 3)
        row["paper_millions"] = {name: PAPER_PARAMETERS[name][size] for name in shapes}
        for flags in ({}, {"checkpointing": True}, {"precision": "bf16-mixed"}):
            chosen = config.with_(**flags)
            predictor = Predictor.build(chosen, graph, 47)
            optimizer = torch.optim.AdamW(predictor.model.parameters(), lr=1e-4, fused=True)
            seconds, losses = [], []
            for step in range(1 if chosen.precision == "bf16-mixed" else 3):  # slow where the CPU has no bf16
                began = time.perf_counter()
                with torch.autocast("cpu", torch.bfloat16, enabled=chosen.precision == "bf16-mixed"):
                    logits = predictor.learn(torch.arange(32), step)
                loss = torch.nn.functional.cross_entropy(logits.float(), torch.arange(32) % 47)
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                seconds.append(time.perf_counter() - began)
                losses.append(float(loss.detach()))
            name = next(iter(flags), "plain")
            row[name] = {
                "seconds_per_step": round(statistics.median(seconds), 4),
                "losses": [round(v, 4) for v in losses],
            }
        print(row)
        rows.append(row)
    save("sizes", {"what": "a training step of 32 instances, 16 patterns each, 5,000 nodes", "rows": rows})


def random_features(random: np.random.Generator) -> NDArray:
    return random.normal(size=(5000, 100)).astype(np.float32)


# ----------------------------------------------------------------------------------------------------------------------
# Summary


def summarise() -> None:
    """What the others measured, in a few figures; and the plot of steps."""
    found = {path.stem: json.loads(path.read_text()) for path in RESULTS.glob("*.json") if path.stem != "summary"}
    products, steps, ranks, walks = (found.get(name, {}) for name in ("products", "steps", "ranks", "walks"))
    plan = found.get("plan", {})
    content = {
        "products_peak_rss_gb": products.get("peak_gb"), "products_test_accuracy": products.get("test", {}).get("accuracy"),
        "products_features_alone": products.get("features_alone"), "two_rank_speedup": ranks.get("speedup"),
        "two_rank_curve_difference": ranks.get("largest_difference_of_curves"),
        "communicating_share": ranks.get("communicating_share"), "sage_two_rank_speedup": ranks.get("sage_speedup"),
        "step_cost_growth": steps.get("growth"), "walks_seconds": walks.get("seconds"),
        "walks_allowed_seconds": walks.get("allowed_seconds"), "bandwidth_ratio": walks.get("ratio_of_bandwidths"),
        "plan_worst_memory_ratio": find_worst(plan, "bytes"), "plan_worst_step_ratio": find_worst(plan, "seconds"),
        "parameters_millions": {row["size"]: row["millions"] for row in found.get("sizes", {}).get("rows", [])},
    }  # fmt: skip
    save("summary", content)
    if steps:
        plot(steps, HERE.parent / "docs" / "scale-steps.svg")


def find_worst(plan: dict[str, Any], key: str) -> float | None:
    """By what the predictions of `benchmarks/planned.py` are off at most, as a factor of 1 or more."""
    ratios = [row[key]["ratio"] for row in plan.get("configurations", [])]
    return max((max(ratio, 1 / ratio) for ratio in ratios), default=None)


def plot(steps: dict[str, Any], path: Path) -> None:
    import matplotlib as mpl
    from matplotlib.figure import Figure

    rows = steps["rows"]
    nodes = [row["nodes"] for row in rows]
    with mpl.rc_context({"svg.hashsalt": "gpm", "font.size": 9}):
        figure = Figure(figsize=(6, 3.4), layout="constrained")
        axis = figure.subplots()
        below = np.zeros(len(rows))
        for key, colour in (("sampling", "#c9a227"), ("gathering", "#7b8794"), ("computing", "#2f6f9f")):
            values = 1000 * np.array([row.get(key, 0.0) for row in rows])
            axis.fill_between(nodes, below, below + values, color=colour, label=key, linewidth=0)
            below += values
        axis.plot(nodes, below, color="#1d2833", marker="o", linewidth=1.5)
        axis.set_xscale("log")
        axis.set_ylim(0, 1.25 * below.max())
        axis.set_xlabel("nodes of the graph (mean degree 50.5)")
        axis.set_ylabel("milliseconds per training step")
        axis.legend(loc="upper left", ncols=3, frameon=False)
        axis.set_title(
            f"The cost of a step: {steps['growth']:.2f} times from {nodes[0]:,} to {nodes[-1]:,} nodes", fontsize=10
        )
        figure.savefig(path, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("products", "walks", "steps", "ranks", "sizes", "summary"))
    parser.add_argument("--work", type=Path, default=Path("scale-work"), help="where graphs and runs go")
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    if given.what == "ranks":
        measure_ranks(given.work, given.repeats)
    elif given.what in ("sizes", "summary"):
        {"sizes": measure_sizes, "summary": summarise}[given.what]()
    else:
        {"products": measure_products, "walks": measure_walks, "steps": measure_steps}[given.what](given.work)


if __name__ == "__main__":
    main()
