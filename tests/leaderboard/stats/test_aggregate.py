"""Suite views: values by hand, from the references' own tests, and a published leaderboard reproduced."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leaderboard.stats import (
    iqm,
    iqm_interval,
    performance_profile,
    probability_of_improvement,
    profile_score,
)
from tests.leaderboard.stats import algoperf

SCORES = st.lists(st.floats(-100, 100), min_size=1, max_size=40)
# score tables of rliable's own tests (google-research/rliable, tests/rliable/metrics_test.py), by task
X = {"first": [1.0, 2.0, 1.0, 2.0], "second": [2.0, 2.0, 1.0, 1.0]}
Y = {"first": [1.0, 2.0, 3.0], "second": [1.0, 2.0, 3.0]}


def test_iqm_by_hand() -> None:
    assert iqm([5.0]) == 5.0
    assert iqm([1, 2, 3, 100]) == pytest.approx(2.5)
    # nine values: two are cut from either end
    assert iqm([-1000, -5, 3, 4, 5, 6, 7, 50, 10**6]) == pytest.approx(5.0)


def test_values_of_the_references_own_tests() -> None:
    assert iqm([v for own in X.values() for v in own]) == 1.5
    assert iqm([v for own in Y.values() for v in own]) == 2.0
    assert iqm_interval(X).value == 1.5 and iqm_interval(Y).value == 2.0
    assert probability_of_improvement(X, Y).value == pytest.approx(1 / 3)


@given(SCORES)
def test_iqm_lies_within_the_middle_half_and_knows_no_order(values: list[float]) -> None:
    assert iqm(values) == pytest.approx(iqm(values[::-1]), abs=1e-9)
    cut = len(values) // 4
    ordered = sorted(values)
    assert ordered[cut] - 1e-9 <= iqm(values) <= ordered[-1 - cut] + 1e-9


def test_iqm_interval_covers_the_truth() -> None:
    """Ten tasks of ten seeds; the percentile bootstrap is a little short, as the reference reports of itself."""
    rng = np.random.default_rng(4)
    means = np.linspace(0, 1, 10)
    # IQM of the mixture over tasks, from a sample large enough
    truth = iqm(list((means[:, None] + rng.normal(0, 0.3, (10, 20000))).ravel()))
    trials, covered = 250, 0
    for _ in range(trials):
        drawn = {str(k): list(m + rng.normal(0, 0.3, 10)) for k, m in enumerate(means)}
        found = iqm_interval(drawn, resamples=400)
        assert found.low is not None and found.high is not None
        covered += found.low <= truth <= found.high
    assert 0.90 <= covered / trials <= 0.98


def test_profiles_reproduce_a_published_leaderboard() -> None:
    """All fourteen scores of AlgoPerf's table, from its times to target; one workload nobody solved counts too."""
    times = {
        name: {w: [t] for w, t in zip(algoperf.WORKLOADS, row, strict=True)}
        for name, row in algoperf.TIMES.items()
    }
    found = performance_profile(times, taus=[1 + 3 * i / 99 for i in range(100)])
    assert {name: profile_score(line) for name, line in found.items()} == pytest.approx(
        algoperf.SCORES, abs=1e-9
    )


def test_a_profile_by_hand() -> None:
    found = performance_profile(
        {"a": {"x": [1.0], "y": [4.0]}, "b": {"x": [2.0], "y": [2.0]}}, taus=[1.0, 1.5, 2.0, 4.0]
    )
    assert found["a"].rho == (0.5, 0.5, 1.0, 1.0)
    assert found["b"].rho == (0.5, 0.5, 1.0, 1.0)
    # (0.5 * 0.5 + 0.5 * 0.75 + 2 * 1) / 3
    assert profile_score(found["a"]) == pytest.approx(2.625 / 3)
    assert found["a"].low is None


def test_a_profile_shows_what_was_never_reached() -> None:
    found = performance_profile({"a": {"x": [1.0, 1.1]}, "b": {"x": [math.inf, math.inf]}})
    assert set(found["b"].rho) == {0.0} and set(found["a"].rho) == {1.0}
    assert found["a"].low == found["a"].rho and found["b"].high == found["b"].rho
    with pytest.raises(ValueError, match="needs a time for every task"):
        performance_profile({"a": {"x": [1.0]}, "b": {"y": [1.0]}})


@given(st.lists(st.lists(st.floats(0.1, 100), min_size=3, max_size=3), min_size=2, max_size=4))
def test_profiles_rise_and_somebody_is_best(rows: list[list[float]]) -> None:
    found = performance_profile(
        {str(i): {str(k): [t] for k, t in enumerate(row)} for i, row in enumerate(rows)}
    )
    for line in found.values():
        assert list(line.rho) == sorted(line.rho)
    assert sum(line.rho[0] for line in found.values()) >= 1 - 1e-9


def test_probability_of_improvement_is_mirrored() -> None:
    there, back = probability_of_improvement(X, Y), probability_of_improvement(Y, X)
    assert there.value == pytest.approx(1 - back.value)
    assert there.low is not None and there.high is not None and there.low <= there.value <= there.high
    assert probability_of_improvement({"a": [1.0]}, {"a": [1.0]}).low is None
    with pytest.raises(ValueError, match="same tasks"):
        probability_of_improvement(X, {"first": [1.0]})


def test_the_bootstrap_is_seeded() -> None:
    assert iqm_interval(X) == iqm_interval(X)
    assert performance_profile({"a": X, "b": X}) == performance_profile({"a": X, "b": X})
