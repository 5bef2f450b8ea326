from __future__ import annotations

import pytest

import tasks
from tasks import splits
from tasks.env import TextEnv
from tasks.game.guess import worth
from tasks.protocol import answer_turn
from tasks.spec import TaskItem


def game(low: int, high: int, gold: int) -> TextEnv:
    spec = tasks.get("guess")
    env = tasks.make("guess")
    assert isinstance(env, TextEnv)
    item = TaskItem(
        uid="", task_id=spec.id, split="train", index=0, level=1, prompt=f"number in {low}..{high}?", gold=gold,
        meta={"low": low, "high": high},
    )  # fmt: skip
    env.reset(seed=0, options={"item": item})
    return env


def test_zero_is_a_guess():
    """Case gym-011."""
    env = game(0, 10, 0)
    assert env.step(answer_turn("5"))[0] == "<result>lower</result>"
    _, reward, terminated, *_ = env.step(answer_turn("0"))
    assert (reward, terminated) == (1.0, True)
    assert game(0, 10, 3).step(answer_turn("0"))[0] == "<result>higher</result>"


def test_several_guesses_in_one_turn_end_the_game_unpaid():
    _, reward, terminated, _, info = game(0, 10, 3).step(answer_turn("3") + answer_turn("4"))
    assert (reward, terminated, info["grade_status"]) == (0.0, True, "multiple")
    _, reward, terminated, _, info = game(0, 10, 3).step(answer_turn("3,4"))
    assert (reward, info["grade_status"]) == (0.0, "malformed")


def test_a_turn_without_a_guess_costs_a_turn_and_ends_nothing():
    env = game(0, 10, 3)
    assert env.step("hm")[:4] == ("<result>no guess</result>", 0.0, False, False)


def test_halving_is_worth_everything_and_later_finds_less():
    assert worth(4, 8) == 1.0
    assert worth(5, 8) == 0.5
    assert worth(6, 8) == pytest.approx(1 / 3)
    assert all(worth(n, 8) > worth(n + 1, 8) for n in range(4, 9))


@pytest.mark.parametrize("level", tasks.get("guess").levels)
def test_the_oracle_is_paid_in_full_within_the_turns(level: int):
    spec = tasks.get("guess")
    sizes = set()
    for index in range(40):
        item = splits.item(spec, "train", 0, index, level)
        sizes.add(item.meta["high"] - item.meta["low"] + 1)
        env = tasks.make("guess")
        env.reset(seed=0, options={"item": item})
        turns = spec.oracle(item)
        assert len(turns) <= spec.max_turns
        for turn in turns:
            _, reward, terminated, *_ = env.step(turn)
        assert (reward, terminated) == (1.0, True)
    assert len(sizes) == 1


def test_ranges_grow_with_the_level():
    spec = tasks.get("guess")
    sizes = [
        item.meta["high"] - item.meta["low"]
        for item in (splits.item(spec, "train", 0, 0, lv) for lv in spec.levels)
    ]
    assert sizes == sorted(set(sizes))


def test_never_finding_it_is_truncated_and_unpaid():
    env = game(0, 100, 77)
    for _ in range(tasks.get("guess").max_turns):
        _, reward, terminated, truncated, info = env.step(answer_turn("1"))
    assert (reward, terminated, truncated, info["stop"]) == (0.0, False, True, "max_turns")
