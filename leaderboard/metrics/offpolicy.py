"""How far the data were from the policy that learnt from them: staleness and importance weights."""

from __future__ import annotations

import statistics
from collections import Counter
from typing import Any

from leaderboard.metrics.work import NS, quantile
from leaderboard.records import ArmView


def staleness(view: ArmView) -> dict[str, Any]:
    """Returns mean, p50, p95, max and the histogram over consumed sampled tokens; None without any."""
    counts: Counter[int] = Counter()
    for update in view.updates:
        for age, tokens in update.staleness.items():
            counts[int(age)] += tokens
    total = sum(counts.values())
    ages = sorted(age for age, tokens in counts.items() if tokens)
    if not total:
        return {"mean": None, "p50": None, "p95": None, "max": None, "histogram": {}}

    def at(share: float) -> int:
        seen = 0
        for age in ages:
            seen += counts[age]
            if seen >= share * total:
                return age
        return ages[-1]

    return {
        "mean": sum(age * counts[age] for age in ages) / total,
        "p50": at(0.5),
        "p95": at(0.95),
        "max": ages[-1],
        "histogram": {str(age): counts[age] for age in ages},
    }


def importance(view: ArmView) -> dict[str, float | None]:
    """Returns is_ess, max_is_weight, masked_frac and sampler_gap; None where no update has the figure."""
    largest = [update.max_is_weight for update in view.updates if update.max_is_weight is not None]
    return {
        "is_ess": _by_tokens(view, "is_ess"),
        "max_is_weight": max(largest, default=None),
        "masked_frac": _by_tokens(view, "rejected_fraction"),
        "sampler_gap": _by_tokens(view, "logprob_gap"),
    }


def publish_lag(view: ArmView) -> dict[str, float | None]:
    """Returns mean and p95 of the seconds from an update's end until the sampler has its weights."""
    lags = sorted((u.published_ns - u.t1_ns) / NS for u in view.updates if u.version_after > u.version_before)
    if not lags:
        return {"mean": None, "p95": None}
    return {"mean": statistics.fmean(lags), "p95": quantile(lags, 0.95)}


def _by_tokens(view: ArmView, name: str) -> float | None:
    weighted = [(getattr(update, name), update.loss_tokens) for update in view.updates]
    total = sum(tokens for value, tokens in weighted if value is not None)
    return sum(value * tokens for value, tokens in weighted if value is not None) / total if total else None
