"""Seconds of inference against the number and the length of the patterns, beside the paper's complexity."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from gpm.compute import using_threads
from gpm.config import Config
from gpm.data.synthetic import random_graph
from gpm.nn.predictor import Predictor
from gpm.reproduce.figures import draw_lines, new_axes

NUMBERS, LENGTH = (32, 64, 128, 256, 512, 1024, 2048), 8
LENGTHS, NUMBER = (2, 4, 8, 16, 32, 60), 128
NODES, REPEATS = 32, 5


def measure_complexity(nodes: int = NODES, repeats: int = REPEATS) -> dict[str, Any]:
    """Measure milliseconds per node at width 64, one thread, in turn; medians."""
    graph = random_graph(20_000, 200_000, 64)
    settings = [(number, LENGTH) for number in NUMBERS] + [(NUMBER, length) for length in LENGTHS]
    predictors = {}
    for number, length in dict.fromkeys(settings):
        config = Config(lengths=[length], patterns=number, pool=number)
        predictors[number, length] = Predictor.build(config, graph, 10)
    times: dict[tuple[int, int], list[float]] = {setting: [] for setting in predictors}
    chosen = np.arange(nodes)
    with using_threads(1):
        for turn in range(repeats + 1):
            for setting, predictor in predictors.items():
                began = time.perf_counter()
                predictor.logits(chosen)
                if turn:  # the first warms up
                    times[setting].append(1000 * (time.perf_counter() - began) / nodes)
    medians = {setting: statistics.median(found) for setting, found in times.items()}
    return {
        "nodes": nodes, "repeats": repeats, "unit": "milliseconds per node",
        "numbers": [[number, medians[number, LENGTH]] for number in NUMBERS], "length": LENGTH,
        "lengths": [[length, medians[NUMBER, length]] for length in LENGTHS], "number": NUMBER,
    }  # fmt: skip


def exponents(points: Sequence[Sequence[float]]) -> list[float]:
    """Return by which power of the first value the second grows, from each point to the next."""
    return [math.log(after[1] / before[1]) / math.log(after[0] / before[0]) for before, after in pairwise(points)]


def describe(found: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the lines of the page."""
    lines = [
        "The paper counts, for k patterns of length l, O(k l) to sample them, O(k l²) to encode them with a",
        "transformer and O(k²) for the transformer over them. Up to some hundred patterns the last term is small, and",
        "time is proportional to their number.",
        "",
    ]
    for record in found.values():
        for key, what, fixed in (
            ("numbers", "patterns of length", record["length"]),
            ("lengths", "length of the patterns, of which there are", record["number"]),
        ):
            points = record[key]
            powers = ["", *(f"{power:.2f}" for power in exponents(points))]
            lines += [
                f"| {what} {fixed} | {' | '.join(str(x) for x, _ in points)} |",
                f"|---|{'---|' * len(points)}",
                f"| milliseconds per node | {' | '.join(f'{y:.2f}' for _, y in points)} |",
                f"| grows by the power | {' | '.join(powers)} |",
                "",
            ]
        lines += [
            "Inference at width 64, one thread, a random graph of 20,000 nodes of mean degree 20;",
            f"{record['nodes']} nodes at a time, medians of {record['repeats']} rounds in turn.",
        ]
    return lines


def draw(found: Mapping[str, Mapping[str, Any]], path: Path) -> bool:
    """Draw time against number and length."""
    if not found:
        return False
    record = next(iter(found.values()))
    with new_axes(path, 1, 2) as axes:
        for axis, key, name in zip(axes, ("numbers", "lengths"), ("patterns", "length of a pattern"), strict=True):
            draw_lines(axis, {"measured": [(x, [y]) for x, y in record[key]]}, legend=False)
            axis.set(xscale="log", yscale="log", xlabel=name, ylabel="milliseconds per node")
            axis.set_xticks([x for x, _ in record[key]], [str(x) for x, _ in record[key]])
            axis.minorticks_off()
    return True
