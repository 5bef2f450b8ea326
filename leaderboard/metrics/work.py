"""Time and work: the clock, throughput, the ledger, stragglers, environments and compiles."""

from __future__ import annotations

import math
import statistics
from collections import Counter, defaultdict
from typing import Any

from leaderboard.records import ArmView

NS = 1_000_000_000
FATES = ("consumed", "stale", "filtered", "errored", "surplus")

_CUT = frozenset({"max_tokens", "context", "truncated"})


def work_window(view: ArmView) -> tuple[int, int]:
    """Returns [run_start, last commit]; up to run_stop where there was no update."""
    commits = [update.t1_ns for update in view.updates]
    return view.start_ns, max(view.start_ns, max(commits, default=view.stop_ns))


def times(view: ArmView) -> dict[str, Any]:
    """Returns t_work, t_total, device_seconds, tenant_completion and ttfu, in seconds."""
    start, commit = work_window(view)
    last: dict[str, int] = {}
    first: dict[str, int] = {}
    for update in view.updates:
        last[update.tenant] = max(last.get(update.tenant, 0), update.t1_ns)
        first[update.tenant] = min(first.get(update.tenant, update.t1_ns), update.t1_ns)
    each = {tenant: (at - start) / NS for tenant, at in sorted(last.items())}
    ordered = sorted(each.values())
    firsts = sorted((at - start) / NS for at in first.values())
    return {
        "t_work": (commit - start) / NS,
        "t_total": (view.stop_ns - start) / NS,
        "device_seconds": len(view.devices) * (commit - start) / NS,
        "ttfu": {
            "mean": statistics.fmean(firsts) if firsts else None,
            "p95": quantile(firsts, 0.95) if firsts else None,
        },
        "tenant_completion": {
            "mean": statistics.fmean(ordered) if ordered else None,
            "p95": quantile(ordered, 0.95) if ordered else None,
            "each": each,
        },
    }


def ledger(view: ArmView) -> dict[str, dict[str, dict[str, int]]]:
    """Returns {tenant: {rollouts: counts, tokens: counts}}, counts by fate and 'generated'."""
    totals: dict[str, dict[str, dict[str, int]]] = {}
    for rollout in view.rollouts:
        own = totals.setdefault(
            rollout.tenant, {unit: dict.fromkeys(("generated", *FATES), 0) for unit in ("rollouts", "tokens")}
        )
        for unit, amount in (("rollouts", 1), ("tokens", rollout.completion_tokens)):
            own[unit]["generated"] += amount
            own[unit][rollout.fate] += amount
    return dict(sorted(totals.items()))


def goodput(view: ArmView) -> float:
    """Returns the share of sampled tokens that an update consumed."""
    generated = sum(rollout.completion_tokens for rollout in view.rollouts)
    consumed = sum(rollout.completion_tokens for rollout in view.rollouts if rollout.fate == "consumed")
    return consumed / generated if generated else 0.0


def truncated(view: ArmView) -> float | None:
    """Returns the share of ended episodes that a budget cut, whichever: tokens, context or turns; None without any."""
    ended = [rollout.stop for rollout in view.rollouts if rollout.stop is not None and rollout.error is None]
    return sum(stop in _CUT for stop in ended) / len(ended) if ended else None


def throughput(view: ArmView) -> dict[str, Any]:
    """Returns both throughputs, goodput, the stale share, the ledger and updates per tenant."""
    start, commit = work_window(view)
    seconds = (commit - start) / NS
    learnt = sum(update.loss_tokens for update in view.updates)
    sampled = sum(rollout.completion_tokens for rollout in view.rollouts)
    stale = sum(rollout.fate == "stale" for rollout in view.rollouts)
    done = Counter(update.tenant for update in view.updates)
    return {
        "throughput_consumed": learnt / seconds if seconds else 0.0,
        "throughput_generated": sampled / seconds if seconds else 0.0,
        "goodput": goodput(view),
        "stale_discard_frac": stale / len(view.rollouts) if view.rollouts else 0.0,
        "truncated_frac": truncated(view),
        "ledger": ledger(view),
        "updates": {tenant: done[tenant] for tenant in sorted(done)},
    }


def stragglers(view: ArmView) -> dict[str, Any]:
    """Returns straggler_ratio, env_share and verifier_cost."""
    groups: dict[tuple[str, int], list[int]] = defaultdict(list)
    for rollout in view.rollouts:
        groups[rollout.tenant, rollout.ordinal].append(rollout.t_end_ns - rollout.t_start_ns)
    ratios = [
        max(durations) / statistics.median(durations)
        for durations in groups.values()
        if len(durations) > 1 and statistics.median(durations) > 0
    ]
    total = sum(sum(durations) for durations in groups.values())
    inside = sorted(rollout.env_ns / NS for rollout in view.rollouts)
    return {
        "straggler_ratio": statistics.fmean(ratios) if ratios else None,
        "env_share": math.fsum(inside) * NS / total if total else None,
        "verifier_cost": {
            "mean": statistics.fmean(inside) if inside else None,
            "p95": quantile(inside, 0.95) if inside else None,
        },
    }


def compiled(view: ArmView) -> dict[str, Any]:
    """Returns recompiles and recompiles_by_function: compilations that no cache served, since the clock started."""
    by_function: Counter[str] = Counter()
    for event in view.events:
        counted = event.value.get("recompiles") if event.key == "run_stop" else None
        if isinstance(counted, dict):
            by_function = Counter({str(k): n for k, n in counted.items() if isinstance(n, int) and n})
            break
        if event.key == "compile" and not event.value.get("cached", False) and event.t_ns >= view.start_ns:
            by_function[str(event.value.get("fun_name"))] += 1
    return {
        "recompiles": sum(by_function.values()),
        "recompiles_by_function": dict(sorted(by_function.items())),
    }


def peak_mem(view: ArmView) -> dict[str, int] | None:
    """Returns the most bytes in use by device and in the process, where run_stop tells; None where it doesn't."""
    for event in view.events:
        told = event.value.get("peak_bytes") if event.key == "run_stop" else None
        if isinstance(told, dict):
            return {str(device): n for device, n in sorted(told.items()) if isinstance(n, int)}
    return None


def quantile(ordered: list[float], share: float) -> float:
    """Returns the linearly interpolated quantile of sorted numbers (numpy's default)."""
    at = share * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (at - low) * (ordered[high] - ordered[low])
