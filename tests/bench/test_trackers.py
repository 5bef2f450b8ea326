from __future__ import annotations

import importlib.util
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from bench.errors import DependencyError, UsageError
from bench.trackers import check, chosen, open_tracker
from bench.trackers.base import Conclusion, Mirrored, NoTracker, Threaded
from bench.trackers.wandb import mode

CONCLUSION = Conclusion(summary={"A1.s0": {"headline/acc": 0.5}}, tables={}, files=())


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

    def conclude(self, conclusion: Conclusion) -> None:
        self._call("conclude", conclusion)

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
    tracker.conclude(lambda: CONCLUSION)
    assert tracker.finish("success") == Mirrored(status="ok", rows=3)
    rows = [("log", n) for n in range(3)]
    assert backend.calls == [("start", None), *rows, ("conclude", CONCLUSION), ("finish", "success")]


def test_full_queue_drops_rows_counts_them_and_keeps_the_summary() -> None:
    backend = Fake(holds="start")
    tracker = Threaded(backend, rows=2)
    backend.holding.wait()
    for n in range(5):
        tracker.log({"n": n})
    tracker.conclude(lambda: CONCLUSION)
    backend.release.set()
    assert tracker.finish("success") == Mirrored(status="ok", rows=2, dropped=3)
    assert not Mirrored(status="ok", rows=2, dropped=3).complete
    assert [value for name, value in backend.calls if name == "log"] == [0, 1]
    assert ("conclude", CONCLUSION) in backend.calls


def test_a_conclusion_that_cannot_be_drawn_is_reported_and_costs_the_run_nothing() -> None:
    backend = Fake()
    tracker = Threaded(backend)
    tracker.log({"n": 0})
    tracker.conclude(lambda: CONCLUSION if backend is None else 1 / 0)  # type: ignore[arg-type, return-value]
    assert tracker.finish("success").status.startswith("failed: ZeroDivisionError")


@pytest.mark.parametrize("where", ["start", "log", "conclude", "finish"])
def test_raising_backend_is_reported_once_and_closed(where: str, capsys: pytest.CaptureFixture[str]) -> None:
    backend = Fake(raises=where)
    tracker = Threaded(backend, rows=2)
    for n in range(10):
        tracker.log({"n": n})
    tracker.conclude(lambda: CONCLUSION)
    assert tracker.finish("success").status == f"failed: RuntimeError: no {where} for you"
    assert capsys.readouterr().err.count("complete without it") == 1
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
    assert tracker.finish("success").status == "left behind: no answer within 0.2 s"
    assert backend.calls[-1] == ("abandon", None)
    assert capsys.readouterr().err.count("complete without it") == 1
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
    for name, remedy in (("wandb", "wandb"), ("trackio", "[trackio]"), ("tensorboard", "[tensorboard]")):
        with pytest.raises(DependencyError) as refused:
            check(name)
        assert refused.value.exit_code == 6 and f"{remedy}" in refused.value.hint
    monkeypatch.setenv("WANDB_MODE", "offline")
    with pytest.raises(DependencyError):
        check("auto")
    monkeypatch.setenv("WANDB_MODE", "ofline")
    with pytest.raises(UsageError, match="WANDB_MODE=ofline is no mode"):
        check("auto")


def test_no_tracker_is_off(tmp_path: Path) -> None:
    tracker = open_tracker("auto", {}, tmp_path / "run")
    tracker.conclude(lambda: CONCLUSION)
    assert isinstance(tracker, NoTracker) and tracker.finish("success") == Mirrored(status="off")
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
