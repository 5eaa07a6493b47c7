"""What a training costs on this machine whatever it is of, found by two small trainings and kept in the data root."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from gpm.config import Config
from gpm.data.catalog import data_root
from gpm.errors import GpmError
from gpm.io.atomic import read_json, write_json
from gpm.training.estimate.live_bytes import peak_bytes
from gpm.training.estimate.measure import Bench, Costs, measure
from gpm.training.estimate.subject import Stated, Subject

KEPT = "plan.json"  # in the data root
STATE = 16  # bytes that weight, gradient and the two averages of AdamW take of each parameter
MOST_OVERHEAD = 0.005  # seconds; what looks like more is a busy machine
GRAPH = Stated(20_000, 100_000, 64, 4)
_PLAIN: dict[str, Any] = {"pool": 16, "split": "96/2/2", "epochs": 1}
# Of a narrow model: much memory for little work.
TRAININGS: tuple[dict[str, Any], ...] = (
    _PLAIN | {"batch": 16, "epoch_steps": 9},
    _PLAIN | {"batch": 2048, "epoch_steps": 3},
)


@dataclass(frozen=True)
class Constants:
    """What was found.

    Attributes:
        process: Bytes of a training process without data and model: Python, torch, Lightning.
        factor: Bytes that the process grows by for each byte of tensors: what is freed is kept in pieces.
        overhead: Seconds of a step that are neither the model's nor the data's.
    """

    process: float
    factor: float
    overhead: float


def find_constants(threads: int, again: bool = False) -> Constants:
    """The constants of this machine, measured if they are not known."""
    found = None if again else _recall(f"{_machine(threads)} constants")
    try:
        return Constants(**found or {})
    except TypeError:
        constants = measure_constants(threads)
        _keep(f"{_machine(threads)} constants", asdict(constants))
        return constants


def find_costs(subject: Subject, instances: int, threads: int, again: bool = False) -> Costs:
    """The costs of a configuration, measured if they are not known."""
    key = f"{_machine(threads)} {_digest(subject, instances)}"
    found = None if again else _recall(key)
    try:
        return Costs.from_dict(found or {})
    except (KeyError, TypeError):
        costs = measure(subject, instances)
        _keep(key, asdict(costs))
        return costs


def measure_constants(threads: int) -> Constants:
    """Train twice in processes of their own, and compare with what their tensors take."""
    found = [_train(number, threads) for number in range(len(TRAININGS))]
    benches = [Bench(Subject.of(Config(**options), GRAPH.sample())) for options in TRAININGS]
    low, high = (bench.step_bytes(bench.config.batch) for bench in benches)
    peaks = [peak for peak, _ in found]
    factor = min(3.0, max(1.0, (peaks[1] - peaks[0]) / (high - low)))
    weights = STATE * benches[0].model.count_parameters()
    process = max(1e8, peaks[1] - factor * high - weights - GRAPH.file_bytes)
    seconds = statistics.median(sum(benches[0].step(TRAININGS[0]["batch"]).values()) for _ in range(9))
    return Constants(process, factor, min(MOST_OVERHEAD, max(0.0, found[0][1] - seconds)))


def _train(number: int, threads: int) -> tuple[int, float]:
    """Peak bytes of a process that trains, and its seconds of a step."""
    words = [sys.executable, "-m", "gpm.training.estimate.machine_costs", str(number), str(threads)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    try:
        peak, seconds = json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        said = done.stderr.strip().splitlines()[-1:] or ["no word"]
        raise GpmError(f"a small training, made in order to measure, ended with: {said[0]}") from None
    return int(peak), float(seconds)


def _train_here(number: int, threads: int) -> None:
    """What such a process does."""
    from gpm.training.start import train

    with tempfile.TemporaryDirectory(prefix="gpm-plan-") as folder:
        run: Any = train(
            GRAPH.sample().graph, out=Path(folder) / "run", threads=threads, quiet=True, **TRAININGS[number]
        )
        print(json.dumps([peak_bytes(), run.result["seconds_per_step"]]))


def _machine(threads: int) -> str:
    """What figures depend on beside the configuration."""
    from gpm import __version__

    return f"gpm {__version__} torch {torch.__version__} {platform.node()} {os.cpu_count()} cores {threads} threads"


def _digest(subject: Subject, instances: int) -> str:
    """A configuration and its data in short; how long it is trained changes nothing."""
    idle = ("epochs", "patience", "lr", "schedule", "warmup", "decay", "seed", "select", "accumulate", "batch")
    options = {key: value for key, value in subject.config.to_dict().items() if key not in idle}
    sizes = [subject.count("train"), *subject.count_held_out()]
    facts = [options, subject.data.graph.summary(), sizes, subject.task.outputs, instances]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]


def _recall(key: str) -> dict[str, Any] | None:
    """What was kept under a key; a file that is damaged is made anew."""
    try:
        found = read_json(data_root() / KEPT).get(key)
    except GpmError:
        return None
    return found if isinstance(found, dict) else None


def _keep(key: str, values: dict[str, Any]) -> None:
    try:
        before = read_json(data_root() / KEPT)
    except GpmError:
        before = {}
    write_json(data_root() / KEPT, before | {key: values})


if __name__ == "__main__":
    _train_here(int(sys.argv[1]), int(sys.argv[2]))
