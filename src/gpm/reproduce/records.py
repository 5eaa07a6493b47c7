"""Records: a finished run as one JSON file, which names the command that makes it again."""

from __future__ import annotations

import csv
import functools
import hashlib
import json
import re
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpm.config import PatternOptions, declared
from gpm.io.atomic import read_json, write_json
from gpm.io.environment import describe_environment, find_commit
from gpm.reproduce.fresh import score_fresh
from gpm.reproduce.paper_tables import Column, Ours, Table, estimate_minutes
from gpm.run.run import Run
from gpm.training.baseline_options import GRAPHS, LINKS, NODES
from gpm.training.command import spell_flags
from gpm.training.recipes import Recipe, find_recipe

FOLDER = "results/reproduce"
LONG_NAME = 72  # characters of the options in the name of a file
# Options of a recipe that networks do not take from it: they have their own, or no patterns that they could read.
UNREAD = frozenset({
    *NODES, *LINKS, *GRAPHS, *declared(PatternOptions), "batch", "val_patterns", "path", "path_position", "path_heads",
    "path_layers", "path_ffn", "anonymous", "anonymous_weight", "learn_weight", "vocabulary", "layer", "ffn", "readout",
    "fusion", "head",
})  # fmt: skip

Record = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Job:
    """A run: a recipe, options beside its own, and a seed. Tables that ask for the same run share its record."""

    recipe: str
    options: dict[str, Any] = field(default_factory=dict)
    seed: int = 0
    minutes: float = 0.0  # about what it takes on one core
    ablation: bool = False  # no table of comparisons asks for it
    extras: frozenset[str] = frozenset()  # what to measure beyond the result of the run, see `Table.extras`

    @classmethod
    def of(cls, table: Table, column: Column, row: Ours, seed: int = 0) -> Job:
        """Make the job of a cell, without options that the recipe has anyway.

        Another model and a preset have options of their own, not those of the recipe; what a recipe leaves open may be
        any value: such options are kept.
        """
        is_network = row.model != "gpm"
        options = (table.networks | column.networks if is_network else table.base | column.options) | row.options
        if not is_network and "preset" not in options:
            recipe = _recipe_of(column.recipe)
            left_open = set(options) - set(recipe.stated) if recipe.auto else set()
            changed = left_open.union(recipe.config.changes(options))
            options = {key: value for key, value in options.items() if key in changed}
        minutes = estimate_minutes(column.recipe, row.cost)
        return cls(column.recipe, options, seed, minutes, table.ablation, table.extras)

    @property
    def variant(self) -> str:
        """The options as a file name, shortened if it is long; that of the plain recipe is "recipe"."""
        parts = [f"{key}={json.dumps(value, separators=(',', ':'))}" for key, value in sorted(self.options.items())]
        name = re.sub(r"[^\w=.,\[\]-]", "", ",".join(parts)) or "recipe"
        if len(name) <= LONG_NAME:
            return name
        return f"{name[:LONG_NAME]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"

    @property
    def digest(self) -> str:
        """Hash of what the run takes from the recipe as it is today; a network does not read all of it."""
        recipe = _recipe_of(self.recipe)
        if self.options.get("model", "gpm") == "gpm":
            return recipe.digest
        read = {name: value for name, value in recipe.states().items() if name not in UNREAD}
        return hashlib.sha256(json.dumps(read, sort_keys=True).encode()).hexdigest()[:12]

    @property
    def key(self) -> tuple[str, str, int]:
        return self.recipe, self.variant, self.seed

    @property
    def file(self) -> str:
        """The file of its record, relative to the folder of all records."""
        return f"{self.recipe}/{self.variant}-seed-{self.seed}.json"

    @property
    def command(self) -> str:
        """The command that makes the run again."""
        return " ".join(filter(None, ["gpm train", self.recipe, spell_flags(self.options), f"--seed {self.seed}"]))


@functools.cache
def _recipe_of(name: str) -> Recipe:
    recipe = find_recipe(name)
    assert recipe is not None
    return recipe


class Records:
    """The records below a folder."""

    def __init__(self, out: Path) -> None:
        self.folder = out / FOLDER

    def find(self, job: Job) -> Record | None:
        """Return the record of a job, if it was run by today's recipe and has what the job measures."""
        path = self.folder / job.file
        record: Record | None = read_json(path) if path.is_file() else None
        if record is None or record.get("recipe_digest") != job.digest:
            return None
        return record if job.extras <= set(record) else None

    def add(self, job: Job, run: Run) -> Record:
        """Write the record of a finished run."""
        record = describe_run(job, run)
        path = self.folder / job.file
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, record)
        return record


def describe_origin() -> dict[str, Any]:
    """Return what every record says of where it was made."""
    return {"commit": find_commit(), "date": time.strftime("%Y-%m-%d"), "environment": describe_environment()}


def describe_run(job: Job, run: Run) -> Record:
    """Return what is kept of a finished run."""
    result, extras = run.result, dict[str, Any]()
    if "train" in job.extras:
        extras["train"] = run.evaluate("train")
    if "fresh" in job.extras:
        extras["fresh"] = score_fresh(run)
    if "other" in job.extras:
        extras["other"] = result["other"]["test"]
    if (share := _homophily(run)) is not None:
        extras["homophily"] = share
    return {
        "recipe": job.recipe, "recipe_digest": job.digest, "options": job.options,
        "seed": job.seed, "command": job.command,
        "dataset": result["data"], "task": result["task"], "model": result["model"], "metric": result["metric"],
        "val": result["val"], "test": result["test"], "baselines": result["baselines"],
        "protocol": result["protocol"], "split_digest": result["split_digest"], "epochs": result["epochs"],
        "best_epoch": result["best_epoch"], "parameters": run.facts["parameters"],
        "train_seconds": result["train_seconds"], "history": _read_history(run), "config": run.config.to_dict(),
    } | describe_origin() | extras  # fmt: skip


def _read_history(run: Run) -> dict[str, list[float]]:
    """Return the curves of the training: its loss, and the validation metric."""
    with (run.folder / "metrics.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    columns = {"epoch": "epoch", "train_loss": "train_loss", "val": f"val_{run.result['metric']}"}
    return {name: [float(row[key]) for row in rows if row.get(key)] for name, key in columns.items()}


def _homophily(run: Run) -> float | None:
    """Return the share of edges, of those whose ends both have a class, that join nodes of one class."""
    data = run.data
    if data.level != "node" or data.has_domains or data.labels.ndim > 1 or data.labels.dtype.kind != "i":
        return None
    source, target = data.labels[data.graph.edge_index()]
    known = (source >= 0) & (target >= 0)
    return round(float((source == target)[known].mean()), 4) if known.any() else None
