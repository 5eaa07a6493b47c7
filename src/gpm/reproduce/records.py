"""Records: a finished run as one JSON file, which names the command that makes it again."""

from __future__ import annotations

import functools
import json
import re
import shlex
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpm.config import Config
from gpm.io.atomic import read_json, write_json
from gpm.io.environment import describe_environment, find_commit
from gpm.reproduce.paper_tables import Column, Ours, estimate_minutes
from gpm.run.run import Run
from gpm.training.recipes import find_recipe

FOLDER = "results/reproduce"

Record = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Job:
    """A run: a recipe, options beside its own, and a seed. Tables that ask for the same run share its record."""

    recipe: str
    options: dict[str, Any] = field(default_factory=dict)
    seed: int = 0
    minutes: float = 0.0  # about what it takes on one core

    @classmethod
    def of(cls, column: Column, row: Ours, seed: int = 0) -> Job:
        """Make the job of a cell, without options that the recipe has anyway."""
        changed = set(_config_of(column.recipe).changes(row.options))
        options = {key: value for key, value in row.options.items() if key in changed}
        return cls(column.recipe, options, seed, estimate_minutes(column.recipe, row.cost))

    @property
    def variant(self) -> str:
        """The options as a file name; that of the plain recipe is "recipe"."""
        parts = [f"{key}={json.dumps(value, separators=(',', ':'))}" for key, value in sorted(self.options.items())]
        return re.sub(r"[^\w=.,\[\]-]", "", ",".join(parts)) or "recipe"

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
        flags = [f"--{key} {shlex.quote(_spell(value))}" for key, value in sorted(self.options.items())]
        return " ".join(["gpm train", self.recipe, *flags, f"--seed {self.seed}"])


@functools.cache
def _config_of(name: str) -> Config:
    recipe = find_recipe(name)
    assert recipe is not None
    return recipe.config


def _spell(value: Any) -> str:
    return json.dumps(value) if isinstance(value, (list, bool)) else str(value)


class Records:
    """The records below a folder."""

    def __init__(self, out: Path) -> None:
        self.folder = out / FOLDER

    def find(self, job: Job) -> Record | None:
        """Return the record of a job, if it was run."""
        path = self.folder / job.file
        return read_json(path) if path.is_file() else None

    def add(self, job: Job, run: Run) -> Record:
        """Write the record of a finished run."""
        record = describe_run(job, run)
        path = self.folder / job.file
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, record)
        return record


def describe_run(job: Job, run: Run) -> Record:
    """Return what is kept of a finished run."""
    result = run.result
    return {
        "recipe": job.recipe, "options": job.options, "seed": job.seed, "command": job.command,
        "dataset": result["data"], "task": result["task"], "model": result["model"], "metric": result["metric"],
        "val": result["val"], "test": result["test"], "baselines": result["baselines"],
        "protocol": result["protocol"], "split_digest": result["split_digest"], "epochs": result["epochs"],
        "best_epoch": result["best_epoch"], "parameters": run.facts["parameters"],
        "train_seconds": result["train_seconds"], "commit": find_commit(), "date": time.strftime("%Y-%m-%d"),
        "environment": describe_environment(), "config": run.config.to_dict(),
    }  # fmt: skip
