from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench import table
from leaderboard.records import RunRecord
from tests.leaderboard import golden


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    return golden.build(tmp_path / "run")


def test_time_utilization_and_accuracy_recompute_from_the_lines_in_ten_lines(run_dir: Path) -> None:
    """Independent of `leaderboard`: json and arithmetic alone."""

    def lines(name: str) -> list[dict[str, Any]]:
        return [json.loads(text) for text in (run_dir / f"{name}.jsonl").read_text().splitlines()]

    for row in table.as_dict(RunRecord.open(run_dir))["arms"]:
        events, spans, updates, evals = (
            [line for line in lines(name) if line["arm"] == row["arm"]]
            for name in ("events", "spans", "updates", "evals")
        )
        start = next(e["t_ns"] for e in events if e["key"] == "run_start")
        stop = max(u["t1_ns"] for u in updates)
        inside = [(max(s["t0_ns"], start), min(s["t1_ns"], stop)) for s in spans if s["role"] != "eval"]
        busy, upto = 0, start
        for t0, t1 in sorted(inside):
            busy, upto = busy + max(0, t1 - max(t0, upto)), max(upto, t1)
        assert row["t_work_s"] == pytest.approx((stop - start) / 1e9)
        assert row["util_busy"] == pytest.approx(busy / (stop - start))
        for tenant, shown in row["accuracy"].items():
            for when, eval_id in (("before", 0), ("after", 1)):
                rewards = [e["reward"] for e in evals if (e["tenant"], e["eval_id"]) == (tenant, eval_id)]
                assert shown[when] == pytest.approx(sum(rewards) / len(rewards))


def test_speed_up_is_relative_to_the_synchronous_baseline(run_dir: Path) -> None:
    value = table.as_dict(RunRecord.open(run_dir))
    s1, a1 = value["arms"]
    assert value["baseline"] == "S1" and s1["speedup"] is None
    assert a1["speedup"] == pytest.approx(s1["t_work_s"] / a1["t_work_s"])


def test_every_arm_and_tenant_has_its_place(run_dir: Path) -> None:
    text = table.render(RunRecord.open(run_dir))
    for word in (
        "S1",
        "A1",
        "math",
        "code",
        "search",
        "speed-up",
        "util busy",
        "useful",
        "staleness",
        "1 (base)",
    ):
        assert word in text
    assert "50 % → 100 %" in text
    assert max(map(len, text.splitlines())) <= 110


@pytest.mark.parametrize(
    ("change", "label"),
    [
        ({}, "latency: SIMULATED (const:0.003: const, 0.003 s)"),
        ({}, "one seed: no interval"),
        ({}, "device class cpu-sim"),
        ({"limit_applied": True}, "LIMITED run"),
        (
            {"status": "interrupted", "status_reason": "stopped by SIGINT"},
            "status interrupted: stopped by SIGINT",
        ),
        ({"warnings": ["3 figures were not finite"]}, "3 figures were not finite"),
    ],
)
def test_what_limits_the_figures_stands_beneath_them(
    run_dir: Path, change: dict[str, Any], label: str
) -> None:
    golden.edit_header(run_dir, lambda header: header.update(change))
    assert label in table.render(RunRecord.open(run_dir))


def test_real_latency_is_not_called_simulated(run_dir: Path) -> None:
    golden.edit_header(run_dir, lambda header: header["latency"].update(simulated=False))
    assert "SIMULATED" not in table.render(RunRecord.open(run_dir))


def test_a_model_that_cannot_do_a_task_is_said_to(run_dir: Path) -> None:
    path = run_dir / "evals.jsonl"
    rows = [json.loads(text) for text in path.read_text().splitlines()]
    path.write_text("".join(golden.canonical.dumps(row | {"reward": 0.0}) + "\n" for row in rows))
    assert "accuracy about 0 for code, math, search" in table.render(RunRecord.open(run_dir))


def test_a_run_that_never_got_to_learn_still_has_a_table(run_dir: Path) -> None:
    for name in ("updates", "rollouts", "evals", "spans"):
        (run_dir / f"{name}.jsonl").write_text("")
    text = table.render(RunRecord.open(run_dir))
    assert "S1" in text and "A1" in text


def test_a_run_that_never_started_still_has_a_table(run_dir: Path) -> None:
    for name in ("events", "updates", "rollouts", "evals", "spans"):
        (run_dir / f"{name}.jsonl").write_text("")
    assert "arm" in table.render(RunRecord.open(run_dir))
