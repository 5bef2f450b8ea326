"""A suite at one look: interquartile mean, performance profiles, probability of improvement, all with intervals."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from leaderboard.stats.accuracy import Interval
from leaderboard.stats.ratios import geometric_mean

if TYPE_CHECKING:
    import numpy as np

TAUS = tuple(1 + i / 20 for i in range(61))
"""1.00, 1.05 ... 4.00: past four times the best, a task counts as lost (AlgoPerf)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileLine:
    """rho[i] is the share of tasks on which a system's time is within tau[i] times the best's; bounds pointwise."""

    tau: tuple[float, ...]
    rho: tuple[float, ...]
    low: tuple[float, ...] | None
    high: tuple[float, ...] | None


def iqm(values: Sequence[float]) -> float:
    """The mean of the middle half: a quarter of the values, rounded down, is cut from either end.

    Source: Agarwal et al. 2021, arXiv 2108.13264, section 4.3 (over all runs of all tasks together).
    """
    if not values:
        raise ValueError("no value to average")
    cut = len(values) // 4
    return math.fsum(sorted(values)[cut : len(values) - cut]) / (len(values) - 2 * cut)


def iqm_interval(
    scores: Mapping[str, Sequence[float]], *, confidence: float = 0.95, resamples: int = 2000, seed: int = 0
) -> Interval:
    """IQM over all (task, seed) scores with a stratified bootstrap interval."""
    return stratified_bootstrap(scores, _iqm_rows, confidence=confidence, resamples=resamples, seed=seed)


