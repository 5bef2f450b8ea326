"""The buffer: every tenant's groups between actor and learner, behind one contract (docs/buffer.md).

One thread owns it and nothing in it blocks: room is promised before work starts (`grant`), so a tenant that
floods waits at the door and not in the others' way, and a record for which there is no room is refused (FULL)
instead of waited for.
"""

from __future__ import annotations

import dataclasses
import enum
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from tunix_core.buffer.fairness import DeficitRoundRobin
from tunix_core.buffer.groups import TenantBuffer
from tunix_core.buffer.record import defect, size_of
from tunix_core.buffer.store import Key, Quarantined, Recovered, Store
from tunix_core.errors import ConfigError
from tunix_core.schedule import Admission
from tunix_core.types import Fate, Group, StopReason, TenantSpec, Trajectory

DEFAULT_BYTES = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferSpec:
    """Where trajectories wait, and how much of them."""

    store: Literal["memory", "durable"] = "memory"
    """memory: by reference, gone with the process. durable: also in a file, until a checkpoint has them learnt."""
    max_bytes: int | None = None
    """Of all trajectories that wait; None: 1 GiB, or what one update of every tenant may need if that is more."""
    record_bytes: int = 64 << 20
    """A larger trajectory is quarantined."""


def episode_bytes(tokens: int) -> int:
    """Room that an episode of at most so many tokens is promised: 13 bytes a token in arrays, its text, and slack."""
    return 4096 + 64 * tokens


class Put(enum.StrEnum):
    """What became of a trajectory that was handed in."""

    ACCEPTED = "accepted"
    """It waits for the rest of its group."""
    COMPLETE = "complete"
    """Accepted, and the last of its group."""
    DUPLICATE = "duplicate"
    """One with its identity arrived before; this one is dropped and counted."""
    FULL = "full"
    """No room; hand it in again once something has been taken."""


