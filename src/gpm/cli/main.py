"""The command `gpm`: verbs, their dispatch, exit codes and error messages."""

from __future__ import annotations

import importlib
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from gpm.errors import GpmError, nearest

# The verbs: their function, and the first line of its docstring.
COMMANDS = {
    "train": (
        "gpm.cli.train:train_run",
        "Train a model on nodes, links or graphs, score it and save everything in a run folder.",
    ),
    "evaluate": ("gpm.cli.evaluate:evaluate_run", "Score a trained model again, on a split of its data."),
    "predict": ("gpm.cli.predict:predict_run", "Write predictions for nodes, pairs of nodes or graphs to a table."),
    "explain": (
        "gpm.cli.explain:explain_run",
        "Find the patterns that a prediction rests on, check how reliable that is, and write a page.",
    ),
    "shift": (
        "gpm.cli.shift:shift_run",
        "Compare the target graph of a run with its source: distances, scores, and the patterns of both.",
    ),
    "embed": ("gpm.cli.embed:embed_run", "Write the embeddings of nodes or graphs to a file."),
    "export": (
        "gpm.cli.export:export_run",
        "Write a model as a torch.export program, checked against the run.",
    ),
    "plan": (
        "gpm.cli.plan:plan_run",
        "Predict the memory and the time of a training, and name the flags that make it fit.",
    ),
    "tune": (
        "gpm.cli.tune:tune",
        "Search for the options that validate best and write them as a recipe; the test part is not read.",
    ),
    "import": (
        "gpm.cli.import_:import_run",
        "Read tables of edges, nodes and graphs, check them, and write a graph folder.",
    ),
    "doctor": ("gpm.cli.doctor:doctor", "Verify a run or a graph folder, and say what is damaged and what to do."),
    "recipes": ("gpm.cli.recipes:list_recipes", "List the recipes with the scores of the paper, or show one."),
    "data": (
        "gpm.cli.datasets:data",
        "List the named datasets, describe one, or check that its splits do not overlap.",
    ),
    "patterns": (
        "gpm.cli.patterns:patterns",
        "Show the most frequent patterns of a graph, or around one node, and draw them.",
    ),
    "demo": (
        "gpm.cli.demo:demo",
        "Train on planted motifs, score beside two baselines, and explain one prediction on a page.",
    ),
    "info": ("gpm.cli.info:info", "Print versions, devices, kernel, threads and the data root."),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code: 0, 2 for a mistake in the input, 130 for an interruption."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words or words[0] in ("-h", "--help"):
        print(_usage())
        return 0
    if words[0] == "--version":
        from gpm import __version__

        print(__version__)
        return 0
    command = words[0]
    if command not in COMMANDS:
        hint = nearest(command, COMMANDS)
        print(f"gpm: There is no command {command!r}.{hint} Commands: {', '.join(COMMANDS)}.", file=sys.stderr)
        return 2
    try:
        with _ending_cleanly():
            return _run(command, words[1:])
    except KeyboardInterrupt:
        print(f"gpm {command}: interrupted", file=sys.stderr)
        return 130


def find_function(command: str) -> Callable[..., Any]:
    """Import the function of a verb."""
    module, _, name = COMMANDS[command][0].partition(":")
    function: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return function


def _usage() -> str:
    from gpm import __version__

    lines = [f"gpm {__version__}: graph learning without message passing", "", "usage: gpm COMMAND [arguments]", ""]
    lines += [f"  {name:<10} {about}" for name, (_, about) in COMMANDS.items()]
    return "\n".join([*lines, "", "gpm COMMAND --help explains a command."])


@contextmanager
def _ending_cleanly() -> Iterator[None]:
    """Treat SIGTERM as Ctrl-C, so that half-written files are removed before the process ends."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _run(command: str, words: list[str]) -> int:
    """Parse the arguments of a verb and call its function; errors become one sentence and exit code 2."""
    from jsonargparse import ArgumentError

    from gpm.cli.arguments import Arguments

    logging.basicConfig(format="%(message)s")
    logging.getLogger("gpm").setLevel(logging.INFO)
    function = find_function(command)
    arguments = Arguments(command, COMMANDS[command][1], function)
    try:
        function(**arguments.parse(words))
    except SystemExit as stop:  # --help
        return int(stop.code or 0)
    except BrokenPipeError:  # the reader of our output has ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except GpmError as error:
        return _complain(command, str(error))
    except ArgumentError as error:
        return _complain(command, arguments.reword(str(error)))
    except OSError as error:
        return _complain(command, f"{error.filename or 'A file'}: {error.strerror or error}.")
    except MemoryError:
        return _complain(command, "There is not enough memory; ask for fewer or shorter samples.")
    except RuntimeError as error:
        if "memory" not in str(error):  # torch has no error of its own for a full memory
            raise
        return _complain(command, "There is not enough memory; lower --batch, --pool or --size.")
    return 0


def _complain(command: str, sentence: str) -> int:
    print(f"gpm {command}: {sentence}", file=sys.stderr)
    return 2
