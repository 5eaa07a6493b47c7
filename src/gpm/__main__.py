"""The command `gpm`: one verb, one function; its docstring is the help."""

from __future__ import annotations

import importlib
import inspect
import logging
import os
import re
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from gpm.errors import nearest

if TYPE_CHECKING:
    from jsonargparse import ArgumentParser

COMMANDS = {
    "patterns": ("gpm.frequent", "Show the most frequent patterns of a graph, or around one node, and draw them."),
    "info": ("gpm.info", "Print versions, devices, kernel, threads and the data root."),
}


def _usage() -> str:
    from gpm import __version__

    lines = [f"gpm {__version__}: graph learning without message passing", "", "usage: gpm COMMAND [arguments]", ""]
    lines += [f"  {name:<10} {help_}" for name, (_, help_) in COMMANDS.items()]
    return "\n".join([*lines, "", "gpm COMMAND --help tells more."])


def _function(command: str) -> Callable[..., Any]:
    function: Callable[..., Any] = getattr(importlib.import_module(COMMANDS[command][0]), command)
    return function


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code: 0, 2 for a mistake in the input, 130 for an interruption."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if not given or given[0] in ("-h", "--help"):
        print(_usage())
        return 0
    if given[0] == "--version":
        from gpm import __version__

        print(__version__)
        return 0
    command = given[0]
    if command not in COMMANDS:
        hint = nearest(command, COMMANDS)
        print(f"gpm: there is no command {command!r}.{hint} Commands: {', '.join(COMMANDS)}.", file=sys.stderr)
        return 2
    try:
        return _run(command, given[1:])
    except KeyboardInterrupt:
        print(f"gpm {command}: interrupted", file=sys.stderr)
        return 130


def _run(command: str, arguments: list[str]) -> int:
    from jsonargparse import ArgumentError, ArgumentParser

    from gpm.errors import GpmError

    logging.basicConfig(format="%(message)s")
    logging.getLogger("gpm").setLevel(logging.INFO)
    function = _function(command)
    parser = ArgumentParser(prog=f"gpm {command}", description=COMMANDS[command][1], exit_on_error=False)
    parser.add_function_arguments(function, as_positional=True)
    try:
        parsed = parser.parse_args(_spell_out(arguments, function))
        function(**parsed.as_dict())
    except BrokenPipeError:  # whoever read our output has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except GpmError as error:
        return _complain(command, str(error))
    except ArgumentError as error:
        return _complain(command, _reword(str(error), parser))
    except OSError as error:
        return _complain(command, f"{error.filename or 'a file'}: {error.strerror or error}.")
    except MemoryError:
        return _complain(command, "there is not enough memory for this; ask for fewer or shorter samples.")
    except SystemExit as stop:  # --help
        return int(stop.code or 0)
    return 0


def _complain(command: str, sentence: str) -> int:
    print(f"gpm {command}: {sentence}", file=sys.stderr)
    return 2


def _reword(message: str, parser: ArgumentParser) -> str:
    """Say what the parser found in one sentence that names the flag."""
    message = " ".join(message.split()).rstrip(".")
    shown = (action for action in parser._actions if action.dest not in ("help", "print_shtab"))
    flags = [flag for action in shown for flag in action.option_strings if re.fullmatch(r"--[a-z_]+", flag)]
    if unknown := re.match(r"[Uu]nrecognized arguments: (--\w+)", message):
        return f"there is no flag {unknown[1]!r}.{nearest(unknown[1], flags)} Flags: {', '.join(sorted(flags))}."
    message = re.sub(r"Parser key \"(\w+)\": ", r"--\1: ", message)
    message = re.sub(r"Expected an? (?:<class '(\w+)'>|typing\.Literal\[(.*?)\]|(\w+))", r"expected \1\2\3", message)
    return message.replace(". Got value: ", ", got ") + "."


def _spell_out(arguments: Sequence[str], function: Callable[..., Any]) -> list[str]:
    """Allow what people type: `-o` for `--out`, `--a-b` for `--a_b`, `--flag` for `--flag true`, `--list 1 2`."""
    types = {key: str(p.annotation) for key, p in inspect.signature(function).parameters.items()}
    waiting, spelled = list(arguments), []
    while waiting:
        word = waiting.pop(0)
        word = "--out" + word[2:] if word == "-o" or word.startswith("-o=") else word
        name, has_value, value = word.partition("=")
        if not name.startswith("--"):
            spelled.append(word)
            continue
        key = name[2:].replace("-", "_")
        values = [value] if has_value else []
        if types.get(key, "").startswith("list") and not value.startswith("["):
            while not has_value and waiting and re.fullmatch(r"-?[\d.,]+", waiting[0]):
                values.append(waiting.pop(0))
            values = [f"[{','.join(values)}]"] if values else []
        elif types.get(key) == "bool" and not has_value:
            values = [waiting.pop(0)] if waiting and waiting[0].lower() in ("true", "false") else ["true"]
        spelled.append(f"--{key}={values[0]}" if values else f"--{key}")
    return spelled


if __name__ == "__main__":
    sys.exit(main())
