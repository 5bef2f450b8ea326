"""When a target was reached: the rule, its edges, and how biased a time it gives."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leaderboard.stats import EvalPoint, crossing, geometric_mean, isotonic


def curve(*accuracies: float, every: float = 10.0, n: int = 100) -> list[EvalPoint]:
    return [EvalPoint(at=i * every, accuracy=a, n=n) for i, a in enumerate(accuracies)]


def test_two_passes_in_a_row_make_a_crossing() -> None:
    found = crossing(curve(0.1, 0.7, 0.2, 0.8, 0.9), target=0.6)
    assert (found.low, found.high, found.censored, found.reached) == (20.0, 30.0, False, True)
    # the fit pools 0.7 and 0.2 to 0.45, so it steps over 0.6 in the same place
    assert found.estimate == 25.0


def test_the_target_itself_passes() -> None:
    assert crossing(curve(0.0, 0.6, 0.6), target=0.6).high == 10.0


@pytest.mark.parametrize("accuracies", [(), (0.9,), (0.1, 0.9), (0.9, 0.1, 0.9), (0.1, 0.2, 0.3)])
def test_what_was_not_held_is_infinite(accuracies: tuple[float, ...]) -> None:
    found = crossing(curve(*accuracies), target=0.6)
    assert (found.low, found.high, found.estimate) == (math.inf, math.inf, math.inf)
    assert not found.reached and not found.censored


def test_a_first_evaluation_that_passes_tells_no_time() -> None:
    late = [EvalPoint(at=10.0, accuracy=0.7, n=10), EvalPoint(at=20.0, accuracy=0.8, n=10)]
    found = crossing(late, target=0.6)
    assert found.censored and (found.low, found.high, found.estimate) == (0.0, 10.0, 5.0)


def test_a_curve_that_falls_back_keeps_its_rule_and_takes_its_middle() -> None:
    found = crossing(curve(0.0, 0.7, 0.7, 0.0, 0.0, 0.0), target=0.6)
    assert (found.low, found.high, found.estimate) == (0.0, 10.0, 5.0)


def test_evaluations_come_in_order() -> None:
    with pytest.raises(ValueError, match="order"):
        crossing([EvalPoint(at=2.0, accuracy=0.1, n=1), EvalPoint(at=1.0, accuracy=0.2, n=1)], 0.5)


@given(st.lists(st.tuples(st.floats(0, 1), st.integers(1, 50)), min_size=1, max_size=20))
def test_isotonic_rises_keeps_the_mean_and_is_a_fixed_point(points: list[tuple[float, int]]) -> None:
    values, weights = [v for v, _ in points], [w for _, w in points]
    fit = isotonic(values, weights)
    assert all(a <= b + 1e-12 for a, b in itertools.pairwise(fit))
    assert math.fsum(f * w for f, w in zip(fit, weights, strict=True)) == pytest.approx(
        math.fsum(v * w for v, w in points)
    )
    assert isotonic(fit, weights) == pytest.approx(fit)


@given(st.lists(st.floats(0, 1), min_size=2, max_size=15), st.floats(0, 1), st.floats(0, 1))
def test_a_higher_target_is_not_reached_earlier(values: list[float], a: float, b: float) -> None:
    low, high = sorted((a, b))
    points = curve(*values)
    assert crossing(points, low).high <= crossing(points, high).high


# ---- simulated study: accuracy from 0.40 to 0.75, exponentially; 0.69 is reached at 70.5 updates

TARGET, TAU = 0.69, 40.0
TRUE = TAU * math.log(0.35 / 0.06)
# (items, evaluation every): mean first pass, alone and of two in a row, in updates
PASSES = {
    (128, 1): (45.3, 60.3),
    (128, 5): (58.3, 74.1),
    (256, 1): (51.9, 63.4),
    (256, 5): (63.0, 74.1),
    (256, 10): (69.9, 79.9),
    (1024, 1): (61.8, 68.9),
    (1024, 5): (69.6, 74.8),
}


@pytest.mark.parametrize(("items", "every"), list(PASSES))
def test_the_first_pass_is_biased_and_the_estimate_is_not(items: int, every: int) -> None:
    rng = np.random.default_rng([items, every])
    at = np.arange(0, 151, every)
    learnt = 0.75 - 0.35 * np.exp(-at / TAU)
    curves = rng.binomial(items, learnt, (500, len(at))) / items
    found = [
        crossing(
            [EvalPoint(at=float(t), accuracy=float(y), n=items) for t, y in zip(at, row, strict=True)], TARGET
        )
        for row in curves
    ]
    single, double = PASSES[items, every]
    # 500 runs of deviation 15 at most err by 0.7; the table's own trials as much again
    assert np.mean(at[(curves >= TARGET).argmax(axis=1)]) == pytest.approx(single, abs=2.0)
    assert np.mean([c.high for c in found]) == pytest.approx(double, abs=2.0)
    assert np.mean([c.low < c.high for c in found]) == 1.0
    # over seeds arms are compared by geometric means
    assert geometric_mean(c.estimate for c in found) == pytest.approx(TRUE, rel=0.03)
