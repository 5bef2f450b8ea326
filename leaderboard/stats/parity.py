"""Accuracy parity: is the product's accuracy not worse than the baseline's by more than a margin?"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from leaderboard.stats.student import normal_quantile, t_quantile


@dataclass(frozen=True, slots=True, kw_only=True)
class Parity:
    """`difference` is product - baseline; `low` its one-sided 95 % bound; `n` pairs of `unit`."""

    verdict: Literal["pass", "fail", "underpowered"]
    difference: float
    low: float
    high: float
    n: int
    unit: Literal["seeds", "items", "seeds × tenants"]


def parity(
    differences: Mapping[Hashable, Sequence[float]], margin: float, *, confidence: float = 0.95
) -> Parity:
    """One-sided non-inferiority of paired item differences in [-1, 1], by cluster.

    Args:
      differences: product - baseline, item by item, by cluster: a seed, or a (seed, tenant).
      margin: accuracy that may be lost, > 0, fixed before any result was seen.

    A training run is the unit of replication: items of one run are not independent evidence about training. With
    one seed only, the items are, and the verdict speaks of this one run. Passes if the lower bound exceeds -margin,
    fails if the upper one is below it, and is underpowered in between.

    The items' own error is that of Bonett & Price 2012 (J. Educ. Behav. Stat. 37:479): one pair more in which
    the baseline wins and one in which the product does, so that a few items that agree are no proof. Over
    clusters the error is Student's, and never taken as smaller than the items'.
    """
    own = {key: list(each) for key, each in differences.items() if each}
    items = [d for each in own.values() for d in each]
    if not items:
        raise ValueError("no item was scored in both arms")
    n = len(items) + 2
    adjusted = math.fsum(items) / n
    variance = (math.fsum(d * d for d in items) + 2) / n - adjusted**2
    of_items = normal_quantile(confidence) * math.sqrt(variance / n)
    seeds = {_seed(key) for key in own}
    if len(seeds) > 1:
        mean, half = _over_runs(own, confidence)
        centre, half = mean, max(half, of_items)
        clustered = len(own) > len(seeds)
        count, unit = len(own) if clustered else len(seeds), "seeds × tenants" if clustered else "seeds"
    else:
        mean, centre, half = statistics.fmean(items), adjusted, of_items
        count, unit = len(items), "items"
    low, high = centre - half, centre + half
    verdict = "pass" if low > -margin else "fail" if high < -margin else "underpowered"
    return Parity(verdict=verdict, difference=mean, low=low, high=high, n=count, unit=unit)


def _seed(key: Hashable) -> Hashable:
    return key[0] if isinstance(key, tuple) else key


def _over_runs(own: Mapping[Hashable, Sequence[float]], confidence: float) -> tuple[float, float]:
    """The mean of the seeds' means, and its half-width: of the seeds, which tenants of one run may share."""
    by_seed: dict[Hashable, list[float]] = defaultdict(list)
    for key, each in own.items():
        by_seed[_seed(key)].append(statistics.fmean(each))
    values = [statistics.fmean(each) for each in by_seed.values()]
    t = t_quantile(confidence, len(values) - 1)
    return statistics.fmean(values), t * statistics.stdev(values) / math.sqrt(len(values))
