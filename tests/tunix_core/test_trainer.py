"""Whole runs of the real loop on a tiny model: how they end, what they count, what they may not do."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tunix_core.errors import ConfigError, LearnerError, StalledError
from tunix_core.model.lora import factors_sha256, initial_factors
from tunix_core.runspec import TrainerSpec, TrainResult
from tunix_core.telemetry import NullObserver
from tunix_core.testing import (
    TINY_SAMPLER,
    TINY_SPEC,
    EpisodeScript,
    Recorder,
    ScriptedEnvs,
    constant,
    random_adapter,
    tiny_base,
    tiny_tenant,
    tiny_trainer,
)
from tunix_core.trainer import Trainer
from tunix_core.types import (
    Bucket,
    EpisodeTicket,
    Event,
    Fate,
    LoraSpec,
    LossSpec,
    OptimizerSpec,
    SamplingSpec,
    TenantSpec,
)

ARMS = ("S0", "S1", "A0", "A1")
NAMES = ("t0", "t1", "t2")
THREADS = replace(TINY_SPEC, runtime="threads", env_workers=8)
FATES = ("consumed", "stale", "filtered", "errored", "surplus")


def three(**changes: Any) -> list[TenantSpec]:
    """Three tenants: every test shares their shapes, and so one compilation."""
    return [tiny_tenant(n, seed=i, **changes) for i, n in enumerate(NAMES)]


def build(
    schedule: str = "A1",
    script: Callable[[EpisodeTicket], EpisodeScript] = lambda t: EpisodeScript(observations=("ab", "c")),
    *,
    tenants: list[TenantSpec] | None = None,
    spec: TrainerSpec = TINY_SPEC,
    should_stop: Callable[[], bool] = lambda: False,
) -> tuple[Trainer, Recorder, ScriptedEnvs]:
    recorder, envs = Recorder(), ScriptedEnvs(script)
    trainer = tiny_trainer(
        tenants or three(), schedule, envs, spec=spec, observer=recorder, should_stop=should_stop
    )
    return trainer, recorder, envs


def assert_books_close(result: TrainResult, recorder: Recorder) -> None:
    """Everything generated has one fate, and the observer was told of every rollout with the same one."""
    for name, books in result.ledgers.items():
        for unit in ("groups", "rollouts", "tokens"):
            assert books["generated"][unit] == sum(books[f][unit] for f in FATES)
            assert books["open"][unit] == 0
        told = recorder.fates(name)
        assert {f: n for f in FATES if (n := books[f]["rollouts"])} == {f.value: n for f, n in told.items()}
    keys = [e.trajectory.ticket.key for e in recorder.endings]
    assert len(keys) == len(set(keys))


# ---------------------------------------------------------------- faults


@pytest.mark.parametrize("schedule", ARMS)
@pytest.mark.parametrize("place", ["factory", "reset", "step"])
def test_environments_that_fail_now_and_then_are_counted_and_the_run_completes(
    schedule: str, place: Any
) -> None:
    calls = iter(range(10**6))

    def script(ticket: EpisodeTicket) -> EpisodeScript:
        return EpisodeScript(observations=("ab", "c"), raise_at=place if next(calls) % 10 == 7 else None)

    trainer, recorder, envs = build(schedule, script)
    result = trainer.run()
    assert result.status == "success"
    assert_books_close(result, recorder)
    assert sum(b["errored"]["rollouts"] for b in result.ledgers.values()) > 0
    assert set(result.updates.values()) == {3}
    assert all(e.closed == 1 for e in envs.built)
    for e in recorder.endings:
        assert (e.trajectory.error is None) == (e.trajectory.fate is not Fate.ERRORED)
        assert e.trajectory.error is None or (e.trajectory.reward, e.consumed_in) == (0.0, None)


@pytest.mark.parametrize("schedule", ARMS)
def test_environments_that_always_fail_end_the_run_with_the_first_cause(schedule: str) -> None:
    trainer, recorder, _ = build(schedule, lambda t: EpisodeScript(raise_at="reset", error=OSError))
    result = trainer.run()
    assert result.status == "tenant_stopped"
    for name in NAMES:
        assert f"{name}: update" in result.reason
    assert "all 8 of its environments failed, the first with OSError: scripted failure" in result.reason
    assert_books_close(result, recorder)
    assert all(a.adapter.version == 0 for a in result.snapshots)


def test_a_verifier_that_fails_is_counted_and_never_a_reward() -> None:
    trainer, recorder, _ = build(
        "A0", lambda t: EpisodeScript(harness_error="judge down" if t.sample_index == 1 else None)
    )
    result = trainer.run()
    assert result.status == "success"
    assert_books_close(result, recorder)
    errored = [e.trajectory for e in recorder.endings if e.trajectory.fate is Fate.ERRORED]
    assert errored and {t.ticket.sample_index for t in errored} == {1}


def test_hung_environments_time_out_and_the_run_goes_on() -> None:
    never = threading.Event()

    def script(ticket: EpisodeTicket) -> EpisodeScript:
        return EpisodeScript(hold=never if ticket.key[:2] == ("t1", 1) else None)

    trainer, recorder, _ = build("S1", script, spec=replace(THREADS, env_timeout_s=0.3))
    result = trainer.run()
    never.set()
    assert result.status == "success"
    assert_books_close(result, recorder)
    errored = [e.trajectory for e in recorder.endings if e.trajectory.fate is Fate.ERRORED]
    assert errored and {t.ticket.key[:2] for t in errored} == {("t1", 1)}
    assert {t.error for t in errored} == {"environment call took longer than its limit of 0.3 s"}


def test_a_run_that_cannot_move_says_what_it_waits_for_and_settles() -> None:
    never = threading.Event()
    spec = replace(THREADS, no_progress_s=0.5)
    trainer, recorder, _ = build("A1", lambda t: EpisodeScript(hold=never), spec=spec)
    with pytest.raises(StalledError) as caught:
        trainer.run()
    never.set()
    words = str(caught.value)
    assert "no progress for 0.5 s" in words
    assert "environment calls: t" in words and "(scripted, 0." in words
    assert "groups are incomplete: t" in words and " of 4 there, " in words
    fates = {e.trajectory.fate for e in recorder.endings}
    assert fates == {Fate.SURPLUS}
    for name in NAMES:
        assert trainer._buffers[name].ledger.closes()


@pytest.mark.parametrize("schedule", ARMS)
@pytest.mark.parametrize("after", [0, 1, 7, 25])
def test_an_interrupt_at_any_point_settles_everything(schedule: str, after: int) -> None:
    calls = iter(range(10**6))
    trainer, recorder, envs = build(schedule, should_stop=lambda: next(calls) >= after)
    result = trainer.run()
    assert result.status == "interrupted"
    assert_books_close(result, recorder)
    assert all(e.closed == 1 for e in envs.built)
    assert not trainer.sampler.busy
    (last,) = [e for e in recorder.events if e.key == "run_stop"]
    assert last.value["status"] == "interrupted"


def test_an_observer_that_raises_ends_the_run_with_its_books_closed() -> None:
    class Broken(NullObserver):
        def event(self, event: Event) -> None:
            if event.key == "adapter.published":
                raise OSError("disk full")

    trainer = tiny_trainer(three(), "A0", ScriptedEnvs(), observer=Broken())
    with pytest.raises(OSError, match="disk full"):
        trainer.run()
    assert all(b.ledger.closes() for b in trainer._buffers.values())


@pytest.mark.parametrize("reward", [math.nan, math.inf, None])
def test_rewards_that_are_no_numbers_teach_nothing_and_are_counted(reward: Any) -> None:
    trainer, recorder, _ = build("A0", lambda t: EpisodeScript(reward=constant(reward)), tenants=three())
    before = {n: trainer.learner.adapter(n).sha256 for n in NAMES}
    result = trainer.run()
    assert result.status == "success"
    assert_books_close(result, recorder)
    graded = sum(e.trajectory.stop == "terminated" for e in recorder.endings)
    assert sum(r.invalid_rewards for r in recorder.reports) == graded > 0
    assert {n: trainer.learner.adapter(n).sha256 for n in NAMES} == before


# ---------------------------------------------------------------- no signal, no step


@pytest.mark.parametrize("schedule", ARMS)
def test_twenty_updates_of_equal_rewards_end_with_the_same_bits_and_are_counted(schedule: str) -> None:
    masked = three(updates=20, loss=LossSpec())
    # cut answers are worth 0, as are these
    trainer, recorder, _ = build(schedule, lambda t: EpisodeScript(reward=constant(0.0)), tenants=masked)
    result = trainer.run()
    assert result.status == "success"
    for spec in masked:
        name = spec.tenant_id
        assert trainer.learner.adapter(name).sha256 == factors_sha256(
            initial_factors(tiny_base().config, spec, 2)
        )
        reports = recorder.reports_of(name)
        assert [r.skipped for r in reports] == ["no signal: every advantage is zero"] * 20
        assert sum(r.groups_no_signal for r in reports) == 40
        assert reports[-1].version_after == 20


@pytest.mark.parametrize("schedule", ARMS)
def test_a_learning_rate_of_zero_ends_with_the_bits_it_began_with(schedule: str) -> None:
    tenants = three(optimizer=OptimizerSpec(learning_rate=0.0))
    trainer, recorder, _ = build(schedule, tenants=tenants)
    result = trainer.run()
    for name in NAMES:
        snapshots = [s.adapter for s in result.snapshots if s.adapter.tenant_id == name]
        assert [s.version for s in snapshots] == [0, 3]
        assert len({s.sha256 for s in snapshots}) == 1
        assert len(set(recorder.adapters(name))) == 1
    assert any(r.grad_norm > 0 for r in recorder.reports)
    # sampler and learner hold the same weights all along, so nothing is ever off-policy
    assert all(r.logprob_gap < 1e-5 for r in recorder.reports)


# ---------------------------------------------------------------- it learns


def first_is(letter: str) -> Callable[[tuple[str, ...]], float]:
    return lambda said: float(said[0][:1] == letter)


def test_a_bandit_is_learnt_by_its_first_token() -> None:
    """Each tenant is paid for another first letter; were the first token not in the loss, none would learn."""
    wanted = dict(zip(NAMES, "abc", strict=True))
    tenants = three(updates=25, optimizer=OptimizerSpec(learning_rate=0.02))
    trainer, recorder, _ = build(
        "A1", lambda t: EpisodeScript(reward=first_is(wanted[t.tenant_id])), tenants=tenants
    )
    assert trainer.run().status == "success"
    for name in NAMES:
        done = sorted(recorder.consumed(name).items())
        hits = [first_is(wanted[name])((t.turns[1].text,)) for _, t in done]
        assert np.mean(hits[-24:]) > 0.8  # by chance 0.125


def test_ending_the_turn_is_learnt_where_only_ended_answers_are_paid() -> None:
    """The stop token is in the loss: if it were not, its probability could not rise."""
    sampling = SamplingSpec(max_new_tokens=2)
    tenants = three(updates=15, optimizer=OptimizerSpec(learning_rate=0.03), sampling=sampling)
    trainer, recorder, _ = build("A0", lambda t: EpisodeScript(reward=constant(1.0)), tenants=tenants)
    trainer.run()
    for name in NAMES:
        cut = [t.stop == "max_tokens" for _, t in sorted(recorder.consumed(name).items())]
        assert np.mean(cut[:24]) > 0.25
        assert np.mean(cut[-24:]) < np.mean(cut[:24]) / 2


# ---------------------------------------------------------------- lines and shapes


def test_nothing_compiles_inside_the_window() -> None:
    trainer, _, _ = build("A1")
    trainer.warm_up()
    assert trainer.run().recompiles == {}


def test_warming_up_changes_nothing() -> None:
    runs = []
    for warm in (False, True):
        trainer, recorder, _ = build("A0")
        if warm:
            trainer.warm_up()
            assert recorder.spans == []
        trainer.run()
        runs.append([recorder.adapters(n) for n in NAMES])
    assert runs[0] == runs[1]


def test_spans_lie_in_the_window_one_after_another_and_account_for_tokens() -> None:
    trainer, recorder, _ = build("A1")
    result = trainer.run()
    ends = [result.t_start_ns, *(t for s in recorder.spans for t in (s.t0_ns, s.t1_ns)), result.t_stop_ns]
    assert ends == sorted(ends)
    assert {s.role for s in recorder.spans} == {"prefill", "decode", "train", "sync"}
    generated = sum(b["generated"]["tokens"] for b in result.ledgers.values())
    turns = sum(t.role == "policy" for e in recorder.endings for t in e.trajectory.turns)
    assert sum(s.real_tokens for s in recorder.spans if s.role == "decode") == generated - turns


def test_lines_come_in_order_and_every_consumed_rollout_names_its_update() -> None:
    trainer, recorder, _ = build("A1")
    trainer.run()
    assert [e.t_ns for e in recorder.events] == sorted(e.t_ns for e in recorder.events)
    keys = [e.key for e in recorder.events]
    assert (keys[0], keys[-1]) == ("snapshot", "run_stop")
    by_update = {(r.update_id, r.tenant_id): r for r in recorder.reports}
    for e in recorder.endings:
        if e.trajectory.fate is Fate.CONSUMED:
            assert e.consumed_in is not None
            report = by_update[e.consumed_in, e.trajectory.ticket.tenant_id]
            assert e.trajectory.ticket.ordinal in report.ordinals
            assert e.staleness == report.version_before - e.trajectory.oldest_version
    for r in recorder.reports:
        assert r.t0_ns <= r.t1_ns <= r.published_ns


def test_snapshots_are_the_first_the_last_and_every_so_many() -> None:
    tenants = three(updates=5)
    trainer, recorder, _ = build("A0", tenants=tenants, spec=replace(TINY_SPEC, snapshot_every=2))
    result = trainer.run()
    for name in NAMES:
        mine = [s for s in result.snapshots if s.adapter.tenant_id == name]
        assert [s.adapter.version for s in mine] == [0, 2, 4, 5]
        assert [s.samples for s in mine] == [0, 16, 32, 40]
        published = recorder.adapters(name)
        assert [s.adapter.sha256 for s in mine[1:]] == [published[v - 1] for v in (2, 4, 5)]
        assert all(factors_sha256(s.adapter.factors) == s.adapter.sha256 for s in mine)


# ---------------------------------------------------------------- self-check


def test_a_sampler_that_disagrees_with_the_learner_fails_the_first_step_and_keeps_its_record() -> None:
    trainer, recorder, _ = build("A0")
    trainer.sampler.publish(random_adapter("t1", version=0), 1)
    with pytest.raises(LearnerError, match="self-check at the first update of tenant 't1'"):
        trainer.run()
    assert {r.tenant_id for r in recorder.reports} >= {"t1"}
    for name in NAMES:
        ledger = trainer._buffers[name].ledger
        assert ledger.closes()
        books = ledger.snapshot()
        told = recorder.fates(name)
        assert books["consumed"]["rollouts"] == told[Fate.CONSUMED]
        assert books["surplus"]["rollouts"] == told[Fate.SURPLUS]


def test_a_healthy_first_step_has_a_ratio_of_one() -> None:
    trainer, recorder, _ = build("A1")
    trainer.run()
    first = [r for r in recorder.reports if r.version_before == 0]
    assert len(first) == 3
    for r in first:
        assert r.logprob_gap < 1e-5
        assert r.is_ess == pytest.approx(1, abs=1e-5)
        assert r.max_is_weight == pytest.approx(1, abs=1e-4)
        assert r.staleness == {0: r.loss_tokens}


# ---------------------------------------------------------------- settings


@pytest.mark.parametrize(
    ("tenants", "spec", "words"),
    [
        ([], TINY_SPEC, "no tenants"),
        ([tiny_tenant("a"), tiny_tenant("a")], TINY_SPEC, r"repeat: \['a'\]"),
        ([tiny_tenant("a", group_size=0)], TINY_SPEC, "'a'.*group_size 0"),
        ([tiny_tenant("a", updates=0)], TINY_SPEC, "'a'.*updates 0"),
        ([tiny_tenant("a", sampling=SamplingSpec(max_new_tokens=7))], TINY_SPEC, "'a'.*max_new_tokens 7"),
        (
            [tiny_tenant("a", sampling=SamplingSpec(temperature=0.0, max_new_tokens=6))],
            TINY_SPEC,
            "'a'.*temperature",
        ),
        ([tiny_tenant("a", lora=LoraSpec(rank=0))], TINY_SPEC, "'a'.*rank 0"),
        ([tiny_tenant("a", loss=LossSpec(policy="grpo"))], TINY_SPEC, "'a'.*'grpo' not found"),
        (
            [tiny_tenant("a")],
            replace(TINY_SPEC, buckets=(Bucket(rows=1, length=29),)),
            "cannot hold an episode of 30 tokens",
        ),
    ],
)
def test_a_run_that_cannot_work_is_refused_before_it_is_built(
    tenants: list[TenantSpec], spec: TrainerSpec, words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        tiny_trainer(tenants, "A0", ScriptedEnvs(), spec=spec)


def test_episodes_without_end_run_into_the_context_limit_and_are_neither_cut_nor_lost() -> None:
    trainer, recorder, _ = build("A0", lambda t: EpisodeScript(observations=("abcab" * 2, "a"), endless=True))
    result = trainer.run()
    assert result.status == "success"
    assert_books_close(result, recorder)
    stops = {e.trajectory.stop for e in recorder.endings}
    assert stops == {"context", "max_tokens"}
    longest = max(len(np.concatenate([u.token_ids for u in e.trajectory.turns])) for e in recorder.endings)
    assert longest > TINY_SAMPLER.max_context


def test_observations_longer_than_any_bucket_do_not_end_the_run() -> None:
    trainer, recorder, _ = build("A0", lambda t: EpisodeScript(observations=("ab", "c" * 500)))
    result = trainer.run()
    assert result.status == "success"
    assert_books_close(result, recorder)
