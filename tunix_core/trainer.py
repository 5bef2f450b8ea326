"""The trainer: builds the stages and runs them by a timetable until every tenant has its updates.

One loop serves all arms. It decides what the device does next and does the rest while the device, on a thread of its
own, is at it: environments' answers, tokens, books, lines. Environments work on further threads. Where learner and
sampler share a device, the learner goes first when a full update is ready, else the sampler decodes, else the loop
waits for an environment, and says for which.
"""

from __future__ import annotations

import dataclasses
import logging
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from tunix_core import resume
from tunix_core.actor import Actor, ActorSpec
from tunix_core.buffer import Put, Quarantined, TrajectoryBuffer, episode_bytes
from tunix_core.buffer.groups import final_fate
from tunix_core.buffer.store import open_store
from tunix_core.checkpoint import Checkpoints
from tunix_core.clock import clock_ns
from tunix_core.device import DeviceThread
from tunix_core.env_pool import EnvPool, InlineEnvPool, ThreadEnvPool
from tunix_core.environment import EnvFactory
from tunix_core.errors import ConfigError, LearnerError, StalledError
from tunix_core.inbox import Inbox
from tunix_core.learner.stage import Learner, PackedUpdate, Step, trained_length
from tunix_core.memory import PeakMemory
from tunix_core.model.load import BaseModel
from tunix_core.model.lora import lora_scale
from tunix_core.runspec import Restored, Snapshot, TrainerSpec, TrainResult, check_run, check_tenant
from tunix_core.sampler.base import Dispatch, SamplerFactory
from tunix_core.sampler.engine import SamplerEngine
from tunix_core.schedule import ScheduleSpec, ScheduleView, admissions, next_update
from tunix_core.selfcheck import SelfCheck, self_check
from tunix_core.telemetry import NullObserver, Observer, compile_counter
from tunix_core.tenant import tickets
from tunix_core.tokens import Renderer
from tunix_core.types import (
    AdapterVersion,
    Event,
    Fate,
    Group,
    SampleResult,
    Span,
    TenantSpec,
    Trajectory,
    UpdateReport,
)
from tunix_core.waits import waiting_for

