from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

import tasks
from tasks import TextVectorEnv
from tasks.env import TextEnv
from tasks.latency import LatencyEnv, parse
from tasks.protocol import answer_turn, search_turn

MODES = list(AutoresetMode)


def inner(envs: TextVectorEnv, i: int) -> TextEnv:
    env = envs.envs[i]
    assert isinstance(env, TextEnv)
    return env


def plain(results: list[Any]) -> list[Any]:
    """Results as values that compare with ==."""

    def value(part: Any) -> Any:
        if isinstance(part, np.ndarray):
            return [value(one) for one in part.tolist()]
        if isinstance(part, dict):
            return {key: value(one) for key, one in part.items()}
        return [value(one) for one in part] if isinstance(part, tuple | list) else part

    return [value(result) for result in results]


def played(envs: TextVectorEnv) -> list[Any]:
    """Searches, wrong answers and silence in turn, over several episodes."""
    results: list[Any] = [envs.reset(seed=3, options={"split": "dev"})]
    turns = [search_turn("flag coin"), answer_turn("no"), "", "", "", search_turn("x"), answer_turn("red")]
    for turn in turns:
        if envs.autoreset_mode is AutoresetMode.DISABLED:
            over = results[-1][2] | results[-1][3] if len(results) > 1 else np.zeros(envs.num_envs, bool)
            if isinstance(over, np.ndarray) and over.any():
                results.append((*envs.reset(options={"reset_mask": over}), over * False, over * False))
        results.append(envs.step([turn] * envs.num_envs))
    envs.close()
    return plain(results)


@pytest.mark.parametrize("mode", MODES)
def test_threads_give_what_one_after_the_other_gives(mode: AutoresetMode):
    threads = played(tasks.make_vec("lookup", 5, autoreset_mode=mode))
    assert threads == played(tasks.make_vec("lookup", 5, autoreset_mode=mode, workers=1))


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_it_agrees_with_the_synchronous_environment_of_gymnasium(mode: AutoresetMode):
    ours = tasks.make_vec("lookup", 3, autoreset_mode=mode)
    theirs = gymnasium.make_vec(
        "Search/Lookup-v0", 3, vectorization_mode="sync", vector_kwargs={"autoreset_mode": mode}
    )
    assert ours.observation_space == theirs.observation_space
    pairs = [(ours.reset(seed=1), theirs.reset(seed=1))]
    for turn in (search_turn("flag"), "", answer_turn("x"), search_turn("a"), "", "", "", answer_turn("y")):
        pairs.append((ours.step((turn,) * 3), theirs.step((turn,) * 3)))
    for mine, other in pairs:
        assert tuple(mine[0]) == tuple(other[0])
        for a, b in zip(mine[1:-1], other[1:-1], strict=True):
            np.testing.assert_array_equal(a, b)
        assert set(mine[-1]) == set(other[-1])


def test_gymnasium_makes_ours_and_its_texts_are_the_texts():
    """Case gym-001: forty zeros came back in place of every text."""
    envs = gymnasium.make_vec("Math/Add-v0", num_envs=2)
    assert isinstance(envs, TextVectorEnv)
    observations, infos = envs.reset(seed=0)
    assert observations == (tasks.make("add").reset(seed=0)[0], tasks.make("add").reset(seed=1)[0])
    assert list(infos["task_id"]) == ["Math/Add-v0"] * 2
    _, rewards, terminated, truncated, infos = envs.step(
        tuple(inner(envs, i).task.oracle(inner(envs, i).item)[0] for i in range(2))
    )
    assert (rewards.tolist(), terminated.tolist(), truncated.tolist()) == (
        [1.0, 1.0],
        [True, True],
        [False, False],
    )
    envs.close()


def test_a_group_shares_its_item_and_its_members_are_told_apart():
    envs = tasks.make_vec("countdown", 6)
    observations, infos = envs.reset(seed=4, options={"group_size": 3})
    assert observations[0] == observations[1] == observations[2] != observations[3] == observations[5]
    assert infos["index"].tolist() == [0, 0, 0, 1, 1, 1]
    assert [inner(envs, i).coordinates[3] for i in range(6)] == [0, 1, 2, 0, 1, 2]
    _, infos = envs.reset(options={"group_size": 3})
    assert infos["index"].tolist() == [2, 2, 2, 3, 3, 3]
    assert envs.reset(seed=4, options={"group_size": 3})[0] == observations
    envs.close()


