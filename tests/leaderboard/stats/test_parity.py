from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leaderboard.stats import parity

POINTS = st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.5, 1.0]), min_size=2, max_size=30)


def test_with_seeds_the_seed_is_the_unit() -> None:
    # seed means 0.0, 0.1, 0.2: mean 0.1, deviation 0.1; 2.920 * 0.1 / sqrt(3) = 0.1686
    found = parity({0: [0.0] * 500, 1: [0.0, 0.2] * 250, 2: [0.2] * 400}, margin=0.1)
    assert (found.unit, found.n, found.verdict) == ("seeds", 3, "pass")
    assert found.difference == pytest.approx(0.1)
    assert found.low == pytest.approx(0.1 - 0.1686, abs=1e-4)
    assert found.high == pytest.approx(0.1 + 0.1686, abs=1e-4)


def test_with_one_seed_the_items_are() -> None:
    # 100 items, 1 lost, and one pair more of each kind: centre -1/102, variance 3/102 - 1/102^2 = 0.029316;
    # 1.6449 * sqrt(0.029316 / 102) = 0.027886
    found = parity({7: [-1.0] + [0.0] * 99}, margin=0.02)
    assert (found.unit, found.n) == ("items", 100)
    assert found.low == pytest.approx(-1 / 102 - 0.027886, abs=1e-5)
    assert found.verdict == "underpowered"


@pytest.mark.parametrize(
    ("differences", "verdict"),
    [
        ([0.0] * 400, "pass"),
        ([0.0] * 50, "underpowered"),
        ([-1.0] * 40 + [0.0] * 60, "fail"),
        ([-1.0] * 5 + [1.0] * 5 + [0.0] * 40, "underpowered"),
        ([0.0], "underpowered"),
    ],
)
def test_what_cannot_be_told_is_neither_passed_nor_failed(differences: list[float], verdict: str) -> None:
    assert parity({0: differences}, margin=0.02).verdict == verdict


def test_seeds_that_agree_on_too_few_items_prove_nothing() -> None:
    assert parity({0: [0.0], 1: [0.0]}, margin=0.02).verdict == "underpowered"
    assert parity({s: [0.0] * 200 for s in range(3)}, margin=0.02).verdict == "pass"


def test_an_inferior_product_passes_one_time_in_twenty() -> None:
    """At a true difference of exactly the margin; the test's size is what its name says."""
    draw = random.Random(1).gauss
    trials = 3000
    passed = sum(
        parity({s: [draw(-0.02, 0.03)] * 300 for s in range(5)}, margin=0.02).verdict == "pass"
        for _ in range(trials)
    )
    # 3 standard errors: 3 * sqrt(0.05 * 0.95 / 3000) = 0.012
    assert passed / trials == pytest.approx(0.05, abs=0.012)


@given(POINTS, st.randoms(use_true_random=False))
def test_order_of_items_does_not_matter(differences: list[float], shuffle: random.Random) -> None:
    mixed = list(differences)
    shuffle.shuffle(mixed)
    first, second = parity({0: differences}, margin=0.02), parity({0: mixed}, margin=0.02)
    assert first.low == pytest.approx(second.low) and first.high == pytest.approx(second.high)


@given(POINTS)
def test_the_bounds_enclose_the_difference_and_swapping_the_arms_mirrors_them(
    differences: list[float],
) -> None:
    found, swapped = parity({0: differences}, 0.02), parity({0: [-d for d in differences]}, 0.02)
    assert found.low <= found.difference <= found.high
    assert swapped.low == pytest.approx(-found.high)


@given(POINTS, st.floats(0, 0.5), st.floats(0, 0.5))
def test_a_wider_margin_never_turns_a_pass_away(differences: list[float], a: float, b: float) -> None:
    narrow, wide = sorted((a, b))
    if parity({0: differences}, narrow).verdict == "pass":
        assert parity({0: differences}, wide).verdict == "pass"
