"""The end table says what was measured, what was simulated and what it can't tell."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.table import as_dict, render
from leaderboard.records import RunRecord
from tests.leaderboard import golden


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return golden.build(tmp_path / "run")


def text(run: Path) -> str:
    return render(RunRecord.open(run))


def test_rows_hold_time_speedup_and_accuracy(run: Path) -> None:
    table = as_dict(RunRecord.open(run))
    # two rounds of 300 ms (S1) and 200 ms (A1); the last update ends 10 ms early, one ms lies between rounds
    assert table["arms"]["S1"]["t_work"] == pytest.approx(0.591)
    assert table["arms"]["A1"]["t_work"] == pytest.approx(0.391)
    assert table["baseline"] == "S1"
    assert table["arms"]["S1"]["speedup"]["speedup"] == 1.0
    assert table["arms"]["A1"]["speedup"]["speedup"] == pytest.approx(0.591 / 0.391)
    assert table["arms"]["S1"]["padding"] == {"train": 0.25, "decode": 0.25, "prefill": None}
    assert table["arms"]["A1"]["staleness"] == {"mean": 0.5, "max": 1}
    assert table["arms"]["A1"]["accuracy"]["math"]["after"] == 1.0
    assert json.loads(json.dumps(table, allow_nan=False)) == table


def test_what_is_simulated_or_does_not_transfer_is_said(run: Path) -> None:
    said = text(run)
    assert "latency: SIMULATED (remote-tools: lognormal, 0.4 s)" in said
    assert "device class cpu-sim: ratios do not transfer to accelerators" in said
    assert "one seed: no interval" in said
    assert "LIMITED" not in said
    assert "scored about 0" not in said


def test_nothing_is_called_simulated_that_is_not(run: Path) -> None:
    golden.edit_header(run, lambda h: h["latency"].update(profile="none", simulated=False))
    golden.edit_header(run, lambda h: h.update(device_class="gpu"))
    said = text(run)
    assert "SIMULATED" not in said
    assert "do not transfer" not in said


def test_a_limited_run_is_called_so(tmp_path: Path) -> None:
    assert "LIMITED run" in text(golden.build(tmp_path / "run", limit_applied=True))


def test_two_seeds_give_an_interval(tmp_path: Path) -> None:
    said = text(golden.build(tmp_path / "run", seeds=(7, 8)))
    assert "1.51 [1.51, 1.51]" in said
    assert "no interval" not in said


def test_a_task_that_scored_nothing_is_named(run: Path) -> None:
    path = run / "evals.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        if line["tenant"] == "code":
            line["reward"] = 0.0
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert "code (Code/Predict-v0) scored about 0 with model embedded" in text(run)
    assert as_dict(RunRecord.open(run))["scored_about_zero"] == ["code"]


def test_an_unfinished_arm_has_no_speedup_and_its_reason(run: Path) -> None:
    golden.edit_header(run, lambda h: h.update(status="interrupted", status_reason="Ctrl-C"))
    golden.edit_header(run, lambda h: h["runs"][1].update(status="interrupted", reason="stopped by Ctrl-C"))
    golden.edit_line(run, "events.jsonl", -1, lambda e: e["value"].update(status="interrupted"))
    said = text(run)
    assert "interrupted" in said.splitlines()[0]
    assert "A1, seed 7 ended with interrupted: stopped by Ctrl-C" in said
    assert as_dict(RunRecord.open(run))["arms"]["A1"]["speedup"]["speedup"] is None


def test_a_run_that_never_started_has_a_table_without_rows(run: Path) -> None:
    for name in ("events", "spans", "rollouts", "updates", "evals"):
        (run / f"{name}.jsonl").write_text("")
    golden.edit_header(run, lambda h: h.update(status="error", status_reason="no\x1b[2J memory", runs=[]))
    said = text(run)
    assert "no [2J memory" in said
    assert "\x1b" not in said


def test_it_fits_a_hundred_columns(tmp_path: Path) -> None:
    run = golden.build(tmp_path / "run", seeds=(7, 8, 9))
    golden.edit_header(run, lambda h: h.update(status_reason="word " * 60))
    golden.edit_header(run, lambda h: h["latency"].update(description="long " * 40))
    assert max(map(len, text(run).splitlines())) <= 100
