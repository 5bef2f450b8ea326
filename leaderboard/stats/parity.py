"""Accuracy parity: is the product's accuracy not worse than the baseline's by more than a margin?"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from leaderboard.stats.accuracy import over_runs
from leaderboard.stats.student import normal_quantile

K = TypeVar("K", bound=Hashable)

MARGIN = 0.02
"""Accuracy the product may lose and still count as equal: 2 points, set before any result was seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parity:
    """`difference` is product - baseline; `low` its one-sided 95 % bound; `n` pairs of `unit`."""

    verdict: Literal["pass", "fail", "underpowered"]
    difference: float
    low: float
    high: float
    n: int
    unit: Literal["seeds", "items"]


def parity(differences: Mapping[K, Sequence[float]], margin: float, *, confidence: float = 0.95) -> Parity:
    """One-sided non-inferiority of paired item differences in [-1, 1], by training run.

    Args:
      differences: product - baseline, item by item, by seed or by (seed, tenant).
      margin: accuracy that may be lost, > 0, fixed before any result was seen.

    A training run is the unit of replication: items of one run are not independent evidence about training. With
    one seed only, the items are, and the verdict speaks of this one run. Passes if the lower bound exceeds -margin,
    fails if the upper one is below it, and is underpowered in between.

    The items' own error is that of Bonett & Price 2012 (J. Educ. Behav. Stat. 37:479): one pair more in which
    the baseline wins and one in which the product does, so that a few items that agree are no proof. Over seeds
    the error is that of `over_runs`, and never taken as smaller than the items'.
    """
    own = [list(each) for each in differences.values() if each]
    items = [d for each in own for d in each]
    if not items:
        raise ValueError("no item was scored in both arms")
    n = len(items) + 2
    adjusted = math.fsum(items) / n
    variance = (math.fsum(d * d for d in items) + 2) / n - adjusted**2
    runs = over_runs(differences, confidence)
    # clusters count the same, so small ones weigh more than their items: that many equal items would err as much
    effective = len(own) ** 2 / math.fsum(1 / len(each) for each in own) + 2
    of_items = normal_quantile(confidence) * math.sqrt(variance / effective)
    if runs.seeds > 1:
        centre, half, count, unit = runs.mean, max(runs.half, of_items), runs.seeds, "seeds"
    else:
        # the two pairs added pull towards no difference, as far as their weight goes
        centre, half, count, unit = runs.mean * (n - 2) / n, of_items, len(items), "items"
    low, high = centre - half, centre + half
    verdict = "pass" if low > -margin else "fail" if high < -margin else "underpowered"
    return Parity(verdict=verdict, difference=runs.mean, low=low, high=high, n=count, unit=unit)
