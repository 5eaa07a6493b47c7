"""SIGKILL at random moments of import, train and predict: nothing half-made is ever taken for whole, and the very same
command run again ends as if nothing had happened.

    python benchmarks/kill.py --kills 200 --aimed 200 --out results/trust/kill.json

For every command a process is killed at moments drawn uniformly over the time that it takes undisturbed; and, as little
of that time goes to files, also right before one of its steps that make, write, rename or remove a file or a folder,
drawn uniformly among these. After each kill:

- what is there under its own name is complete: `gpm doctor` verifies folders, tables have the bytes they should have;
- what is not complete is known as such: its name begins with a dot or ends in `.part`, and reading the thing itself is a
  sentence (`GpmError`);
- the very same command is run again, succeeds, leaves nothing else behind, and gives the same bytes.

Processes are forked from one that has imported all there is, so that a trial takes a second and the moments fall where
files are written. What is killed while it imports Python modules has not written anything.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import json
import multiprocessing
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("NUMBA_NUM_THREADS", "1")

MODULES = (
    "lightning.pytorch", "torch_geometric.data", "duckdb", "pandas", "gpm.training.start", "gpm.cli.train", "gpm.training.callbacks",
    "gpm.training.lightning_module", "gpm.run.model_card", "gpm.nn.predictor", "gpm.cli.doctor", "gpm.data.tables", "gpm.data.node_data", "gpm.training.simple_baselines",
    "lightning.pytorch.callbacks", "jsonargparse", "docstring_parser", "gpm.cli.main",
)  # fmt: skip
SMALL = [
    "--width=8", "--heads=2", "--lengths=[0,1,2]", "--patterns=6", "--pool=6", "--batch=64", "--epochs=8", "--warmup=2",
    "--threads=1", "--device=cpu", "--quiet",
]  # fmt: skip


@dataclass(frozen=True)
class Command:
    """A command to be killed.

    Attributes:
        name: What it is called in the results.
        words: Its arguments; {in} is the folder of inputs, {out} that of what is made.
        makes: What it makes, below {out}.
        bytes: Which files of a folder must have the same bytes again; of a file, itself.
        before: A command that is run undisturbed first.
    """

    name: str
    words: tuple[str, ...]
    makes: str
    bytes: tuple[str, ...] = ()
    before: tuple[str, ...] = ()


TRAIN = ("train", "{in}/graph", "--out", "{out}/run", *SMALL)
WEIGHTS = ("model.safetensors", "predictions.csv", "split.npz", "config.yaml", "model.json")
COMMANDS = [
    Command(
        "import",
        ("import", "{in}/edges.csv", "--nodes", "{in}/nodes.csv", "--target", "label", "--out", "{out}/graph", "--quiet"),
        "graph",
        ("*.npy",),
    ),
    Command(
        "import over another",
        ("import", "{in}/edges.csv", "--nodes", "{in}/nodes.csv", "--target", "label", "--out", "{out}/graph", "--quiet",
         "--overwrite"),
        "graph",
        ("*.npy",),
        before=("import", "{in}/edges.csv", "--out", "{out}/graph", "--quiet"),
    ),
    Command("train", TRAIN, "run", WEIGHTS),
    Command("train two seeds", (*TRAIN, "--seeds", "2"), "run", tuple(f"seed-*/{name}" for name in WEIGHTS)),
    Command("train over another", (*TRAIN, "--overwrite"), "run", WEIGHTS, before=(*TRAIN, "--seed", "5")),
    Command(
        "train on tables",
        ("train", "{in}/edges.csv", "--nodes", "{in}/nodes.csv", "--target", "label", "--out", "{out}/run", *SMALL),
        "run",
        (*WEIGHTS, "graph/*.npy"),
    ),
    Command("predict", ("predict", "{in}/run", "--out", "{out}/said.csv"), "said.csv"),
    Command("predict Parquet", ("predict", "{in}/run", "--out", "{out}/said.parquet"), "said.parquet"),
]  # fmt: skip


@dataclass
class Tally:
    """What became of a command."""

    seconds: float
    steps: int
    kills: int = 0
    aimed: int = 0
    finished: int = 0
    found: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)


# Processes


def forked(work: Callable[[], Any]) -> Any:
    """What a function returns in a process of its own; an exception there is a `RuntimeError` here."""
    pipe, end = multiprocessing.Pipe(duplex=False)
    process = os.fork()
    if not process:
        try:
            end.send((True, work()))
        except BaseException as error:  # the parent must hear of it
            end.send((False, f"{type(error).__name__}: {error}"))
        finally:
            os._exit(0)
    end.close()
    try:
        well, answer = pipe.recv()
    except EOFError:
        well, answer = False, "it died"
    os.waitpid(process, 0)
    if not well:
        raise RuntimeError(answer)
    return answer


def run(words: list[str]) -> tuple[int, str]:
    """Run a command here; its exit code and what it printed."""
    from gpm.cli.main import main

    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        code = main(words)
    return code, printed.getvalue()


CHANGES = {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.truncate", "os.link", "os.symlink", "shutil.rmtree"}


class Steps:
    """Counts the steps of this process that change something below a folder; dies before one of them."""

    def __init__(self, folder: Path, last: int | None = None) -> None:
        self.folder, self.last, self.count = os.fsencode(folder), last, 0
        sys.addaudithook(self.note)

    def note(self, event: str, arguments: tuple[Any, ...]) -> None:
        writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        if not (writes or event in CHANGES) or not self._concerns(arguments[0]):
            return
        if self.count == self.last:
            os.kill(os.getpid(), signal.SIGKILL)
        self.count += 1

    def _concerns(self, path: Any) -> bool:
        try:
            return os.fsencode(path).startswith(self.folder)
        except TypeError:  # the number of an open file
            return False


def kill(words: list[str], out: Path, *, after: float | None = None, step: int | None = None) -> bool:
    """Run a command in a process of its own and kill it, after some seconds or before a step; whether it was at work."""
    process = os.fork()
    if not process:
        if step is not None:
            Steps(out, step)
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, 1)
        os.dup2(silence, 2)
        code = 1
        try:
            code = run(words)[0]
        finally:
            os._exit(code)
    if after is not None:
        time.sleep(after)
        os.kill(process, signal.SIGKILL)  # a process that has ended is still there to be waited for
    _, status = os.waitpid(process, 0)
    return os.WIFSIGNALED(status)


# What must hold


def spell(words: tuple[str, ...], inputs: Path, out: Path) -> list[str]:
    return [word.replace("{in}", str(inputs)).replace("{out}", str(out)) for word in words]


def digest(command: Command, made: Path) -> dict[str, str]:
    """The bytes of what a command made, as far as they must come again."""
    files = [made] if made.is_file() else sorted(path for pattern in command.bytes for path in made.glob(pattern))
    assert files, f"{made} has none of {command.bytes}"
    return {str(path.relative_to(made.parent)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def look(command: Command, out: Path, expected: dict[str, str]) -> tuple[str, list[str]]:
    """After a kill: the state of things in words, and what is wrong with it."""
    from gpm import GpmError, Graph, Run

    made, faults = out / command.makes, []
    for path in out.iterdir():
        if path != made and not path.name.startswith(".") and not path.name.endswith(".part"):
            faults.append(f"{path.name} is under a name of its own")
    if made.is_dir():
        code, said = run(["doctor", str(made)])
        if code:
            faults.append(f"what is there is damaged: {said}")
        same = digest(command, made) == expected
        if not same and not command.before:
            faults.append("what is there is not what it should be")
        return ("the new one" if same else "the old one"), faults
    if made.is_file():
        if digest(command, made) != expected:
            faults.append("a table is there that is not whole")
        return "the new one", faults
    reader: Any = Graph.open if command.makes == "graph" else Run.open
    if command.makes in ("graph", "run"):
        try:
            reader(made)
            if not made.is_dir():
                faults.append("what is not there can be opened")
        except GpmError:
            pass
    part = out / f"{command.makes}.part"
    if not made.is_dir() and part.is_dir() and any(part.rglob("config.yaml")):
        code, said = run(["doctor", str(part)])
        if code:
            faults.append(f"{part.name} is damaged: {said}")
        return ("a checkpoint" if any(part.rglob("checkpoint.ckpt")) else "a beginning"), faults
    return ("put in its place when read" if made.is_dir() else "scratch" if any(out.iterdir()) else "nothing"), faults


def repeat(command: Command, inputs: Path, out: Path, expected: dict[str, str]) -> list[str]:
    """Run the same command again: what is wrong with what it made. What was done already may say so."""
    done = (out / command.makes).exists()
    code, said = run(spell(command.words, inputs, out))
    if code and not (done and "exists" in said):
        return [f"run again it ends with {code}: {said}"]
    faults, made = [], out / command.makes
    if digest(command, made) != expected:
        faults.append("run again it makes something else")
    if made.is_dir() and (found := run(["doctor", str(made)]))[0]:
        faults.append(f"run again it makes something damaged: {found[1]}")
    if left := [path.name for path in out.iterdir() if path != made]:
        faults.append(f"run again it leaves {', '.join(left)}")
    return faults


# The trials


def write_inputs(folder: Path) -> None:
    """Tables of a small graph, the graph, and a run on it."""
    from gpm.data.synthetic import planted_motifs

    planted = planted_motifs(num_houses=20, num_cycles=10, base_nodes=150, seed=1).graph
    ends, y = planted.edge_index(), planted.y
    assert y is not None
    rows = "".join(f"n{a},n{b}\n" for a, b in ends.T.tolist() if a < b)
    (folder / "edges.csv").write_text(f"source,target\n{rows}", encoding="utf-8")
    nodes = "".join(f"n{i},{i % 7 / 7:.3f},{'abc'[i % 3]},c{label}\n" for i, label in enumerate(y.tolist()))
    (folder / "nodes.csv").write_text(f"id,size,kind,label\n{nodes}", encoding="utf-8")
    planted.save(folder / "graph")


def begin(command: Command, inputs: Path, out: Path) -> None:
    """The folder as it is before the command."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    if command.before:
        code, said = run(spell(command.before, inputs, out))
        assert code == 0, said


