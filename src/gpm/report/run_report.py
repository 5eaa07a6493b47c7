"""Write the report of a run: `report.html` in its folder, and on request figures and explanations of its mistakes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gpm.config import Config
from gpm.data.tables.schema import Schema, list_columns
from gpm.data.tables.table_source import locate
from gpm.errors import GpmError
from gpm.explain.explanation import ALL, Overview
from gpm.explain.write import make_printable
from gpm.graph.folder import read_extras
from gpm.inference.opened import OpenedRun
from gpm.io.atomic import write_text
from gpm.io.run_files import REPORT
from gpm.report.charts import save_figure
from gpm.report.content import Details, Name, Section, Table, read_curves
from gpm.report.details import describe_predictions
from gpm.report.report_page import page_text
from gpm.run.workplace import target_of
from gpm.tasks import ClassTask

FIGURES = "figures"  # folder of the figures in a run folder
MOST_CLASSES = 30  # in the table of the split
_PARTS = {"train": "train", "val": "validation", "test": "test"}


@dataclass(frozen=True)
class Report:
    """A run measured in detail: the content of its page."""

    run: OpenedRun
    result: Mapping[str, Any]
    details: Details
    sections: Sequence[Section]

    @classmethod
    def of(
        cls, run: OpenedRun, result: Mapping[str, Any], logits: Mapping[str, Tensor], overview: Overview | None = None
    ) -> Report:  # fmt: skip
        """Measure the predictions of the validation and test splits; an overview adds the shapes that carry them."""
        details = describe_predictions(run, logits)
        curves = read_curves(run.folder, result["metric"], result.get("best_epoch"))
        trained = [Section("How training went", "", curves)] if curves else []
        carried = [] if overview is None else _list_shapes(overview)
        sections = [*details.sections, *carried, *trained, *_list_columns(run), _describe_split(run)]
        return cls(run, result, details, sections)

    def page(self) -> str:
        """Return the page as text."""
        run, default = self.run, Config().to_dict()
        graph, level = run.data.graph, run.data.level
        graphs = f"{graph.num_graphs:,} graphs, " if level == "graph" else ""
        options = {
            name: value for name, value in run.config.to_dict().items()
            if value != default[name] and name not in ("data", "seed")
        }  # fmt: skip
        return page_text(
            self.result, self.sections, interval=self.details.interval, folder=target_of(run.folder), options=options,
            command=self.result.get("command", ""), values=run.predicts_values,
            counts=f"{graphs}{graph.num_nodes:,} nodes, {graph.num_edges:,} directed edges", split=run.split.describe(),
        )  # fmt: skip

    def save(self) -> Path:
        """Write `report.html` into the run folder."""
        path = self.run.folder / REPORT
        write_text(path, self.page())
        return path

    def save_figures(self) -> list[Path]:
        """Write every figure as SVG and PNG into `figures` of the run folder."""
        folder = self.run.folder / FIGURES
        if folder.is_symlink():
            raise GpmError(f"{folder} is a symbolic link, which is not followed; remove it.")
        return [file for section in self.sections for figure in section.figures for file in save_figure(figure, folder)]

    def mistakes(self, most: int) -> list[Name]:
        """Return the names of the most confident mistakes."""
        lists = [table.instances for section in self.details.sections for table in section.tables if table.instances]
        turns = (name for names in zip_longest(*lists) for name in names if name is not None)  # one of each in turn
        return list(islice(turns, most))


def tell(report: Report) -> list[str]:
    """Return what is printed of a report: the tables of its classes, labels or targets."""
    lines: list[str] = []
    for table in report.details.sections[0].tables:
        rows = [[make_printable(cell) for cell in row] for row in (table.head, *table.rows)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for row in rows:
            name, *cells = (cell.rjust(width) for cell, width in zip(row, widths, strict=True))
            lines.append("  ".join([name.strip().ljust(widths[0]), *cells]).rstrip())
    return lines


def _list_shapes(overview: Overview) -> list[Section]:
    together = [row for row in overview.shares if row.predicted == ALL] or overview.shares  # numbers: raised, lowered
    rows = [
        [row.label if row.predicted == ALL else f"{row.label}, {row.predicted}", f"{row.carried:.1%}",
         f"{row.chance:.1%}", f"{row.lift:.2f}x"]
        for row in together
    ]  # fmt: skip
    if not rows:
        return []
    about = (
        "Shares of the evidence by shape of pattern, over instances spread evenly over the test split. A lift above 1: "
        "the shape carries more than its share of the patterns."
    )
    table = Table(["shape", "of the evidence", "of the patterns", "lift"], rows)
    return [Section("Which patterns carry the predictions", about, tables=[table])]


def _list_columns(run: OpenedRun) -> list[Section]:
    """Say what the columns of imported tables were taken for."""
    place = Path(locate(run.config.data, run.folder)) if run.config.data else None
    if place is None or not (place / "import.yaml").is_file():
        return []
    schema = read_extras(place)[0].get("schema")
    if not schema:
        return []
    head, *rows = list_columns(Schema.from_dict(schema, str(place)))
    table = Table(head[:-1], [row[:-1] for row in rows], texts=5)  # without an example, which only the tables have
    about = "To change it, edit import.yaml in the folder of the graph, and pass it with --schema."
    return [Section("What the columns were taken for", about, tables=[table])]


def _describe_split(run: OpenedRun) -> Section:
    """Count the instances of each part, of classes also by class."""
    split, task = run.split, run.task
    about = f"{split.name}; digest {split.digest}."
    ids = {part: getattr(split, part) for part in _PARTS}
    if not isinstance(task, ClassTask) or task.multilabel or task.outputs > MOST_CLASSES:
        return Section("The split", f"{about} {split.describe()}.")
    found = {part: Counter(task.targets[torch.from_numpy(np.array(each))].tolist()) for part, each in ids.items()}
    rows = [
        [str(name), *(f"{found[part][i]:,} ({found[part][i] / max(len(ids[part]), 1):.1%})" for part in _PARTS)]
        for i, name in enumerate(task.names)
    ]
    rows.append(["all", *(f"{len(ids[part]):,}" for part in _PARTS)])
    return Section("The split", about, tables=[Table(["class", *_PARTS.values()], rows)])
