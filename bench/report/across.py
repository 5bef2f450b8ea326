"""Figures over several tenants at once: ratio by tenant, performance profile, slowdown and fairness."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from leaderboard.metrics.work import NS
from leaderboard.records import ArmView
from leaderboard.stats import performance_profile, profile_score, suite_ratio

Runs = Sequence[Mapping[str, Any]]
"""{arm, seed, metrics} of every (arm, seed), as `leaderboard.metrics.results` gives them."""
ALONE = "S0"


def completion(runs: Runs) -> dict[str, dict[str, dict[int, float]]]:
    """Seconds to a tenant's last update, by arm, tenant and seed."""
    found: dict[str, dict[str, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    for run in runs:
        for tenant, seconds in run["metrics"]["tenant_completion"]["each"].items():
            found[run["arm"]][tenant][run["seed"]] = seconds
    return {arm: dict(own) for arm, own in found.items()}


def ratios(runs: Runs, baseline: str) -> dict[str, Any]:
    """By arm: its time ratio to the baseline for every tenant, and their geometric mean, with intervals."""
    times = completion(runs)
    found: dict[str, Any] = {}
    for arm, own in times.items():
        if arm != baseline and baseline in times:
            shared = {
                tenant: (times[baseline][tenant], own[tenant]) for tenant in own if tenant in times[baseline]
            }
            suite = suite_ratio(shared)
            if suite is not None:
                found[arm] = asdict(suite)
    return found


def profile(runs: Runs) -> dict[str, Any]:
    """By arm: the share of tenants done within tau times the fastest arm's time; empty unless all arms have all."""
    times = {
        arm: {tenant: list(by_seed.values()) for tenant, by_seed in own.items()}
        for arm, own in completion(runs).items()
    }
    tenants = {frozenset(own) for own in times.values()}
    if len(times) < 2 or len(tenants) != 1 or len(next(iter(tenants))) < 2:
        return {}
    lines = performance_profile(times)
    return {arm: {**asdict(line), "score": profile_score(line)} for arm, line in lines.items()}


def fairness(views: Sequence[ArmView]) -> dict[str, Any]:
    """By arm that shares the model: each tenant's slowdown against training alone, the worst, and Jain's index.

    Alone is a tenant's own stretch in S0, where one trains after another: from its first rollout to its last update.
    Jain's index is that of the rates of progress 1 / slowdown: 1 where all are slowed alike, 1/n where one has it all.
    Means over the seeds that both arms have. Source: Jain, Chiu & Hawe 1984, DEC-TR-301.
    """
    alone = {view.seed: _own_stretch(view) for view in views if view.arm == ALONE}
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for view in views:
        if view.arm != ALONE and view.seed in alone:
            for tenant, seconds in _since_start(view).items():
                if alone[view.seed].get(tenant):
                    found[view.arm][tenant].append(seconds / alone[view.seed][tenant])
    result = {}
    for arm, own in found.items():
        slowdown = {tenant: math.fsum(values) / len(values) for tenant, values in own.items()}
        rates = [1 / value for value in slowdown.values()]
        jain = math.fsum(rates) ** 2 / (len(rates) * math.fsum(rate * rate for rate in rates))
        worst = max(slowdown.values())
        mean = math.fsum(slowdown.values()) / len(slowdown)
        result[arm] = {"slowdown": slowdown, "worst": worst, "mean": mean, "jain": jain}
    return result


def _own_stretch(view: ArmView) -> dict[str, float]:
    first: dict[str, int] = {}
    for rollout in view.rollouts:
        first[rollout.tenant] = min(first.get(rollout.tenant, rollout.t_start_ns), rollout.t_start_ns)
    return {tenant: (last - first[tenant]) / NS for tenant, last in _last(view).items() if tenant in first}


def _since_start(view: ArmView) -> dict[str, float]:
    return {tenant: (last - view.start_ns) / NS for tenant, last in _last(view).items()}


def _last(view: ArmView) -> dict[str, int]:
    last: dict[str, int] = {}
    for update in view.updates:
        last[update.tenant] = max(last.get(update.tenant, 0), update.t1_ns)
    return last
