"""Parts of figures: sheets measured in inches with a headline, a legend and a key, and the styles of nodes.

Types of nodes have a colour and a marker, atoms those of their element; names stand where no edge leaves.
"""

from __future__ import annotations

import math
import textwrap
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpm.errors import GpmError
from gpm.explain.layout import nearest
from gpm.io.atomic import replacing
from gpm.patterns.draw_shapes import FIGURES, check_target

INK, SOFT, PALE, ACCENT = "#1d2833", "#5a6773", "#c3ccd4", "#5b2a86"
READABLE = 7.0  # points: a smaller node has no room for an element's symbol
MOST_KINDS = 8  # as many as people can tell apart
SHORT = 8  # letters of a name that is written beside its node
LETTER = 0.06  # inches: the width of one of them
_PLAIN, _OTHER, _ELEMENT = "#2f6f9f", "#d5dbe0", "#d64fa3"  # nodes without kinds, of other kinds, of rare elements
# Okabe and Ito's colours, which the colour-blind can tell apart; the markers tell the kinds apart without any colour.
_COLORS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#4d4d4d")
_MARKERS = ("o", "s", "D", "h", "p", "8", "^", "v")
_GROW = {"s": 0.88, "D": 0.76, "p": 1.06, "h": 1.04}  # so that markers look equally large
# The usual colours of the elements, darker where they would not show on white.
_ELEMENTS = {
    "C": "#4a4f55", "H": "#f2f2f2", "N": "#2f55d4", "O": "#d7262b", "S": "#e3b505", "P": "#f08a1d", "F": "#7fb800",
    "Cl": "#1e9e3e", "Br": "#8f2d16", "I": "#7a1f9c", "B": "#f0a6a0", "Si": "#c2a36b", "Se": "#d98c00",
    "Li": "#9b59d0", "Na": "#9b59d0", "K": "#9b59d0", "Mg": "#2e7d32", "Ca": "#2e7d32", "Fe": "#c4581b",
    "Zn": "#7d80b0", "Cu": "#b87333",
}  # fmt: skip
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
        box = (left / whole[0], (self.bottom + up) / whole[1], width / whole[0], height / whole[1])
        axis = self.figure.add_axes(box, xlim=(0, width), ylim=(0, height))
        axis.set_axis_off()
        return axis


