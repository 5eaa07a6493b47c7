"""The page of a report: one HTML file with a section per question, without scripts or network requests."""

from __future__ import annotations

import html
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpm.explain.page_parts import draw_meter, make_table, show_number, show_row
from gpm.explain.page_shell import assemble_page, section_style
from gpm.explain.write import PAGE as EXPLANATION
from gpm.explain.write import file_name
from gpm.report.charts import Chart, Figure, draw_svg
from gpm.report.content import Name, Section, Table
from gpm.tasks.metrics import METRICS, Metric

_TASKS = {"node": "node classification", "link": "link prediction", "graph": "graph classification"}
LONG = 14  # rows of a table that may continue on the next sheet of paper


def page_text(
    result: Mapping[str, Any], sections: Sequence[Section], *, interval: tuple[float, float] | None, folder: Path,
    options: Mapping[str, Any], command: str, values: bool, counts: str, split: str,
) -> str:  # fmt: skip
    """Return the page as text, with its style inside.

    Args:
        result: Content of `result.json`.
        sections: What the report says after the comparison with baselines.
        interval: 95% interval of the metric on the test split.
        folder: Run folder; explanations that are there are linked.
        options: Options that differ from the default.
        command: The command that makes the run again; empty if its data was in memory.
        values: The model predicts numbers.
        counts: Size of the data in words.
        split: Size of the parts of the split in words.
    """
    kind = METRICS[result["metric"]]
    task = _TASKS[result["task"]] if not values else f"{result['task']} regression"
    facts = [
        counts, split, str(result["protocol"]).partition(";")[0], f"seed {result['seed']}",
        f"{result['train_seconds']:,.0f} s of training", f"trained on {result['date']}",
    ]  # fmt: skip
    parts = [_show_baselines(result, kind, interval), *(_show_section(each, result, folder) for each in sections)]
    parts.append(_show_training(result, options, command))
    return assemble_page(
        "gpm.report",
        title=str(result["data"]),
        what=html.escape(f"{task}, {str(result['model']).upper()}"),
        style=section_style("gpm.report"),
        verdict=tell_verdict(result, interval),
        facts="".join(f"<span>{html.escape(each)}</span>" for each in facts if each),
        sections="\n".join(parts),
        foot=f"<p>{html.escape(str(result['protocol']))}. The scores are of one split and one seed.</p>",
    )


def tell_verdict(result: Mapping[str, Any], interval: tuple[float, float] | None) -> str:
    """Say in HTML how good the model is, and whether a simple baseline is as good."""
    metric = result["metric"]
    kind, score = METRICS[metric], result["test"][metric]
    sentence = f"<b>{_capital(kind.title)} {_show(kind, score)}</b> on the test split"
    if interval is not None:
        sentence += f" (95% interval {_show(kind, interval[0])} to {_show(kind, interval[1])})"
    if not (baselines := find_baselines(result)):
        return f"{sentence}."
    sign = 1 if kind.larger else -1
    name, best = max(baselines.items(), key=lambda item: sign * item[1]["val"])
    beside = f"{html.escape(name)}, the best baseline by validation, has {_show(kind, best['test'])}"
    if interval is not None and interval[0] <= best["test"] <= interval[1]:
        return f"{sentence}. {_capital(beside)}, which is inside the interval: the difference may be chance."
    if sign * best["test"] >= sign * score:
        return f"{sentence}. <b>{_capital(beside)}: it is at least as good.</b>"
    return f"{sentence}. {_capital(beside)}."


