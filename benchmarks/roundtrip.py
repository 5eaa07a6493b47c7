"""A million rows with adversarial names, in and out: do ids, their order and all values come back as they were?

    python benchmarks/roundtrip.py --rows 1000000 --out results/trust/roundtrip.json

For each format (CSV, Parquet, JSON lines) tables of nodes and edges are written by Python's own writers, or DuckDB's, and
imported by the command. Names, labels and weights of the graph must be those of the tables, row by row. A small model is
trained, and every node is predicted and embedded into every format that is written; what Python's own readers, or
DuckDB's, find there must be the ids in their order, and the very numbers that the model gave.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd

from gpm import Graph, Run
from gpm.compute import describe_environment
from gpm.io.atomic import write_json

PIECES = [
    "a", "A", "b", "Z", "é", "e\u0301", "ß", "\u017f", "İ", "\u0131", "日本", "🎲", "👩‍👩‍👧", "א", "\u202eabc", "\u200b", "\ufeff", "٣", '"', '""', "'", ",", ";",
    "\t", "\n", "\r\n", "\r", "\\", "\\n", "\\N", " ", "  ", "\u00a0", "0", "00", "007", "1", "1.0", "1e5", "-0", "+1", "0x1F", "nan", "NULL", "None", "NA",
    "true", "=1+1", "@x", "-", "#", "%s", "{}", "[]", "<b>", "&amp;", "$1", "`", "|", "*", "..", "/", "a" * 200, "\x01", "\x1f", "\x7f", "\x85", "\u2028",
]  # fmt: skip
PARTS = {"train": 600, "val": 200, "test": 200}


def make_names(rows: int, seed: int) -> list[str]:
    """So many names, all different; not in blanks around them or in Unicode's forms alone, which an import refuses."""
    draw, names = random.Random(seed), dict[str, str]()
    for name in (*PIECES, *(f"{'0' * zeros}{i}" for i in range(1000) for zeros in range(4))):
        names.setdefault(unicodedata.normalize("NFC", name.strip()), name)
    while len(names) <= rows:
        made = "".join(draw.choices(PIECES[:62], k=draw.randint(2, 6)))
        names.setdefault(unicodedata.normalize("NFC", made.strip()), made)
    names.pop("", None)
    listed = list(names.values())[:rows]
    draw.shuffle(listed)
    return listed


def make_tables(rows: int, seed: int) -> dict[str, dict[str, list[Any]]]:
    """Nodes with a number each and a part for some, and edges with weights."""
    draw = random.Random(seed + 1)
    names = make_names(rows, seed)
    parts = [part for part, count in PARTS.items() for _ in range(count)] + [""] * (rows - sum(PARTS.values()))
    draw.shuffle(parts)
    numbers = np.random.default_rng(seed).normal(size=rows).astype(np.float32)
    others = draw.choices(range(rows), k=rows)
    weights = [draw.randrange(1, 2**20) / 2**10 for _ in range(rows)]
    return {
        "nodes": {"id": names, "value": numbers.tolist(), "part": parts},
        "edges": {"source": names, "target": [names[other] for other in others], "weight": weights},
    }


# Writers and readers that are not gpm's


def write_plain(path: Path, columns: dict[str, list[Any]]) -> None:
    if path.suffix == ".parquet":
        with duckdb.connect() as base:
            base.register("frame", pd.DataFrame(columns))
            base.sql("SELECT * FROM frame").write_parquet(str(path))
        return
    with path.open("w", encoding="utf-8", newline="") as file:
        if path.suffix == ".csv":
            writer = csv.writer(file)
            writer.writerow(columns)
            writer.writerows(zip(*columns.values(), strict=True))
        else:
            for row in zip(*columns.values(), strict=True):
                file.write(json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False) + "\n")


def read_plain(path: Path) -> dict[str, list[Any]]:
    if path.suffix == ".parquet":
        with duckdb.connect() as base:
            found = base.execute(f"SELECT * FROM '{path}'")
            names = [entry[0] for entry in found.description or ()]
            return dict(zip(names, map(list, zip(*found.fetchall(), strict=True)), strict=True))
    with path.open(encoding="utf-8", newline="") as file:
        if path.suffix == ".jsonl":
            rows = [json.loads(line) for line in file]
            return {name: [row[name] for row in rows] for name in rows[0]}
        csv.field_size_limit(10**7)
        reader = csv.reader(file, delimiter="\t" if path.suffix == ".tsv" else ",")
        names = next(reader)
        return dict(zip(names, map(list, zip(*reader, strict=True)), strict=True))


# What must hold


class Checks:
    """Comparisons by name, and what differs."""

    def __init__(self) -> None:
        self.made: dict[str, int] = {}
        self.faults: list[str] = []

    def compare(self, what: str, found: Any, wanted: Any) -> None:
        self.made[what] = len(wanted)
        if len(found) != len(wanted):
            self.faults.append(f"{what}: {len(found)} rows, not {len(wanted)}")
        elif odd := [i for i, (a, b) in enumerate(zip(found, wanted, strict=True)) if a != b]:
            self.faults.append(
                f"{what}: row {odd[0]} is {found[odd[0]]!r}, not {wanted[odd[0]]!r}; {len(odd):,} differ"
            )
        print(f"{what}: {len(wanted):,} compared, {len(self.faults)} faults so far", flush=True)


