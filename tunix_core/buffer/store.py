"""What a store owes the buffer. The buffer holds every trajectory by reference; a store keeps a second copy."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tunix_core.types import Trajectory

Key = tuple[str, int, int]
"""(tenant_id, ordinal, sample_index): the identity of a trajectory, and of its record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarantined:
    """A record that may not be learnt from, and why; it has been set aside, not thrown away."""

    key: Key
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """What a store still held when it was opened."""

    trajectories: dict[Key, Trajectory]
    quarantined: tuple[Quarantined, ...] = ()


class Store(Protocol):
    """Keeps accepted trajectories until they are acknowledged; a record is there whole or not at all.

    A buffer without a store is the `memory` store. Every method may raise StorageError; what had been flushed
    before stays whole.
    """

    def recover(self) -> Recovered:
        """Everything kept and not acknowledged, read and verified. Call it before the first `keep`."""
        ...

    def keep(self, trajectory: Trajectory) -> None:
        """Takes a record; a second one of the same key changes nothing. Waits while the store is behind."""
        ...

    def acknowledge(self, groups: Iterable[tuple[str, int]]) -> None:
        """These groups, (tenant_id, ordinal), are never recovered again."""
        ...

    def flush(self) -> None:
        """Returns once everything so far survives the process and the machine."""
        ...

    def clear(self) -> None:
        """Forgets every record; what is in quarantine stays."""
        ...

    def close(self) -> None:
        """Flushes and lets go. Twice is once."""
        ...


def open_store(kind: str, directory: Path | None) -> Store | None:
    """The store of that name; `memory` is none. `durable` keeps `buffer.sqlite` in the directory."""
    if kind == "memory":
        return None
    from tunix_core.buffer.durable import DurableStore  # a module that the default has no use for

    assert kind == "durable" and directory is not None, "checked with the run's settings"
    return DurableStore(directory / "buffer.sqlite")
