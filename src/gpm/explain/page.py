"""The page: explanations in one HTML file that opens anywhere, asks nothing of any network, and takes names as text."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
from collections.abc import Sequence
from functools import lru_cache
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

from gpm.errors import GpmError
from gpm.explain.explanation import Explanation, ScoredPattern
from gpm.explain.node_styles import places
from gpm.io.atomic import write_text

_SCRIPTS = ("page_draw.js", "page_graph.js", "page_list.js", "page_tell.js", "page.js")
# In a script these could end it, begin another, or be the end of a line.
_UNSAFE = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}


def write_page(explanations: Sequence[Explanation], path: Path) -> None:
    """Write the page of one explanation, or of several among which the reader chooses; an older file stays until then.

    Args:
        explanations: What to show; the first is shown at first.
        path: Where to; its name ends in .html.
    """
    if path.suffix.lower() != ".html":
        raise GpmError(f"a page cannot be written to {str(path)!r}; let its name end in .html.")
    write_text(path, page_text(explanations))


def page_text(explanations: Sequence[Explanation]) -> str:
    """The page as text: style, script and data inside."""
    if not explanations:
        raise GpmError("a page needs at least one explanation.")
    style, script = read_part("page.css"), _script()
    text = Template(read_part("page.html")).substitute(
        policy=f"default-src 'none'; style-src {digest_part(style)}; script-src {digest_part(script)}; img-src data:; "
        "base-uri 'none'; form-action 'none'",
        title=html.escape(explanations[0].headline),
        style=style,
        plain="\n".join(_table(e) for e in explanations),
        data=_data(explanations),
        script=script,
    )
    return text.encode("utf-8", "replace").decode("utf-8")  # a name may hold half a letter, which no file can


def read_part(name: str) -> str:
    """A part of the page: its style, its script or its frame."""
    return resources.files("gpm.explain").joinpath(name).read_text(encoding="utf-8")


def _script() -> str:
    """All parts as one, in a function of their own so that no name of theirs is global."""
    return '(() => {\n"use strict";\n' + "\n".join(read_part(name) for name in _SCRIPTS) + "})();\n"


def digest_part(text: str) -> str:
    """What lets a browser run this script, or use this style, and no other."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _data(explanations: Sequence[Explanation]) -> str:
    content = [_finite(e.to_dict()) for e in explanations]
    for told, explanation in zip(content, explanations, strict=True):
        told["best"] = len(explanation.patterns)
        told["patterns"] += told.pop("others")  # which come when their class is chosen
        for entry, pattern in zip(told["patterns"], (*explanation.patterns, *explanation.others), strict=True):
            entry |= {"label": pattern.label, "places": _places(pattern)}
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False).translate(_UNSAFE)


def _places(pattern: ScoredPattern) -> list[tuple[float, float]]:
    """Where to draw its nodes, around the origin, in the order in which the walk meets them."""
    order = {v: i for i, v in enumerate(dict.fromkeys(pattern.walk))}
    return _shape_places(len(order), frozenset((order[a], order[b]) for a, b in pattern.edges))


@lru_cache(maxsize=4096)  # most patterns of an explanation are of a few shapes
def _shape_places(nodes: int, edges: frozenset[tuple[int, int]]) -> list[tuple[float, float]]:
    return [(round(float(x), 3), round(float(y), 3)) for x, y in places(nodes, sorted(edges))]


def _finite(value: Any) -> Any:
    """The same without numbers that JSON does not have."""
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _table(explanation: Explanation) -> str:
    """The ranked patterns for browsers without scripts."""
    head = ["rank", "pattern", "walk", "score", "spread", "steps", "walks", "without it"]
    rows = [
        [
            str(rank),
            p.label,
            " → ".join(p.names),
            f"{p.score:.4g}",
            f"{p.spread:.2g}",
            str(p.scale),
            str(p.count),
            f"{p.without:.4g}" if explanation.kind == "value" else f"{p.without:.1%}",
        ]
        for rank, p in enumerate(explanation.patterns, 1)
    ]
    cells = "\n".join(f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    known = f"; known answer: {explanation.truth}" if explanation.truth else ""
    about = f"{explanation.data}{known}; scores by {explanation.method}, seed {explanation.seed}"
    return (
        f"<h2>{html.escape(explanation.headline)}</h2>\n<p>{html.escape(about)}</p>\n"
        f"<table><thead><tr>{''.join(f'<th>{name}</th>' for name in head)}</tr></thead>\n<tbody>{cells}</tbody></table>"
    )