def gpm(*words: str) -> None:
    """Run the command."""
    subprocess.run([sys.executable, "-m", "gpm", *words], check=True, stdout=subprocess.DEVNULL)


def check_graph(checks: Checks, suffix: str, folder: Path, tables: dict[str, dict[str, list[Any]]]) -> None:
    """A graph folder holds the tables, row by row."""
    graph, nodes, edges = Graph.open(folder), tables["nodes"], tables["edges"]
    names = [graph.name(node) for node in range(graph.num_nodes)]
    checks.compare(f"{suffix}: names of the graph", names, nodes["id"])
    assert graph.y is not None
    assert graph.edge_weight is not None
    checks.compare(f"{suffix}: values of the graph", graph.y.astype(np.float32).tolist(), nodes["value"])
    number = {name: place for place, name in enumerate(nodes["id"])}
    wanted: dict[tuple[int, int], float] = {}
    for a, b, weight in zip(edges["source"], edges["target"], edges["weight"], strict=True):
        for pair in {(number[a], number[b]), (number[b], number[a])}:
            wanted[pair] = wanted.get(pair, 0.0) + weight
    pairs = sorted(wanted)
    checks.compare(f"{suffix}: edges of the graph", list(map(tuple, graph.edge_index().T.tolist())), pairs)
    checks.compare(f"{suffix}: weights of the graph", graph.edge_weight.tolist(), [wanted[pair] for pair in pairs])


def check_answers(checks: Checks, run: Path, folder: Path, names: list[str]) -> None:
    """Predictions and embeddings, in every format, have the ids in order and the numbers of the model."""
    found = Run.open(run, device="cpu").predict()
    said = found.columns()["prediction"].astype(np.float32)
    checks.compare("names of predictions in Python", found.names, names)
    for suffix in (".csv", ".tsv", ".jsonl", ".parquet"):
        path = folder / f"said{suffix}"
        gpm("predict", str(run), "--out", str(path), "--device", "cpu")
        columns = read_plain(path)
        checks.compare(f"{suffix}: names of predictions", columns["node"], names)
        checks.compare(
            f"{suffix}: predictions", np.array(columns["prediction"], dtype=np.float32).tolist(), said.tolist()
        )
        path.unlink()
    gpm("embed", str(run), "--out", str(folder / "embedded.parquet"), "--device", "cpu")
    checks.compare(".parquet: names of embeddings", read_plain(folder / "embedded.parquet")["node"], names)


def stages(rows: int, seed: int, place: Path, checks: Checks) -> Iterator[tuple[str, Callable[[], None]]]:
    tables = make_tables(rows, seed)
    for suffix in (".csv", ".jsonl", ".parquet"):
        folder = place / suffix[1:]
        folder.mkdir()

        def bring(suffix: str = suffix, folder: Path = folder) -> None:
            for name, columns in tables.items():
                write_plain(folder / f"{name}{suffix}", columns)
            files = [str(folder / f"edges{suffix}"), "--nodes", str(folder / f"nodes{suffix}")]
            gpm("import", *files, "--target", "value", "--out", str(folder / "graph"), "--quiet")
            check_graph(checks, suffix, folder / "graph", tables)

        yield f"in from {suffix}", bring

    def answer() -> None:
        small = [
            "--width=8",
            "--heads=2",
            "--lengths=[0,1]",
            "--patterns=2",
            "--pool=2",
            "--epochs=1",
            "--warmup=1",
            "--quiet",
        ]
        gpm("train", str(place / "csv/graph"), "--out", str(place / "run"), "--device", "cpu", *small)
        check_answers(checks, place / "run", place, tables["nodes"]["id"])

    yield "out", answer


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="a JSON file for the results")
    given = parser.parse_args()
    checks, seconds = Checks(), {}
    with tempfile.TemporaryDirectory(prefix="gpm-roundtrip-") as folder:
        os.environ["GPM_DATA"] = str(Path(folder) / "data")
        for name, stage in stages(given.rows, given.seed, Path(folder), checks):
            began = time.monotonic()
            stage()
            seconds[name] = round(time.monotonic() - began, 1)
    names = "\0".join(make_names(given.rows, given.seed)).encode("utf-8")
    facts = {
        "rows": given.rows, "seed": given.seed, "faults": checks.faults, "compared": checks.made, "seconds": seconds,
        "names_sha256": hashlib.sha256(names).hexdigest(), "environment": describe_environment(), "date": time.strftime("%Y-%m-%d"),
    }  # fmt: skip
    print(json.dumps({"faults": checks.faults, "seconds": seconds}, indent=1))
    if given.out is not None:
        given.out.parent.mkdir(parents=True, exist_ok=True)
        write_json(given.out, facts)
    return 1 if checks.faults else 0


if __name__ == "__main__":
    sys.exit(main())
