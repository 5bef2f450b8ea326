"""Arms against each other: speed-up over paired seeds, with its interval."""

from __future__ import annotations

import math
import statistics
from typing import Any

BASELINE = "S1"

# two-sided 95 % quantiles of Student's t for 1..30 degrees of freedom; 1.96 beyond is off by < 0.09
_T95 = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)


def speedup(baseline: dict[int, float], arm: dict[int, float]) -> dict[str, Any]:
    """Compares times by seed; `low` and `high` are None with fewer than two pairs.

    A paired t interval on log ratios: it keeps its coverage with few seeds, where a bootstrap doesn't.
    """
    seeds = sorted(seed for seed in baseline.keys() & arm.keys() if baseline[seed] > 0 and arm[seed] > 0)
    logs = [math.log(baseline[seed] / arm[seed]) for seed in seeds]
    if not logs:
        return {"speedup": None, "low": None, "high": None, "time_reduction": None, "n": 0}
    mean = statistics.fmean(logs)
    low = high = None
    if len(logs) > 1:
        t = _T95[len(logs) - 2] if len(logs) <= 31 else 1.96
        half = t * statistics.stdev(logs) / math.sqrt(len(logs))
        low, high = math.exp(mean - half), math.exp(mean + half)
    return {
        "speedup": math.exp(mean),
        "low": low,
        "high": high,
        "time_reduction": 1.0 - math.exp(-mean),
        "n": len(logs),
    }


def compare(t_work: dict[str, dict[int, float]]) -> dict[str, Any]:
    """Returns the speed-up of every arm over S1 (the first arm where S1 didn't run)."""
    if not t_work:
        return {"baseline": None, "arms": {}}
    baseline = BASELINE if BASELINE in t_work else next(iter(t_work))
    arms = {arm: speedup(t_work[baseline], by_seed) for arm, by_seed in t_work.items() if arm != baseline}
    return {"baseline": baseline, "arms": arms}
