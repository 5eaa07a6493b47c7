"""Studies: evidence that is not a table of trainings. Each is measured in parts, whose records are kept one by one."""

from __future__ import annotations

import functools
import hashlib
import json
import logging
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpm.data.catalog import find_file
from gpm.errors import GpmError, nearest
from gpm.io.atomic import read_json, write_json
from gpm.io.cache import data_root
from gpm.reproduce import brec, complexity, interpretation, theory
from gpm.reproduce.paper_tables import Table, read_tables
from gpm.reproduce.records import FOLDER, Job, Record, describe_origin
from gpm.reproduce.runner import UNFINISHED, attempt, is_at_hand, time_limit

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
    basis: tuple[Any, ...] = ()  # constants that a measurement depends on
    recipe: str = ""  # that it trains by
    draw: Callable[[Found, Path], bool] = lambda found, path: False
    needs: str = ""  # file below the data root or `GPM_RAW`

    @property
    def command(self) -> str:
        return f"gpm reproduce {self.id}"

    def file(self, part: str) -> str:
        """The file of a record, relative to the folder of all records."""
        return f"{self.id}/{part}.json"

    @property
    def digest(self) -> str:
        """Hash of the constants and the recipe that a measurement depends on."""
        text = json.dumps([self.basis, Job(self.recipe).digest if self.recipe else ""], default=vars, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def find(self, out: Path) -> dict[str, Record]:
        """Return the records that are there, by part; those of other constants do not count."""
        files = {part: out / FOLDER / self.file(part) for part in self.parts}
        found = {part: read_json(file) for part, file in files.items() if file.is_file()}
        return {part: record for part, record in found.items() if record.get("digest") == self.digest}

    def lacks(self) -> str:
        """Return which data is missing; nothing if it is all there."""
        if self.recipe and not is_at_hand(self.recipe):
            return f"the data is not here; see gpm data {self.recipe}"
        if self.needs and find_file(self.needs) is None:
            return f"{self.needs} is neither in {data_root()} nor below GPM_RAW; see docs/datasets.md"
        return ""


STUDIES = (
    Study(
        "figure-6", "Figure 6", "The patterns behind a prediction on ZINC", ("patterns",), 8,
        lambda part, folder, pages: interpretation.explain_molecule(folder, pages),
        functools.partial(interpretation.describe, name="figure-6", recipe="zinc"),
        (interpretation.ON_ZINC, interpretation.MOLECULE), "zinc",
    ),
    Study(
        "figure-8", "Figure 8", "The patterns behind predictions on Computers", ("patterns",), 4,
        lambda part, folder, pages: interpretation.explain_nodes(folder, pages),
        functools.partial(interpretation.describe, name="figure-8", recipe="computers"),
        (interpretation.ON_COMPUTERS, interpretation.NODES), "computers",
    ),
    Study(
        "theory", "Theory", "The paper's propositions as small experiments", tuple(theory.MEASURES), 0.5,
        lambda part, folder, pages: theory.MEASURES[part](), theory.describe,
        (theory.MOST_NODES, theory.LONGEST, theory.REPEATS, brec.WALKS, brec.LEVEL, brec.DRAWS), draw=theory.draw,
    ),
    Study(
        "complexity", "Complexity", "Time against the number and length of patterns", ("inference",), 2,
        lambda part, folder, pages: complexity.measure_complexity(), complexity.describe,
        (complexity.NUMBERS, complexity.LENGTHS, complexity.NODES), draw=complexity.draw,
    ),
    Study(
        "brec", "BREC", "400 pairs of graphs told apart by their walks", tuple(brec.WALKS), 5,
        lambda part, folder, pages: brec.measure_topology(part), brec.describe,  # type: ignore[arg-type]
        (brec.WALKS, brec.LEVEL, brec.DRAWS), needs=brec.FILE,
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
        for part in [part for part in study.parts if part not in study.find(out)]:
            left = until - time.monotonic()
            if why := study.lacks():
                reasons[study.id] = why
            elif 60 * study.minutes > left:
                reasons[study.id] = f"not within the time limit (on one core: about {study.minutes:g} minutes a part)"
            else:
                _log.info("%s: %s", study.id, part)
                attempt(functools.partial(_measure, study, part, out, pages, left), study.id, reasons)


def _measure(study: Study, part: str, out: Path, pages: Path, seconds: float) -> None:
    """Measure a part and write its record."""
    scratch = out / UNFINISHED / f"{study.id}-{study.digest}"
    with time_limit(seconds):
        record = study.measure(part, scratch, pages)
    file = out / FOLDER / study.file(part)
    file.parent.mkdir(parents=True, exist_ok=True)
    origin = {"study": study.id, "part": part, "command": study.command, "digest": study.digest} | describe_origin()
    write_json(file, record | origin)
    shutil.rmtree(scratch, ignore_errors=True)


def describe_study(study: Study, out: Path, pages: Path, reason: str) -> str:
    """Draw the figure of a study and return its page."""
    found = study.find(out)
    is_drawn = study.draw(found, pages / f"{study.id}.svg")
    lines = [f"# {study.name}: {study.title}", ""]
    lines += [f"![{study.title}]({study.id}.svg)", ""] if is_drawn else []
    lines += study.describe(found)
    if missing := [part for part in study.parts if part not in found]:
        why = reason[:1].upper() + reason[1:] or "Not asked for"
        lines += ["", f"Not measured: {', '.join(missing)}. {why}."]
    origins = sorted({(record["commit"], record["date"]) for record in found.values()})
    if origins:
        listed = ", ".join(f"{commit} ({date})" for commit, date in origins)
        lines += ["", f"Records: `{FOLDER}/{study.id}`, commit {listed}; made again by `{study.command}`."]
    return "\n".join([*lines, ""])
