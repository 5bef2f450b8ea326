"""An observer that keeps every line of a run."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tunix_core.types import Event, Fate, Span, Trajectory, UpdateReport


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """A trajectory as the observer was told of it."""

    trajectory: Trajectory
    consumed_in: int | None
    staleness: int | None


@dataclass(slots=True)
class Recorder:
    """An observer that keeps every line."""

    events: list[Event] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    endings: list[Ending] = field(default_factory=list)
    reports: list[UpdateReport] = field(default_factory=list)

    def event(self, event: Event) -> None:
        """Kept in `events`."""
        self.events.append(event)

    def span(self, span: Span) -> None:
        """Kept in `spans`."""
        self.spans.append(span)

    def trajectory(self, trajectory: Trajectory, consumed_in: int | None, staleness: int | None) -> None:
        """Kept in `endings`."""
        self.endings.append(Ending(trajectory=trajectory, consumed_in=consumed_in, staleness=staleness))

    def update(self, report: UpdateReport) -> None:
        """Kept in `reports`."""
        self.reports.append(report)

    def fates(self, tenant_id: str) -> Counter[Fate]:
        """How many of a tenant's trajectories met which fate."""
        return Counter(e.trajectory.fate for e in self.endings if e.trajectory.ticket.tenant_id == tenant_id)

    def consumed(self, tenant_id: str) -> dict[tuple[int, int], Trajectory]:
        """A tenant's consumed trajectories by (ordinal, sample_index)."""
        return {
            e.trajectory.ticket.key[1:]: e.trajectory
            for e in self.endings
            if e.trajectory.ticket.tenant_id == tenant_id and e.trajectory.fate is Fate.CONSUMED
        }

    def reports_of(self, tenant_id: str) -> list[UpdateReport]:
        """A tenant's updates, in order."""
        return [r for r in self.reports if r.tenant_id == tenant_id]

    def adapters(self, tenant_id: str) -> list[str]:
        """Hashes of a tenant's published adapters, in order."""
        published = [e.value for e in self.events if e.key == "adapter.published"]
        return [str(v["sha256"]) for v in published if v["tenant"] == tenant_id]