@contextmanager
def new_sheet(
    path: Path, width: float, height: float, *, title: str, lines: Sequence[str], key: str,
    legend: Sequence[tuple[str, str, str]] = (), count: int = 1,
) -> Iterator[Sheet]:  # fmt: skip
    """Open a sheet to draw on; when the block ends without an error, the sheet replaces the file.

    Width and height in inches are those of what is drawn in the block; title and lines stand above it, the key that
    says how to read it below, after a legend of names, colours and markers. `count` patterns are drawn.
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


@dataclass(frozen=True)
class Looks:
    """Colours and markers of the types of nodes that are shown; all the rest share one.

    Atoms are coloured as chemists do, with the symbol of the element inside.
    """

    shown: tuple[str, ...]
    rest: bool
    atoms: bool

    @classmethod
    def of(cls, kinds: Iterable[str], atoms: bool) -> Looks:
        """Give a look to each type, or to the most frequent if there are too many."""
        counts = Counter(kinds)
        unknown = counts.pop("", 0) > 0
        order = sorted(counts, key=lambda kind: (-counts[kind], kind))
        most = len(order) if atoms or len(order) <= MOST_KINDS else MOST_KINDS - 1
        return cls(tuple(sorted(order[:most])), unknown or most < len(order), atoms)

    def look(self, kind: str) -> tuple[str, str]:
        """Return the colour and marker of a type."""
        if self.atoms and kind:
            return _ELEMENTS.get(kind, _ELEMENT), "o"
        if kind in self.shown:
            i = self.shown.index(kind)
            return _COLORS[i], _MARKERS[i]
        return (_OTHER if self.shown else _PLAIN), "o"

    def legend(self, size: float = 0.0) -> list[tuple[str, str, str]]:
        """Return name, colour and marker of each type; nothing for atoms of a size that shows their symbols."""
        if self.atoms and size >= READABLE:
            return []
        other = [("other", _OTHER, "o")] if self.rest and self.shown else []
        return [(kind, *self.look(kind)) for kind in self.shown] + other

    def draw(
        self, axis: Any, points: NDArray, kinds: Sequence[str], size: float, *, ringed: Sequence[int] = (),
        strength: Sequence[float] | None = None,
    ) -> None:  # fmt: skip
        """Draw nodes at positions in inches `[n, 2]` as markers of a diameter in points, some ringed, some paler."""
        for v, ((x, y), kind) in enumerate(zip(points, kinds, strict=True)):
            strong = 1.0 if strength is None else strength[v]
            color, marker = self.look(kind)
            fill, width = mix(color, strong), size * _GROW.get(marker, 1.0)
            line = {"mec": mix(INK, 0.75 * strong), "mew": 0.6, "zorder": 4, "clip_on": False}
            if v in ringed:
                ring = {"mec": INK, "mew": 1.6, "zorder": 3, "ms": width + min(6.0, 2.5 + 0.25 * size)}
                axis.plot(x, y, marker, mfc="white", **line | ring)
            axis.plot(x, y, marker, mfc=fill, ms=width, **line)
            if self.atoms and size >= READABLE:
                fit = size * {0: 0.62, 1: 0.62, 2: 0.52}.get(len(kind), 0.4)
                ink = "white" if float(np.dot(fill, (0.299, 0.587, 0.114))) < 0.6 else INK
                axis.text(x, y, plain(kind, 3), color=ink, fontsize=fit, ha="center", va="center_baseline", zorder=5)


def room(points: NDArray, most: float, share: float = 0.6) -> float:
    """Return the diameter in points of nodes at these positions in inches: a share of the distance between them."""
    return float(np.clip(share * 72 * nearest(points, 0.25), 2.5, most))


def mix(color: str, strength: float) -> tuple[float, ...]:
    """Mix a colour with white: none of it at 0, all of it at 1."""
    from matplotlib.colors import to_rgb

    return tuple(1 - strength * (1 - c) for c in to_rgb(color))


def widest_name(names: Iterable[str]) -> float:
    """Return the width in inches of the longest name that is short enough to be written."""
    return LETTER * max((len(name) for name in names if len(name) <= SHORT), default=0)


def write_names(
    axis: Any, points: NDArray, edges: Iterable[tuple[int, int]], names: Sequence[str], size: float, *,
    ringed: Sequence[int] = (),
) -> list[tuple[NDArray, float]]:  # fmt: skip
    """Write short names beside nodes, where no edge leaves; return their centres and half their widths."""
    leave: list[list[float]] = [[] for _ in names]
    for a, b in edges:
        dx, dy = points[b] - points[a]
        leave[a].append(math.atan2(dy, dx))
        leave[b].append(math.atan2(-dy, -dx))
    written = []
    for v, name in enumerate(names):
        if not 0 < len(name) <= SHORT:
            continue
        apart, half = (size / 2 + (7 if v in ringed else 3.5)) / 72, LETTER * len(name) / 2
        angle = _widest_gap(leave[v])
        toward = np.array([math.cos(angle), math.sin(angle)])
        side = np.sign(toward) * (np.abs(toward) > 0.4)
        middle = points[v] + apart * toward + side * (half, 0.04)
        axis.text(*middle, plain(name, SHORT), fontsize=7, color=SOFT, ha="center", va="center", zorder=7)
        written.append((middle, half))
    return written


def _widest_gap(angles: list[float]) -> float:
    """Return the direction that is the farthest from those of edges."""
    if not angles:
        return math.pi / 2
    order = sorted(angles)
    gaps = [(round(b - a, 9), a) for a, b in zip(order, [*order[1:], order[0] + 2 * math.pi], strict=True)]
    gap, start = max(gaps)
    return start + gap / 2
