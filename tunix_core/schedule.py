"""The timetable: who may start a group, what is learnt next. Four arms are four rows of data.

Nothing else asks which arm it is in. All functions are pure over an immutable view of the run.

The bound behind `consume="admission"`: group k of a tenant is learnt in update k // groups_per_update, and
admitted only once k < (published + 1 + max_staleness) * groups_per_update, so when it is learnt
learner version - published version at admission <= max_staleness. Tokens are never older than that.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from tunix_core.errors import ConfigError, LearnerError


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleSpec:
    """How synchronous or asynchronous a run is."""

    tenants_at_once: int | None
    """None: all tenants are active together; n: the first n unfinished ones, in the given order."""
    step_barrier: bool
    """Step k+1 of anyone waits until step k of everyone is published."""
    max_staleness: int
    """In optimizer updates of the tenant, inclusive; 0 is strictly on-policy."""
    consume: Literal["admission", "completion"] = "admission"
    """The order in which a tenant's groups are learnt."""

    def __post_init__(self) -> None:
        if self.max_staleness < 0:
            raise ConfigError(f"max_staleness is {self.max_staleness}; use 0 (on-policy) or more.")
        if self.tenants_at_once is not None and self.tenants_at_once < 1:
            raise ConfigError(f"tenants_at_once is {self.tenants_at_once}; use 1 or more, or None for all.")
        if self.consume not in ("admission", "completion"):
            raise ConfigError(f"consume is {self.consume!r}; use 'admission' or 'completion'.")


DEFAULT_STALENESS = 2
"""Of arm A1. With the decoupled loss, published ablations lose nothing up to about 8 updates."""

ARMS: Mapping[str, ScheduleSpec] = MappingProxyType(
    {
        "S0": ScheduleSpec(tenants_at_once=1, step_barrier=True, max_staleness=0),
        "S1": ScheduleSpec(tenants_at_once=None, step_barrier=True, max_staleness=0),
        "A0": ScheduleSpec(tenants_at_once=None, step_barrier=False, max_staleness=0),
        "A1": ScheduleSpec(tenants_at_once=None, step_barrier=False, max_staleness=DEFAULT_STALENESS),
    }
)
"""S0 sync-serial, S1 sync-batched, A0 async at staleness 0 (must learn what S1 learns), A1 async."""


