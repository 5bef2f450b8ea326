"""What the devices did: busy and useful share of the window, by role, and what the learner waited for."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from leaderboard.metrics import intervals
from leaderboard.metrics.work import goodput, work_window
from leaderboard.records import ArmView
from leaderboard.schema import RolloutLine, SpanLine

SAMPLING = ("prefill", "decode")


def utilization(view: ArmView) -> dict[str, Any]:
    """Returns util_busy, util_useful and util_by_role (eval is among the roles, not in the sums)."""
    window = work_window(view)
    available = (window[1] - window[0]) * len(view.devices)
    by_role = dict.fromkeys(intervals.PRIORITY, 0)
    useful = 0.0
    kept = goodput(view)
    by_device: dict[str, list[SpanLine]] = defaultdict(list)
    for span in view.spans:
        by_device[span.device].append(span)
    for spans in by_device.values():
        for span, duration in intervals.attribute(spans, window):
            by_role[span.role] += duration
            if span.role != "eval" and span.executed_slots:
                share = span.real_tokens / span.executed_slots
                useful += duration * share * (kept if span.role in SAMPLING else 1.0)
    if not available:
        return {"util_busy": 0.0, "util_useful": 0.0, "util_by_role": dict.fromkeys(by_role, 0.0)}
    busy = sum(duration for role, duration in by_role.items() if role != "eval")
    return {
        "util_busy": busy / available,
        "util_useful": useful / available,
        "util_by_role": {role: duration / available for role, duration in by_role.items()},
    }


def exposed(view: ArmView) -> dict[str, Any]:
    """Splits the window into training, exposed sync, eval and generation, and the rest; sums to 1.

    The same shares stand under `exposed` and, by the names that MLPerf's logs use, on their own.
    """
    shares, verify = _shares(view)
    return {
        "exposed": shares,
        "learner_train_frac": shares["train"],
        "exposed_sync_frac": shares["sync"],
        "exposed_eval_frac": shares["eval"],
        "exposed_gen_frac": shares["generation"],
        "exposed_verify_frac": verify,
        "other_frac": shares["other"],
    }


def _shares(view: ArmView) -> tuple[dict[str, float], float]:
    """The shares, and of generation's the part in which every open episode only waits for its grade."""
    window = work_window(view)
    total = window[1] - window[0]
    if not total:
        return dict.fromkeys(("train", "sync", "eval", "generation", "other"), 0.0), 0.0
    layers = {
        role: [(span.t0_ns, span.t1_ns) for span in view.spans if span.role == role]
        for role in ("train", "sync", "eval")
    }
    layers["generation"] = [(rollout.t_start_ns, rollout.t_end_ns) for rollout in view.rollouts]
    shares: dict[str, float] = {}
    taken: list[intervals.Interval] = []
    for name, layer in layers.items():
        inside = intervals.clip(layer, window)
        shares[name] = intervals.length(intervals.subtract(inside, taken)) / total
        taken = intervals.merge(taken + inside)
    shares["other"] = max(0.0, 1.0 - sum(shares.values()))
    others = [piece for name in ("train", "sync", "eval") for piece in layers[name]]
    unsampled = [(rollout.t_start_ns, _sampled_ns(rollout)) for rollout in view.rollouts]
    graded = intervals.subtract(intervals.clip(layers["generation"], window), others + unsampled)
    return shares, intervals.length(graded) / total


def _sampled_ns(rollout: RolloutLine) -> int:
    """The end of the last turn that was sampled; what follows is the environment's, which grades."""
    return max((turn.t1_ns for turn in rollout.turns if turn.role == "policy"), default=rollout.t_end_ns)


def padding_waste(view: ArmView) -> dict[str, float]:
    """Returns the share of executed token slots that did nothing, by role."""
    low, high = work_window(view)
    slots: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for span in view.spans:
        if low <= span.t0_ns < high and span.executed_slots and span.role != "eval":
            slots[span.role][0] += span.real_tokens
            slots[span.role][1] += span.executed_slots
    return {role: 1.0 - real / executed for role, (real, executed) in sorted(slots.items())}
