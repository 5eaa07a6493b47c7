"""YAML from anywhere as plain values: keys and lists as they are written, no aliases, no tags, no surprises."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from gpm.errors import GpmError

MOST_BYTES = 32 * 2**20  # far above what a description of 100,000 columns needs
_LEVELS = 8  # deeper than any such file is nested
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def read_yaml(path: Path) -> Any:
    """The values in a YAML file, which is data: nothing in it is executed, and a small file stays small in memory.

    Keys and members of lists are text as it is written, so that a column `1:30` or a category `no` is just that. The
    same key twice is an error, where YAML would silently keep the last.
    """
    try:
        if path.stat().st_size > MOST_BYTES:
            raise GpmError(f"{path} has more than {MOST_BYTES // 2**20} MB; it is not a file that gpm wrote.")
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise GpmError(f"{path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError as error:
        raise GpmError(f"{path} is not UTF-8 text ({error.reason}); save it as UTF-8.") from None
    try:
        _check_events(text, path)
        loader = _LOADER(text)
        try:
            node = loader.get_single_node()
            return None if node is None else _values(node, loader, path)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        line = "" if error.problem_mark is None else f", line {error.problem_mark.line + 1}"
        raise GpmError(f"{path}{line}: not YAML ({error.problem}); mend the line.") from None
    except yaml.YAMLError as error:
        raise GpmError(f"{path} is not YAML ({str(error).splitlines()[0]}); mend it.") from None


def dump_yaml(values: Any) -> str:
    """Plain values as YAML; a mapping of plain values takes one line."""
    options: dict[str, Any] = {"sort_keys": False, "allow_unicode": True, "width": 120, "default_flow_style": None}
    return str(yaml.dump(values, Dumper=_DUMPER, **options))


def _check_events(text: str, path: Path) -> None:
    """Refuse, before anything is built, what makes much of little: aliases, tags and deep nesting."""
    level = 0
    for event in yaml.parse(text, Loader=_LOADER):
        line = event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) or getattr(event, "tag", None):
            raise GpmError(f"{path}, line {line}: a word that begins with '&', '*' or '!' must be in quotes.")
        level += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if level > _LEVELS:
            raise GpmError(f"{path}, line {line}: nested too deep; mend the brackets or the indentation.")


def _values(node: yaml.Node, loader: Any, path: Path) -> Any:
    if isinstance(node, yaml.MappingNode):
        found: dict[str, Any] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                raise GpmError(f"{path}, line {line}: a key must be a word, not a list; put it in quotes.")
            if key.value in found:
                raise GpmError(f"{path}, line {line}: the key {key.value[:60]!r} is there twice; remove one.")
            found[key.value] = _values(value, loader, path)
        return found
    if isinstance(node, yaml.SequenceNode):
        return [x.value if isinstance(x, yaml.ScalarNode) else _values(x, loader, path) for x in node.value]
    try:
        return loader.construct_object(node)
    except ValueError as error:  # a date that there is not, or a number of thousands of digits
        line = node.start_mark.line + 1
        raise GpmError(f"{path}, line {line}: {str(node.value)[:60]!r} cannot be read ({error}).") from None