def find_baselines(result: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Return the scores of the baselines; earlier versions stored plain numbers, which are left out."""
    return {name: row for name, row in (result.get("baselines") or {}).items() if isinstance(row, dict)}


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _show(kind: Metric, value: float) -> str:
    return show_number(value, kind.show(value))


def _show_baselines(result: Mapping[str, Any], kind: Metric, interval: tuple[float, float] | None) -> str:
    metric = result["metric"]
    ours = {part: result[part][metric] for part in ("val", "test")}
    rows = [("this model", ours), *find_baselines(result).items()]
    most = 1.0 if kind.share else max(abs(row["test"]) for _, row in rows) or 1.0
    shown = []
    for name, row in sorted(rows, key=lambda each: (-1 if kind.larger else 1) * each[1]["test"]):
        about = f"validation {_show(kind, row['val'])}"
        if name == "this model" and interval is not None:
            about += f", 95% interval on test {_show(kind, interval[0])} to {_show(kind, interval[1])}"
        bar = draw_meter(abs(row["test"]) / most, None, f"{name}: {kind.show(row['test'])}")
        css = ' class="ours"' if name == "this model" else ""
        shown.append(show_row(html.escape(name), _show(kind, row["test"]), bar, about, css))
    better = "" if kind.larger else " Lower is better."
    about = f"{_capital(kind.title)} on the test split, all on the same split.{better}"
    more = [(METRICS[name].title, METRICS[name], value) for name, value in result["test"].items() if name != metric]
    table = make_table(
        ["further measures", "validation", "test"],
        [[html.escape(title), _show(each, result["val"][name]), _show(each, value)]
         for (title, each, value), name in zip(more, [n for n in result["test"] if n != metric], strict=True)],
    ) if more else ""  # fmt: skip
    return _frame("How good is it?", about, f'<ol class="rows">{"".join(shown)}</ol>{table}')


def _show_section(section: Section, result: Mapping[str, Any], folder: Path) -> str:
    figures = "".join(_show_figure(figure) for figure in section.figures)
    plots = f'<div class="plots">{figures}</div>' if figures else ""
    tables = "".join(_show_table(table, result, folder) for table in section.tables)
    long = any(len(table.rows) > LONG for table in section.tables)
    return _frame(section.title, section.about, plots + tables, long=long)


def _frame(title: str, about: str, content: str, *, long: bool = False) -> str:
    told = f"<p>{html.escape(about)}</p>" if about else ""
    return f"<section{' class=long' * long}><h2>{html.escape(title)}</h2>{told}{content}</section>"


def _show_figure(figure: Figure) -> str:
    whole = "" if isinstance(figure, Chart) else ' class="whole"'
    caption = f"<figcaption>{html.escape(figure.title)}</figcaption>"
    legend = ""
    if isinstance(figure, Chart):
        named = [(i, series) for i, series in enumerate(figure.series) if series.name]
        if len(named) > 1:
            keys = (f'<span class="s{7 if s.kind == "dashed" else i % 8}"><i></i>{html.escape(s.name)}</span>'
                    for i, s in named)  # fmt: skip
            legend = f'<div class="legend">{"".join(keys)}</div>'
    return f"<figure{whole}>{caption}{draw_svg(figure)}{legend}</figure>"


def _show_table(table: Table, result: Mapping[str, Any], folder: Path) -> str:
    rows: list[list[str]] = [[html.escape(cell) for cell in row] for row in table.rows]
    head = [html.escape(cell) for cell in table.head]
    if table.instances and result["model"] == "gpm":
        head.append("why")
        for row, name in zip(rows, table.instances, strict=True):
            row.append(_link_explanation(result["task"], name, folder, table.flags))
    title = f"<h3>{html.escape(table.title)}</h3>" if table.title else ""
    return f'{title}<div class="scroll">{make_table(head, rows, table.texts)}</div>'


def _link_explanation(level: str, name: Name, folder: Path, flags: Sequence[str] = ()) -> str:
    """Link to the page of an explanation if it is there; else say how to make it, in the run folder."""
    place = Path("explain") / file_name(" ".join([level, *name])) / EXPLANATION
    if (folder / place).is_file():
        return f'<a href="{html.escape(place.as_posix())}">explanation</a>'
    words = [f"--{level}={name[0]}"] if len(name) == 1 and name[0].startswith("-") else [f"--{level}", *name]
    return f"<code>{html.escape(shlex.join(['gpm', 'explain', '.', *words, *flags]))}</code>"


def _show_training(result: Mapping[str, Any], options: Mapping[str, Any], command: str) -> str:
    shares = {name: share for name, share in (result.get("time_shares") or {}).items() if share >= 0.005}
    spent = f"{1000 * result['seconds_per_step']:,.1f} ms" if result.get("seconds_per_step") else ""
    spent += f" ({', '.join(f'{name} {share:.0%}' for name, share in shares.items())})" if shares and spent else ""
    memory = f"{result['peak_memory_mb']:,.0f} MB of the process, on the host" if result.get("peak_memory_mb") else ""
    best = f", best {result['best_epoch']}" if "best_epoch" in result else ""
    rows = [
        ("epochs", f"{result['epochs']}{best}" if "epochs" in result else ""),
        ("time", f"{result['train_seconds']:,.1f} s"), ("per step", spent), ("peak memory", memory),
        ("split digest", str(result.get("split_digest", ""))),
    ]  # fmt: skip
    times = make_table(["training", ""], ([html.escape(a), html.escape(b)] for a, b in rows if b), 2)
    listed = make_table(["option", "value"], ([html.escape(k), html.escape(_spell(v))] for k, v in options.items()), 2)
    again = f"<h3>Make it again</h3><pre>{html.escape(command)}</pre>" if command else ""
    chosen = f"<div><h3>Options that differ from the default</h3>{listed}</div>" if options else ""
    return _frame("How it was trained", "", f'<div class="tables"><div>{times}</div>{chosen}</div>{again}', long=True)


def _spell(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
