"""The command `gpm`: one verb, one function; its docstring is the help."""

from __future__ import annotations

import importlib
import inspect
import itertools
import json
import logging
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from gpm.errors import nearest

if TYPE_CHECKING:
    from jsonargparse import ArgumentParser

COMMANDS = {
    "train": (
        "gpm.cli.verbs:train_run",
        "Train a model on nodes, links or graphs, score it and save it all in a run folder.",
    ),
    "evaluate": ("gpm.cli.verbs:evaluate_run", "Score a trained model again, on a part of its split."),
    "predict": (
        "gpm.cli.verbs:predict_run",
        "Write what a model says of nodes, pairs of nodes or graphs, with probabilities.",
    ),
    "explain": (
        "gpm.cli.verbs:explain_run",
        "Say which patterns a prediction rests on, and how far to believe it; draw them and write a page.",
    ),
    "shift": (
        "gpm.cli.verbs:shift_run",
        "Say how far the target of a run is from its source, how the model fares there and which patterns both have.",
    ),
    "embed": ("gpm.cli.verbs:embed_run", "Write the embeddings of nodes or graphs that a model makes."),
    "export": (
        "gpm.run.export:export_run",
        "Write a trained model as a program of torch.export, after a check that it predicts what the run predicts.",
    ),
    "plan": (
        "gpm.cli.plan:plan_run",
        "Predict the memory and the time of a training before it is started, and say which flag would make it fit.",
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
    "recipes": ("gpm.cli.verbs:list_recipes", "List the recipes, with the paper's figures; or show one."),
    "data": (
        "gpm.cli.datasets:data",
        "List the named datasets, show what one holds, or check that its parts keep apart.",
    ),
    "patterns": (
        "gpm.patterns.frequent:patterns",
        "Show the most frequent patterns of a graph, or around one node, and draw them.",
    ),
    "demo": (
        "gpm.cli.demo:demo",
        "Train on planted motifs, score beside two baselines, and explain one prediction on a page.",
    ),
    "info": ("gpm.cli.info:info", "Print versions, devices, kernel, threads and the data root."),
}


def _usage() -> str:
    from gpm import __version__

    lines = [f"gpm {__version__}: graph learning without message passing", "", "usage: gpm COMMAND [arguments]", ""]
    lines += [f"  {name:<10} {help_}" for name, (_, help_) in COMMANDS.items()]
    return "\n".join([*lines, "", "gpm COMMAND --help tells more."])


def _function(command: str) -> Callable[..., Any]:
    module, _, name = COMMANDS[command][0].partition(":")
    function: Callable[..., Any] = getattr(importlib.import_module(module), name)
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
        with _ending_cleanly():
            return _run(command, given[1:])
    except KeyboardInterrupt:
        print(f"gpm {command}: interrupted", file=sys.stderr)
        return 130


@contextmanager
def _ending_cleanly() -> Iterator[None]:
    """Take SIGTERM as Ctrl-C: what is half-written is removed before the process ends."""

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


def _run(command: str, arguments: list[str]) -> int:
    from jsonargparse import ArgumentError, ArgumentParser

    from gpm.errors import GpmError

    logging.basicConfig(format="%(message)s")
    logging.getLogger("gpm").setLevel(logging.INFO)
    function = _function(command)
    about = COMMANDS[command][1]
    parser = ArgumentParser(prog=f"gpm {command}", description=about, exit_on_error=False, allow_abbrev=False)
    parser.add_function_arguments(function, as_positional=True, skip={"options"})
    first = next(iter(inspect.signature(function).parameters.values()), None)
    if first is not None and first.default == "":
        parser.usage = f"gpm {command} [{first.name.upper()}] [flags]"
    try:
        spelled = _spell_out(arguments, function)
        with_options = "options" in inspect.signature(function).parameters
        own = set(inspect.signature(function).parameters)  # an option of that name is the command's own
        options = _add_options(parser, spelled, own) if with_options else []
        try:
            parsed = parser.parse_args(spelled).as_dict()
        except SystemExit as stop:  # --help
            return int(stop.code or 0)
        named = {word[2:].partition("=")[0] for word in spelled}
        given = {key: parsed.pop(key) for key in options}
        function(**parsed, **{key: value for key, value in given.items() if key in named})
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
    except RuntimeError as error:
        if "memory" not in str(error):  # torch has no error of its own for a full memory
            raise
        return _complain(command, "there is not enough memory for this; take a smaller --batch, --pool or --size.")
    return 0


def _add_options(parser: ArgumentParser, spelled: Sequence[str], own: set[str]) -> list[str]:
    """Make a flag of every option; the help shows the defaults of the recipe that the user names, if it is one."""
    from gpm.config import Config, option_names
    from gpm.training.recipes import find_recipe

    parser.add_class_arguments(Config, skip={"data"} | own & set(option_names()))
    source = next((word.partition("=")[2] for word in spelled if word.startswith("--source=")), "")
    names = [name for name in option_names() if name != "data" and name not in own]
    if source and (recipe := find_recipe(source)) is not None:
        parser.set_defaults({key: value for key, value in recipe.config.to_dict().items() if key in names})
    return names


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
    if "options" in types:
        from gpm.config import Config

        types = {entry.name: str(entry.type) for entry in fields(Config)} | types
    waiting, spelled, listed = list(arguments), list[str](), dict[str, list[str]]()
    # The parser knows no positional with a default: bare words are the values of the first parameters, in order, as
    # long as these are text.
    known = list(inspect.signature(function).parameters.values())
    bare = [p.name for p in itertools.takewhile(lambda p: p.default == "", known)] or [
        p.name for p in known[:1] if p.default is not inspect.Parameter.empty
    ]
    while waiting:
        word = waiting.pop(0)
        word = "--out" + word[2:] if word == "-o" or word.startswith("-o=") else word
        name, has_value, value = word.partition("=")
        if not name.startswith("--"):
            spelled.append(f"--{bare.pop(0)}={word}" if bare and not word.startswith("-") else word)
            continue
        key = name[2:].replace("-", "_")
        if types.get(key, "").startswith("list") and not has_value and waiting and _is_list(waiting[0]):
            has_value, value = "=", waiting.pop(0)
        values = [value] if has_value else []
        numbers = "int" in types.get(key, "") or "float" in types.get(key, "")
        if types.get(key, "").startswith("list") and not (numbers and _is_list(value)):
            while not has_value and waiting and re.fullmatch(r"-?[\d.,]+" if numbers else r"(?!-[^\d]).*", waiting[0]):
                values.append(waiting.pop(0))
            if numbers:
                values = [f"[{','.join(values)}]"] if values else []
            elif values:  # names that are given again come beside the others
                listed[key] = listed.get(key, []) + (list(map(str, json.loads(value))) if _is_list(value) else values)
                spelled = [word for word in spelled if not word.startswith(f"--{key}=")]
                values = [json.dumps(listed[key])]
        elif types.get(key) == "bool" and not has_value:
            values = [waiting.pop(0)] if waiting and waiting[0].lower() in ("true", "false") else ["true"]
        elif key in types and not has_value and waiting and not re.match(r"--|-o$|-o=", waiting[0]):
            values = [waiting.pop(0)]
        spelled.append(f"--{key}={values[0]}" if values else f"--{key}")
    return spelled


def _is_list(text: str) -> bool:
    """Whether a text is a list as it stands: "[1, 2]", and not a name in brackets."""
    if not text.startswith("["):
        return False
    try:
        return isinstance(json.loads(text), list)
    except ValueError:
        return False


if __name__ == "__main__":
    sys.exit(main())
