"""A tenant's run is the same, to the bit, whoever shares the machine with it and however they fail."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from tunix_core.runspec import TrainResult
from tunix_core.testing import EpisodeScript, Recorder, ScriptedEnvs, constant, tiny_tenant, tiny_trainer
from tunix_core.trainer import Trainer
from tunix_core.types import EpisodeTicket, Fate, LoraSpec, LossSpec, OptimizerSpec, TenantSpec, UpdateReport

UPDATES = 6
MINE = tiny_tenant("mine", updates=UPDATES, seed=1)
OTHER = tiny_tenant("other", updates=UPDATES, seed=2, optimizer=OptimizerSpec(learning_rate=0.01, kind="sgd"))
THIRD = tiny_tenant("third", updates=UPDATES, seed=3)
TWO_TURNS = EpisodeScript(observations=("ab", "c"))

Misdeed = Callable[[EpisodeTicket], EpisodeScript]


def run(
    schedule: str,
    neighbours: Sequence[TenantSpec],
    misdeed: Misdeed | None = None,
    poison: bool = False,
    first: bool = True,
) -> tuple[Recorder, TrainResult]:
    """`misdeed` scripts the tenant `third`; `poison` puts NaN into its adapter before the run."""

    def script(ticket: EpisodeTicket) -> EpisodeScript:
        return misdeed(ticket) if misdeed and ticket.tenant_id == "third" else TWO_TURNS

    recorder = Recorder()
    tenants = [MINE, *neighbours] if first else [*neighbours, MINE]
    trainer = tiny_trainer(tenants, schedule, ScriptedEnvs(script), observer=recorder)
    if poison:
        spoil(trainer, "third")
    return recorder, trainer.run()


def spoil(trainer: Trainer, name: str) -> None:
    """NaN into one matrix of one tenant, in the learner and in the sampler."""
    slot = trainer.learner.slot_of[name]
    state = trainer.learner.state
    factors = dict(state.adapters.factors)
    a, b = factors["v_proj"]
    factors["v_proj"] = (a.at[slot].set(jnp.nan), b)
    trainer.learner.state = state._replace(adapters=state.adapters._replace(factors=factors))
    trainer.sampler.publish(trainer.learner.adapter(name), slot)


def of_mine(recorder: Recorder) -> tuple[list[str], list[dict[str, Any]], list[bytes]]:
    """Everything a tenant could notice: its adapters, its figures (times and padding aside), its tokens."""
    shared = ("update_id", "t0_ns", "t1_ns", "published_ns", "real_tokens", "executed_slots")
    names = [n for n in UpdateReport.__dataclass_fields__ if n not in shared]
    reports = [{n: getattr(r, n) for n in names} for r in recorder.reports_of("mine")]
    consumed = recorder.consumed("mine")
    tokens = [
        b"".join(turn.token_ids.tobytes() + turn.behavior_logprobs.tobytes() for turn in consumed[k].turns)
        for k in sorted(consumed)
    ]
    return recorder.adapters("mine"), reports, tokens


@cache
def expected() -> tuple[list[str], list[dict[str, Any]], list[bytes]]:
    """Mine, active alone: S0 runs one tenant at a time, mine first."""
    recorder, result = run("S0", [OTHER, THIRD])
    assert result.status == "success"
    return of_mine(recorder)


@pytest.mark.parametrize("schedule", ["S1", "A0"])
def test_a_tenant_among_healthy_neighbours_is_the_tenant_alone(schedule: str) -> None:
    recorder, _ = run(schedule, [OTHER, THIRD])
    assert of_mine(recorder) == expected()
    assert len(set(expected()[0])) > UPDATES // 2


def test_the_order_of_the_tenants_changes_nothing() -> None:
    recorder, _ = run("S1", [THIRD, OTHER], first=False)
    assert of_mine(recorder) == expected()


@pytest.mark.parametrize(
    "change",
    [
        {"optimizer": OptimizerSpec(learning_rate=10.0, clip_norm=100.0)},
        {"group_size": 8, "groups_per_update": 4},
        {"updates": 2},
        {"lora": LoraSpec(rank=1, alpha=64.0)},
    ],
)
def test_a_neighbours_settings_change_nothing(change: dict[str, Any]) -> None:
    recorder, _ = run("A0", [OTHER, replace(THIRD, **change)])
    assert of_mine(recorder) == expected()


@pytest.mark.parametrize("schedule", ["S1", "A0"])
def test_a_neighbour_gone_nan_is_stopped_with_its_reason_and_changes_nothing(schedule: str) -> None:
    recorder, result = run(schedule, [OTHER, THIRD], poison=True)
    assert of_mine(recorder) == expected()
    assert result.status == "tenant_stopped"
    assert re.fullmatch(r"third: update \d: non-finite log-probability from the sampler", result.reason)
    assert result.updates == {"mine": UPDATES, "other": UPDATES, "third": 1}
    assert [r.skipped for r in recorder.reports_of("third")] == [
        "non-finite log-probability from the sampler"
    ]
    (event,) = [e for e in recorder.events if e.key == "tenant.stopped"]
    assert event.value["tenant"] == "third"
    assert recorder.adapters("third") == []


def test_rewards_that_are_no_numbers_are_counted_and_change_nothing_elsewhere() -> None:
    bad = {0: math.nan, 1: math.inf, 2: None, 3: 1.0}

    def misdeed(ticket: EpisodeTicket) -> EpisodeScript:
        return EpisodeScript(reward=constant(bad[ticket.sample_index]))

    recorder, result = run("A0", [OTHER, THIRD], misdeed)
    assert of_mine(recorder) == expected()
    assert result.status == "success"
    reports = recorder.reports_of("third")
    graded = [t for t in recorder.consumed("third").values() if t.stop == "terminated"]
    assert sum(r.invalid_rewards for r in reports) == sum(t.ticket.sample_index < 3 for t in graded) > 0
    assert all(np.isfinite([r.loss, r.grad_norm, r.reward_mean]).all() for r in reports)


def test_a_neighbour_whose_environments_always_fail_is_stopped_and_changes_nothing() -> None:
    recorder, result = run("A0", [OTHER, THIRD], lambda t: EpisodeScript(raise_at="reset"))
    assert of_mine(recorder) == expected()
    assert result.status == "tenant_stopped"
    assert result.reason == (
        "third: update 0: all 8 of its environments failed, the first with "
        "RuntimeError: scripted failure in reset"
    )
    assert recorder.fates("third") == {Fate.ERRORED: 8}


def test_a_neighbour_that_sometimes_fails_changes_nothing() -> None:
    recorder, result = run(
        "A0", [OTHER, THIRD], lambda t: EpisodeScript(raise_at="step" if t.sample_index == 2 else None)
    )
    assert of_mine(recorder) == expected()
    assert result.status == "success"


def test_another_loss_beside_changes_a_tenant_by_rounding_alone() -> None:
    """Losses are compiled in: with another set of them bits may differ, and nothing else does."""
    recorder, _ = run("S1", [OTHER, replace(THIRD, loss=LossSpec(policy="gspo", kl_coefficient=0.1))])
    for found, wanted in zip(of_mine(recorder)[1][:3], expected()[1][:3], strict=True):
        assert found["loss"] == pytest.approx(wanted["loss"], abs=1e-4)
        assert found["ordinals"] == wanted["ordinals"]
