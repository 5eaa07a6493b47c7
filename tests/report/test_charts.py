from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from gpm.report.charts import Chart, Matrix, Series, draw_svg, find_ticks, save_figure, widen

HOSTILE = '<script>alert(1)</script> "& $x^2$ \ud800\x00\x1b[31m'
LINE = Series(np.array([0.0, 0.5, 1.0]), np.array([2.0, 1.0, 4.0]), HOSTILE)


def _charts() -> list[Chart | Matrix]:
    dots = Series(np.arange(4.0), np.arange(4.0), kind="dots")
    blocks = Series(np.arange(4.0), np.array([3, 0, 1]), "counts", "blocks")
    far = Series(np.array([1.0, 10.0, 1000.0]), np.array([0.0, 0.5, 1.0]))
    return [
        Chart("line", HOSTILE, HOSTILE, HOSTILE, [LINE, Series(LINE.x, LINE.y, "b", "dashed")], marks=[(0.5, HOSTILE)]),
        Chart("dots", "d", "x", "y", [dots, Series(np.array([np.nan]), np.array([np.nan]))]),
        Chart("blocks", "b", "x", "y", [blocks]),
        Chart("far", "f", "x", "y", [far], logarithmic=True),
        Chart("one", "o", "x", "y", [Series(np.array([1.0]), np.array([1.0]))]),
        Matrix("matrix", HOSTILE, [HOSTILE, "b" * 60, "c"], np.array([[5, 1, 0], [0, 0, 0], [2, 0, 9]])),
        Matrix("large", "l", [str(i) for i in range(40)], np.eye(40, dtype=np.int64)),
    ]


@given(st.floats(-1e6, 1e6), st.floats(1e-5, 1e6))
def test_ticks_are_round_even_and_within_the_range(low: float, span: float) -> None:
    ticks = find_ticks(low, low + span)
    assert 1 <= len(ticks) <= 7
    assert all(low - 1e-6 * span <= tick <= low + span * (1 + 1e-6) for tick in ticks)
    steps = np.diff(ticks)
    np.testing.assert_allclose(steps, steps[:1].repeat(len(steps)), rtol=1e-3, atol=1e-9)


@pytest.mark.parametrize("values", [(5.0, 5.0), (0.0, 0.0), (1e18, 1e18), (0.0, 3e-19), (1234560.0, 1234575.0)])
def test_numbers_of_any_size_have_ticks(values: tuple[float, float]) -> None:
    low, high = widen(*values)
    ticks = find_ticks(low, high)
    assert len(set(ticks)) == len(ticks) >= 2
    assert len({f"{tick:.10g}" for tick in ticks}) == len(ticks)
    assert low <= values[0] <= values[1] <= high


@pytest.mark.parametrize("at", range(7))
def test_a_figure_is_well_formed_and_its_words_stay_text(at: int) -> None:
    figure = _charts()[at]
    root = ET.fromstring(draw_svg(figure).encode("utf-8", "replace"))
    assert {element.tag for element in root.iter()} <= {
        "svg", "line", "text", "rect", "circle", "polyline", "title",
    }  # fmt: skip
    assert not any(name == "style" or name.startswith("on") for element in root.iter() for name in element.attrib)
    if at == 0:
        assert "<script>" in "".join(root.itertext())


def test_marks_lie_where_the_axes_say() -> None:
    """Both ends of a line are at the ends of the axes, and the middle between them."""
    chart = Chart("c", "c", "x", "y", [Series(np.array([0.0, 1.0]), np.array([0.0, 1.0]))])
    root = ET.fromstring(draw_svg(chart))
    (line,) = list(root.iter("polyline"))
    (x0, y0), (x1, y1) = ([float(v) for v in point.split(",")] for point in line.attrib["points"].split())
    ticks = [(float(e.attrib["x"]), float(e.attrib["y"])) for e in root.iter("text") if e.text == "0.4"]
    up, along = sorted(ticks)  # that of the axis y is farther left
    assert up[1] == pytest.approx(y0 + 0.4 * (y1 - y0) + 4, abs=0.1)
    assert along[0] == pytest.approx(x0 + 0.4 * (x1 - x0), abs=0.1)
    assert y1 < y0
    assert x0 < x1


def test_a_row_of_a_matrix_is_shaded_by_its_shares() -> None:
    matrix = Matrix("m", "m", ["a", "b"], np.array([[3, 1], [0, 0]]))
    np.testing.assert_allclose(matrix.shares(), [[0.75, 0.25], [0, 0]])
    assert draw_svg(matrix).count("<rect") == 4
    assert "3 of a predicted as a" in draw_svg(matrix)


@pytest.mark.parametrize("at", range(7))
def test_figures_are_written_as_svg_and_png(at: int, tmp_path: Path) -> None:
    figure = _charts()[at]
    vector, picture = save_figure(figure, tmp_path)
    assert ET.parse(vector).getroot().tag == "{http://www.w3.org/2000/svg}svg"
    with Image.open(picture) as image:
        assert min(image.size) > 300
        assert len(image.convert("RGB").getcolors(1 << 24) or []) > 5  # something is drawn
