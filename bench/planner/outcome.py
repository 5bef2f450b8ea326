"""What a simulation counted, and the figures made of it: the names and formulas of `leaderboard.metrics`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bench.planner.engine import Dispatch
from tunix_core.buffer.groups import TenantBuffer
from tunix_core.schedule import UpdatePlan
from tunix_core.types import Bucket

if TYPE_CHECKING:
    from bench.planner.simulate import Setup

ROLES = ("train", "sync", "decode", "prefill")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Predicted figures of one run. Times in simulated seconds, shares 0-1, staleness in optimizer updates."""

    t_work_s: float
    util_busy: float
    util_by_role: dict[str, float]
    staleness: dict[str, Any]
    """mean, p95, max and histogram over consumed sampled tokens."""
    stale_discard_frac: float
    errored_frac: float
    padding_waste: dict[str, float]
    tokens_consumed: int
    tokens_per_s: float
    updates: int
    group_latency_s: dict[str, float]
    """Admission to completion of a group: mean, p50, p95, p99, max."""
    env_concurrency: float
    """Mean number of environment calls under way (Little's law: calls per second times seconds a call)."""
    device_seconds: float
    devices: int
    replicas: int
    failures: int
    log: tuple[tuple[Any, ...], ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Plain values, the log left out."""
        return {name: getattr(self, name) for name in self.__slots__ if name != "log"}


@dataclass(slots=True)
class Tally:
    """Counts while a simulation runs."""

    keep_log: bool = False
    spans: list[tuple[str, float, float, int]] = field(default_factory=list)
    slots: dict[str, list[int]] = field(default_factory=dict)
    ages: Counter[int] = field(default_factory=Counter)
    stale_count: int = 0
    errored_count: int = 0
    consumed_count: int = 0
    env_seconds: float = 0.0
    last_update_s: float = 0.0
    updates: int = 0
    failures: int = 0
    log: list[tuple[Any, ...]] = field(default_factory=list)
    _admitted: dict[tuple[str, int], float] = field(default_factory=dict)
    _latencies: list[float] = field(default_factory=list)

    def span(self, role: str, began: float, seconds: float, devices: int) -> None:
        """So many devices worked from then on."""
        if seconds > 0:
            self.spans.append((role, began, seconds, devices))

    def dispatch(self, dispatch: Dispatch, began: float, devices: int) -> None:
        """A replica's dispatch."""
        self.span(dispatch.role, began, dispatch.seconds, devices)
        self._fill(dispatch.role, dispatch.real_tokens, dispatch.executed_slots)
        if self.keep_log:
            self.log.append((dispatch.role, dispatch.executed_slots, dispatch.real_tokens))

    def update(self, plan: UpdatePlan, ended: float, batches: Sequence[Bucket], real: int) -> None:
        """A learner step that ends then."""
        executed = sum(b.rows * b.length for b in batches)
        self._fill("train", real, executed)
        self.last_update_s = max(self.last_update_s, ended)
        self.updates += len(plan.tenants)
        if self.keep_log:
            self.log.append(("train", executed, real, dict(plan.tenants)))

    def admitted(self, tenant: str, ordinal: int, now: float) -> None:
        """A group starts."""
        self._admitted[tenant, ordinal] = now
        if self.keep_log:
            self.log.append(("admit", tenant, ordinal))

    def complete(self, tenant: str, ordinal: int, now: float) -> None:
        """A group has all its trajectories."""
        self._latencies.append(now - self._admitted.pop((tenant, ordinal)))
        if self.keep_log:
            self.log.append(("complete", tenant, ordinal))

    def consumed(self, ended: Sequence[Any], learner_version: int) -> None:
        """Trajectories of an update; the version is the one before it."""
        for trajectory in ended:
            if trajectory.error is not None:
                self.errored_count += 1
                continue
            self.consumed_count += 1
            for version, tokens in trajectory.versions:
                self.ages[learner_version - version] += tokens

    def stale(self, ended: Sequence[Any]) -> None:
        """Trajectories that were dropped."""
        self.stale_count += len(ended)

    def outcome(self, setup: Setup, buffers: Sequence[TenantBuffer]) -> Outcome:
        """The figures, over [start, last update]."""
        window = self.last_update_s
        available = window * setup.devices
        by_role: dict[str, float] = dict.fromkeys(ROLES, 0.0)
        for role, began, seconds, devices in self.spans:
            by_role[role] += max(0.0, min(began + seconds, window) - began) * devices
        generated = sum(b.ledger.snapshot()["generated"]["rollouts"] for b in buffers)
        tokens = sum(self.ages.values())
        return Outcome(
            t_work_s=window,
            util_busy=sum(by_role.values()) / available if available else 0.0,
            util_by_role={role: busy / available if available else 0.0 for role, busy in by_role.items()},
            staleness=_ages(self.ages),
            stale_discard_frac=self.stale_count / generated if generated else 0.0,
            errored_frac=self.errored_count / generated if generated else 0.0,
            padding_waste={
                role: 1 - real / executed for role, (real, executed) in sorted(self.slots.items()) if executed
            },
            tokens_consumed=tokens,
            tokens_per_s=tokens / window if window else 0.0,
            updates=self.updates,
            group_latency_s=_spread(self._latencies),
            env_concurrency=self.env_seconds / window if window else 0.0,
            device_seconds=available,
            devices=setup.devices,
            replicas=setup.replicas,
            failures=self.failures,
            log=tuple(self.log),
        )

    def _fill(self, role: str, real: int, executed: int) -> None:
        counts = self.slots.setdefault(role, [0, 0])
        counts[0] += real
        counts[1] += executed


def at_share(ordered: Sequence[float], share: float) -> float:
    """The value below which that share of sorted values lies (nearest rank)."""
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def _spread(values: Sequence[float]) -> dict[str, float]:
    if not values:
        return {}
    ordered = sorted(values)
    shares = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
    return {
        "mean": sum(ordered) / len(ordered),
        **{name: at_share(ordered, share) for name, share in shares.items()},
        "max": ordered[-1],
    }


def _ages(counts: Counter[int]) -> dict[str, Any]:
    total = sum(counts.values())
    if not total:
        return {"mean": None, "p95": None, "max": None, "histogram": {}}
    ages, seen, p95 = sorted(counts), 0, 0
    for p95 in ages:
        seen += counts[p95]
        if seen >= 0.95 * total:
            break
    return {
        "mean": sum(age * n for age, n in counts.items()) / total,
        "p95": p95,
        "max": ages[-1],
        "histogram": {str(age): counts[age] for age in ages},
    }
