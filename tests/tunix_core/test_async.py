"""Long asynchronous runs over scripted parts: staleness limits, empty batches, bounded memory and threads."""

from __future__ import annotations

import os
import resource
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tunix_core.schedule import ScheduleSpec, arm
from tunix_core.testing import (
    TINY_SPEC,
    Answer,
    EpisodeScript,
    Recorder,
    ScriptedEnvs,
    ScriptedSampler,
    constant,
    tiny_tenant,
    tiny_trainer,
)
from tunix_core.trainer import Trainer, TrainResult
from tunix_core.types import (
    EpisodeTicket,
    Event,
    Fate,
    LossSpec,
    OptimizerSpec,
    SampleRequest,
    TenantSpec,
    UpdateReport,
)

A, B, END = 0, 1, 7
UNCHECKED = replace(TINY_SPEC, self_check=False)


def said(request: SampleRequest) -> tuple[int, int]:
    return (A if request.ticket.sample_index % 2 else B, END)


def scripted_run(
    tenant: TenantSpec,
    schedule: ScheduleSpec | str,
    answer: Callable[[SampleRequest], Answer] = lambda r: Answer(token_ids=said(r)),
    script: Callable[[EpisodeTicket], EpisodeScript] = lambda t: EpisodeScript(
        reward=constant(t.sample_index % 2)
    ),
    recorder: Recorder | None = None,
) -> tuple[Trainer, Recorder, TrainResult]:
    recorder = recorder or Recorder()
    trainer = tiny_trainer(
        [tenant],
        schedule,
        ScriptedEnvs(script),
        spec=UNCHECKED,
        sampler=ScriptedSampler(answer),
        observer=recorder,
    )
    return trainer, recorder, trainer.run()


# ---------------------------------------------------------------- staleness


@pytest.mark.parametrize("limit", [0, 2])
def test_lags_up_to_the_limit_are_learnt_and_older_ones_rejected_and_counted(limit: int) -> None:
    """Groups labelled 0, 1, 2 and 3 updates old in turn, over 100 updates; the limit is inclusive.

    Source: https://github.com/THUDM/slime/pull/2278 (buffers of max(1, n) instead of n + 1)
    """
    labels: dict[int, int] = {}
    live = {"version": 0}

    class Watching(Recorder):
        def event(self, event: Event) -> None:
            super().event(event)
            if event.key == "adapter.published":
                live["version"] = event.value["version"]

    def labelled(request: SampleRequest) -> Answer:
        k = request.ticket.ordinal
        labels.setdefault(k, max(0, live["version"] - k % 4))
        return Answer(token_ids=said(request), policy_version=labels[k])

    schedule = ScheduleSpec(
        tenants_at_once=None, step_barrier=False, max_staleness=limit, consume="completion"
    )
    tenant = tiny_tenant("t0", updates=100, group_size=2, groups_per_update=2)
    _, recorder, result = scripted_run(tenant, schedule, labelled, recorder=Watching())
    assert result.status == "success"
    lags = {lag for r in recorder.reports for lag in r.staleness}
    assert lags == set(range(limit + 1))
    for r in recorder.reports:
        assert all(r.version_before - labels[k] <= limit for k in r.ordinals)
        assert r.staleness == {
            lag: 4 * sum(r.version_before - labels[k] == lag for k in r.ordinals)
            for lag in {r.version_before - labels[k] for k in r.ordinals}
        }
    books = result.ledgers["t0"]
    assert books["consumed"]["groups"] == 200
    assert books["stale"]["groups"] > 50  # lag 3 always, lags 1 and 2 too where the limit is 0
    assert recorder.fates("t0")[Fate.STALE] == books["stale"]["rollouts"]
    dropped = {e.trajectory.ticket.ordinal for e in recorder.endings if e.trajectory.fate is Fate.STALE}
    assert not dropped & {k for r in recorder.reports for k in r.ordinals}


# ---------------------------------------------------------------- batches without signal


def test_a_task_that_is_always_solved_is_told_once_and_changes_nothing() -> None:
    """Source: https://github.com/thinking-machines-lab/tinker-cookbook/pull/507"""
    tenant = tiny_tenant("t0", updates=20)
    trainer, recorder, result = scripted_run(
        tenant, "A1", script=lambda t: EpisodeScript(reward=constant(1.0))
    )
    assert result.status == "success"
    assert sum(r.groups_no_signal for r in recorder.reports) == 40
    first, last = (s.adapter.sha256 for s in result.snapshots)
    assert first == last == trainer.learner.adapter("t0").sha256
    (told,) = [e.value for e in recorder.events if e.key == "warning"]
    assert told["tenant"] == "t0"
    assert told["reason"] == "10 updates in a row took no step (no signal: every advantage is zero)"


