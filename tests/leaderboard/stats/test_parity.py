from __future__ import annotations

import math
import random

import numpy as np
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
    trials = 1000
    passed = sum(
        parity({s: [draw(-0.02, 0.03)] * 300 for s in range(5)}, margin=0.02).verdict == "pass"
        for _ in range(trials)
    )
    # 3 standard errors: 3 * sqrt(0.05 * 0.95 / 1000) = 0.021
    assert passed / trials == pytest.approx(0.05, abs=0.021)


# item differences: 15 % of pairs are discordant, whichever arm is right
DISCORDANT = 0.15


def drawn(rng: np.random.Generator, means: np.ndarray, items: int) -> np.ndarray:
    """[..., items] differences in -1, 0, 1 with given means."""
    u = rng.random((*means.shape, items))
    lost = (DISCORDANT - means[..., None]) / 2
    return np.where(u < lost, -1.0, np.where(u > 1 - DISCORDANT + lost, 1.0, 0.0))


@pytest.mark.parametrize("shared", [0.0, 0.5, 1.0], ids=["tenants apart", "half together", "together"])
@pytest.mark.parametrize("seeds", [3, 5])
def test_an_inferior_product_passes_at_most_one_time_in_twenty(seeds: int, shared: float) -> None:
    """At a true loss of the margin; tenants differ in what they lose, and may rise and fall with their seed."""
    rng = np.random.default_rng([seeds, int(10 * shared)])
    trials, tenants, items, margin, spread = 500, 3, 100, 0.02, 0.02
    luck = math.sqrt(shared) * rng.normal(0, spread, (trials, seeds, 1))
    luck = luck + math.sqrt(1 - shared) * rng.normal(0, spread, (trials, seeds, tenants))
    scores = drawn(rng, -margin + np.array([-0.02, 0.0, 0.02]) + luck, items)
    passed = 0
    for trial in scores:
        clusters = {(s, t): trial[s, t].tolist() for s in range(seeds) for t in range(tenants)}
        passed += parity(clusters, margin).verdict == "pass"
    # 2 standard errors of 500 trials are 0.019
    assert passed / trials <= 0.05 + 0.019


@pytest.mark.parametrize(
    ("items", "margin", "power"), [(512, 0.03, 0.54), (512, 0.05, 0.90), (1024, 0.02, 0.51)]
)
def test_the_power_of_one_seed_is_the_published_one(items: int, margin: float, power: float) -> None:
    rng = np.random.default_rng([items, int(100 * margin)])
    rows = drawn(rng, np.zeros(500), items)
    passed = np.mean([parity({0: row.tolist()}, margin).verdict == "pass" for row in rows])
    # two standard errors of 500 trials; the pairs added cost a point or two where items are few
    assert passed == pytest.approx(power, abs=0.05)


def test_tenants_are_fixed_and_seeds_are_the_unit() -> None:
    # tenants differ by 0.4, seeds by nothing: the difference is known as well as its items allow
    apart = {(s, t): [-0.2 if t else 0.2] * 100 for s in range(3) for t in range(2)}
    found = parity(apart, margin=0.1)
    assert (found.difference, found.n, found.unit, found.verdict) == (0.0, 3, "seeds", "pass")
    with pytest.raises(ValueError, match="same tenants"):
        parity({(0, "a"): [0.0], (1, "b"): [0.0]}, margin=0.1)
    with pytest.raises(ValueError, match="no item"):
        parity({0: []}, margin=0.1)


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
