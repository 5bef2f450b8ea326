"""Tenants join and leave a run under way; those that stay notice nothing, to the bit."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tunix_core.errors import ConfigError
from tunix_core.model.lora import factors_sha256, initial_factors
from tunix_core.runspec import TrainResult
from tunix_core.telemetry import NullObserver
from tunix_core.testing import (
    TINY_SPEC,
    EpisodeScript,
    Recorder,
    ScriptedEnvs,
    tiny_base,
    tiny_tenant,
    tiny_trainer,
)
from tunix_core.trainer import Trainer
from tunix_core.types import LoraSpec, OptimizerSpec, TenantSpec, UpdateReport

SPEC = replace(TINY_SPEC, tenant_slots=8, max_rank=4)
STAYS = tiny_tenant("stays", updates=6, seed=1)
NEW = tiny_tenant("new", updates=3, seed=9)
TWO_TURNS = EpisodeScript(observations=("ab", "c"))


class At(Recorder):
    """Does something once, at a tenant's n-th update: in the middle of the run, in the loop's own thread."""

    def __init__(self, tenant: str, update: int, act: Callable[[], object]) -> None:
        super().__init__()
        self.when, self.act = (tenant, update), act

    def update(self, report: UpdateReport) -> None:
        super().update(report)
        if (report.tenant_id, report.version_after) == self.when:
            self.act()


def run(
    schedule: str,
    tenants: Sequence[TenantSpec],
    act: Callable[[Trainer], object] = lambda trainer: None,
    at: tuple[str, int] = ("stays", 2),
    envs: ScriptedEnvs | None = None,
) -> tuple[Recorder, TrainResult, Trainer]:
    recorder = At(*at, lambda: act(trainer))
    trainer = tiny_trainer(
        tenants, schedule, envs or ScriptedEnvs(lambda t: TWO_TURNS), spec=SPEC, observer=recorder
    )
    return recorder, trainer.run(), trainer


@cache
def alone(tenant: TenantSpec) -> list[str]:
    """Adapters of a tenant that has the machine to itself."""
    recorder, result, _ = run("A0", [tenant])
    assert result.status == "success"
    return recorder.adapters(tenant.tenant_id)


@pytest.mark.parametrize("schedule", ["S0", "S1", "A0", "A1"])
def test_a_tenant_that_joins_half_way_gets_all_its_updates(schedule: str) -> None:
    recorder, result, _ = run(schedule, [STAYS], lambda trainer: trainer.add_tenant(NEW))
    assert result.status == "success"
    assert result.updates == {"stays": 6, "new": 3}
    for books in result.ledgers.values():
        assert books["open"]["groups"] == 0
    (event,) = [e for e in recorder.events if e.key == "tenant.joined"]
    assert event.value == {"tenant": "new", "slot": 1}
    if schedule != "A1":  # staleness 0: what a tenant learns can't depend on when it came
        assert recorder.adapters("new") == alone(NEW)
        assert recorder.adapters("stays") == alone(STAYS)


@pytest.mark.parametrize("schedule", ["S1", "A0"])
def test_a_tenant_that_leaves_half_way_frees_its_slot_and_changes_nobody(schedule: str) -> None:
    others = [tiny_tenant(f"t{i}", updates=6, seed=10 + i) for i in range(3)]
    left = []
    recorder, result, trainer = run(
        schedule, [STAYS, *others], lambda trainer: left.append(trainer.remove_tenant("t1"))
    )
    assert result.status == "success"
    assert recorder.adapters("stays") == alone(STAYS)
    assert recorder.adapters("t2") == alone(others[2])
    assert 0 < result.updates["t1"] < 6
    snapshot = left[0].result()
    assert snapshot.adapter.sha256 == recorder.adapters("t1")[-1]
    assert snapshot in result.snapshots
    assert trainer.learner.slots[2] is None
    assert result.ledgers["t1"]["open"]["groups"] == 0


def test_a_recycled_slot_keeps_no_trace_of_its_last_tenant() -> None:
    """The next one starts where a tenant in a new run starts, with moments and step count at zero.

    Even after a tenant that ended in NaN. Source of the fault this guards against: NovaSky-AI/SkyRL pull 852.
    """
    first = replace(NEW, tenant_id="first", seed=4, optimizer=OptimizerSpec(learning_rate=1.0))

    def change(trainer: Trainer) -> None:
        trainer.remove_tenant("first")
        trainer.add_tenant(NEW)

    recorder, result, trainer = run("A0", [first, STAYS], change)
    assert result.updates["new"] == 3
    slot = trainer.learner.slot_of["new"]
    assert slot == 0
    start = initial_factors(tiny_base().config, NEW, SPEC.max_rank)
    (snapshot,) = [s for s in result.snapshots if (s.adapter.tenant_id, s.adapter.version) == ("new", 0)]
    assert snapshot.adapter.sha256 == factors_sha256(start)
    assert all(np.all(b == 0) and np.any(a != 0) for a, b in start.values())
    assert recorder.adapters("new") == alone(NEW)
    assert recorder.reports_of("new")[0].grad_norm > 0
    assert int(trainer.learner.state.updates[slot]) == 3


def test_a_slot_left_with_nan_is_clean_for_the_next() -> None:
    trainer = tiny_trainer([STAYS], "A0", ScriptedEnvs(lambda t: TWO_TURNS), spec=SPEC)
    trainer.add_tenant(replace(NEW, tenant_id="spoilt"))
    state = trainer.learner.state
    factors, sums = (
        jax.tree.map(lambda x: x.at[1].set(jnp.nan), tree)
        for tree in (state.adapters.factors, state.grad_sum)
    )
    trainer.learner.state = state._replace(adapters=state.adapters._replace(factors=factors), grad_sum=sums)
    trainer.sampler.publish(trainer.learner.adapter("spoilt"), 1)
    trainer.remove_tenant("spoilt")
    assert trainer.add_tenant(NEW).result() == 1
    recorder = Recorder()
    trainer._observer = recorder
    assert trainer.run().status == "success"
    assert recorder.adapters("new") == alone(NEW)
    assert recorder.adapters("stays") == alone(STAYS)


def test_among_seven_others_of_which_one_is_nan_and_one_leaves_the_tenant_is_as_alone() -> None:
    others = [tiny_tenant(f"t{i}", updates=6, seed=20 + i, group_size=2 + i % 3) for i in range(7)]
    recorder = At("stays", 2, lambda: trainer.remove_tenant("t3"))
    envs = ScriptedEnvs(lambda t: TWO_TURNS)
    trainer = tiny_trainer([*others[:4], STAYS, *others[4:]], "A0", envs, spec=SPEC, observer=recorder)
    state = trainer.learner.state
    factors = dict(state.adapters.factors)
    a, b = factors["v_proj"]
    factors["v_proj"] = (a.at[6].set(jnp.nan), b)
    trainer.learner.state = state._replace(adapters=state.adapters._replace(factors=factors))
    trainer.sampler.publish(trainer.learner.adapter("t5"), 6)
    result = trainer.run()
    assert result.status == "tenant_stopped" and re.match(r"t5: update \d: non-finite", result.reason)
    assert result.updates["t3"] < 6 and result.updates["t6"] == 6
    assert recorder.adapters("stays") == alone(STAYS)


def test_ranks_and_alphas_may_differ_and_a_rank_above_the_store_is_refused() -> None:
    """Rank 4 in a store of rank 4, rank 2 in the same store: each scales by its own alpha / r."""
    big = replace(NEW, lora=LoraSpec(rank=4, alpha=8.0))
    recorder, _, trainer = run("A0", [STAYS], lambda trainer: trainer.add_tenant(big))
    slot = trainer.learner.slot_of["new"]
    assert float(trainer.learner.state.adapters.scale[slot]) == 2.0
    assert float(trainer.sampler.adapters.scale[slot]) == 2.0
    assert recorder.adapters("stays") == alone(STAYS)
    with pytest.raises(ConfigError, match=r"'more': LoRA rank 5 is outside 1\.\.4"):
        trainer.add_tenant(tiny_tenant("more", lora=LoraSpec(rank=5))).result()


@pytest.mark.parametrize(
    ("tenant", "words"),
    [
        (STAYS, "'stays' was used in this run"),
        (replace(NEW, group_size=0), "group_size 0"),
        (replace(NEW, optimizer=OptimizerSpec(kind="lion")), "'lion' not found"),
    ],
)
def test_a_tenant_that_cannot_join_gets_the_reason_and_the_run_goes_on(
    tenant: TenantSpec, words: str
) -> None:
    asked = []
    recorder, result, _ = run("A0", [STAYS], lambda trainer: asked.append(trainer.add_tenant(tenant)))
    with pytest.raises(ConfigError, match=words):
        asked[0].result()
    assert result.status == "success" and list(result.updates) == ["stays"]
    assert recorder.adapters("stays") == alone(STAYS)


def test_a_full_house_says_so() -> None:
    trainer = tiny_trainer([STAYS], "A0", ScriptedEnvs())
    with pytest.raises(ConfigError, match=r"all 1 are taken\. Remove a tenant or raise tenant_slots"):
        trainer.add_tenant(NEW).result()
    with pytest.raises(ConfigError, match=r"'nobody' is not here; here are \['stays'\]"):
        trainer.remove_tenant("nobody").result()


def test_from_another_thread_too() -> None:
    """The loop's environments wait until the request is in, so that it can't come too late."""
    hold = threading.Event()
    spec = replace(SPEC, runtime="threads", env_workers=4)
    envs = ScriptedEnvs(lambda t: replace(TWO_TURNS, hold=hold))
    trainer = tiny_trainer([STAYS], "A1", envs, spec=spec, observer=NullObserver())
    results: list[TrainResult] = []
    loop = threading.Thread(target=lambda: results.append(trainer.run()))
    loop.start()
    slot = trainer.add_tenant(NEW)
    assert slot.result(timeout=60) == 1
    hold.set()
    loop.join(timeout=60)
    assert results[0].updates == {"stays": 6, "new": 3}


def test_what_is_asked_after_the_end_is_answered_at_once() -> None:
    _, result, trainer = run("A0", [STAYS])
    assert result.status == "success"
    snapshot = trainer.remove_tenant("stays").result(timeout=0)
    assert snapshot.adapter.version == 6
