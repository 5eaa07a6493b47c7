"""Pieces of pages that need no script: rows of bars, tables, and numbers that programs can read too."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence


def show_row(name: str, number: str, bar: str, about: str, kind: str = "") -> str:
    """Return an entry of a list of bars."""
    head = f'<li{kind}><span class="name">{name}</span><span class="number">{number}</span>'
    return f"{head}{bar}<small>{about}</small></li>"


def draw_meter(value: float, mark: float | None, label: str, kind: str = "", *, thin: bool = False) -> str:
    """Draw a bar over a share of the width, with a mark at another share."""
    width, tick = (100 * min(max(each or 0.0, 0.0), 1.0) for each in (value, mark))
    line = "" if mark is None else f'<line class="tick" x1="{tick:.2f}" x2="{tick:.2f}" y1="-2" y2="14"/>'
    return (
        f'<svg class="meter {kind}{" thin" * thin}" viewBox="0 0 100 12" preserveAspectRatio="none" role="img" '
        f'aria-label="{html.escape(label)}"><rect class="track" width="100" height="12"/>'
        f'<rect class="full" width="{width:.2f}" height="12"/>{line}</svg>'
    )


def show_number(value: float, form: str = "{:,}") -> str:
    """Show a number in a form, and give it in full to programs that read the page."""
    return f'<data value="{value!r}">{form.format(value)}</data>'


def make_table(head: Sequence[str], rows: Iterable[Sequence[str]], texts: int = 1) -> str:
    """Make a table whose first columns, one or more, are text and whose others are numbers."""

    def line(tag: str, cells: Sequence[str]) -> str:
        kinds = [""] * texts + [' class="number"'] * (len(cells) - texts)
        return f"<tr>{''.join(f'<{tag}{kind}>{cell}</{tag}>' for kind, cell in zip(kinds, cells, strict=True))}</tr>"

    body = "".join(line("td", row) for row in rows)
    return f"<table><thead>{line('th', head)}</thead><tbody>{body}</tbody></table>"
