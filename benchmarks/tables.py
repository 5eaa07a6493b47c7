"""Is an export to plain tables worth as much as the dataset itself: train both with the same options and seeds.

    python benchmarks/tables.py karate mutag twitch-pt actor

Each dataset is written as CSV by examples/to_csv.py, with the split of the seed as a column, and trained by the line
that the script prints; beside it the dataset is trained by its name. Writes results/tables/NAME.json.
"""

from __future__ import annotations

import argparse
import json
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from gpm.compute import describe_environment
from gpm.io.atomic import write_json
from gpm.training.recipes import find_recipe

ROOT = Path(__file__).parents[1]
SEEDS = (0, 1, 2)


def train(words: list[str], out: Path) -> dict[str, Any]:
    """Train in a process of its own, as a user would, and return the figures."""
    command = [sys.executable, "-m", "gpm", *words, "--out", str(out), "--threads", "1", "--quiet"]
    began = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    result = json.loads((out / "result.json").read_text(encoding="utf-8"))
    metric = result["metric"]
    return {
        "metric": metric,
        "test": result["test"][metric],
        "val": result["val"][metric],
        "split": result["split_digest"],
        "wall_s": time.monotonic() - began,
    }


def compare(name: str, seed: int, folder: Path) -> dict[str, Any]:
    """One seed of one dataset, by its name and as tables."""
    script = [sys.executable, str(ROOT / "examples/to_csv.py"), name, str(folder / "csv"), "--seed", str(seed)]
    printed = subprocess.run(script, check=True, capture_output=True, text=True).stdout.strip().splitlines()[-1]
    recipe = ["--recipe", name] if find_recipe(name) is not None else []
    line = [*shlex.split(printed)[1:], *recipe]
    tables = train(line, folder / "tables")
    named = train(["train", name, "--seed", str(seed)], folder / "catalog")
    shown = shlex.join(["gpm", *line]).replace(str(folder / "csv"), f"tables/{name}")
    return {"seed": seed, "command": shown, "tables": tables, "catalog": named}


def main() -> None:
    """Compare some datasets."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="+")
    for name in parser.parse_args().datasets:
        with tempfile.TemporaryDirectory() as scratch:
            rows = [compare(name, seed, Path(scratch) / str(seed)) for seed in SEEDS]
        result: dict[str, Any] = {"dataset": name, "metric": rows[0]["tables"]["metric"], "seeds": list(SEEDS)}
        for way in ("tables", "catalog"):
            values = [100 * row[way]["test"] for row in rows]
            result[way] = {"mean": round(statistics.mean(values), 2), "std": round(statistics.stdev(values), 2)}
        result |= {
            "protocol": "the dataset's split of each seed, as a column of the table; test read once",
            "rows": rows,
        }
        write_json(
            ROOT / "results/tables" / f"{name}.json",
            result | {"environment": describe_environment(), "date": time.strftime("%Y-%m-%d")},
        )
        print(name, result["metric"], "tables", result["tables"], "catalog", result["catalog"], flush=True)


if __name__ == "__main__":
    main()
