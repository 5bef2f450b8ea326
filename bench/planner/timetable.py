"""Asks `tunix_core.schedule` what may start and what is learnt, about as few tenants as can have changed.

Asking about all of them at every turn, as the trainer does, costs the square of their number. Nothing is decided here:
a test holds this to the same answers as the whole view, for any trace of events.
"""

from __future__ import annotations

from collections.abc import Sequence

from tunix_core.buffer.groups import TenantBuffer
from tunix_core.schedule import (
    Admission,
    ScheduleSpec,
    ScheduleView,
    UpdatePlan,
    admissions,
    next_update,
)


class Timetable:
    """Buffers in the tenants' order, and which of them have to be asked about."""

    def __init__(self, spec: ScheduleSpec, buffers: Sequence[TenantBuffer]) -> None:
        self.spec = spec
        self.buffers = {b.spec.tenant_id: b for b in buffers}
        self._place = {name: i for i, name in enumerate(self.buffers)}
        self._changed = set(self.buffers)
        self._maybe_due: set[str] = set()
        self._unfinished = list(self.buffers)
        self._incomplete = 0

    def admitted(self) -> None:
        """A group was admitted."""
        self._incomplete += 1

    def complete(self, tenant: str) -> None:
        """A group of this tenant has all its trajectories."""
        self._incomplete -= 1
        # no rule of admission looks at what is complete: versions and the number of open groups are all it sees
        self._maybe_due.add(tenant)

    def learnt(self, tenant: str) -> None:
        """A tenant's versions changed, or its groups were dropped, or it stopped."""
        self._changed.add(tenant)

    def forget(self, incomplete: int) -> None:
        """So many incomplete groups were closed with their tenant."""
        self._incomplete -= incomplete

    def starts(self) -> tuple[Admission, ...]:
        """What may start now."""
        spec = self.spec
        if not self._changed:
            return ()
        scope = self._scope(self._changed)
        self._maybe_due |= self._changed
        self._changed = set()
        return admissions(spec, self._view(scope))

    def due(self) -> UpdatePlan | None:
        """What is learnt next; asked after `starts`, while the learner is free."""
        spec = self.spec
        if not self._maybe_due:
            return None
        if (
            spec.step_barrier
            and spec.max_staleness == 0
            and spec.tenants_at_once is None
            and self._incomplete
        ):
            # at staleness 0 every group under way belongs to the step that the barrier waits for
            return None
        plan = next_update(spec, self._view(self._scope(self._maybe_due)))
        if plan is None:
            self._maybe_due = set()
        return plan

    def _scope(self, changed: set[str]) -> list[str]:
        spec = self.spec
        if spec.tenants_at_once is None and not spec.step_barrier:
            # nobody waits for another: a tenant that did not change has the answer it had
            return sorted(changed, key=self._place.__getitem__)
        most = len(self._unfinished) if spec.tenants_at_once is None else spec.tenants_at_once
        found: list[str] = []
        finished: set[str] = set()
        for name in self._unfinished:
            if len(found) == most:
                break
            (finished.add if self.buffers[name].view.finished else found.append)(name)
        if finished:
            self._unfinished = [name for name in self._unfinished if name not in finished]
        return found

    def _view(self, names: Sequence[str]) -> ScheduleView:
        return ScheduleView(tenants=tuple(self.buffers[name].view for name in names))
