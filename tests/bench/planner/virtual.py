"""The real trainer on a virtual clock, with every decision and dispatch written down; and the same run simulated."""

from __future__ import annotations

import dataclasses
import hashlib
import heapq
import itertools
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.planner.simulate import Setup, Simulation
from bench.planner.work import EpisodeShape, TurnShape
from tunix_core.env_pool import EnvReply, InlineEnvPool
from tunix_core.learner.stage import PackedUpdate
from tunix_core.sampler.base import SamplerSpec
from tunix_core.schedule import ScheduleSpec
from tunix_core.telemetry import NullObserver
from tunix_core.testing import tiny
from tunix_core.testing.environments import EpisodeScript, ScriptedEnvs
from tunix_core.testing.sampler import VirtualClock
from tunix_core.tokens import Renderer
from tunix_core.trainer import Trainer
from tunix_core.types import Bucket, EpisodeTicket, Event, Span, StopReason, TenantSpec, Trajectory

TICK = 1 / 512
"""A whole number of nanoseconds and an exact float: both clocks agree to the last bit."""
SECONDS = {"prefill": 8 * TICK, "decode": 3 * TICK, "train": 20 * TICK, "sync": 5 * TICK}


class TestTimes:
    """Each kind of work takes the same time always."""

    __test__ = False

    def prefill_s(self, lanes: int, lengths: Sequence[int]) -> float:
        return SECONDS["prefill"]

    def decode_s(self, active: int, context_tokens: float, executed_slots: int) -> float:
        return SECONDS["decode"]

    def train_s(self, batches: Sequence[Bucket], tenants: int) -> float:
        return SECONDS["train"]

    def pack_s(self, batches: Sequence[Bucket]) -> float:
        return 0.0

    def score_s(self, batches: Sequence[Bucket]) -> float:
        return SECONDS["sync"]

    def publish_s(self) -> float:
        return SECONDS["sync"]

    def host_s(self, episodes: int, learnt: int) -> float:
        return 0.0


def delay(ticket: EpisodeTicket, call: int) -> float:
    """Seconds of an environment call (0 is the reset): short, long, and now and then none."""
    digest = hashlib.sha256(repr((*ticket.key, call)).encode()).digest()
    return TICK * (0 if digest[0] < 40 else digest[1] if digest[0] < 230 else 4 * digest[1])


@dataclass
class Trace(NullObserver):
    """What the real trainer did, in order, in the words of the simulation's log."""

    clock: VirtualClock
    log: list[tuple[Any, ...]] = field(default_factory=list)
    shapes: dict[tuple[str, int, int], EpisodeShape] = field(default_factory=dict)
    ages: dict[int, int] = field(default_factory=dict)
    packed: PackedUpdate | None = None
    learning: bool = False

    def span(self, span: Span) -> None:
        reread = span.role == "sync" and span.executed_slots > 0 and not self.learning
        self.clock.advance(SECONDS["prefill" if reread else span.role])
        if span.role == "train":
            assert self.packed is not None
            ordinals = {n: tuple(g.ordinal for g in groups) for n, groups in self.packed.groups.items()}
            self.log.append(("train", span.executed_slots, span.real_tokens, ordinals))
        elif span.role != "sync" or reread:
            self.log.append((span.role, span.executed_slots, span.real_tokens))

    def event(self, event: Event) -> None:
        if event.key == "group.complete":
            self.log.append(("complete", event.value["tenant"], event.value["ordinal"]))

    def update(self, report: Any) -> None:
        for age, tokens in report.staleness.items():
            self.ages[age] = self.ages.get(age, 0) + tokens

    def trajectory(self, trajectory: Trajectory, update_id: int | None, staleness: int | None) -> None:
        context, turns, said = 0, [], b""
        for turn in trajectory.turns:
            if turn.role == "policy":
                prompt = hashlib.sha256(said).hexdigest()
                turns.append(
                    TurnShape(context_tokens=context, sampled_tokens=len(turn.token_ids), prompt=prompt)
                )
            context += len(turn.token_ids)
            said += turn.token_ids.tobytes()
        last = next((t for t in reversed(trajectory.turns) if t.role == "policy"), None)
        cut = last is trajectory.turns[-1] and last.stop is not StopReason.EOS if last else False
        self.shapes[trajectory.ticket.key] = EpisodeShape(
            turns=tuple(turns), reset_s=delay(trajectory.ticket, 0), cut=cut
        )


