"""Student's t and the normal distribution: exact quantiles for any degrees of freedom."""

from __future__ import annotations

import functools
import math
import statistics

_TINY = 1e-300
_STEPS = 1000
_NORMAL = statistics.NormalDist()


def normal_quantile(p: float) -> float:
    """Returns z with P(Z <= z) = p, 0 < p < 1."""
    return _NORMAL.inv_cdf(p)


def t_cdf(t: float, df: float) -> float:
    """Returns P(T <= t) of Student's t with `df` > 0 degrees of freedom, not necessarily whole.

    Source: Abramowitz & Stegun 26.7.1: 1 - I_x(df/2, 1/2) / 2 with x = df / (df + t^2), for t >= 0.
    """
    if df <= 0:
        raise ValueError(f"degrees of freedom are positive, not {df}")
    if math.isinf(t):
        return 1.0 if t > 0 else 0.0
    tail = 0.5 * _incomplete_beta(df / 2, 0.5, df / (df + t * t))
    return 1.0 - tail if t >= 0 else tail


@functools.lru_cache(maxsize=4096)
def t_quantile(p: float, df: float) -> float:
    """Returns t with P(T <= t) = p, 0 < p < 1; good to 12 digits. Bisection: the distribution is monotone."""
    if not 0 < p < 1:
        raise ValueError(f"a quantile is asked at 0 < p < 1, not {p}")
    if p >= 0.5:
        return -t_quantile(1 - p, df) if p > 0.5 else 0.0
    low, high = -1.0, 0.0
    while t_cdf(low, df) > p:
        low, high = 2 * low, low
    while low < (middle := 0.5 * (low + high)) < high:
        low, high = (middle, high) if t_cdf(middle, df) < p else (low, middle)
    return high


def _incomplete_beta(a: float, b: float, x: float) -> float:
    """The regularised incomplete beta function I_x(a, b)."""
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    # the fraction converges fast on this side only; the other is its complement
    if x > (a + 1) / (a + b + 2):
        return 1.0 - _incomplete_beta(b, a, 1 - x)
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    return math.exp(log_front) / a / _beta_fraction(a, b, x)


def _beta_fraction(a: float, b: float, x: float) -> float:
    """The continued fraction 1 + d1/(1 + d2/(1 + ...)) of Abramowitz & Stegun 26.5.8, by the modified Lentz method."""
    value, c, d = 1.0, 1.0, 0.0
    for n in range(1, _STEPS):
        m = n // 2
        if n % 2 == 0:
            term = m * (b - m) * x / ((a + n - 1) * (a + n))
        else:
            term = -(a + m) * (a + b + m) * x / ((a + n - 1) * (a + n))
        d = 1.0 + term * d
        c = 1.0 + term / c
        d = 1.0 / (d if abs(d) > _TINY else _TINY)
        c = c if abs(c) > _TINY else _TINY
        value *= c * d
        if abs(1.0 - c * d) < 1e-15:
            return value
    raise ArithmeticError(f"the incomplete beta function of {a}, {b}, {x} doesn't converge")
