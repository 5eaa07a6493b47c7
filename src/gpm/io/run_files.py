"""Names of the files in a run folder, and the options file itself."""

from __future__ import annotations

from pathlib import Path

import yaml

from gpm.config import Config
from gpm.io.atomic import write_text
from gpm.io.yaml_files import read_options

CONFIG, MODEL, WEIGHTS, SPLIT, RESULT = "config.yaml", "model.json", "model.safetensors", "split.npz", "result.json"
RECIPE, REPORT = "recipe.json", "report.html"
STATE, HISTORY, PREDICTIONS, ENVIRONMENT, CARD = (
    "checkpoint.ckpt", "metrics.csv", "predictions.csv", "environment.json", "README.md",
)  # fmt: skip


def read_config(path: Path) -> Config:
    """Read the options of a run."""
    return Config.from_dict(read_options(path), str(path))


def write_config(path: Path, config: Config) -> None:
    """Write the options of a run."""
    write_text(path, yaml.safe_dump(config.to_dict(), sort_keys=False, default_flow_style=None))
