"""Sheets: figures measured in inches, with a headline above, and a legend and a key below."""

from __future__ import annotations

import textwrap
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpm.errors import GpmError
from gpm.io.atomic import replacing
from gpm.patterns.draw_shapes import FIGURES, check_target

INK, SOFT, PALE, ACCENT = "#1d2833", "#5a6773", "#c3ccd4", "#5b2a86"
_LEFT = 0.2
_STYLE = {
    "svg.hashsalt": "gpm",  # the same figure, the same bytes
    "svg.fonttype": "none",  # text that can be searched, and letters that only the reader's fonts have
    "text.parse_math": False,  # names are text
    "text.usetex": False,
    "text.color": INK,
    "font.size": 9,
}


@dataclass(frozen=True)
class Sheet:
    """A figure that is being drawn: axes go `bottom` inches above its lower edge and higher."""

    figure: Any
    bottom: float

    def axis(self, left: float, up: float, width: float, height: float) -> Any:
        """Add axes without a frame whose unit is an inch, so many inches from the left and above the bottom."""
        whole = self.figure.get_size_inches()
        place = (left / whole[0], (self.bottom + up) / whole[1], width / whole[0], height / whole[1])
        axis = self.figure.add_axes(place, xlim=(0, width), ylim=(0, height))
        axis.set_axis_off()
        return axis


@contextmanager
def new_sheet(
    path: Path, width: float, height: float, *, title: str, lines: Sequence[str], key: str,
    legend: Sequence[tuple[str, str, str]] = (), count: int = 1,
) -> Iterator[Sheet]:  # fmt: skip
    """Open a sheet to draw on; when the block ends without an error, the sheet replaces the file.

    Args:
        path: A .png, .svg or .pdf file.
        width, height: Size of what is drawn in the block, in inches.
        title, lines: Text above it.
        key: How to read the figure, below it.
        legend: Names, colours and markers, above the key.
        count: Number of drawn patterns.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    if path.suffix.lower() not in FIGURES:
        raise GpmError(f"Cannot draw to {str(path)!r}; let its name end in one of {', '.join(FIGURES)}.")
    check_target(path, count)
    above = [part for line in lines for part in _wrap(line, int(13 * width), most=3)]
    below = _wrap(key, int(15.5 * width), most=9)
    columns = max(1, int((width - 0.4) / (0.4 + 0.075 * max((len(name) for name, _, _ in legend), default=0))))
    foot = 0.26 + 0.16 * len(below) + 0.19 * -(-len(legend) // columns)
    head = 0.6 + 0.19 * len(above)
    form = path.suffix.lower()[1:]
    with replacing(path) as scratch, warnings.catch_warnings(), mpl.rc_context(_STYLE):
        warnings.simplefilter("ignore", UserWarning)  # a name's letter that the font lacks
        sheet = Sheet(Figure(figsize=(width, head + height + foot)), foot)
        yield sheet
        axis = sheet.axis(0, height, width, head)
        axis.text(_LEFT, head - 0.28, plain(title, int(9 * width)), fontsize=13, weight="bold", va="center")
        axis.text(_LEFT, head - 0.44, "\n".join(above), color=SOFT, va="top", linespacing=1.4)
        axis = sheet.axis(0, -foot, width, foot)
        axis.text(_LEFT, 0.14, "\n".join(below), fontsize=8, color=SOFT, va="bottom", linespacing=1.3)
        if legend:
            _draw_legend(axis, legend, columns, foot)
        undated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(form)
        sheet.figure.savefig(scratch, format=form, dpi=200, metadata=undated)


def plain(text: str, most: int) -> str:
    """Return a name on one line, without control characters, and cut to a length."""
    text = "".join(c if c.isprintable() else " " for c in text)
    return text if len(text) <= most else text[: most - 1] + "…"


def _wrap(text: str, width: int, most: int) -> list[str]:
    return textwrap.wrap(plain(text, most * width), width, max_lines=most, placeholder="…")


def _draw_legend(axis: Any, entries: Sequence[tuple[str, str, str]], columns: int, top: float) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], ls="", marker=marker, mfc=color, mec=SOFT, mew=0.6, ms=7, label=plain(name, 24))
        for name, color, marker in entries
    ]
    axis.legend(
        handles=handles, loc="upper left", bbox_to_anchor=(_LEFT, top), bbox_transform=axis.transData, ncols=columns,
        frameon=False, fontsize=8, handlelength=1.0, handletextpad=0.5, columnspacing=1.2, borderaxespad=0, borderpad=0,
    )  # fmt: skip
