"""The fast model against the same model written plainly, in one run: time of a training step, of inference, and memory.

The plain model is the tests' reference, to which the fast one is held equal; its GRU runs over all patterns in one
padded call, which is kinder to it than one call per pattern. Steps are measured in turn, and medians compared.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode
from walks import peak_of, power_law_edges, processor

from gpm import Config, Graph
from gpm.compute import keep_memory
from gpm.io.environment import describe_environment
from gpm.nn.predictor import Predictor
from gpm.patterns.tokenizer import Patterns

BEGIN, END = "<!-- figures of make bench-model -->", "<!-- end of the model's figures -->"
CONFIG = Config(size="s", lengths=[2, 4, 6, 8], patterns=16, pool=128, dropout=0.0)
KINDS = ("sparse", "dense")
# Nodes that are inferred in one call. The plain model holds 1.2 GB of raw features for 32 nodes of 128 patterns; what the
# fast one does once for all nodes is divided over as many as a small test set has.
INFERRED = {"fast": 1024, "reference": 32}
GEMMS = ("aten::mm", "aten::addmm", "aten::addmm_", "aten::bmm", "aten::baddbmm")
NAMES = {
    "aten::copy_": "copies", "aten::index_select": "gathering rows of distinct nodes", "aten::sum": "sums (bias gradients)",
    "aten::embedding_dense_backward": "adding gradients up per distinct node",
    "aten::_embedding_bag_dense_backward": "gradient of the sparse input map",
    "aten::threshold_backward": "gradient of ReLU", "aten::native_layer_norm_backward": "gradient of layer norms",
    "aten::gru": "GRU", "aten::_embedding_bag": "sparse input map", "aten::add_": "additions", "aten::add": "additions",
    "aten::native_layer_norm": "layer norms", "aten::_fused_adamw_": "AdamW", "aten::fill_": "zero fills",
    "aten::mean": "means over positions", "aten::div": "divisions", "aten::mul": "multiplications",
    "aten::sort": "sorting", "aten::clamp_min_": "ReLU", "aten::index": "gathering features",
}  # fmt: skip


def make_graph(kind: str) -> Graph:
    """As many nodes, edges and features as BlogCatalog (sparse) or Computers (dense)."""
    rng = np.random.default_rng(1)
    nodes, edges = (5_196, 343_486) if kind == "sparse" else (13_752, 491_722)
    if kind == "sparse":
        x: Any = sp.random_array((nodes, 8_189), density=71 / 8_189, format="csr", rng=rng).astype(np.float32)
    else:
        x = (rng.random((nodes, 767)) < 0.35).astype(np.float32)
    return Graph.from_edges(power_law_edges(nodes, edges), nodes, x=x)


class Race:
    """The two models on one graph, with the same parameters."""

    def __init__(self, kind: str) -> None:
        sys.path.append(str(Path(__file__).parents[1]))
        from tests.reference_model import ReferenceModel

        torch.manual_seed(0)
        self.graph = make_graph(kind)
        self.fast = Predictor.build(CONFIG, self.graph, 10)
        self.models: dict[str, Callable[..., Any]] = {
            "fast": self.fast.model, "reference": ReferenceModel(self.fast.model, self.graph, batched=True)
        }  # fmt: skip
        self.optimizer = torch.optim.AdamW(self.fast.model.parameters(), lr=1e-4, fused=True)
        self.labels = torch.zeros(256, dtype=torch.int64)
        self.turn = 0

    def draw(self, count: int, patterns: int) -> Patterns:
        self.turn += 1
        nodes = np.random.default_rng(self.turn).integers(0, self.graph.num_nodes, count)
        return self.fast.tokenizer.nodes(nodes, count=patterns, turn=self.turn)

    def train(self, name: str, batch: int = 256) -> None:
        """One step: patterns, forward, backward, clipping, AdamW."""
        logits = self.models[name](self.draw(batch, CONFIG.patterns), self.fast.table).logits
        self.optimizer.zero_grad(set_to_none=True)
        torch.nn.functional.cross_entropy(logits, self.labels[:batch]).backward()
        torch.nn.utils.clip_grad_norm_(self.fast.model.parameters(), 1.0)
        self.optimizer.step()

    @torch.inference_mode()
    def infer(self, name: str) -> float:
        """Logits of nodes from all their patterns, as each does it; returns seconds per node."""
        nodes = np.random.default_rng(self.turn).permutation(self.graph.num_nodes)[: INFERRED[name]]
        began = time.perf_counter()
        if name == "fast":
            self.fast.logits(nodes)
        else:
            self.models[name](self.fast.tokenizer.nodes(nodes), self.fast.table)
        return (time.perf_counter() - began) / len(nodes)


def seconds(work: Callable[[], None]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def compare(time_of: Callable[[str], float], repeats: int, fast_per_plain: int) -> dict[str, Any]:
    """Run both in turn; the fast one more often where it costs less."""
    found: dict[str, list[float]] = {"fast": [], "reference": []}
    time_of("fast")
    for _ in range(repeats):
        found["reference"].append(time_of("reference"))
        found["fast"] += [time_of("fast") for _ in range(fast_per_plain)]
    medians = {name: statistics.median(times) for name, times in found.items()}
    return {"median_s": medians, "speedup": medians["reference"] / medians["fast"], "all_s": found}


def gemm_rate() -> float:
    """Multiplications and additions per second of one large product: the machine's own limit."""
    a, b = torch.randn(4096, 256), torch.randn(256, 512)
    times = [seconds(lambda: torch.mm(a, b)) for _ in range(200)]
    return 2 * a.shape[0] * a.shape[1] * b.shape[1] / statistics.median(times)


