"""From measured times to the sizes of a run, each with its reason.

Little's law, L = X W (Little, Operations Research 9(3), 1961): what is under way is the rate times the time it takes.
Utilisation law, U = X D (Denning and Buzen, Computing Surveys 10(3), 1978): a device is busy for its seconds an
episode, so no more than 1 / D episodes a second get through it, however many workers and slots there are.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.planner.outcome import Outcome, at_share
from bench.planner.simulate import Setup, simulate
from tunix_core import schedule
from tunix_core.buffer import episode_bytes
from tunix_core.tenant import tickets

NEAR = 1.02
"""A smaller setting is taken if it costs at most this much time."""
BUSY = 0.85
"""A device as busy as this is the bottleneck."""
ALL_WORKERS = 10**6


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizing:
    """What to set, why, and what the simulation says of it."""

    settings: dict[str, int]
    reasons: dict[str, str]
    bottleneck: str
    predicted: dict[str, Any]


def spread(seconds: Sequence[float]) -> dict[str, float]:
    """n, mean and quantiles of measured seconds, and what the slowest hundredth takes of the whole."""
    ordered = sorted(seconds)
    total = sum(ordered)
    slowest = ordered[-max(1, len(ordered) // 100) :]
    return {
        "n": len(ordered),
        "mean": total / len(ordered),
        **{f"p{round(100 * q)}": at_share(ordered, q) for q in (0.5, 0.95, 0.99)},
        "max": ordered[-1],
        "share_of_slowest_1pct": sum(slowest) / total if total else 0.0,
    }


def recommend(setup: Setup, staleness: Sequence[int] = (1, 2, 3, 4)) -> Sizing:
    """Sizes for A1 with this setup's tenants, stage times and latencies. Everything it says of time is predicted."""
    free = dataclasses.replace(setup, env_workers=ALL_WORKERS)
    tried = {eta: simulate(_at(free, eta)) for eta in staleness}
    best = min(o.t_work_s for o in tried.values())
    eta = next(e for e, o in tried.items() if o.t_work_s <= NEAR * best)
    outcome = tried[eta]
    episodes = sum(t.updates * t.groups_per_update * t.group_size for t in setup.tenants)
    rate = episodes / outcome.t_work_s
    demand = outcome.util_busy * outcome.t_work_s / episodes
    env_s = outcome.env_concurrency * outcome.t_work_s / episodes
    under_way = sum(t.groups_per_update * t.group_size for t in setup.tenants) * (1 + eta)
    workers = min(_enough(outcome.env_concurrency), under_way)
    sized = simulate(dataclasses.replace(_at(setup, eta), env_workers=workers))
    # episodes start in bursts, an update's at once, so the law's average is where to begin and not where to end
    while sized.t_work_s > NEAR * outcome.t_work_s and workers < under_way:
        workers = min(under_way, math.ceil(1.5 * workers))
        sized = simulate(dataclasses.replace(_at(setup, eta), env_workers=workers))
    room = under_way * episode_bytes(setup.sampler.max_context + setup.sampler.max_new_tokens)
    given = simulate(setup)
    return Sizing(
        settings={"env_workers": workers, "max_staleness": eta, "slots": setup.sampler.slots},
        reasons={
            "env_workers": f"Little's law: {rate:.2f} episodes/s x {env_s:.2f} s in environments = "
            f"{outcome.env_concurrency:.1f} calls under way on average; {workers} are predicted to cost "
            f"at most {100 * (NEAR - 1):.0f} % of the time ({under_way} episodes is all admission lets in)",
            "max_staleness": "predicted time by limit: "
            + ", ".join(f"{e}: {o.t_work_s:.1f} s" for e, o in tried.items())
            + f"; the smallest within {100 * (NEAR - 1):.0f} % of the best",
            "slots": f"kept at {setup.sampler.slots}, the size that was measured",
            "buffer_bytes": f"{room} bytes: {under_way} episodes of at most "
            f"{setup.sampler.max_context + setup.sampler.max_new_tokens} tokens",
            "device": f"utilisation law: {demand:.3f} device seconds an episode, so at most {1 / demand:.2f} "
            f"episodes/s; {outcome.util_busy:.0%} of that is reached",
        },
        bottleneck=_bottleneck(outcome),
        predicted={
            "given": _figures(given),
            "sized": _figures(sized),
            "by_staleness": {str(e): _figures(o) for e, o in tried.items()},
            "buffer_bytes": room,
            "simulated": True,
        },
    )


def calls(setup: Setup) -> list[float]:
    """Seconds of every tool call of the first update of each tenant: own time and delay."""
    found: list[float] = []
    for tenant in setup.tenants:
        for ordinal in range(tenant.groups_per_update):
            for ticket in tickets(tenant, ordinal, 0):
                for i, turn in enumerate(setup.work.shape(ticket).turns):
                    found.append(turn.env_s + setup.work.delay_s(ticket, i))
    return found


def _at(setup: Setup, eta: int) -> Setup:
    return dataclasses.replace(setup, schedule=schedule.arm("A1", eta))


def _enough(mean: float) -> int:
    return max(1, math.ceil(mean + 3 * math.sqrt(mean)))


def _bottleneck(outcome: Outcome) -> str:
    roles: Mapping[str, float] = outcome.util_by_role
    role = max(roles, key=lambda name: roles[name])
    if outcome.util_busy >= BUSY:
        return f"the device, {outcome.util_busy:.0%} busy, most of it with {role} ({roles[role]:.0%})"
    latency = outcome.group_latency_s
    return (
        f"environment latency: the device is {outcome.util_busy:.0%} busy; a group takes {latency['p50']:.2f} s "
        f"(median), {latency['p99']:.2f} s (p99), and is as slow as its slowest call"
    )


def _figures(outcome: Outcome) -> dict[str, Any]:
    return {
        "t_work_s": outcome.t_work_s,
        "util_busy": outcome.util_busy,
        "staleness_mean": outcome.staleness["mean"],
    }
