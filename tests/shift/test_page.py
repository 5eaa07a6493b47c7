import re
from dataclasses import replace
from typing import Any

import pytest

from gpm.shift.page import page_text
from gpm.shift.result import Column
from tests.pages import read_page
from tests.shift.runs import shift_of

pytestmark = pytest.mark.usefixtures("one_thread_for_all")
HOSTILE = '<script>alert(1)</script> "><img src=x onerror=1> ${policy} & \ud800'


def _numbers(value: Any) -> set[float]:
    """All numbers in a report that are shown: neither lengths of walks nor what shapes look like."""
    if isinstance(value, dict):
        kept = (part for key, part in value.items() if key not in ("edges", "code", "nodes", "length"))
        return set().union(*map(_numbers, kept))
    if isinstance(value, (list, tuple)):
        return set().union(*map(_numbers, value))
    return {float(value)} if isinstance(value, (int, float)) and not isinstance(value, bool) else set()


@pytest.mark.parametrize("name", ["alike", "attended", "category", "none", "unlabelled"])
def test_the_page_has_the_numbers_of_the_report_and_no_others(name: str) -> None:
    shift = shift_of(name)
    shown = {float(str(attrs["value"])) for tag, attrs in read_page(page_text(shift)).tags if tag == "data"}
    plain = shift.to_dict()
    if name == "unlabelled":
        plain.pop("scores")
    assert shown == _numbers(plain)


@pytest.mark.parametrize("name", ["attended", "none", "unlabelled"])
def test_the_page_asks_nothing_of_any_network_and_runs_nothing(name: str) -> None:
    text = page_text(shift_of(name))
    reader = read_page(text)
    assert not {"script", "img", "iframe", "object", "base", "form"} & {tag for tag, _ in reader.tags}
    assert not re.search(r"https?://|url\(|@import", text)
    assert not any(key.startswith("on") or key == "style" for _, attrs in reader.tags for key in attrs)
    assert "default-src 'none'" in text
    assert shift_of(name).verdict in " ".join(reader.text.split())
    for note in shift_of(name).notes:
        assert note in reader.text


def test_hostile_names_stay_text() -> None:
    shift = shift_of("attended")
    hostile = replace(
        shift, data=HOSTILE, source=HOSTILE, target=HOSTILE, notes=(HOSTILE,), topology=HOSTILE,
        columns=(Column(HOSTILE, 0.0, 1.0, 2.0), *shift.columns[1:]),
        topologies=(replace(shift.topologies[0], shape=HOSTILE), *shift.topologies[1:]),
    )  # fmt: skip
    text = page_text(hostile)
    assert [tag for tag, _ in read_page(text).tags] == [tag for tag, _ in read_page(page_text(replace(
        shift, notes=("",)))).tags]  # fmt: skip
    assert "<script" not in text
    text.encode("utf-8")
    assert HOSTILE.replace("\ud800", "?") in read_page(text).text


def test_every_tag_that_is_opened_is_closed() -> None:
    text = page_text(shift_of("attended"))
    for tag in ("section", "table", "tr", "td", "ol", "li", "svg", "div", "span", "data", "p"):
        assert len(re.findall(rf"<{tag}[ >]", text)) == text.count(f"</{tag}>"), tag
