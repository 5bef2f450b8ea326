"""W&B for real: what it wrote is read back, and its client talks to a server on the loopback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bench import compose, export, trackers
from bench.export import export_wandb
from bench.trackers import open_tracker
from bench.trackers.base import Threaded
from leaderboard.records import RunRecord
from tests.bench import wandb_reader
from tests.bench.fakes import ScriptedArms
from tests.bench.wandb_server import Service, serving

ROOT = Path(__file__).resolve().parents[2]
HEADER = {
    "run_id": "01ABC",
    "suite_version": "0.1",
    "config": {"updates": 2, "tasks": ["math", "code"]},
    "order": [["S1", 0], ["A1", 0]],
    "device_class": "cpu-sim",
    "limit_applied": False,
    "latency": {"simulated": True},
}
AXES = {
    "work/updates": "",
    "work/samples": "",
    "time/wall_s": "",
    "train/*": "work/updates",
    "stale/*": "work/updates",
    "pad/*": "work/updates",
    "eval/*": "time/wall_s",
    "util/*": "time/wall_s",
    "perf/*": "time/wall_s",
}


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NETRC", str(tmp_path / "no-netrc"))


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine may take longer than a run would wait."""
    monkeypatch.setattr(trackers, "Threaded", partial(Threaded, finish_s=300))


def stored(folder: Path) -> list[wandb_reader.Stored]:
    import wandb

    wandb.teardown()  # the client may still be writing when it says that a run is finished
    return [wandb_reader.read(path) for path in sorted(folder.glob("wandb/offline-run-*/*.wandb"))]


def lines(record: RunRecord, arm: str = "") -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in (record.directory / "metrics.jsonl").read_text().splitlines()]
    return [row for row in rows if row["arm"] == (arm or row["arm"])]


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
    tracker = open_tracker("wandb", HEADER, tmp_path / "run")
    for row in rows:
        tracker.log(row)
    assert tracker.finish("success").complete
    (run,) = stored(tmp_path)
    assert run.rows == rows
    assert (run.project, run.group, run.job_type, run.run_id) == ("bench-v0.1", "01ABC", "S1", "01abc-s1-s0")
    assert (run.name, run.tags) == ("math+code.S1.s0", ["cpu-sim", "suite-0.1", "simulated-latency"])
    assert run.config.items() >= HEADER["config"].items()  # type: ignore[attr-defined]
    assert run.config["record"] == {
        "run_id": "01ABC",
        "arm": "S1",
        "seed": 0,
        "suite_version": "0.1",
        "device_class": "cpu-sim",
        "limit_applied": False,
    }
    assert run.axes == AXES
    assert (run.exit_code, run.stats) == (0, 0)
    assert not (tmp_path / "run").exists()
    assert capsys.readouterr().err == "wandb: no key, so offline; `wandb sync` sends it later\n"


@pytest.mark.usefixtures("patient")
def test_failed_run_is_marked_as_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    tracker = open_tracker("auto", HEADER, tmp_path / "run")
    assert tracker.finish("error").status == "ok"
    assert stored(tmp_path)[0].exit_code == 1


SECRETS = {
    "WANDB_API_KEY": "5ecre7" * 7,
    "HF_TOKEN": "hf_planted0123456789abcdef",
    "MY_PASSWORD": "planted-password",
}


