"""Ablations: where leaving a part out makes a difference in the paper, does it make the same one here?"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from gpm.reproduce.figures import Cells
from gpm.reproduce.measures import measure
from gpm.reproduce.paper_tables import Cell, Table
from gpm.reproduce.records import Record

WITHIN, ALONE = ", within one standard error", ", one seed"


@dataclass(frozen=True)
class Sign:
    """A difference between a row and the first row of its table, in the paper and here."""

    column: str
    row: str
    paper: float
    here: float  # mean over seeds, each beside its own split
    error: float  # standard error of `here`; NaN of one seed

    @property
    def verdict(self) -> str:
        """Return same, opposite or none; and whether the difference is within its standard error, or of one seed."""
        word = "none" if round(self.here, 2) == 0 else "same" if self.here * self.paper > 0 else "opposite"
        if math.isnan(self.error):
            return f"{word}{ALONE}"
        return f"{word}{WITHIN}" if 0 < abs(self.here) <= self.error else word


def compare_signs(table: Table, cells: Cells) -> list[Sign]:
    """Compare the differences of a table that exceed both of their deviations in the paper and were measured here."""
    base, *rows = table.ours
    found = []
    for row in rows:
        for number, column in enumerate(table.columns):
            paper = _subtract(_published(table, row.beside, number), _published(table, base.beside, number))
            here = _subtract_by_seed(cells[row.name, column.title], cells[base.name, column.title])
            if paper and here:
                error = statistics.stdev(here) / math.sqrt(len(here)) if len(here) > 1 else math.nan
                found.append(Sign(column.title, row.name, paper, statistics.fmean(here), error))
    return found


def _published(table: Table, name: str, number: int) -> Cell:
    row = table.published(name)
    return row.cells[number] if row else None


def _subtract(cell: Cell, base: Cell) -> float:
    """Return a difference, or 0 if it lies within a standard deviation."""
    if not isinstance(cell, tuple) or not isinstance(base, tuple):
        return 0.0
    apart = cell[0] - base[0]
    return apart if abs(apart) > max(cell[1], base[1]) else 0.0


def _subtract_by_seed(found: Sequence[Record], base: Sequence[Record]) -> list[float]:
    one, other = (
        {record["seed"]: value for record, value in zip(some, measure(some, "test"), strict=True)}
        for some in (found, base)
    )
    return [one[seed] - other[seed] for seed in sorted(one.keys() & other.keys())]


def describe_signs(table: Table, cells: Cells) -> list[str]:
    """Return the lines of a page; none for a table that is not an ablation, or of which nothing was run."""
    signs = compare_signs(table, cells) if table.ablation and table.show == ("test",) else []
    if not signs:
        return []
    counts = Counter(sign.verdict for sign in signs)
    return [
        "## Signs",
        "",
        "Differences from the first row that are, in the paper, larger than the standard deviation of either row, and",
        "were measured here. *Here*: mean and standard error of the differences of each seed.",
        "",
        f"Sign here, of {len(signs)}: {'; '.join(f'{word} {count}' for word, count in sorted(counts.items()))}.",
        _tell_sizes(signs),
        "",
        "| dataset | row | paper | here | sign |",
        "|---|---|---|---|---|",
        *(
            f"| {sign.column} | {sign.row} | {sign.paper:+.2f} | {_show(sign)} | {sign.verdict} |"
            for sign in sorted(signs, key=lambda sign: sign.verdict)
        ),
        "",
    ]


def _tell_sizes(signs: Sequence[Sign]) -> str:
    """Say which signs are opposite for sure, and how large the differences are."""
    opposite = [f"{sign.column} {sign.row}" for sign in signs if sign.verdict == "opposite"]
    here, paper = (statistics.fmean(abs(getattr(sign, name)) for sign in signs) for name in ("here", "paper"))
    disagree = f"Opposite to the paper by more than a standard error: {', '.join(opposite) or 'none'}. "
    less = ": with this training the parts matter less" if here < paper / 1.5 else ""
    return f"{disagree}The mean size of the differences is {here:.2f} here and {paper:.2f} in the paper{less}."


def _show(sign: Sign) -> str:
    return f"{sign.here:+.2f}" + ("" if math.isnan(sign.error) else f" ± {sign.error:.2f}")
