"""Figures of one (arm, seed) that need the rest of its record: other arms, the header, the adapters."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from leaderboard.metrics import flops
from leaderboard.metrics.pairing import reference
from leaderboard.metrics.work import NS
from leaderboard.records import ArmView, RunRecord
from leaderboard.schema import RunHeader
from leaderboard.stats import EvalPoint, crossing, paired_ratio

ALONE = "S0"
"""The arm in which tenants train one after another."""
TARGET_MARGIN = 0.02
"""Accuracy below where the baseline ends: a target at its very end would be reached by luck."""

Figures = Mapping[str, Any]


def across(record: RunRecord, computed: Sequence[Figures]) -> list[dict[str, Any]]:
    """Returns t_target, tenant_slowdown, jain_fairness, mfu and rank_pad_waste of each of the record's views."""
    header, views = record.header, record.views
    aims = aims_of(header, list(zip(views, computed, strict=True)))
    alone = {view.seed: own_stretch(view) for view in views if view.arm == ALONE}
    return [
        {
            "t_target": t_target(figures, aims, len(view.devices)),
            **slowdown(figures, alone.get(view.seed) if view.arm != ALONE else None),
            "mfu": flops.mfu(view, header, record.directory),
            "rank_pad_waste": rank_pad_waste([t.settings.get("lora") for t in header.tenants]),
        }
        for view, figures in zip(views, computed, strict=True)
    ]


def aims_of(header: RunHeader, runs: Sequence[tuple[ArmView, Figures]]) -> dict[str, float]:
    """Returns the accuracy to be reached, by tenant: the one fixed before the run, else that of `targets`."""
    fixed = {t.tenant: t.target for t in header.tenants if t.target is not None}
    return {**targets(runs), **fixed}


def targets(runs: Sequence[tuple[ArmView, Figures]]) -> dict[str, float]:
    """Returns the accuracy to be reached, by tenant: the median over seeds of where the baseline ends, less 2 points.

    A tenant whose baseline isn't that much better after training than before, or is evaluated fewer than three times,
    has none. It is made of the record itself, so it says where on the curves to look and was not fixed beforehand.
    """
    baseline = reference([view.arm for view, _ in runs])
    own = [figures["accuracy"] for view, figures in runs if view.arm == baseline]
    found: dict[str, float] = {}
    for tenant in dict.fromkeys(name for accuracy in own for name in accuracy):
        curves = [accuracy[tenant]["curve"] for accuracy in own if tenant in accuracy]
        level = statistics.median(curve[-1]["accuracy"] for curve in curves) - TARGET_MARGIN
        before = statistics.median(curve[0]["accuracy"] for curve in curves)
        if min(map(len, curves)) >= 3 and level > before + TARGET_MARGIN:
            found[tenant] = level
    return found


def t_target(figures: Figures, aims: Mapping[str, float], devices: int) -> dict[str, Any]:
    """Returns, by tenant, when its target was reached in seconds, device-seconds and consumed samples.

    {target, reached, censored, seconds, device_seconds, samples}, the last three {low, high, estimate}; None in all of
    them where it was never held. A tenant whose evaluations aren't in order (verification refuses those, E134) has no
    such times.
    """
    found: dict[str, Any] = {}
    for tenant, target in aims.items():
        curve = figures["accuracy"].get(tenant, {}).get("curve")
        if curve and _in_order(curve, "t_s") and _in_order(curve, "samples"):
            seconds, samples = _crossed(curve, "t_s", target), _crossed(curve, "samples", target)
            found[tenant] = {
                "target": target,
                "reached": seconds["reached"],
                "censored": seconds["censored"],
                "seconds": seconds["at"],
                "device_seconds": {
                    k: None if at is None else at * devices for k, at in seconds["at"].items()
                },
                "samples": samples["at"],
            }
    return found


