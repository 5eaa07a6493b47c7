"""The page of a shift report: one HTML file without scripts or network requests."""

from __future__ import annotations

import html

from gpm.explain.layout import nearest, places
from gpm.explain.page_parts import draw_meter, make_table, show_number, show_row
from gpm.explain.page_shell import assemble_page, section_style
from gpm.shift.result import Distance, Shares, Shift, TopologyShare
from gpm.shift.verdict import RULES, TITLES
from gpm.tasks.metrics import METRICS

_BOX, _DOT = 52, 4.2  # side of a drawn topology, and radius of a node
_DIGITS, _PERCENT = "{:.3f}", "{:.1%}"
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
_RANKS = ("The most source-like fifth", "Second fifth", "Third fifth", "Fourth fifth", "The least source-like fifth")
_SOURCE = '<span class="source"><i class="dot"></i>source</span>'
_TARGET = '<span class="target"><i class="dot"></i>target</span>'


def page_text(shift: Shift) -> str:
    """Return the page as text, with its style inside. Every number on it stands in full in a `data` element."""
    domains = (("source", shift.source, shift.source_nodes), ("target", shift.target, shift.target_nodes))
    metric, unit = METRICS[shift.scores.metric].title, "attention" if shift.attention else "patterns"
    last = "<span>attention</span>" if shift.attention else ""
    lengths = (
        [f"{e.length}", *(show_number(value, _DIGITS) for value in (e.value, e.reference))] for e in shift.lengths
    )
    return assemble_page(
        "gpm.shift",
        title=f"{shift.data}: how far apart",
        style=section_style("gpm.shift"),
        verdict=html.escape(shift.verdict),
        domains="".join(
            f'<span class="{kind}"><i class="dot"></i>{kind}: {html.escape(name)}, {show_number(count)} nodes</span>'
            for kind, name, count in domains
        ),
        seed=show_number(shift.seed, "{}"),
        distances="".join(_show_distance(distance, shift) for distance in shift.distances),
        columns=_list_columns(shift),
        lengths=make_table(["steps", "distance", "halves of the source"], lengths),
        metric=f"{metric[0].upper()}{metric[1:]}",
        scores=_show_scores(shift),
        unit=unit,
        shared=show_number(shift.reference_shared, _PERCENT),
        shares=_show_shares("source", shift.source_shares, unit) + _show_shares("target", shift.target_shares, unit),
        most="attended" if shift.attention else "frequent",
        shown=str(len(shift.topologies)),
        found=show_number(shift.found),
        attended="Attention is that on one such pattern, where an average pattern has 1. " if shift.attention else "",
        topology=html.escape(shift.topology),
        head=_pair(shift, f"<span>{_SOURCE} {_TARGET}</span><span>share</span>{last}"),
        topologies="".join(_show_topology(topology, shift) for topology in shift.topologies),
        foot="".join(f"<p>{html.escape(line)}</p>" for line in (*shift.notes, RULES)),
    )


def _show_distance(distance: Distance, shift: Shift) -> str:
    title, area = TITLES[distance.name], distance.name.endswith("_auc")
    value, mark = (2 * each - 1 if area else each for each in (distance.value, distance.reference))
    medians = ""
    if distance.name == "degrees":
        one, two = (show_number(value, "{:g}") for value in shift.medians)
        medians = f". The median is {one} in the source and {two} in the target"
    return show_row(
        f'{html.escape(title.capitalize())}<span class="tag {distance.word}">{distance.word}</span>',
        f"{show_number(distance.value, _DIGITS)}{_UNITS.get(distance.name, '')}",
        draw_meter(value, mark, f"{title}: {distance.value:.3f}"),
        f"{_MEANING[distance.name].capitalize()}{medians}. {html.escape(distance.measure)}; "
        f"halves of the source: {show_number(distance.reference, _DIGITS)}.",
    )


def _list_columns(shift: Shift) -> str:
    if not shift.columns:
        return ""
    rows = [
        [html.escape(column.name), *(show_number(value, "{:.3g}") for value in (column.source, column.target)),
         show_number(column.difference, "{:+.2f} SD")]
        for column in shift.columns
    ]  # fmt: skip
    head = ["column", f"mean, {_SOURCE}", f"mean, {_TARGET}", "difference"]
    return f"<div><h3>Columns that differ the most</h3>{make_table(head, rows)}</div>"


