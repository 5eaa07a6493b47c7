"""Measure what every training costs on this computer, by two small trainings, and cache measured costs.

A cached measurement is used for some hours, with the same number of threads and the same settings of OpenMP, and only
as long as the computer is about as fast as it was: a busy computer is measured again.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch

from gpm.config import Config
from gpm.errors import GpmError
from gpm.io.atomic import read_json, write_json
from gpm.io.cache import data_root
from gpm.io.environment import peak_bytes
from gpm.io.json_schema import check_json
from gpm.training.estimate.measure import Bench, Costs, measure
from gpm.training.estimate.subject import Stated, Subject

KEPT = "plan.json"  # cache file in the data root
OLDEST = 6 * 3600.0  # seconds for which a measurement is used
CHANGED = 2.0  # factor by which the speed may have changed since
_SPIN = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME", "OMP_PROC_BIND")  # how threads wait for each other
_log = logging.getLogger("gpm")
STATE = 16  # bytes of each parameter: weight, gradient and the two averages of AdamW
MOST_OVERHEAD = 0.005  # seconds; what looks like more is a busy computer
GRAPH = Stated(20_000, 100_000, 64, 4)
TRAININGS: list[dict[str, Any]] = [  # of a narrow model: much memory for little work
    {"pool": 16, "split": "96/2/2", "epochs": 1, "batch": batch, "epoch_steps": steps}
    for batch, steps in ((16, 9), (2048, 3))
]


@dataclass(frozen=True)
class Constants:
    """Costs of any training on this computer."""

    process: float  # bytes of a training process without data and model: Python, torch, Lightning
    factor: float  # bytes that the process grows by for each byte of tensors, since freed memory is kept in pieces
    overhead: float  # seconds of a step that are neither the model's nor the data's


Kept = TypeVar("Kept", Constants, Costs)


def find_constants(threads: int, again: bool = False) -> Constants:
    """Return the constants of this computer, measured if they are not cached."""
    return _cached("constants", threads, again, Constants, lambda: measure_constants(threads))


def find_costs(subject: Subject, instances: int, threads: int, again: bool = False) -> Costs:
    return _cached(_digest(subject, instances), threads, again, Costs, lambda: measure(subject, instances))


def _cached(name: str, threads: int, again: bool, shape: type[Kept], make: Callable[[], Kept]) -> Kept:
    """Return cached values of this computer, or measure and cache them; a damaged cache is replaced."""
    from gpm import __version__

    spin = "".join(f" {name}={os.environ[name]}" for name in _SPIN if name in os.environ)
    computer = f"{platform.node()} {os.cpu_count()} cores {threads} threads{spin}"
    key, path = f"gpm {__version__} torch {torch.__version__} {computer} {name}", data_root() / KEPT
    cache: dict[str, Any] = {}
    with suppress(GpmError):
        cache = read_json(path)
        if not again:
            entry = check_json(cache.get(key), _Entry, path, "measure again")
            values = check_json(entry.values, shape, path, "measure again")
            if not (reason := _find_change(entry, "a process" if name == "constants" else "a step")):
                return values
            _log.info("measuring this computer again: %s", reason)
    measured = make()
    write_json(path, cache | {key: asdict(_Entry(time.time(), time_block(), asdict(measured)))})
    return measured


@dataclass(frozen=True)
class _Entry:
    """A cached measurement."""

    at: float  # seconds since 1970
    block: float  # seconds of `time_block` then
    values: dict[str, Any]


def _find_change(entry: _Entry, what: str) -> str:
    """Return why a measurement is not to be used any more; log how old it is if it is used."""
    age = time.time() - entry.at
    if not 0 <= age <= OLDEST:
        return f"the last measurement is {age / 3600:.0f} hours old"
    factor = time_block() / max(entry.block, 1e-9)
    if not 1 / CHANGED <= factor <= CHANGED:
        speed = f"{factor:.1f} times slower" if factor > 1 else f"{1 / factor:.1f} times faster"
        return f"it is {speed} than {age / 60:.0f} minutes ago"
    _log.info("costs of %s were measured %.0f minutes ago; the computer is about as fast now", what, age / 60)
    return ""


def time_block() -> float:
    """Return the median seconds of a fixed piece of work, repeated for up to half a second with the usual threads."""
    inputs, weights = torch.ones(512, 128), torch.ones(128, 128) / 128
    times: list[float] = []
    ends = time.perf_counter() + 0.5
    while len(times) < 5 or (len(times) < 200 and time.perf_counter() < ends):
        began = time.perf_counter()
        for _ in range(20):
            torch.tanh(inputs @ weights)
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def measure_constants(threads: int) -> Constants:
    """Train twice in separate processes, and compare their memory with what their tensors take."""
    trained = [_train(number, threads) for number in range(len(TRAININGS))]
    benches = [Bench(Subject.of(Config(**options), GRAPH.sample())) for options in TRAININGS]
    low, high = (bench.step_bytes(bench.config.batch) for bench in benches)
    peaks = [peak for peak, _ in trained]
    factor = min(3.0, max(1.0, (peaks[1] - peaks[0]) / (high - low)))
    weights = STATE * benches[0].model.count_parameters()
    process = max(1e8, peaks[1] - factor * high - weights - GRAPH.file_bytes)
    seconds = statistics.median(sum(benches[0].step(TRAININGS[0]["batch"]).values()) for _ in range(9))
    return Constants(process, factor, min(MOST_OVERHEAD, max(0.0, trained[0][1] - seconds)))


def _train(number: int, threads: int) -> tuple[int, float]:
    """Train in a new process; return its peak bytes and its seconds of a step."""
    words = [sys.executable, "-m", "gpm.training.estimate.machine_costs", str(number), str(threads)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    try:
        peak, seconds = json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        reason = done.stderr.strip().splitlines()[-1:] or ["no message"]
        raise GpmError(f"A small training that measures this computer failed: {reason[0]}") from None
    return int(peak), float(seconds)


def _train_here(number: int, threads: int) -> None:
    """Train in this process and print its peak bytes and its seconds of a step."""
    from gpm.training.start import train

    with tempfile.TemporaryDirectory(prefix="gpm-plan-") as folder:
        options = TRAININGS[number] | {"out": Path(folder) / "run", "threads": threads, "quiet": True}
        run: Any = train(GRAPH.sample().graph, **options)
        print(json.dumps([peak_bytes(), run.result["seconds_per_step"]]))


def _digest(subject: Subject, instances: int) -> str:
    """Return a digest of the options and the data that costs depend on."""
    idle = ("epochs", "patience", "lr", "schedule", "warmup", "decay", "seed", "select", "accumulate", "batch")
    options = {key: value for key, value in subject.config.to_dict().items() if key not in idle}
    sizes = [subject.count("train"), *subject.count_held_out()]
    facts = [options, subject.data.graph.summary(), sizes, subject.task.outputs, instances]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]


if __name__ == "__main__":
    _train_here(int(sys.argv[1]), int(sys.argv[2]))
