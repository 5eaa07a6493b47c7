"""The page of explanations: one HTML file that opens in any browser without a network."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from gpm.errors import GpmError
from gpm.explain.explanation import Explanation, ScoredPattern
from gpm.explain.layout import places
from gpm.explain.page_shell import assemble_page, check_page, read_asset
from gpm.io.atomic import write_text

_SCRIPTS = ("page_draw.js", "page_graph.js", "page_list.js", "page_tell.js", "page.js")
# In a script these could end it, begin another, or be the end of a line.
_UNSAFE = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}


def write_page(explanations: Sequence[Explanation], path: Path) -> None:
    """Write the page of one explanation, or of several among which the reader chooses, to an .html file."""
    check_page(path)
    write_text(path, page_text(explanations))


def page_text(explanations: Sequence[Explanation]) -> str:
    """Return the page as text, with style, script and data inside."""
    if not explanations:
        raise GpmError("A page needs at least one explanation.")
    parts = "\n".join(read_asset("gpm.explain", name) for name in _SCRIPTS)
    return assemble_page(
        "gpm.explain",
        title=explanations[0].headline,
        style=read_asset("gpm.explain", "page.css"),
        script=f'(() => {{\n"use strict";\n{parts}}})();\n',  # no name of theirs is global
        plain="\n".join(e._repr_html_() for e in explanations),
        data=_data(explanations),
    )


def _data(explanations: Sequence[Explanation]) -> str:
    content = [_finite(e.to_dict()) for e in explanations]
    for entry, explanation in zip(content, explanations, strict=True):
        entry["best"] = len(explanation.patterns)
        entry["patterns"] += entry.pop("others")  # shown when their class is chosen
        for shown, pattern in zip(entry["patterns"], (*explanation.patterns, *explanation.others), strict=True):
            shown |= {"label": pattern.label, "places": _places(pattern)}
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False).translate(_UNSAFE)


def _places(pattern: ScoredPattern) -> list[tuple[float, float]]:
    """Place the nodes of a pattern around the origin, in the order in which the walk meets them."""
    if pattern.expected:
        return []
    order = {v: i for i, v in enumerate(dict.fromkeys(pattern.walk))}
    return _shape_places(len(order), frozenset((order[a], order[b]) for a, b in pattern.edges))


@lru_cache(maxsize=4096)  # most patterns of an explanation have one of a few shapes
def _shape_places(nodes: int, edges: frozenset[tuple[int, int]]) -> list[tuple[float, float]]:
    return [(round(float(x), 3), round(float(y), 3)) for x, y in places(nodes, sorted(edges))]


def _finite(value: Any) -> Any:
    """Replace numbers that JSON does not have by None."""
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