class TrajectoryBuffer:
    """All tenants' buffers under one bound of bytes, with one store beneath."""

    def __init__(
        self,
        spec: BufferSpec | None = None,
        store: Store | None = None,
        *,
        episode_bytes: int = 16 << 10,
        clock_ns: Callable[[], int] = lambda: 0,
        on_quarantine: Callable[[Quarantined], None] = lambda quarantined: None,
    ) -> None:
        """`episode_bytes`: the room that an episode under way is promised."""
        self.spec = spec or BufferSpec()
        self.tenants: dict[str, TenantBuffer] = {}
        self.counts: dict[str, Counter[str]] = {}
        """By tenant: accepted, duplicate, full, quarantined, recovered; trajectories each."""
        self._store, self._clock_ns, self._on_quarantine = store, clock_ns, on_quarantine
        self._episode_bytes = episode_bytes
        self._door = DeficitRoundRobin(quantum=float(episode_bytes))
        self._bytes = 0
        self._max_bytes = self.spec.max_bytes or DEFAULT_BYTES
        self._known: dict[Key, Trajectory] = {}
        self._spent: list[tuple[str, int]] = []
        self._spent_bytes = 0
        self._sealed: deque[tuple[int, list[tuple[str, int]]]] = deque()

    @property
    def bytes(self) -> int:
        """Of all trajectories that wait; never more than `max_bytes`."""
        return self._bytes

    @property
    def promised_bytes(self) -> int:
        """The same, and the room of every episode that may still arrive."""
        return self._bytes + self._episode_bytes * sum(t.missing for t in self.tenants.values())

    @property
    def overdue(self) -> bool:
        """Whether a store keeps more that is learnt than may wait: time for a checkpoint, which lets go of it."""
        return self._spent_bytes > self.max_bytes

    @property
    def max_bytes(self) -> int:
        """The bound in force."""
        return self._max_bytes

    def join(self, tenant: TenantSpec, buffer: TenantBuffer | None = None) -> TenantBuffer:
        """A tenant's buffer, new or as restored.

        Raises ConfigError where one update of every tenant would not fit: such a run would stand still.
        """
        if not tenant.weight > 0:
            raise ConfigError(f"tenant {tenant.tenant_id!r}: weight {tenant.weight} must be above 0")
        self.tenants[tenant.tenant_id] = buffer = buffer or TenantBuffer(tenant)
        self.counts.setdefault(tenant.tenant_id, Counter())
        needed = self._floor()
        bound = self.spec.max_bytes or max(DEFAULT_BYTES, 2 * needed, self._max_bytes)
        if needed > bound:
            del self.tenants[tenant.tenant_id]
            raise ConfigError(
                f"max_bytes {bound} of the buffer can't hold one update of every tenant, {needed} "
                f"bytes: raise it, or lower group_size or groups_per_update of tenant {tenant.tenant_id!r}"
            )
        self._max_bytes = bound
        return buffer

    def grant(self, asked: Sequence[Admission]) -> Sequence[Admission]:
        """Those of the admissions for which there is room; the others may ask again.

        A tenant's next update always has room. What is left is dealt by weight (weighted deficit round-robin
        over bytes), however much each asks for.
        """
        if not asked:
            return asked
        room = self.max_bytes - self.promised_bytes
        if sum(self._cost(a.tenant_id) for a in asked) <= room:
            return asked
        due: list[Admission] = []
        beyond: dict[str, deque[Admission]] = {}
        held = {name: len(t.open) for name, t in self.tenants.items()}
        for a in asked:
            if held[a.tenant_id] < self.tenants[a.tenant_id].spec.groups_per_update:
                held[a.tenant_id] += 1
                due.append(a)
                room -= self._cost(a.tenant_id)
            else:
                beyond.setdefault(a.tenant_id, deque()).append(a)
        # the next updates that others have not asked for yet keep their room
        for name, tenant in self.tenants.items():
            if not tenant.finished:
                room -= max(0, tenant.spec.groups_per_update - held[name]) * self._cost(name)
        costs = {name: [float(self._cost(name))] * len(queue) for name, queue in beyond.items()}
        weights = {name: self.tenants[name].spec.weight for name in costs}
        return due + [beyond[name].popleft() for name in self._door.serve(costs, weights, room)]

    def admit(self, tenant_id: str, ordinal: int) -> list[Trajectory]:
        """Opens a group. What is known of it already, recovered from the store, is to be handed in like the rest."""
        tenant = self.tenants[tenant_id]
        tenant.admit(ordinal, self._clock_ns())
        keys = [(tenant_id, ordinal, i) for i in range(tenant.spec.group_size)] if self._known else ()
        return [t for key in keys if (t := self._known.pop(key, None)) is not None]

    def put(self, trajectory: Trajectory) -> Put:
        """Takes a finished trajectory. One that is malformed is set aside and its place kept by an errored one.

        Raises ValueError for a group that was never admitted.
        """
        ticket = trajectory.ticket
        tenant, counts = self.tenants[ticket.tenant_id], self.counts[ticket.tenant_id]
        if tenant.has(ticket.ordinal, ticket.sample_index):
            counts[Put.DUPLICATE] += 1
            return Put.DUPLICATE
        size = size_of(trajectory)
        reason = defect(trajectory, size, self.spec.record_bytes)
        if reason is not None:
            trajectory = self._set_aside(trajectory, reason)
            size = size_of(trajectory)
        if self._bytes + size > self.max_bytes:
            counts[Put.FULL] += 1
            return Put.FULL
        if self._store is not None:
            self._store.keep(trajectory)
        self._bytes += size
        counts[Put.ACCEPTED] += 1
        return Put.COMPLETE if tenant.add(trajectory, size) else Put.ACCEPTED

    def take(self, tenant_id: str, ordinals: Sequence[int], fate: Fate) -> list[Group]:
        """Removes complete groups and settles them; a store keeps them until they are acknowledged.

        Raises ValueError for a group that is not complete.
        """
        tenant = self.tenants[tenant_id]
        before = tenant.bytes
        groups = tenant.take(ordinals, fate)
        freed = before - tenant.bytes
        self._bytes -= freed
        if self._store is not None:
            self._spent += [(tenant_id, k) for k in ordinals]
            self._spent_bytes += freed
        return groups

    def close(self, tenant_id: str, *, forget: bool = False) -> list[Trajectory]:
        """Settles what a tenant has left as SURPLUS, and returns what had arrived of it.

        A store keeps it, since a resumed run still has to learn it, unless it is to `forget` it (the tenant has
        left).
        """
        tenant = self.tenants[tenant_id]
        if forget and self._store is not None:
            self._spent += [(tenant_id, k) for k in tenant.open]
        self._bytes -= tenant.bytes
        return tenant.close()

    # ---------------------------------------------------------------- what a store survives

    def recover(self, usable: Callable[[Trajectory], bool]) -> Recovered:
        """Reads the store. What belongs to groups that are still to be learnt is returned, and found by `admit`.

        A group with a member that is not `usable` is drawn again whole; what the books call settled is learnt
        already. Both are acknowledged.
        """
        if self._store is None:
            return Recovered(trajectories={})
        found = self._store.recover()
        groups: dict[tuple[str, int], list[Trajectory]] = {}
        for (name, ordinal, _), trajectory in found.trajectories.items():
            groups.setdefault((name, ordinal), []).append(trajectory)
        for (name, ordinal), members in groups.items():
            tenant = self.tenants.get(name)
            if tenant is None or tenant.finished or tenant.ledger.settled(ordinal):
                continue
            if all(map(usable, members)):
                self._known |= {t.ticket.key: t for t in members}
                self.counts[name]["recovered"] += len(members)
        self._store.acknowledge(set(groups) - {key[:2] for key in self._known})
        for quarantined in found.quarantined:
            self.counts.setdefault(quarantined.key[0], Counter())["quarantined"] += 1
            self._on_quarantine(quarantined)
        return Recovered(trajectories=dict(self._known), quarantined=found.quarantined)

    def clear(self) -> None:
        """Empties the store: a run that begins anew owes nothing to what was there before."""
        if self._store is not None:
            self._store.clear()

    def seal(self, step: int) -> None:
        """Everything taken so far is in the state that is being saved as `step`."""
        if self._spent:
            self._sealed.append((step, self._spent))
            self._spent, self._spent_bytes = [], 0

    def acknowledge(self, step: int | None) -> None:
        """The state of `step` is on disk: what was sealed up to it is never delivered again."""
        while self._store is not None and step is not None and self._sealed and self._sealed[0][0] <= step:
            self._store.acknowledge(self._sealed.popleft()[1])

    def flush(self) -> None:
        """Returns once everything accepted survives the process, where there is a store."""
        if self._store is not None:
            self._store.flush()

    def shut(self, step: int | None = None) -> None:
        """Acknowledges `step` and lets go of the store; what it keeps stays."""
        try:
            self.acknowledge(step)
        finally:
            if self._store is not None:
                self._store.close()

    def _set_aside(self, trajectory: Trajectory, reason: str) -> Trajectory:
        """An errored trajectory in the place of a poisoned one: its group completes, and nobody learns from it."""
        key = trajectory.ticket.key
        self.counts[key[0]]["quarantined"] += 1
        self._on_quarantine(Quarantined(key=key, reason=reason))
        return dataclasses.replace(
            trajectory,
            turns=(),
            reward=0.0,
            grade_status="",
            stop=StopReason.ERROR,
            fate=Fate.ERRORED,
            error=f"quarantined: {reason}",
        )

    def _cost(self, tenant_id: str) -> int:
        return self.tenants[tenant_id].spec.group_size * self._episode_bytes

    def _floor(self) -> int:
        """One update of every tenant that is still at work."""
        return sum(
            t.spec.groups_per_update * self._cost(name) for name, t in self.tenants.items() if not t.finished
        )
