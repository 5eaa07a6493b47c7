"""Time of a training step on a quiet machine and beside a busy process, with two threads and with one.

    python benchmarks/steps.py                              writes benchmarks/results/steps.json
    python benchmarks/steps.py --before ../older-checkout   beside an older version, in the same run

A step is measured in a bare loop around the model (patterns, forward, backward, clipping, AdamW), an epoch by `gpm train`.
Every version and width has a process of its own, which takes turns with the others; medians are compared. The busy
process computes without pause. Run it while nothing else uses the machine: the load before is part of the result.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from itertools import pairwise
from pathlib import Path
from typing import IO, Any, cast

ROOT = Path(__file__).parents[1]
KINDS, WIDTHS = ("sparse", "dense"), (64, 256)
ROUNDS, STEPS = 5, 6  # turns of every process, and steps in each
EPOCHS = 4  # of a training by `gpm train`, of which the first warms up
BUSY = "while True: pass"
BEGIN, END = "<!-- figures of steps -->", "<!-- end of steps -->"


def make_steps(kind: str, width: int, threads: int) -> Iterator[float]:
    """Yield the seconds of one training step after the other, in a bare loop."""
    import numpy as np
    import torch
    from model import make_graph

    from gpm import Config
    from gpm.compute import keep_memory, set_threads
    from gpm.nn.predictor import Predictor

    keep_memory()
    set_threads(threads)
    torch.manual_seed(0)
    config = Config(width=width, lengths=[2, 4, 6, 8], patterns=16, pool=128, dropout=0.0)
    predictor = Predictor.build(config, make_graph(kind), 10)
    model, labels = predictor.model, torch.zeros(256, dtype=torch.int64)
    optimizer, random = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True), np.random.default_rng(0)
    for turn in range(10**6):
        began = time.perf_counter()
        nodes = random.integers(0, predictor.tokenizer.graph.num_nodes, 256)
        patterns = predictor.tokenizer.nodes(nodes, count=config.patterns, turn=turn)
        optimizer.zero_grad(set_to_none=True)
        torch.nn.functional.cross_entropy(model(patterns, predictor.table).logits, labels).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        yield time.perf_counter() - began


def serve(kind: str, width: int, threads: int) -> None:
    """Take some steps for every line of input, and print the seconds of each."""
    steps = make_steps(kind, width, threads)
    for _ in range(3):
        next(steps)  # loads kernels, makes the state of the optimizer
    print("ready", flush=True)
    for _ in sys.stdin:
        print(json.dumps([next(steps) for _ in range(STEPS)]), flush=True)


class Stepper:
    """A process that takes steps when it is asked to, with the package of a checkout."""

    def __init__(self, checkout: Path, kind: str, width: int, threads: int) -> None:
        command = [sys.executable, __file__, "--serve", kind, str(width), str(threads)]
        environment = os.environ | {"PYTHONPATH": str(checkout / "src")}
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, text=True)
        assert self._read() == "ready"

    def _read(self) -> str:
        return cast(IO[str], self.process.stdout).readline().strip()

    def step(self) -> list[float]:
        stdin = cast(IO[str], self.process.stdin)
        stdin.write("\n")
        stdin.flush()
        return cast(list[float], json.loads(self._read()))

    def end(self) -> None:
        cast(IO[str], self.process.stdin).close()
        self.process.wait()


@contextmanager
def busy() -> Iterator[None]:
    """Keep one core busy while the block runs."""
    process = subprocess.Popen([sys.executable, "-c", BUSY])
    time.sleep(0.3)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def measure_steps(checkouts: dict[str, Path], kind: str, width: int, threads: int) -> dict[str, Any]:
    """Measure the steps of every version, quiet and busy in turn."""
    steppers = {name: Stepper(path, kind, width, threads) for name, path in checkouts.items()}
    found: dict[str, dict[str, list[float]]] = {name: {"quiet": [], "busy": []} for name in steppers}
    for _ in range(ROUNDS):
        for name, stepper in steppers.items():
            found[name]["quiet"] += stepper.step()
        with busy():
            for name, stepper in steppers.items():
                found[name]["busy"] += stepper.step()
    for stepper in steppers.values():
        stepper.end()
    return {name: describe_times(times) for name, times in found.items()}


def describe_times(times: dict[str, list[float]]) -> dict[str, float]:
    quiet, loaded = (statistics.median(times[name]) for name in ("quiet", "busy"))
    return {"quiet_ms": round(1000 * quiet, 1), "busy_ms": round(1000 * loaded, 1), "ratio": round(loaded / quiet, 2)}


def measure_epochs(kind: str, width: int) -> dict[str, float]:
    """Measure an epoch of `gpm train` with two threads, quiet and busy in turn."""
    from dataclasses import replace

    import numpy as np
    from model import make_graph

    found: dict[str, list[float]] = {"quiet": [], "busy": []}
    with tempfile.TemporaryDirectory() as scratch:
        graph = make_graph(kind)
        replace(graph, y=np.arange(graph.num_nodes) % 10).save(Path(scratch) / "graph")
        for turn in range(3):
            found["quiet"] += _train(Path(scratch), kind, width, f"quiet-{turn}")
            with busy():
                found["busy"] += _train(Path(scratch), kind, width, f"busy-{turn}")
    return describe_times(found)


def _train(scratch: Path, kind: str, width: int, name: str) -> list[float]:
    """Return the seconds of the epochs of a training but the first."""
    options = {"preset": "plain", "split": "20/1/79", "width": width, "epochs": EPOCHS, "threads": 2, "dropout": 0.0}
    flags = [f"--{key}={value}" for key, value in options.items()]
    command = [sys.executable, "-m", "gpm", "train", str(scratch / "graph"), "--out", str(scratch / name), "--quiet"]
    subprocess.run([*command, *flags], check=True, capture_output=True)
    with (scratch / name / "metrics.csv").open(encoding="utf-8") as file:
        ends = [float(row["seconds"]) for row in csv.DictReader(file)]
    return [after - before for before, after in pairwise(ends)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "steps.json")
    parser.add_argument("--before", type=Path, help="an older checkout to measure beside this one")
    parser.add_argument("--only", nargs="+", choices=["steps", "epochs"], default=["steps", "epochs"])
    parser.add_argument("--serve", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(given.serve[0], int(given.serve[1]), int(given.serve[2]))
        return
    from walks import processor

    from gpm.io.environment import describe_environment

    checkouts = {"now": ROOT} | ({"before": given.before.resolve()} if given.before else {})
    result: dict[str, Any] = {
        "date": date.today().isoformat(), "protocol": "batch 256, 16 patterns of lengths 2, 4, 6, 8; busy: beside one process that computes",
        "machine": {"processor": processor(), "cores": os.cpu_count(), "load_before": os.getloadavg()},
        "commits": {name: find_commit(path) for name, path in checkouts.items()}, "environment": describe_environment(),
    }  # fmt: skip
    result |= {"steps": [], "epochs": []}
    for kind, width, threads in [
        (k, w, t) for t, widths in ((2, WIDTHS), (1, WIDTHS[:1])) for w in widths for k in KINDS
    ]:
        about = {"features": kind, "width": width, "threads": threads}
        if "steps" in given.only:
            result["steps"].append(about | measure_steps(checkouts, kind, width, threads))
            print(result["steps"][-1], flush=True)
        if "epochs" in given.only and threads == 2:
            result["epochs"].append(about | {"now": measure_epochs(kind, width)})
            print("epoch", result["epochs"][-1], flush=True)
    given.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    if set(given.only) == {"steps", "epochs"}:
        update_page(result)
    print(f"written to {given.out}")


def update_page(result: dict[str, Any], path: Path = ROOT / "docs" / "results.md") -> None:
    """Put the figures between the markers of the page."""
    before, rest = path.read_text(encoding="utf-8").split(BEGIN)
    path.write_text(f"{before}{BEGIN}\n{describe(result)}\n{END}{rest.split(END)[1]}", encoding="utf-8")


def describe(result: dict[str, Any]) -> str:
    """Return the figures in words, as the docs show them."""
    commits = result["commits"]
    lines = [
        f"A training step beside one busy process, on {result['machine']['cores']} shared cores ({result['machine']['processor']}), {result['date']}: "
        f"{result['protocol']}; medians, measured in turn",
        f"(`python benchmarks/steps.py --before CHECKOUT`, `benchmarks/results/steps.json`; commit {commits['now']}"
        + (f", before: {commits['before']}" if "before" in commits else "") + ").",
        "",
        "| features, width, threads | quiet | busy | before: quiet | before: busy | epoch of `gpm train`, busy / quiet |",
        "|---|---|---|---|---|---|",
    ]  # fmt: skip
    epochs = {(row["features"], row["width"], row["threads"]): row["now"]["ratio"] for row in result["epochs"]}
    for row in result["steps"]:
        key = row["features"], row["width"], row["threads"]
        now, before = row["now"], row.get("before")
        earlier = f"{before['quiet_ms']:.0f} ms | {before['ratio']:.2f}x" if before else " | "
        epoch = f"{epochs[key]:.2f}x" if key in epochs else ""
        lines.append(
            f"| {key[0]}, {key[1]}, {key[2]} | {now['quiet_ms']:.0f} ms | {now['ratio']:.2f}x | {earlier} | {epoch} |"
        )
    return "\n".join(lines)


def find_commit(checkout: Path) -> str:
    """Return the last commit that changed `src`, marked if there are changes since."""

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=checkout, capture_output=True, text=True, check=True).stdout.strip()

    return git("log", "-1", "--format=%h", "--", "src") + "+" * bool(git("status", "--porcelain", "--", "src"))


if __name__ == "__main__":
    main()
