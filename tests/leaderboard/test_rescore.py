"""Replay believes nothing of the record: item, observations, reward and ending come from the task."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import tasks
from leaderboard.rescore import Replayer, task_info
from leaderboard.schema import RolloutLine
from leaderboard.verify import verify
from tests.leaderboard import golden


@pytest.fixture
def lines(golden_run: Path) -> list[dict[str, Any]]:
    return [json.loads(text) for text in (golden_run / "rollouts.jsonl").read_text().splitlines()]


def replay(line: dict[str, Any], **changes: Any) -> list[tuple[str, str, str]]:
    found = Replayer().replay(RolloutLine.model_validate(line | changes))
    return [(d.field, d.recorded, d.replayed) for d in found]


def test_all_golden_lines_replay(lines: list[dict[str, Any]]) -> None:
    assert [replay(line) for line in lines] == [[]] * len(lines)
    assert {line["tenant"] for line in lines} == {"math", "code", "search"}


def test_a_turn_cut_at_its_limit_earns_nothing_whatever_it_says(lines: list[dict[str, Any]]) -> None:
    line = lines[0]
    line["turns"][-1]["stop"] = "max_tokens"
    assert replay(line, reward=0.0, grade_status="truncated", stop="max_tokens") == []
    assert ("reward", "1.0", "0.0 (never graded)") in replay(line, stop="max_tokens")


def test_an_episode_without_room_for_a_turn_earns_nothing(lines: list[dict[str, Any]]) -> None:
    line = lines[0]
    opening = line["turns"][:1]
    assert replay(line, turns=opening, reward=0.0, grade_status="truncated", stop="context") == []
    assert replay(line, turns=opening, reward=1.0, stop="context") != []
    assert replay(line, turns=opening, reward=0.0, stop="terminated") != []


def test_an_episode_dropped_at_the_end_of_a_run_earns_nothing(lines: list[dict[str, Any]]) -> None:
    line = lines[0]
    for turns in ([], line["turns"][:1], line["turns"]):
        assert replay(line, turns=turns, reward=0.0, grade_status="", stop="error", fate="surplus") == []
    assert replay(line, stop="error", fate="surplus") == [("reward", "1.0", "0.0 (never graded)")]


def test_turns_after_the_end_are_found(lines: list[dict[str, Any]]) -> None:
    line = lines[0]
    again = line["turns"] + line["turns"][-1:]
    assert ("observation", "a further turn", "the episode was over") in replay(line, turns=again)


def test_an_altered_tool_result_is_found(lines: list[dict[str, Any]]) -> None:
    line = next(line for line in lines if line["tenant"] == "search" and len(line["turns"]) > 3)
    line["turns"][2]["text"] = "<result>it is blue</result>"
    assert [field for field, *_ in replay(line)] == ["observation"]


def test_an_observation_left_out_is_found(lines: list[dict[str, Any]]) -> None:
    line = lines[0]
    assert [field for field, *_ in replay(line, turns=line["turns"][1:])] == ["observation"]


def test_an_unknown_task_raises(lines: list[dict[str, Any]]) -> None:
    with pytest.raises(LookupError, match="not found"):
        replay(lines[0], env_id="Math/Ad-v0")


def test_data_that_are_not_here_are_named_once(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BENCH_DATA_DIR", raising=False)
    for number in (0, 1):
        golden.edit_line(run, "rollouts.jsonl", number, lambda x: x.update(env_id="Math/GSM8K-v0", level=1))
    found = [f for f in verify(run).errors if f.code == "E161"]
    assert [f.place for f in found] == ["rollouts.jsonl:1"]
    assert "BENCH_DATA_DIR is not set" in found[0].reason


def test_a_split_that_is_not_there_is_a_finding(run: Path) -> None:
    golden.edit_line(run, "rollouts.jsonl", 0, lambda line: line.update(split="training"))
    assert "E161" in verify(run).codes


def test_data_set_tasks_are_graded_from_the_data_given(lines: list[dict[str, Any]], tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl"
    rows = [{"question": f"{n} and {n}?", "answer": f"#### {2 * n}"} for n in range(1, 200)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    env = tasks.make("gsm8k", data=str(path))
    prompt, info = env.reset(seed=3, options={"split": "train", "index": 5})
    answer = tasks.get("gsm8k").oracle(env.unwrapped.item)[0]  # type: ignore[attr-defined]
    line = lines[0]
    line["turns"][0]["text"], line["turns"][1]["text"] = prompt, answer
    line |= {
        "env_id": "Math/GSM8K-v0",
        "env_seed": 3,
        "item_index": 5,
        "level": None,
        "item_uid": info["item_uid"],
    }
    assert Replayer(data=str(path)).replay(RolloutLine.model_validate(line)) == []
    line["reward"] = 0.5
    assert Replayer(data=str(path)).replay(RolloutLine.model_validate(line)) != []


def test_the_grader_hash_is_stable_and_differs_by_task() -> None:
    assert task_info("Math/Add-v0") == task_info("math")
    assert task_info("Math/Add-v0").grader_hash != task_info("Code/Predict-v0").grader_hash
