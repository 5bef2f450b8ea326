"""The discrete-event loop: real timetable, buffers, books and packing; simulated sampler, learner and environments.

A heap and plain records, no library: on this loop's kind of work (wait, queue for a worker, wait) simpy took eight to
nine times as long, and 10,000 tenants are two million events.

Two layouts. *Shared*: the learner takes all devices when an update is due, else the replicas sample; with one replica
the loop also hands answers on between two dispatches only, as the trainer's one thread does. *Split*: the learner has
devices of its own.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections import deque
from dataclasses import dataclass, field
from typing import Any, cast

from bench.planner.engine import Dispatch, SimSampler, SimTurn
from bench.planner.outcome import Outcome, Tally
from bench.planner.times import StageTimes
from bench.planner.timetable import Timetable
from bench.planner.work import EpisodeShape, Work
from tunix_core import packing
from tunix_core.buffer.groups import TenantBuffer
from tunix_core.errors import StalledError
from tunix_core.sampler.base import SamplerSpec
from tunix_core.schedule import ScheduleSpec, UpdatePlan
from tunix_core.tenant import tickets
from tunix_core.types import Bucket, EpisodeTicket, Fate, TenantSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """What goes wrong: calls that hang until their limit, replicas that fail and come back empty."""

    hang_share: float = 0.0
    """Of environment calls; such a call is answered with an error at `env_timeout_s`."""
    failures_per_hour: float = 0.0
    """Of one sampler replica; its turns are sampled again elsewhere. The trainer of today would end the run."""
    restart_s: float = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """One configuration, ready to be simulated."""

    tenants: tuple[TenantSpec, ...]
    schedule: ScheduleSpec
    sampler: SamplerSpec
    """Of one replica."""
    buckets: tuple[Bucket, ...]
    times: StageTimes
    work: Work
    replicas: int = 1
    split: bool = False
    """The learner has devices of its own."""
    sampler_devices: int = 1
    """Of one replica."""
    learner_devices: int = 1
    env_workers: int = 256
    env_timeout_s: float = 60.0
    self_check: bool = True
    faults: Faults = field(default_factory=Faults)
    seed: int = 0
    log: bool = False
    """Keep every decision and dispatch, for tests and small runs."""

    @property
    def devices(self) -> int:
        """All of them."""
        sampling = self.replicas * self.sampler_devices
        return sampling + self.learner_devices if self.split else max(sampling, self.learner_devices)


@dataclass(slots=True, eq=False)
class _Episode:
    ticket: EpisodeTicket
    shape: EpisodeShape
    replica: int
    asked: int = -1
    """The turn whose answer the environment owes; -1 is the reset."""
    sampled: list[SimTurn] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Ended:
    """A finished trajectory, with what buffers and books ask of one (`tunix_core.types.Trajectory`)."""

    ticket: EpisodeTicket
    sampled_tokens: int
    oldest_version: int
    error: str | None
    fate: Fate
    length: int
    versions: tuple[tuple[int, int], ...]


class Simulation:
    """One run of one setup; `run` once."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self._buffers = [TenantBuffer(t) for t in setup.tenants]
        self._table = Timetable(setup.schedule, self._buffers)
        self._versions: dict[str, int] = {}
        self._replicas = [
            SimSampler(setup.sampler, setup.times, self._versions) for _ in range(setup.replicas)
        ]
        self._busy: list[Dispatch | None] = [None] * setup.replicas
        self._working = 0
        # replicas that may have something to start: looking at all of them at every event costs their square
        self._wake = set[int]()
        self._down = [False] * setup.replicas
        self._plan: UpdatePlan | None = None
        # by tenant and open group: the replicas that may hold turns of it
        self._homes: dict[str, dict[int, set[int]]] = {t.tenant_id: {} for t in setup.tenants}
        self._heap: list[tuple[float, int, str, Any]] = []
        self._order = itertools.count()
        self._now = 0.0
        self._env_free = setup.env_workers
        self._env_queue: deque[tuple[_Episode, float, bool]] = deque()
        self._inbox: list[tuple[_Episode, bool]] = []
        # turns that have ended; they are handed on when the device has its next work, as the trainer does
        self._unread: list[SimTurn] = []
        self._host_until = 0.0
        self._open = 0
        self._handled = self._learnt = 0
        self._random = random.Random(setup.seed)
        self._episode_of: dict[tuple[str, int, int], _Episode] = {}
        self._left = len(setup.tenants)
        self._one_thread = setup.replicas == 1 and not setup.split
        self.tally = Tally(keep_log=setup.log)

    def run(self) -> Outcome:
        """Until every tenant has its updates. Raises StalledError where nothing more can happen."""
        for replica in range(self.setup.replicas):
            self._schedule_failure(replica)
        self._step()
        while self._left:
            if not self._heap or self._stuck():
                raise StalledError(
                    f"the simulation stands still at {self._now:.1f} s: {self._left} tenants still need updates"
                )
            self._now = self._heap[0][0]
            while self._heap and self._heap[0][0] <= self._now:
                _, _, kind, payload = heapq.heappop(self._heap)
                self._handle(kind, payload)
            self._step()
        return self.tally.outcome(self.setup, self._buffers)

    def _stuck(self) -> bool:
        """Nothing is under way but failures to come."""
        idle = not self._open and self._plan is None and not self._working and not self._inbox
        return idle and all(kind in ("fail", "restart") for _, _, kind, _ in self._heap)

    def _handle(self, kind: str, payload: Any) -> None:
        if kind == "reply":
            self._release_worker()
            if self._one_thread and (self._busy[0] is not None or self._plan is not None):
                self._inbox.append(payload)
            else:
                self._reply(*payload)
        elif kind == "dispatched":
            self._dispatched(*payload)
        elif kind == "learnt":
            self._learning_ended()
        elif kind == "fail":
            self._fail(payload)
        else:
            self._down[payload] = False
            self._wake.add(payload)

    def _at(self, seconds: float, kind: str, payload: Any) -> None:
        heapq.heappush(self._heap, (self._now + seconds, next(self._order), kind, payload))

    # decisions: the trainer's turn, with a choice of devices

    def _step(self) -> None:
        self._decide()
        while self._unread:
            unread, self._unread = self._unread, []
            for turn in unread:
                self._sampled(turn)
            if not (self._one_thread and (self._working or self._plan is not None)):
                self._decide()

    def _decide(self) -> None:
        for admission in self._table.starts():
            self._admit(admission.tenant_id, admission.ordinal)
        draining = self._learn_if_due() if self._plan is None else False
        if self._plan is not None and not self.setup.split:
            return
        if draining:
            return
        awake, self._wake = self._wake, set()
        for replica in sorted(awake):
            engine = self._replicas[replica]
            if engine.busy and self._busy[replica] is None and not self._down[replica]:
                self._begin(replica, engine.dispatch())

    def _learn_if_due(self) -> bool:
        """Starts what is due; whether replicas have to stop first."""
        plan = self._table.due()
        if plan is None:
            return False
        if not self.setup.split and self._working:
            return True
        for tenant, ordinals in plan.stale.items():
            for group in self._table.buffers[tenant].take(ordinals, Fate.STALE):
                self.tally.stale(cast(Any, group.trajectories))
            self._table.learnt(tenant)
        if not plan.tenants:
            return self._learn_if_due_again()
        self._plan = plan
        batches = self._packed(plan)
        times = self.setup.times
        buffers = self._table.buffers
        first = [n for n in plan.tenants if buffers[n].learner_version == 0] if self.setup.self_check else []
        score = times.score_s(batches) if first else 0.0
        train = times.train_s(batches, len(plan.tenants))
        host = self._host_s() + times.pack_s(batches)
        publish = times.publish_s() * len(plan.tenants)
        begins = self._now + host
        self.tally.span("sync", begins, score, self._learner_size())
        self.tally.span("train", begins + score, train, self._learner_size())
        self.tally.span("sync", begins + score + train, publish, self._learner_size())
        self.tally.update(plan, begins + score + train, batches, self._lengths)
        self._at(host + score + train + publish, "learnt", None)
        return True

    def _learn_if_due_again(self) -> bool:
        """After stale groups have gone, fresh ones may start before the next look."""
        for admission in self._table.starts():
            self._admit(admission.tenant_id, admission.ordinal)
        return self._learn_if_due()

    def _learner_size(self) -> int:
        return self.setup.learner_devices if self.setup.split else self.setup.devices

    def _packed(self, plan: UpdatePlan) -> list[Bucket]:
        lengths: list[int] = []
        tenants: list[str] = []
        for name, ordinals in plan.tenants.items():
            for ended in self._table.buffers[name].peek(ordinals):
                if ended.error is None and ended.sampled_tokens:
                    lengths.append(cast(Any, ended).length)
                    tenants.append(name)
        self._lengths = sum(lengths)
        return (
            [b.bucket for b in packing.plan(lengths, tenants, self.setup.buckets).batches] if lengths else []
        )

    def _learning_ended(self) -> None:
        plan, self._plan = self._plan, None
        assert plan is not None
        for name, ordinals in plan.tenants.items():
            buffer = self._table.buffers[name]
            ended = cast(Any, [t for g in buffer.take(ordinals, Fate.CONSUMED) for t in g.trajectories])
            self.tally.consumed(ended, buffer.learner_version)
            self._learnt += len(ended)
            buffer.updates_done += 1
            if all(t.error is not None for t in ended):
                self._stop(buffer)
                continue
            buffer.learner_version += 1
            buffer.published_version = buffer.learner_version
            # what a dispatch under way samples was booked when it began: it keeps the old version
            for replica in set[int]().union(*self._homes[name].values()):
                self._replicas[replica].publish(name)
            self._versions[name] = buffer.published_version
            self._left -= buffer.view.finished
            self._table.learnt(name)
        self._read_inbox()

    def _stop(self, buffer: TenantBuffer) -> None:
        name = buffer.spec.tenant_id
        buffer.stopped = "all of its environments failed"
        self._left -= 1
        for replica in self._replicas:
            replica.drop(name)
        for key in [k for k in self._episode_of if k[0] == name]:
            del self._episode_of[key]
            self._open -= 1
        self._table.forget(sum(not g.complete for g in buffer.view.outstanding))
        buffer.close()
        self._table.learnt(name)

    # episodes

    def _admit(self, tenant: str, ordinal: int) -> None:
        buffer = self._table.buffers[tenant]
        buffer.admit(ordinal)
        self._table.admitted()
        self.tally.admitted(tenant, ordinal, self._now)
        replica = self._route()
        for ticket in tickets(buffer.spec, ordinal, buffer.published_version):
            episode = _Episode(ticket, self.setup.work.shape(ticket), replica)
            self._episode_of[ticket.key] = episode
            self._open += 1
            self._call(episode, episode.shape.reset_s)

    def _route(self) -> int:
        """The less loaded of two replicas drawn at random: nearly as good as the least loaded of all.

        Source: Mitzenmacher, "The Power of Two Choices in Randomized Load Balancing", IEEE TPDS 12(10), 2001.
        """
        if self.setup.replicas == 1:
            return 0
        pair = (self._random.randrange(self.setup.replicas), self._random.randrange(self.setup.replicas))
        return min(pair, key=lambda i: self._replicas[i].queued + self._replicas[i].active)

    def _call(self, episode: _Episode, seconds: float) -> None:
        hangs = self.setup.faults.hang_share and self._random.random() < self.setup.faults.hang_share
        failed = bool(hangs) or seconds > self.setup.env_timeout_s
        seconds = self.setup.env_timeout_s if failed else seconds
        if self._env_free:
            self._env_free -= 1
            self._answer(episode, seconds, failed)
        else:
            self._env_queue.append((episode, seconds, failed))

    def _answer(self, episode: _Episode, seconds: float, failed: bool) -> None:
        self.tally.env_seconds += seconds
        self._at(seconds, "reply", (episode, failed))

    def _release_worker(self) -> None:
        self._env_free += 1
        if self._env_queue:
            self._env_free -= 1
            self._answer(*self._env_queue.popleft())

    def _reply(self, episode: _Episode, failed: bool) -> None:
        self._handled += 1
        if episode.ticket.key not in self._episode_of:  # its tenant was stopped meanwhile
            return
        asked, turns = episode.asked, episode.shape.turns
        if failed or asked + 1 == len(turns):
            self._finish(episode, "environment call timed out" if failed else None)
            return
        shape = turns[asked + 1]
        ticket = episode.ticket
        first = (ticket.tenant_id, ticket.ordinal) if asked < 0 else (*ticket.key, asked)
        turn = SimTurn(
            ticket,
            asked + 1,
            shape.context_tokens,
            shape.sampled_tokens,
            first if shape.prompt is None else (ticket.tenant_id, shape.prompt),
        )
        episode.sampled.append(turn)
        self._submit(episode, turn)

    def _submit(self, episode: _Episode, turn: SimTurn) -> None:
        if self._down[episode.replica]:
            up = [i for i, down in enumerate(self._down) if not down]
            episode.replica = self._random.choice(up) if up else episode.replica
        turn.queued_s = self._now
        self._replicas[episode.replica].submit(turn)
        self._homes[turn.ticket.tenant_id].setdefault(turn.ticket.ordinal, set()).add(episode.replica)
        self._wake.add(episode.replica)

    def _sampled(self, turn: SimTurn) -> None:
        self._handled += 1
        episode = self._episode_of.get(turn.ticket.key)
        if episode is None:
            return
        episode.asked += 1
        last = episode.asked + 1 == len(episode.shape.turns)
        if last and episode.shape.cut:
            self._finish(episode, None)
            return
        shape = episode.shape.turns[episode.asked]
        self._call(episode, shape.env_s + self.setup.work.delay_s(turn.ticket, episode.asked))

    def _finish(self, episode: _Episode, error: str | None) -> None:
        ticket = episode.ticket
        del self._episode_of[ticket.key]
        self._open -= 1
        versions = tuple(v for turn in episode.sampled for v in turn.versions)
        ended = _Ended(
            ticket=ticket,
            sampled_tokens=sum(n for _, n in versions),
            oldest_version=min((v for v, _ in versions), default=ticket.admitted_version),
            error=error,
            fate=Fate.OPEN if error is None else Fate.ERRORED,
            length=episode.shape.trained_tokens,
            versions=versions,
        )
        if self._table.buffers[ticket.tenant_id].add(cast(Any, ended)):
            self.tally.complete(ticket.tenant_id, ticket.ordinal, self._now)
            self._table.complete(ticket.tenant_id)
            self._homes[ticket.tenant_id].pop(ticket.ordinal, None)

    # replicas

    def _begin(self, replica: int, dispatch: Dispatch) -> None:
        host = self._host_s()
        self._busy[replica] = dispatch
        self._working += 1
        self.tally.dispatch(dispatch, self._now + host, self.setup.sampler_devices)
        self._at(host + dispatch.seconds, "dispatched", (replica, dispatch))

    def _dispatched(self, replica: int, dispatch: Dispatch) -> None:
        if self._busy[replica] is not dispatch:  # the replica failed meanwhile
            return
        self._busy[replica] = None
        self._working -= 1
        self._wake.add(replica)
        self._unread += dispatch.finished
        self._read_inbox()

    def _host_s(self) -> float:
        """Seconds until the loop has started device work: it decides, after what it still did for the last.

        What it has to do for episodes and updates it does while the device is at work.
        """
        times = self.setup.times
        decides = times.host_s(0, 0)
        begins = max(self._now, self._host_until) + decides
        self._host_until = begins + times.host_s(self._handled, self._learnt) - decides
        self._handled = self._learnt = 0
        return begins - self._now

    def _read_inbox(self) -> None:
        inbox, self._inbox = self._inbox, []
        for episode, failed in inbox:
            self._reply(episode, failed)

    def _schedule_failure(self, replica: int) -> None:
        rate = self.setup.faults.failures_per_hour / 3600
        if rate:
            self._at(self._random.expovariate(rate), "fail", replica)

    def _fail(self, replica: int) -> None:
        """What it was doing is lost; its turns are sampled again, on another replica where there is one."""
        dispatch, self._busy[replica] = self._busy[replica], None
        self._working -= dispatch is not None
        lost = list(dispatch.finished) if dispatch is not None else []
        for turn in lost:
            turn.versions.clear()
        lost += self._replicas[replica].lose()
        self._down[replica] = True
        self.tally.failures += 1
        for turn in lost:
            episode = self._episode_of.get(turn.ticket.key)
            if episode is not None:
                self._submit(episode, turn)
        self._at(self.setup.faults.restart_s, "restart", replica)
        self._schedule_failure(replica)


def simulate(setup: Setup) -> Outcome:
    """What one configuration is predicted to do."""
    return Simulation(setup).run()
