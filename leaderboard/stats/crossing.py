"""When a learning curve reached its target: an interval, never a point, under the rule of two consecutive passes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

CONSECUTIVE = 2
"""Passes in a row: one alone is chance too often (26 % early at 256 items and an evaluation every update)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalPoint:
    """One scheduled evaluation: where on the axis (seconds, samples or device-seconds) and its accuracy of n items."""

    at: float
    accuracy: float
    n: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossing:
    """The crossing lies in (low, high]; both infinite where the target was never held.

    `low` is the evaluation before the first of the two passes, `high` that first pass.
    """

    low: float
    high: float
    censored: bool
    """The first evaluation passed: the crossing may have been at any time before."""
    estimate: float
    """A point with little bias (`crossing_estimate`); infinite where the target was never held."""

    @property
    def reached(self) -> bool:
        """Whether the target was held."""
        return math.isfinite(self.high)


def crossing(points: Sequence[EvalPoint], target: float) -> Crossing:
    """The first pair of consecutive evaluations at or above the target.

    Args:
      points: one tenant's scheduled evaluations in order, the one before training among them.
      target: accuracy, fixed before any result was seen.
    """
    if any(a.at > b.at for a, b in itertools.pairwise(points)):
        raise ValueError("evaluations are in the order in which their snapshots were taken")
    passed = [point.accuracy >= target for point in points]
    first = next((i for i in range(len(points) - CONSECUTIVE + 1) if all(passed[i : i + CONSECUTIVE])), None)
    if first is None:
        return Crossing(low=math.inf, high=math.inf, censored=False, estimate=math.inf)
    high = points[first].at
    low = points[first - 1].at if first else 0.0
    return Crossing(low=low, high=high, censored=first == 0, estimate=crossing_estimate(points, target))


def crossing_estimate(points: Sequence[EvalPoint], target: float) -> float:
    """Where the isotonic fit of the curve meets the target, between evaluations by a straight line.

    The crossing by passes comes early on noisy curves (the first lucky pass counts) and late on rare evaluations; the
    fit uses all evaluations, weighted by their items. Infinite where the fit never gets there.

    Source: Ayer et al. 1955 (pool adjacent violators).
    """
    blocks: list[tuple[float, float, float]] = []
    for point in points:
        weight, mean, at = float(point.n), point.accuracy, point.at
        while blocks and blocks[-1][1] >= mean:
            w, m, a = blocks.pop()
            mean, at = (m * w + mean * weight) / (w + weight), (a * w + at * weight) / (w + weight)
            weight += w
        blocks.append((weight, mean, at))
    before: tuple[float, float] | None = None
    for _, mean, at in blocks:
        if mean >= target:
            if before is None:
                return at
            share = (target - before[0]) / (mean - before[0])
            return before[1] + share * (at - before[1])
        before = (mean, at)
    return math.inf