def reached(
    runs: Sequence[tuple[ArmView, Figures]], arms: Sequence[str], baseline: str, axis: str = "seconds"
) -> dict[str, Any]:
    """Returns {arm: {tenant: {speedup, low, high, n, lost, won, censored}}} of the estimated crossings.

    Args:
      runs: views with their `t_target`.
      axis: seconds, device_seconds or samples (fewer samples than the baseline's mean that something is wrong).

    A run that never got there counts as infinite: `lost` of the arm's, `won` of the baseline's alone; then speedup is
    None.
    """
    times: dict[tuple[str, str], dict[int, float]] = {}
    censored: dict[tuple[str, str], int] = {}
    for view, figures in runs:
        for tenant, own in figures["t_target"].items():
            at = own[axis]["estimate"]
            times.setdefault((view.arm, tenant), {})[view.seed] = math.inf if at is None else at
            censored[view.arm, tenant] = censored.get((view.arm, tenant), 0) + own["censored"]
    found: dict[str, Any] = {}
    for arm in arms:
        for tenant in dict.fromkeys(name for own, name in times if own == arm):
            base = times.get((baseline, tenant), {})
            # a crossing at the start has no logarithm and no ratio
            pairs = {s: t for s, t in times[arm, tenant].items() if t > 0 and base.get(s, 0) > 0}
            ratio = paired_ratio(base, pairs)
            if ratio is not None:
                found.setdefault(arm, {})[tenant] = {
                    "speedup": ratio.ratio if not ratio.lost and not ratio.won else None,
                    "low": ratio.low,
                    "high": ratio.high,
                    "n": ratio.n,
                    "lost": ratio.lost,
                    "won": ratio.won,
                    "censored": censored[arm, tenant] + censored.get((baseline, tenant), 0),
                }
    return found


def own_stretch(view: ArmView) -> dict[str, float]:
    """Returns each tenant's seconds from its first rollout to its last update."""
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for rollout in view.rollouts:
        first[rollout.tenant] = min(first.get(rollout.tenant, rollout.t_start_ns), rollout.t_start_ns)
    for update in view.updates:
        last[update.tenant] = max(last.get(update.tenant, 0), update.t1_ns)
    return {tenant: (at - first[tenant]) / NS for tenant, at in last.items() if at > first.get(tenant, at)}


def slowdown(figures: Figures, alone: Mapping[str, float] | None) -> dict[str, Any]:
    """Returns tenant_slowdown {each, mean, max} and jain_fairness of the rates 1 / slowdown; None without S0.

    Source: Jain, Chiu & Hawe 1984, DEC-TR-301.
    """
    shared = figures["tenant_completion"]["each"]
    each = {t: seconds / alone[t] for t, seconds in shared.items() if t in alone} if alone else {}
    if not each or not all(each.values()):
        return {"tenant_slowdown": {"each": {}, "mean": None, "max": None}, "jain_fairness": None}
    rates = [1 / value for value in each.values()]
    jain = math.fsum(rates) ** 2 / (len(rates) * math.fsum(rate * rate for rate in rates))
    mean, most = statistics.fmean(each.values()), max(each.values())
    return {"tenant_slowdown": {"each": each, "mean": mean, "max": most}, "jain_fairness": jain}


def rank_pad_waste(loras: Sequence[Any]) -> float | None:
    """Returns 1 - sum of ranks / (tenants * highest rank): what stacking adapters of unequal rank leaves empty."""
    ranks = [lora["rank"] for lora in loras if isinstance(lora, dict) and isinstance(lora.get("rank"), int)]
    if not ranks or len(ranks) < len(loras) or min(ranks) < 1:
        return None
    return 1.0 - sum(ranks) / (len(ranks) * max(ranks))


def _in_order(curve: Sequence[Figures], axis: str) -> bool:
    return all(a[axis] <= b[axis] for a, b in itertools.pairwise(curve))


def _crossed(curve: Sequence[Figures], axis: str, target: float) -> dict[str, Any]:
    points = [EvalPoint(at=point[axis], accuracy=point["accuracy"], n=point["n"]) for point in curve]
    found = crossing(points, target)
    at = {"low": found.low, "high": found.high, "estimate": found.estimate}
    return {
        "reached": found.reached,
        "censored": found.censored,
        "at": at if found.reached else dict.fromkeys(at),
    }
