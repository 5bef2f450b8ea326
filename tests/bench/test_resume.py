"""A run that was stopped or killed goes on: nothing is lost that was committed, nothing is counted twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from bench import cli, compose
from bench.resume import Journal, drift
from leaderboard.records import RunRecord
from leaderboard.verify import verify
from tests.bench.conftest import Invoke
from tests.bench.fakes import ScriptedArms
from tests.bench.test_cli import RUN as SHORT

RUN = [*SHORT, "--updates", "4", "--out", "r"]
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def invoke(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Invoke:
    monkeypatch.chdir(tmp_path)

    def call(*argv: str) -> tuple[int, str, str]:
        code = cli.invoke(argv)
        said = capsys.readouterr()
        return code, said.out, said.err

    return call


def stop_at(arm: str, update: int) -> Callable[[str, int, int], None]:
    def hook(now: str, seed: int, k: int) -> None:
        if (now, k) == (arm, update):
            os.kill(os.getpid(), signal.SIGTERM)

    return hook


@pytest.fixture
def interrupted(invoke: Invoke, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A run stopped in its second arm, after two of four updates; from now on the wall clock is a minute later."""
    monkeypatch.setattr(compose, "run_arm", ScriptedArms(before_update=stop_at("A1", 2)))
    code, _, err = invoke(*RUN)
    assert code == 7, err
    assert "'bench resume r' goes on" in err
    assert (tmp_path / "r.state").is_dir()
    monkeypatch.setattr(compose, "run_arm", ScriptedArms())
    wall = time.time
    monkeypatch.setattr(time, "time", lambda: wall() + 60)
    return tmp_path / "r"


def whole(directory: Path) -> RunRecord:
    """The record, verified: ledgers close, versions count up, nothing occurs twice, nothing is missing."""
    report = verify(directory)
    assert report.ok, report.findings
    assert "W205" in {finding.code for finding in report.findings}
    return RunRecord.open(directory)


