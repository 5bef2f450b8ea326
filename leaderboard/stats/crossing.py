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
    """The crossing lies in (low, high]; all three infinite where the target was never held.

    `low` is the evaluation before the first of the two passes (0 where there is none), `high` that first pass.
    """

    low: float
    high: float
    estimate: float
    """A point with little bias, to compare arms by; over seeds take the geometric mean, as `paired_ratio` does."""
    censored: bool
    """The first evaluation passed already: the crossing may have been at any time before."""

    @property
    def reached(self) -> bool:
        """Whether the target was held."""
        return math.isfinite(self.high)


def crossing(points: Sequence[EvalPoint], target: float) -> Crossing:
    """The first pair of consecutive evaluations at or above the target, and an estimate of the crossing.

    Args:
      points: one run's scheduled evaluations in order, the one before training among them.
      target: accuracy, fixed before any result was seen.

    The first pass is a biased time: early where evaluations are many and noisy, late where they are rare (-15 % to
    +15 % in the study of tests/leaderboard/stats/test_crossing.py). The estimate is the middle of the two evaluations
    between which the isotonic fit of the whole curve, weighted by items, steps over the target; its geometric mean
    over runs is within 3 % there. Where a curve falls back so far that its fit never does, it is the middle of
    (low, high].
    """
    if any(a.at > b.at for a, b in itertools.pairwise(points)):
        raise ValueError("evaluations are in the order in which their snapshots were taken")
    passed = [point.accuracy >= target for point in points]
    starts = range(len(points) - CONSECUTIVE + 1)
    first = next((i for i in starts if all(passed[i : i + CONSECUTIVE])), None)
    if first is None:
        return Crossing(low=math.inf, high=math.inf, estimate=math.inf, censored=False)
    low, high = (points[first - 1].at if first else 0.0), points[first].at
    fit = isotonic([point.accuracy for point in points], [point.n for point in points])
    over = next((i for i, value in enumerate(fit) if value >= target), None)
    if over is None:
        estimate = (low + high) / 2
    else:
        estimate = (points[over].at + (points[over - 1].at if over else 0.0)) / 2
    return Crossing(low=low, high=high, estimate=estimate, censored=first == 0)


def isotonic(values: Sequence[float], weights: Sequence[float]) -> list[float]:
    """The closest sequence, by weighted squares, that never falls.

    Source: Ayer et al. 1955 (pool adjacent violators).
    """
    blocks: list[tuple[float, float, int]] = []
    for value, weight in zip(values, weights, strict=True):
        mean, total, count = value, float(weight), 1
        while blocks and blocks[-1][0] >= mean:
            earlier, own, length = blocks.pop()
            mean = (mean * total + earlier * own) / (total + own)
            total, count = total + own, count + length
        blocks.append((mean, total, count))
    return [mean for mean, _, count in blocks for _ in range(count)]
