"""What was learnt: accuracy by tenant before, after and along the way."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any

from leaderboard.metrics.work import NS
from leaderboard.records import ArmView
from leaderboard.schema import EvalLine
from leaderboard.stats import wilson


def score(lines: list[EvalLine]) -> dict[str, Any]:
    """Returns accuracy, its interval, counts and coverage of one tenant's evaluation; an errored item counts 0."""
    total = math.fsum(0.0 if line.error is not None else min(max(line.reward, 0.0), 1.0) for line in lines)
    low, high = wilson(total, len(lines))
    errored = sum(line.error is not None for line in lines)
    return {
        "accuracy": total / len(lines) if lines else 0.0,
        "low": low,
        "high": high,
        "n": len(lines),
        "errored": errored,
        "coverage": 1.0 - errored / len(lines) if lines else 0.0,
    }


def accuracy(view: ArmView) -> dict[str, Any]:
    """Returns {tenant: {before, after, change, curve}}; before is eval 0, after the last."""
    grouped: dict[str, dict[int, list[EvalLine]]] = defaultdict(lambda: defaultdict(list))
    for line in view.evals:
        grouped[line.tenant][line.eval_id].append(line)
    result: dict[str, Any] = {}
    for tenant, by_id in sorted(grouped.items()):
        curve = [
            score(lines)
            | {
                "eval_id": eval_id,
                "version": lines[0].version,
                "samples": lines[0].samples,
                "t_s": max(0, lines[0].snapshot_ns - view.start_ns) / NS,
            }
            for eval_id, lines in sorted(by_id.items())
        ]
        before = curve[0] if curve[0]["eval_id"] == 0 else None
        after = curve[-1] if curve[-1]["eval_id"] > 0 else None
        change = after["accuracy"] - before["accuracy"] if before and after else None
        result[tenant] = {"before": before, "after": after, "change": change, "curve": curve}
    return result
