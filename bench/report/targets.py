"""When each arm got to where the baseline ends: intervals between two evaluations, never a point."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from leaderboard.stats import EvalPoint, crossing


def targets(runs: Sequence[Mapping[str, Any]], baseline: str, margin: float) -> dict[str, Any]:
    """By tenant: the median of the baseline's last accuracies less the margin, and when each arm reached it.

    The level is taken from the very run, so it says where on the curves to look and is no target set beforehand. A
    tenant that the baseline hardly improves, or that is evaluated once only after its start, has none.

    Args:
      runs: {arm, seed, metrics}.
      margin: accuracy that counts as none, as for parity.
    Returns:
      {tenant: {target, arms: {arm: {seeds, reached, censored, crossings: [{seed, low_s, high_s}]}}}}; `low_s` and
      `high_s` are None where the target was not held in two consecutive evaluations.
    """
    found: dict[str, Any] = {}
    own = [run["metrics"]["accuracy"] for run in runs if run["arm"] == baseline]
    for tenant in dict.fromkeys(name for accuracy in own for name in accuracy):
        curves = [accuracy[tenant]["curve"] for accuracy in own if tenant in accuracy]
        level = statistics.median(curve[-1]["accuracy"] for curve in curves) - margin
        before = statistics.median(curve[0]["accuracy"] for curve in curves)
        if min(len(curve) for curve in curves) < 3 or level <= before + margin:
            continue
        arms: dict[str, Any] = {}
        for run in runs:
            if tenant in run["metrics"]["accuracy"]:
                entry = arms.setdefault(
                    run["arm"], {"seeds": 0, "reached": 0, "censored": 0, "crossings": []}
                )
                points = [
                    EvalPoint(at=p["t_s"], accuracy=p["accuracy"], n=p["n"])
                    for p in run["metrics"]["accuracy"][tenant]["curve"]
                ]
                at = crossing(points, level)
                entry["seeds"] += 1
                entry["reached"] += at.reached
                entry["censored"] += at.censored
                low, high = (at.low, at.high) if at.reached else (None, None)
                entry["crossings"].append({"seed": run["seed"], "low_s": low, "high_s": high})
        found[tenant] = {"target": level, "arms": arms}
    return found
