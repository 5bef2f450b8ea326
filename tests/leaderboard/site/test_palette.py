"""Colours can be read and told from their ground, in the light scheme and in the dark one."""

from __future__ import annotations

import pytest

from leaderboard.site import palette
from leaderboard.site.palette import COLOURS


def luminance(colour: str) -> float:
    """Source: WCAG 2.2, relative luminance."""
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    r, g, b = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_contrast_is_that_of_the_standard() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_text_has_4_5_and_marks_have_3(scheme: int) -> None:
    for ground in ("back", "band"):
        for text in ("text", "soft", "good", "warn", "fair"):
            assert contrast(COLOURS[text][scheme], COLOURS[ground][scheme]) >= 4.5, (text, ground)
    for mark in ("s0", "s1", "a0", "a1", *(f"k{i}" for i in range(6))):
        assert contrast(COLOURS[mark][scheme], COLOURS["back"][scheme]) >= 3, mark


def test_a_drawing_that_stands_alone_has_no_variables_left() -> None:
    sheet = palette.standalone(dark=True)
    assert "var(" not in sheet and sheet.count("svg .fill-a1") == 2
    assert "@media" not in palette.standalone(dark=False)
