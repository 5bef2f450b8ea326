"""Estimators for evaluations: unbiased pass@k and Wilson intervals."""

from __future__ import annotations

import math
from collections.abc import Iterable
from statistics import NormalDist
from typing import NamedTuple


class Interval(NamedTuple):
    """A two-sided confidence interval of a share."""

    low: float
    high: float


def pass_at_k(n: int, c: int, k: int) -> float:
    """Chance that k of n samples, drawn without replacement, hold one of the c right ones.

    Source: Chen et al. 2021, arXiv 2107.03374: 1 - C(n - c, k) / C(n, k), here in exact integers.
    """
    if not 0 <= c <= n:
        raise ValueError(f"{c} right answers out of {n} samples can't be.")
    if not 1 <= k <= n:
        raise ValueError(f"pass@{k} can't be estimated from {n} samples; k must be in 1..{n}.")
    total = math.comb(n, k)
    return (total - math.comb(n - c, k)) / total


def mean_pass_at_k(counts: Iterable[tuple[int, int]], k: int) -> float:
    """Mean pass@k of a data set, from (samples, right ones) per problem."""
    values = [pass_at_k(n, c, k) for n, c in counts]
    if not values:
        raise ValueError(f"pass@{k} of no problems is undefined.")
    return math.fsum(values) / len(values)


def wilson(successes: int, n: int, confidence: float = 0.95) -> Interval:
    """Wilson's score interval of a success rate; (0, 1) where nothing was tried.

    Source: Wilson 1927, J. Am. Stat. Assoc. 22:209.
    """
    if not 0 <= successes <= n:
        raise ValueError(f"{successes} successes out of {n} tries can't be.")
    if not 0 < confidence < 1:
        raise ValueError(f"A confidence of {confidence} is outside (0, 1).")
    if n == 0:
        return Interval(0.0, 1.0)
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    rate = successes / n
    centre = (rate + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(rate * (1 - rate) / n + z * z / (4 * n * n))
    # At the ends the formula gives 0 and 1 up to rounding; rounding must not exclude the observed rate.
    low = 0.0 if successes == 0 else max(0.0, centre - half)
    high = 1.0 if successes == n else min(1.0, centre + half)
    return Interval(low, high)
