"""Figures that need the whole record: by hand, and null where the record can't give them."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from leaderboard import metrics
from leaderboard.metrics import across, flops
from leaderboard.records import ArmView, RunRecord
from tests.leaderboard import golden


def curve(*accuracies: float, every: float = 10.0) -> dict[str, Any]:
    points = [{"t_s": i * every, "samples": 8 * i, "accuracy": a, "n": 100} for i, a in enumerate(accuracies)]
    return {"accuracy": {"math": {"curve": points}}}


@pytest.fixture(scope="module")
def record(golden_run: Path) -> RunRecord:
    return RunRecord.open(golden_run)


def named(record: RunRecord, arm: str, seed: int = 0) -> ArmView:
    return dataclasses.replace(record.views[0], arm=arm, seed=seed)


def test_the_target_is_where_the_baseline_ends_less_two_points(record: RunRecord) -> None:
    s1 = [(named(record, "S1", s), curve(0.2, 0.5, end)) for s, end in enumerate((0.6, 0.8, 0.7))]
    a1 = [(named(record, "A1"), curve(0.2, 0.9, 0.9))]
    assert across.targets(a1 + s1) == {"math": pytest.approx(0.68)}
    # without S1 the first arm is the baseline
    assert across.targets(a1) == {"math": pytest.approx(0.88)}
    # nothing learnt, or evaluated twice only: no target
    assert across.targets([(named(record, "S1"), curve(0.6, 0.6, 0.63))]) == {}
    assert across.targets([(named(record, "S1"), curve(0.2, 0.9))]) == {}
    assert across.targets([]) == {}


def test_a_target_fixed_before_the_run_takes_the_place_of_the_rule(record: RunRecord) -> None:
    first, *others = record.header.tenants
    header = record.header.model_copy(update={"tenants": [first.model_copy(update={"target": 0.4}), *others]})
    runs = [(named(record, "S1"), curve(0.1, 0.5, 0.7))]
    assert across.aims_of(record.header, runs) == {"math": pytest.approx(0.68)}
    assert across.aims_of(header, runs) == {"math": pytest.approx(0.68), first.tenant: 0.4}


def test_time_to_target_is_an_interval_on_three_axes() -> None:
    found = across.t_target(curve(0.1, 0.5, 0.7, 0.8), {"math": 0.6}, devices=2)["math"]
    assert (found["reached"], found["censored"], found["target"]) == (True, False, 0.6)
    assert found["seconds"] == {"low": 10.0, "high": 20.0, "estimate": 15.0}
    assert found["device_seconds"] == {"low": 20.0, "high": 40.0, "estimate": 30.0}
    assert found["samples"] == {"low": 8, "high": 16, "estimate": 12.0}
    never = across.t_target(curve(0.1, 0.7, 0.5), {"math": 0.6}, devices=2)["math"]
    assert never["seconds"] == {"low": None, "high": None, "estimate": None} and not never["reached"]


def test_evaluations_out_of_order_have_no_time_to_target() -> None:
    figures = curve(0.1, 0.5, 0.7, 0.8)
    figures["accuracy"]["math"]["curve"][3]["samples"] = 1
    assert across.t_target(figures, {"math": 0.6}, devices=2) == {}


def test_an_arm_that_never_gets_there_is_counted_and_has_no_ratio(record: RunRecord) -> None:
    def run(arm: str, seed: int, seconds: float | None) -> tuple[ArmView, dict[str, Any]]:
        own = {"seconds": {"estimate": seconds}, "censored": False}
        return named(record, arm, seed), {"t_target": {"math": own}}

    runs = [run("S1", 0, 40.0), run("S1", 1, 40.0), run("A1", 0, 20.0), run("A1", 1, 10.0)]
    found = across.reached(runs, ["A1"], "S1")["A1"]["math"]
    # log ratios log 2 and log 4
    assert found["speedup"] == pytest.approx(8**0.5)
    assert (found["n"], found["lost"], found["won"]) == (2, 0, 0) and found["low"] is not None
    lost = across.reached([*runs[:3], run("A1", 1, None)], ["A1"], "S1")["A1"]["math"]
    assert (lost["speedup"], lost["low"], lost["n"], lost["lost"], lost["won"]) == (None, None, 2, 1, 0)
    won = across.reached([run("S1", 0, None), *runs[1:]], ["A1"], "S1")["A1"]["math"]
    assert (won["speedup"], won["lost"], won["won"]) == (None, 0, 1)


def test_slowdown_and_fairness_by_hand() -> None:
    each = {"tenant_completion": {"each": {"math": 20.0, "code": 30.0}}}
    found = across.slowdown(each, {"math": 10.0, "code": 10.0})
    assert found["tenant_slowdown"] == {"each": {"math": 2.0, "code": 3.0}, "mean": 2.5, "max": 3.0}
    # rates 1/2 and 1/3: (5/6)^2 / (2 * 13/36)
    assert found["jain_fairness"] == pytest.approx(25 / 26)
    assert across.slowdown(each, {"math": 20.0, "code": 30.0})["jain_fairness"] == pytest.approx(1.0)
    assert across.slowdown(each, None)["jain_fairness"] is None


def test_alone_is_a_tenants_own_stretch(record: RunRecord) -> None:
    s1 = record.view("S1", 7)
    # first rollout at run_start, last commit at 591 ms
    assert across.own_stretch(s1)["math"] == pytest.approx(0.591)
    views = [dataclasses.replace(s1, arm="S0"), record.view("A1", 7)]
    whole = RunRecord(record.directory)
    vars(whole)["views"] = views
    s0, a1 = across.across(whole, [metrics.compute(view) for view in views])
    assert s0["jain_fairness"] is None
    assert a1["tenant_slowdown"]["each"]["math"] == pytest.approx(0.391 / 0.591)


def test_ranks_that_differ_leave_room_empty() -> None:
    assert across.rank_pad_waste([{"rank": 8}, {"rank": 8}]) == 0.0
    # 1 - (4 + 8 + 16) / (3 * 16)
    assert across.rank_pad_waste([{"rank": 4}, {"rank": 8}, {"rank": 16}]) == pytest.approx(20 / 48)
    assert across.rank_pad_waste([{"rank": 4}, None]) is None and across.rank_pad_waste([]) is None


def test_a_trained_token_takes_4_base_and_6_lora(record: RunRecord) -> None:
    s1 = record.view("S1", 7)
    updates = tuple(u.model_copy(update={"real_tokens": 60}) for u in s1.updates[:2])
    first = s1.spans[0]
    at = {"t0_ns": s1.start_ns, "t1_ns": s1.start_ns + 1, "executed_slots": 400, "real_tokens": 300}
    spans = tuple(
        first.model_copy(update=at | {"role": role}) for role in ("prefill", "decode", "eval", "train")
    )
    few = dataclasses.replace(s1, updates=updates, spans=spans)
    # two updates of 60 tokens, a prefill and a decode of 300; evaluation and padding do not count
    by_hand = 2 * 60 * (4 * 1000 + 6 * 16) + 2 * 300 * 2 * (1000 + 16)
    assert flops.model_flops(few, 1000, dict.fromkeys(golden.TENANTS, 16)) == pytest.approx(by_hand)
    # the adapters of the golden run have factors 4x2 and 2x4
    assert flops.lora_parameters(record.directory, "S1", 7, "math") == 16
    assert flops.lora_parameters(record.directory, "S1", 7, "nobody") is None


def test_mfu_needs_a_known_peak(record: RunRecord) -> None:
    s1, header = record.view("S1", 7), record.header
    unknown = flops.mfu(s1, header, record.directory)
    assert unknown["value"] is None and "no peak is known of cpu" in unknown["reason"]
    h200 = header.devices[0].model_copy(update={"kind": "NVIDIA H200"})
    known = flops.mfu(s1, header.model_copy(update={"devices": [h200, h200]}), record.directory)
    assert known["reason"] is None
    assert known["value"] == pytest.approx(unknown["flops_per_s"] / (2 * 494.7e12))
    assert flops.peak("NVIDIA A100-SXM4-80GB", "bfloat16") == 312e12
    assert flops.peak("NVIDIA A100-SXM4-80GB", "int8") is flops.peak("TPU v9", "bfloat16") is None


def test_peak_memory_and_recompiles_by_function_come_from_run_stop(record: RunRecord) -> None:
    s1 = record.view("S1", 7)
    assert metrics.compute(s1)["peak_mem"] is None
    told = {"status": "success", "recompiles": {"train_step": 2, "decode": 0}, "peak_bytes": {"cuda:0": 7}}
    stop = s1.events[-1].model_copy(update={"value": told})
    figures = metrics.compute(dataclasses.replace(s1, events=(*s1.events[:-1], stop)))
    assert (figures["recompiles"], figures["recompiles_by_function"]) == (2, {"train_step": 2})
    assert figures["peak_mem"] == {"cuda:0": 7}


def test_importance_weights_are_weighted_by_tokens(record: RunRecord) -> None:
    s1 = record.view("S1", 7)
    first = s1.updates[0].model_copy(
        update={
            "is_ess": 0.4,
            "max_is_weight": 1.8,
            "rejected_fraction": 0.1,
            "logprob_gap": 0.2,
            "loss_tokens": 120,
        }
    )
    second = s1.updates[1].model_copy(update={"is_ess": 0.8, "rejected_fraction": None, "loss_tokens": 40})
    figures = metrics.compute(dataclasses.replace(s1, updates=(first, second)))
    assert figures["is_ess"] == pytest.approx((0.4 * 120 + 0.8 * 40) / 160)
    assert (figures["max_is_weight"], figures["masked_frac"]) == (1.8, pytest.approx(0.1))
    assert figures["sampler_gap"] == pytest.approx(0.2 * 120 / 160)
    assert figures["publish_lag"] == {"mean": pytest.approx(0.001), "p95": pytest.approx(0.001)}
