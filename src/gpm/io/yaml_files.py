"""Read YAML from anywhere as plain values: no aliases, no tags, no repeated keys; nothing in it is executed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from gpm.errors import GpmError
from gpm.io.atomic import check_plain

OPTIONS_BYTES, SCHEMA_BYTES = 100_000, 32 * 2**20  # far above what a file of options or 100,000 columns needs
_MAX_DEPTH, _MAX_DIGITS = 8, 400
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_INTEGER = "tag:yaml.org,2002:int"


def read_options(path: Path) -> dict[str, Any]:
    """Read a YAML file of `key: value`, which must not be a link."""
    check_plain(path)
    content = parse_yaml(_read_text(path, OPTIONS_BYTES), path)
    if not isinstance(content, dict):
        raise GpmError(f"{path} holds no options; each line must be 'key: value'.")
    return content


def read_schema_yaml(path: Path) -> Any:
    """Read a YAML file whose keys and list members are text as written, such as a column `1:30` or a category `no`."""
    return parse_yaml(_read_text(path, SCHEMA_BYTES), path, verbatim=True)


def parse_yaml(text: str, source: str | Path, *, verbatim: bool = False) -> Any:
    """Return the values in a YAML text, which errors call by its source; `verbatim` keeps list members as text."""
    try:
        _check_events(text, source)
        loader = _LOADER(text)
        try:
            node = loader.get_single_node()
            return None if node is None else _values(node, loader, source, verbatim)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        line = "" if error.problem_mark is None else f", line {error.problem_mark.line + 1}"
        raise GpmError(f"{source}{line}: not YAML ({error.problem}); fix the line.") from None
    except yaml.YAMLError as error:
        raise GpmError(f"{source} is not YAML ({str(error).splitlines()[0]}); fix it.") from None


def dump_yaml(values: Any) -> str:
    """Return plain values as YAML; a mapping of plain values takes one line."""
    options: dict[str, Any] = {"sort_keys": False, "allow_unicode": True, "width": 120, "default_flow_style": None}
    return str(yaml.dump(values, Dumper=_DUMPER, **options))


def _read_text(path: Path, max_bytes: int) -> str:
    try:
        if (size := path.stat().st_size) > max_bytes:
            raise GpmError(f"{path} has more than {max_bytes:,} bytes ({size:,}); gpm does not read such a file.")
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise GpmError(f"{path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError as error:
        raise GpmError(f"{path} is not UTF-8 text ({error.reason}); save it as UTF-8.") from None


def _check_events(text: str, source: str | Path) -> None:
    """Refuse, before anything is built, what makes much of little: aliases, tags and deep nesting."""
    depth = 0
    for event in yaml.parse(text, Loader=_LOADER):
        line = event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) or getattr(event, "tag", None):
            raise GpmError(f"{source}, line {line}: a word that begins with '&', '*' or '!' must be in quotes.")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _MAX_DEPTH:
            raise GpmError(f"{source}, line {line}: nested too deep; fix the brackets or the indentation.")


def _values(node: yaml.Node, loader: Any, source: str | Path, verbatim: bool) -> Any:
    line = node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        mapping: dict[Any, Any] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                raise GpmError(f"{source}, line {line}: a key must be a word, not a list; put it in quotes.")
            if key.value in mapping:
                raise GpmError(f"{source}, line {line}: the key {key.value[:60]!r} is there twice; remove one.")
            mapping[key.value] = _values(value, loader, source, verbatim)
        return mapping
    if isinstance(node, yaml.SequenceNode):
        scalar = yaml.ScalarNode if verbatim else ()
        return [x.value if isinstance(x, scalar) else _values(x, loader, source, verbatim) for x in node.value]
    if node.tag == _INTEGER and len(node.value) > _MAX_DIGITS:
        raise GpmError(f"{source}, line {line}: a number has more than {_MAX_DIGITS} digits.")
    if node.tag == _INTEGER and ":" in node.value:
        return node.value  # YAML would read it to the base of 60
    try:
        return loader.construct_object(node)
    except ValueError as error:  # such as a date that does not exist
        raise GpmError(f"{source}, line {line}: {str(node.value)[:60]!r} cannot be read ({error}).") from None
