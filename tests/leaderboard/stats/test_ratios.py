"""Ratios of paired times: by hand, at their edges, and how often their intervals hold the truth."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leaderboard.stats import (
    Ratio,
    geometric_mean,
    holm,
    normal_quantile,
    paired_ratio,
    suite_ratio,
    t_cdf,
)

TIMES = st.lists(st.floats(0.1, 1000), min_size=2, max_size=8)
DRIFT, NOISE = 0.15, 0.05
"""Log-scale deviation of a shared machine from pair to pair, and of a run from its machine's."""


def by_seed(values: list[float] | np.ndarray) -> dict[int, float]:
    return dict(enumerate(map(float, values)))


def test_paired_ratio_by_hand() -> None:
    # log ratios log 2 and log 8: mean log 4, standard error log 2, t(1) = 12.7062
    found = paired_ratio({1: 2.0, 2: 8.0, 3: 5.0}, {1: 1.0, 2: 1.0, 9: 1.0})
    assert found is not None
    assert (found.n, found.ratio, found.time_reduction) == (2, pytest.approx(4.0), pytest.approx(0.75))
    assert found.low == pytest.approx(4.0 / 2**12.7062047361747)
    assert found.high == pytest.approx(4.0 * 2**12.7062047361747)
    # t = 2 on one degree of freedom: 1 - 2 atan(2) / pi
    assert found.p_value == pytest.approx(1 - 2 * math.atan(2) / math.pi)


def test_one_pair_has_no_interval_and_none_no_ratio() -> None:
    one = paired_ratio({1: 2.0}, {1: 1.0})
    assert one is not None and (one.ratio, one.low, one.p_value) == (2.0, None, None)
    assert paired_ratio({1: 2.0}, {2: 1.0}) is None
    with pytest.raises(ValueError, match="time of 1 is 0"):
        paired_ratio({1: 0.0}, {1: 1.0})


def test_a_run_that_never_got_there_is_shown_and_not_dropped() -> None:
    lost = paired_ratio({1: 2.0, 2: 2.0}, {1: 1.0, 2: math.inf})
    assert lost is not None and (lost.ratio, lost.lost, lost.n, lost.low) == (0.0, 1, 2, None)
    assert lost.time_reduction == -math.inf
    won = paired_ratio({1: math.inf}, {1: 1.0})
    assert won is not None and (won.ratio, won.won) == (math.inf, 1)
    both = paired_ratio({1: math.inf, 2: 1.0}, {1: math.inf, 2: 1.0})
    assert both is not None and both.lost == 1
    mixed = paired_ratio({1: math.inf, 2: 1.0}, {1: 1.0, 2: math.inf})
    assert mixed is not None and math.isnan(mixed.ratio)
    suite = suite_ratio(
        {"a": ({1: 2.0, 2: 2.0}, {1: 1.0, 2: math.inf}), "b": ({1: 2.0, 2: 2.0}, {1: 1.0, 2: 1.0})}
    )
    assert suite is not None and (suite.ratio, suite.low, suite.method) == (0.0, None, "none")


@given(TIMES, TIMES)
def test_swapping_the_arms_inverts_the_ratio(a: list[float], b: list[float]) -> None:
    there, back = paired_ratio(by_seed(a), by_seed(b)), paired_ratio(by_seed(b), by_seed(a))
    assert there is not None and back is not None
    assert there.ratio == pytest.approx(1 / back.ratio, rel=1e-6)
    if there.low is not None and back.high is not None and there.width is not None and there.width < 500:
        assert math.log(there.low) == pytest.approx(-math.log(back.high), rel=1e-6, abs=1e-6)
        assert there.low <= there.ratio * (1 + 1e-9)


def test_geometric_mean() -> None:
    assert geometric_mean([1.0, 4.0]) == pytest.approx(2.0)
    assert geometric_mean([0.0, 4.0]) == 0.0 and geometric_mean([math.inf, 4.0]) == math.inf
    with pytest.raises(ValueError, match="no value"):
        geometric_mean([])


