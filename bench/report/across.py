"""Figures over several tenants at once: time ratio by tenant, and the performance profile."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from leaderboard.stats import performance_profile, profile_score, suite_ratio

Runs = Sequence[Mapping[str, Any]]
"""{arm, seed, metrics} of every (arm, seed), as `leaderboard.metrics.results` gives them."""


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
            # tenants of one run share its luck
            suite = suite_ratio(shared, shared_runs=True)
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