def test_without_autoreset_a_finished_environment_is_left_alone():
    envs = tasks.make_vec("lookup", 2)
    envs.reset(seed=0)
    envs.step([answer_turn("no"), search_turn("flag")])
    observations, rewards, terminated, truncated, _ = envs.step([None, ""])
    assert (observations[0], rewards.tolist()) == ("", [0.0, 0.0])
    assert (terminated.tolist(), truncated.tolist()) == ([True, False], [False, False])
    with pytest.raises(ValueError, match="Environment 1 has no action"):
        envs.step([None, None])
    with pytest.raises(gymnasium.error.ResetNeeded):
        envs.step(["", ""])
    opened, _ = envs.reset(options={"reset_mask": np.array([True, False])})
    assert opened[0]
    envs.close()


def test_options_hold_for_the_reset_they_are_given_to():
    """Case gym-012."""
    envs = tasks.make_vec("add", 2, autoreset_mode="NextStep")
    _, infos = envs.reset(seed=0, options={"level": 3, "split": "dev"})
    assert infos["level"].tolist() == [3, 3]
    envs.step(["", ""])
    infos = envs.step(["", ""])[4]
    assert (infos["level"].tolist(), infos["split"].tolist()) == ([2, 2], ["train", "train"])
    envs.close()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda envs: envs.reset(seed=[1]), "1 entries for 4"),
        (lambda envs: envs.reset(options={"group_size": 3}), "divides 4"),
        (lambda envs: envs.reset(seed=[1, 2, 3, 4], options={"group_size": 2}), "one int"),
        (lambda envs: envs.reset(options={"reset_mask": [1, 0, 0, 0]}), "4 bools"),
        (lambda envs: envs.reset(options={"reset_mask": np.zeros(4, bool)}), "at least one true"),
        (lambda envs: envs.step(["a"]), "4 texts"),
        (lambda envs: envs.step("abcd"), "4 texts"),
    ],
)
def test_a_call_that_does_not_fit_says_so(call: Any, message: str):
    envs = tasks.make_vec("add", 4)
    with pytest.raises(ValueError, match=message):
        call(envs)
    envs.close()


@pytest.mark.parametrize("latency", [None, "const:0.001"])
def test_the_async_twin_plays_the_same_episodes(latency: str | None):
    async def play(index: int) -> list[Any]:
        env = tasks.AsyncTextEnv(tasks.make("lookup", latency))
        results: list[Any] = [await env.reset(seed=1, options={"index": index})]
        for turn in (search_turn("flag"), answer_turn("no")):
            results.append(await env.step(turn))
        await env.close()
        return results

    async def all_of_them() -> list[Any]:
        return await asyncio.gather(*(play(index) for index in range(20)))

    expected = []
    for index in range(20):
        env = tasks.make("lookup")
        expected.append([env.reset(seed=1, options={"index": index})])
        expected[-1] += [env.step(turn) for turn in (search_turn("flag"), answer_turn("no"))]
    assert asyncio.run(all_of_them()) == expected


def test_a_simulated_delay_is_awaited_and_holds_no_thread():
    with ThreadPoolExecutor(1) as one_thread:

        async def late(env: tasks.AsyncTextEnv, done: list[str]) -> None:
            await env.reset(seed=0)
            await env.step("")
            done.append("late")

        async def both() -> list[str]:
            done: list[str] = []
            slow = LatencyEnv(TextEnv(tasks.get("lookup")), parse("const:600"))
            waiting = asyncio.create_task(late(tasks.AsyncTextEnv(slow, one_thread), done))
            quick = tasks.AsyncTextEnv(tasks.make("lookup"), one_thread)
            await quick.reset(seed=0)
            await quick.step("")
            done.append("quick")
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            return done

        assert asyncio.run(asyncio.wait_for(both(), 60)) == ["quick"]
