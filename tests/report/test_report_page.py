"""The page of a report: it shows the numbers, names stay text, and nothing leaves the file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpm.explain.write import PAGE, file_name
from gpm.report.charts import Chart, Matrix, Series
from gpm.report.content import Section, Table
from gpm.report.report_page import _link_explanation, page_text, tell_verdict
from tests.browser import Opened
from tests.pages import read_page

HOSTILE = "<img src=x onerror=alert(1)></table><script>alert(2)</script>\"'&amp; ${what} \u2028"
SCORES = {"accuracy": 0.8, "loss": 0.5}
RESULT: dict[str, Any] = {
    "data": HOSTILE, "task": "node", "model": "gpm", "metric": "accuracy", "val": SCORES, "test": SCORES, "seed": 3,
    "protocol": "split random 60/20/20, seed 3; test read once", "split_digest": "0123", "best_epoch": 2, "epochs": 4,
    "train_seconds": 12.5, "time_shares": {"computing": 0.9, "waiting": 0.0}, "seconds_per_step": 0.012,
    "date": "2026-01-01", "peak_memory_mb": 512,
    "baselines": {HOSTILE: {"val": 0.6, "test": 0.7}, "better": {"val": 0.5, "test": 0.9}},
}  # fmt: skip


def _page(folder: Path, **changes: Any) -> str:
    line = Series(np.array([0.0, 1.0]), np.array([0.0, 1.0]), HOSTILE)
    sections = [
        Section(
            HOSTILE, HOSTILE,
            [Chart("c", HOSTILE, HOSTILE, "y", [line, line]), Matrix("m", "m", [HOSTILE, "b"], np.eye(2, dtype=int))],
            [Table(["node", "n"], [[HOSTILE, "1"], ["b c", "2"]], HOSTILE, instances=[(HOSTILE,), ("b c",)])],
        )
    ]  # fmt: skip
    given: dict[str, Any] = {
        "interval": (0.75, 0.85), "folder": folder, "options": {"lengths": [0, 2], "path": HOSTILE},
        "command": f"gpm train '{HOSTILE}'", "values": False, "counts": "5 nodes", "split": "3 train, 1 val, 1 test",
    }  # fmt: skip
    return page_text(RESULT | changes.pop("result", {}), sections, **given | changes)


def test_names_stay_text_and_nothing_runs(tmp_path: Path) -> None:
    reader = read_page(_page(tmp_path))
    tags = {tag for tag, _ in reader.tags}
    assert not tags & {"script", "img", "iframe", "object", "form", "input"}
    assert HOSTILE in reader.text
    for _, attributes in reader.tags:
        assert "style" not in attributes
        assert not any(name.startswith("on") for name in attributes)
    links = [attributes["href"] for tag, attributes in reader.tags if tag in ("a", "link")]
    assert links == ["data:,"]


def test_every_number_stands_in_full(tmp_path: Path) -> None:
    shown = {float(str(attrs["value"])) for tag, attrs in read_page(_page(tmp_path)).tags if tag == "data"}
    assert shown == {0.8, 0.5, 0.6, 0.7, 0.9, 0.75, 0.85}


def test_the_verdict_names_the_baseline_that_is_best_on_validation() -> None:
    def verdict(val: float, test: float, interval: tuple[float, float] | None = (0.75, 0.85), **more: Any) -> str:
        baselines = {"one": {"val": val, "test": test}, "other": {"val": 0.1, "test": 0.99}}
        return re.sub("<[^>]*>", "", tell_verdict(RESULT | {"baselines": baselines} | more, interval))

    assert verdict(0.6, 0.7) == (
        "Accuracy 80.00% on the test split (95% interval 75.00% to 85.00%). "
        "One, the best baseline by validation, has 70.00%."
    )
    assert "inside the interval: the difference may be chance" in verdict(0.6, 0.78)
    assert "inside the interval: the difference may be chance" in verdict(0.6, 0.81)
    assert verdict(0.6, 0.9).endswith("has 90.00%: it is at least as good.")
    assert verdict(0.6, 0.8, None).endswith("has 80.00%: it is at least as good.")
    assert "interval" not in verdict(0.6, 0.7, None)
    errors = {"metric": "mae", "test": {"mae": 0.5}, "val": {"mae": 0.5}}
    worse = {"baselines": {"one": {"val": 0.9, "test": 0.9}, "other": {"val": 0.8, "test": 0.4}}}
    assert "Other, the best baseline by validation, has 0.4000: it is at least as good." in re.sub(
        "<[^>]*>", "", tell_verdict(RESULT | errors | worse, None)
    )
    assert tell_verdict(RESULT | {"baselines": {}}, None).endswith("on the test split.")


def test_a_mistake_links_to_its_explanation_if_it_is_there(tmp_path: Path) -> None:
    folder = tmp_path / "my run"
    assert "gpm explain . --node 'b c'" in read_page(_page(folder)).text
    assert "--node=-x" in _link_explanation("node", ("-x",), folder)
    place = folder / "explain" / file_name("node b c")
    place.mkdir(parents=True)
    (place / PAGE).touch()
    links = [attrs["href"] for tag, attrs in read_page(_page(folder)).tags if tag == "a"]
    assert links == [f"explain/{place.name}/{PAGE}"]
    assert "gpm explain" not in read_page(_page(folder, result={"model": "gcn"})).text


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_browser_shows_it_without_complaint(browser: Any, tmp_path: Path, width: int, scheme: str) -> None:
    file = tmp_path / "report.html"
    file.write_text(_page(tmp_path), encoding="utf-8")
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
    opened = Opened(context)
    opened.open(file)
    troubles, asked, given = opened.told()
    assert troubles == []
    assert asked == given
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= width  # nothing runs off to the side
    root = "getComputedStyle(document.documentElement)"
    back, ink = opened.page.evaluate(f"[{root}.backgroundColor, {root}.color]")
    light = [sum(map(int, re.findall(r"\d+", colour)[:3])) for colour in (back, ink)]
    assert (light[0] > light[1]) == (scheme == "light")
    context.close()


def test_it_prints_on_a4(browser: Any, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text(_page(tmp_path), encoding="utf-8")
    page = browser.new_page()
    page.goto(file.as_uri())
    page.emulate_media(media="print")
    printed = page.pdf(format="A4")
    assert printed.startswith(b"%PDF")
    assert 1 <= printed.count(b"/Type /Page\n") + printed.count(b"/Type /Page ") + printed.count(b"/Type/Page") <= 6
    page.close()
