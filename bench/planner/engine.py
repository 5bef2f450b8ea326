"""A sampler replica with simulated dispatches: the decisions of `tunix_core.sampler.engine`, without its arrays.

A test holds both to the same dispatches, in the same order, for the same requests. Running turns share a counter of
decode steps, so a dispatch costs the turns it ends and not those it carries.
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, field

from bench.planner.times import StageTimes
from tunix_core.sampler.base import SamplerSpec
from tunix_core.types import EpisodeTicket


@dataclass(slots=True, eq=False)
class SimTurn:
    """A turn that is queued or being sampled."""

    ticket: EpisodeTicket
    context_tokens: int
    sampled_tokens: int
    prompt: Hashable
    versions: list[tuple[int, int]] = field(default_factory=list)
    """(policy version, tokens) in the order in which they were sampled."""
    began: int = 0
    """Decode steps of the replica when its first token was there."""
    seq: int = 0
    slot: int = -1
    """Turns that end together are handed on in the order of their slots."""
    queued_s: float = 0.0

    @property
    def ends(self) -> int:
        """Decode steps of the replica at which the last token is there."""
        return self.began + self.sampled_tokens - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Dispatch:
    """One piece of device work, and the turns that it ends."""

    role: str
    seconds: float
    executed_slots: int
    real_tokens: int
    finished: tuple[SimTurn, ...] = ()


class SimSampler:
    """Queue, slots and adapters of one replica; `dispatch` decides and says how long it takes."""

    def __init__(self, spec: SamplerSpec, times: StageTimes, versions: dict[str, int]) -> None:
        """`versions` holds what is published, by tenant; all replicas share it."""
        self.spec, self._times, self._versions = spec, times, versions
        self._queues: dict[int, deque[SimTurn]] = {n: deque() for n in spec.prefill_lengths}
        self._ending: list[tuple[int, int, SimTurn]] = []
        self._running: dict[str, dict[SimTurn, None]] = {}
        self._outdated: dict[SimTurn, None] = {}
        self._order = itertools.count()
        self._slots = list(range(spec.slots))
        self.queued = 0
        self.steps = 0
        self._held_tokens = 0

    @property
    def active(self) -> int:
        """Turns in a slot."""
        return len(self._ending)

    @property
    def busy(self) -> bool:
        """Whether there is anything to prefill or decode."""
        return bool(self.queued or self._ending)

    def submit(self, turn: SimTurn) -> None:
        """Queues one turn."""
        turn.seq = next(self._order)
        length = next(n for n in self.spec.prefill_lengths if n >= turn.context_tokens)
        self._queues[length].append(turn)
        self.queued += 1

    def publish(self, tenant: str) -> None:
        """A tenant's version is about to change: running turns are read again before they go on."""
        old = self._versions.get(tenant, 0)
        for turn in self._running.get(tenant, ()):
            _book(turn, old, 1 + self.steps - turn.began)
            self._outdated[turn] = None

    def drop(self, tenant: str) -> None:
        """Forgets a tenant's turns (it was stopped)."""
        for length, queue in self._queues.items():
            self._queues[length] = deque(t for t in queue if t.ticket.tenant_id != tenant)
        self.queued = sum(map(len, self._queues.values()))
        dropped = list(self._running.get(tenant, ()))
        for turn in dropped:
            self._forget(turn)
        self._release(dropped)
        self._ending = [entry for entry in self._ending if entry[2].ticket.tenant_id != tenant]
        heapq.heapify(self._ending)

    def lose(self) -> list[SimTurn]:
        """The replica fails: everything it held, to be sampled again elsewhere."""
        lost = [turn for queue in self._queues.values() for turn in queue] + [t for _, _, t in self._ending]
        for queue in self._queues.values():
            queue.clear()
        for _, _, turn in self._ending:
            turn.versions.clear()
        self._slots = list(range(self.spec.slots))
        self._ending.clear()
        self._running.clear()
        self._outdated.clear()
        self.queued = self._held_tokens = 0
        return sorted(lost, key=lambda t: t.seq)

    def dispatch(self) -> Dispatch:
        """Decides what comes next and does it; the engine must be busy."""
        spec = self.spec
        free = spec.slots - self.active
        enough = min(self.queued, spec.prefill_lanes)
        if self.queued and free and (free >= enough or not self.active):
            return self._prefill(free)
        return self._reread() if self._outdated else self._decode()

    def _prefill(self, free: int) -> Dispatch:
        spec = self.spec
        length = min((q[0].seq, n) for n, q in self._queues.items() if q)[1]
        queue, most = self._queues[length], min(spec.prefill_turns, free)
        taken: list[SimTurn] = []
        passed: list[SimTurn] = []
        prompts: dict[Hashable, int] = {}
        while queue and len(taken) < most:
            turn = queue.popleft()
            if turn.prompt in prompts or len(prompts) < spec.prefill_lanes:
                prompts.setdefault(turn.prompt, turn.context_tokens)
                taken.append(turn)
            else:
                passed.append(turn)
        queue.extendleft(reversed(passed))
        self.queued -= len(taken)
        finished = []
        by_prompt: dict[Hashable, list[SimTurn]] = {prompt: [] for prompt in prompts}
        for turn in taken:
            by_prompt[turn.prompt].append(turn)
        for turn in itertools.chain.from_iterable(by_prompt.values()):
            turn.began, turn.slot = self.steps, heapq.heappop(self._slots)
            if turn.sampled_tokens <= 1:
                _book(turn, self._versions.get(turn.ticket.tenant_id, 0), turn.sampled_tokens)
                finished.append(turn)
                continue
            heapq.heappush(self._ending, (turn.ends, turn.seq, turn))
            self._running.setdefault(turn.ticket.tenant_id, {})[turn] = None
            self._held_tokens += turn.context_tokens + 1 - self.steps
        return Dispatch(
            role="prefill",
            seconds=self._times.prefill_s(len(prompts), length),
            executed_slots=spec.prefill_lanes * length,
            real_tokens=sum(prompts.values()),
            finished=self._release(finished),
        )

    def _reread(self) -> Dispatch:
        lengths = self.spec.reread_lengths
        fitting = {
            turn: next(n for n in lengths if n >= turn.context_tokens + self.steps - turn.began)
            for turn in sorted(self._outdated, key=lambda turn: turn.slot)
        }
        length = min(fitting.values())
        lanes = [turn for turn, n in fitting.items() if n == length][: self.spec.prefill_lanes]
        for turn in lanes:
            del self._outdated[turn]
        return Dispatch(
            role="sync",
            seconds=self._times.prefill_s(len(lanes), length),
            executed_slots=self.spec.prefill_lanes * length,
            real_tokens=0,
        )

    def _decode(self) -> Dispatch:
        steps, active = self.spec.decode_steps, self.active
        seconds = self._times.decode_s(active, self._held_tokens + active * self.steps)
        real = active * steps
        self.steps += steps
        finished = []
        while self._ending and self._ending[0][0] <= self.steps:
            _, _, turn = heapq.heappop(self._ending)
            real -= self.steps - turn.ends
            _book(turn, self._versions.get(turn.ticket.tenant_id, 0), turn.sampled_tokens)
            self._forget(turn)
            finished.append(turn)
        return Dispatch(
            role="decode",
            seconds=seconds,
            executed_slots=self.spec.slots * steps,
            real_tokens=real,
            finished=self._release(finished),
        )

    def _release(self, turns: list[SimTurn]) -> tuple[SimTurn, ...]:
        """Gives their slots back; in the order of slots."""
        for turn in turns:
            heapq.heappush(self._slots, turn.slot)
        return tuple(sorted(turns, key=lambda turn: turn.slot))

    def _forget(self, turn: SimTurn) -> None:
        del self._running[turn.ticket.tenant_id][turn]
        self._outdated.pop(turn, None)
        self._held_tokens -= turn.context_tokens + 1 - turn.began


def _book(turn: SimTurn, version: int, emitted: int) -> None:
    """Books what was sampled since the last change of version."""
    booked = sum(tokens for _, tokens in turn.versions)
    if emitted > booked:
        turn.versions.append((version, emitted - booked))
