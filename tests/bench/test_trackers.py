from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bench import export, trackers
from bench.errors import DependencyError
from bench.export import export_wandb
from bench.trackers import check, chosen, open_tracker
from bench.trackers.base import NoTracker, Threaded
from bench.trackers.wandb import mode
from leaderboard.records import RunRecord
from tests.bench import wandb_reader

ROOT = Path(__file__).resolve().parents[2]
META = {"run_id": "01ABC", "config": {"updates": 2, "tasks": ["math"]}, "arms": ["S1", "A1"]}


class Fake:
    """A backend that keeps what it gets, and raises or waits where it is told to."""

    def __init__(self, *, raises: str = "", holds: str = "") -> None:
        self.raises, self.holds = raises, holds
        self.holding, self.release = threading.Event(), threading.Event()
        self.calls: list[tuple[str, Any]] = []

    def _call(self, name: str, value: Any) -> None:
        if self.holds == name:
            self.holding.set()
            self.release.wait()
        self.calls.append((name, value))
        if self.raises == name:
            raise RuntimeError(f"no {name}\nfor you")

    def start(self) -> None:
        self._call("start", None)

    def log(self, row: Mapping[str, Any]) -> None:
        self._call("log", row["n"])

    def summary(self, values: Mapping[str, Any]) -> None:
        self._call("summary", dict(values))

    def finish(self, status: str) -> None:
        self._call("finish", status)

    def abandon(self) -> None:
        self.calls.append(("abandon", None))


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NETRC", str(tmp_path / "no-netrc"))


# the wrapper


def test_backend_gets_everything_in_order() -> None:
    backend = Fake()
    tracker = Threaded(backend)
    for n in range(3):
        tracker.log({"n": n})
    tracker.summary({"x": 1})
    assert tracker.finish("success") == "ok"
    rows = [("log", n) for n in range(3)]
    assert backend.calls == [("start", None), *rows, ("summary", {"x": 1}), ("finish", "success")]


def test_full_queue_drops_rows_counts_them_and_keeps_the_summary() -> None:
    backend = Fake(holds="start")
    tracker = Threaded(backend, rows=2)
    backend.holding.wait()
    for n in range(5):
        tracker.log({"n": n})
    tracker.summary({"x": 1})
    backend.release.set()
    assert tracker.finish("success") == "ok, 3 rows dropped (the queue was full)"
    assert [value for name, value in backend.calls if name == "log"] == [0, 1]
    assert ("summary", {"x": 1}) in backend.calls


@pytest.mark.parametrize("where", ["start", "log", "summary", "finish"])
def test_raising_backend_is_reported_once_and_closed(where: str, capsys: pytest.CaptureFixture[str]) -> None:
    backend = Fake(raises=where)
    tracker = Threaded(backend, rows=2)
    for n in range(10):
        tracker.log({"n": n})
    assert tracker.finish("success") == f"failed: RuntimeError: no {where} for you"
    assert capsys.readouterr().err.count("warning: tracker") == 1
    assert backend.calls[-1] == ("finish", "failed")


@pytest.mark.parametrize("where", ["start", "log", "finish"])
@pytest.mark.parametrize("rows", [1, 100])
def test_hanging_backend_is_left_behind_at_the_deadline(
    where: str, rows: int, capsys: pytest.CaptureFixture[str]
) -> None:
    backend = Fake(holds=where)
    tracker = Threaded(backend, rows=rows, finish_s=0.2)
    for n in range(10):
        tracker.log({"n": n})
    assert tracker.finish("success") == "left behind: no answer within 0.2 s"
    assert backend.calls[-1] == ("abandon", None)
    assert capsys.readouterr().err.count("warning: tracker") == 1
    backend.release.set()


# which tracker


@pytest.mark.parametrize(
    ("name", "env", "expected"),
    [
        ("auto", {}, "none"),
        ("auto", {"WANDB_API_KEY": ""}, "none"),
        ("auto", {"WANDB_API_KEY": "k"}, "wandb"),
        ("auto", {"WANDB_MODE": "offline"}, "wandb"),
        ("none", {"WANDB_API_KEY": "k"}, "none"),
        ("wandb", {}, "wandb"),
    ],
)
def test_auto_is_wandb_where_the_environment_names_it(name: str, env: dict[str, str], expected: str) -> None:
    assert chosen(name, env) == expected


def test_missing_package_is_found_at_plan_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    check("none")
    check("auto")
    with pytest.raises(DependencyError) as refused:
        check("wandb")
    assert refused.value.exit_code == 6 and "pip install wandb" in refused.value.hint
    monkeypatch.setenv("WANDB_MODE", "offline")
    with pytest.raises(DependencyError):
        check("auto")


def test_no_tracker_is_off(tmp_path: Path) -> None:
    tracker = open_tracker("auto", meta=META, directory=tmp_path / "run")
    assert isinstance(tracker, NoTracker) and tracker.finish("success") == "off"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({}, "offline"),
        ({"WANDB_API_KEY": "k"}, "online"),
        ({"WANDB_API_KEY": "k", "WANDB_MODE": "offline"}, "offline"),
        ({"WANDB_MODE": "disabled"}, "disabled"),
        ({"WANDB_MODE": "online"}, "offline"),  # W&B would prompt for the key
        ({"WANDB_MODE": "online", "WANDB_API_KEY": "k"}, "online"),
    ],
)
def test_mode_is_wandbs_own_but_never_one_that_prompts(
    env: dict[str, str], expected: str, tmp_path: Path
) -> None:
    assert mode({"NETRC": str(tmp_path / "none"), **env}) == expected


