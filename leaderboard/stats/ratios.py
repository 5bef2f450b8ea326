"""Ratios of times over paired runs: one pair of arms, or a suite of tasks."""

from __future__ import annotations

import math
import statistics
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeVar

from leaderboard.stats.student import normal_quantile, t_cdf, t_quantile

K = TypeVar("K", bound=Hashable)

BOOTSTRAP_PAIRS = 30
"""(task, seed) pairs from which on the suite's interval is bootstrapped: with fewer it covers too little."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """time(baseline) / time(product): above 1 the product is faster. `low`, `high`, `p_value` None without interval.

    `lost` counts the pairs in which the product never finished, `won` those in which only the baseline didn't; then
    there is no interval, and the ratio is 0 (lost), infinite (won) or NaN (both happened).
    """

    ratio: float
    low: float | None
    high: float | None
    n: int
    p_value: float | None
    """Two-sided, of a ratio of 1."""
    lost: int = 0
    won: int = 0

    @property
    def time_reduction(self) -> float:
        """1 - time(product) / time(baseline)."""
        return 1.0 - 1.0 / self.ratio if self.ratio else -math.inf

    @property
    def width(self) -> float | None:
        """high - low on the log scale."""
        return None if self.low is None or self.high is None else math.log(self.high / self.low)


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteRatio:
    """Geometric mean over tasks of their ratios; `pairs` counts (task, seed)."""

    ratio: float
    low: float | None
    high: float | None
    tasks: int
    pairs: int
    method: Literal["bootstrap", "t", "none"]
    by_task: dict[str, Ratio]
    adjusted_p: dict[str, float]
    """Holm-adjusted p-values of the tasks that have one."""


def geometric_mean(values: Iterable[float]) -> float:
    """exp(mean(log)); 0 if a value is 0, infinite if one is, NaN if both occur. Raises ValueError for none or < 0."""
    logs = [-math.inf if v == 0 else math.log(v) for v in values]
    if not logs:
        raise ValueError("no value to average")
    return math.exp(sum(logs) / len(logs))


def paired_ratio(
    baseline: Mapping[K, float], product: Mapping[K, float], *, confidence: float = 0.95
) -> Ratio | None:
    """exp(mean log ratio) over the keys (seeds) that both have, with Student's interval; None without any pair.

    Args:
      baseline, product: time by seed, > 0; `math.inf` for a run that never got there, which is never dropped.

    With few seeds this keeps its coverage where a bootstrap does not (76 % instead of 95 % at three pairs).
    """
    keys = [key for key in baseline if key in product]
    if not keys:
        return None
    for times in (baseline, product):
        wrong = next((key for key in keys if not times[key] > 0), None)
        if wrong is not None:
            raise ValueError(f"the time of {wrong!r} is {times[wrong]}, not above 0")
    # where neither got there, the product did not win: such a pair is lost
    lost = sum(math.isinf(product[key]) for key in keys)
    won = sum(math.isinf(baseline[key]) and not math.isinf(product[key]) for key in keys)
    if lost or won:
        ratio = math.nan if lost and won else 0.0 if lost else math.inf
        return Ratio(ratio=ratio, low=None, high=None, n=len(keys), p_value=None, lost=lost, won=won)
    return _student([math.log(baseline[key] / product[key]) for key in keys], confidence)


def suite_ratio(
    times: Mapping[str, tuple[Mapping[int, float], Mapping[int, float]]],
    *,
    shared_runs: bool = False,
    confidence: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> SuiteRatio | None:
    """The headline: geometric mean over tasks (or tenants) of their paired ratios; None without any pair.

    Args:
      times: by task, (baseline, product): time by seed.
      shared_runs: the tasks are tenants of the same runs, so that their times rise and fall together; then the seed is
        the unit at any number of pairs.
      seed: of the bootstrap's generator; equal input gives equal output.

    From 30 (task, seed) pairs of separate runs on, the interval is a two-level bootstrap: tasks are fixed, seeds are
    drawn again within each. Else it is Student's on the suite's geometric mean of each seed that all tasks have.
    """
    by_task: dict[str, Ratio] = {}
    logs: list[dict[int, float]] = []
    for task, (baseline, product) in times.items():
        ratio = paired_ratio(baseline, product, confidence=confidence)
        if ratio is not None:
            by_task[task] = ratio
            if not ratio.lost and not ratio.won:
                logs.append({s: math.log(t / product[s]) for s, t in baseline.items() if s in product})
    if not by_task:
        return None
    pairs = sum(ratio.n for ratio in by_task.values())
    low = high = None
    method: Literal["bootstrap", "t", "none"] = "none"
    # a task that was lost makes the suite's ratio 0, and no interval holds that
    if len(logs) == len(by_task):
        shared = sorted(set.intersection(*(set(own) for own in logs)))
        if not shared_runs and pairs >= BOOTSTRAP_PAIRS and all(len(own) > 1 for own in logs):
            low, high = _bootstrap(logs, confidence, resamples, seed)
            method = "bootstrap"
        elif len(shared) > 1:
            of_seeds = _student([statistics.fmean(own[s] for own in logs) for s in shared], confidence)
            low, high, method = of_seeds.low, of_seeds.high, "t"
    return SuiteRatio(
        ratio=geometric_mean(ratio.ratio for ratio in by_task.values()),
        low=low,
        high=high,
        tasks=len(by_task),
        pairs=pairs,
        method=method,
        by_task=by_task,
        adjusted_p=holm({t: r.p_value for t, r in by_task.items() if r.p_value is not None}),
    )


def holm(p_values: Mapping[K, float]) -> dict[K, float]:
    """Adjusted p-values: reject where they are <= alpha and the family's error stays below alpha. Source: Holm 1979."""
    ordered = sorted(p_values, key=lambda key: p_values[key])
    adjusted: dict[K, float] = {}
    highest = 0.0
    for rank, key in enumerate(ordered):
        highest = max(highest, min(1.0, (len(ordered) - rank) * p_values[key]))
        adjusted[key] = highest
    return {key: adjusted[key] for key in p_values}