def test_holm_by_hand() -> None:
    # 0.01 * 4, 0.02 * 3, max(0.06, 0.03 * 2), max(0.06, 0.05 * 1): Holm 1979
    found = holm({"a": 0.01, "b": 0.05, "c": 0.03, "d": 0.02})
    assert found == pytest.approx({"a": 0.04, "b": 0.06, "c": 0.06, "d": 0.06})
    assert holm({}) == {} and holm({"a": 0.9, "b": 0.8}) == {"a": 1.0, "b": 1.0}


def test_holm_holds_the_familys_error() -> None:
    """Eight tasks without any difference: at least one is claimed in at most 5 % of suites."""
    p = np.random.default_rng(2).random((4000, 8))
    wrong = np.mean([min(holm(by_seed(row)).values()) <= 0.05 for row in p])
    # 3 standard errors: 3 * sqrt(0.05 * 0.95 / 4000) = 0.0103
    assert wrong == pytest.approx(0.05, abs=0.0104)


# ---- simulated studies


def pairs(rng: np.random.Generator, trials: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Log times [trials, n] of two arms without a difference, on a machine that drifts."""
    drift = rng.normal(0, DRIFT, (trials, n))
    return drift + rng.normal(0, NOISE, (trials, n)), drift + rng.normal(0, NOISE, (trials, n))


def welch(a: np.ndarray, b: np.ndarray) -> float:
    """Coverage of the unpaired interval."""
    n = a.shape[1]
    va, vb = a.var(axis=1, ddof=1) / n, b.var(axis=1, ddof=1) / n
    df = (va + vb) ** 2 / ((va**2 + vb**2) / (n - 1))
    t = (a.mean(axis=1) - b.mean(axis=1)) / np.sqrt(va + vb)
    return float(np.mean([t_cdf(abs(x), f) < 0.975 for x, f in zip(t, df, strict=True)]))


def bootstrap(d: np.ndarray, rng: np.random.Generator, accelerated: bool, resamples: int = 1000) -> float:
    """Coverage of the percentile interval, or of the bias-corrected accelerated one (Efron 1987), of paired means."""
    trials, n = d.shape
    # the same draws for every trial: coverage is over trials, and a matrix product is fast
    counts = rng.multinomial(n, np.full(n, 1 / n), resamples)
    drawn = np.sort(d @ counts.T / n, axis=1)
    ends = np.tile([0.025, 0.975], (trials, 1))
    if accelerated:
        cdf: Callable[[np.ndarray], np.ndarray] = np.vectorize(lambda z: 0.5 * math.erfc(-z / math.sqrt(2)))
        below = np.clip((drawn < d.mean(axis=1, keepdims=True)).mean(axis=1), 1e-4, 1 - 1e-4)
        z0 = np.array([normal_quantile(p) for p in below])[:, None]
        left = d.mean(axis=1, keepdims=True) - (d.sum(axis=1, keepdims=True) - d) / (n - 1)
        acceleration = ((left**3).sum(axis=1) / (6 * (left**2).sum(axis=1) ** 1.5))[:, None]
        z = z0 + np.array([normal_quantile(0.025), normal_quantile(0.975)])
        ends = cdf(z0 + z / (1 - acceleration * z))
    index = np.rint(ends * (resamples - 1)).astype(int)
    low, high = np.take_along_axis(drawn, index, axis=1).T
    return float(np.mean((low <= 0) & (high >= 0)))


# the table that decided for Student's t: coverage of a nominal 95 % interval by number of pairs
TABLE = {
    3: {"paired t": 0.952, "welch": 0.997, "percentile": 0.756, "accelerated": 0.702},
    5: {"paired t": 0.949, "welch": 1.000, "percentile": 0.830, "accelerated": 0.831},
    6: {"paired t": 0.945, "welch": 1.000, "percentile": 0.851, "accelerated": 0.853},
    10: {"paired t": 0.956, "welch": 1.000, "percentile": 0.911, "accelerated": 0.908},
}


def held(a: np.ndarray, b: np.ndarray) -> list[Ratio]:
    found = [paired_ratio(by_seed(np.exp(x)), by_seed(np.exp(y))) for x, y in zip(a, b, strict=True)]
    return [ratio for ratio in found if ratio is not None]


@pytest.mark.parametrize("n", [3, 5, 10])
def test_paired_t_covers_95_percent(n: int) -> None:
    a, b = pairs(np.random.default_rng(n), 4000, n)
    ratios = held(a, b)
    covered = np.mean([r.low <= 1 <= r.high for r in ratios if r.low is not None and r.high is not None])
    assert 0.93 <= covered <= 0.97
    # the p-value is the same statement
    assert np.mean([r.p_value > 0.05 for r in ratios if r.p_value is not None]) == pytest.approx(covered)


@pytest.mark.parametrize("n", list(TABLE))
def test_the_coverage_of_four_intervals_is_the_published_one(n: int) -> None:
    """A bootstrap of few pairs promises 95 % and keeps 70 to 91; unpaired, the drift widens everything."""
    rng = np.random.default_rng(10 + n)
    a, b = pairs(rng, 3000, n)
    found = {
        "paired t": float(np.mean([r.low <= 1 <= r.high for r in held(a, b) if r.low and r.high])),
        "welch": welch(a, b),
        "percentile": bootstrap(a - b, rng, accelerated=False),
        "accelerated": bootstrap(a - b, rng, accelerated=True),
    }
    # both studies have 3000 trials: two standard errors of their difference are 0.02 at 0.83, and 0.011 at 0.95
    assert found == pytest.approx(TABLE[n], abs=0.02)
    assert found["paired t"] == pytest.approx(TABLE[n]["paired t"], abs=0.015)
    assert found["welch"] == pytest.approx(TABLE[n]["welch"], abs=0.015)


@pytest.mark.parametrize(("tasks", "n", "method"), [(6, 5, "bootstrap"), (10, 3, "bootstrap"), (3, 5, "t")])
def test_the_suites_interval_covers_95_percent(tasks: int, n: int, method: str) -> None:
    rng = np.random.default_rng(tasks)
    trials, gains = 400, rng.normal(0.3, 0.3, tasks)
    logs = gains[:, None] + rng.normal(0, 0.07, (trials, tasks, n))
    covered = 0
    for trial in logs:
        times = {str(k): (by_seed(np.exp(row)), dict.fromkeys(range(n), 1.0)) for k, row in enumerate(trial)}
        found = suite_ratio(times, resamples=600)
        assert (
            found is not None and found.method == method and found.low is not None and found.high is not None
        )
        covered += found.low <= math.exp(gains.mean()) <= found.high
    # 2 standard errors: 2 * sqrt(0.95 * 0.05 / 400) = 0.022
    assert covered / trials == pytest.approx(0.95, abs=0.023)


def test_tenants_of_one_run_share_its_luck() -> None:
    """Ten tenants, three seeds, one drift a seed: the seed is the unit."""
    rng = np.random.default_rng(3)
    trials, n = 400, 3
    covered = {True: 0, False: 0}
    for _ in range(trials):
        drift = rng.normal(0, 0.1, n)
        tenants = drift + rng.normal(0, 0.03, (10, n))
        times = {
            str(k): (by_seed(np.exp(row)), dict.fromkeys(range(n), 1.0)) for k, row in enumerate(tenants)
        }
        for shared in covered:
            found = suite_ratio(times, shared_runs=shared, resamples=300)
            assert found is not None and found.low is not None and found.high is not None
            covered[shared] += found.low <= 1 <= found.high
    assert covered[True] / trials == pytest.approx(0.95, abs=0.023)
    assert covered[False] / trials < 0.7


def test_the_bootstrap_is_seeded() -> None:
    times = {
        str(k): ({s: 1.0 + 0.1 * k + 0.01 * s for s in range(5)}, dict.fromkeys(range(5), 1.0))
        for k in range(6)
    }
    assert suite_ratio(times) == suite_ratio(times) != suite_ratio(times, seed=1)
