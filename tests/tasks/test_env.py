from __future__ import annotations

import logging
import random
import threading
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import given, settings
from hypothesis import strategies as st

import tasks
from tasks.env import TextEnv
from tasks.protocol import answer_turn, search_turn
from tasks.spaces import UnicodeText

ALL = tuple(tasks.specs())


def env_of(task_id: str, **options: Any) -> TextEnv:
    env = tasks.make(task_id, **options)
    assert isinstance(env, TextEnv)
    return env


@pytest.mark.parametrize("task_id", ALL)
def test_every_id_passes_check_env_without_a_warning(task_id: str, own_data: Path):
    check_env(gymnasium.make(task_id).unwrapped)


@pytest.mark.parametrize("task_id", ALL)
def test_the_oracle_earns_one_and_silence_nothing(task_id: str, own_data: Path):
    env = env_of(task_id)
    for index in range(20):
        env.reset(seed=1, options={"index": index})
        for turn in env.task.oracle(env.item):
            _, reward, terminated, truncated, info = env.step(turn)
        assert (reward, terminated, truncated) == (1.0, True, False)
        assert (info["grade_status"], info["stop"], info["format_ok"]) == ("correct", "terminated", True)
        env.reset(seed=1, options={"index": index})
        for _ in range(env.max_turns):
            _, reward, terminated, truncated, info = env.step("")
        assert reward == 0.0
        assert terminated != truncated


def test_the_same_seed_streams_the_same_items_and_an_index_pins_one():
    env, other = env_of("add"), env_of("add")
    env.reset(seed=5)
    stream = [env.item.uid] + [env.reset()[1]["item_uid"] for _ in range(4)]
    assert len(set(stream)) == 5
    assert other.reset(seed=5, options={"index": 3})[1]["item_uid"] == stream[3]
    assert other.reset()[1]["item_uid"] == stream[4]


def test_without_a_seed_two_environments_stream_differently():
    firsts = {env_of("modchain").reset()[0] for _ in range(6)}
    assert len(firsts) > 1


def test_options_hold_for_one_reset_only():
    """Case gym-012."""
    env = env_of("add")
    _, info = env.reset(seed=0, options={"split": "dev", "level": 3})
    assert (info["split"], info["level"]) == ("dev", 3)
    _, info = env.reset()
    assert (info["split"], info["level"]) == ("train", 2)


def test_global_random_state_is_untouched():
    """Case gym-009."""
    random.seed(7)
    np.random.seed(7)
    expected = random.random(), np.random.rand()
    random.seed(7)
    np.random.seed(7)
    env = env_of("lookup")
    env.reset(seed=1)
    env.step(search_turn("x"))
    assert (random.random(), np.random.rand()) == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"task_id": 3}, "unknown reset option 'task_id'; known are split, index, item"),
        ({"split": "eval"}, "choose one of train, dev, test"),
        ({"level": 77}, "choose one of"),
        ({"index": -1}, "count from 0"),
        ({"index": "3"}, "must be an int"),
        ({"index": True}, "must be an int"),
    ],
)
def test_a_bad_option_says_what_is_allowed(options: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        env_of("add").reset(seed=0, options=options)


def test_a_bad_default_fails_at_construction():
    with pytest.raises(ValueError, match="no level 77"):
        tasks.make("add", level=77)
    with pytest.raises(ValueError, match="max_turns 0"):
        tasks.make("add", max_turns=0)


def test_an_action_must_be_encodable_text():
    env = env_of("add")
    env.reset(seed=0)
    with pytest.raises(ValueError, match="lone surrogate"):
        env.step("\ud800")
    with pytest.raises(ValueError, match="a bytes"):
        env.step(b"4")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="65537 characters"):
        env.step("a" * 65537)


def test_stepping_before_reset_or_after_the_end_is_refused():
    env = env_of("add")
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step("4")
    env.reset(seed=0)
    env.step("4")
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step("4")


def test_a_cut_answer_ends_the_episode_without_reward():
    env = env_of("add")
    env.reset(seed=0)
    _, reward, terminated, truncated, info = env.step("<answer>4")
    assert (reward, terminated, truncated, info["grade_status"]) == (0.0, True, False, "malformed")


def test_a_search_episode_shows_only_new_text_and_keeps_its_transcript():
    env = env_of("lookup")
    prompt, _ = env.reset(seed=2)
    query, answer = env.task.oracle(env.item)
    observation, reward, terminated, truncated, info = env.step(query)
    assert (reward, terminated, truncated) == (0.0, False, False)
    assert "grade_status" not in info
    assert prompt not in observation
    assert env.item.gold in observation
    env.step(answer)
    assert [m.role for m in env.transcript()] == ["environment", "policy", "environment", "policy"]
    assert [m.text for m in env.transcript()] == [prompt, query, observation, answer]


def test_a_call_past_the_tool_budget_is_answered_and_not_terminal():
    """Case mt-005."""
    env = env_of("lookup", max_tool_calls=1)
    env.reset(seed=2)
    query, answer = env.task.oracle(env.item)
    env.step(query)
    observation, _, terminated, truncated, _ = env.step(query)
    assert observation == "<result>tool budget used</result>"
    assert not terminated
    assert not truncated
    _, reward, terminated, _, _ = env.step(answer)
    assert (reward, terminated) == (1.0, True)


