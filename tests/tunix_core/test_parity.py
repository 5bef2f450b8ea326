"""Four timetables over the same rooms: what they learn, in which order, and how old it may be."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from tunix_core.runspec import TrainResult
from tunix_core.schedule import ScheduleSpec, arm
from tunix_core.testing import (
    TINY_SPEC,
    EpisodeScript,
    Recorder,
    ScriptedEnvs,
    share_of,
    tiny_tenant,
    tiny_trainer,
)
from tunix_core.types import EpisodeTicket, Fate, UpdateReport

NAMES = ("t0", "t1", "t2")
UPDATES = 20
TENANTS = (
    tiny_tenant("t0", updates=UPDATES, env_ids=("short", "long")),
    tiny_tenant("t1", updates=UPDATES, env_ids=("long",), groups_per_update=1, seed=3),
    tiny_tenant("t2", updates=5, env_ids=("short",), group_size=8, seed=4),
)
SCRIPTS = {
    "short": EpisodeScript(observations=("ab",), reward=share_of("a")),
    "long": EpisodeScript(observations=("c", "b", "a"), reward=share_of("b")),
}


def script(ticket: EpisodeTicket) -> EpisodeScript:
    return SCRIPTS[ticket.env_id]


@cache
def run(schedule: str | ScheduleSpec, runtime: str = "inline") -> tuple[Recorder, TrainResult]:
    recorder = Recorder()
    spec = replace(TINY_SPEC, runtime=runtime)
    result = tiny_trainer(TENANTS, schedule, ScriptedEnvs(script), spec=spec, observer=recorder).run()
    return recorder, result


def learnt(recorder: Recorder, name: str) -> Mapping[tuple[int, int], tuple[object, ...]]:
    """What a tenant consumed: identity, item, ids, log-probabilities and reward of every rollout."""
    return {
        key: (
            t.item_uid,
            t.reward,
            np.concatenate([turn.token_ids for turn in t.turns]).tobytes(),
            np.concatenate([turn.behavior_logprobs for turn in t.turns]).tobytes(),
        )
        for key, t in recorder.consumed(name).items()
    }


@pytest.mark.parametrize(
    ("schedule", "runtime"), [("A0", "inline"), ("S0", "inline"), ("S1", "threads"), ("A0", "threads")]
)
def test_every_arm_without_staleness_learns_what_s1_learns_to_the_bit(schedule: str, runtime: str) -> None:
    baseline, _ = run("S1")
    other, result = run(schedule, runtime)
    assert result.status == "success"
    for name, tenant in zip(NAMES, TENANTS, strict=True):
        assert learnt(other, name) == learnt(baseline, name)
        assert other.adapters(name) == baseline.adapters(name)
        assert len(set(other.adapters(name))) > tenant.updates // 2  # something was learnt
        assert [r.ordinals for r in other.reports_of(name)] == [r.ordinals for r in baseline.reports_of(name)]
        assert [r.loss for r in other.reports_of(name)] == [r.loss for r in baseline.reports_of(name)]
        assert all(set(r.staleness) <= {0} for r in other.reports_of(name))


def test_the_arms_do_differ_in_their_timetable() -> None:
    def order(recorder: Recorder) -> list[str]:
        return [r.tenant_id for r in recorder.reports]

    orders = {schedule: order(run(schedule)[0]) for schedule in ("S0", "S1", "A0")}
    assert orders["S0"] == ["t0"] * UPDATES + ["t1"] * UPDATES + ["t2"] * 5
    # side by side in one step while all are active
    assert orders["S1"][:15] == ["t0", "t1", "t2"] * 5
    assert sorted(orders["A0"]) == sorted(orders["S1"]) and orders["A0"] != orders["S1"]


@pytest.mark.parametrize("limit", [1, 2, 4])
@pytest.mark.parametrize("runtime", ["inline", "threads"])
def test_no_token_is_consumed_past_the_limit_and_admission_order_drops_nothing(
    limit: int, runtime: str
) -> None:
    recorder, result = run(arm("A1", limit), runtime)
    for name, tenant in zip(NAMES, TENANTS, strict=True):
        reports = recorder.reports_of(name)
        ages = {age for r in reports for age in r.staleness}
        assert ages <= set(range(limit + 1))
        assert {e.staleness for e in recorder.endings if e.staleness is not None} <= set(range(limit + 1))
        assert sum(sum(r.staleness.values()) for r in reports) == sum(r.loss_tokens for r in reports)
        books = result.ledgers[name]
        assert books["stale"]["rollouts"] == 0
        consumed = sorted(k for r in reports for k in r.ordinals)
        assert consumed == list(range(tenant.updates * tenant.groups_per_update))
    if runtime == "inline":
        assert any(age > 0 for r in recorder.reports for age in r.staleness)


@pytest.mark.parametrize("schedule", ["S0", "S1", "A0", "A1"])
def test_the_books_of_every_arm_close_and_agree_with_what_was_told(schedule: str) -> None:
    recorder, result = run(schedule)
    assert result.status == "success"
    for name, tenant in zip(NAMES, TENANTS, strict=True):
        books = result.ledgers[name]
        rollouts = tenant.updates * tenant.groups_per_update * tenant.group_size
        for unit in ("groups", "rollouts", "tokens"):
            fates = ("consumed", "stale", "filtered", "errored", "surplus")
            assert books["generated"][unit] == sum(books[f][unit] for f in fates)
            assert books["open"][unit] == 0
        assert books["consumed"]["rollouts"] == rollouts == recorder.fates(name)[Fate.CONSUMED]
        assert books["generated"]["rollouts"] == sum(recorder.fates(name).values())
        told = sum(t.sampled_tokens for t in recorder.consumed(name).values())
        assert books["consumed"]["tokens"] == told == sum(r.loss_tokens for r in recorder.reports_of(name))
        assert result.updates[name] == tenant.updates


def test_an_asynchronous_run_inline_repeats_to_the_bit() -> None:
    first, _ = run("A1")
    run.cache_clear()
    again, _ = run("A1")
    for name in NAMES:
        assert again.adapters(name) == first.adapters(name)
        assert learnt(again, name) == learnt(first, name)


def test_tokens_sampled_across_a_publication_carry_both_versions() -> None:
    recorder, _ = run(arm("A1", 2))
    mixed = [
        turn.policy_version
        for e in recorder.endings
        for turn in e.trajectory.turns
        if turn.role == "policy" and len(set(turn.policy_version.tolist())) > 1
    ]
    assert mixed, "no turn was under way when an adapter was published"
    assert all((np.diff(versions) >= 0).all() for versions in mixed)


def test_in_completion_order_what_is_too_old_is_dropped_counted_and_drawn_again() -> None:
    """t0's first group is held up until two updates have been made without it."""
    schedule = ScheduleSpec(tenants_at_once=None, step_barrier=False, max_staleness=1, consume="completion")
    late = threading.Event()

    def slow_start(ticket: EpisodeTicket) -> EpisodeScript:
        return replace(script(ticket), hold=late if ticket.ordinal == 0 else None)

    class AfterTwo(Recorder):
        def update(self, report: UpdateReport) -> None:
            super().update(report)
            if report.version_after == 2:
                late.set()

    recorder = AfterTwo()
    spec = replace(TINY_SPEC, runtime="threads", env_workers=16)
    result = tiny_trainer(
        (TENANTS[0],), schedule, ScriptedEnvs(slow_start), spec=spec, observer=recorder
    ).run()
    name, tenant = TENANTS[0].tenant_id, TENANTS[0]
    reports = recorder.reports_of(name)
    assert len(reports) == tenant.updates
    assert {age for r in reports for age in r.staleness} <= {0, 1}
    consumed = [k for r in reports for k in r.ordinals]
    assert len(consumed) == len(set(consumed)) == tenant.updates * tenant.groups_per_update
    assert 0 not in consumed
    books = result.ledgers[name]
    assert books["generated"]["groups"] == sum(
        books[f]["groups"] for f in ("consumed", "stale", "filtered", "errored", "surplus")
    )
    assert recorder.fates(name)[Fate.STALE] == books["stale"]["rollouts"]
    assert recorder.fates(name)[Fate.SURPLUS] == books["surplus"]["rollouts"]
    assert books["stale"]["groups"] > 0