def measure(command: Command, inputs: Path, out: Path) -> tuple[float, int, dict[str, str]]:
    """How long a command takes undisturbed, in how many steps, and what it makes."""
    begin(command, inputs, out)
    steps, began = Steps(out), time.monotonic()
    code, said = run(spell(command.words, inputs, out))
    assert code == 0, said
    return time.monotonic() - began, steps.count, digest(command, out / command.makes)


def torture(command: Command, kills: int, aimed: int, inputs: Path, work: Path, draw: random.Random) -> Tally:
    """Kill a command so many times, each time anew."""
    out = work / "out"
    seconds, steps, expected = forked(lambda: measure(command, inputs, out))
    tally = Tally(seconds, steps)
    while tally.kills < kills or tally.aimed < aimed:
        forked(lambda: begin(command, inputs, out))
        words, timed = spell(command.words, inputs, out), tally.kills < kills
        moment = draw.uniform(0, seconds) if timed else draw.randrange(steps)
        if not kill(words, out, **{"after" if timed else "step": moment}):
            tally.finished += 1
            seconds = min(seconds, moment) if timed else seconds  # it took less this time than when it was measured
            if tally.finished > 20 + 2 * (kills + aimed):
                tally.faults.append("it ends before it can be killed")
                break
            continue
        tally.kills, tally.aimed = tally.kills + timed, tally.aimed + (not timed)
        if (tally.kills + tally.aimed) % 2:
            state, faults = forked(lambda: look(command, out, expected))
        else:  # run again from what the kill left, which looking at it may settle
            state, faults = "not looked at", []
        tally.found[state] += 1
        faults += forked(lambda: repeat(command, inputs, out, expected))
        when = f"after {moment:.3f} s of {seconds:.3f}" if timed else f"before step {moment} of {steps}"
        tally.faults += [f"killed {when}, with {state}: {fault}" for fault in faults]
    return tally


