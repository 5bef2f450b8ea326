from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench import compose, estimate
from bench.planner import fit
from bench.planner.simulate import simulate
from leaderboard.records import RunRecord
from tests.bench.conftest import Invoke
from tests.bench.fakes import ScriptedArms
from tests.bench.test_cli import RUN


def planned(invoke: Invoke, *flags: str) -> dict[str, Any]:
    code, out, err = invoke(*RUN, "--dry-run", "--json", *flags)
    assert code == 0, err
    return json.loads(out)["time"]


def test_records_beside_the_run_give_seconds_per_arm_that_are_the_planners(invoke: Invoke) -> None:
    assert invoke(*RUN, "--out", "runs/a")[0] == 0
    found = planned(invoke, "--updates", "3", "--seeds", "2", "--no-aa")
    record = RunRecord.open("runs/a")
    config = fit.config_of(record).model_copy(update={"updates": 3, "seeds": 2})
    expected = {arm: simulate(fit.setup_of(config, arm, 0, [record])).t_work_s for arm in ("S1", "A1")}
    assert found["seconds_per_seed"] == pytest.approx(expected)
    assert found["seconds"] == pytest.approx(2 * sum(expected.values()))
    assert found["fitted_on"] == ["runs/a"]
    assert "SIMULATED" in found["label"] and "docs/planning.md" in found["accuracy"]


def test_a_long_run_is_scaled_from_its_first_updates(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    assert invoke(*RUN, "--out", "runs/a")[0] == 0
    whole = planned(invoke, "--updates", "8")["seconds"]
    monkeypatch.setattr(estimate, "MAX_EPISODES", 4 * 8)  # two tenants, 2 groups of 2: four updates
    assert planned(invoke, "--updates", "8")["seconds"] == pytest.approx(whole, rel=0.3)


def test_without_a_record_that_fits_there_is_no_estimate_and_why_is_said(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "no finished record" in planned(invoke)["why_not"]
    assert "no estimate: " in invoke(*RUN, "--dry-run")[1]
    monkeypatch.setattr(compose, "run_arm", ScriptedArms(all_errored=True))
    assert invoke(*RUN, "--out", "runs/failed")[0] == 1
    Path("runs/broken").mkdir()
    Path("runs/broken/run.json").write_text("{")
    assert "seconds" not in planned(invoke)


def test_the_accuracy_that_is_quoted_is_the_pages() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "planning.md").read_text()
    assert "4 to 46 % (median 21 %)" in page and "4 to 46 % (median 21 %)" in estimate.ACCURACY


def test_a_named_record_that_says_nothing_about_the_run_is_refused(invoke: Invoke) -> None:
    assert invoke(*RUN, "--out", "elsewhere/a")[0] == 0
    assert "why_not" in planned(invoke)
    assert planned(invoke, "--fit", "elsewhere/a")["seconds"] > 0
    code, _, err = invoke("run", "--tasks", "code", "--dry-run", "--fit", "elsewhere/a")
    assert code == 2 and "it has no episode of Code/Predict-v0" in err
    code, _, err = invoke(*RUN, "--fit", "elsewhere/a")
    assert code == 2 and "--fit without --dry-run" in err
