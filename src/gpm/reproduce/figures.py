"""Figures of the pages: lines over the columns of a table or the sizes of its models, and training curves."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gpm.explain.figure_sheet import INK, PALE, SOFT
from gpm.io.atomic import replacing
from gpm.reproduce.measures import measure
from gpm.reproduce.paper_tables import Table
from gpm.reproduce.records import Record

# Okabe and Ito's colours, which the colour-blind can tell apart; the markers tell the lines apart without any colour.
_LINES = (
    ("#0072b2", "o"), ("#e69f00", "s"), ("#009e73", "D"), ("#cc79a7", "^"), ("#d55e00", "v"), ("#56b4e9", "P"),
    ("#4d4d4d", "X"),
)  # fmt: skip
_STYLE = {"svg.hashsalt": "gpm", "svg.fonttype": "none", "text.color": INK, "font.size": 9, "axes.edgecolor": SOFT}

Cells = Mapping[tuple[str, str], list[Record]]


def draw(table: Table, cells: Cells, path: Path) -> bool:
    """Draw the figure of a table, if it has one and any run is there; return whether it was drawn."""
    if not table.plot or not any(cells.values()):
        return False
    {"columns": _draw_rows, "parameters": _draw_sizes, "curves": _draw_curves}[table.plot](table, cells, path)
    return True


def _draw_rows(table: Table, cells: Cells, path: Path) -> None:
    """Draw what the table shows against the place of its columns, a line per row."""
    lines = {
        row.name: [(column.at, measure(cells[row.name, column.title], table.show[0])) for column in table.columns]
        for row in table.ours
    }
    with new_axes(path) as axis:
        draw_lines(axis, lines)
        axis.set(xlabel=table.axis, ylabel=f"{table.title} (%)", xticks=[column.at for column in table.columns])
        axis.set_ylim(0, 103)


def _draw_sizes(table: Table, cells: Cells, path: Path) -> None:
    """Draw what the table shows against the parameters of each model, a line per column."""
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    lines = {}
    for column in table.columns:
        found = [cells[row.name, column.title] for row in table.ours if row.drawn]
        lines[column.title] = [(measure(each, "parameters")[0], measure(each, table.show[0])) for each in found if each]
    with new_axes(path) as axis:
        draw_lines(axis, lines)
        what = table.title.partition(" against ")[0]
        axis.set(xlabel="million parameters", ylabel=f"{what} (%)", xscale="log")
        axis.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axis.xaxis.set_minor_formatter(NullFormatter())


def draw_lines(
    axis: Any, lines: Mapping[str, Sequence[tuple[float, Sequence[float]]]], *, legend: bool = True
) -> None:  # fmt: skip
    """Draw the means of values at places, with their standard deviations."""
    for (name, points), (color, marker) in zip(lines.items(), _LINES, strict=False):
        there = [(at, values) for at, values in points if values]
        if there:
            mean = [statistics.fmean(values) for _, values in there]
            spread = [statistics.stdev(values) if len(values) > 1 else 0.0 for _, values in there]
            at = [place for place, _ in there]
            axis.errorbar(at, mean, spread, color=color, marker=marker, ms=5, lw=1.4, capsize=2, label=name)
    if legend:
        axis.legend(frameon=False, fontsize=8)


def _draw_curves(table: Table, cells: Cells, path: Path) -> None:
    """Draw the training loss and the validation metric by epoch, a line per row, for the first seed."""
    columns = [column for column in table.columns if any(cells[row.name, column.title] for row in table.ours)]
    with new_axes(path, len(columns), 2) as axes:
        for pair, column in zip(axes.reshape(-1, 2), columns, strict=True):
            for row, (color, _) in zip(table.ours, _LINES, strict=False):
                if found := cells[row.name, column.title]:
                    history = found[0]["history"]
                    for axis, key in zip(pair, ("train_loss", "val"), strict=True):
                        axis.plot(history["epoch"], history[key], color=color, lw=1.4, label=row.name)
            pair[0].set(xlabel="epoch", ylabel=f"{column.title}: training loss")
            pair[1].set(xlabel="epoch", ylabel=f"{column.title}: validation metric")
            pair[1].legend(frameon=False, fontsize=8)


@contextmanager
def new_axes(path: Path, rows: int = 1, columns: int = 1) -> Iterator[Any]:
    """Open axes to draw on; when the block ends without an error, the figure replaces the file."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(6.4 if columns == 1 else 4.2 * columns, 3.6 * rows), layout="constrained")
        axes = figure.subplots(rows, columns)
        yield axes
        for axis in figure.axes:
            axis.spines[["top", "right"]].set_visible(False)
            axis.grid(color=PALE, lw=0.5)
        with replacing(path) as scratch:
            figure.savefig(scratch, format="svg", metadata={"Date": None})