def test_an_interrupted_run_goes_on_from_its_last_update(
    invoke: Invoke, interrupted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = ScriptedArms()
    monkeypatch.setattr(compose, "run_arm", script)
    code, out, err = invoke("resume", "r")
    assert code == 0 and out.rstrip().endswith("record: r"), err
    assert (
        "1 of 2 (arm, seed) are done; A1 seed 0 goes on after step 2" in err and "count on the clock" in err
    )
    assert script.played == [("A1", 0)]
    record = whole(interrupted)
    (entry,) = record.header.resumed
    assert (entry.arm, entry.seed, entry.step) == ("A1", 0, 2) and entry.dropped_lines > 0
    assert entry.resumed_ns - entry.stopped_ns > 50 * 10**9
    view = record.view("A1", 0)
    assert view.stop_ns - view.start_ns > 50 * 10**9  # what stood still is on the clock
    assert [u.version_after for u in view.updates if u.tenant == "math"] == [1, 2, 3, 4]
    rows = [json.loads(line) for line in (interrupted / "metrics.jsonl").read_text().splitlines()]
    own = [row for row in rows if (row["arm"], row["tenant"]) == ("A1", "math") and "train/loss" in row]
    assert [(row["work/updates"], row["work/samples"]) for row in own] == [(n, 4 * n) for n in (1, 2, 3, 4)]
    assert not interrupted.with_name("r.state").exists()
    assert invoke("resume", "r")[0] == 2


def test_a_killed_run_goes_on_whatever_it_was_writing(invoke: Invoke, interrupted: Path) -> None:
    # as a kill leaves it: no seal, no end in run.json, torn last lines, half a file, half a checkpoint
    header = json.loads((interrupted / "run.json").read_text())
    header |= {"status": "running", "runs": [], "results": {}}
    (interrupted / "run.json").write_text(json.dumps(header))
    (interrupted / "manifest.json").unlink()
    for name in ("events.jsonl", "spans.jsonl", "rollouts.jsonl", "updates.jsonl", "metrics.jsonl"):
        with (interrupted / name).open("a") as stream:
            stream.write('{"arm":"A1","se')
    (interrupted / ".run.json.1.part").write_text("{")
    (interrupted.with_name("r.state") / "A1.s0" / "9.orbax-checkpoint-tmp").mkdir()
    assert invoke("resume", "r")[0] == 0
    whole(interrupted)


def test_without_a_whole_checkpoint_the_arm_begins_anew(invoke: Invoke, interrupted: Path) -> None:
    for mark in interrupted.with_name("r.state").glob("mark.*"):
        mark.unlink()
    code, _, err = invoke("resume", "r")
    assert code == 0 and "A1 seed 0 begins anew" in err
    record = whole(interrupted)
    assert [entry.step for entry in record.header.resumed] == [None]
    assert len([e for e in record.events if e.key == "run_start"]) == 2


def test_a_run_may_be_interrupted_again_and_again(
    invoke: Invoke, interrupted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wall = time.time
    for update in (2, 3):
        monkeypatch.setattr(compose, "run_arm", ScriptedArms(before_update=stop_at("A1", update)))
        assert invoke("resume", "r")[0] == 7
        monkeypatch.setattr(time, "time", lambda update=update: wall() + 60 * update)
    monkeypatch.setattr(compose, "run_arm", ScriptedArms())
    assert invoke(*RUN, "--resume")[0] == 0
    assert [entry.step for entry in whole(interrupted).header.resumed] == [2, 2, 3]


def test_another_configuration_is_refused_with_the_difference(invoke: Invoke, interrupted: Path) -> None:
    before = sorted((path.name, path.stat().st_size) for path in interrupted.rglob("*"))
    code, _, err = invoke(*RUN, "--resume", "--learning-rate", "0.5")
    # what follows from the setting, every tenant's own rate, is not told again
    assert code == 2 and "with something else: config.learning_rate: was 0.003, is 0.5 (hint" in err
    assert sorted((path.name, path.stat().st_size) for path in interrupted.rglob("*")) == before


def test_drift_of_code_data_and_machine_is_named_and_what_changes_nothing_is_not() -> None:
    before = {
        "config": {"updates": 2, "max_time": None},
        "software": {"jax": "1"},
        "tasks": {"a": {"version": "1"}},
    }
    assert drift(before, {**before, "config": {"updates": 2, "max_time": 3.0}}) == []
    assert drift(before, {**before, "software": {"jax": "2"}}) == ['software.jax: was "1", is "2"']
    long = drift(before, {**before, "software": {"jax": "2" * 1000}})
    assert len(long[0]) < 100 and long[0].endswith("2…")
    assert drift(before, {**before, "tasks": {}})[-1] == 'tasks.a.version: was "1", is null'


def test_two_processes_never_write_one_run(invoke: Invoke, interrupted: Path) -> None:
    journal = Journal(interrupted)
    code, _, err = invoke("resume", "r")
    assert code == 2 and "being written by another process" in err
    journal.close()


def test_a_refused_resumption_leaves_no_folder_behind(invoke: Invoke, tmp_path: Path) -> None:
    invoke(*RUN, "--out", "r")
    code, _, err = invoke("resume", "r")
    assert code == 2 and "has succeeded" in err
    assert not (tmp_path / "r.state").exists()


def test_nothing_to_resume_is_said_so(invoke: Invoke, tmp_path: Path) -> None:
    code, _, err = invoke("resume", "r")
    assert code == 2 and "holds no run.json" in err and not list(tmp_path.iterdir())


@pytest.mark.parametrize("cheat", ["hide", "fill"])
def test_verify_finds_a_resumption_that_is_hidden_or_filled(
    invoke: Invoke, interrupted: Path, cheat: str
) -> None:
    assert invoke("resume", "r")[0] == 0
    header = json.loads((interrupted / "run.json").read_text())
    if cheat == "hide":
        header["resumed"] = []
    else:
        header["resumed"][0]["stopped_ns"] = 0
    (interrupted / "run.json").write_text(json.dumps(header))
    assert "E135" in verify(interrupted).codes


@pytest.mark.slow
def test_kill_9_of_a_real_run_costs_what_came_after_its_last_checkpoint(tmp_path: Path) -> None:
    out = tmp_path / "r"
    argv = [
        *("--tasks", "add", "--arms", "A1", "--updates", "6", "--eval-items", "4", "--tracker", "none"),
        *("--set", "group_size=2", "--set", "groups_per_update=2", "--set", "checkpoint_s=0.001"),
    ]
    bench = [sys.executable, "-m", "bench"]
    process = subprocess.Popen([*bench, "run", *argv, "--out", str(out)], cwd=ROOT)
    folder = out.with_name("r.state")
    # two marks: the older one's checkpoint is whole, whatever the kill does to the newer one
    while process.poll() is None and len(list(folder.glob("mark.A1*"))) < 2:
        time.sleep(0.02)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    done = subprocess.run([*bench, "resume", str(out)], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "A1 seed 0 goes on after step" in done.stderr
    record = whole(out)
    assert [u.version_after for u in record.updates] == [1, 2, 3, 4, 5, 6]
