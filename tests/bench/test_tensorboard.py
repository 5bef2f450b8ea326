"""The optional trackers, where their packages are."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.trackers import open_tracker
from bench.trackers.base import Conclusion
from tests.bench.test_wandb import HEADER

CONCLUSION = Conclusion(
    summary={"A1.s0": {"headline/acc": 0.5, "parity/verdict": "pass"}}, tables={}, files=()
)


def rows() -> list[dict[str, Any]]:
    return [
        {
            "arm": arm,
            "seed": 0,
            "tenant": "math",
            "work/updates": n,
            "time/wall_s": n / 8,
            "train/loss": n / 2,
        }
        for arm in ("S1", "A1")
        for n in range(3)
    ]


def mirrored(name: str, folder: Path) -> str:
    tracker = open_tracker(name, HEADER, folder / "run")
    for row in rows():
        tracker.log(row)
    tracker.conclude(lambda: CONCLUSION)
    return tracker.finish("success").status


def scalars(folder: Path) -> Iterator[tuple[str, int, float]]:
    """(tag, step, value) of a folder's event files: u64 length, u32 crc, payload, u32 crc; a payload is an Event."""
    from tensorboardX.proto.event_pb2 import Event

    for path in folder.glob("events.*"):
        data, at = path.read_bytes(), 0
        while at < len(data):
            (length,) = struct.unpack_from("<Q", data, at)
            event = Event.FromString(data[at + 12 : at + 12 + length])
            at += 12 + length + 4
            yield from ((v.tag, event.step, v.simple_value) for v in event.summary.value)


def test_tensorboard_draws_every_number_over_the_tenants_updates(tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX", reason="the extra 'tensorboard' is not installed")
    assert mirrored("tensorboard", tmp_path) == "ok"
    root = tmp_path / "tensorboard" / "01ABC"
    for arm in ("S1", "A1"):
        wanted = [("train/loss", n, n / 2) for n in range(3)] + [("time/wall_s", n, n / 8) for n in range(3)]
        assert sorted(scalars(root / f"{arm}.s0" / "math")) == sorted(wanted)
    assert list(scalars(root / "A1.s0")) == [("headline/acc", 0, 0.5)]


def test_trackio_keeps_every_row_and_says_nothing_on_stdout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    trackio = pytest.importorskip("trackio", reason="the extra 'trackio' is not installed")
    assert mirrored("trackio", tmp_path) == "ok"
    assert capsys.readouterr().out == ""
    run = trackio.Api().runs("bench-v0.1")[0]
    assert run.name.startswith("01ABC.")
