from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leaderboard.stats import clustered_accuracy, wilson


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    [(8, 10, 0.4901625, 0.9433178), (0, 10, 0.0, 0.2775328), (0, 0, 0.0, 1.0)],
)
def test_wilson_interval(successes: int, n: int, low: float, high: float) -> None:
    assert wilson(successes, n) == pytest.approx((low, high), abs=1e-6)


@pytest.mark.parametrize(
    ("n", "points"), [(128, 7.9), (256, 5.6), (512, 4.0), (1024, 2.8), (2048, 2.0), (4096, 1.4)]
)
def test_half_widths_that_a_plan_quotes(n: int, points: float) -> None:
    low, high = wilson(0.7 * n, n)
    assert 100 * (high - low) / 2 == pytest.approx(points, abs=0.06)


@given(st.integers(0, 200), st.integers(1, 200), st.floats(0.5, 0.99))
def test_wilson_holds_the_observed_rate_and_grows_with_confidence(s: int, n: int, confidence: float) -> None:
    s = min(s, n)
    low, high = wilson(s, n, confidence=confidence)
    assert 0 <= low <= s / n + 1e-12 and s / n - 1e-12 <= high <= 1
    wider = wilson(s, n, confidence=0.995)
    assert wider[0] <= low + 1e-12 and high <= wider[1] + 1e-12


def test_one_seed_gives_wilson_and_more_give_students() -> None:
    assert clustered_accuracy({0: [1.0] * 8 + [0.0] * 2}).low == pytest.approx(0.4901625, abs=1e-6)
    # means 0.4, 0.5, 0.6: 4.3027 * 0.1 / sqrt(3)
    found = clustered_accuracy({s: [1.0] * (400 + 100 * s) + [0.0] * (600 - 100 * s) for s in range(3)})
    assert (found.value, found.n) == (pytest.approx(0.5), 3)
    assert found.high == pytest.approx(0.5 + 4.302653 * 0.1 / math.sqrt(3), abs=1e-5)
    with pytest.raises(ValueError, match="no item"):
        clustered_accuracy({0: []})


def test_it_covers_where_wilson_does_not() -> None:
    """Seeds that spread by 4 points, 200 items each: pooled items pretend to know more than they do."""
    rng = np.random.default_rng(5)
    trials, clustered, pooled = 600, 0, 0
    for _ in range(trials):
        seeds = [(rng.random(200) < p).astype(float).tolist() for p in rng.normal(0.6, 0.04, 5)]
        found = clustered_accuracy(dict(enumerate(seeds)))
        assert found.low is not None and found.high is not None
        clustered += found.low <= 0.6 <= found.high
        low, high = wilson(sum(map(sum, seeds)), 1000)
        pooled += low <= 0.6 <= high
    assert 0.93 <= clustered / trials <= 0.985
    assert pooled / trials < 0.85
