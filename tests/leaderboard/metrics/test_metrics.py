"""Figures of the golden run, worked out by hand, and what each metric does at its edges."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path

import pytest

from leaderboard import metrics
from leaderboard.metrics import pairing, work
from leaderboard.records import ArmView, RunRecord
from leaderboard.schema import EventLine
from tests.leaderboard import golden

S1_WORK = 0.300 + 0.001 + 0.290
"""First round 300 ms, 1 ms to the next, which commits 10 ms before its end."""


@pytest.fixture(scope="module")
def record(golden_run: Path) -> RunRecord:
    return RunRecord.open(golden_run)


@pytest.fixture
def s1(record: RunRecord) -> ArmView:
    return record.view("S1", 7)


@pytest.fixture
def a1(record: RunRecord) -> ArmView:
    return record.view("A1", 7)


def test_every_computed_figure_is_documented(record: RunRecord, s1: ArmView) -> None:
    computed = metrics.results(record)["runs"][0]["metrics"].keys()
    assert metrics.compute(s1).keys() <= computed <= metrics.METRICS.keys()
    compared = {"speedup", "time_reduction", "device_seconds_ratio", "speedup_target", "samples_to_target"}
    assert metrics.METRICS.keys() - computed == compared
    assert all(metric.formula and metric.unit and metric.population for metric in metrics.METRICS.values())


def test_figures_are_plain_json(record: RunRecord) -> None:
    assert json.loads(json.dumps(metrics.results(record), allow_nan=False)) == metrics.results(record)


def test_time_runs_from_run_start_to_the_last_commit(s1: ArmView, a1: ArmView) -> None:
    assert metrics.compute(s1)["t_work"] == pytest.approx(S1_WORK)
    assert metrics.compute(a1)["t_work"] == pytest.approx(0.391)
    assert metrics.compute(s1)["t_total"] == pytest.approx(0.607)
    assert metrics.compute(s1)["tenant_completion"]["each"]["math"] == pytest.approx(S1_WORK)


def test_utilization_of_two_rounds_of_sampling_and_training(s1: ArmView) -> None:
    figures = metrics.compute(s1)
    # two turns a round, each a prefill of 5 ms and a decode of 40
    assert figures["util_by_role"]["prefill"] == pytest.approx(4 * 0.005 / S1_WORK)
    assert figures["util_by_role"]["decode"] == pytest.approx(4 * 0.040 / S1_WORK)
    assert figures["util_by_role"]["train"] == pytest.approx(2 * 0.050 / S1_WORK)
    assert figures["util_busy"] == pytest.approx(0.280 / S1_WORK)
    # three quarters of the token slots held a token, and all that was sampled was consumed
    assert figures["util_useful"] == pytest.approx(0.75 * 0.280 / S1_WORK, rel=2e-3)
    quarters = {"prefill": 0.25, "decode": 0.25, "train": 0.25}
    assert figures["padding_waste"] == pytest.approx(quarters, abs=2e-3)


def test_a_second_idle_device_halves_utilization(s1: ArmView) -> None:
    one = metrics.compute(s1)["util_busy"]
    two = metrics.compute(dataclasses.replace(s1, devices=("cpu:0", "cpu:1")))["util_busy"]
    assert two == pytest.approx(one / 2)


def test_overlapping_spans_do_not_count_twice(s1: ArmView) -> None:
    doubled = dataclasses.replace(s1, spans=s1.spans + s1.spans)
    assert metrics.compute(doubled)["util_busy"] == pytest.approx(metrics.compute(s1)["util_busy"])


def test_evaluation_spans_stay_out_of_utilization(s1: ArmView) -> None:
    as_eval = tuple(span.model_copy(update={"role": "eval"}) for span in s1.spans)
    figures = metrics.compute(dataclasses.replace(s1, spans=as_eval))
    assert figures["util_busy"] == figures["util_useful"] == 0.0
    assert figures["util_by_role"]["eval"] == pytest.approx(0.280 / S1_WORK)


def test_where_the_learners_time_goes_adds_up(s1: ArmView) -> None:
    exposed = metrics.compute(s1)["exposed"]
    assert math.fsum(exposed.values()) == pytest.approx(1.0)
    assert exposed["train"] == pytest.approx(0.100 / S1_WORK)
    # each round's longest episode takes 101 ms, before training begins
    assert exposed["generation"] == pytest.approx(0.202 / S1_WORK)


def test_waiting_for_grades_alone_is_told_apart(s1: ArmView) -> None:
    """An episode that still has a turn to sample makes the wait one for generation."""
    rounds = {
        start: [r for r in s1.rollouts if r.t_start_ns == start]
        for start in {r.t_start_ns for r in s1.rollouts}
    }
    sampled = [max(t.t1_ns for r in own for t in r.turns if t.role == "policy") for own in rounds.values()]
    ended = [max(r.t_end_ns for r in own) for own in rounds.values()]
    graded = (sum(ended) - sum(sampled)) / 1e9
    assert 0 < graded < 0.202
    assert metrics.compute(s1)["exposed_verify_frac"] == pytest.approx(graded / S1_WORK)
    longer = s1.rollouts[0].model_copy(
        update={"turns": ()}
    )  # stopped before its first turn, and open until the end
    figures = metrics.compute(dataclasses.replace(s1, rollouts=(*s1.rollouts[1:], longer)))
    assert figures["exposed_verify_frac"] < graded / S1_WORK
    assert figures["exposed_gen_frac"] == pytest.approx(0.202 / S1_WORK)


def test_discarded_tokens_are_not_useful(s1: ArmView) -> None:
    stale = tuple(line.model_copy(update={"fate": "stale"}) for line in s1.rollouts)
    figures = metrics.compute(dataclasses.replace(s1, rollouts=stale))
    assert figures["goodput"] == 0.0
    assert figures["stale_discard_frac"] == 1.0
    assert figures["util_useful"] == pytest.approx(0.75 * 0.100 / S1_WORK, rel=2e-3)
    assert figures["ledger"]["math"]["rollouts"]["stale"] == 8


def test_an_episode_is_cut_short_by_whichever_budget(s1: ArmView) -> None:
    """Case mt-003: only those cut by the response's limit were counted, none of those cut by the context's."""
    assert metrics.compute(s1)["truncated_frac"] == 0.0
    stops = ["max_tokens", "context", "truncated", "terminated"] * (len(s1.rollouts) // 4)
    cut = [line.model_copy(update={"stop": stop}) for line, stop in zip(s1.rollouts, stops, strict=True)]
    assert metrics.compute(dataclasses.replace(s1, rollouts=tuple(cut)))["truncated_frac"] == 0.75
    failed = [line.model_copy(update={"error": "x"}) if line.stop == "terminated" else line for line in cut]
    assert metrics.compute(dataclasses.replace(s1, rollouts=tuple(failed)))["truncated_frac"] == 1.0
    all_context = [line.model_copy(update={"stop": "context"}) for line in s1.rollouts]
    assert metrics.compute(dataclasses.replace(s1, rollouts=tuple(all_context)))["truncated_frac"] == 1.0
    assert metrics.compute(dataclasses.replace(s1, rollouts=()))["truncated_frac"] is None


def test_staleness_is_weighted_by_tokens(a1: ArmView) -> None:
    # version 0 made both rounds: 40 tokens of each tenant at age 0, as many at age 1
    assert metrics.compute(a1)["staleness"] == {
        "mean": 0.5,
        "p50": 0,
        "p95": 1,
        "max": 1,
        "histogram": {"0": 120, "1": 120},
    }


def test_accuracy_counts_an_errored_item_as_wrong(s1: ArmView) -> None:
    first = next(line for line in s1.evals if line.tenant == "math" and line.eval_id == 1)
    evals = tuple(
        line.model_copy(update={"error": "timeout"}) if line is first else line for line in s1.evals
    )
    after = metrics.compute(dataclasses.replace(s1, evals=evals))["accuracy"]["math"]["after"]
    assert (after["accuracy"], after["n"], after["errored"]) == (0.75, 4, 1)


def test_without_updates_or_evals_nothing_is_made_up(s1: ArmView) -> None:
    empty = dataclasses.replace(s1, updates=(), evals=(), rollouts=(), spans=())
    figures = metrics.compute(empty)
    assert figures["accuracy"] == {}
    assert figures["staleness"]["mean"] is figures["is_ess"] is figures["straggler_ratio"] is None
    assert figures["util_busy"] == 0.0


def test_recompiles_come_from_run_stop_or_from_compile_events(s1: ArmView) -> None:
    stop = s1.events[-1].model_copy(update={"value": {"recompiles": {"train_step": 2, "decode": 1}}})
    assert work.compiled(dataclasses.replace(s1, events=(*s1.events[:-1], stop)))["recompiles"] == 3

    def compiled(t_ns: int, cached: bool) -> EventLine:
        value = {"fun_name": "f", "seconds": 1.0, "cached": cached}
        return EventLine(seq=0, t_ns=t_ns, arm="S1", seed=7, key="compile", value=value, prev="0" * 64)

    late = s1.start_ns + 1
    events = (compiled(s1.start_ns - 1, False), compiled(late, True), compiled(late, False))
    assert work.compiled(dataclasses.replace(s1, events=events))["recompiles"] == 1


def test_speedup_of_one_seed_has_no_interval(record: RunRecord) -> None:
    figures = metrics.results(record)["comparison"]
    assert figures["baseline"] == "S1"
    assert figures["arms"]["A1"]["speedup"] == pytest.approx(S1_WORK / 0.391)
    assert figures["arms"]["A1"]["low"] is None


def test_speedup_interval_by_hand() -> None:
    # log ratios log 2 and log 8: mean log 4, standard error log 2, t(1) = 12.7062
    found = pairing.speedup({1: 2.0, 2: 8.0}, {1: 1.0, 2: 1.0})
    assert found["speedup"] == pytest.approx(4.0)
    assert found["low"] == pytest.approx(4.0 / 2**12.7062047361747)
    assert found["high"] == pytest.approx(4.0 * 2**12.7062047361747)
    assert found["time_reduction"] == pytest.approx(0.75)


def test_only_seeds_of_both_arms_are_paired() -> None:
    assert pairing.speedup({1: 2.0, 2: 9.0}, {1: 1.0, 3: 1.0})["n"] == 1
    assert pairing.speedup({1: 2.0}, {2: 1.0})["speedup"] is None


def test_an_interrupted_arm_is_not_compared(run: Path) -> None:
    golden.edit_line(run, "events.jsonl", -1, lambda e: e.update(value={"status": "interrupted"}))
    assert metrics.results(RunRecord.open(run))["comparison"]["arms"] == {}
