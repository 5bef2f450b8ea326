"""What has to hold of every record's figures, whatever its lines: sums, bounds and closing ledgers."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leaderboard import metrics
from leaderboard.metrics.work import FATES
from leaderboard.records import ArmView, RunRecord
from leaderboard.schema import SpanLine

MS = 1_000_000
ROLES = ("prefill", "decode", "train", "sync", "eval")


@pytest.fixture(scope="module")
def view(golden_run: Path) -> ArmView:
    return RunRecord.open(golden_run).view("A1", 7)


@st.composite
def lines(draw: st.DrawFn) -> dict[str, Any]:
    """Spans that overlap and leave the window, fates and ages at will; times in ms after run_start."""
    spans = draw(
        st.lists(
            st.tuples(
                st.sampled_from(ROLES),
                st.integers(-50, 500),
                st.integers(1, 300),
                st.integers(1, 100),
                st.floats(0, 1),
                st.sampled_from(["cpu:0", "cpu:1"]),
            ),
            max_size=12,
        )
    )
    return {
        "spans": spans,
        "fates": draw(st.lists(st.sampled_from(FATES), min_size=1, max_size=8)),
        "ages": draw(st.dictionaries(st.integers(0, 5), st.integers(0, 50), max_size=4)),
    }


def built(view: ArmView, made: dict[str, Any]) -> ArmView:
    spans = tuple(
        SpanLine(
            arm=view.arm,
            seed=view.seed,
            device=device,
            role=role,
            t0_ns=view.start_ns + max(-999, start) * MS,
            t1_ns=view.start_ns + (start + length) * MS,
            tenants=["math"],
            executed_slots=slots,
            real_tokens=int(share * slots),
        )
        for role, start, length, slots, share, device in made["spans"]
    )
    fates = made["fates"]
    rollouts = tuple(
        line.model_copy(update={"fate": fates[i % len(fates)]}) for i, line in enumerate(view.rollouts)
    )
    ages = {str(age): count for age, count in made["ages"].items()}
    updates = tuple(line.model_copy(update={"staleness": ages}) for line in view.updates)
    return dataclasses.replace(
        view, spans=spans, rollouts=rollouts, updates=updates, devices=("cpu:0", "cpu:1")
    )


@given(made=lines())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_sums_bounds_and_ledgers(view: ArmView, made: dict[str, Any]) -> None:
    figures = metrics.compute(built(view, made))
    roles = figures["util_by_role"]
    assert sum(share for role, share in roles.items() if role != "eval") == pytest.approx(
        figures["util_busy"]
    )
    assert 0 <= figures["util_useful"] <= figures["util_busy"] + 1e-12 <= sum(roles.values()) + 2e-12
    assert sum(roles.values()) <= 1 + 1e-12

    names = ("learner_train_frac", "exposed_sync_frac", "exposed_eval_frac", "exposed_gen_frac", "other_frac")
    assert math.fsum(figures[name] for name in names) == pytest.approx(1.0)
    assert sorted(figures[name] for name in names) == sorted(figures["exposed"].values())
    assert all(0 <= figures[name] <= 1 + 1e-12 for name in names)
    assert 0 <= figures["exposed_verify_frac"] <= figures["exposed_gen_frac"] + 1e-12

    for own in figures["ledger"].values():
        for counts in own.values():
            assert counts["generated"] == sum(counts[fate] for fate in FATES)
    tokens = [own["tokens"] for own in figures["ledger"].values()]
    generated, consumed = (sum(t[fate] for t in tokens) for fate in ("generated", "consumed"))
    assert figures["goodput"] == pytest.approx(consumed / generated)
    assert figures["throughput_generated"] * figures["t_work"] == pytest.approx(generated)
    stale = sum(own["rollouts"]["stale"] for own in figures["ledger"].values())
    assert figures["stale_discard_frac"] == pytest.approx(stale / len(view.rollouts))

    ages = figures["staleness"]
    if ages["mean"] is not None:
        assert ages["p50"] <= ages["p95"] <= ages["max"] and 0 <= ages["mean"] <= ages["max"]
    assert all(0 <= waste <= 1 for waste in figures["padding_waste"].values())
    assert figures["straggler_ratio"] >= 1
    assert figures["device_seconds"] == pytest.approx(2 * figures["t_work"])
    assert figures["ttfu"]["mean"] <= figures["t_work"] and figures["ttfu"]["p95"] <= figures["t_work"]
    assert figures["recompiles"] == sum(figures["recompiles_by_function"].values())
    for own in figures["accuracy"].values():
        assert all(p["low"] <= p["accuracy"] <= p["high"] and 0 <= p["coverage"] <= 1 for p in own["curve"])
    json.dumps(figures, allow_nan=False)