@pytest.mark.usefixtures("patient")
def test_a_mirrored_run_shows_each_arm_with_its_figures_and_no_file_holds_a_secret(
    record_run: Callable[..., RunRecord], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("WANDB_MODE", "offline")
    record = record_run(
        mirror="wandb", command=["bench", "run", "--data", f"https://u:{SECRETS['HF_TOKEN']}@host/x"]
    )
    assert record.header.tracker == {"name": "none", "status": "ok", "rows": 16, "dropped": 0}
    runs = {run.job_type: run for run in stored(tmp_path)}
    assert {arm: run.rows for arm, run in runs.items()} == {arm: lines(record, arm) for arm in ("S1", "A1")}
    assert {run.group for run in runs.values()} == {record.header.run_id}
    results = record.header.results
    figures = {run["arm"]: run["metrics"] for run in results["runs"]}
    for arm, run in runs.items():
        assert run.summary["headline/t_work_s"] == figures[arm]["t_work"]
        assert run.summary["headline/util_busy"] == figures[arm]["util_busy"]
        assert run.summary["items"]["nrows"] == 8
    assert runs["A1"].summary["headline/speedup"] == results["comparison"]["arms"]["A1"]["speedup"]
    assert (
        runs["A1"].summary["parity/verdict"] == "underpowered" and runs["A1"].summary["parity/pass"] is False
    )
    assert not {
        name for name in runs["S1"].summary if name.startswith("parity/") or name == "headline/speedup"
    }
    held = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert len(held) > 100_000 and not [name for name, value in SECRETS.items() if value.encode() in held]


# a server


@pytest.fixture
def online(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a program in a process of its own, whose W&B talks to a given address, and waits for its end."""

    def run(program: str, base_url: str, *argv: str) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "WANDB_BASE_URL": base_url, "WANDB_API_KEY": "k" * 40}
        # W&B's own exit hook would wait 90 s
        return subprocess.run(
            [sys.executable, "-c", program, str(tmp_path), *argv],
            cwd=ROOT, env=env, capture_output=True, text=True, timeout=80,
        )  # fmt: skip

    return run


MIRROR = f"""
import sys, time
from pathlib import Path
from bench.trackers.base import Conclusion, Table, Threaded
from bench.trackers.wandb import WandbBackend
folder, wait = Path(sys.argv[1]), float(sys.argv[2])
header = {HEADER!r}
tracker = Threaded(WandbBackend(header, folder), finish_s=wait)
for arm in ("S1", "A1"):
    for n in range(3):
        tracker.log({{"arm": arm, "seed": 0, "work/updates": n, "train/loss": n / 2}})
        time.sleep(float(sys.argv[3]))
(folder / "run.json").write_text("{{}}")
table = Table(columns=("item", "reward"), rows=[[0, 1.0]])
tracker.conclude(lambda: Conclusion(
    summary={{"A1.s0": {{"headline/speedup": 1.5}}}}, tables={{"A1.s0": table}}, files=(folder / "run.json",)
))
mirrored = tracker.finish("success")
print(mirrored.status, mirrored.rows)
"""


@pytest.mark.slow
def test_online_the_server_gets_every_row_under_its_run(
    online: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    with serving(Service()) as service:
        done = online(MIRROR, service.base_url, "60", "0")
    assert (done.stdout, done.stderr) == ("ok 6\n", "")
    for arm in ("S1", "A1"):
        wanted = [{"arm": arm, "seed": 0, "work/updates": n, "train/loss": n / 2} for n in range(3)]
        assert service.rows(f"01abc-{arm.lower()}-s0") == wanted
    assert {(run["groupName"], run["jobType"]) for run in service.runs.values()} == {
        ("01ABC", "S1"),
        ("01ABC", "A1"),
    }
    assert service.summaries["01abc-a1-s0"]["headline/speedup"] == 1.5
    assert service.exit_codes == {"01abc-s1-s0": 0, "01abc-a1-s0": 0}
    assert {a["artifactTypeName"] for a in service.artifacts} == {"record", "run_table"}
    assert service.uploads["artifact/run.json"] == b"{}"


@pytest.mark.slow
def test_a_server_that_dies_in_mid_run_is_left_behind_in_time(
    online: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    with serving(Service(die_after_rows=1)) as service:
        done = online(MIRROR, service.base_url, "8", "0.1")
    assert done.stdout.startswith("left behind: no answer within 8 s"), done
    assert "Traceback" not in done.stderr, done.stderr


@pytest.mark.slow
def test_server_that_never_answers_keeps_neither_the_run_nor_the_process(
    online: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:
        done = online(MIRROR, f"http://127.0.0.1:{server.getsockname()[1]}", "4", "0")
    assert done.stdout == "left behind: no answer within 4 s 0\n", done.stderr
    assert "Traceback" not in done.stderr, done.stderr


# export


@pytest.mark.usefixtures("patient")
def test_export_holds_the_records_rows_under_one_id_however_often(
    record_run: Callable[..., RunRecord],
) -> None:
    record = record_run()
    before = sorted(record.directory.rglob("*"))
    said = [export_wandb(record.directory) for _ in range(2)]
    runs = stored(record.directory.parent)
    assert sorted((run.job_type, len(run.rows)) for run in runs) == [
        ("A1", 8),
        ("A1", 8),
        ("S1", 8),
        ("S1", 8),
    ]
    assert all(run.rows == lines(record, run.job_type) for run in runs)
    assert {run.run_id for run in runs} == {
        f"{record.header.run_id}-{arm}-s0-record".lower() for arm in ("S1", "A1")
    }
    assert {run.group for run in runs} == {record.header.run_id}
    assert all("16 rows" in text and "wandb sync" in text for text in said)
    assert sorted(record.directory.rglob("*")) == before


def test_export_to_a_run_that_has_rows_sends_those_it_lacks(
    record_run: Callable[..., RunRecord], monkeypatch: pytest.MonkeyPatch
) -> None:
    record = record_run()
    sent: list[Any] = []

    class Resumed:
        place = "there"

        def __init__(self, *_: Any, **__: Any) -> None: ...
        def start(self) -> None: ...
        def conclude(self, conclusion: Any) -> None: ...
        def finish(self, status: str) -> None: ...
        def open(self, arm: str, seed: int) -> int:
            return 3

        def log(self, row: Mapping[str, Any]) -> None:
            sent.append(row)

    monkeypatch.setattr(export, "WandbBackend", Resumed)
    assert export_wandb(record.directory).startswith("10 rows")
    assert sent == [*lines(record, "S1")[3:], *lines(record, "A1")[3:]]


def test_a_required_mirror_that_is_not_whole_is_exit_4(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from bench import cli
    from tests.bench.test_cli import RUN
    from tests.bench.test_trackers import Fake

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(compose, "run_arm", ScriptedArms())
    argv = [part for part in RUN if part not in ("--tracker", "none")]
    assert cli.invoke([*argv, "--require-tracker", "--out", "a"]) == 2
    assert "there is no tracker" in capsys.readouterr().err and not (tmp_path / "a").exists()
    monkeypatch.setattr(trackers, "_backend", lambda *_: Fake(raises="start"))
    assert cli.invoke([*argv, "--tracker", "wandb", "--out", "b"]) == 0
    assert cli.invoke([*argv, "--tracker", "wandb", "--require-tracker", "--out", "c"]) == 4
    status = "failed: RuntimeError: no start for you"
    assert all(RunRecord.open(tmp_path / d).header.tracker["status"] == status for d in "bc")
