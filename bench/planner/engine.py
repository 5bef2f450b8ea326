"""A sampler replica with simulated dispatches: the decisions of `tunix_core.sampler.engine`, without its arrays.

A test holds both to the same dispatches, in the same order, for the same requests. Running turns share a counter of
decode steps, so a dispatch costs the turns it ends and not those it carries.
"""

from __future__ import annotations

import heapq
import itertools
from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from bench.planner.times import StageTimes
from tunix_core.sampler.base import SamplerSpec
from tunix_core.types import EpisodeTicket

READS = 16
"""Most prefill programs of one dispatch: as in `tunix_core.sampler.engine`, which loads jax; a test compares them."""


@dataclass(slots=True, eq=False)
class SimTurn:
    """A turn that is queued or being sampled."""

    ticket: EpisodeTicket
    turn_index: int
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
        # who is behind goes first: the lowest ordinal, of these the episode that is furthest, then in order of arrival
        self._queue: list[tuple[int, int, int, SimTurn]] = []
        self._ending: list[tuple[int, int, SimTurn]] = []
        self._running: dict[str, dict[SimTurn, None]] = {}
        self._outdated: dict[SimTurn, None] = {}
        self._order = itertools.count()
        self._free = _parts(spec)
        self._sizes = [len(part) for part in self._free]
        self.steps = 0
        self._held_tokens = 0

    @property
    def queued(self) -> int:
        """Turns that wait for a slot."""
        return len(self._queue)

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
        heapq.heappush(self._queue, (turn.ticket.ordinal, -turn.turn_index, turn.seq, turn))

    def publish(self, tenant: str) -> None:
        """A tenant's version is about to change: running turns are read again before they go on."""
        old = self._versions.get(tenant, 0)
        for turn in self._running.get(tenant, ()):
            _book(turn, old, 1 + self.steps - turn.began)
            self._outdated[turn] = None

    def drop(self, tenant: str) -> None:
        """Forgets a tenant's turns (it was stopped)."""
        self._queue = [entry for entry in self._queue if entry[3].ticket.tenant_id != tenant]
        heapq.heapify(self._queue)
        dropped = list(self._running.get(tenant, ()))
        for turn in dropped:
            self._forget(turn)
        self._release(dropped)
        self._ending = [entry for entry in self._ending if entry[2].ticket.tenant_id != tenant]
        heapq.heapify(self._ending)

    def lose(self) -> list[SimTurn]:
        """The replica fails: everything it held, to be sampled again elsewhere."""
        lost = [entry[3] for entry in self._queue] + [turn for _, _, turn in self._ending]
        self._queue.clear()
        for _, _, turn in self._ending:
            turn.versions.clear()
        self._free = _parts(self.spec)
        self._ending.clear()
        self._running.clear()
        self._outdated.clear()
        self._held_tokens = 0
        return sorted(lost, key=lambda t: t.seq)

    def dispatch(self) -> Dispatch:
        """Decides what comes next and does it; the engine must be busy."""
        taken = self._next_turns()
        if taken:
            return self._prefill(taken)
        return self._reread() if self._outdated else self._decode()

    def _next_turns(self) -> dict[Hashable, list[SimTurn]]:
        """Waiting turns that get a slot now, by prompt."""
        free, most = self.spec.slots - self.active, READS * self.spec.prefill_lanes
        taken: list[SimTurn] = []
        prompts: dict[Hashable, list[SimTurn]] = {}
        while self._queue and len(taken) < free:
            turn = self._queue[0][3]
            if turn.prompt not in prompts and len(prompts) == most:
                break
            heapq.heappop(self._queue)
            prompts.setdefault(turn.prompt, []).append(turn)
            taken.append(turn)
        # the fullest part first: one without any turn costs nothing
        parts = sorted((p for p in self._free if p), key=len)
        order = itertools.chain.from_iterable(sorted(part) for part in parts)
        for turn, slot in zip(taken, list(itertools.islice(order, len(taken))), strict=True):
            turn.slot = slot
            self._free[slot // self.spec.rows].remove(slot)
        return prompts

    def _prefill(self, prompts: dict[Hashable, list[SimTurn]]) -> Dispatch:
        finished = []
        for turn in itertools.chain.from_iterable(prompts.values()):
            turn.began = self.steps
            if turn.sampled_tokens <= 1:
                _book(turn, self._versions.get(turn.ticket.tenant_id, 0), turn.sampled_tokens)
                finished.append(turn)
                continue
            heapq.heappush(self._ending, (turn.ends, turn.seq, turn))
            self._running.setdefault(turn.ticket.tenant_id, {})[turn] = None
            self._held_tokens += turn.context_tokens + 1 - self.steps
        contexts = [turns[0].context_tokens for turns in prompts.values()]
        return self._read("prefill", contexts, sum(contexts), self._release(finished))

    def _reread(self) -> Dispatch:
        turns = sorted(self._outdated, key=lambda turn: turn.slot)[: READS * self.spec.prefill_lanes]
        for turn in turns:
            del self._outdated[turn]
        return self._read("sync", [t.context_tokens + self.steps - t.began for t in turns], 0)

    def _read(
        self, role: str, contexts: Sequence[int], real: int, finished: tuple[SimTurn, ...] = ()
    ) -> Dispatch:
        """Programs of one compiled length each, as many lanes as fit."""
        lanes = self.spec.prefill_lanes
        of_length: dict[int, int] = defaultdict(int)
        for tokens in contexts:
            of_length[next(n for n in self.spec.reread_lengths if n >= tokens)] += 1
        programs = [length for length, n in of_length.items() for _ in range(-(-n // lanes))]
        return Dispatch(
            role=role,
            seconds=self._times.prefill_s(lanes, programs),
            executed_slots=lanes * sum(programs),
            real_tokens=real,
            finished=finished,
        )

    def _decode(self) -> Dispatch:
        steps, active = self.spec.decode_steps, self.active
        live = sum(len(free) < size for free, size in zip(self._free, self._sizes, strict=True))
        executed = live * self.spec.rows * steps
        seconds = self._times.decode_s(active, self._held_tokens + active * self.steps, executed)
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
            executed_slots=executed,
            real_tokens=real,
            finished=self._release(finished),
        )

    def _release(self, turns: list[SimTurn]) -> tuple[SimTurn, ...]:
        """Gives their slots back; in the order of slots."""
        for turn in turns:
            self._free[turn.slot // self.spec.rows].add(turn.slot)
        return tuple(sorted(turns, key=lambda turn: turn.slot))

    def _forget(self, turn: SimTurn) -> None:
        del self._running[turn.ticket.tenant_id][turn]
        self._outdated.pop(turn, None)
        self._held_tokens -= turn.context_tokens + 1 - turn.began


def _parts(spec: SamplerSpec) -> list[set[int]]:
    """Slots by part, all of them free."""
    return [set(range(k * spec.rows, min((k + 1) * spec.rows, spec.slots))) for k in range(spec.parts)]


def _book(turn: SimTurn, version: int, emitted: int) -> None:
    """Books what was sampled since the last change of version."""
    booked = sum(tokens for _, tokens in turn.versions)
    if emitted > booked:
        turn.versions.append((version, emitted - booked))
