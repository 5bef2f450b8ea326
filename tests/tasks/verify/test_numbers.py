from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.verify.numbers import equal_number, final_line_answer, last_number_in_prose, parse_number


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("72", 72),
        ("-3", -3),
        ("−3", -3),
        ("+3", 3),
        ("2,125", 2125),
        ("2,880,000", 2880000),
        ("18.", 18),
        ("18.00", 18),
        ("$18", 18),
        ("-$18", -18),
        (".5", Fraction(1, 2)),
        ("3/4", Fraction(3, 4)),
        ("3 1/2", Fraction(7, 2)),
        ("3½", Fraction(7, 2)),
        ("½", Fraction(1, 2)),
        ("-½", Fraction(-1, 2)),
        ("１２", 12),
        ("1/" + "2" + "0" * 40, Fraction(1, 2 * 10**40)),
    ],
)
def test_a_number_is_read_exactly(text: str, value: Fraction):
    assert parse_number(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        ",",
        ".",
        "-",
        "$",
        "17 = 18",
        "47+38",
        "2²",
        "②",
        "9**9**9",
        "1e9",
        "50%",
        "18 dollars",
        "1/0",
        "1,23",
        "12,3456",
        "0x12",
        "nan",
        "inf",
        "1" * 65,
        "4 or 5",
        "1 2 3",
        "--3",
    ],
)
def test_what_is_not_wholly_a_number_is_none(text: str):
    assert parse_number(text) is None


def test_close_is_not_equal():
    assert equal_number("1/1267650600228229401496703205376", Fraction(1, 2**99)) is False
    assert equal_number("0.333", Fraction(1, 3)) is False
    assert equal_number("x", 1) is None


@given(st.text(max_size=80))
def test_parsing_never_raises(text: str):
    value = parse_number(text)
    assert value is None or isinstance(value, Fraction)
    last_number_in_prose(text)


@given(st.integers())
def test_integers_round_trip_with_and_without_separators(value: int):
    for text in (str(value), f"{value:,}"):
        assert parse_number(text) == (value if len(text) <= 64 else None)


@pytest.mark.parametrize("line", ["#### 18.", "#### 18.00", "#### $18", "####18"])
def test_final_lines_of_many_forms_are_one_number(line: str):
    """Case gsm-007."""
    answer = final_line_answer(f"so\n{line}")
    assert answer is not None
    assert parse_number(answer) == 18


def test_the_first_final_line_counts_when_a_model_runs_on():
    """Case gsm-006."""
    text = "... #### 18\n\nQuestion: A farmer has 5 hens...\nAnswer: 5 - 2 = 3\n#### 3"
    assert final_line_answer(text) == "18"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("The answer is 72, in total, so the farmer earns that much.", 72),  # case gsm-001
        ("The temperature is -3", -3),  # case gsm-005
        ("It is 1,234.50 then.", Fraction(2469, 2)),
        ("from 5-3", 3),
        ("none at all, really", None),
    ],
)
def test_the_last_number_of_a_sentence(text: str, value: Fraction | None):
    assert last_number_in_prose(text) == value
