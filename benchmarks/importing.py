"""Import of a large Parquet file with text ids beside DuckDB's own sort of the same file: seconds and peak memory.

Every measurement is a process of its own, with the same threads and the same limit on DuckDB's memory; the two sides are
measured in turn, repeat by repeat, so that a noisy machine disturbs both. The file is made for the occasion and deleted.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import date
from pathlib import Path
from typing import Any

import duckdb

from gpm.compute import describe_environment

EDGES, NODES, THREADS, MEMORY = 50_000_000, 2_000_000, 2, "2GB"


def make_file(path: Path, edges: int, nodes: int) -> None:
    """Write edges between ids such as user_0001234567: sources are drawn evenly, targets with a square law."""
    even, skewed = f"hash(2 * i) % {nodes}", f"floor((hash(2 * i + 1) % 16777216 / 16777216.0) ** 2 * {nodes})::BIGINT"
    ends = (f"'user_' || lpad(({number})::VARCHAR, 10, '0')" for number in (even, skewed))
    with duckdb.connect() as base:
        base.execute(f"SET threads = {THREADS}")
        select = "SELECT {} AS source, {} AS target".format(*ends)
        base.execute(f"COPY ({select} FROM range({edges}) AS r(i)) TO '{path}' (FORMAT parquet)")


def sort_file(path: Path, folder: Path) -> None:
    """What the import is compared with: the same file, sorted by both columns."""
    with duckdb.connect() as base:
        base.execute(f"SET threads = {THREADS}")
        base.execute(f"SET memory_limit = '{MEMORY}'")
        base.execute(f"SET temp_directory = '{folder / 'spill'}'")
        out = folder / "sorted.parquet"
        base.execute(f"COPY (SELECT * FROM '{path}' ORDER BY source, target) TO '{out}' (FORMAT parquet)")


def import_file(path: Path, folder: Path) -> None:
    """The import, from the file to a graph's folder that is synced and has its checksums."""
    from gpm.data.tables import import_tables

    import_tables(path, folder / "graph", memory=MEMORY)


TASKS = {"sort": sort_file, "import": import_file}


def run_task(name: str, path: Path) -> dict[str, float]:
    """Seconds, those of the processor, and the most resident memory of a task, measured in this process."""
    start = time.perf_counter()
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        TASKS[name](path, Path(folder))
        seconds = time.perf_counter() - start
    used = resource.getrusage(resource.RUSAGE_SELF)
    busy = used.ru_utime + used.ru_stime
    return {"seconds": round(seconds, 2), "cpu_seconds": round(busy, 2), "peak_rss_gb": round(used.ru_maxrss / 1e6, 3)}


def measure(name: str, path: Path) -> dict[str, float]:
    command = [sys.executable, __file__, "--task", name, str(path)]
    environment = os.environ | {"NUMBA_NUM_THREADS": str(THREADS), "OMP_NUM_THREADS": str(THREADS)}
    ran = subprocess.run(command, capture_output=True, text=True, env=environment)
    if ran.returncode:
        raise RuntimeError(f"{name} failed:\n{ran.stderr}")
    found: dict[str, float] = json.loads(ran.stdout.splitlines()[-1])
    print(f"{name:<8} {found}", flush=True)
    return found


def middle(runs: list[dict[str, float]], key: str) -> float:
    return statistics.median(run[key] for run in runs)


def summarise(runs: dict[str, list[dict[str, float]]], edges: int, nodes: int, size: int) -> dict[str, Any]:
    environment = describe_environment()
    return {
        "edges": edges,
        "nodes": nodes,
        "file_gb": round(size / 1e9, 3),
        "seconds": {name: middle(found, "seconds") for name, found in runs.items()},
        "ratio": round(middle(runs["import"], "seconds") / middle(runs["sort"], "seconds"), 3),
        "peak_rss_gb": max(run["peak_rss_gb"] for run in runs["import"]),
        "protocol": {
            "threads": THREADS, "duckdb_memory_limit": MEMORY, "medians": "of repeats made in turn",
            "sort": "COPY (SELECT * FROM file ORDER BY source, target) TO another Parquet file",
            "import": "import_tables: columns inferred, ids numbered, both directions sorted, duplicates merged, synced",
        },
        "raw": runs,
        "load_after": round(os.getloadavg()[0], 2),
        "date": date.today().isoformat(),
        "environment": environment,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--edges", type=int, default=EDGES)
    parser.add_argument("--nodes", type=int, default=NODES)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="where to make the file (6 GB); by default among temporary files")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/importing.json"))
    parser.add_argument("--task", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.task:
        print(json.dumps(run_task(given.task[0], Path(given.task[1]))))
        return
    with tempfile.TemporaryDirectory(dir=given.folder) as scratch:
        path = Path(scratch) / "edges.parquet"
        make_file(path, given.edges, given.nodes)
        runs: dict[str, list[dict[str, float]]] = {name: [] for name in TASKS}
        for _ in range(given.repeats):
            for name in TASKS:
                runs[name].append(measure(name, path))
        result = summarise(runs, given.edges, given.nodes, path.stat().st_size)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(result, indent=1) + "\n")
    print(f"{result['ratio']}x the time of the sort, {result['peak_rss_gb']} GB; written to {given.out}")


if __name__ == "__main__":
    main()
