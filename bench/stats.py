"""Accuracy parity: is the product's accuracy not worse than the baseline's by more than a margin?"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

T95_ONE_SIDED = (
    *(6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833, 1.812),
    *(1.796, 1.782, 1.771, 1.761, 1.753, 1.746, 1.740, 1.734, 1.729, 1.725),
    *(1.721, 1.717, 1.714, 1.711, 1.708, 1.706, 1.703, 1.701, 1.699, 1.697),
)
"""One-sided 95 % quantiles of Student's t for 1..30 degrees of freedom."""
Z95_ONE_SIDED = 1.6449


@dataclass(frozen=True, slots=True, kw_only=True)
class Parity:
    """`difference` is product - baseline; `low` its one-sided 95 % bound; `n` pairs of `unit`."""

    verdict: Literal["pass", "fail", "underpowered"]
    difference: float
    low: float
    high: float
    n: int
    unit: Literal["seeds", "items"]


def parity(differences: Mapping[int, Sequence[float]], margin: float) -> Parity:
    """One-sided non-inferiority of paired item differences in [-1, 1], by seed.

    With two or more seeds the seed is the unit of replication (items of one training run are not independent
    evidence about training); with one seed the items are, and the verdict speaks of this one run. Passes if
    the lower bound exceeds -margin, fails if the upper one is below it, and is underpowered in between.

    The items' own error is that of Bonett & Price 2012 (J. Educ. Behav. Stat. 37:479): one pair more in which
    the baseline wins and one in which the product does, so that a few items that agree are no proof. Over
    seeds the error is Student's, and never taken as smaller than the items'.
    """
    items = [d for each in differences.values() for d in each]
    n = len(items) + 2
    adjusted = math.fsum(items) / n
    variance = (math.fsum(d * d for d in items) + 2) / n - adjusted**2
    of_items = Z95_ONE_SIDED * math.sqrt(variance / n)
    if len(differences) > 1:
        values = [statistics.fmean(d) for d in differences.values()]
        k = len(values) - 1
        t = T95_ONE_SIDED[k - 1] if k <= len(T95_ONE_SIDED) else Z95_ONE_SIDED
        centre = mean = statistics.fmean(values)
        half = max(t * statistics.stdev(values) / math.sqrt(len(values)), of_items)
        count, unit = len(values), "seeds"
    else:
        mean, centre, half = statistics.fmean(items), adjusted, of_items
        count, unit = len(items), "items"
    low, high = centre - half, centre + half
    verdict = "pass" if low > -margin else "fail" if high < -margin else "underpowered"
    return Parity(verdict=verdict, difference=mean, low=low, high=high, n=count, unit=unit)
