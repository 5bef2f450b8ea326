"""What an (arm, seed) hands to the record: the lines it tells a sink, and how it ended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from leaderboard import canonical
from tunix_core.types import Event, Span, Trajectory, UpdateReport


@dataclass(frozen=True, slots=True)
class Checkpointing:
    """Where the checkpoints of an (arm, seed) go, and whether it goes on from the newest there."""

    directory: Path
    resume: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalRecord:
    """One evaluated item of one adapter snapshot; `eval_id` 0 is before training."""

    tenant: str
    eval_id: int
    version: int
    samples: int
    snapshot_ns: int
    trajectory: Trajectory


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmResult:
    """How one (arm, seed) ended; becomes an entry of `runs` in run.json."""

    status: str
    reason: str
    t_start_ns: int
    t_stop_ns: int
    init_s: float
    compile_s: float
    """Of making every program ready: compiled or read from an earlier run, several at once, and run once."""
    recompiles_after_warmup: int
    ledger: Mapping[str, Mapping[str, Mapping[str, int]]]
    """Per tenant: 'generated' and every fate, each with 'groups', 'rollouts' and 'tokens'."""
    updates: Mapping[str, int]
    adapters: Mapping[str, Mapping[str, str]]
    compile_cache_hits: int = 0
    """Programs that an earlier run had compiled."""
    programs_compiled: int = 0
    """Before the clock started, by no cache."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Plain JSON: what the arm was built with, the timetable and the seed aside."""

    def as_run(self, arm: str, seed: int) -> dict[str, Any]:
        """The JSON of run.json's `runs`."""
        fates = ("generated", "consumed", "stale", "filtered", "errored", "surplus")
        return {
            "arm": arm,
            "seed": seed,
            "status": self.status,
            "reason": self.reason,
            "t_start_ns": self.t_start_ns,
            "t_stop_ns": self.t_stop_ns,
            "init_s": round(self.init_s, 6),
            "compile_s": round(self.compile_s, 6),
            "compile_cache_hits": self.compile_cache_hits,
            "programs_compiled": self.programs_compiled,
            "settings_sha256": canonical.sha256(canonical.encode(self.settings)) if self.settings else None,
            "recompiles_after_warmup": self.recompiles_after_warmup,
            "ledger": {
                tenant: {unit: {fate: books[fate][unit] for fate in fates} for unit in ("rollouts", "tokens")}
                for tenant, books in self.ledger.items()
            },
            "updates": dict(self.updates),
            "adapters": {tenant: dict(hashes) for tenant, hashes in self.adapters.items()},
        }


class Sink(Protocol):
    """Receives the lines of one (arm, seed), in order of time, on the thread that drives it."""

    def event(self, event: Event) -> None:
        """A point in time."""
        ...

    def span(self, span: Span) -> None:
        """A closed interval of device work."""
        ...

    def trajectory(self, trajectory: Trajectory, consumed_in: int | None, staleness: int | None) -> None:
        """A trajectory with its final fate."""
        ...

    def update(self, report: UpdateReport) -> None:
        """What one update did to one tenant."""
        ...

    def evaluation(self, record: EvalRecord) -> None:
        """One evaluated item."""
        ...

    def adapter(
        self, tenant: str, name: str, version: int, factors: Mapping[str, tuple[np.ndarray, np.ndarray]]
    ) -> None:
        """An adapter worth keeping."""
        ...


def leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yields what stands at the ends of nested objects, under dotted names; an empty object is an end."""
    if isinstance(value, Mapping) and value:
        for key, part in value.items():
            yield from leaves(part, f"{name}.{key}" if name else str(key))
    else:
        yield name, value
