"""GEM-style environments as Gymnasium ones. The stand-in does what GEM's own do."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from tasks.adapters import gem
from tasks.adapters.gem import GemEnv
from tasks.data.sources import DataMissingError


class Guess:
    """A guessing game: plays once when it is made, reseeds globally, ends both ways at once."""

    def __init__(self, last: float | None = None) -> None:
        self.last = last
        self.reset()

    def reset(self, seed: int | None = None) -> tuple[str, dict[str, Any]]:
        if seed is not None:
            random.seed(seed)
            np.random.seed(seed)
        self.number, self.turns = random.randint(1, 20), 0
        return f"Guess a number. Hint: {np.random.randint(100)}", {"suffix": "go", "board": [1, 2]}

    def step(self, action: str) -> tuple[str, Any, bool, bool, dict[str, Any]]:
        self.turns += 1
        hint = random.random()
        if action == str(self.number):
            return "Yes!", np.float64(1.0), np.True_, False, {}  # type: ignore[return-value]
        over = self.turns == 3
        return f"No. {hint}", self.last if over and self.last is not None else 0, over, over, {}


def test_it_passes_gymnasiums_checker():
    check_env(GemEnv(Guess), skip_render_check=True)


def test_an_episode_that_ends_both_ways_is_terminated():
    env = GemEnv(Guess)
    env.reset(seed=0)
    for _ in range(2):
        assert env.step("x")[1:4] == (0.0, False, False)
    _, reward, terminated, truncated, info = env.step("x")
    assert (type(reward), terminated, truncated) == (float, True, False)
    assert info == {"stop": "terminated", "truncated_too": True}
    with pytest.raises(RuntimeError, match="call reset"):
        env.step("x")


def test_a_right_answer_has_plain_types():
    env = GemEnv(Guess)
    env.reset(seed=0)
    number = env._inner.number  # type: ignore[attr-defined]
    assert repr(env.step(str(number))[1:4]) == "(1.0, True, False)"


def test_the_same_seed_is_the_same_episode_whatever_others_draw():
    def episode(disturb: bool) -> list[Any]:
        env, other = GemEnv(Guess), GemEnv(Guess)
        told: list[Any] = [env.reset(seed=3)]
        for _ in range(3):
            if disturb:
                random.random()
                np.random.rand()
                other.reset(seed=8)
                other.step("x")
            told.append(env.step("x"))
        return told

    assert episode(disturb=False) == episode(disturb=True)
    env = GemEnv(Guess)
    assert len({env.reset(seed=seed)[0] for seed in range(50)}) > 20


def test_the_global_random_state_is_left_alone():
    """Case gym-009."""
    random.seed(7)
    np.random.seed(7)
    expected = random.random(), np.random.rand()
    random.seed(7)
    np.random.seed(7)
    env = GemEnv(Guess)
    env.reset(seed=1)
    env.step("x")
    assert (random.random(), np.random.rand()) == expected


def test_bad_use_says_so():
    with pytest.raises(ValueError, match=r"no options; it was given \['level'\]"):
        GemEnv(Guess).reset(options={"level": 2})
    env = GemEnv(lambda: Guess(last=float("nan")))
    env.reset(seed=0)
    env.step("x")
    env.step("x")
    with pytest.raises(ValueError, match="Guess gave the reward nan"):
        env.step("x")


def test_gems_own_registry():
    try:
        env = gem.make("game:GuessTheNumber-v0-easy")
    except DataMissingError as missing:
        assert "pip install gem-llm" in str(missing)
        return
    check_env(env, skip_render_check=True)
