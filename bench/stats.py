"""The statistics of a comparison: pure functions of numbers, in plain Python.

Times are compared by the paired interval of `leaderboard.metrics.pairing`; scores by non-inferiority.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeVar

from leaderboard.metrics import pairing

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """How many times b is faster than a: geometric mean over `n` pairs; no interval below two pairs."""

    mean: float | None
    low: float | None
    high: float | None
    n: int

    @property
    def detectable(self) -> bool:
        """Whether there is an interval and it excludes 1."""
        return self.low is not None and self.high is not None and not self.low <= 1.0 <= self.high


class Verdict(StrEnum):
    """What the data say about b being worse than a by the margin."""

    PASS = "pass"
    """A loss of the margin is excluded."""
    FAIL = "fail"
    """The loss is estimated at the margin or more, and no loss is excluded."""
    UNDERPOWERED = "underpowered"
    """Neither can be said; more items or seeds are needed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Noninferiority:
    """Mean of b - a over paired items, and the one-sided bound below which it isn't."""

    verdict: Verdict
    difference: float
    bound: float
    margin: float
    p_loss: float
    """One-sided p value of 'b is not worse than a', before or after Holm."""
    items: int
    clusters: int
    unit: str
    """What the bound takes as independent: 'cluster', or 'item' where that is the more careful one."""


def t_cdf(x: float, df: float) -> float:
    """Returns P(T <= x) of Student's t."""
    tail = 0.5 * incomplete_beta(df / 2, 0.5, df / (df + x * x))
    return 1.0 - tail if x > 0 else tail


def t_quantile(p: float, df: float) -> float:
    """Returns the x with P(T <= x) = p, for 0 < p < 1, by bisection."""
    if not (0.0 < p < 1.0 and df > 0):
        raise ValueError(f"p = {p} is not within 0 and 1, or df = {df} is not positive")
    if p < 0.5:
        return -t_quantile(1.0 - p, df)
    low, high = 0.0, 1.0
    while t_cdf(high, df) < p:
        high *= 2.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if t_cdf(middle, df) < p else (low, middle)
    return (low + high) / 2


def incomplete_beta(a: float, b: float, x: float) -> float:
    """Returns the regularized incomplete beta function I_x(a, b).

    Source: Lentz's continued fraction, DLMF 8.17.22.
    """
    if x <= 0.0 or x >= 1.0:
        return 0.0 if x <= 0.0 else 1.0
    if x > (a + 1) / (a + b + 2):  # the fraction converges fast on the other side only
        return 1.0 - incomplete_beta(b, a, 1.0 - x)
    tiny = 1e-300
    c, d = 1.0, 1.0 / (1.0 - (a + b) * x / (a + 1))
    fraction = d
    for m in range(1, 10_000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        step = 1.0
        for term in (even, odd):
            d = 1.0 / ((1.0 + term * d) or tiny)
            c = (1.0 + term / c) or tiny
            step = c * d
            fraction *= step
        if abs(step - 1.0) < 1e-15:
            break
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    return math.exp(log_front) * fraction / a


def paired_log_ratio(times_a: Mapping[int, float], times_b: Mapping[int, float]) -> Ratio:
    """Compares times by seed; above 1, b is the faster. The interval is the leaderboard's."""
    found = pairing.speedup(dict(times_a), dict(times_b))
    return Ratio(mean=found["speedup"], low=found["low"], high=found["high"], n=found["n"])


def noninferiority(
    a_scores: Mapping[K, Sequence[float]],
    b_scores: Mapping[K, Sequence[float]],
    margin: float,
    *,
    alpha: float = 0.05,
) -> Noninferiority:
    """Tests whether b scores less than a by the margin.

    Args:
      a_scores: scores in [0, 1] by cluster, for instance by (seed, tenant).
      b_scores: those of the same items in the same order.
      margin: loss that would matter, > 0.
      alpha: one-sided error.
    Returns:
      The verdict by the lower of two bounds: items as units, smoothed by half a pair for and half against
      so that equal scores on few items prove little (Agresti & Min 2005, doi 10.1002/sim.1781); and, from two
      clusters on, clusters as units (the sandwich variance with clusters - 1 degrees of freedom).
    """
    if margin <= 0.0:
        raise ValueError(f"margin = {margin} must be above 0")
    if a_scores.keys() != b_scores.keys():
        raise ValueError("the two sides have different clusters")
    clusters = [
        [y - x for x, y in zip(a_scores[key], b_scores[key], strict=True)]
        for key in a_scores
        if a_scores[key]
    ]
    differences = list(itertools.chain.from_iterable(clusters))
    n = len(differences)
    if not n:
        raise ValueError("no items to compare")
    mean = math.fsum(differences) / n

    size = n + 2
    centre = math.fsum(differences) / size
    spread = (math.fsum(d * d for d in differences) + 1.0) / size - centre * centre
    candidates = [("item", centre, math.sqrt(max(0.0, spread) / size), n)]
    if len(clusters) > 1:
        count = len(clusters)
        residual = math.fsum(math.fsum(d - mean for d in own) ** 2 for own in clusters)
        candidates.append(("cluster", mean, math.sqrt(count / (count - 1) * residual) / n, count - 1))

    def bound(candidate: tuple[str, float, float, int]) -> float:
        _, middle, error, df = candidate
        return middle - t_quantile(1.0 - alpha, df) * error

    chosen = min(candidates, key=bound)
    p_loss = max(
        t_cdf(middle / error, df) if error else float(middle >= 0) for _, middle, error, df in candidates
    )
    result = Noninferiority(
        verdict=Verdict.UNDERPOWERED,
        difference=mean,
        bound=bound(chosen),
        margin=margin,
        p_loss=p_loss,
        items=n,
        clusters=len(clusters),
        unit=chosen[0],
    )
    return _judge(result, alpha)


def family(results: Mapping[str, Noninferiority], *, alpha: float = 0.05) -> dict[str, Noninferiority]:
    """Judges several tests together: failures by Holm. Passing all needs no correction, each must pass."""
    adjusted = holm([result.p_loss for result in results.values()])
    return {
        name: _judge(replace(result, p_loss=p), alpha)
        for (name, result), p in zip(results.items(), adjusted, strict=True)
    }


def holm(p_values: Sequence[float]) -> list[float]:
    """Returns p values adjusted for their number, in the same order. Source: Holm 1979."""
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = largest
    return adjusted


def _judge(result: Noninferiority, alpha: float) -> Noninferiority:
    if result.bound > -result.margin:
        verdict = Verdict.PASS
    elif result.difference <= -result.margin and result.p_loss < alpha:
        verdict = Verdict.FAIL
    else:
        verdict = Verdict.UNDERPOWERED
    return replace(result, verdict=verdict)
