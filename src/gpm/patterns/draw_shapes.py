"""Drawings of patterns: figures by matplotlib, and self-contained HTML pages."""

from __future__ import annotations

import csv
import html
import warnings
from collections.abc import Sequence
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from gpm.errors import GpmError
from gpm.io.atomic import replacing

if TYPE_CHECKING:
    from gpm.patterns.frequent import FrequentPattern

FIGURES = (".png", ".svg", ".pdf")
TARGETS = (*FIGURES, ".html", ".csv")
MOST_IN_FIGURE = 100
_NODE, _EDGE = "#2f6f9f", "#7b8794"


def check_target(path: Path, count: int = 1) -> None:
    """Refuse a file that cannot be written, before any work is done."""
    if path.suffix.lower() in FIGURES and count > MOST_IN_FIGURE:
        raise GpmError(f"A figure shows at most {MOST_IN_FIGURE} patterns, not {count}; draw to .html or .csv.")
    if path.suffix.lower() not in TARGETS:
        raise GpmError(f"Cannot draw to {str(path)!r}; let its name end in one of {', '.join(TARGETS)}.")
    if path.is_dir():
        raise GpmError(f"{path} is a folder; give the name of a file.")


def save_frequent(found: Sequence[FrequentPattern], path: Path, *, title: str) -> None:
    """Draw frequent patterns to a file; an older file stays until the new one is complete."""
    check_target(path, len(found))
    kind = path.suffix.lower()
    write = _write_page if kind == ".html" else _write_table if kind == ".csv" else _write_figure
    with replacing(path) as scratch:
        write(found, scratch, title)


def layout(adjacency: NDArray[np.bool_]) -> NDArray:
    """Return positions of the nodes of a small graph in the unit square `[n, 2]`, the same for the same graph."""
    graph = nx.from_numpy_array(adjacency)
    n = len(adjacency)
    if n == 1:
        return np.array([[0.5, 0.5]])
    degrees = adjacency.sum(axis=1)
    if degrees.max() <= 2 and degrees.sum() == 2 * (n - 1):
        end = int(np.argmin(degrees))
        points = {v: (float(i), 0.0) for i, v in enumerate(nx.dfs_preorder_nodes(graph, end))}
    elif degrees.min() == degrees.max() == 2 or degrees.min() == n - 1:
        start = np.pi / 4 if n == 4 else np.pi / 2
        angles = start + 2 * np.pi * np.arange(n) / n
        cycle = nx.dfs_preorder_nodes(graph, 0)
        points = {v: (float(np.cos(a)), float(np.sin(a))) for v, a in zip(cycle, angles, strict=True)}
    else:
        points = _spread(graph)
    position = np.array([points[i] for i in range(n)], dtype=float)
    if degrees.min() < degrees.max():
        position = _lay_flat(position)
    position -= (position.max(axis=0) + position.min(axis=0)) / 2
    return 0.5 + position / max(float(np.ptp(position, axis=0).max()), 1e-9)


def _spread(graph: nx.Graph) -> Any:
    """Lay out a graph by its distances, from several initial layouts; return the one with the fewest crossings."""
    nodes = list(graph)
    orders = [nodes, nodes[::2] + nodes[1::2], nodes[::-2] + nodes[-2::-2]] if len(nodes) <= 16 else [nodes]
    begins = [nx.circular_layout(order) for order in orders]
    if nx.is_planar(graph):
        begins.append(nx.planar_layout(graph))
    layouts = [nx.kamada_kawai_layout(graph, pos=begin) for begin in begins]
    return min(layouts, key=lambda points: (_count_crossings(graph, points), -_narrowest(points)))


def _count_crossings(graph: nx.Graph, points: dict[int, NDArray]) -> int:

    def side(a: int, b: int, c: int) -> float:
        (ax, ay), (bx, by), (cx, cy) = points[a], points[b], points[c]
        return float((bx - ax) * (cy - ay) - (by - ay) * (cx - ax))

    edges = list(graph.edges)
    return sum(
        side(a, b, c) * side(a, b, d) < 0 and side(c, d, a) * side(c, d, b) < 0
        for i, (a, b) in enumerate(edges)
        for c, d in edges[:i]
        if len({a, b, c, d}) == 4
    )


