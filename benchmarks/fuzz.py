"""Broken, strange and hostile inputs to all that reads files: no traceback, no hang, no memory blow-up, and no success
that is wrong.

    python benchmarks/fuzz.py --count 20000 --seed 0 --out results/trust/fuzz.json
    python benchmarks/fuzz.py --only importer:1234 --seed 0        # one input again, with its files and its traceback

Inputs are a function of the seed, the reader and a number:

- importer: tables of edges, nodes and graphs (CSV, TSV, blanks, gzip, JSON lines, Parquet), network files (GraphML, GEXF,
  GML, node-link JSON), PyG files, folders of files and the YAML of an import; right ones, ones with spoiled content, and
  files whose bytes are mutated;
- drawn: the same readers on texts and values that hypothesis draws;
- options: dicts and YAML as options and recipes, and words as command lines;
- graphs: folders of saved graphs with one thing changed, with and without checksums that were made to fit; whatever opens is
  walked, tokenised and named to the last node, by kernels that are compiled with checks of their bounds;
- runs: folders of trained models likewise, opened, predicted with and shown to `gpm doctor`.

An answer is right if it is one sentence (`GpmError`), with nothing left behind, or a success that gives what a second, slow
reader finds in the same files; for folders, a success that gives what was there before, unless the change was made to fit, in
which case only safety is asked for. Tables that are right must not be refused. A process takes some hundred inputs and is
killed and replaced if one of them takes more than 20 seconds or a gigabyte and a half.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import multiprocessing.connection
import os
import random
import resource
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("NUMBA_NUM_THREADS", "1")
os.environ.setdefault("NUMBA_BOUNDSCHECK", "1")
if os.environ["NUMBA_BOUNDSCHECK"] == "1":  # kernels of their own
    os.environ.setdefault("NUMBA_CACHE_DIR", str(Path(tempfile.gettempdir()) / "gpm-fuzz-numba"))

SHARES = {"importer": 0.3, "drawn": 0.08, "options": 0.25, "graphs": 0.25, "runs": 0.12}
BATCH = 100  # inputs of a process
SECONDS, MEGABYTES = 20.0, 1536  # that an input may take
GROWTH = 700  # megabytes at most that an input may take at its peak; more is a blow-up
ROOM = 8 * 2**30  # bytes of address space that a process may take on


@dataclass
class Tally:
    """What came of the inputs of a reader."""

    inputs: int = 0
    outcomes: Counter = field(default_factory=Counter)
    failures: list[dict[str, Any]] = field(default_factory=list)
    slowest: float = 0.0
    growth: float = 0.0
    seconds: float = 0.0

    def add(self, outcome: dict[str, Any]) -> None:
        self.inputs += 1
        self.outcomes[outcome["outcome"]] += 1
        self.slowest, self.growth = max(self.slowest, outcome["seconds"]), max(self.growth, outcome["growth"])
        self.seconds += outcome["seconds"]
        if outcome["outcome"] == "failure":
            self.failures.append(outcome)
            print(
                f"FAILURE {outcome['reader']}:{outcome['number']} {outcome['kind']}: {outcome['detail'][-600:]}",
                flush=True,
            )


# In the process that works


def work(reader: str, begin: int, end: int, seed: int, place: Path, keep: Path, pipe: Any) -> None:
    """Take inputs of a reader one after the other, and say before and after each what it is and what came of it."""
    resource.setrlimit(resource.RLIMIT_AS, (_virtual() + ROOM, resource.RLIM_INFINITY))
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: PTH123, SIM115
    if reader == "drawn":
        from fuzzing import drawn

        drawn.run(begin, end, seed, lambda number, action: _take(reader, number, action, place, keep, pipe))
        return
    run = find_reader(reader)
    for number in range(begin, end):
        _take(
            reader,
            number,
            lambda folder, n=number: run(random.Random(f"{seed}:{reader}:{n}"), folder),
            place,
            keep,
            pipe,
        )


def find_reader(reader: str) -> Any:
    """The function that makes an input of a kind in a folder, gives it to gpm and judges the answer."""
    if reader == "importer":
        from fuzzing import tables as module
    elif reader == "options":
        from fuzzing import options as module
    elif reader == "graphs":
        from fuzzing import graphs as module
    else:
        from fuzzing import runs as module
    return module.run


def _take(reader: str, number: int, action: Any, place: Path, keep: Path, pipe: Any) -> None:
    from fuzzing.judge import WrongAnswerError, check_nothing_left

    folder, temporary = place / "case", place / "temporary"
    for path in (folder, temporary):
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
    tempfile.tempdir = str(temporary)
    pipe.send({"begin": number})
    started, used = time.perf_counter(), _reset_peak()
    outcome: dict[str, Any] = {"reader": reader, "number": number}
    try:
        outcome["outcome"] = action(folder)
        check_nothing_left(temporary, {path.name for path in temporary.glob("torch*")})
    except WrongAnswerError as failure:
        outcome |= {"outcome": "failure", "kind": failure.kind, "detail": failure.detail}
    except Exception as error:  # a mistake of ours
        outcome |= {"outcome": "failure", "kind": "fuzzer", "detail": "".join(traceback.format_exception(error))}
    outcome |= {"seconds": round(time.perf_counter() - started, 3), "growth": round(_peak() - used, 1)}
    if outcome["growth"] > GROWTH and outcome["outcome"] != "failure":
        outcome |= {"outcome": "failure", "kind": "memory", "detail": f"{outcome['growth']} MB more at its peak"}
    if outcome["outcome"] == "failure":
        _keep(folder, keep / f"{reader}-{number}")
    pipe.send(outcome)


def _keep(folder: Path, target: Path) -> None:
    """Keep the files of a failure."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(folder, target, symlinks=True, ignore_dangling_symlinks=True, ignore=_no_pipes)


