"""Every figure of the benchmark, as pure functions from recorded lines. `METRICS` says what each means.

`compute(view)` gives the figures of one (arm, seed); `results(record)` those of the whole record, which is
what run.json holds under `results` and what verification recomputes.
"""

from __future__ import annotations

from typing import Any

from leaderboard.metrics import learning, pairing, utilization, work
from leaderboard.metrics.registry import METRICS, Metric
from leaderboard.records import ArmView, RunRecord

__all__ = ["METRICS", "Metric", "compute", "results"]


def compute(view: ArmView) -> dict[str, Any]:
    """Returns every metric of one (arm, seed) by name; plain JSON values."""
    return {
        **work.times(view),
        **utilization.utilization(view),
        "exposed": utilization.exposed(view),
        "padding_waste": utilization.padding_waste(view),
        "staleness": work.staleness(view),
        **work.throughput(view),
        "recompiles": work.recompiles(view),
        **work.stragglers(view),
        "is_ess": work.is_ess(view),
        "accuracy": learning.accuracy(view),
    }


def results(record: RunRecord) -> dict[str, Any]:
    """Returns {runs: [{arm, seed, metrics}], comparison: {baseline, arms: {arm: speedup…}}}."""
    runs: list[dict[str, Any]] = []
    t_work: dict[str, dict[int, float]] = {}
    for view in record.views:
        figures = compute(view)
        runs.append({"arm": view.arm, "seed": view.seed, "metrics": figures})
        finished = any(e.key == "run_stop" and e.value.get("status") == "success" for e in view.events)
        # arms that were cut short did less work; their time says nothing
        if finished and view.updates:
            t_work.setdefault(view.arm, {})[view.seed] = figures["t_work"]
    return {"runs": runs, "comparison": pairing.compare(t_work)}
