"""Intervals of a proportion: Wilson's where items are independent, clustered where they share a training run."""

from __future__ import annotations

import math
import statistics
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from leaderboard.stats.student import normal_quantile, t_quantile


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A figure and its confidence interval; None where the data give none. `n` units were independent."""

    value: float
    low: float | None
    high: float | None
    n: int


def wilson(successes: float, n: int, *, confidence: float = 0.95) -> tuple[float, float]:
    """Returns the Wilson score interval of a proportion; (0, 1) of nothing. Source: Wilson 1927."""
    if n == 0:
        return 0.0, 1.0
    z = normal_quantile(0.5 + confidence / 2)
    p = successes / n
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return max(0.0, centre - half), min(1.0, centre + half)


def clustered_accuracy(clusters: Mapping[Hashable, Sequence[float]], *, confidence: float = 0.95) -> Interval:
    """The mean of all items, with an error that knows that items of one cluster, a (seed, tenant), hang together.

    Args:
      clusters: item scores in [0, 1] by cluster; empty clusters don't count.
    Returns:
      Mean over items; a t interval on the ratio estimator's linearised residuals, clusters - 1 degrees of freedom,
      never narrower than Wilson's of the same items and cut to [0, 1]; of one cluster, Wilson's.

    Source: Cochran 1977, Sampling Techniques, 9A.2 (clusters of unequal size).
    """
    own = [list(scores) for scores in clusters.values() if scores]
    items = sum(len(scores) for scores in own)
    if not items:
        raise ValueError("no item was scored")
    mean = math.fsum(score for scores in own for score in scores) / items
    low, high = wilson(mean * items, items, confidence=confidence)
    k = len(own)
    if k > 1:
        residuals = [(math.fsum(scores) - mean * len(scores)) * k / items for scores in own]
        error = statistics.stdev(residuals, xbar=0.0) / math.sqrt(k)
        half = t_quantile(0.5 + confidence / 2, k - 1) * error
        low, high = max(0.0, min(low, mean - half)), min(1.0, max(high, mean + half))
    return Interval(value=mean, low=low, high=high, n=k)
