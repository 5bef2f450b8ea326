"""Arms against each other: speed-up over paired seeds, with its interval."""

from __future__ import annotations

from typing import Any

from leaderboard.stats import paired_ratio

BASELINE = "S1"


def speedup(baseline: dict[int, float], arm: dict[int, float]) -> dict[str, Any]:
    """Compares times by seed, as JSON; `low` and `high` are None with fewer than two pairs."""
    measured = {seed: t for seed, t in arm.items() if t > 0 and baseline.get(seed, 0) > 0}
    ratio = paired_ratio(baseline, measured)
    if ratio is None:
        return {"speedup": None, "low": None, "high": None, "time_reduction": None, "n": 0}
    return {
        "speedup": ratio.ratio,
        "low": ratio.low,
        "high": ratio.high,
        "time_reduction": ratio.time_reduction,
        "n": ratio.n,
    }


def reference(arms: list[str]) -> str | None:
    """The arm that others are compared with: S1, or the first where S1 didn't run."""
    return BASELINE if BASELINE in arms else arms[0] if arms else None


def compare(t_work: dict[str, dict[int, float]]) -> dict[str, Any]:
    """Returns the speed-up of every arm over the baseline."""
    baseline = reference(list(t_work))
    if baseline is None:
        return {"baseline": None, "arms": {}}
    arms = {arm: speedup(t_work[baseline], by_seed) for arm, by_seed in t_work.items() if arm != baseline}
    return {"baseline": baseline, "arms": arms}
