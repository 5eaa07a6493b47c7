"""Arguments of a verb: its parameters and options classes as flags, in all the spellings that people type."""

from __future__ import annotations

import inspect
import itertools
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import docstring_parser
from jsonargparse import ArgumentParser

from gpm.config import Options, declared, default_of, describe_option
from gpm.errors import nearest


class Arguments:
    """The arguments of a verb.

    A parameter of its function without a default is positional; any other is a flag with the help of the docstring. The
    fields of its options classes (see `gpm.config.accepts`) are flags in one titled group per class, and only those
    that the user names are passed on.
    """

    def __init__(self, command: str, about: str, function: Callable[..., Any]) -> None:
        self.parser = ArgumentParser(prog=f"gpm {command}", description=about, exit_on_error=False, allow_abbrev=False)
        self.options: set[str] = getattr(function, "taken", set())
        self.types: dict[str, Any] = {}
        parameters = inspect.signature(function).parameters.values()
        self.own = [each for each in parameters if each.name not in self.options and each.kind is not each.VAR_KEYWORD]
        hints = get_type_hints(function)
        texts = {each.arg_name: each.description for each in docstring_parser.parse(function.__doc__ or "").params}
        for each in self.own:
            self._add(self.parser, each.name, hints[each.name], texts.get(each.name), each.default)
        for cls in getattr(function, "option_classes", ()):
            for group in reversed([base for base in cls.__mro__ if issubclass(base, Options)]):
                names = [name for name in declared(group) if name in self.options and name not in self.types]
                titled = self.parser.add_argument_group(inspect.cleandoc(group.__doc__ or "").partition("\n")[0])
                for name in names:
                    entry, hint = declared(group)[name]
                    self._add(titled, name, hint, describe_option(entry), default_of(entry))
        words = [each.name.upper() if each.default is each.empty else f"[{each.name.upper()}]" for each in self.own[:1]]
        self.parser.usage = " ".join([f"gpm {command}", *words, "[flags]"])

    def _add(self, group: Any, name: str, hint: Any, about: str | None, default: Any) -> None:
        hint = Path | None if hint is Any else hint  # in Python also a table in memory
        self.types[name] = hint
        if default is inspect.Parameter.empty:
            group.add_argument(name, type=hint, help=about)
        else:
            group.add_argument(f"--{name}", type=hint, help=about, default=default)

    def parse(self, words: Sequence[str]) -> dict[str, Any]:
        """Return the arguments of the function; the help shows the defaults of the recipe that the user names."""
        spelled = self._spell(words)
        source = next((word.partition("=")[2] for word in spelled if word.startswith("--source=")), "")
        if source and "epochs" in self.options:
            from gpm.training.recipes import find_recipe

            values = recipe.config.to_dict() if (recipe := find_recipe(source)) is not None else {}
            self.parser.set_defaults({key: value for key, value in values.items() if key in self.options})
        values = self.parser.parse_args(spelled).as_dict()
        named = {word[2:].partition("=")[0] for word in spelled}
        return {key: value for key, value in values.items() if key in named or key not in self.options}

    def reword(self, message: str) -> str:
        """Turn a message of the parser into one sentence that names the flag."""
        message = " ".join(message.split()).rstrip(".")
        flags = [f"--{name}" for name in self.types if f"--{name}" in self.parser._option_string_actions]
        if unknown := re.match(r"[Uu]nrecognized arguments: (--\w+)", message):
            listed = f" Flags: {', '.join(sorted(flags))}." if flags else " This command has none."
            return f"There is no flag {unknown[1]!r}.{nearest(unknown[1], flags)}{listed}"
        message = re.sub(r"Parser key \"(\w+)\": ", r"--\1: ", message)
        union = r"Does not validate against any of the Union subtypes.*?<class '(\w+)'>.*Given value: (.*)"
        message = re.sub(union, r"expected \1, got \2", message)
        message = re.sub(
            r"Expected an? (?:<class '(\w+)'>|typing\.Literal\[(.*?)\]|(\w+))", r"expected \1\2\3", message
        )
        message = message.replace(". Got value: ", ", got ")
        return f"{message[0].upper()}{message[1:]}."

    def _spell(self, words: Sequence[str]) -> list[str]:
        """Allow `-o` for `--out`, `--a-b` for `--a_b`, `--flag` for `--flag true`, and `--list 1 2`."""
        waiting, spelled, listed = list(words), list[str](), dict[str, list[str]]()
        # The parser has no positional with a default: bare words are the values of the first parameters, in order, as
        # long as these are text.
        own = [each for each in self.own if each.kind is each.POSITIONAL_OR_KEYWORD]
        bare = [each.name for each in itertools.takewhile(lambda each: each.default == "", own)] or [
            each.name for each in own[:1] if each.default is not each.empty
        ]
        while waiting:
            word = waiting.pop(0)
            word = "--out" + word[2:] if word == "-o" or word.startswith("-o=") else word
            name, has_value, value = word.partition("=")
            if (
                not name.startswith("--")
                and bare
                and not word.startswith("-")
                and get_origin(self.types[bare[0]]) is list
            ):
                waiting[:0] = [f"--{bare[0]}={word}"]  # as many as there are
                continue
            if not name.startswith("--"):
                spelled.append(f"--{bare.pop(0)}={word}" if bare and not word.startswith("-") else word)
                continue
            key = name[2:].replace("-", "_")
            hint = self.types.get(key)
            many, numbers = get_origin(hint) is list, get_args(hint)[:1] in ((int,), (float,))
            if many and not has_value and waiting and _is_list(waiting[0]):
                has_value, value = "=", waiting.pop(0)
            values = [value] if has_value else []
            if many and not (numbers and _is_list(value)):
                pattern = r"-?[\d.,]+" if numbers else r"(?!-[^\d]).*"
                while not has_value and waiting and re.fullmatch(pattern, waiting[0]):
                    values.append(waiting.pop(0))
                if numbers:
                    values = [f"[{','.join(values)}]"] if values else []
                elif values:  # a flag of names that is repeated adds to the earlier ones
                    more = list(map(str, json.loads(value))) if _is_list(value) else values
                    listed[key] = listed.get(key, []) + more
                    spelled = [word for word in spelled if not word.startswith(f"--{key}=")]
                    values = [json.dumps(listed[key])]
            elif hint in (bool, bool | None) and not has_value:
                values = [waiting.pop(0)] if waiting and waiting[0].lower() in ("true", "false") else ["true"]
            elif hint is not None and not has_value and waiting and not re.match(r"--|-o$|-o=", waiting[0]):
                values = [waiting.pop(0)]
            spelled.append(f"--{key}={values[0]}" if values else f"--{key}")
        return spelled


def _is_list(text: str) -> bool:
    """Return whether a text is a JSON list, such as "[1, 2]", and not a name in brackets."""
    if not text.startswith("["):
        return False
    try:
        return isinstance(json.loads(text), list)
    except ValueError:
        return False
