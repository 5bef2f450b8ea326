"""Quantiles against an independent integration of the density, and against closed forms."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leaderboard.stats import normal_quantile, t_cdf, t_quantile


def integrated(t: float, df: float, steps: int = 4000) -> float:
    """Simpson's rule over the density, from 0 up."""
    scale = math.gamma((df + 1) / 2) / math.sqrt(df * math.pi) / math.gamma(df / 2)
    h = t / steps
    ys = [scale * (1 + (i * h) ** 2 / df) ** (-(df + 1) / 2) for i in range(steps + 1)]
    return 0.5 + h / 3 * (ys[0] + ys[-1] + 4 * sum(ys[1:-1:2]) + 2 * sum(ys[2:-1:2]))


@pytest.mark.parametrize("df", [1, 2, 2.5, 4, 9, 29, 30.7, 150])
@pytest.mark.parametrize("p", [0.6, 0.95, 0.975])
def test_quantiles_leave_the_share_below(p: float, df: float) -> None:
    assert integrated(t_quantile(p, df), df) == pytest.approx(p, abs=1e-9)


def test_closed_forms() -> None:
    # one degree of freedom is Cauchy: tan(pi (p - 1/2)); two: (2p - 1) / sqrt(2 p (1 - p))
    assert t_quantile(0.975, 1) == pytest.approx(math.tan(math.pi * 0.475), rel=1e-12)
    assert t_quantile(0.95, 2) == pytest.approx(0.9 / math.sqrt(2 * 0.95 * 0.05), rel=1e-12)
    assert normal_quantile(0.975) == pytest.approx(1.959963984540054, rel=1e-12)
    assert t_quantile(0.975, 1e7) == pytest.approx(normal_quantile(0.975), rel=1e-6)


@given(st.floats(1e-6, 1 - 1e-6), st.floats(0.5, 500))
def test_quantile_inverts_the_distribution_and_is_odd(p: float, df: float) -> None:
    assert t_cdf(t_quantile(p, df), df) == pytest.approx(p, rel=1e-9)
    assert t_quantile(p, df) == pytest.approx(-t_quantile(1 - p, df), rel=1e-6, abs=1e-9)


def test_what_is_no_quantile_is_refused() -> None:
    with pytest.raises(ValueError, match="0 < p < 1"):
        t_quantile(1.0, 3)
    with pytest.raises(ValueError, match="positive"):
        t_cdf(0.0, 0)
