"""Intervals of a proportion: Wilson's where items are independent, clustered where they share a training run."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from leaderboard.stats.student import normal_quantile, t_quantile

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A figure and its confidence interval; None where the data give none. `n` units were independent."""

    value: float
    low: float | None
    high: float | None
    n: int


class Spread(NamedTuple):
    """A mean over training runs, the half-width of its interval, and the number of seeds."""

    mean: float
    half: float
    seeds: int


def wilson(successes: float, n: int, *, confidence: float = 0.95) -> tuple[float, float]:
    """Returns the Wilson score interval of a proportion; (0, 1) of nothing. Source: Wilson 1927."""
    if n == 0:
        return 0.0, 1.0
    z = normal_quantile(0.5 + confidence / 2)
    p = successes / n
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return max(0.0, centre - half), min(1.0, centre + half)


def clustered_accuracy(clusters: Mapping[K, Sequence[float]], *, confidence: float = 0.95) -> Interval:
    """The mean accuracy of an arm, with an error that knows that items of one training run hang together.

    Args:
      clusters: item scores in [0, 1] by seed, or by (seed, tenant).
    Returns:
      The mean over seeds and tenants, each counting the same; the interval of `over_runs`, never narrower than
      Wilson's of the same items and cut to [0, 1]; Wilson's where there is one seed.
    """
    items = sum(len(scores) for scores in clusters.values())
    if not items:
        raise ValueError("no item was scored")
    spread = over_runs(clusters, 0.5 + confidence / 2)
    low, high = wilson(spread.mean * items, items, confidence=confidence)
    if spread.seeds > 1:
        low = max(0.0, min(low, spread.mean - spread.half))
        high = min(1.0, max(high, spread.mean + spread.half))
    return Interval(value=spread.mean, low=low, high=high, n=spread.seeds if spread.seeds > 1 else items)


def over_runs(clusters: Mapping[K, Sequence[float]], p: float) -> Spread:
    """The mean of cluster means and t_p times its error; 0 of one seed, which tells nothing of others.

    Tenants are fixed, seeds are drawn: the error is that of the (seed, tenant) means around each tenant's own, on
    tenants * (seeds - 1) degrees of freedom, or that of the seeds' means on seeds - 1, whichever gives the wider
    interval. The first alone would let an inferior product pass parity 10 to 30 times in a hundred, not five, where
    tenants of a seed rise and fall together.

    Raises ValueError unless every seed has the same tenants.
    """
    means: dict[Hashable, dict[Hashable, float]] = defaultdict(dict)
    for key, scores in clusters.items():
        if scores:
            seed, tenant = key if isinstance(key, tuple) and len(key) == 2 else (key, None)
            means[seed][tenant] = statistics.fmean(scores)
    tenants = next(iter(means.values())).keys()
    if any(own.keys() != tenants for own in means.values()):
        raise ValueError("every seed needs the same tenants")
    of_seeds = [statistics.fmean(own.values()) for own in means.values()]
    n = len(of_seeds)
    if n < 2:
        return Spread(of_seeds[0], 0.0, n)
    within = statistics.fmean(statistics.variance([own[t] for own in means.values()]) for t in tenants)
    of_clusters = t_quantile(p, len(tenants) * (n - 1)) * math.sqrt(within / (n * len(tenants)))
    half = max(of_clusters, t_quantile(p, n - 1) * statistics.stdev(of_seeds) / math.sqrt(n))
    return Spread(statistics.fmean(of_seeds), half, n)
