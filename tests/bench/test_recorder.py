from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load_file

from bench.compose import prepare
from bench.errors import RecordingError, UsageError
from bench.recorder import RunRecorder
from bench.secret import scrubbed
from bench.writer import LineFile, Writer, strict
from leaderboard import canonical
from leaderboard.records import event_chain
from leaderboard.schema import UpdateLine
from tests.bench.conftest import small
from tests.bench.fakes import ScriptedArms
from tunix_core.types import Event, UpdateReport


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    prepared = prepare(small().config)
    recorder = RunRecorder(tmp_path / "run")
    sink = recorder.sink("S1", 0)
    ScriptedArms()(prepared, "S1", 0, sink, lambda: False)
    sink.finish()
    recorder.close()
    return tmp_path / "run"


def test_events_are_chained_by_the_hash_of_the_line_before(recorded: Path) -> None:
    chain = list(event_chain(recorded / "events.jsonl"))
    assert [event.seq for _, _, event in chain] == list(range(len(chain)))
    assert all(event.prev == expected for _, expected, event in chain)


def test_head_and_count_are_those_of_the_last_line(tmp_path: Path) -> None:
    recorder = RunRecorder(tmp_path / "run")
    for k in range(3):
        recorder.sink("A1", 4).event(Event(key="warning", t_ns=k, value={"k": k}))
    recorder.close()
    last = (tmp_path / "run" / "events.jsonl").read_bytes().splitlines()[-1]
    assert (recorder.event_count, recorder.event_head) == (3, canonical.sha256(last))


def test_every_line_is_canonical_strict_json(recorded: Path) -> None:
    for path in recorded.glob("*.jsonl"):
        for line in path.read_text().splitlines():
            assert canonical.dumps(json.loads(line)) == line


def test_behaviour_logprobs_keep_six_digits(recorded: Path) -> None:
    turns = [t for r in lines(recorded / "rollouts.jsonl") for t in r["turns"] if t["role"] == "policy"]
    assert {x for t in turns for x in t["behavior_logprobs"]} == {-0.123457}
    assert all(len(t["behavior_logprobs"]) == len(t["token_ids"]) == len(t["policy_version"]) for t in turns)


def test_every_figure_of_an_update_is_written_and_records_from_before_some_of_them_still_read(
    recorded: Path,
) -> None:
    line = lines(recorded / "updates.jsonl")[0]
    written = set(line) - {"arm", "seed", "tenant"}
    assert written == set(UpdateReport.__dataclass_fields__) - {"tenant_id"}
    assert line["ratio_mean"] == 1.0
    newer = {name for name, field in UpdateLine.model_fields.items() if not field.is_required()}
    assert {"ratio_mean", "rejected_fraction", "effective_loss_tokens", "filtered_tokens"} <= newer
    old = UpdateLine.model_validate_json(json.dumps({k: v for k, v in line.items() if k not in newer}))
    assert old.ratio_mean is None and old.filtered is None


def test_rows_carry_their_own_axes(recorded: Path) -> None:
    rows = lines(recorded / "metrics.jsonl")
    math_rows = [r for r in rows if r["tenant"] == "math"]
    assert [r["work/updates"] for r in math_rows if "train/loss" in r] == [1, 2]
    assert [r["work/samples"] for r in math_rows if "train/loss" in r] == [4, 8]
    assert all(0 <= r["time/wall_s"] < 1 for r in math_rows)
    assert [(r["work/samples"], r["eval/items"]) for r in math_rows if "eval/id" in r] == [(0, 4), (8, 4)]


def test_adapters_are_kept_with_tenant_and_version(tmp_path: Path) -> None:
    recorder = RunRecorder(tmp_path / "run")
    a, b = np.arange(4.0).reshape(1, 2, 2), np.ones((1, 2, 3))
    recorder.sink("S1", 7).adapter("math", "final", 20, {"q_proj": (a, b)})
    recorder.close()
    found = load_file(tmp_path / "run" / "adapters" / "S1.s7.math.final.safetensors")
    np.testing.assert_array_equal(found["q_proj.lora_a"], a)
    np.testing.assert_array_equal(found["q_proj.lora_b"], b)