_log = logging.getLogger(__name__)


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
        check_run(tenants, spec)
        self.schedule, self._base = schedule, base
        self._clock = clock_ns
        self._observer = observer or NullObserver()
        self._should_stop = should_stop
        self._buffer = TrajectoryBuffer(
            spec.buffer,
            open_store(spec.buffer.store, spec.checkpoint_dir),
            episode_bytes=episode_bytes(spec.sampler.max_context + spec.sampler.max_new_tokens),
            clock_ns=self._clock,
            on_quarantine=self._quarantined,
        )
        self._buffers = self._buffer.tenants
        for t in tenants:
            self._buffer.join(t)
        self._parked: list[Trajectory] = []
        self._compiles = compile_counter()
        self.learner = Learner(
            base.config,
            params,
            tenants,
            max_rank=spec.max_rank or max(t.lora.rank for t in tenants),
            buckets=spec.buckets,
            clock_ns=self._clock,
            on_span=self._span,
            device=spec.device,
            on_packed=on_packed,
            slots=spec.tenant_slots,
            devices=_devices(spec.learner_devices),
            workers=spec.workers,
        )
        self.sampler = sampler(
            spec.sampler,
            base.config,
            params,
            # A copy of its own: the learner's step donates what it overwrites. By way of the host, since arrays
            # bound to a device would bind the cache too, after its first use, and have it compiled again.
            jax.tree.map(jnp.array, jax.device_get(self.learner.state.adapters)),
            stop_ids=renderer.stop_ids,
            clock_ns=self._clock,
            on_span=self._span,
            device=spec.device,
        )
        self._pool = self._make_pool(env_factory)
        self._sampling = {t.tenant_id: t.sampling for t in tenants}
        self._actor = Actor(
            # both mappings grow and shrink with the tenants
            ActorSpec(
                max_context=spec.sampler.max_context,
                sampling=self._sampling,
                adapter_slot=self.learner.slot_of,
            ),
            renderer,
            self._pool,
            self.sampler.submit,
            self._clock,
        )
        # an episode is over when its pool is asked in its own thread: then everything happens in one order
        self._device = DeviceThread(self._pool.wake, inline=spec.runtime == "inline")
        self._later: list[Callable[[], None]] = []
        self._without_signal: Counter[str] = Counter()
        self._snapshots: list[Snapshot] = []
        self._update_id = 0
        self._in_window = False
        self._saved_ns = 0
        self._inbox = Inbox()
        self._redraw: dict[str, tuple[int, ...]] = {}
        self._restored = False
        self._checkpoints = Checkpoints(spec.checkpoint_dir) if spec.checkpoint_dir else None

    def warm_up(self) -> None:
        """Compiles every shape the run will use and leaves no trace in its state."""
        self.learner.warm_up(score=self.spec.self_check)
        self.sampler.warm_up(cuts=any(s.cuts for s in self._sampling.values()))
        for name, slot in self.learner.slot_of.items():
            adapter = self.learner.adapter(name)
            self.sampler.publish(adapter, slot)

    def add_tenant(self, tenant: TenantSpec) -> Future[int]:
        """A tenant joins between two dispatches; from any thread. The result is its slot.

        The result is a ConfigError where it can't: no free slot, an id this run has seen, settings the compiled
        shapes can't hold. Nobody else's bits change.
        """
        return self._inbox.ask(lambda: self._join(tenant))

    def remove_tenant(self, tenant_id: str) -> Future[Snapshot]:
        """A tenant leaves between two dispatches; from any thread. The result is its adapter of then.

        What it had in flight is booked as surplus; its slot is free for another.
        """
        return self._inbox.ask(lambda: self._leave(tenant_id))

    def restore(self) -> Restored:
        """Takes up the newest checkpoint of `checkpoint_dir`, before `run`.

        Tenants that had joined come back with their settings; those given here must be the same as then.
        Raises CheckpointError where there is none or it belongs to another run.
        """
        if self._checkpoints is None:
            raise ConfigError("nothing to restore from: set checkpoint_dir")
        given = {name: buffer.spec for name, buffer in self._buffers.items()}
        found = resume.load(self._checkpoints, self.learner, given, self._identity())
        for buffer in found.buffers.values():
            self._buffer.join(buffer.spec, buffer)
        self._snapshots, self._redraw = found.snapshots, found.redrawn
        self._update_id, self._restored = found.step, True
        kept = self._buffer.recover(self._replayable)
        for name, slot in self.learner.slot_of.items():
            spec = self._buffers[name].spec
            self._sampling[name] = spec.sampling
            self.sampler.install(self.learner.adapter(name), slot, lora_scale(spec.lora))
        return Restored(
            step=found.step,
            updates={n: b.updates_done for n, b in found.buffers.items()},
            redrawn=found.redrawn,
            replayed=Counter(name for name, _, _ in kept.trajectories),
            quarantined=tuple(f"{q.key}: {q.reason}" for q in kept.quarantined),
        )

    def run(self) -> TrainResult:
        """Trains until every tenant has its updates, or `should_stop` says so between two dispatches.

        Raises StalledError when nothing moves for `no_progress_s`, LearnerError when the first-step
        self-check fails; ledgers are settled and lines written before either leaves here.
        """
        self._inbox.open()
        if not self._restored:
            self._buffer.clear()
        known = {s.adapter.tenant_id for s in self._snapshots}
        for name in self._buffers:
            if name not in known:
                self._snapshot(name, self.learner.adapter(name))
        compiles = self._compiles.names()
        memory = PeakMemory(jax.local_devices())
        memory.begin()
        t_start = self._saved_ns = self._clock()
        self._in_window = True
        self._event("run_start", {"tenants": list(self._buffers)})
        try:
            with _prompt_threads():
                interrupted = self._train()
            t_stop = self._clock()
            recompiles = dict(self._compiles.names() - compiles)
            self._in_window = False
            stopped = {n: b.stopped for n, b in self._buffers.items() if b.stopped}
            status = "interrupted" if interrupted else "tenant_stopped" if stopped else "success"
            stop = {"status": status, "recompiles": recompiles, "peak_bytes": memory.read()}
            self._event("run_stop", stop)
            if not interrupted:
                self._save()  # the clock has stopped; for whoever still has to score the snapshots
        finally:
            self._let_go()
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

    def _train(self) -> bool:
        """Turns until all is learnt; True if it was interrupted before. Books are settled either way."""
        interrupted = False
        try:
            self._draw_again()
            last_progress = self._clock()
            while not interrupted and (
                self._inbox or not all(b.view.finished for b in self._buffers.values())
            ):
                if self._should_stop():
                    interrupted = True
                elif self._turn():
                    last_progress = self._clock()
                else:
                    self._wait(last_progress)
            while self._device.busy:
                self._device.end()
            self._catch_up()
            # before what is in flight is booked as surplus: a resumed run still has to learn it
            if interrupted:
                self._save()
        finally:
            self._device.close(timeout_s=10.0)
            self._settle()
            self._pool.shutdown()
            self._inbox.close()
        return interrupted

    def _let_go(self) -> None:
        saved = None
        if self._checkpoints is not None:
            self._checkpoints.wait()
            saved = self._checkpoints.latest
            self._checkpoints.close()
        self._buffer.shut(saved)

    def _turn(self) -> bool:
        """One round: what the device did, answers, its next piece of work, and what can wait until it is at that.

        Whether anything moved.
        """
        moved = self._device.done and self._device.end()
        idle = not self._device.busy
        if idle:
            moved |= self._inbox.serve()
        moved |= self._answers()
        if idle:
            moved |= self._begin()
        return self._catch_up() or moved

    def _answers(self) -> bool:
        """Takes in what environments answered; whether there was any."""
        parked, self._parked = self._parked, []
        for trajectory in parked:
            self._hand_in(trajectory)
        replies = self._pool.poll()
        for reply in replies:
            self._done(self._actor.on_reply(reply))
        return bool(replies)

    def _begin(self) -> bool:
        """Admissions, then the device's next piece of work; whether the run is any further for it."""
        view = ScheduleView(tenants=tuple(b.view for b in self._buffers.values()))
        if all(t.finished for t in view.tenants):
            return False
        admitted = self._buffer.grant(admissions(self.schedule, view))
        for admission in admitted:
            self._admit(admission.tenant_id, admission.ordinal)
        plan = next_update(self.schedule, view)
        if plan is not None:
            for name, ordinals in plan.stale.items():
                for group in self._buffer.take(name, ordinals, Fate.STALE):
                    self._record(group, None)
            if plan.tenants:
                self._begin_update(plan.tenants)
            return True
        dispatch = self.sampler.begin() if self.sampler.busy else None
        if dispatch is not None:
            self._device.begin(dispatch.run, partial(self._end_dispatch, dispatch))
        return bool(admitted)

    def _end_dispatch(self, dispatch: Dispatch) -> bool:
        before = self.sampler.tokens_sampled
        results = self.sampler.end(dispatch)
        if results:
            self._later.append(partial(self._sampled, results))
        return bool(results) or self.sampler.tokens_sampled > before

    def _sampled(self, results: Sequence[SampleResult]) -> None:
        for result in results:
            self._done(self._actor.on_sample(result))

    def _catch_up(self) -> bool:
        """Does what could wait; whether there was any."""
        later, self._later = self._later, []
        for what in later:
            what()
        return bool(later)

    def _admit(self, name: str, ordinal: int) -> None:
        buffer = self._buffers[name]
        known = self._buffer.admit(name, ordinal)
        there = {t.ticket.sample_index for t in known}
        for ticket in tickets(buffer.spec, ordinal, buffer.published_version):
            if ticket.sample_index not in there:
                self._actor.start(ticket)
        for trajectory in known:
            self._hand_in(trajectory)

    def _draw_again(self) -> None:
        redraw, self._redraw = self._redraw, {}
        for name, ordinals in redraw.items():
            for ordinal in ordinals:
                self._admit(name, ordinal)

    def _done(self, trajectory: Trajectory | None) -> None:
        if trajectory is not None:
            self._hand_in(self._filtered(trajectory))

    def _hand_in(self, trajectory: Trajectory) -> None:
        ticket = trajectory.ticket
        put = self._buffer.put(trajectory)
        if put is Put.COMPLETE:
            self._event("group.complete", {"tenant": ticket.tenant_id, "ordinal": ticket.ordinal})
        elif put is Put.FULL:
            self._parked.append(trajectory)

    def _quarantined(self, found: Quarantined) -> None:
        tenant, ordinal, sample = found.key
        value = {"tenant": tenant, "ordinal": ordinal, "sample_index": sample, "reason": found.reason}
        self._event("record.quarantined", value)
        _log.warning("quarantined: tenant %r group %d sample %d: %s", tenant, ordinal, sample, found.reason)

    def _replayable(self, trajectory: Trajectory) -> bool:
        """By admission, a group's tokens are never newer than the learner is when the group's turn comes."""
        learner_version = self._buffers[trajectory.ticket.tenant_id].learner_version
        return self.schedule.consume == "admission" or trajectory.newest_version <= learner_version

    def _filtered(self, trajectory: Trajectory) -> Trajectory:
        """Marks what no bucket holds. With overlong='error' the buckets hold whatever the sampler can make."""
        length, longest = trained_length(trajectory), max(b.length for b in self.spec.buckets)
        if self.spec.overlong == "error" or trajectory.error is not None or length <= longest:
            return trajectory
        t = trajectory.ticket
        reason = f"{length} tokens exceed the longest bucket, {longest}"
        value = {"tenant": t.tenant_id, "ordinal": t.ordinal, "sample_index": t.sample_index}
        self._event("rollout.filtered", {**value, "tokens": trajectory.sampled_tokens, "reason": reason})
        return dataclasses.replace(trajectory, fate=Fate.FILTERED)

    def _begin_update(self, due: Mapping[str, tuple[int, ...]]) -> None:
        """Packs an update and starts its step; a tenant's first is scored before, for the self-check."""
        update_id, self._update_id = self._update_id, self._update_id + 1
        groups = {name: self._buffer.take(name, ordinals, Fate.CONSUMED) for name, ordinals in due.items()}
        step = self.learner.prepare(update_id, groups)
        versions = step.packed.versions
        first = [n for n in groups if versions[n] == 0] if self.spec.self_check else []
        scored = _Scored(first)

        def work() -> None:
            if first:
                scored.t0_ns = self._clock()
                scored.logprobs = self.learner.score(step.packed.batches)
                scored.t1_ns = self._clock()
            step.run()

        self._device.begin(work, partial(self._end_update, step, scored))

    def _end_update(self, step: Step, scored: _Scored) -> bool:
        """Books a step: versions, adapters in the sampler, snapshots. Its lines wait until the device is at work."""
        groups, update_id = step.packed.groups, step.packed.update_id
        checks = self._checked(step.packed, scored) if scored.tenants else {}
        reports = self.learner.reports(step)
        for report in reports:
            name = report.tenant_id
            buffer = self._buffers[name]
            buffer.updates_done += 1
            failure = _failure(report, groups[name])
            if failure is not None:
                self._record_update(report, groups[name])
                self._stop_tenant(name, f"update {update_id}: {failure}")
                continue
            self._watch_signal(report)
            buffer.learner_version = report.version_after
            adapter, published_ns = self._publish(name)
            published = dataclasses.replace(report, published_ns=published_ns)
            self._later.append(partial(self._record_update, published, groups[name]))
            every = self.spec.snapshot_every
            if buffer.learner_version >= buffer.spec.updates or (
                every and buffer.learner_version % every == 0
            ):
                self._snapshot(name, adapter)
        for report in reports:
            check = checks.get(report.tenant_id)
            if check is not None and report.version_after == 1 and check.failure is not None:
                # what the step consumed is on record whatever it shows
                self._catch_up()
                raise LearnerError(
                    f"self-check at the first update of tenant {report.tenant_id!r}: {check.failure}"
                )
        if self._checkpoint_due():
            self._catch_up()
            self._save()
        return True

    def _checked(self, packed: PackedUpdate, scored: _Scored) -> dict[str, SelfCheck]:
        """Compares first updates' log-probabilities with the sampler's."""
        self._sync_span(
            scored.t0_ns, scored.t1_ns, scored.tenants, executed_slots=packed.plan.stats.executed_slots
        )
        checks = {name: self_check(packed, scored.logprobs, name) for name in scored.tenants}
        for name, check in checks.items():
            self._event("self_check", {"tenant": name, **check.figures})
        return checks

    def _publish(self, name: str) -> tuple[AdapterVersion, int]:
        """The learner's adapter to the sampler; it, and when it was there."""
        t0 = self._clock()
        adapter = self.learner.adapter(name)
        slot, in_flight = self.learner.slot_of[name], self.spec.in_flight_updates
        self.sampler.publish(adapter, slot, in_flight=in_flight)
        self._buffers[name].published_version = adapter.version
        t1 = self._clock()
        self._sync_span(t0, t1, (name,))
        self._event(
            "adapter.published", {"tenant": name, "version": adapter.version, "sha256": adapter.sha256}
        )
        return adapter, t1

    def _snapshot(self, name: str, adapter: AdapterVersion) -> Snapshot:
        buffer = self._buffers[name]
        samples = buffer.ledger.snapshot()[Fate.CONSUMED]["rollouts"]
        snapshot = Snapshot(adapter=adapter, samples=samples, t_ns=self._clock())
        self._snapshots.append(snapshot)
        self._event("snapshot", snapshot.line)
        return snapshot

    def _watch_signal(self, report: UpdateReport) -> None:
        """Tells once, not once an update: a tenant may have learnt all there is, or never see a reward."""
        name = report.tenant_id
        self._without_signal[name] = self._without_signal[name] + 1 if report.skipped else 0
        if self._without_signal[name] == self.spec.warn_no_signal_after:
            reason = f"{self._without_signal[name]} updates in a row took no step ({report.skipped})"
            self._event("warning", {"tenant": name, "reason": reason})
            _log.warning("tenant %r: %s", name, reason)

    def _sync_span(self, t0_ns: int, t1_ns: int, tenants: Sequence[str], executed_slots: int = 0) -> None:
        """Device time that keeps the two sides together and teaches nothing."""
        self._span(
            Span(
                device=self.spec.device,
                role="sync",
                t0_ns=t0_ns,
                t1_ns=t1_ns,
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

    def _join(self, tenant: TenantSpec) -> int:
        name = tenant.tenant_id
        check_tenant(tenant, self.spec)
        if name in self._buffers:
            raise ConfigError(f"tenant id {name!r} was used in this run; choose another")
        slot = self.learner.add(tenant)
        try:
            self._buffer.join(tenant)
        except ConfigError:
            self.learner.remove(name)
            raise
        self._sampling[name] = tenant.sampling
        self.sampler.install(self.learner.adapter(name), slot, lora_scale(tenant.lora))
        self._event("tenant.joined", {"tenant": name, "slot": slot})
        self._snapshot(name, self.learner.adapter(name))
        return slot

    def _leave(self, name: str) -> Snapshot:
        if name not in self.learner.slot_of:
            raise ConfigError(f"tenant {name!r} is not here; here are {sorted(self.learner.slot_of)}")
        buffer = self._buffers[name]
        buffer.removed = True
        self.sampler.drop(name)
        self._drop_open(name)
        snapshot = self._snapshot(name, self.learner.adapter(name))
        self.learner.remove(name)
        self._event("tenant.left", {"tenant": name, "updates": buffer.updates_done})
        return snapshot

    def _save(self) -> None:
        if self._checkpoints is None:
            return
        self._buffer.acknowledge(self._checkpoints.latest)
        if self._checkpoints.latest == self._update_id:
            return
        self._saved_ns = t0 = self._clock()
        resume.save(
            self._checkpoints, self._update_id, self.learner, self._buffers, self._snapshots, self._identity()
        )
        self._buffer.seal(self._update_id)
        self._event("checkpoint", {"step": self._update_id, "blocked_ns": self._clock() - t0})

    def _checkpoint_due(self) -> bool:
        every, seconds = self.spec.checkpoint_every, self.spec.checkpoint_s
        by_time = seconds and self._clock() - self._saved_ns >= seconds * 1e9
        return bool(self._buffer.overdue or by_time or (every and self._update_id % every == 0))

    def _identity(self) -> dict[str, Any]:
        """What must be equal for a checkpoint to be this run's."""
        return {
            "base_sha256": self._base.sha256,
            "schedule": dataclasses.asdict(self.schedule),
            "slot_count": len(self.learner.slots),
            "max_rank": self.learner.max_rank,
        }

    def _drop_open(self, name: str) -> None:
        buffer = self._buffers[name]
        parked = [t for t in self._parked if t.ticket.tenant_id == name]
        self._parked = [t for t in self._parked if t.ticket.tenant_id != name]
        for trajectory in (*parked, *self._actor.drop(name)):
            buffer.add(trajectory)
        for trajectory in self._buffer.close(name, forget=buffer.view.stopped):
            fate = final_fate(trajectory, Fate.SURPLUS)
            self._observer.trajectory(dataclasses.replace(trajectory, fate=fate), None, None)

    def _settle(self) -> None:
        for name in self._buffers:
            self.sampler.drop(name)
            self._drop_open(name)

    def _record(self, group: Group, update_id: int | None) -> None:
        for t in group.trajectories:
            fate = final_fate(t, Fate.STALE)
            self._observer.trajectory(dataclasses.replace(t, fate=fate), update_id, None)

    def _record_update(self, report: UpdateReport, groups: Sequence[Group]) -> None:
        for t in (t for group in groups for t in group.trajectories):
            ended = dataclasses.replace(t, fate=final_fate(t, Fate.CONSUMED))
            if ended.fate is Fate.CONSUMED:
                staleness = report.version_before - t.oldest_version
                self._observer.trajectory(ended, report.update_id, staleness)
            else:
                self._observer.trajectory(ended, None, None)
        self._observer.update(report)

    def _wait(self, last_progress_ns: int) -> None:
        left = self.spec.no_progress_s - (self._clock() - last_progress_ns) / 1e9
        if self._device.busy:
            # the end of its work wakes the pool too
            if not self._device.done:
                self._pool.wait(0.5)
            if left > 0 or not self._device.done:
                return
        if left > 0 and self.sampler.busy:
            return
        # short enough that an interrupt is seen soon; an answer ends the wait at once
        if left > 0 and (self._pool.wait(min(left, 0.5)) or self._pool.waiting):
            return
        waits = waiting_for(self._pool, self.sampler, self._buffer, self._parked, self._clock())
        raise StalledError(f"no progress for {self.spec.no_progress_s:g} s; waiting for {waits}")

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


@dataclasses.dataclass(slots=True)
class _Scored:
    """Log-probabilities of tenants' first updates under the learner."""

    tenants: Sequence[str]
    logprobs: Sequence[Any] = ()
    t0_ns: int = 0
    t1_ns: int = 0


@contextmanager
def _prompt_threads() -> Iterator[None]:
    """The device's thread gets the interpreter within half a millisecond: by default it may wait for five."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(min(before, 0.0005))
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def _failure(report: UpdateReport, groups: Sequence[Group]) -> str | None:
    """Why a tenant can't go on after this update, or None."""
    errors = [t.error for g in groups for t in g.trajectories]
    if all(error is not None for error in errors):
        # every version would be spent on nothing, and the run would end looking healthy
        return f"all {len(errors)} of its environments failed, the first with {errors[0]}"
    return report.skipped if report.version_after == report.version_before else None


def _devices(count: int) -> list[Any]:
    there = jax.local_devices()
    if count > len(there):
        raise ConfigError(f"learner_devices {count}, but this process has {len(there)}: {there[0].platform}")
    return there[:count]
