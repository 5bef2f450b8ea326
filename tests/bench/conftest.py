from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bench import cli, compose
from bench.config import Resolved, resolve
from bench.progress import Progress
from bench.run import Stop, run, ulid
from bench.trackers import open_tracker
from bench.trackers.base import NoTracker
from leaderboard.records import RunRecord
from tests.bench.fakes import ScriptedArms

Invoke = Callable[..., tuple[int, str, str]]
SMALL = [
    "tasks=math,search",
    "updates=2",
    "group_size=2",
    "groups_per_update=2",
    "eval_items=4",
    "tracker=none",
    "aa=false",
]


def small(*sets: str) -> Resolved:
    return resolve(None, {}, [*SMALL, *sets], {})


@pytest.fixture(autouse=True)
def one_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests load no device library."""
    device = {"id": "cpu:0", "kind": "cpu", "memory_bytes": None}
    monkeypatch.setattr(compose, "devices", lambda: ([device], "cpu-sim"))
    warm = {"seconds": 0.0, "compile_s": 0.0, "compile_cache_hits": 0, "programs_compiled": 0}
    monkeypatch.setattr(compose, "warm_up", lambda prepared, should_stop: warm)


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No setting of whoever runs the tests reaches them."""
    import os

    for name in list(os.environ):
        if name.startswith(("BENCH_", "WANDB_")):
            monkeypatch.delenv(name)
    yield


@pytest.fixture
def record_run(tmp_path: Path) -> Callable[..., RunRecord]:
    """Runs the matrix with scripted arms and returns the record."""

    def record(
        *sets: str,
        script: ScriptedArms | None = None,
        stop: Stop | None = None,
        out: Path | None = None,
        **more: Any,
    ) -> RunRecord:
        resolved = small(*sets)
        tracker, mirror = more.pop("tracker", NoTracker()), more.pop("mirror", None)
        return run(
            resolved,
            compose.prepare(resolved.config),
            out or tmp_path / "run",
            run_id=ulid(),
            run_arm=script or ScriptedArms(),
            command=more.pop("command", ["bench", "run"]),
            stop=stop or Stop(),
            progress=Progress(resolved.config, enabled=False),
            open_tracker=lambda header: open_tracker(mirror, header, tmp_path / "run") if mirror else tracker,
            **more,
        )

    return record


@pytest.fixture
def invoke(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Invoke:
    """Runs a command in an empty folder; returns exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(compose, "run_arm", ScriptedArms())

    def call(*argv: str) -> tuple[int, str, str]:
        code = cli.invoke(argv)
        said = capsys.readouterr()
        return code, said.out, said.err

    return call