def arm(name: str, max_staleness: int | None = None) -> ScheduleSpec:
    """The timetable of an arm; only A1 has a staleness to choose, at least 1."""
    if name not in ARMS:
        raise ConfigError(f"Arm {name!r} not found. The arms are {', '.join(ARMS)}.")
    spec = ARMS[name]
    if max_staleness is None or max_staleness == spec.max_staleness:
        return spec
    if name != "A1":
        raise ConfigError(f"Arm {name} has staleness 0 by definition, not {max_staleness}. Use A1.")
    if max_staleness < 1:
        raise ConfigError(
            f"Arm A1 needs max_staleness of at least 1, not {max_staleness}. A0 is the one with 0."
        )
    return ScheduleSpec(
        tenants_at_once=spec.tenants_at_once,
        step_barrier=spec.step_barrier,
        max_staleness=max_staleness,
        consume=spec.consume,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupView:
    """One admitted group that no finished update has consumed and no rule dropped."""

    ordinal: int
    complete: bool
    oldest_version: int
    """Of its sampled tokens so far; the version at admission where there are none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantView:
    """What the timetable sees of one tenant."""

    tenant_id: str
    published_version: int
    learner_version: int
    """Optimizer updates done; it rises in the same view in which the consumed groups leave `outstanding`."""
    admitted: int
    """Groups ever admitted, dropped ones included: the next free ordinal."""
    groups_per_update: int
    updates_total: int
    outstanding: tuple[GroupView, ...] = ()
    done: bool = False
    stopped: bool = False

    @property
    def finished(self) -> bool:
        """Needs nothing more: all updates published, or stopped (quarantined, removed)."""
        return self.done or self.stopped or self.published_version >= self.updates_total


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleView:
    """All tenants, in the order in which they were given."""

    tenants: tuple[TenantView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """Permission to start one group."""

    tenant_id: str
    ordinal: int


class UpdateReason(enum.StrEnum):
    """Why an update happens now."""

    BARRIER = "barrier"
    """Every active tenant of this step is ready."""
    READY = "ready"
    """At least one tenant has a full update; all that have one share the step."""
    DROP_ONLY = "drop_only"
    """Nothing to learn, but stale groups have to make room for fresh ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdatePlan:
    """What one learner step consumes, and what is dropped as stale on the way."""

    tenants: Mapping[str, tuple[int, ...]]
    """Ordinals per tenant, ascending; empty when `reason` is DROP_ONLY."""
    reason: UpdateReason
    stale: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Ordinals that get the fate STALE; admission re-draws as many groups."""


def staleness(learner_version: int, policy_version: int) -> int:
    """Updates between the policy that sampled and the learner that consumes; from the future is an error."""
    if policy_version > learner_version:
        raise LearnerError(
            f"A token claims policy version {policy_version}, but the learner has only reached "
            f"{learner_version}. Its version label is corrupt, or it belongs to another tenant."
        )
    return learner_version - policy_version


def active(spec: ScheduleSpec, view: ScheduleView) -> tuple[TenantView, ...]:
    """Tenants that take part now, in order."""
    running = tuple(t for t in view.tenants if not t.finished)
    return running if spec.tenants_at_once is None else running[: spec.tenants_at_once]


def admissions(spec: ScheduleSpec, view: ScheduleView) -> tuple[Admission, ...]:
    """Every group that may start now: round-robin over tenants, so that none waits behind all of another."""
    tenants = active(spec, view)
    slowest = min((t.published_version for t in tenants), default=0)
    allowed = [_room(spec, t, slowest if spec.step_barrier else t.published_version) for t in tenants]
    return tuple(
        Admission(tenant_id=tenant.tenant_id, ordinal=tenant.admitted + k)
        for k in range(max(allowed, default=0))
        for tenant, room in zip(tenants, allowed, strict=True)
        if k < room
    )


def next_update(spec: ScheduleSpec, view: ScheduleView) -> UpdatePlan | None:
    """The next learner step, or None while it must wait for groups."""
    waiting = [t for t in active(spec, view) if t.learner_version < t.updates_total]
    if spec.step_barrier and waiting:
        # Tenants that joined late step alone until they have caught up; the others can't be admitted further.
        step = min(t.learner_version for t in waiting)
        waiting = [t for t in waiting if t.learner_version == step]
    stale = {t.tenant_id: dropped for t in waiting if (dropped := _stale(spec, t))}
    ready = {t.tenant_id: ordinals for t in waiting if (ordinals := _full_update(spec, t))}
    if ready and (not spec.step_barrier or len(ready) == len(waiting)):
        reason = UpdateReason.BARRIER if spec.step_barrier else UpdateReason.READY
        return UpdatePlan(tenants=ready, reason=reason, stale=stale)
    return UpdatePlan(tenants={}, reason=UpdateReason.DROP_ONLY, stale=stale) if stale else None


def due_publications(view: ScheduleView) -> tuple[str, ...]:
    """Tenants whose learner is ahead of what the samplers have."""
    return tuple(
        t.tenant_id for t in view.tenants if not t.stopped and t.learner_version > t.published_version
    )


def _room(spec: ScheduleSpec, tenant: TenantView, base: int) -> int:
    limit = min(base + 1 + spec.max_staleness, tenant.updates_total) * tenant.groups_per_update
    if spec.consume == "admission":
        return max(0, limit - tenant.admitted)
    # Dropped groups give their place back, so what counts is what was learnt plus what is under way.
    held = tenant.learner_version * tenant.groups_per_update + len(tenant.outstanding)
    return max(0, limit - held)


def _full_update(spec: ScheduleSpec, tenant: TenantView) -> tuple[int, ...]:
    """Ordinals of a tenant's next update, ascending; empty while it isn't full."""
    n = tenant.groups_per_update
    if spec.consume == "completion":
        fresh = [g for g in tenant.outstanding if g.complete and not _too_old(spec, tenant, g)]
        oldest = sorted(fresh, key=lambda g: (g.oldest_version, g.ordinal))[:n]
        return tuple(sorted(g.ordinal for g in oldest)) if len(oldest) == n else ()
    first = tenant.learner_version * n
    by_ordinal = {g.ordinal: g for g in tenant.outstanding}
    due = [by_ordinal.get(k) for k in range(first, first + n)]
    if not all(g is not None and g.complete for g in due):
        return ()
    _refuse_stale(spec, tenant, [g for g in due if g is not None])
    return tuple(range(first, first + n))


def _stale(spec: ScheduleSpec, tenant: TenantView) -> tuple[int, ...]:
    if spec.consume == "admission":
        return ()
    old = (g.ordinal for g in tenant.outstanding if g.complete and _too_old(spec, tenant, g))
    return tuple(sorted(old))


def _too_old(spec: ScheduleSpec, tenant: TenantView, group: GroupView) -> bool:
    return staleness(tenant.learner_version, group.oldest_version) > spec.max_staleness


def _refuse_stale(spec: ScheduleSpec, tenant: TenantView, groups: Sequence[GroupView]) -> None:
    # Admission bounds staleness; a breach means that someone started a group without permission.
    for group in groups:
        if _too_old(spec, tenant, group):
            raise LearnerError(
                f"Group {group.ordinal} of tenant {tenant.tenant_id!r} was sampled at version "
                f"{group.oldest_version} and is due at {tenant.learner_version}, past the limit of "
                f"{spec.max_staleness}. Start groups by `admissions` only, or consume by completion."
            )