def _no_pipes(folder: str, names: list[str]) -> list[str]:
    paths = {name: Path(folder) / name for name in names}
    return [name for name, path in paths.items() if not (path.is_file() or path.is_dir() or path.is_symlink())]


def _virtual() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def _reset_peak() -> float:
    """Forget the peak of the memory, and say what is used now, in megabytes."""
    Path("/proc/self/clear_refs").write_text("5")
    return _peak()


def _peak() -> float:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


# In the process that watches


class Watch:
    """Hands inputs to processes, several at a time, and ends those that take too long or too much."""

    def __init__(self, seed: int, place: Path, keep: Path, workers: int) -> None:
        self.seed, self.place, self.keep, self.workers = seed, place, keep, workers
        self.tallies = {reader: Tally() for reader in SHARES}
        self.context = multiprocessing.get_context("fork")
        self.started = time.perf_counter()

    def run(self, counts: dict[str, int]) -> None:
        """Run so many inputs of each reader."""
        waiting = [
            (reader, begin, min(begin + BATCH, count))
            for reader, count in counts.items()
            for begin in range(0, count, BATCH)
        ]
        waiting.sort(key=lambda job: job[1] / counts[job[0]])  # all readers from the start
        running: list[_Job] = []
        while waiting or running:
            while waiting and len(running) < self.workers:
                free = next(i for i in range(self.workers) if i not in {job.slot for job in running})
                running.append(_Job(self, *waiting.pop(0), slot=free))
            multiprocessing.connection.wait([job.pipe for job in running], timeout=0.2)
            for job in list(running):
                if rest := job.step():
                    running.remove(job)
                    waiting = [rest, *waiting] if rest[1] < rest[2] else waiting
                    self.report()

    def report(self) -> None:
        done = sum(tally.inputs for tally in self.tallies.values())
        failed = sum(len(tally.failures) for tally in self.tallies.values())
        seconds = time.perf_counter() - self.started
        print(f"{done:,} inputs, {failed} failures, {done / seconds:.1f} a second", flush=True)


class _Job:
    """A process at work on some inputs."""

    def __init__(self, watch: Watch, reader: str, begin: int, end: int, slot: int) -> None:
        self.watch, self.reader, self.end, self.slot = watch, reader, end, slot
        self.place = watch.place / f"worker{slot}"
        self.number, self.next, self.since = begin, begin, time.perf_counter()
        self.pipe, theirs = watch.context.Pipe(duplex=False)
        arguments = (reader, begin, end, watch.seed, self.place, watch.keep, theirs)
        self.process = watch.context.Process(target=work, args=arguments, daemon=True)
        self.process.start()
        theirs.close()
        self.base = self._resident()

    def step(self) -> tuple[str, int, int] | None:
        """Take what it says; what is left to do if it is done or was ended."""
        try:
            while self.pipe.poll():
                self._hear(self.pipe.recv())
        except EOFError:
            self.process.join()
            if self.process.exitcode != 0 or (self.next < self.end and self.reader != "drawn"):
                self._fail("crash", f"the process ended with code {self.process.exitcode}")
                return self.reader, self.number + 1, self.end
            return self.reader, self.end, self.end
        late, much = time.perf_counter() - self.since, self._resident() - self.base
        if late < SECONDS and much < MEGABYTES:
            return None
        self.process.kill()
        self.process.join()
        self._fail("hang" if late >= SECONDS else "memory", f"ended after {late:.0f} s with {much:.0f} MB more")
        return self.reader, self.number + 1, self.end

    def _hear(self, said: dict[str, Any]) -> None:
        self.since = time.perf_counter()
        if "begin" in said:
            self.number = said["begin"]
            return
        self.next = said["number"] + 1
        self.watch.tallies[self.reader].add(said)

    def _fail(self, kind: str, detail: str) -> None:
        outcome = {"reader": self.reader, "number": self.number, "outcome": "failure", "kind": kind, "detail": detail}
        self.watch.tallies[self.reader].add(outcome | {"seconds": time.perf_counter() - self.since, "growth": 0.0})
        _keep(self.place / "case", self.watch.keep / f"{self.reader}-{self.number}")

    def _resident(self) -> float:
        try:
            pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        except (OSError, IndexError):
            return 0.0
        return pages * resource.getpagesize() / 2**20