def test_signal_in_between_starts_the_count_again() -> None:
    def seldom(ticket: EpisodeTicket) -> EpisodeScript:
        signal = ticket.ordinal // 2 == 9  # the tenth update
        return EpisodeScript(reward=constant(ticket.sample_index % 2 if signal else 1.0))

    _, recorder, _ = scripted_run(tiny_tenant("t0", updates=19), "A0", script=seldom)
    assert [r.skipped is None for r in recorder.reports] == [False] * 9 + [True] + [False] * 9
    assert not [e for e in recorder.events if e.key == "warning"]


def test_one_useful_group_in_ten_is_a_tenth_of_its_step_and_no_more() -> None:
    """The batch isn't refilled: the groups without signal keep their weight, and the step isn't inflated."""
    sgd = OptimizerSpec(kind="sgd", learning_rate=0.1, clip_norm=1e9)

    def first_report(groups: int) -> UpdateReport:
        def script(ticket: EpisodeTicket) -> EpisodeScript:
            useful = ticket.ordinal == 0
            return EpisodeScript(reward=constant(ticket.sample_index % 2 if useful else 1.0))

        tenant = tiny_tenant("t0", updates=1, groups_per_update=groups, optimizer=sgd)
        _, recorder, _ = scripted_run(tenant, "A0", script=script)
        (report,) = recorder.reports
        return report

    alone, among_ten = first_report(1), first_report(10)
    assert (alone.groups_no_signal, among_ten.groups_no_signal) == (0, 9)
    assert (alone.loss_tokens, among_ten.loss_tokens) == (8, 80)
    assert among_ten.grad_norm == pytest.approx(alone.grad_norm / 10, rel=1e-4)
    assert (among_ten.reward_mean, among_ten.reward_mean_kept) == (pytest.approx(0.95), 0.5)


def test_a_run_whose_answers_are_all_cut_and_masked_goes_on_without_a_step() -> None:
    """Source: https://github.com/huggingface/trl/pull/3804"""
    tenant = tiny_tenant("t0", updates=3, loss=LossSpec(truncated="mask"))
    trainer, recorder, result = scripted_run(tenant, "A1", lambda r: Answer(token_ids=(A, B, A)))
    assert result.status == "success"
    assert all(r.skipped is not None and r.loss_tokens == 0 for r in recorder.reports)
    figures = [v for r in recorder.reports for v in (r.loss, r.grad_norm, r.kl, r.is_ess, r.entropy)]
    assert np.isfinite(figures).all()
    assert {s.adapter.sha256 for s in result.snapshots} == {trainer.learner.adapter("t0").sha256}
    stops = {(e.trajectory.stop, e.trajectory.grade_status) for e in recorder.endings}
    assert stops == {("max_tokens", "truncated")}


# ---------------------------------------------------------------- nothing grows


class Gauges(Recorder):
    """Samples what could grow, once an update, and keeps no lines (they would)."""

    def __init__(self) -> None:
        super().__init__()
        self.trainer: Any = None
        self.seen: list[tuple[int, int, int, int, int]] = []
        self.lags: set[int] = set()

    def span(self, span: Any) -> None:
        del span

    def trajectory(self, trajectory: Any, consumed_in: int | None, staleness: int | None) -> None:
        del trajectory, consumed_in, staleness

    def event(self, event: Event) -> None:
        del event

    def update(self, report: UpdateReport) -> None:
        self.lags |= set(report.staleness)
        outstanding = sum(len(b.view.outstanding) for b in self.trainer._buffers.values())
        peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        open_files = len(os.listdir("/proc/self/fd")) if sys.platform == "linux" else 0
        self.seen.append(
            (peak_kib, threading.active_count(), open_files, outstanding, len(self.trainer.sampler.waiting))
        )


@pytest.mark.parametrize("runtime", ["inline", "threads"])
def test_five_hundred_updates_leave_memory_threads_files_and_queues_as_they_were(runtime: Any) -> None:
    """A sampler far faster than the learner is held back by admission; nothing is evicted, nothing piles up.

    Source: https://github.com/areal-project/AReaL/issues/1481
    """
    gauges, limit = Gauges(), 2
    tenant = tiny_tenant("t0", updates=500, group_size=2, groups_per_update=2)
    gauges.trainer = trainer = tiny_trainer(
        [tenant],
        arm("A1", limit),
        ScriptedEnvs(lambda t: EpisodeScript(reward=constant(t.sample_index % 2))),
        spec=replace(UNCHECKED, runtime=runtime),
        sampler=ScriptedSampler(lambda r: Answer(token_ids=said(r))),
        observer=gauges,
    )
    result = trainer.run()
    assert result.status == "success"
    peak, threads, files, groups, turns = np.asarray(gauges.seen).T
    assert peak[-1] - peak[50] < 50 * 1024
    assert len(set(threads[5:])) == 1
    assert files[50:].max() <= files[:50].max()
    assert groups.max() <= (limit + 1) * tenant.groups_per_update
    assert turns.max() <= (limit + 1) * tenant.groups_per_update * tenant.group_size
    assert max(gauges.lags) <= limit
    assert result.ledgers["t0"]["stale"]["groups"] == 0
    assert result.ledgers["t0"]["consumed"]["groups"] == 1000