def prepare(inputs: Path) -> None:
    """Import what the commands need, and make their inputs in a process of its own."""
    import importlib

    import numba

    for module in MODULES:
        importlib.import_module(module)
    numba.njit(lambda x: x + 1)(1)  # its compiler, too, is loaded here once
    inputs.mkdir()
    forked(lambda: write_inputs(inputs))
    code, said = forked(lambda: run(spell(("train", "{in}/graph", "--out", "{in}/run", *SMALL), inputs, inputs)))
    assert code == 0, said


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50, help="over all commands")
    parser.add_argument("--aimed", type=int, default=50, help="further kills, each before a step that writes")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--commands", nargs="*", default=[], help="names of commands; by default all")
    parser.add_argument("--out", type=Path, help="a JSON file for the results")
    given = parser.parse_args()
    chosen = [command for command in COMMANDS if command.name in given.commands or not given.commands]
    draw, began, results = random.Random(given.seed), time.monotonic(), {}
    with tempfile.TemporaryDirectory(prefix="gpm-kill-") as folder:
        work = Path(folder)
        prepare(work / "inputs")
        for number, command in enumerate(chosen):
            kills, aimed = (
                n * (number + 1) // len(chosen) - n * number // len(chosen) for n in (given.kills, given.aimed)
            )
            tally = torture(command, kills, aimed, work / "inputs", work, draw)
            results[command.name] = {
                "seconds": round(tally.seconds, 3), "steps": tally.steps, "kills": tally.kills, "aimed_kills": tally.aimed,
                "finished_before": tally.finished,
                "found_after_the_kill": dict(sorted(tally.found.items())), "faults": tally.faults,
            }  # fmt: skip
            print(
                f"{command.name}: {tally.kills} kills within {tally.seconds:.2f} s, {tally.aimed} among {tally.steps} steps; found {dict(tally.found)}",
                flush=True,
            )
            for fault in tally.faults:
                print(f"  FAULT {fault}")
    faults = sum(len(result["faults"]) for result in results.values())
    kills, aimed = (sum(result[key] for result in results.values()) for key in ("kills", "aimed_kills"))
    print(f"{kills} kills at random moments, {aimed} before steps that write: {faults} faults")
    if given.out is not None:
        facts = {
            "seed": given.seed,
            "kills": kills,
            "aimed_kills": aimed,
            "faults": faults,
            "date": time.strftime("%Y-%m-%d"),
        }
        given.out.parent.mkdir(parents=True, exist_ok=True)
        facts |= {"wall_s": round(time.monotonic() - began, 1), "commands": results}
        given.out.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
