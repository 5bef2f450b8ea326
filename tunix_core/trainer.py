"""The trainer: builds the stages and runs them by a timetable until every tenant has its updates.

One loop serves all arms. The thread that runs it owns the device; environments work on threads of their own.
Where learner and sampler share a device, the learner goes first when a full update is ready, else the sampler
decodes, else the loop waits for an environment, and says for which.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from tunix_core.actor import Actor, ActorSpec
from tunix_core.buffer.groups import TenantBuffer
from tunix_core.clock import clock_ns
from tunix_core.env_pool import EnvPool, InlineEnvPool, ThreadEnvPool
from tunix_core.environment import EnvFactory
from tunix_core.errors import ConfigError, LearnerError, StalledError
from tunix_core.learner.stage import Learner, PackedUpdate
from tunix_core.model.load import BaseModel
from tunix_core.sampler.base import SamplerFactory, SamplerSpec
from tunix_core.sampler.engine import SamplerEngine
from tunix_core.schedule import ScheduleSpec, ScheduleView, admissions, next_update
from tunix_core.selfcheck import SelfCheck, self_check
from tunix_core.telemetry import NullObserver, Observer, compile_counter
from tunix_core.tenant import tickets
from tunix_core.tokens import Renderer
from tunix_core.types import (
    AdapterVersion,
    Bucket,
    EpisodeTicket,
    Event,
    Fate,
    Group,
    Span,
    TenantSpec,
    Trajectory,
    UpdateReport,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainerSpec:
    """What all arms share. `runtime` 'inline' runs environments in the loop's own thread: deterministic."""

    sampler: SamplerSpec = field(default_factory=SamplerSpec)
    buckets: tuple[Bucket, ...] = (Bucket(rows=16, length=128),)
    runtime: Literal["inline", "threads"] = "threads"
    env_workers: int = 256
    env_timeout_s: float = 60.0
    no_progress_s: float = 120.0
    snapshot_every: int = 0
    """Keep each tenant's adapter every so many updates, beside the first and the last; 0 = those two only."""
    in_flight_updates: bool = True
    """A new adapter is used from the next token on; off: a running turn ends on the adapter it began with."""
    self_check: bool = True
    """Each tenant's first update must be on-policy; off only for samplers whose log-probabilities are made up."""
    device: str = "cpu:0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A tenant's adapter at a scheduled point, to be scored after the clock has stopped."""

    adapter: AdapterVersion
    samples: int
    """Trajectories the tenant had consumed."""
    t_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainResult:
    """How a run ended. Ledgers close whatever the status."""

    status: Literal["success", "interrupted", "tenant_stopped"]
    reason: str
    t_start_ns: int
    t_stop_ns: int
    ledgers: Mapping[str, Mapping[str, Mapping[str, int]]]
    updates: Mapping[str, int]
    snapshots: tuple[Snapshot, ...]
    recompiles: Mapping[str, int]
    """Compilations inside the window, by function name; the target is none."""