def _show_scores(shift: Shift) -> str:
    scores, metric, source = shift.scores, METRICS[shift.scores.metric], shift.scores.source
    if not scores.groups:
        return "<p>There are no labels of the target to score by.</p>"
    values = [value for value in (source, *(group.score for group in scores.groups)) if value is not None]
    most = 1.0 if metric.share else max(values, default=1.0) or 1.0

    def show(kind: str, name: str, value: float | None, about: str) -> str:
        bar = draw_meter((value or 0.0) / most, None if not source else source / most, name, kind)
        return show_row(name, "?" if value is None else show_number(value, metric.show(value)), bar, about)

    rows = [
        show("source", "Source, validation split", source, f"{show_number(scores.source_count)} nodes"),
        show("target", "Target, test split", scores.target, f"{show_number(scores.target_count)} nodes"),
    ]
    for rank, group in zip(_RANKS, scores.groups, strict=True):
        away = f"called target with probability {show_number(group.away, '{:.2f}')} on average"
        rows.append(show("target", rank, group.score, f"{show_number(group.count)} nodes, {away}"))
    better = "" if metric.larger else " Lower is better."
    return (
        "<p>Test nodes of the target in five groups of equal size, by how sure a classifier that reads the model's "
        f"embeddings is that they are of the target. The mark is the source.{better}</p>"
        f'<ol class="rows">{"".join(rows)}</ol>'
    )


def _show_shares(kind: str, share: Shares, unit: str) -> str:
    own, other = (share.source_only, share.target_only) if kind == "source" else (share.target_only, share.source_only)
    bars, at = [], 0.0
    for name, value in (("shared", share.shared), ("own", own), ("other", other)):
        bars.append(f'<rect class="{name}" x="{100 * at:.2f}" width="{100 * value:.2f}" height="12"/>')
        at += value
    return show_row(
        f"{kind.capitalize()}: {unit} on shared topologies",
        show_number(share.shared, _PERCENT),
        f'<svg class="meter" viewBox="0 0 100 12" preserveAspectRatio="none" aria-hidden="true">{"".join(bars)}</svg>',
        f"{show_number(own, _PERCENT)} on topologies of the {kind} only, {show_number(other, _PERCENT)} on those of "
        f"the {'target' if kind == 'source' else 'source'} only",
        f' class="shares {kind}"',
    )


def _show_topology(topology: TopologyShare, shift: Shift) -> str:
    most = max(topology.source, topology.target, 1e-9)
    lines = ""
    for kind, share, attention in (
        ("source", topology.source, topology.source_attention),
        ("target", topology.target, topology.target_attention),
    ):
        shown = "" if attention is None else show_number(attention, "{:.2f}")
        lines += draw_meter(share / most, None, f"{kind}: {share:.2%}", kind, thin=True)
        lines += f"<span>{show_number(share, _PERCENT)}</span>" + f"<span>{shown}</span>" * shift.attention
    steps = "1 step" if topology.length == 1 else f"{topology.length} steps"
    walk = f"{'-'.join(map(str, topology.code))}, {steps}" if topology.code else steps
    tag = "" if topology.where == "shared" else f'<span class="tag clear">{topology.where}</span>'
    return (
        f"<tr><td>{_draw_shape(topology)}</td><td><b>{html.escape(topology.shape)}{tag}</b><small>{walk}</small></td>"
        f"<td>{_pair(shift, lines)}</td></tr>"
    )


def _draw_shape(topology: TopologyShare) -> str:
    points = places(topology.nodes, topology.edges)
    radius = min(_DOT, 0.34 * nearest(points) * (_BOX - 2 * _DOT - 4))
    at = _BOX / 2 + points * (1, -1) * (_BOX - 2 * _DOT - 4)
    lines = "".join(
        f'<line x1="{at[a, 0]:.1f}" y1="{at[a, 1]:.1f}" x2="{at[b, 0]:.1f}" y2="{at[b, 1]:.1f}"/>'
        for a, b in topology.edges
    )
    dots = "".join(
        f'<circle{" class=start" if topology.code and v == 0 else ""} cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}"/>'
        for v, (x, y) in enumerate(at)
    )
    return (
        f'<svg class="thumbnail" viewBox="0 0 {_BOX} {_BOX}" role="img" aria-label="{html.escape(topology.shape)}">'
        f"{lines}{dots}</svg>"
    )


def _pair(shift: Shift, content: str) -> str:
    """Return a cell that shows the source above the target."""
    return f'<div class="pair{" wide" if shift.attention else ""}">{content}</div>'
