from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import bench.run
from bench.errors import RecordingError, UsageError
from bench.run import Stop, order, ulid
from bench.trackers.base import Conclusion, Mirrored
from bench.writer import LineFile
from leaderboard.verify import verify
from tests.bench.fakes import ScriptedArms
from tests.leaderboard import golden
from tunix_core.errors import StalledError


def test_a_whole_run_passes_every_check_of_verification(record_run: Any) -> None:
    record = record_run("seeds=2")
    report = verify(record.directory)
    assert report.codes == ()
    assert record.header.status == "success"
    # 2 arms, 2 seeds, 2 tenants: 8 rollouts and 2 evaluations of 4 items each
    assert sum(report.checked.values()) == 8 * (8 + 2 * 4)


def test_arms_alternate_their_order_from_seed_to_seed(record_run: Any) -> None:
    assert order(["S1", "A1"], 3) == [("S1", 0), ("A1", 0), ("A1", 1), ("S1", 1), ("S1", 2), ("A1", 2)]
    script = ScriptedArms()
    record = record_run("seeds=2", script=script)
    assert script.played == order(["S1", "A1"], 2) == record.header.order


def test_an_a_a_pair_is_recorded_as_an_arm_that_repeats_the_baseline(record_run: Any) -> None:
    script = ScriptedArms()
    record = record_run("seeds=2", "aa=true", script=script)
    assert script.played == [("S1", 0), ("A1", 0), ("S1-aa", 0), ("S1-aa", 1), ("A1", 1), ("S1", 1)]
    assert script.played == record.header.order
    assert [(a.arm, a.repeats) for a in record.header.arms] == [("S1", None), ("A1", None), ("S1-aa", "S1")]
    assert verify(record.directory).codes == ()


def test_a_repeat_with_a_timetable_of_its_own_is_no_repeat(record_run: Any) -> None:
    record = record_run("aa=true")
    golden.edit_header(record.directory, lambda h: h["arms"][2].update(step_barrier=False))
    golden.recompute(record.directory)
    assert verify(record.directory).codes == ("E122",)


def test_what_a_process_does_once_is_done_before_the_first_clock(record_run: Any) -> None:
    done = {"seconds": 1.0, "compile_s": 0.5, "compile_cache_hits": 3, "programs_compiled": 4}
    calls: list[str] = []
    script = ScriptedArms(before_update=lambda arm, seed, k: calls.append(arm))
    record = record_run(script=script, warm_up=lambda prepared, stop: calls.append("warm") or done)
    assert calls == ["warm", *["S1"] * 2, *["A1"] * 2]
    assert record.header.warmup is not None and record.header.warmup.model_dump() == done


def test_a_run_of_one_arm_has_nobody_to_be_fair_to(record_run: Any) -> None:
    record = record_run("arms=S1", warm_up=lambda prepared, stop: pytest.fail("warmed up"))
    assert record.header.warmup is None


def test_ids_are_sortable_and_differ() -> None:
    ids = [ulid() for _ in range(100)]
    assert len(set(ids)) == 100
    assert all(len(i) == 26 for i in ids)
    assert ids[0][:9] <= ids[-1][:9]


def stopping_at(stop: Stop, arm: str, update: int) -> ScriptedArms:
    def before(this: str, seed: int, k: int) -> None:
        if (this, k) == (arm, update):
            stop.signal = signal.SIGINT

    return ScriptedArms(before_update=before)


def test_an_interrupted_run_leaves_a_readable_sealed_directory(record_run: Any) -> None:
    stop = Stop()
    record = record_run(script=stopping_at(stop, "A1", 1), stop=stop)
    assert record.header.status == "interrupted"
    assert record.header.status_reason == "stopped by SIGINT during A1 seed 0"
    assert [(r.arm, r.status) for r in record.header.runs] == [("S1", "success"), ("A1", "interrupted")]
    assert [len(view.updates) for view in record.views] == [4, 2]
    # less was done than planned; what was done is consistent
    assert verify(record.directory).codes == ("E123", "E155", "E164")


def test_an_interrupt_between_two_arms_starts_no_other(record_run: Any) -> None:
    stop = Stop(signal=signal.SIGTERM)
    script = ScriptedArms()
    record = record_run(script=script, stop=stop)
    assert script.played == []
    assert record.header.status_reason == "stopped by SIGTERM before S1 seed 0"


def raising(error: BaseException, arm: str = "A1") -> ScriptedArms:
    def before(this: str, seed: int, k: int) -> None:
        if (this, k) == (arm, 1):
            raise error

    return ScriptedArms(before_update=before)


def test_a_second_interrupt_inside_an_arm_still_seals_the_record(record_run: Any) -> None:
    record = record_run(script=raising(KeyboardInterrupt()), stop=Stop(signal=None))
    assert record.header.status == "interrupted"
    assert [r.arm for r in record.header.runs] == ["S1"]
    assert len(record.view("A1", 0).updates) == 2
    assert (record.directory / "manifest.json").is_file()


def test_a_stalled_arm_ends_the_run_with_its_reason(record_run: Any) -> None:
    record = record_run(script=raising(StalledError("no progress for 120 s; waiting for math group 3")))
    assert record.header.status == "error"
    assert record.header.status_reason == (
        "A1 seed 0: StalledError: no progress for 120 s; waiting for math group 3"
    )