def _student(logs: list[float], confidence: float) -> Ratio:
    n, mean = len(logs), statistics.fmean(logs)
    if n < 2:
        return Ratio(ratio=math.exp(mean), low=None, high=None, n=n, p_value=None)
    error = statistics.stdev(logs) / math.sqrt(n)
    half = t_quantile(0.5 + confidence / 2, n - 1) * error
    # without spread the statistic is 0/0 (no difference at all) or infinite
    p = 2 * t_cdf(-abs(mean) / error, n - 1) if error else float(mean == 0)
    return Ratio(ratio=math.exp(mean), low=math.exp(mean - half), high=math.exp(mean + half), n=n, p_value=p)


def _bootstrap(
    logs: list[dict[int, float]], confidence: float, resamples: int, seed: int
) -> tuple[float, float]:
    import numpy as np

    rng = np.random.default_rng(seed)
    total = np.zeros(resamples)
    df = sum(len(own) - 1 for own in logs)
    # the spread is estimated too: Student's quantile in place of the normal one that a bootstrap amounts to
    wider = t_quantile(0.5 + confidence / 2, df) / normal_quantile(0.5 + confidence / 2)
    for own in logs:
        values = np.array([own[s] for s in sorted(own)])
        mean, n = values.mean(), len(values)
        # and drawing n of n again spreads sqrt((n - 1) / n) too little: a tenth at five seeds
        values = mean + (values - mean) * math.sqrt(n / (n - 1)) * wider
        total += values[rng.integers(n, size=(resamples, n))].mean(axis=1)
    low, high = np.quantile(total / len(logs), [(1 - confidence) / 2, (1 + confidence) / 2])
    return math.exp(low), math.exp(high)
