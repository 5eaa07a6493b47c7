"""The page of a shift report: one HTML file without scripts or network requests."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

from gpm.explain.node_styles import nearest, places
from gpm.explain.page_shell import assemble_page, read_asset
from gpm.shift.result import Distance, Shares, Shift, TopologyShare
from gpm.shift.verdict import RULES, TITLES
from gpm.tasks.metrics import METRICS

_BOX, _DOT = 52, 4.2  # of a drawn topology: its side, and the radius of a node
_UNITS = {"features": " SD"}
_MEANING = {
    "degrees": "how many neighbours nodes have",
    "features": "what the columns of features hold",
    "topologies": "which shapes walks take",
    "classes": "how frequent the classes are",
    "labels": "how frequent the labels are",
    "values": "how the values to predict are spread",
    "features_auc": "whether features give a node's domain away; the bar begins at 0.5, a guess",
    "embeddings_auc": "whether what the model makes of a node gives its domain away; the bar begins at 0.5, a guess",
}
_SOURCE = '<span class="source"><i class="dot"></i>source</span>'
_TARGET = '<span class="target"><i class="dot"></i>target</span>'


def page_text(shift: Shift) -> str:
    """Return the page as text, with its style inside. Every number on it stands in full in a `data` element."""
    return assemble_page(
        "gpm.shift",
        title=f"{shift.data}: how far apart",
        style=read_asset("gpm.explain", "page.css") + read_asset("gpm.shift", "page.css"),
        verdict=html.escape(shift.verdict),
        facts=_list_domains(shift),
        sections="\n".join([_show_distances(shift), _show_scores(shift), _show_patterns(shift)]),
        foot="".join(f"<p>{html.escape(line)}</p>" for line in (*shift.notes, RULES)),
    )


def _list_domains(shift: Shift) -> str:
    domains = [
        f'<span class="{kind}"><i class="dot"></i>{kind}: {html.escape(name)}, {_number(count, f"{count:,}")} nodes'
        "</span>"
        for kind, name, count in (
            ("source", shift.source, shift.source_nodes),
            ("target", shift.target, shift.target_nodes),
        )
    ]
    return "".join([*domains, f"<span>seed {_number(shift.seed, str(shift.seed))}</span>"])


def _show_distances(shift: Shift) -> str:
    rows = "".join(_draw_distance(distance, shift) for distance in shift.distances)
    return (
        "<section><h2>How far apart</h2><p>Bars are the distance of target and source. The mark on a bar is the same "
        "distance between two random halves of the source: what no shift looks like.</p>"
        f'<ol class="rows">{rows}</ol><div class="tables">{_list_columns(shift)}{_list_lengths(shift)}</div></section>'
    )


def _draw_distance(distance: Distance, shift: Shift) -> str:
    area = distance.name.endswith("_auc")
    value, mark = (2 * each - 1 if area else each for each in (distance.value, distance.reference))
    bar = _meter(value, mark, f"{TITLES[distance.name]}: {distance.value:.3f}")
    unit, medians = _UNITS.get(distance.name, ""), ""
    if distance.name == "degrees":
        one, two = (_number(value, f"{value:g}") for value in shift.medians)
        medians = f". The median is {one} in the source and {two} in the target"
    return (
        f'<li><span class="name">{html.escape(TITLES[distance.name].capitalize())}'
        f'<span class="tag {distance.word}">{distance.word}</span></span>'
        f'<span class="number">{_number(distance.value, f"{distance.value:.3f}")}{unit}</span>{bar}'
        f"<small>{_MEANING[distance.name].capitalize()}{medians}. {html.escape(distance.measure)}; "
        f"halves of the source: {_number(distance.reference, f'{distance.reference:.3f}')}.</small></li>"
    )


def _list_columns(shift: Shift) -> str:
    if not shift.columns:
        return ""
    rows = [
        [html.escape(column.name), *(_number(value, f"{value:.3g}") for value in (column.source, column.target)),
         _number(column.difference, f"{column.difference:+.2f} SD")]
        for column in shift.columns
    ]  # fmt: skip
    head = ["column", f"mean, {_SOURCE}", f"mean, {_TARGET}", "difference"]
    return f"<div><h3>Columns that differ the most</h3>{_table(head, rows)}</div>"


def _list_lengths(shift: Shift) -> str:
    rows = [
        [f"{entry.length}", *(_number(value, f"{value:.3f}") for value in (entry.value, entry.reference))]
        for entry in shift.lengths
    ]
    return f"<div><h3>Walk topologies by length</h3>{_table(['steps', 'distance', 'halves of the source'], rows)}</div>"


def _show_scores(shift: Shift) -> str:
    scores, metric = shift.scores, METRICS[shift.scores.metric]
    title = f"{metric.title[0].upper()}{metric.title[1:]} by distance from the source"
    if not scores.groups:
        return f"<section><h2>{title}</h2><p>There are no labels of the target to score by.</p></section>"
    values = [value for value in (scores.source, *(group.score for group in scores.groups)) if value is not None]
    most = 1.0 if metric.share else max(values, default=1.0) or 1.0

    def draw(kind: str, name: str, value: float | None, about: str) -> str:
        figure = "?" if value is None else _number(value, metric.show(value))
        bar = _meter((value or 0.0) / most, None if not source else source / most, name, kind)
        return (
            f'<li><span class="name">{name}</span><span class="number">{figure}</span>{bar}<small>{about}</small></li>'
        )

    source = scores.source
    rows = [draw("source", "Source, validation part", source, f"{_number(scores.source_count)} nodes")]
    rows.append(draw("target", "Target, test part", scores.target, f"{_number(scores.target_count)} nodes"))
    ranks = ["The most source-like fifth", "Second fifth", "Third fifth", "Fourth fifth", "The least source-like fifth"]
    rows += [
        draw("target", rank, group.score, f"{_number(group.count)} nodes, called target with probability "
             f"{_number(group.away, f'{group.away:.2f}')} on average")
        for rank, group in zip(ranks, scores.groups, strict=True)
    ]  # fmt: skip
    better = "" if metric.larger else " Lower is better."
    return (
        f"<section><h2>{title}</h2><p>Test nodes of the target in five groups of equal size, by how sure a classifier "
        f"that reads the model's embeddings is that they are of the target. The mark is the source.{better}</p>"
        f'<ol class="rows">{"".join(rows)}</ol></section>'
    )


def _show_patterns(shift: Shift) -> str:
    what = "attention" if shift.attention else "patterns"
    shares = "".join(
        _draw_shares(kind, share, what)
        for kind, share in (("source", shift.source_shares), ("target", shift.target_shares))
    )
    order = "The most attended topologies" if shift.attention else "The most frequent topologies"
    attended = "Attention is that on one such pattern, where an average pattern has 1. " if shift.attention else ""
    last = "<span>attention</span>" if shift.attention else ""
    often = f'<div class="pair{_wide(shift)}"><span>{_SOURCE} {_TARGET}</span><span>share</span>{last}</div>'
    head = f'<th></th><th>topology ({html.escape(shift.topology)})</th><th class="often">{often}</th>'
    rows = "".join(_draw_topology(topology, shift) for topology in shift.topologies)
    return (
        "<section><h2>Which patterns transfer</h2><p>A topology is shared if it is more than a tenth as frequent in "
        f"one domain as in the other. Of the {what} of two halves of the source, "
        f"{_percent(shift.reference_shared)} falls on topologies that they share.</p>"
        f'<ol class="rows">{shares}</ol><h3>{order}</h3>'
        f"<p>{len(shift.topologies)} of {_number(shift.found)}. "
        f"{attended}Bars are relative within a row; the filled node is where the walk starts.</p>"
        f'<table class="topologies"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></section>'
    )


def _wide(shift: Shift) -> str:
    return " wide" if shift.attention else ""


def _draw_shares(kind: str, share: Shares, what: str) -> str:
    own, other = (share.source_only, share.target_only) if kind == "source" else (share.target_only, share.source_only)
    whose = "target" if kind == "source" else "source"
    parts, at = [], 0.0
    for name, value in (("shared", share.shared), ("own", own), ("other", other)):
        parts.append(f'<rect class="{name}" x="{100 * at:.2f}" width="{100 * value:.2f}" height="12"/>')
        at += value
    return (
        f'<li class="shares {kind}"><span class="name">{kind.capitalize()}: {what} on shared topologies</span>'
        f'<span class="number">{_percent(share.shared)}</span>'
        f'<svg class="meter" viewBox="0 0 100 12" preserveAspectRatio="none" aria-hidden="true">{"".join(parts)}</svg>'
        f"<small>{_percent(own)} on topologies of the {kind} only, {_percent(other)} on those of the {whose} only"
        "</small></li>"
    )


def _draw_topology(topology: TopologyShare, shift: Shift) -> str:
    most = max(topology.source, topology.target, 1e-9)
    lines = []
    for kind, share, attention in (
        ("source", topology.source, topology.source_attention),
        ("target", topology.target, topology.target_attention),
    ):
        shown = "" if attention is None else _number(attention, f"{attention:.2f}")
        lines.append(_meter(share / most, None, f"{kind}: {share:.2%}", kind, thin=True))
        lines.append(f"<span>{_percent(share)}</span>" + f"<span>{shown}</span>" * shift.attention)
    steps = "1 step" if topology.length == 1 else f"{topology.length} steps"
    walk = f"{'-'.join(map(str, topology.code))}, {steps}" if topology.code else steps
    tag = "" if topology.where == "shared" else f'<span class="tag clear">{topology.where}</span>'
    return (
        f"<tr><td>{_draw_glyph(topology)}</td><td><b>{html.escape(topology.shape)}{tag}</b><small>{walk}</small></td>"
        f'<td><div class="pair{_wide(shift)}">{"".join(lines)}</div></td></tr>'
    )


def _draw_glyph(topology: TopologyShare) -> str:
    points = places(topology.nodes, topology.edges)
    radius = min(_DOT, 0.34 * nearest(points) * (_BOX - 2 * _DOT - 4))
    at = _BOX / 2 + points * (1, -1) * (_BOX - 2 * _DOT - 4)
    lines = "".join(
        f'<line x1="{at[a, 0]:.1f}" y1="{at[a, 1]:.1f}" x2="{at[b, 0]:.1f}" y2="{at[b, 1]:.1f}"/>'
        for a, b in topology.edges
    )
    ordered = bool(topology.code)
    dots = "".join(
        f'<circle{" class=start" if ordered and v == 0 else ""} cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}"/>'
        for v, (x, y) in enumerate(at)
    )
    return (
        f'<svg class="thumbnail" viewBox="0 0 {_BOX} {_BOX}" role="img" aria-label="{html.escape(topology.shape)}">'
        f"{lines}{dots}</svg>"
    )


def _meter(value: float, mark: float | None, label: str, kind: str = "", *, thin: bool = False) -> str:
    """Draw a bar over a share of the width, with a mark at another share."""
    width, tick = (100 * min(max(each or 0.0, 0.0), 1.0) for each in (value, mark))
    line = "" if mark is None else f'<line class="tick" x1="{tick:.2f}" x2="{tick:.2f}" y1="-2" y2="14"/>'
    return (
        f'<svg class="meter {kind}{" thin" * thin}" viewBox="0 0 100 12" preserveAspectRatio="none" role="img" '
        f'aria-label="{html.escape(label)}"><rect class="track" width="100" height="12"/>'
        f'<rect class="full" width="{width:.2f}" height="12"/>{line}</svg>'
    )


def _number(value: float, shown: str = "") -> str:
    """Show a number, and give it in full to programs that read the page."""
    return f'<data value="{value!r}">{shown or f"{value:,}"}</data>'


def _percent(value: float) -> str:
    return _number(value, f"{value:.1%}")


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Make a table whose first column is text and whose others are numbers."""

    def line(tag: str, cells: Sequence[str]) -> str:
        kinds = ["", *[' class="number"'] * (len(cells) - 1)]
        return f"<tr>{''.join(f'<{tag}{kind}>{cell}</{tag}>' for kind, cell in zip(kinds, cells, strict=True))}</tr>"

    body = "".join(line("td", row) for row in rows)
    return f"<table><thead>{line('th', head)}</thead><tbody>{body}</tbody></table>"