def _narrowest(points: dict[int, NDArray]) -> float:
    """Return the smallest distance between two nodes, rounded so that similar drawings count as equal."""
    position = np.array(list(points.values()))
    distance = np.linalg.norm(position[:, None] - position, axis=-1) + 9 * np.eye(len(position))
    return round(float(distance.min()), 2)


def _lay_flat(points: NDArray) -> NDArray:
    """Rotate a drawing so that its longest direction is horizontal."""
    points = points - points.mean(axis=0)
    _, spread, axes = np.linalg.svd(points, full_matrices=False)
    return points @ axes.T if spread[0] > 1.01 * spread[1] else points


def _edges(adjacency: NDArray[np.bool_]) -> list[tuple[int, int]]:
    return [(int(a), int(b)) for a, b in zip(*np.nonzero(np.triu(adjacency, 1)), strict=True)]


def _write_figure(found: Sequence[FrequentPattern], path: Path, title: str) -> None:
    import matplotlib as mpl
    from matplotlib.figure import Figure

    columns = min(5, len(found))
    lines = -(-len(found) // columns)
    with warnings.catch_warnings(), mpl.rc_context({"svg.hashsalt": "gpm", "font.size": 9}):
        width = max(2.1 * columns, 6.0)
        figure = Figure(figsize=(width, 2.45 * lines + 0.5), layout="constrained")
        shown = title if len(title) <= 11 * width else title[: int(11 * width) - 1] + "…"
        figure.suptitle(shown, fontsize=10, parse_math=False)
        axes = figure.subplots(lines, columns, squeeze=False).ravel()
        for axis in axes:
            axis.set_axis_off()
        for rank, (axis, pattern) in enumerate(zip(axes, found, strict=False), 1):
            points = layout(pattern.adjacency)
            for a, b in _edges(pattern.adjacency):
                axis.plot(*points[[a, b]].T, color=_EDGE, linewidth=1.6, zorder=1)
            axis.scatter(*points.T, s=70, color=_NODE, edgecolors="white", linewidths=1.2, zorder=2)
            axis.set_xlim(-0.2, 1.2)
            axis.set_ylim(-0.2, 1.2)
            axis.set_aspect("equal")
            caption = f"{rank}. {pattern.name}", pattern.walk, f"{pattern.count:,} ({pattern.share:.1%})"
            axis.set_title("\n".join(filter(None, caption)), fontsize=9)
        form = path.suffix.lower()[1:]
        warnings.simplefilter("ignore", UserWarning)  # a name's letter that the font lacks
        figure.savefig(path, format=form, dpi=150, metadata={"Date": None} if form == "svg" else None)


def _write_table(found: Sequence[FrequentPattern], path: Path, title: str) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["rank", "name", "walk", "key", "count", "share", "nodes", "edges", "example"])
        for rank, f in enumerate(found, 1):
            size = len(f.adjacency), len(_edges(f.adjacency))
            writer.writerow([rank, f.name, f.walk, f.key, f.count, f"{f.share:.6f}", *size, f.path])


def svg_graph(adjacency: NDArray[np.bool_], label: str) -> str:
    """Return a small graph as inline SVG, with a label for screen readers."""
    points = 14 + 92 * layout(adjacency) * (1, -1) + (0, 92)
    lines = (
        f'<line x1="{points[a, 0]:.1f}" y1="{points[a, 1]:.1f}" x2="{points[b, 0]:.1f}" y2="{points[b, 1]:.1f}"/>'
        for a, b in _edges(adjacency)
    )
    dots = (f'<circle cx="{x:.1f}" cy="{y:.1f}" r="6"/>' for x, y in points)
    return (
        f'<svg viewBox="0 0 120 120" role="img" aria-label="{html.escape(label, quote=True)}">'
        f"{''.join(lines)}{''.join(dots)}</svg>"
    )


def _write_page(found: Sequence[FrequentPattern], path: Path, title: str) -> None:
    cards = (
        f"<li><h2>{rank}. {html.escape(f.label)}</h2>{svg_graph(f.adjacency, f.name)}"
        f"<p>{f.count:,} ({f.share:.1%})</p><p>e.g. {html.escape(f.path)}</p></li>"
        for rank, f in enumerate(found, 1)
    )
    page = Template(Path(__file__).with_name("frequent.html").read_text(encoding="utf-8"))
    path.write_text(page.substitute(title=html.escape(title), cards="\n".join(cards)), encoding="utf-8")
