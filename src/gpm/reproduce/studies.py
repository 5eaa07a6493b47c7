"""Studies: evidence that is not a table of trainings. Each is measured in parts, whose records are kept one by one."""

from __future__ import annotations

import functools
import logging
import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpm.data.catalog import find_entry, has_raw
from gpm.errors import GpmError, nearest
from gpm.io.atomic import read_json, write_json
from gpm.io.cache import data_root
from gpm.reproduce import brec, complexity, interpretation, theory
from gpm.reproduce.paper_tables import Table, read_tables
from gpm.reproduce.records import FOLDER, Record, describe_origin

_log = logging.getLogger("gpm")

Found = Mapping[str, Record]


@dataclass(frozen=True)
class Study:
    """A page of evidence, and how it is measured."""

    id: str  # name of its page, and of the folder of its records
    name: str  # such as "Figure 6"
    title: str
    parts: tuple[str, ...]
    minutes: float  # about what a part takes on one core
    measure: Callable[[str, Path, Path], dict[str, Any]]  # of a part, given a folder to work in and that of the pages
    describe: Callable[[Found], list[str]]
    draw: Callable[[Found, Path], bool] = lambda found, path: False
    has_data: Callable[[], bool] = lambda: True

    @property
    def command(self) -> str:
        return f"gpm reproduce {self.id}"

    def file(self, part: str) -> str:
        """The file of a record, relative to the folder of all records."""
        return f"{self.id}/{part}.json"

    def find(self, out: Path) -> dict[str, Record]:
        """Return the records that are there, by part."""
        files = {part: out / FOLDER / self.file(part) for part in self.parts}
        return {part: read_json(file) for part, file in files.items() if file.is_file()}


def _has_brec() -> bool:
    roots = [data_root(), *map(Path, filter(None, [os.environ.get("GPM_RAW")]))]
    return any((root / brec.FILE).is_file() for root in roots)


def _has(dataset: str) -> bool:
    return has_raw(find_entry(dataset))


STUDIES = (
    Study(
        "figure-6", "Figure 6", "The patterns behind a prediction on ZINC", ("patterns",), 8,
        lambda part, folder, pages: interpretation.explain_molecule(folder, pages),
        functools.partial(interpretation.describe, name="figure-6", recipe="zinc"),
        has_data=functools.partial(_has, "zinc"),
    ),
    Study(
        "figure-8", "Figure 8", "The patterns behind predictions on Computers", ("patterns",), 4,
        lambda part, folder, pages: interpretation.explain_nodes(folder, pages),
        functools.partial(interpretation.describe, name="figure-8", recipe="computers"),
        has_data=functools.partial(_has, "computers"),
    ),
    Study(
        "theory", "Theory", "The paper's propositions as small experiments", tuple(theory.MEASURES), 0.5,
        lambda part, folder, pages: theory.MEASURES[part](), theory.describe, theory.draw,
    ),
    Study(
        "complexity", "Complexity", "Time against the number and length of patterns", ("inference",), 2,
        lambda part, folder, pages: complexity.measure_complexity(), complexity.describe, complexity.draw,
    ),
    Study(
        "brec", "BREC", "400 pairs of graphs told apart by their walks", tuple(brec.WALKS), 5,
        lambda part, folder, pages: brec.measure_topology(part), brec.describe, has_data=_has_brec,  # type: ignore[arg-type]
    ),
)  # fmt: skip


def choose(names: Sequence[str]) -> tuple[list[Table], list[Study]]:
    """Return tables and studies by name, such as "table-8", "8" for the same one, or "brec"; all if there are none."""
    tables, studies = {table.id: table for table in read_tables()}, {study.id: study for study in STUDIES}
    if not names:
        return list(tables.values()), list(studies.values())
    known, chosen = [*tables, *studies], []
    for name in (part.strip() for each in names for part in each.split(",") if part.strip()):
        key = f"table-{name}" if name.isdigit() else name.lower().replace(" ", "-")
        if key not in known:
            raise GpmError(f"{name!r} is not among what is reproduced.{nearest(key, known)} Known: {', '.join(known)}.")
        chosen.append(key)
    return [tables[key] for key in chosen if key in tables], [studies[key] for key in chosen if key in studies]


def run_studies(studies: Sequence[Study], out: Path, pages: Path, seconds: float, reasons: dict[str, str]) -> None:
    """Measure the parts that have no record yet, within a time; `reasons` gets why others are missing, by study."""
    until = time.monotonic() + seconds
    for study in studies:
        missing = [part for part in study.parts if part not in study.find(out)]
        if missing and not study.has_data():
            reasons[study.id] = "the data is not here"
            continue
        for part in missing:
            if 60 * study.minutes > until - time.monotonic():
                reasons[study.id] = f"not within the time limit (on one core: about {study.minutes:g} minutes a part)"
                break
            _log.info("%s: %s", study.id, part)
            scratch = out / "results/unfinished" / study.id
            record = study.measure(part, scratch, pages) | {"study": study.id, "part": part, "command": study.command}
            file = out / FOLDER / study.file(part)
            file.parent.mkdir(parents=True, exist_ok=True)
            write_json(file, record | describe_origin())
            shutil.rmtree(scratch, ignore_errors=True)


def describe_study(study: Study, out: Path, pages: Path, reason: str) -> str:
    """Draw the figure of a study and return its page."""
    found = study.find(out)
    is_drawn = study.draw(found, pages / f"{study.id}.svg")
    lines = [f"# {study.name}: {study.title}", ""]
    lines += [f"![{study.title}]({study.id}.svg)", ""] if is_drawn else []
    lines += study.describe(found)
    if missing := [part for part in study.parts if part not in found]:
        lines += ["", f"Not measured: {', '.join(missing)}. {reason.capitalize() or 'Not asked for'}."]
    origins = sorted({(record["commit"], record["date"]) for record in found.values()})
    if origins:
        listed = ", ".join(f"{commit} ({date})" for commit, date in origins)
        lines += ["", f"Records: `{FOLDER}/{study.id}`, commit {listed}; made again by `{study.command}`."]
    return "\n".join([*lines, ""])
