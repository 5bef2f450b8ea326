from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.verify.qa import em_squad, equal_quantity, exact_match, normalise, token_f1

PAIRS = [
    # qa-001
    ("10", "1.0", False),
    ("3.14", "314", False),
    ("1.0", "1", True),
    # qa-003
    ("1990–1991", "1990-1991", True),
    # qa-004
    ("-5", "5", False),
    ("3.5", "35", False),
    ("1/2", "12", False),
    ("C++", "C", False),
    ("C#", "C", False),
    ("$5", "5", True),
    # further of their kind
    ("−5", "-5", True),
    ("0.5", "1/2", True),
    ("1,000", "1000", True),
    ("1,5", "15", False),
    ("50%", "50", False),
    ("+5", "5", True),
    ("twenty-one", "twenty one", True),
    ("twentyone", "twenty one", False),
    ("São Paulo", "Sao Paulo", True),
    ("don’t", "don't", True),
    ("５", "5", True),
    ("The Hague", "Hague", True),
    ("The", "", False),
    ("A", "The", False),
    ("", "", False),
    ("...", "", False),
    ("Beijing.", "beijing", True),
    ("Beijing or Paris", "Beijing", False),
    ("it is Beijing", "Beijing", False),
    ("Beijing, Paris", "Beijing", False),
    ("Bei jing", "Beijing", False),
    ("2 0", "20", False),
    ("1e5", "100000", False),
]


@pytest.mark.parametrize(("answer", "gold", "match"), PAIRS)
def test_what_carries_meaning_counts_and_the_rest_does_not(answer: str, gold: str, match: bool):
    assert exact_match(answer, [gold]) is match
    assert exact_match(gold, [answer]) is match


def test_an_alias_is_as_right_as_the_name():
    assert exact_match("Burma", ["Myanmar", "Burma"])
    assert not exact_match("Burma Myanmar", ["Myanmar", "Burma"])


@given(st.text(max_size=80), st.text(max_size=80))
def test_matching_is_total_symmetric_and_never_pays_nothing(answer: str, gold: str):
    assert exact_match(answer, [gold]) is exact_match(gold, [answer])
    assert 0.0 <= token_f1(answer, [gold]) <= 1.0
    assert isinstance(em_squad(answer, [gold]), bool)
    assert equal_quantity(answer, Fraction(3)) in (True, False, None)
    assert not exact_match("", [gold])


@given(
    st.text(alphabet="abcdefgh", min_size=1, max_size=8),
    st.lists(st.text(alphabet="abcdefgh", min_size=2), min_size=1),
)
def test_junk_around_an_answer_makes_it_another(gold: str, junk: list[str]):
    assert exact_match(gold, [gold])
    assert not exact_match(f"{gold} {' '.join(junk)}", [gold])
    assert not exact_match(f"{' '.join(junk)} {gold}", [gold])


def test_partial_overlap_is_reported_and_not_paid():
    assert token_f1("Paris France", ["Paris"]) == pytest.approx(2 / 3)
    assert not exact_match("Paris France", ["Paris"])
    assert token_f1("", ["Paris"]) == 0.0


def test_the_squad_metric_is_kept_as_it_is_elsewhere():
    assert em_squad("-5", ["5"])
    assert em_squad("The C++", ["c"])


@pytest.mark.parametrize(
    ("answer", "equal"),
    [
        ("4,970 km", True), ("4970", True), ("4970 kilometres", True), ("4971", False),
        ("4970 miles", None), ("km", None),
        ("about 4970 km", None), ("", None), ("-4970 km", False), ("4970 km 4970", None),
        ("4970.0km", True), ("4970%", None),
    ],
)  # fmt: skip
def test_a_quantity_has_its_unit_or_none(answer: str, equal: bool | None):
    assert equal_quantity(answer, Fraction(4970), units=("km", "kilometres")) is equal


def test_a_tolerance_is_declared_and_relative():
    assert equal_quantity("4971", Fraction(4970), rel_tol=0.001)
    assert not equal_quantity("4980", Fraction(4970), rel_tol=0.001)
    assert equal_quantity("0", Fraction(0), rel_tol=0.001)


def test_a_long_text_is_no_short_answer():
    assert normalise("a " * 400) == ()
    assert not exact_match("x" * 600, ["x" * 600])