def warm() -> None:
    """Import and compile all there is before processes are forked."""
    from fuzzing import drawn, graphs, options, runs, tables  # noqa: F401

    graphs.warm()
    runs.warm()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--count", type=int, default=20_000, help="inputs, over all readers")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1, help="processes at a time")
    parser.add_argument("--readers", nargs="*", default=list(SHARES), choices=list(SHARES))
    parser.add_argument("--only", help="one input, as READER:NUMBER, in this process and with its traceback")
    parser.add_argument("--keep", type=Path, default=Path(tempfile.gettempdir()) / "gpm-fuzz", help="where failures go")
    parser.add_argument("--out", type=Path, help="a JSON file for the figures")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gpm-fuzz-") as place:
        os.environ["GPM_DATA"] = str(Path(place) / "data")
        os.environ["GPM_FUZZ_RUNS"] = str(Path(place) / "runs")
        (Path(place) / "runs").mkdir()
        warm()
        if given.only:
            return _again(given, Path(place))
        whole = sum(SHARES[reader] for reader in given.readers)
        counts = {reader: round(given.count * SHARES[reader] / whole) for reader in given.readers}
        watch = Watch(given.seed, Path(place), given.keep, given.workers)
        watch.run(counts)
    figures = _figures(given, watch)
    print(json.dumps(figures | {"failures": len(figures["failures"])}, indent=1))
    if given.out:
        given.out.parent.mkdir(parents=True, exist_ok=True)
        given.out.write_text(json.dumps(figures, indent=2) + "\n")
    return 1 if figures["failures"] else 0


def _again(given: argparse.Namespace, place: Path) -> int:
    reader, _, number = given.only.partition(":")
    folder = given.keep / f"{reader}-{number}-again"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    if reader == "drawn":
        from fuzzing import drawn

        said: list[Any] = []
        begin = int(number) // BATCH * BATCH
        drawn.run(
            begin,
            begin + BATCH,
            given.seed,
            lambda n, action: said.append(action(folder)) if n == int(number) else None,
        )
        print(said)
        return 0
    print(find_reader(reader)(random.Random(f"{given.seed}:{reader}:{number}"), folder), "in", folder)
    return 0


def _figures(given: argparse.Namespace, watch: Watch) -> dict[str, Any]:
    """What the run found, with what is needed to judge it."""
    import hypothesis

    from gpm.compute import describe_environment

    tallies = {reader: tally for reader, tally in watch.tallies.items() if tally.inputs}
    return {
        "seed": given.seed,
        "inputs": sum(tally.inputs for tally in tallies.values()),
        "failures": [failure for tally in tallies.values() for failure in tally.failures],
        "readers": {
            reader: {
                "inputs": tally.inputs, **dict(tally.outcomes), "slowest_seconds": tally.slowest,
                "peak_growth_mb": tally.growth, "seconds": round(tally.seconds, 1),
            }
            for reader, tally in tallies.items()
        },
        "slowest_seconds": max(tally.slowest for tally in tallies.values()),
        "peak_growth_mb": max(tally.growth for tally in tallies.values()),
        "limits": {"seconds": SECONDS, "growth_mb": GROWTH, "killed_above_mb": MEGABYTES},
        "seconds": round(time.perf_counter() - watch.started, 1),
        "hypothesis": hypothesis.__version__,
        "bounds_checked_kernels": os.environ["NUMBA_BOUNDSCHECK"] == "1",
        "environment": describe_environment(),
        "date": time.strftime("%Y-%m-%d"),
    }  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