class Trainer:
    """One (arm, seed) run over given tenants. Call `warm_up` first: it compiles everything off the clock."""

    def __init__(
        self,
        base: BaseModel,
        params: Any,
        tenants: Sequence[TenantSpec],
        schedule: ScheduleSpec,
        env_factory: EnvFactory,
        renderer: Renderer,
        spec: TrainerSpec | None = None,
        *,
        observer: Observer | None = None,
        clock_ns: Callable[[], int] = clock_ns,
        should_stop: Callable[[], bool] = lambda: False,
        sampler: SamplerFactory = SamplerEngine,
        on_packed: Callable[[PackedUpdate], None] = lambda packed: None,
    ) -> None:
        """`params` are the base's weights on the device, shared by every trainer of a process.

        `sampler` builds what generates; `on_packed` is told of each update's batches before the step.
        """
        self.spec = spec = spec or TrainerSpec()
        _check(tenants, spec)
        self.schedule, self.tenants = schedule, tuple(tenants)
        self._clock = clock_ns
        self._observer = observer or NullObserver()
        self._should_stop = should_stop
        self._buffers = {t.tenant_id: TenantBuffer(t) for t in tenants}
        self._compiles = compile_counter()
        self.learner = Learner(
            base.config,
            params,
            tenants,
            max_rank=max(t.lora.rank for t in tenants),
            buckets=spec.buckets,
            clock_ns=self._clock,
            on_span=self._span,
            device=spec.device,
            on_packed=self._packed,
        )
        self.sampler = sampler(
            spec.sampler,
            base.config,
            params,
            # a copy of its own: the learner's step donates what it overwrites
            jax.tree.map(jnp.copy, self.learner.state.adapters),
            stop_ids=renderer.stop_ids,
            clock_ns=self._clock,
            on_span=self._span,
            device=spec.device,
        )
        self._pool = self._make_pool(env_factory)
        self._actor = Actor(
            ActorSpec(
                max_context=spec.sampler.max_context,
                sampling={t.tenant_id: t.sampling for t in tenants},
                adapter_slot=dict(self.learner.slot_of),
            ),
            renderer,
            self._pool,
            self.sampler.submit,
            self._clock,
        )
        self._on_packed = on_packed
        self._checks: dict[str, SelfCheck] = {}
        self._snapshots: list[Snapshot] = []
        self._update_id = 0
        self._in_window = False

    def warm_up(self) -> None:
        """Compiles every shape the run will use and leaves no trace in its state."""
        self.learner.warm_up(score=self.spec.self_check)
        self.sampler.warm_up()
        for name, slot in self.learner.slot_of.items():
            adapter = self.learner.adapter(name)
            self.sampler.publish(adapter, slot)

    def run(self) -> TrainResult:
        """Trains until every tenant has its updates, or `should_stop` says so between two dispatches.

        Raises StalledError when nothing moves for `no_progress_s`, LearnerError when the first-step
        self-check fails; ledgers are settled and lines written before either leaves here.
        """
        for name in self._buffers:
            self._snapshot(name)
        compiles = self._compiles.names()
        t_start = self._clock()
        self._in_window = True
        self._event("run_start", {"tenants": [t.tenant_id for t in self.tenants]})
        interrupted = False
        try:
            last_progress = self._clock()
            while not all(b.view.finished for b in self._buffers.values()):
                if self._should_stop():
                    interrupted = True
                    break
                if self._turn():
                    last_progress = self._clock()
                else:
                    self._wait(last_progress)
        finally:
            self._settle()
            self._pool.shutdown()
        t_stop = self._clock()
        recompiles = dict(self._compiles.names() - compiles)
        self._in_window = False
        stopped = {n: b.stopped for n, b in self._buffers.items() if b.stopped}
        status = "interrupted" if interrupted else "tenant_stopped" if stopped else "success"
        self._event("run_stop", {"status": status, "recompiles": recompiles})
        return TrainResult(
            status=status,
            reason="; ".join(f"{n}: {why}" for n, why in stopped.items()),
            t_start_ns=t_start,
            t_stop_ns=t_stop,
            ledgers={n: b.ledger.snapshot() for n, b in self._buffers.items()},
            updates={n: b.updates_done for n, b in self._buffers.items()},
            snapshots=tuple(self._snapshots),
            recompiles=recompiles,
        )

    def _turn(self) -> bool:
        """One round: environment answers, admissions, then one piece of device work. Whether anything moved."""
        replies = self._pool.poll()
        for reply in replies:
            self._done(self._actor.on_reply(reply))
        view = ScheduleView(tenants=tuple(b.view for b in self._buffers.values()))
        admitted = admissions(self.schedule, view)
        for admission in admitted:
            buffer = self._buffers[admission.tenant_id]
            buffer.admit(admission.ordinal)
            for ticket in tickets(buffer.spec, admission.ordinal, buffer.published_version):
                self._actor.start(ticket)
        plan = next_update(self.schedule, view)
        if plan is not None:
            for name, ordinals in plan.stale.items():
                for group in self._buffers[name].take(ordinals, Fate.STALE):
                    self._record(group, None)
            if plan.tenants:
                self._learn(plan.tenants)
            return True
        if self.sampler.busy:
            before = self.sampler.tokens_sampled
            results = self.sampler.turn()
            for result in results:
                self._done(self._actor.on_sample(result))
            return bool(replies or admitted or results) or self.sampler.tokens_sampled > before
        return bool(replies or admitted)

    def _done(self, trajectory: Trajectory | None) -> None:
        if trajectory is None:
            return
        ticket = trajectory.ticket
        if self._buffers[ticket.tenant_id].add(trajectory):
            self._event("group.complete", {"tenant": ticket.tenant_id, "ordinal": ticket.ordinal})

    def _learn(self, due: Mapping[str, tuple[int, ...]]) -> None:
        update_id, self._update_id = self._update_id, self._update_id + 1
        groups = {name: self._buffers[name].take(ordinals, Fate.CONSUMED) for name, ordinals in due.items()}
        reports = self.learner.update(update_id, groups)
        for report in reports:
            name = report.tenant_id
            buffer = self._buffers[name]
            buffer.updates_done += 1
            failure = _failure(report, groups[name])
            if failure is not None:
                self._record_all(groups[name], update_id, report.version_before)
                self._observer.update(report)
                self._stop_tenant(name, f"update {update_id}: {failure}")
                continue
            buffer.learner_version = report.version_after
            published = self._publish(name)
            self._record_all(groups[name], update_id, report.version_before)
            self._observer.update(dataclasses.replace(report, published_ns=published))
            every = self.spec.snapshot_every
            if buffer.learner_version >= buffer.spec.updates or (
                every and buffer.learner_version % every == 0
            ):
                self._snapshot(name)
        # last, so that what the step consumed is on record whatever it shows
        for report in reports:
            check = self._checks.pop(report.tenant_id, None)
            if check is not None and report.version_after == 1 and check.failure is not None:
                raise LearnerError(
                    f"self-check at the first update of tenant {report.tenant_id!r}: {check.failure}"
                )

    def _publish(self, name: str) -> int:
        t0 = self._clock()
        adapter = self.learner.adapter(name)
        slot, in_flight = self.learner.slot_of[name], self.spec.in_flight_updates
        self.sampler.publish(adapter, slot, in_flight=in_flight)
        self._buffers[name].published_version = adapter.version
        t1 = self._clock()
        self._sync_span(t0, (name,))
        self._event(
            "adapter.published", {"tenant": name, "version": adapter.version, "sha256": adapter.sha256}
        )
        return t1

    def _snapshot(self, name: str) -> None:
        buffer = self._buffers[name]
        adapter = self.learner.adapter(name)
        samples = buffer.ledger.snapshot()[Fate.CONSUMED]["rollouts"]
        snapshot = Snapshot(adapter=adapter, samples=samples, t_ns=self._clock())
        self._snapshots.append(snapshot)
        value = {"tenant": name, "version": adapter.version, "samples": samples, "sha256": adapter.sha256}
        self._event("snapshot", {**value, "t_ns": snapshot.t_ns})

    def _packed(self, packed: PackedUpdate) -> None:
        """Before each step: the first updates are scored for the self-check, then whoever asked is told."""
        first = [n for n in packed.groups if packed.versions[n] == 0] if self.spec.self_check else []
        if first:
            t0 = self._clock()
            logprobs = self.learner.score(packed.batches)
            self._sync_span(t0, first, packed.plan.stats.executed_slots)
            self._checks |= {name: self_check(packed, logprobs, name) for name in first}
            for name in first:
                self._event("self_check", {"tenant": name, **self._checks[name].figures})
        self._on_packed(packed)

    def _sync_span(self, t0_ns: int, tenants: Sequence[str], executed_slots: int = 0) -> None:
        """Device time that keeps the two sides together and teaches nothing."""
        self._span(
            Span(
                device=self.spec.device,
                role="sync",
                t0_ns=t0_ns,
                t1_ns=self._clock(),
                tenants=tuple(sorted(tenants)),
                executed_slots=executed_slots,
                real_tokens=0,
            )
        )

    def _stop_tenant(self, name: str, reason: str) -> None:
        """Quarantines one tenant; the others don't notice."""
        buffer = self._buffers[name]
        buffer.stopped = reason
        self.sampler.drop(name)
        self._drop_open(name)
        self._event("tenant.stopped", {"tenant": name, "reason": reason})

    def _drop_open(self, name: str) -> None:
        buffer = self._buffers[name]
        for trajectory in self._actor.drop(name):
            buffer.add(trajectory)
        for trajectory in buffer.close():
            fate = Fate.ERRORED if trajectory.error is not None else Fate.SURPLUS
            self._observer.trajectory(dataclasses.replace(trajectory, fate=fate), None, None)

    def _settle(self) -> None:
        for name in self._buffers:
            self.sampler.drop(name)
            self._drop_open(name)

    def _record(self, group: Group, update_id: int | None) -> None:
        for t in group.trajectories:
            fate = Fate.ERRORED if t.error is not None else Fate.STALE
            self._observer.trajectory(dataclasses.replace(t, fate=fate), update_id, None)

    def _record_all(self, groups: Sequence[Group], update_id: int, version: int) -> None:
        for t in (t for group in groups for t in group.trajectories):
            if t.error is not None:
                self._observer.trajectory(dataclasses.replace(t, fate=Fate.ERRORED), None, None)
            else:
                consumed = dataclasses.replace(t, fate=Fate.CONSUMED)
                self._observer.trajectory(consumed, update_id, version - t.oldest_version)

    def _wait(self, last_progress_ns: int) -> None:
        left = self.spec.no_progress_s - (self._clock() - last_progress_ns) / 1e9
        if left > 0 and self.sampler.busy:
            return
        # short enough that an interrupt is seen soon; an answer ends the wait at once
        if left > 0 and (self._pool.wait(min(left, 0.5)) or self._pool.waiting):
            return
        raise StalledError(f"no progress for {self.spec.no_progress_s:g} s; waiting for {self._waits()}")

    def _waits(self) -> str:
        """What a run that doesn't move waits for, by owner."""
        calls, turns = self._pool.waiting, self.sampler.waiting
        waits = []
        if calls:
            named = [f"{_name(t)} ({t.env_id}, {age:.1f} s)" for t, age in calls[:5]]
            waits.append(f"{len(calls)} environment calls: {', '.join(named)}")
        if turns:
            named = [f"{_name(r.ticket)} turn {r.turn_index}" for r in turns[:5]]
            waits.append(f"{len(turns)} turns of the sampler: {', '.join(named)}")
        return "; ".join(waits) or "nothing known"

    def _make_pool(self, factory: EnvFactory) -> EnvPool:
        if self.spec.runtime == "inline":
            return InlineEnvPool(factory, self._clock)
        return ThreadEnvPool(
            factory, self._clock, workers=self.spec.env_workers, timeout_s=self.spec.env_timeout_s
        )

    def _span(self, span: Span) -> None:
        if self._in_window:
            self._observer.span(span)

    def _event(self, key: str, value: Mapping[str, Any]) -> None:
        self._observer.event(Event(key=key, t_ns=self._clock(), value=value))


