"""Assembles trajectories into groups and keeps each tenant's books until the groups are spent.

Bounded in groups by construction: admission lets at most (max_staleness + 1) x groups_per_update of a tenant in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tunix_core.schedule import GroupView, TenantView
from tunix_core.tenant import Ledger
from tunix_core.types import Fate, Group, TenantSpec, Trajectory


@dataclass(slots=True)
class _Assembly:
    admitted_version: int
    admitted_ns: int
    bytes: int = 0
    oldest_version: int | None = None
    """Of the members' sampled tokens, kept as they come: the timetable asks at every turn."""
    trajectories: dict[int, Trajectory] = field(default_factory=dict)


def final_fate(trajectory: Trajectory, group_fate: Fate) -> Fate:
    """A member shares its group's fate unless it failed, or a rule had filtered it before."""
    if trajectory.error is not None:
        return Fate.ERRORED
    return Fate.FILTERED if trajectory.fate is Fate.FILTERED else group_fate


class TenantBuffer:
    """One tenant's outstanding groups, its versions and its ledger."""

    def __init__(self, spec: TenantSpec) -> None:
        self.spec = spec
        self.ledger = Ledger(spec.tenant_id)
        self.admitted = 0
        self.learner_version = 0
        self.updates_done = 0
        self.published_version = 0
        self.stopped: str | None = None
        self.removed = False
        self.bytes = 0
        """Of the trajectories that wait here."""
        self.missing = 0
        """Trajectories of admitted groups that have not arrived."""
        self._groups: dict[int, _Assembly] = {}

    @property
    def view(self) -> TenantView:
        """What the timetable may know. Versions here count updates done: a skipped step is one, too."""
        return TenantView(
            tenant_id=self.spec.tenant_id,
            published_version=self.published_version,
            learner_version=self.learner_version,
            admitted=self.admitted,
            groups_per_update=self.spec.groups_per_update,
            updates_total=self.spec.updates,
            outstanding=tuple(
                GroupView(
                    ordinal=k,
                    complete=len(g.trajectories) == self.spec.group_size,
                    oldest_version=g.admitted_version if g.oldest_version is None else g.oldest_version,
                )
                for k, g in self._groups.items()
            ),
            stopped=self.removed or self.stopped is not None,
        )

    @property
    def finished(self) -> bool:
        """As its view says, without making one."""
        return self.removed or self.stopped is not None or self.published_version >= self.spec.updates

    @property
    def open(self) -> tuple[int, ...]:
        """Ordinals admitted and not settled, ascending."""
        return tuple(sorted(self._groups))

    @property
    def incomplete(self) -> list[tuple[int, int, int]]:
        """(ordinal, members that arrived, admitted_ns) of the groups that wait for members, ascending."""
        size = self.spec.group_size
        groups = sorted(self._groups.items())
        return [(k, len(g.trajectories), g.admitted_ns) for k, g in groups if len(g.trajectories) < size]

    def has(self, ordinal: int, sample_index: int) -> bool:
        """Whether this trajectory arrived before, or its group is settled; ValueError if it was never admitted."""
        group = self._groups.get(ordinal)
        if group is not None:
            return sample_index in group.trajectories
        if not self.ledger.settled(ordinal):
            raise ValueError(f"group {ordinal} of tenant {self.spec.tenant_id!r} was never admitted")
        return True

    def to_json(self) -> dict[str, Any]:
        """The books between two updates, as plain JSON; what is in flight is named in `open`."""
        return {
            "admitted": self.admitted,
            "learner_version": self.learner_version,
            "published_version": self.published_version,
            "updates_done": self.updates_done,
            "stopped": self.stopped,
            "removed": self.removed,
            "open": list(self.open),
            "ledger": self.ledger.to_json(),
        }

    @classmethod
    def from_json(cls, spec: TenantSpec, value: Mapping[str, Any]) -> TenantBuffer:
        """The books as they were. Groups that were open are not: they have to be admitted again."""
        buffer = cls(spec)
        buffer.ledger = Ledger.from_json(spec.tenant_id, value["ledger"])
        for name in (
            "admitted",
            "learner_version",
            "published_version",
            "updates_done",
            "stopped",
            "removed",
        ):
            setattr(buffer, name, value[name])
        return buffer

    def admit(self, ordinal: int, now_ns: int = 0) -> None:
        """Opens the next group."""
        self.ledger.admit(ordinal, self.spec.group_size)
        self._groups[ordinal] = _Assembly(self.published_version, now_ns)
        self.missing += self.spec.group_size
        self.admitted = max(self.admitted, ordinal + 1)

    def add(self, trajectory: Trajectory, size: int = 0) -> bool:
        """Takes a finished trajectory of `size` bytes; whether its group is now complete."""
        ticket = trajectory.ticket
        group = self._groups[ticket.ordinal]
        self.ledger.arrive(ticket.ordinal, ticket.sample_index, trajectory.sampled_tokens)
        group.trajectories[ticket.sample_index] = trajectory
        group.bytes += size
        self.bytes += size
        self.missing -= 1
        oldest = trajectory.oldest_version
        group.oldest_version = oldest if group.oldest_version is None else min(oldest, group.oldest_version)
        return len(group.trajectories) == self.spec.group_size

    def peek(self, ordinals: Sequence[int]) -> list[Trajectory]:
        """What has arrived of some groups, by ordinal and sample; they stay."""
        return [t for k in ordinals for _, t in sorted(self._groups[k].trajectories.items())]

    def take(self, ordinals: Sequence[int], fate: Fate) -> list[Group]:
        """Removes complete groups and settles them; errored and filtered members keep their own fates."""
        taken = []
        for ordinal in ordinals:
            group = self._groups[ordinal]
            members = group.trajectories
            if len(members) < self.spec.group_size:
                raise ValueError(
                    f"group {ordinal} of tenant {self.spec.tenant_id!r} has {len(members)} of "
                    f"{self.spec.group_size} members"
                )
            del self._groups[ordinal]
            self.bytes -= group.bytes
            self.ledger.settle(ordinal, fate, {i: final_fate(t, fate) for i, t in members.items()})
            trajectories = tuple(members[i] for i in sorted(members))
            taken.append(Group(tenant_id=self.spec.tenant_id, ordinal=ordinal, trajectories=trajectories))
        return taken

    def close(self) -> list[Trajectory]:
        """Settles whatever is left as SURPLUS (quota met, tenant stopped, run ended); what had arrived."""
        left = []
        for ordinal in sorted(self._groups):
            members = self._groups[ordinal].trajectories
            fates = {i: final_fate(t, Fate.SURPLUS) for i, t in members.items()}
            self.ledger.settle(ordinal, Fate.SURPLUS, fates)
            left += [members[i] for i in sorted(members)]
        self._groups.clear()
        self.bytes = self.missing = 0
        return left