def test_a_defect_is_recorded_and_then_raised(record_run: Any, tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        record_run(script=raising(ZeroDivisionError("division by zero")))
    header = json.loads((tmp_path / "run" / "run.json").read_text())
    assert header["status"] == "error"
    assert header["status_reason"] == "A1 seed 0: ZeroDivisionError: division by zero"
    assert (tmp_path / "run" / "manifest.json").is_file()


def test_a_run_whose_every_rollout_errored_is_no_success(record_run: Any) -> None:
    record = record_run(script=ScriptedArms(all_errored=True))
    assert record.header.status == "error"
    assert "all of them errored" in record.header.status_reason


def test_max_time_stops_in_order(record_run: Any) -> None:
    now = iter(range(1000))
    stop = Stop(max_time_s=4.0, clock=lambda: float(next(now)))
    record = record_run(stop=stop)
    assert record.header.status == "interrupted"
    assert "max_time 4 s" in record.header.status_reason


def test_a_full_disk_ends_the_run_with_a_readable_record(
    record_run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = 0
    append = LineFile.append

    def full(self: LineFile, line: bytes) -> None:
        nonlocal written
        written += 1
        if written > 60:
            raise OSError(28, "No space left on device", "rollouts.jsonl")
        append(self, line)

    monkeypatch.setattr(LineFile, "append", full)
    record = record_run()
    assert record.header.status == "error"
    assert "rollouts.jsonl cannot be written: No space left on device" in record.header.status_reason
    assert len(record.rollouts) > 0
    assert RecordingError.exit_code == 1


def test_a_header_that_cannot_be_made_leaves_nothing(
    record_run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> Any:
        raise ModuleNotFoundError("No module named 'jax'", name="jax")

    monkeypatch.setattr("bench.compose.devices", missing)
    with pytest.raises(ModuleNotFoundError):
        record_run(out=tmp_path / "deep" / "run")
    assert not (tmp_path / "deep").exists()


def test_a_device_library_that_loads_slowly_looks_like_no_pause_of_the_clock(
    record_run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    skipped_ns = 0

    def slow() -> Any:
        nonlocal skipped_ns
        skipped_ns = 5_000_000_000
        return [{"id": "cpu:0", "kind": "cpu", "memory_bytes": None}], "cpu-sim"

    real_time, real_ns = time.time, bench.run.clock_ns
    monkeypatch.setattr("bench.run.time.time", lambda: real_time() + skipped_ns / 1e9)
    monkeypatch.setattr("bench.run.clock_ns", lambda: real_ns() + skipped_ns)
    monkeypatch.setattr("bench.compose.devices", slow)
    assert "E131" not in verify(record_run().directory).codes


def test_nothing_is_ever_overwritten(record_run: Any, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "mine.txt").write_text("mine")
    with pytest.raises(UsageError, match="not empty"):
        record_run()
    assert [p.name for p in (tmp_path / "run").iterdir()] == ["mine.txt"]


def test_secrets_stay_out_of_the_record(record_run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_API_KEY", "0123456789abcdef0123")
    monkeypatch.setenv("HOME", "/home/somebody")
    command = [
        "bench",
        "run",
        "--set",
        "data=https://me:pass@host/x",
        "0123456789abcdef0123",
        "/home/somebody/d",
    ]
    record = record_run("data=/home/somebody/data", command=command)
    text = (record.directory / "run.json").read_text()
    assert "0123456789abcdef" not in text
    assert "me:pass" not in text
    assert "somebody" not in text
    assert record.header.command[-1] == "~/d"


def test_figures_that_are_not_finite_are_null_and_said(record_run: Any) -> None:
    record = record_run(script=ScriptedArms(loss=float("inf")))
    assert {u.loss for u in record.updates} == {None}
    assert any("not finite" in w for w in record.header.warnings)


def test_limit_marks_the_record(record_run: Any) -> None:
    assert record_run(limit_applied=True).header.limit_applied


def test_simulated_latency_is_called_simulated(record_run: Any) -> None:
    latency = record_run("latency=const:0.01").header.latency
    assert (latency.profile, latency.simulated) == ("const:0.01", True)
    assert latency.description.startswith("simulated")


class Rows:
    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.summary: dict[str, Any] = {}

    def log(self, row: Any) -> None:
        self.rows.append(dict(row))

    def conclude(self, make: Callable[[], Conclusion]) -> None:
        self.summary = dict(make().summary)

    def finish(self, status: str) -> Mirrored:
        return Mirrored(status=f"ok ({status})", rows=len(self.rows))


def test_the_tracker_gets_the_rows_of_the_record_and_no_others(record_run: Any) -> None:
    tracker = Rows()
    record = record_run(tracker=tracker)
    lines = (record.directory / "metrics.jsonl").read_text().splitlines()
    assert tracker.rows == [json.loads(line) for line in lines]
    # per arm: two tenants with two updates and two evaluations each
    assert len(tracker.rows) == 2 * 2 * (2 + 2)
    assert record.header.tracker == {"name": "none", "status": "ok (success)", "rows": 16, "dropped": 0}
    assert tracker.summary["A1.s0"]["headline/speedup"] > 1
    scores = [
        r["eval/accuracy"]
        for r in tracker.rows
        if (r["arm"], r["tenant"]) == ("A1", "math") and "eval/id" in r
    ]
    assert scores == [0.75, 1.0]