def _name(ticket: EpisodeTicket) -> str:
    return f"{ticket.tenant_id} group {ticket.ordinal} sample {ticket.sample_index}"


def _failure(report: UpdateReport, groups: Sequence[Group]) -> str | None:
    """Why a tenant can't go on after this update, or None."""
    errors = [t.error for g in groups for t in g.trajectories]
    if all(error is not None for error in errors):
        # every version would be spent on nothing, and the run would end looking healthy
        return f"all {len(errors)} of its environments failed, the first with {errors[0]}"
    return report.skipped if report.version_after == report.version_before else None


def _check(tenants: Sequence[TenantSpec], spec: TrainerSpec) -> None:
    names = [t.tenant_id for t in tenants]
    if not names:
        raise ConfigError("no tenants: give at least one")
    if len(set(names)) < len(names):
        raise ConfigError(f"tenant ids repeat: {sorted(n for n in set(names) if names.count(n) > 1)}")
    for t in tenants:
        if min(t.group_size, t.groups_per_update, t.updates) < 1:
            raise ConfigError(
                f"tenant {t.tenant_id!r}: group_size {t.group_size}, groups_per_update {t.groups_per_update} and "
                f"updates {t.updates} must all be at least 1"
            )
        if t.sampling.max_new_tokens > spec.sampler.max_new_tokens:
            raise ConfigError(
                f"tenant {t.tenant_id!r}: max_new_tokens {t.sampling.max_new_tokens} exceeds the sampler's "
                f"{spec.sampler.max_new_tokens}"
            )
    longest = spec.sampler.max_context + spec.sampler.max_new_tokens
    if np.max([b.length for b in spec.buckets]) < longest:
        raise ConfigError(
            f"buckets {[(b.rows, b.length) for b in spec.buckets]} cannot hold an episode of {longest} tokens "
            f"(context {spec.sampler.max_context} + turn {spec.sampler.max_new_tokens})"
        )
