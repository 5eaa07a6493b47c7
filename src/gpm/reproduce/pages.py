"""Pages in Markdown, made of the records alone: the paper's figures and ours, side by side, and what was not run."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from gpm.io.atomic import write_text
from gpm.reproduce.figures import Cells, draw
from gpm.reproduce.measures import digits_of, measure
from gpm.reproduce.paper_tables import MEASURES, Cell, Table, deviations, rank_of, read_tables
from gpm.reproduce.records import Job, Record, Records
from gpm.reproduce.signs import describe_signs
from gpm.reproduce.studies import STUDIES, describe_study
from gpm.tasks.metrics import METRICS

FOLDER = "docs/results"
MOST_SEEDS = 10  # that a page looks for
NOT_ASKED = "not asked for"
# Where the other tables and figures stand.
ELSEWHERE = {
    "Table 6": "hyper-parameters: `gpm recipes NAME` and [The paper and this implementation](../paper.md)",
    "Table 7": "sizes of models: [The paper and this implementation](../paper.md); trainings in [Scale](../scale.md)",
    "Figures 1 to 3": "drawings of the method: [Model](../model.md)",
}

Reasons = Mapping[tuple[str, str, int], str]


def write_pages(out: Path, reasons: Reasons, reasons_of_studies: Mapping[str, str] = MappingProxyType({})) -> Path:
    """Write a page for each table and study and one that lists them; return the list.

    Args:
        out: Folder of the records and the pages.
        reasons: Why runs were not made, by their key.
        reasons_of_studies: Why studies were not made, by their id.
    """
    records = Records(out)
    (out / FOLDER).mkdir(parents=True, exist_ok=True)
    for table in read_tables():
        cells = find_cells(table, records)
        is_drawn = draw(table, cells, out / FOLDER / f"{table.id}.svg")
        _write_page(out / FOLDER / f"{table.id}.md", describe_table(table, cells, reasons, is_drawn))
    for study in STUDIES:
        page = describe_study(study, out, out / FOLDER, reasons_of_studies.get(study.id, ""))
        _write_page(out / FOLDER / f"{study.id}.md", page)
    index = out / FOLDER / "index.md"
    _write_page(index, describe_index(records, out))
    return index


def _write_page(path: Path, text: str) -> None:
    """Write a page; links to pages of the docs that are not there are plain words, as the docs are not in a wheel."""
    link = re.compile(r"\[([^]]*)\]\((\.\./[^)]*)\)")
    write_text(path, link.sub(lambda found: found[0] if (path.parent / found[2]).is_file() else found[1], text))


def find_cells(table: Table, records: Records) -> dict[tuple[str, str], list[Record]]:
    """Return the records of every row and column, by seed."""
    cells = {}
    for row in table.ours:
        for column in table.columns:
            if column.mean_of:
                continue
            found = (records.find(Job.of(table, column, row, seed)) for seed in range(column.seeds or MOST_SEEDS))
            cells[row.name, column.title] = [record for record in found if record is not None]
        for column in table.columns:
            if column.mean_of:
                cells[row.name, column.title] = _average([cells[row.name, title] for title in column.mean_of])
    return cells


def _average(several: Sequence[Sequence[Record]]) -> list[Record]:
    """Return a record per seed with the mean of the metric over datasets, where all of them have one."""
    by_seed = [{record["seed"]: record for record in found} for found in several]
    averages = []
    for seed in sorted(set.intersection(*map(set, by_seed))):
        parts = [found[seed] for found in by_seed]
        about = {key: value for key, value in parts[0].items() if key not in ("test", "other")}
        name = parts[0]["metric"]
        scored = [what for what in ("test", "other") if all(what in part for part in parts)]
        means = {what: {name: statistics.fmean(part[what][name] for part in parts)} for what in scored}
        averages.append(about | means)
    return averages


def describe_table(table: Table, cells: Cells, reasons: Reasons, is_drawn: bool = False) -> str:
    """Return the page of a table."""
    lines = [f"# {table.name}: {table.title}", ""]
    lines += [table.note, ""] if table.note else []
    if table.paper:
        lines += [f"Rows marked *{table.source}* are copied from it."]
    lines += [
        "Rows of this implementation are means ± standard deviations over seeds (their number in brackets), on the",
        "test split unless they say otherwise. A dash: not run, see below.",
    ]
    if any(row.beside for row in table.ours):
        lines += [
            "*Difference*: by how many of its published standard deviations a row is better (+) or worse (-) than the",
            f"named row of {table.cited}.",
        ]
    lines += ["", *([f"![{table.title}]({table.id}.svg)", ""] if is_drawn else [])]
    lines += [
        f"| | | {' | '.join(column.title for column in table.columns)} |",
        f"|---|---|{'---|' * len(table.columns)}",
    ]
    for published in table.paper:
        lines.append(f"| {table.source} | {published.name} | {' | '.join(map(show_cell, published.cells))} |")
    for row in table.ours:
        mine = [cells[row.name, column.title] for column in table.columns]
        for what in table.show:
            name = ", ".join(filter(None, (row.name, MEASURES[what])))
            shown = [show_records(found, what) for found in mine]
            lines.append(f"| **here** | **{name}** | {' | '.join(shown)} |")
            if (beside := table.published(row.beside)) is not None and any(mine):
                apart = [_show_difference(*pair, what) for pair in zip(mine, beside.cells, strict=True)]
                if any(apart):
                    lines.append(f"| difference | {name}, from {beside.name} | {' | '.join(apart)} |")
    if any(homophily := [_show_homophily(cells, column.title) for column in table.columns]):
        lines.append(f"| here | edges that join nodes of one class | {' | '.join(homophily)} |")
    own = {column.title for column in table.columns if column.recipe}
    everything = [record for (_, title), some in cells.items() if title in own for record in some]
    lines += [
        "",
        *describe_signs(table, cells),
        *_describe_runs(table, cells),
        "",
        *_describe_missing(table, cells, reasons),
    ]
    lines += ["", *_describe_origin(everything), ""]
    return "\n".join(lines)


def show_cell(cell: Cell) -> str:
    """Return a figure of the paper as text."""
    if isinstance(cell, tuple):
        digits = 3 if cell[0] < 1 else 2
        return f"{cell[0]:.{digits}f} ± {cell[1]:.{digits}f}"
    return f"{cell:g}" if isinstance(cell, (int, float)) else cell or "-"


def show_records(found: Sequence[Record], what: str) -> str:
    """Return mean, standard deviation and number of the seeds of a cell as text."""
    if not found:
        return "-"
    values, digits = measure(found, what), digits_of(found, what)
    spread = f" ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{statistics.fmean(values):.{digits}f}{spread} ({len(values)})"


def _show_difference(found: Sequence[Record], cell: Cell, what: str) -> str:
    if not found or what != "test":
        return ""
    apart = deviations(statistics.fmean(measure(found, what)), cell, METRICS[found[0]["metric"]].larger)
    return "" if math.isnan(apart) else f"{apart:+.1f}"


def _show_homophily(cells: Cells, title: str) -> str:
    shares = [record["homophily"] for (_, column), found in cells.items() for record in found if column == title
              and "homophily" in record]  # fmt: skip
    return f"{shares[0]:.2f}" if shares else ""


def _describe_runs(table: Table, cells: Cells) -> list[str]:
    """List the command, the seeds, the time and the protocol of the runs of each cell."""
    lines = [
        "## How it was made",
        "",
        "| dataset | row | command | seeds | seconds of a training | protocol |",
        "|---|---|---|---|---|---|",
    ]
    for column in (each for each in table.columns if each.recipe):
        for row in table.ours:
            if found := cells[row.name, column.title]:
                protocol = found[0]["protocol"].replace(f"seed {found[0]['seed']}", "seed as listed")
                protocol = re.sub(r"\b\d+ of (\d+)\b", r"by seed, of \1", protocol)  # folds and published splits
                seeds = ", ".join(str(record["seed"]) for record in found)
                spent = f"{statistics.median(record['train_seconds'] for record in found):.0f}"
                command = found[0]["command"].rpartition(" --seed ")[0]
                lines.append(f"| {column.title} | {row.name} | `{command}` | {seeds} | {spent} | {protocol} |")
    return lines


def _describe_missing(table: Table, cells: Cells, reasons: Reasons) -> list[str]:
    missing: dict[tuple[str, str], list[str]] = {}
    for row in table.ours:
        for column in table.columns:
            if column.recipe and not cells[row.name, column.title]:
                why = reasons.get(Job.of(table, column, row).key, NOT_ASKED)
                missing.setdefault((row.name, why), []).append(column.title)
    if not missing:
        return []
    lines = [f"| {name} | {', '.join(titles)} | {why} |" for (name, why), titles in missing.items()]
    return ["## Not run", "", "| row | datasets | why |", "|---|---|---|", *lines]


def _describe_origin(found: Sequence[Record]) -> list[str]:
    if not found:
        return ["No run of this table is complete yet."]
    commits = sorted({record["commit"] for record in found})
    dates = sorted({record["date"] for record in found})
    when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    return [f"{len(found)} runs of {when}; code {', '.join(f'`{each}`' for each in commits)}. Made by `gpm reproduce`."]


def describe_index(records: Records, out: Path) -> str:
    """Return the page that lists the paper's tables and figures."""
    lines = [
        "# The paper's tables and figures",
        "",
        "`gpm reproduce` runs what is missing below and writes these pages. *Runs*: trainings, or parts of a study.",
        "",
        "| | | runs |",
        "|---|---|---|",
    ]
    rows = {}
    for table in read_tables():
        own = {column.title for column in table.columns if column.recipe}
        made = sum(len(found) for (_, title), found in find_cells(table, records).items() if title in own)
        rows[table.name] = f"[{table.title}]({table.id}.md) | {made}"
    rows |= {study.name: f"[{study.title}]({study.id}.md) | {len(study.find(out))}" for study in STUDIES}
    rows |= {name: f"{where} | " for name, where in ELSEWHERE.items()}
    lines += [f"| {name} | {rows[name]} |" for name in sorted(rows, key=rank_of)]
    return "\n".join([*lines, ""])
