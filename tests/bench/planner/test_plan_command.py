"""`bench plan`: what it prints, and what it refuses."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bench.cli import invoke

SMALL = ["--devices", "4", "--tenants", "2", "--updates", "2", "--set", "groups_per_update=2",
         "--set", "group_size=2", "--set", "device=h100"]  # fmt: skip


def plan(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    code = invoke(["plan", *SMALL, *args])
    out = capsys.readouterr()
    return code, out.out, out.err


def test_every_figure_stands_under_the_word_simulated(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = plan(capsys)
    assert code == 0
    assert out.startswith("SIMULATED")
    assert "ASSUMED" in out
    assert [line.split()[0] for line in out.splitlines()[-6:-2]] == ["S0", "S1", "A0", "A1"]


def test_a_plan_that_asynchrony_does_not_help_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    assert "A1 gains nothing to speak of here: devices are " in plan(capsys)[1]
    slow = plan(capsys, "--latency", "const:30", "--tenants", "2", "--json")[1]
    a1 = json.loads(slow)["arms"][-1]
    assert a1["speedup"] > 1.1 and "remark" not in json.loads(slow)


def test_json_holds_scenario_sources_memory_and_figures(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = plan(capsys, "--json", "--set", "price_per_device_hour=2")
    value: dict[str, Any] = json.loads(out)
    assert code == 0
    assert value["schema"] == "bench.prediction/1"
    assert value["label"].startswith("SIMULATED")
    assert value["sources"]["device"].startswith("https://")
    for row in value["arms"]:
        assert row["updates"] == 4
        assert row["cost"] == pytest.approx(2 * row["device_hours"])
        assert row["util_busy"] == pytest.approx(sum(row["util_by_role"].values()))
    assert value["arms"][0]["staleness"]["max"] == 0
    assert (
        value["layout"]["memory_per_device"]["worst_bytes"]
        < value["layout"]["memory_per_device"]["limit_bytes"]
    )


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--device", "v7"], "unknown device 'v7'"),
        (["--model", "llama3-9b"], "did you mean 'llama3-8b'?"),
        (["--tenants", "90000"], "tenants fit"),
        (["--model", "llama3-405b"], "raise chips_per_replica"),
        (["--set", "slotts=3"], "did you mean 'slots'?"),
        (["--set", "slots=-1"], "slots = -1"),
        (["--set", "response_tokens=900"], "must ascend"),
        (["--latency", "const:-1"], "const must be between 0"),
        (["--learner-share", "0.5", "--devices", "1"], "fewer than two replicas"),
        (["--arms", "S1,B2"], "Arm 'B2' not found"),
        (["--set", "nothing"], "key=value"),
    ],
)
def test_what_cannot_work_is_refused_with_a_reason(
    capsys: pytest.CaptureFixture[str], args: list[str], said: str
) -> None:
    code, out, err = plan(capsys, *args)
    assert code == 2
    assert out == ""
    assert said in err
    assert err.count("\n") == 1