def test_tool_calls_alone_earn_nothing_and_end_truncated():
    """Case mt-006."""
    env = env_of("lookup")
    env.reset(seed=2)
    results = [env.step(search_turn("flag")) for _ in range(3)]
    assert sum(result[1] for result in results) == 0.0
    assert [(r[2], r[3]) for r in results] == [(False, False), (False, False), (False, True)]
    assert (results[-1][4]["grade_status"], results[-1][4]["stop"]) == ("truncated", "max_turns")


def test_a_turn_without_call_or_answer_is_told_so():
    env = env_of("lookup")
    env.reset(seed=2)
    assert env.step("hm")[0] == "<result>no call</result>"


def test_only_the_last_turn_of_the_policy_is_graded():
    """Cases qa-007 and qa-008: an answer in tool output or in an earlier turn is no answer."""
    env = env_of("lookup")
    env.reset(seed=2)
    gold = env.item.gold
    observation, *_ = env.step(search_turn(f"{gold} &lt;answer>"))
    assert "<answer>" not in observation
    env.step("I stop here")
    _, reward, _, truncated, _ = env.step("I stop here")
    assert (reward, truncated) == (0.0, True)


@given(st.lists(st.text(max_size=40) | st.just("<search>a</search>"), min_size=3, max_size=3))
@settings(max_examples=40, deadline=None)
def test_any_text_gives_python_values_and_exactly_one_end(actions: list[str]):
    env = env_of("lookup")
    env.reset(seed=3)
    for action in actions:
        if not env.action_space.contains(action):
            return
        observation, reward, terminated, truncated, _ = env.step(action)
        assert env.observation_space.contains(observation)
        assert type(reward) is float
        assert type(terminated) is bool
        assert type(truncated) is bool
        assert not (terminated and truncated)
        if terminated or truncated:
            return
    raise AssertionError("three turns must end an episode of three turns")


def test_info_is_deterministic_and_timings_are_beside_it():
    infos = []
    for _ in range(2):
        env = env_of("lookup")
        env.reset(seed=4)
        infos.append(env.step(search_turn("flag"))[4])
        assert len(env.timings) == 1
    assert infos[0] == infos[1]


def test_environments_in_threads_agree_with_one_alone():
    expected = [_play(seed) for seed in range(8)]
    found: dict[int, str] = {}
    threads = [threading.Thread(target=lambda s=s: found.update({s: _play(s)})) for s in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found[seed] for seed in range(8)] == expected


def _play(seed: int) -> str:
    env = env_of("lookup")
    env.reset(seed=seed)
    for turn in env.task.oracle(env.item):
        env.step(turn)
    return repr(env.transcript())


def test_the_text_space_samples_texts_by_seed():
    space, other = UnicodeText(50, seed=1), UnicodeText(50, seed=1)
    samples = [space.sample() for _ in range(50)]
    assert samples == [other.sample() for _ in range(50)]
    assert all(space.contains(text) for text in samples)
    assert not space.contains("\udfff")
    assert not space.contains("a" * 51)
    assert not space.contains(4)
    assert space.from_jsonable(space.to_jsonable(samples)) == samples
    assert space == other


def test_a_stray_answer_mark_beside_junk_is_not_paid():
    env = env_of("add")
    env.reset(seed=0)
    assert env.step(answer_turn(str(env.item.gold)) + "</answer>")[1] == 0.0


def test_a_search_says_nothing_on_a_log_that_others_set_up(capfd: pytest.CaptureFixture[str]) -> None:
    handler = logging.StreamHandler()
    logging.getLogger().addHandler(handler)
    try:
        env = tasks.make("Search/Lookup-v0")
        env.reset(seed=0)
        env.step("<search>capital</search>")
    finally:
        logging.getLogger().removeHandler(handler)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("stop", ["max_tokens", "context"])
@pytest.mark.parametrize("task_id", ["add", "lookup"])
def test_a_turn_that_was_cut_truncates_and_is_never_read(task_id: str, stop: str):
    """Case mt-001: half an answer is neither an answer nor a parse error."""
    env = env_of(task_id)
    env.reset(seed=0)
    whole = env.task.oracle(env.item)[-1]
    for text in (whole, "<answer>4", ""):
        env.reset(seed=0)
        _, reward, terminated, truncated, info = env.step(tasks.CutTurn(text, stop))
        assert (reward, terminated, truncated) == (0.0, False, True)
        assert (info["stop"], info["grade_status"]) == (stop, "truncated")
        with pytest.raises(gymnasium.error.ResetNeeded):
            env.step(whole)
    with pytest.raises(ValueError, match="'max_tokens' or 'context'"):
        tasks.CutTurn("", "tired")


def test_an_item_can_be_given_itself_or_by_its_index():
    env, other = env_of("add"), env_of("add")
    prompt, info = env.reset(seed=9, options={"item": 4})
    assert info["index"] == 4
    assert other.reset(seed=1, options={"item": env.item})[0] == prompt
    assert other.reset()[1]["index"] == 0
    with pytest.raises(ValueError, match="one of 'Math/Add-v0'"):
        env_of("modchain").reset(seed=0, options={"item": env.item})
    with pytest.raises(ValueError, match="not both"):
        env.reset(seed=0, options={"item": 1, "index": 1})


def test_instructions_come_first_and_change_no_item():
    plain, told = env_of("lookup"), env_of("lookup", instructions=True, max_turns=5)
    prompt, info = plain.reset(seed=0)
    text, told_info = told.reset(seed=0)
    assert text.endswith(f"\n\n{prompt}")
    assert "<search>text</search>" in text
    assert "at most 2 calls and 5 turns" in text
    assert told_info == info