def explain_step(race: Race, step_s: float) -> dict[str, Any]:
    """How much of a step the products would take at the machine's own rate, and what else it is made of."""
    rates = [gemm_rate()]
    with FlopCounterMode(display=False) as counter:
        race.train("fast")
    with profile(activities=[ProfilerActivity.CPU]) as trace:
        for _ in range(3):
            race.train("fast")
    rates.append(gemm_rate())
    events = [(e.key, e.self_cpu_time_total) for e in trace.key_averages()]
    whole = sum(t for _, t in events)
    others: dict[str, float] = {}
    for key, spent in events:
        if key not in GEMMS:
            name = NAMES.get(key, key)
            others[name] = others.get(name, 0.0) + spent / whole
    largest = sorted(others.items(), key=lambda item: -item[1])[:3]
    flops, rate = counter.get_total_flops(), statistics.fmean(rates)
    return {
        "gemm_share": flops / rate / step_s,
        "gflop_per_step": flops / 1e9,
        "gemm_gflop_per_s": rate / 1e9,
        "time_in_gemm_calls": sum(t for key, t in events if key in GEMMS) / whole,
        "largest_other_costs": [{"what": what, "share": round(share, 3)} for what, share in largest],
    }


def peak_memory(kind: str, name: str) -> int:
    """Bytes by which resident memory rises in training steps, in this process, above model, data and libraries."""
    race = Race(kind)
    race.train(name, batch=4)  # loads kernels, makes the optimizer's state
    return peak_of(lambda: [race.train(name) for _ in range(2)])


def in_own_process(kind: str, name: str) -> int:
    command = [sys.executable, __file__, "--memory", kind, name]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[-1])


def measure(kind: str) -> dict[str, Any]:
    peaks = {name: statistics.median(in_own_process(kind, name) for _ in range(3)) for name in ("fast", "reference")}
    race = Race(kind)
    train = compare(lambda name: seconds(lambda: race.train(name)), 5, 3)
    print(f"{kind}: training step {train['speedup']:.1f}x", flush=True)
    step = explain_step(race, train["median_s"]["fast"])
    race.fast.model.eval()
    infer = compare(race.infer, 5, 1)
    print(f"{kind}: inference {infer['speedup']:.1f}x", flush=True)
    return {"train": train, "infer": infer, "step": step, "peak_bytes": peaks}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/model.json"))
    parser.add_argument("--memory", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.memory:
        print(peak_memory(*given.memory))
        return
    keep_memory()
    load = os.getloadavg()
    raw = {kind: measure(kind) for kind in KINDS}
    result = summarise(raw, load)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(result, indent=1) + "\n")
    update_page(result)
    print(f"written to {given.out}")


def summarise(raw: dict[str, Any], load: tuple[float, float, float]) -> dict[str, Any]:
    memory = {kind: raw[kind]["peak_bytes"]["fast"] / raw[kind]["peak_bytes"]["reference"] for kind in KINDS}
    summary: dict[str, Any] = {"date": date.today().isoformat()}
    for kind in KINDS:
        summary[f"train_speedup_{kind}"] = round(raw[kind]["train"]["speedup"], 2)
        summary[f"infer_speedup_{kind}"] = round(raw[kind]["infer"]["speedup"], 2)
        summary[f"peak_memory_ratio_{kind}"] = round(memory[kind], 3)
    summary["peak_memory_ratio"] = round(max(memory.values()), 3)
    summary["gemm_share"] = {kind: round(raw[kind]["step"]["gemm_share"], 3) for kind in KINDS}
    summary["largest_other_costs"] = {kind: raw[kind]["step"]["largest_other_costs"] for kind in KINDS}
    environment = describe_environment()
    machine = {"processor": processor(), "cores": os.cpu_count(), "load_before": load}
    about = "width 256, 1 layer, 4 heads, batch 256, 16 of 128 patterns, lengths 2, 4, 6, 8, float32, dropout off"
    return summary | {"protocol": about, "machine": machine, "environment": environment, "raw": raw}


def describe(result: dict[str, Any]) -> str:
    """The figures in words, as the docs show them."""
    raw, machine = result["raw"], result["machine"]
    rows = []
    for kind, title in (
        ("sparse", "BlogCatalog-shaped (8,189 sparse features)"),
        ("dense", "Computers-shaped (767 dense)"),
    ):
        times = raw[kind]["train"]["median_s"]
        rows.append(
            f"| {title} | {times['fast']:.2f} s, {result[f'train_speedup_{kind}']:.1f}x | {result[f'infer_speedup_{kind}']:.1f}x"
            f" | {result[f'peak_memory_ratio_{kind}']:.2f}x | {result['gemm_share'][kind]:.0%} |"
        )
    return "\n".join(
        [
            f"At width 256, batch 256, 16 patterns of lengths 2 to 8, on {machine['cores']} shared cores ({machine['processor']}), "
            f"{result['date']}, against the same",
            "model written plainly and measured in turn (`make bench-model`, `benchmarks/results/model.json`).",
            "The plain model makes the features of every position dense. Inference is measured as time per node: over 1,024 nodes for the fast",
            "model, which does some work once for all nodes, and over 32 for the plain one, as many as fit into memory.",
            "",
            "| data | training step | inference, 128 patterns | peak memory | share of the step that matrix products need |",
            "|---|---|---|---|---|",
            *rows,
        ]
    )


def update_page(result: dict[str, Any], path: Path = Path("docs/results.md")) -> None:
    """Put the figures between the page's markers."""
    before, rest = path.read_text(encoding="utf-8").split(BEGIN)
    path.write_text(before + BEGIN + "\n" + describe(result) + "\n" + END + rest.split(END)[1], encoding="utf-8")


if __name__ == "__main__":
    main()
