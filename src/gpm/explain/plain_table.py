"""An explanation as a plain table of HTML, for notebooks and for browsers without scripts."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpm.explain.explanation import Explanation


def show_table(explanation: Explanation) -> str:
    """Return the verdict and the ranked patterns as HTML, for notebooks and for browsers without scripts."""
    head = ["rank", "pattern", "walk", "score", "spread", "steps", "walks", "without it"]
    form = ".4g" if explanation.kind == "value" else ".1%"
    rows = (
        (rank, p.label, p.content if p.expected else " → ".join(p.names), f"{p.score:.4g}", f"{p.spread:.2g}", p.scale,
         p.count, f"{p.without:{form}}")
        for rank, p in enumerate(explanation.patterns, 1)
    )  # fmt: skip
    cells = "\n".join(f"<tr>{''.join(f'<td>{html.escape(str(cell))}</td>' for cell in row)}</tr>" for row in rows)
    truth = f"; label: {explanation.truth}" if explanation.truth else ""
    about = f"{explanation.data}{truth}; scores by {explanation.method}, seed {explanation.seed}"
    return (
        f"<h2>{html.escape(explanation.headline)}</h2>\n<p><b>{explanation.strength.word} evidence.</b> "
        f"{explanation.strength.reason}</p>\n<p>{html.escape(about)}</p>\n"
        f"<table><thead><tr>{''.join(f'<th>{name}</th>' for name in head)}</tr></thead>\n<tbody>{cells}</tbody></table>"
    )