def test_key_left_by_wandb_login_counts_for_its_host_alone(tmp_path: Path) -> None:
    place = tmp_path / "netrc"
    place.write_text("machine api.wandb.ai\n login user\n password k\n")
    place.chmod(0o600)
    assert mode({"NETRC": str(place)}) == "online"
    assert mode({"NETRC": str(place), "WANDB_BASE_URL": "https://wandb.example"}) == "offline"


# W&B itself


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine may take longer than a run would wait."""
    monkeypatch.setattr(trackers, "Threaded", partial(Threaded, finish_s=300))


def stored(folder: Path) -> list[wandb_reader.Stored]:
    return [wandb_reader.read(path) for path in sorted(folder.glob("wandb/offline-run-*/*.wandb"))]


@pytest.mark.usefixtures("patient")
def test_offline_run_holds_the_rows_as_they_were_logged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # tenants out of order, a null, and more than a block of 32 KiB
    rows = [
        {"arm": "S1", "seed": 0, "tenant": t, "work/updates": n, "time/wall_s": n / 8, "train/loss": loss}
        for n in range(150)
        for t, loss in (("math", n / 4), ("code", None))
    ]
    rows[7]["work/updates"] = 3
    tracker = open_tracker("wandb", meta=META, directory=tmp_path / "run")
    for row in rows:
        tracker.log(row)
    tracker.summary({"headline/A1/speedup": 1.5})
    assert tracker.finish("success") == "ok"
    (run,) = stored(tmp_path)
    assert run.rows == rows
    assert (run.project, run.group, run.job_type, run.run_id) == ("bench-v0.1", "01ABC", "run", "01abc")
    assert run.config.items() >= META["config"].items()
    assert run.axes == {
        "work/updates": "",
        "time/wall_s": "",
        "train/*": "work/updates",
        "stale/*": "work/updates",
        "eval/*": "time/wall_s",
    }
    assert run.summary["headline/A1/speedup"] == 1.5
    assert (run.exit_code, run.stats) == (0, 0)
    assert not (tmp_path / "run").exists()
    assert capsys.readouterr().err == "wandb: no key, so offline; `wandb sync` sends it later\n"


@pytest.mark.usefixtures("patient")
def test_failed_run_is_marked_as_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    tracker = open_tracker("auto", meta=META, directory=tmp_path / "run")
    assert tracker.finish("error") == "ok"
    assert stored(tmp_path)[0].exit_code == 1


@pytest.mark.slow
def test_server_that_never_answers_keeps_neither_the_run_nor_the_process(tmp_path: Path) -> None:
    program = """
import os, socket, sys, threading
from pathlib import Path
from bench.trackers.base import Threaded
from bench.trackers.wandb import WandbBackend
server = socket.create_server(("127.0.0.1", 0))
held = []
def accept():
    while True:
        held.append(server.accept())
threading.Thread(target=accept, daemon=True).start()
os.environ |= {"WANDB_BASE_URL": f"http://127.0.0.1:{server.getsockname()[1]}", "WANDB_API_KEY": "k" * 40}
tracker = Threaded(WandbBackend({"run_id": "A", "config": {}, "arms": []}, Path(sys.argv[1])), finish_s=4)
tracker.log({"train/loss": 1.0})
print(tracker.finish("success"), bool(held))
"""
    # W&B's own exit hook waits 90 s
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "left behind: no answer within 4 s True\n", done.stderr
    assert "Traceback" not in done.stderr


# export


def test_export_holds_the_records_rows_under_one_id_however_often(
    record_run: Callable[..., RunRecord],
) -> None:
    record = record_run()
    before = sorted(record.directory.rglob("*"))
    rows = [json.loads(line) for line in (record.directory / "metrics.jsonl").read_text().splitlines()]
    said = [export_wandb(record.directory) for _ in range(2)]
    runs = stored(record.directory.parent)
    assert rows and [run.rows for run in runs] == [rows, rows]
    assert {run.run_id for run in runs} == {f"{record.header.run_id.lower()}-record"}
    assert {run.group for run in runs} == {record.header.run_id}
    assert all(f"{len(rows)} rows" in text and "wandb sync" in text for text in said)
    assert sorted(record.directory.rglob("*")) == before


def test_export_to_a_run_that_has_rows_sends_those_it_lacks(
    record_run: Callable[..., RunRecord], monkeypatch: pytest.MonkeyPatch
) -> None:
    record = record_run()
    rows = [json.loads(line) for line in (record.directory / "metrics.jsonl").read_text().splitlines()]
    sent: list[Any] = []

    class Resumed(Fake):
        logged, place = 3, "there"

        def __init__(self, *_: Any, **__: Any) -> None:
            super().__init__()

        def log(self, row: Mapping[str, Any]) -> None:
            sent.append(row)

    monkeypatch.setattr(export, "WandbBackend", Resumed)
    assert export_wandb(record.directory).startswith(f"{len(rows) - 3} rows")
    assert sent == rows[3:]