def test_a_directory_that_holds_something_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("mine")
    with pytest.raises(UsageError, match="not empty"):
        RunRecorder(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["x"]


def test_a_place_that_is_no_folder_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UsageError, match="cannot be written"):
        RunRecorder(tmp_path / "file" / "run")
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_discard_takes_away_what_was_made_and_no_more(tmp_path: Path) -> None:
    recorder = RunRecorder(tmp_path / "a" / "b")
    recorder.discard()
    assert not (tmp_path / "a").exists()
    (tmp_path / "kept").mkdir()
    recorder = RunRecorder(tmp_path / "kept" / "b")
    (tmp_path / "kept" / "b" / "note.txt").write_text("somebody else's")
    recorder.discard()
    assert [p.name for p in (tmp_path / "kept" / "b").iterdir()] == ["note.txt"]


class Full:
    """A disk that takes `room` bytes."""

    def __init__(self, room: int) -> None:
        self.room = room

    def write(self, fd: int, data: memoryview) -> int:
        import posix

        if self.room <= 0:
            raise OSError(28, "No space left on device")
        taken = posix.write(fd, data[: self.room])
        self.room -= taken
        return taken


@given(room=st.integers(0, 60))
def test_a_full_disk_leaves_whole_lines_only(tmp_path_factory: pytest.TempPathFactory, room: int) -> None:
    path = tmp_path_factory.mktemp("full") / "lines.jsonl"
    file, disk = LineFile(path), Full(room)
    with pytest.MonkeyPatch.context() as patch, pytest.raises(OSError, match="No space left"):
        patch.setattr("bench.writer.os.write", disk.write)
        for _ in range(20):
            file.append(b'{"k":1}')
    file.close()
    assert path.read_bytes() == b'{"k":1}\n' * (room // 8)


def test_after_a_failed_job_nothing_is_done_and_every_caller_hears_of_it() -> None:
    writer, done = Writer(), []

    def fail() -> None:
        raise OSError(28, "No space left on device", "rollouts.jsonl")

    writer.put(lambda: done.append(1))
    writer.put(fail)
    with pytest.raises(RecordingError, match=r"rollouts\.jsonl cannot be written: No space left"):
        writer.drain()
    with pytest.raises(RecordingError):
        writer.put(lambda: done.append(2))
    with pytest.raises(RecordingError):
        writer.close()
    assert done == [1]


def test_jobs_are_done_in_order_before_close_returns() -> None:
    writer, done = Writer(), []
    for k in range(1000):
        writer.put(lambda k=k: done.append(k))
    writer.close()
    writer.close()
    assert done == list(range(1000))


Json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda part: st.lists(part, max_size=3) | st.dictionaries(st.text(max_size=3), part, max_size=3),
    max_leaves=10,
)


@given(Json)
def test_strict_values_hold_no_infinity_and_each_is_counted(value: Any) -> None:
    seen: list[None] = []
    made = strict(value, lambda: seen.append(None))
    canonical.dumps(made)

    def count(part: Any) -> int:
        if isinstance(part, dict):
            return sum(map(count, part.values()))
        if isinstance(part, list):
            return sum(map(count, part))
        return int(isinstance(part, float) and not math.isfinite(part))

    assert len(seen) == count(value)


ENV = {"HF_TOKEN": "hf_abcdefghij", "MY_API_KEY": "k-123456", "KEYBOARD": "us-intl", "HOME": "/home/me"}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("token=hf_abcdefghij", "token=***"),
        ("k-123456", "***"),
        ("us-intl", "us-intl"),
        ("https://me:secret@host/x", "https://***@host/x"),
        ("https://host/x", "https://host/x"),
        ("/home/me/data", "~/data"),
        ("sk-ABCDEFGHIJKLMNOPQRSTUV", "***"),
    ],
)
def test_secrets_and_the_home_folder_are_scrubbed(text: str, shown: str) -> None:
    assert scrubbed({"a": [text], "b": 1}, ENV) == {"a": [shown], "b": 1}
