"""Replay believes nothing of the record: item, observations, reward and ending come from the task."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from leaderboard.rescore import Replayer, task_info
from leaderboard.schema import RolloutLine


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


def test_the_grader_hash_is_stable_and_differs_by_task() -> None:
    assert task_info("Math/Add-v0") == task_info("math")
    assert task_info("Math/Add-v0").grader_hash != task_info("Code/Predict-v0").grader_hash
