"""Every figure of the benchmark, as pure functions from recorded lines. `METRICS` says what each means.

`compute(view)` gives the figures of one (arm, seed) from its own lines; `results(record)` those of the whole record,
which is what run.json holds under `results` and what verification recomputes.
"""

from __future__ import annotations

from typing import Any

from leaderboard.metrics import across, learning, offpolicy, pairing, utilization, work
from leaderboard.metrics.registry import METRICS, Metric
from leaderboard.records import ArmView, RunRecord

__all__ = ["METRICS", "VERSION", "Metric", "compute", "results"]

VERSION = 3
"""Of what `results` holds: raised when a figure is added. Records that hold an earlier one lack the later figures."""


def compute(view: ArmView) -> dict[str, Any]:
    """Returns every metric of one (arm, seed) that its own lines give, by name; plain JSON values."""
    return {
        **work.times(view),
        **utilization.utilization(view),
        **utilization.exposed(view),
        "padding_waste": utilization.padding_waste(view),
        "staleness": offpolicy.staleness(view),
        **offpolicy.importance(view),
        "publish_lag": offpolicy.publish_lag(view),
        **work.throughput(view),
        **work.compiled(view),
        **work.stragglers(view),
        "peak_mem": work.peak_mem(view),
        "accuracy": learning.accuracy(view),
    }


def results(record: RunRecord) -> dict[str, Any]:
    """Returns {version, runs: [{arm, seed, metrics}], comparison: {baseline, arms, device_seconds, target, samples}}.

    To an (arm, seed)'s own figures come those that need its record. `arms` compares t_work, `device_seconds` them;
    `target` and `samples` compare, by arm and tenant, the seconds and the consumed samples that the target took.
    """
    views = record.views
    computed = [compute(view) for view in views]
    whole = [own | more for own, more in zip(computed, across.across(record, computed), strict=True)]
    # arms that were cut short did less work; their time says nothing
    pairs = [(view, figures) for view, figures in zip(views, whole, strict=True) if _finished(view)]
    comparison = pairing.compare(_by_seed(pairs, "t_work"))
    if comparison["baseline"] is not None:
        comparison["device_seconds"] = pairing.compare(_by_seed(pairs, "device_seconds"))["arms"]
        for name, axis in (("target", "seconds"), ("samples", "samples")):
            comparison[name] = across.reached(pairs, list(comparison["arms"]), comparison["baseline"], axis)
    runs = [
        {"arm": v.arm, "seed": v.seed, "metrics": figures} for v, figures in zip(views, whole, strict=True)
    ]
    return {"version": VERSION, "runs": runs, "comparison": comparison}


def _by_seed(pairs: list[tuple[ArmView, dict[str, Any]]], name: str) -> dict[str, dict[int, float]]:
    found: dict[str, dict[int, float]] = {}
    for view, figures in pairs:
        found.setdefault(view.arm, {})[view.seed] = figures[name]
    return found


def _finished(view: ArmView) -> bool:
    stopped = any(e.key == "run_stop" and e.value.get("status") == "success" for e in view.events)
    return stopped and bool(view.updates)
