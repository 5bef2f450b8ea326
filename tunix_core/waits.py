"""What a run that doesn't move waits for, by owner."""

from __future__ import annotations

from collections.abc import Sequence

from tunix_core.buffer import TrajectoryBuffer
from tunix_core.env_pool import EnvPool
from tunix_core.sampler.base import Sampler
from tunix_core.types import EpisodeTicket, Trajectory


def waiting_for(
    pool: EnvPool, sampler: Sampler, buffer: TrajectoryBuffer, parked: Sequence[Trajectory], now_ns: int
) -> str:
    """Environment calls, turns of the sampler, incomplete groups, parked trajectories; the first of each by name."""
    calls, turns = pool.waiting, sampler.waiting
    waits = []
    if calls:
        named = [f"{_name(t)} ({t.env_id}, {age:.1f} s)" for t, age in calls[:5]]
        waits.append(f"{len(calls)} environment calls: {', '.join(named)}")
    if turns:
        named = [f"{_name(r.ticket)} turn {r.turn_index}" for r in turns[:5]]
        waits.append(f"{len(turns)} turns of the sampler: {', '.join(named)}")
    groups = [
        f"{name} {ordinal} ({there} of {b.spec.group_size} there, {(now_ns - since) / 1e9:.1f} s)"
        for name, b in buffer.tenants.items()
        for ordinal, there, since in b.incomplete
    ]
    if groups:
        waits.append(f"{len(groups)} groups are incomplete: {', '.join(groups[:5])}")
    if parked:
        waits.append(
            f"{len(parked)} trajectories for room in the buffer: {buffer.bytes} of "
            f"{buffer.max_bytes} bytes are taken; raise its max_bytes"
        )
    return "; ".join(waits) or "nothing known"


def _name(ticket: EpisodeTicket) -> str:
    return f"{ticket.tenant_id} group {ticket.ordinal} sample {ticket.sample_index}"
