"""Studies are chosen by name, measured part by part, kept as records and shown on pages."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpm import GpmError
from gpm.reproduce.studies import STUDIES, Study, choose, describe_study, run_studies


def _toy(measured: list[str], minutes: float = 0.0) -> Study:
    def measure(part: str, folder: Path, pages: Path) -> dict[str, Any]:
        measured.append(part)
        return {"value": len(part)}

    return Study(
        "toy", "Toy", "Letters", ("one", "three"), minutes, measure,
        lambda found: [f"{part}: {record['value']}" for part, record in found.items()],
    )  # fmt: skip


@pytest.fixture(autouse=True)
def _no_raw_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("GPM_RAW", raising=False)
    monkeypatch.setenv("GPM_DATA", str(tmp_path / "data"))


def test_tables_and_studies_are_chosen_by_name() -> None:
    tables, studies = choose(["9,table-1", "Figure 7", "BREC"])
    assert [table.name for table in tables] == ["Table 9", "Table 1", "Figure 7"]
    assert [study.id for study in studies] == ["brec"]
    tables, studies = choose([])
    assert len(tables) > 10
    assert tuple(studies) == STUDIES
    with pytest.raises(GpmError, match=r"'figur-7' is not among .* Did you mean 'figure-7'\?"):
        choose(["figur-7"])


def test_parts_are_measured_once_and_kept(tmp_path: Path) -> None:
    measured: list[str] = []
    study, reasons = _toy(measured), dict[str, str]()
    for _ in range(2):
        run_studies([study], tmp_path, tmp_path, 60, reasons)
    assert (measured, reasons) == (["one", "three"], {})
    record = study.find(tmp_path)["three"]
    assert (record["value"], record["part"], record["command"]) == (5, "three", "gpm reproduce toy")
    assert {"commit", "date", "environment"} <= set(record)
    (tmp_path / "results/reproduce" / study.file("one")).unlink()
    run_studies([study], tmp_path, tmp_path, 60, reasons)
    assert measured == ["one", "three", "one"]


def test_a_part_that_fails_does_not_stop_the_others(tmp_path: Path) -> None:
    measured: list[str] = []

    def fail(part: str, folder: Path, pages: Path) -> dict[str, Any]:
        raise GpmError("The file is damaged.") if part == "one" else MemoryError

    reasons: dict[str, str] = {}
    failing = replace(_toy([]), id="failing", measure=fail, parts=("one",))
    full = replace(failing, id="full", parts=("three",))
    run_studies([failing, full, _toy(measured)], tmp_path, tmp_path, 60, reasons)
    assert reasons == {"failing": "The file is damaged", "full": "not enough memory"}
    assert measured == ["one", "three"]


def test_a_study_ends_at_the_time_limit(tmp_path: Path) -> None:
    def wait(part: str, folder: Path, pages: Path) -> dict[str, Any]:
        time.sleep(30)
        return {}

    reasons: dict[str, str] = {}
    began = time.monotonic()
    run_studies([replace(_toy([]), measure=wait, parts=("one",))], tmp_path, tmp_path, 0.2, reasons)
    assert time.monotonic() - began < 20  # a wait ends too
    assert reasons == {"toy": "interrupted; the next call resumes it"}


def test_records_of_other_constants_do_not_count(tmp_path: Path) -> None:
    measured: list[str] = []
    for basis in ((1,), (1,), (2,)):
        run_studies([replace(_toy(measured), basis=basis)], tmp_path, tmp_path, 60, {})
    assert measured == ["one", "three"] * 2


def test_what_is_missing_says_why(tmp_path: Path) -> None:
    slow, absent = _toy([], 5), replace(_toy([]), id="absent", needs="pairs.tsv")
    untrained = replace(_toy([]), id="untrained", recipe="zinc-full")
    reasons: dict[str, str] = {}
    run_studies([slow, absent, untrained], tmp_path, tmp_path, 60, reasons)
    assert reasons["absent"].startswith("pairs.tsv is neither in ")
    assert reasons["untrained"] == "the data is not here; see gpm data zinc-full"
    assert reasons["toy"] == "not within the time limit (on one core: about 5 minutes a part)"
    page = describe_study(slow, tmp_path, tmp_path, reasons["toy"])
    assert "Not measured: one, three. Not within the time limit" in page


def test_a_page_shows_what_is_there(tmp_path: Path) -> None:
    study = _toy([])
    run_studies([study], tmp_path, tmp_path, 60, {})
    page = describe_study(study, tmp_path, tmp_path, "")
    assert page.startswith("# Toy: Letters\n")
    assert "one: 3\nthree: 5\n" in page
    assert "made again by `gpm reproduce toy`" in page
    assert "Not measured" not in page


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.id)
def test_every_study_has_a_page_before_it_is_measured(study: Study, tmp_path: Path) -> None:
    assert f"# {study.name}: {study.title}" in describe_study(study, tmp_path, tmp_path, "")