class VirtualPool:
    """Environment workers whose calls take virtual seconds; a waiting call takes the place of one that ended."""

    def __init__(self, factory: Any, clock: VirtualClock, workers: int, opened: Callable[..., None]) -> None:
        self._inner = InlineEnvPool(factory, clock)
        self._clock, self._free, self._opened = clock, workers, opened
        self._queue: deque[tuple[EpisodeTicket, float, Callable[[], None]]] = deque()
        self._due: list[tuple[int, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._calls: dict[tuple[str, int, int], int] = {}

    def open(self, ticket: EpisodeTicket) -> None:
        self._opened(ticket)
        self._submit(ticket, lambda: self._inner.open(ticket))

    def step(self, ticket: EpisodeTicket, action: str) -> None:
        self._submit(ticket, lambda: self._inner.step(ticket, action))

    def close(self, ticket: EpisodeTicket) -> None:
        self._inner.close(ticket)

    def poll(self) -> list[EnvReply]:
        while self._due and self._due[0][0] <= self._clock():
            at, _, call = heapq.heappop(self._due)
            call()
            self._free += 1
            if self._queue:
                self._begin(*self._queue.popleft(), at)
        return self._inner.poll()

    def wait(self, timeout_s: float) -> bool:
        if self._due:
            self._clock.advance(max(0, self._due[0][0] - self._clock()) / 1e9)
        return bool(self._due)

    @property
    def waiting(self) -> list[tuple[EpisodeTicket, float]]:
        return []

    def shutdown(self) -> None:
        self._inner.shutdown()

    def wake(self) -> None:
        pass

    def _submit(self, ticket: EpisodeTicket, call: Callable[[], None]) -> None:
        number = self._calls.get(ticket.key, 0)
        self._calls[ticket.key] = number + 1
        seconds = delay(ticket, number)
        if self._free:
            self._begin(ticket, seconds, call, self._clock())
        else:
            self._queue.append((ticket, seconds, call))

    def _begin(self, ticket: EpisodeTicket, seconds: float, call: Callable[[], None], at: int) -> None:
        self._free -= 1
        heapq.heappush(self._due, (at + round(seconds * 1e9), next(self._order), call))


def real_run(
    tenants: Sequence[TenantSpec], schedule: ScheduleSpec, workers: int, sampler: SamplerSpec
) -> Trace:
    """The real trainer, sampler, learner and actor; only the environments' time and the clock are virtual."""
    clock = VirtualClock()
    trace = Trace(clock)
    envs = ScriptedEnvs(
        lambda t: EpisodeScript(observations=("ab", "ca")[: 1 + (t.ordinal + t.sample_index) % 2])
    )

    def opened(ticket: EpisodeTicket) -> None:
        if ticket.sample_index == 0:
            trace.log.append(("admit", ticket.tenant_id, ticket.ordinal))

    class VirtualTrainer(Trainer):
        def _make_pool(self, factory: Any) -> Any:
            return VirtualPool(factory, clock, workers, opened)

        def _end_update(self, *args: Any) -> bool:
            trace.learning = True
            moved = super()._end_update(*args)
            trace.learning = False
            return moved

    base = tiny.tiny_base()

    def packed(update: PackedUpdate) -> None:
        trace.packed = update

    trainer = VirtualTrainer(
        base,
        base.params,
        tenants,
        schedule,
        envs,
        Renderer(tiny.LetterTokenizer()),
        dataclasses.replace(tiny.TINY_SPEC, sampler=sampler),
        observer=trace,
        clock_ns=clock,
        on_packed=packed,
    )
    trainer.run()
    return trace


@dataclass
class Replayed:
    """The episodes of a real run; their delays."""

    trace: Trace

    def shape(self, ticket: EpisodeTicket) -> EpisodeShape:
        return self.trace.shapes[ticket.key]

    def delay_s(self, ticket: EpisodeTicket, turn: int) -> float:
        return delay(ticket, turn + 1)


def simulated_run(
    trace: Trace, tenants: Sequence[TenantSpec], schedule: ScheduleSpec, workers: int, sampler: SamplerSpec
) -> Simulation:
    """The same run, simulated."""
    setup = Setup(
        tenants=tuple(tenants),
        schedule=schedule,
        sampler=sampler,
        buckets=tiny.TINY_SPEC.buckets,
        times=TestTimes(),
        work=Replayed(trace),
        env_workers=workers,
        log=True,
    )
    simulation = Simulation(setup)
    simulation.run()
    return simulation