def stratified_bootstrap(
    scores: Mapping[str, Sequence[float]],
    statistic: Callable[[list[np.ndarray]], np.ndarray],
    *,
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Interval:
    """Percentile interval of a statistic of all tasks, seeds drawn again within each task.

    Args:
      scores: by task, a score a seed.
      statistic: from one [resamples, seeds] array a task to [resamples] values.
    Returns:
      The statistic of the data; no interval unless every task has two seeds.

    Source: Agarwal et al. 2021, arXiv 2108.13264, section 4.1.
    """
    import numpy as np

    tables = [np.asarray(values, dtype=float) for values in scores.values()]
    if not tables or not all(len(values) for values in tables):
        raise ValueError("every task needs a score")
    value = float(statistic([values[None, :] for values in tables])[0])
    n = sum(len(values) for values in tables)
    if min(len(values) for values in tables) < 2:
        return Interval(value=value, low=None, high=None, n=n)
    rng = np.random.default_rng(seed)
    drawn = [values[rng.integers(len(values), size=(resamples, len(values)))] for values in tables]
    low, high = np.quantile(statistic(drawn), [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(value=value, low=float(low), high=float(high), n=n)


def performance_profile(
    times: Mapping[str, Mapping[str, Sequence[float]]],
    *,
    taus: Sequence[float] = TAUS,
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> dict[str, ProfileLine]:
    """The profile of each system: the share of tasks solved within tau times the best system's time.

    Args:
      times: by system and task, the time of each seed; `math.inf` where it never got there. All systems have the same
        tasks; a task's time is the geometric mean over seeds, so one run that never got there loses it.
    Returns:
      By system; bounds from a bootstrap that draws seeds again within each (system, task), None with a single seed.

    Source: Dolan & Moré 2002; Dahl et al. 2023, arXiv 2306.07179 (AlgoPerf), section 4.2.
    """
    import numpy as np

    tasks = _tasks(times)
    tau = np.asarray(taus, dtype=float)
    point = {
        name: np.array([geometric_mean(own[task]) for task in tasks])[None, :] for name, own in times.items()
    }
    rho = _profiles(point, tau)
    bounds: dict[str, Any] = {}
    if all(len(own[task]) > 1 for own in times.values() for task in tasks):
        rng = np.random.default_rng(seed)
        drawn = {}
        for name, own in times.items():
            columns = []
            for task in tasks:
                logs = np.log(np.asarray(own[task], dtype=float))
                columns.append(logs[rng.integers(len(logs), size=(resamples, len(logs)))].mean(axis=1))
            drawn[name] = np.exp(np.stack(columns, axis=1))
        ends = [(1 - confidence) / 2, (1 + confidence) / 2]
        bounds = {name: np.quantile(curves, ends, axis=0) for name, curves in _profiles(drawn, tau).items()}
    return {
        name: ProfileLine(
            tau=tuple(map(float, tau)),
            rho=tuple(map(float, rho[name][0])),
            low=tuple(map(float, bounds[name][0])) if bounds else None,
            high=tuple(map(float, bounds[name][1])) if bounds else None,
        )
        for name in times
    }


def profile_score(line: ProfileLine) -> float:
    """The mean of rho over [tau_1, tau_last], by the trapezoidal rule: 1 for the best on every task.

    Source: Dahl et al. 2023, arXiv 2306.07179, section 4.2 (normalised integral up to tau = 4).
    """
    steps = list(zip(line.tau, line.rho, strict=True))
    area = math.fsum((right - left) * (a + b) / 2 for (left, a), (right, b) in itertools.pairwise(steps))
    return area / (line.tau[-1] - line.tau[0])


def probability_of_improvement(
    product: Mapping[str, Sequence[float]],
    baseline: Mapping[str, Sequence[float]],
    *,
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Interval:
    """P(a run of the product scores above a run of the baseline), ties a half, mean over tasks; higher is better.

    Args:
      product, baseline: by task, a score a seed; the same tasks. Of times, hand in their negatives.

    Source: Agarwal et al. 2021, arXiv 2108.13264, section 4.3 (Mann-Whitney's U per task).
    """
    if product.keys() != baseline.keys():
        raise ValueError(
            f"both need the same tasks; they differ in {sorted(product.keys() ^ baseline.keys())}"
        )
    tasks = list(product)
    both = {f"{task}|product": product[task] for task in tasks}
    both |= {f"{task}|baseline": baseline[task] for task in tasks}

    def improved(arrays: list[np.ndarray]) -> np.ndarray:
        news, bases = arrays[: len(tasks)], arrays[len(tasks) :]
        total = sum(
            ((new[:, :, None] > base[:, None, :]) + 0.5 * (new[:, :, None] == base[:, None, :])).mean(
                axis=(1, 2)
            )
            for new, base in zip(news, bases, strict=True)
        )
        return total / len(tasks)  # pyright: ignore[reportReturnType]

    return stratified_bootstrap(both, improved, confidence=confidence, resamples=resamples, seed=seed)


def _iqm_rows(arrays: list[np.ndarray]) -> np.ndarray:
    import numpy as np

    flat = np.sort(np.concatenate(arrays, axis=1), axis=1)
    cut = flat.shape[1] // 4
    return flat[:, cut : flat.shape[1] - cut].mean(axis=1)


def _tasks(times: Mapping[str, Mapping[str, Sequence[float]]]) -> list[str]:
    tasks = list(next(iter(times.values()), {}))
    for name, own in times.items():
        if own.keys() != set(tasks) or not all(len(values) for values in own.values()):
            raise ValueError(f"{name} needs a time for every task: {', '.join(tasks)}")
    if not tasks:
        raise ValueError("a profile needs a system and a task")
    return tasks


def _profiles(times: dict[str, np.ndarray], tau: np.ndarray) -> dict[str, np.ndarray]:
    """Of [draws, tasks] times, [draws, taus] shares by system."""
    import numpy as np

    best = np.min(list(times.values()), axis=0)
    shares = {}
    for name, own in times.items():
        # where nobody got there, nobody is best
        ratio = np.where(np.isfinite(own), own / np.where(np.isfinite(best), best, 1.0), np.inf)
        shares[name] = (ratio[:, :, None] <= tau * (1 + 1e-12)).mean(axis=1)
    return shares
