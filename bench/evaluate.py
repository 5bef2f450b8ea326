"""Scheduled evaluation: scores adapter snapshots on dev items after the clock has stopped."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from bench.record import EvalRecord, Sink
from tunix_core.clock import clock_ns
from tunix_core.rollout import play
from tunix_core.tenant import draw
from tunix_core.types import EpisodeTicket, Fate, SamplingSpec, TenantSpec

if TYPE_CHECKING:
    from bench.compose import Prepared
    from tunix_core.runspec import Snapshot
    from tunix_core.sampler.base import Sampler

EVAL_SEED = 0
"""Dev items are the same for every tenant of a task, every arm and every seed: comparisons are paired by item."""


def eval_tickets(tenant: TenantSpec, version: int, items: int, split: str = "dev") -> list[EpisodeTicket]:
    """One ticket per dev item of a tenant's task mix."""
    fixed = dataclasses.replace(tenant, seed=EVAL_SEED)
    out = []
    for k in range(items):
        env_id, env_seed, item_index = draw(fixed, k)
        out.append(
            EpisodeTicket(
                tenant_id=tenant.tenant_id,
                ordinal=k,
                sample_index=0,
                env_id=env_id,
                split=split,
                env_seed=env_seed,
                item_index=item_index,
                admitted_version=version,
            )
        )
    return out


def evaluate(
    prepared: Prepared,
    tenants: Sequence[TenantSpec],
    engine: Sampler,
    snapshots: Sequence[Snapshot],
    sink: Sink,
    should_stop: Callable[[], bool],
) -> None:
    """Greedy, without simulated latency, all tenants' k-th snapshots together; one line per item."""
    from bench.compose import env_factory

    by_tenant: dict[str, list[Snapshot]] = defaultdict(list)
    for snapshot in snapshots:
        by_tenant[snapshot.adapter.tenant_id].append(snapshot)
    slot = {t.tenant_id: i for i, t in enumerate(tenants)}
    greedy = SamplingSpec(temperature=0.0, max_new_tokens=prepared.sizes.turn)
    for eval_id in range(max(map(len, by_tenant.values()), default=0)):
        due = {name: taken[eval_id] for name, taken in by_tenant.items() if eval_id < len(taken)}
        for name, snapshot in due.items():
            engine.publish(snapshot.adapter, slot[name])
        trajectories = play(
            engine,
            [
                ticket
                for t in tenants
                if t.tenant_id in due
                for ticket in eval_tickets(t, due[t.tenant_id].adapter.version, prepared.config.eval_items)
            ],
            env_factory=env_factory(prepared, simulate=False),
            renderer=prepared.renderer,
            sampling={t.tenant_id: greedy for t in tenants},
            adapter_slot=slot,
            clock_ns=clock_ns,
            should_stop=should_stop,
        )
        for trajectory in trajectories:
            snapshot = due[trajectory.ticket.tenant_id]
            fate = Fate.ERRORED if trajectory.error is not None else Fate.CONSUMED
            sink.evaluation(
                EvalRecord(
                    tenant=trajectory.ticket.tenant_id,
                    eval_id=eval_id,
                    version=snapshot.adapter.version,
                    samples=snapshot.samples,
                    snapshot_ns=snapshot.t_ns,
                    trajectory=dataclasses.replace(trajectory, fate=fate),
                )
            )
