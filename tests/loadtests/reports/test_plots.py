"""Plots are well-formed SVG with the given values."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from loadtests.reports.page import document, markdown, page
from loadtests.reports.plots import bars, lines
from tests.loadtests.reports.test_report import report
from tests.loadtests.test_figures import slice_of

SVG = "{http://www.w3.org/2000/svg}"


def elements(svg: str, tag: str) -> list[ET.Element]:
    return list(ET.fromstring(svg).iter(tag))


def test_bars_are_as_long_as_their_values() -> None:
    svg = bars({"uniform": {"ours": 200.0, "theirs": 50.0}, "hot <one>": {"ours": 100.0}}, "/s")
    long, short, middle = (float(each.get("width") or 0) for each in elements(svg, "rect") if len(each))
    assert (long / short, long / middle) == (4.0, 2.0)
    titles = [each.text for each in elements(svg, "title")]
    assert titles == ["uniform, ours: 200 /s", "uniform, theirs: 50 /s", "hot <one>, ours: 100 /s"]


def test_known_series_keep_their_colours() -> None:
    known = ("ours", "theirs", "others")
    colours = [
        [each.get("fill") for each in elements(bars({"a": values}, "/s", known), "rect") if len(each)]
        for values in ({"ours": 1.0, "theirs": 1.0, "others": 1.0}, {"ours": 1.0, "others": 1.0})
    ]
    assert colours[1] == [colours[0][0], colours[0][2]]


def test_bars_of_zero_have_no_length() -> None:
    (bar,) = (each for each in elements(bars({"idle": {"ours": 0.0}}, "/s"), "rect") if len(each))
    assert float(bar.get("width") or 1) == 0


def test_lines_rise_with_their_values_over_a_logarithmic_axis() -> None:
    svg = lines({"cpu": [(1000, 50.0), (10, 100.0), (0, 25.0), (100, 75.0)]}, "cards", "µs")
    (line,) = elements(svg, "polyline")
    points = [tuple(map(float, point.split(","))) for point in (line.get("points") or "").split()]
    xs, ys = zip(*points, strict=True)
    assert list(xs) == sorted(xs), "in the order of the axis"
    assert round(xs[2] - xs[1], 0) == round(xs[3] - xs[2], 0), "each power of ten is as far"
    assert min(ys) == ys[1], "the greatest value is the highest point"
    texts = [each.text for each in elements(svg, "text")]
    assert {"cards", "µs", "0", "10", "100", "1,000"} <= set(texts)


def test_lines_without_points_are_empty() -> None:
    assert lines({}, "x", "y") == ""


def test_one_point_is_drawn() -> None:
    assert len(elements(lines({"a": [(5, 3.0)]}, "x", "y"), "circle")) == 1


def test_lists_and_tables_become_html() -> None:
    html = markdown("- a: 1 < 2\n- b\n\n| x | y |\n|---|---|\n| 1 | & |\n")
    assert html == (
        "<ul><li>a: 1 &lt; 2</li><li>b</li></ul>\n"
        "<table><tr><th>x</th><th>y</th></tr><tr><td>1</td><td>&amp;</td></tr></table>"
    )


def test_a_page_loads_no_other_resource() -> None:
    slices = [slice_of(workload="router"), slice_of(workload="router", system="row locks")]
    made = report(slices=slices, titles={"router": "inside"})
    html = page(made)
    assert html.count("<svg") == 2
    assert "<td>inside</td>" in html
    assert not any(mark in html for mark in ("http:", "https:", "<script", "src=", "@import"))


def test_titles_are_escaped() -> None:
    assert "<h1>a &amp; b</h1>" in document("a & b", [])
