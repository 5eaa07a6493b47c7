"""Print explanations and save them in a folder."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any
from zlib import crc32

from gpm.explain.explanation import Explanation, Overview
from gpm.graph.names import join_names
from gpm.io.atomic import write_json
from gpm.io.table_files import write_table

JSON, TABLE, PAGE = "explanation.json", "patterns.csv", "index.html"
_LONGEST = 48  # characters of a file's name


def tell(explanation: Explanation) -> list[str]:
    """Return an explanation as lines to print."""
    e = explanation
    lines = [f"{e.headline} (label: {e.truth})" if e.truth else e.headline]
    lines.append(f"{e.found} patterns in {e.walks} walks, scored by {e.method}; the best {len(e.patterns)}:")
    width = max((len(p.label) for p in e.patterns), default=0)
    for rank, p in enumerate(e.patterns, 1):
        figures = f"{rank:>4}  {p.score:>8.3g} ± {p.spread:<7.2g} {p.label:<{width}}"
        drawn = f"{'exact':<16}" if p.expected else f"{p.count:>3} of length {p.scale:<2} "
        lines.append(f"{figures}  {drawn}{e.argument(p):<18} {p.subject}".rstrip())
    return [make_printable(line) for line in (*lines, *tell_trust(e))]


def make_printable(line: str) -> str:
    """Escape control characters, which could steer a terminal: names are untrusted."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in line)


def tell_trust(explanation: Explanation) -> list[str]:
    """Describe how far to trust an explanation."""
    trust, answer = explanation.trust, explanation.answer

    def show(value: float) -> str:
        return f"{value:.4g}" if explanation.kind == "value" else f"{value:.1%}"

    lines = [
        f"{explanation.strength.word} evidence. {explanation.strength.reason}",
        f"without the best tenth of the patterns {show(answer)} becomes {show(answer - trust.drop)}; without "
        f"equally many random walks of every length, {show(answer - trust.random_drop)}",
    ]
    if len(trust.edges.top) > 1:
        count, some = int(trust.edges.share[-1]), trust.edges
        lines.append(
            f"without the edges of the best {count} patterns it becomes {show(some.top[-1])}; without the edges of "
            f"random patterns, {show(some.random[-1])}"
        )
    return [
        *lines,
        f"over {trust.draws} redraws: two draws share {trust.overlap:.0%} of their best patterns, mean cosine of their "
        f"scores {trust.stability:.2f}",
    ]


def save_explanations(explanations: Sequence[Explanation], folder: Path) -> Path:
    """Write explanations as JSON, as a table of patterns, as figures (PNG and SVG) and as one page; return the page."""
    from gpm.explain.figure import save_figure
    from gpm.explain.page import write_page

    write_json(folder / JSON, {"format": 1, "explanations": [e.to_dict() for e in explanations]})
    write_table(folder / TABLE, tabulate(explanations))
    for e, name in zip(explanations, file_names(explanations), strict=True):
        for kind in ("png", "svg"):
            save_figure(e, folder / f"{name}.{kind}")
    write_page(explanations, folder / PAGE)
    return folder / PAGE


def tabulate(explanations: Sequence[Explanation]) -> dict[str, list[Any]]:
    """Return the patterns of all explanations as a table by column."""
    rows = [
        {
            "instance": e.name, "rank": rank, "shape": p.shape, "content": p.content, "score": p.score,
            "spread": p.spread, "again": p.again, "argues": e.argument(p), "without": p.without, "length": p.scale,
            "walks": p.count, "path": join_names(p.names), "expected": p.expected,
        }
        for e in explanations for rank, p in enumerate(e.patterns, 1)
    ]  # fmt: skip
    return {key: [row[key] for row in rows] for key in rows[0]} if rows else {}


def file_name(text: str) -> str:
    """Return a file name that any file system takes; a name that had to be changed gets a checksum."""
    plain = text.replace(" ", "-")
    safe = re.sub(r"[^\w-]+", "-", plain).strip("-")[:_LONGEST]
    if safe and safe == plain:
        return safe
    return f"{safe or 'instance'}-{crc32(text.encode('utf-8', 'surrogatepass')):08x}"


def file_names(explanations: Sequence[Explanation]) -> list[str]:
    """Name the figure of each explanation; all names differ, also where case does not count."""
    names: list[str] = []
    for e in explanations:
        name, again = file_name(e.name), 2
        while name.lower() in (other.lower() for other in names):
            name, again = f"{file_name(e.name)}-{again}", again + 1
        names.append(name)
    return names


def tell_overview(overview: Overview) -> list[str]:
    """Return an overview as lines to print."""
    lines = []
    for name, count in overview.instances.items():
        rows = [share for share in overview.shares if share.predicted == name]
        nothing = f"no walk carries evidence; gpm explain RUN --{overview.level} shows what does"
        few = "too few to tell" if overview.shares else nothing
        what = "share of the evidence, of the walks, and lift" if rows else few
        lines.append(f"{name} ({count} {overview.level}s): {what}")
        width = max((len(row.label) for row in rows), default=0)
        for row in rows:
            carried = f"{row.carried:>6.1%} [{row.low:.1%}, {row.high:.1%}]"
            lift = f"{row.lift:.2f}x [{row.lift_low:.2f}, {row.lift_high:.2f}]"
            lines.append(f"  {row.label:<{width}}  {carried:<23} {row.chance:>6.1%}  {lift}")
    return lines


def save_overview(overview: Overview, folder: Path) -> Path:
    """Write an overview as JSON, as a table and, if it has shapes, as figures; return the PNG, or else the table."""
    from gpm.explain.overview_figure import save_overview_figure

    for kind in ("svg", "png") if overview.shares else ():
        save_overview_figure(overview, folder / f"overview.{kind}")
    write_json(folder / "overview.json", {"format": 1} | asdict(overview))
    columns = ("predicted", "shape", "content", "carried", "low", "high", "chance", "lift", "lift_low", "lift_high")
    write_table(folder / "overview.csv", {key: [getattr(row, key) for row in overview.shares] for key in columns})
    return folder / ("overview.png" if overview.shares else "overview.csv")
