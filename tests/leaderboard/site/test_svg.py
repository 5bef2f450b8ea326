"""Scales put values where they belong, and their ticks are round and few."""

from __future__ import annotations

import math
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leaderboard.site.svg import Drawing, Ink, Scale, Sheet, label, line, mark, plot, tick

spans = st.tuples(st.floats(1e-6, 1e9), st.floats(1.01, 1e12)).map(lambda pair: (pair[0], pair[0] * pair[1]))


@given(span=spans, log=st.booleans())
def test_ticks_lie_inside_rise_and_are_few(span: tuple[float, float], log: bool) -> None:
    scale = Scale(*span, 0.0, 100.0, log)
    found = scale.ticks(5)
    assert len(found) <= 14
    assert found == sorted(set(found))
    # by a hair of the axis, no more than a line is thick
    assert all(-0.1 <= scale(value) <= 100.1 for value in found)


def test_ticks_are_the_numbers_that_people_write() -> None:
    assert Scale(0, 99, 0, 1).ticks(5) == [0, 20, 40, 60, 80]
    assert Scale(0, 1, 0, 1).ticks(4) == [0, 0.25, 0.5, 0.75, 1]
    assert Scale(0.9, 30, 0, 1, log=True).ticks() == [1, 3, 10, 30]
    assert Scale(1e-10, 1e10, 0, 1, log=True).ticks(5) == [1e-10, 1e-5, 1, 1e5, 1e10]
    assert [tick(v) for v in (0, 0.5, 12, 12345)] == ["0", "0.5", "12", "12,345"]


@pytest.mark.parametrize(("log", "middle"), [(False, 5.5), (True, math.sqrt(10))])
def test_a_scale_takes_its_ends_to_its_ends_and_its_middle_to_the_middle(log: bool, middle: float) -> None:
    scale = Scale(1, 10, 40, 240, log)
    assert (scale(1), scale(10)) == (40, 240)
    assert scale(middle) == pytest.approx(140)


def test_higher_values_stand_higher() -> None:
    ground = plot(340, 200, (0, 1), (0, 1))
    assert ground.y(1) < ground.y(0) and ground.x(1) > ground.x(0)


@pytest.mark.parametrize("shape", ["circle", "square", "triangle", "diamond"])
def test_every_shape_is_drawn_and_says_its_value(shape: str) -> None:
    element = ElementTree.fromstring(mark(5, 5, Ink(colour="a1", mark=shape), tip="<2>"))
    assert element.get("data-tip") == "<2>" and "fill-a1" in str(element.get("class"))


def test_a_sheet_sets_drawings_side_by_side_as_far_as_they_fit() -> None:
    drawing = Drawing(
        title="t", about="a", width=100, height=50, marks=(label("x", 0, 0), line([(0, 0)], Ink(colour="k0")))
    )
    sheet = Sheet(width=230, title="three")
    sheet.row([drawing] * 3, gap=10)
    root = ElementTree.fromstring(sheet.markup(dark=False))
    places = [g.get("transform") for g in root if g.tag.endswith("}g")]
    assert places == ["translate(0 8)", "translate(110 8)", "translate(0 68)"]
    assert root.get("height") == "128"


def test_a_drawing_in_a_page_is_named_by_its_own_title_and_description() -> None:
    drawing = Drawing(title="T", about="A", width=10, height=10, marks=())
    root = ElementTree.fromstring(drawing.markup("one"))
    assert root.get("aria-labelledby") == "one-title one-desc" and root.get("role") == "img"
    assert [(child.get("id"), child.text) for child in root] == [("one-title", "T"), ("one-desc", "A")]
