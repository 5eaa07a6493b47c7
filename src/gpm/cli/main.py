"""The command `gpm`: verbs, their dispatch, exit codes and error messages."""

from __future__ import annotations

import importlib
import logging
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from gpm import __version__
from gpm.errors import GpmError, nearest

# The functions of the verbs. They import what they need when they are called: help and mistakes load nothing heavy.
COMMANDS = {
    "train": "gpm.cli.train:train_run",
    "evaluate": "gpm.cli.evaluate:evaluate_run",
    "predict": "gpm.cli.predict:predict_run",
    "report": "gpm.cli.report:report_run",
    "compare": "gpm.cli.compare:compare_runs",
    "explain": "gpm.cli.explain:explain_run",
    "shift": "gpm.cli.shift:shift_run",
    "embed": "gpm.cli.embed:embed_run",
    "export": "gpm.cli.export:export_run",
    "plan": "gpm.cli.plan:plan_run",
    "tune": "gpm.cli.tune:tune",
    "import": "gpm.cli.import_:import_run",
    "doctor": "gpm.cli.doctor:doctor",
    "recipes": "gpm.cli.recipes:list_recipes",
    "reproduce": "gpm.cli.reproduce:reproduce",
    "data": "gpm.cli.datasets:data",
    "patterns": "gpm.cli.patterns:patterns",
    "demo": "gpm.cli.demo:demo",
    "info": "gpm.cli.info:info",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code: 0, 2 for a mistake in the input, 130 for an interruption."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words or words[0] in ("-h", "--help"):
        print(_usage())
        return 0
    if words[0] == "--version":
        print(__version__)
        return 0
    command = words[0]
    if command not in COMMANDS:
        hint = nearest(command, COMMANDS)
        print(f"gpm: There is no command {command!r}.{hint} Commands: {', '.join(COMMANDS)}.", file=sys.stderr)
        return 2
    try:
        from gpm.io.publish import sigterm_raises

        with sigterm_raises(KeyboardInterrupt()):  # so that half-written files are removed
            return _run(command, words[1:])
    except KeyboardInterrupt:
        print(f"gpm {command}: interrupted", file=sys.stderr)
        return 130


def find_function(command: str) -> tuple[Callable[..., Any], str]:
    """Import the function of a verb; return it with the first line of its docstring."""
    module, _, name = COMMANDS[command].partition(":")
    function: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return function, (function.__doc__ or "").partition("\n")[0]


def _usage() -> str:
    lines = [f"gpm {__version__}: graph learning without message passing", "", "usage: gpm COMMAND [arguments]", ""]
    lines += [f"  {command:<10} {find_function(command)[1]}" for command in COMMANDS]
    return "\n".join([*lines, "", "gpm COMMAND --help explains a command."])


def _run(command: str, words: list[str]) -> int:
    """Parse the arguments of a verb and call its function; errors become one sentence and exit code 2."""
    from jsonargparse import ArgumentError

    from gpm.cli.arguments import Arguments

    logging.basicConfig(format="%(message)s")
    logging.getLogger("gpm").setLevel(logging.INFO)
    function, about = find_function(command)
    arguments = Arguments(command, about, function)
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
