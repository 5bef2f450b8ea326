"""Figures of the document are found by pointer and written in one way."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.report.numbers import FORMS, Number, at, pointer, shown, written

KEYS = st.text(max_size=6)


@given(path=st.lists(KEYS, min_size=1, max_size=5))
def test_a_pointer_finds_what_its_path_leads_to_whatever_the_names(path: list[str]) -> None:
    document: object = "found"
    for key in reversed(path):
        document = {key: document, f"{key}.": "another"}
    assert at(document, pointer(*path)) == "found"


def test_a_pointer_counts_in_lists_and_ends_in_nothing_where_the_path_does() -> None:
    document = {"a/b": [{"~": 1.5}, {}]}
    assert pointer("a/b", 0, "~") == "/a~1b/0/~0"
    assert at(document, "/a~1b/0/~0") == 1.5
    for early in ("/a~1b/2/~0", "/a~1b/x", "/nothing", "/a~1b/0/~0/deeper"):
        assert at(document, early) is None


@pytest.mark.parametrize(
    ("value", "form", "text"),
    [
        (2.4166, "times", "2.42×"),
        (41.05, "seconds", "41.0 s"),
        (0.5739, "percent", "57.4 %"),
        (-0.0123, "points", "-1.2 points"),
        (12345, "count", "12,345"),
        (None, "times", "–"),
        ("pass", "word", "pass"),
    ],
)
def test_a_figure_is_written_by_its_form(value: object, form: str, text: str) -> None:
    assert shown(value, form) == text
    assert written({"x": value}, Number(key="/x", form=form)) == text


def test_every_form_writes_an_integer_too() -> None:
    assert all(shown(3, form) for form in FORMS)
