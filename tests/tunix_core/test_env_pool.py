"""Environment pools: whatever an environment does, it is answered, closed and never the run's end."""

from __future__ import annotations

import math
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from tunix_core.env_pool import EnvPool, EnvReply, InlineEnvPool, ThreadEnvPool
from tunix_core.environment import EnvFactory
from tunix_core.testing import EpisodeScript, ScriptedEnv, ScriptedEnvs, constant
from tunix_core.types import EpisodeTicket

TICKET = EpisodeTicket(
    tenant_id="t0", ordinal=3, sample_index=1, env_id="e", split="train", env_seed=5, item_index=3
)
LONG_S = 60.0  # a limit that is never reached


def ticket(k: int) -> EpisodeTicket:
    return replace(TICKET, ordinal=k)


@contextmanager
def pool(kind: str, factory: EnvFactory, *, workers: int = 2, timeout_s: float = LONG_S) -> Iterator[EnvPool]:
    made: EnvPool
    if kind == "inline":
        made = InlineEnvPool(factory, lambda: 0)
    else:
        made = ThreadEnvPool(factory, lambda: 0, workers=workers, timeout_s=timeout_s)
    yield made
    made.shutdown()


def answers(on: EnvPool, n: int = 1) -> list[EnvReply]:
    """The next n answers; fails rather than hangs."""
    found: list[EnvReply] = []
    for _ in range(200):
        found += on.poll()
        if len(found) >= n:
            return found
        on.wait(0.3)
    raise AssertionError(f"{len(found)} answers of {n}")


def eventually(true: Callable[[], bool]) -> None:
    """Waits for what another thread is about to do."""
    gate = threading.Event()
    for _ in range(3000):
        if true():
            return
        gate.wait(0.01)
    raise AssertionError("did not happen")


both = pytest.mark.parametrize("kind", ["inline", "threads"])


@both
def test_an_episode_is_opened_stepped_and_closed(kind: str) -> None:
    envs = ScriptedEnvs(lambda t: EpisodeScript(observations=("ab", "c")))
    with pool(kind, envs) as p:
        p.open(TICKET)
        (reply,) = answers(p)
        assert (reply.ticket, reply.observation, reply.error) == (TICKET, "ab", None)
        assert reply.info["item_uid"] == "e/5/3"
        p.step(TICKET, "a")
        (reply,) = answers(p)
        assert (reply.observation, reply.terminated) == ("c", False)
        p.step(TICKET, "b")
        (reply,) = answers(p)
        assert (reply.reward, reply.terminated, reply.truncated) == (0.5, True, False)
        p.close(TICKET)
        assert envs.built[0].closed == 1
        p.close(TICKET)
    assert [e.closed for e in envs.built] == [1]


@both
@pytest.mark.parametrize("place", ["factory", "reset", "step"])
def test_an_exception_is_an_answer_with_its_type_and_words(kind: str, place: Any) -> None:
    envs = ScriptedEnvs(lambda t: EpisodeScript(raise_at=place, error=ZeroDivisionError))
    with pool(kind, envs) as p:
        p.open(TICKET)
        (reply,) = answers(p)
        if place == "step":
            assert reply.error is None
            p.step(TICKET, "a")
            (reply,) = answers(p)
        assert reply.error == f"ZeroDivisionError: scripted failure in {place}"
        p.close(TICKET)
        assert [e.closed for e in envs.built] == [1] * len(envs.built)


@both
def test_an_answer_outside_the_protocol_is_an_error_of_that_episode(kind: str) -> None:
    class Silent:
        def reset(self, **_: Any) -> Any:
            return None, {}

        def close(self) -> None: ...

    with pool(kind, lambda t: Silent()) as p:  # pyright: ignore[reportArgumentType]
        p.open(TICKET)
        (reply,) = answers(p)
        assert reply.error == "EnvError: the observation is a NoneType; environments answer in text"


@both
@pytest.mark.parametrize("reward", [None, math.nan])
def test_a_missing_reward_is_no_number_rather_than_zero(kind: str, reward: float | None) -> None:
    with pool(kind, ScriptedEnvs(lambda t: EpisodeScript(reward=constant(reward)))) as p:
        p.open(TICKET)
        answers(p)
        p.step(TICKET, "a")
        (reply,) = answers(p)
        assert reply.error is None
        assert math.isnan(reply.reward)


@both
def test_a_failure_to_close_is_told_and_ends_nothing(kind: str) -> None:
    with pool(kind, ScriptedEnvs(lambda t: EpisodeScript(raise_at="close"))) as p:
        p.open(ticket(0))
        answers(p)
        with pytest.warns(
            RuntimeWarning, match="ScriptedEnv failed to close: RuntimeError: scripted failure"
        ):
            p.close(ticket(0))
        p.open(ticket(1))
        assert answers(p)[0].error is None
        with pytest.warns(RuntimeWarning, match="failed to close"):
            p.close(ticket(1))


@both
def test_shutdown_closes_what_is_open(kind: str) -> None:
    envs = ScriptedEnvs()
    with pool(kind, envs) as p:
        for k in range(5):
            p.open(ticket(k))
        answers(p, 5)
    assert [e.closed for e in envs.built] == [1] * 5


def test_slow_environments_do_not_hold_up_the_others() -> None:
    held = threading.Event()
    envs = ScriptedEnvs(lambda t: EpisodeScript(hold=held if t.ordinal == 0 else None))
    with pool("threads", envs) as p:
        for k in range(4):
            p.open(ticket(k))
        answers(p, 4)
        for k in range(4):
            p.step(ticket(k), "a")
        assert sorted(r.ticket.ordinal for r in answers(p, 3)) == [1, 2, 3]
        assert [t.ordinal for t, _ in p.waiting] == [0]
        held.set()
        assert answers(p)[0].ticket.ordinal == 0
        assert p.waiting == []


def test_a_call_past_its_limit_costs_its_episode_alone() -> None:
    """Every worker hangs: each is answered for at its deadline and replaced; the late answer is thrown away."""
    held = threading.Event()
    envs = ScriptedEnvs(lambda t: EpisodeScript(hold=held if t.ordinal < 3 else None))
    with pool("threads", envs, workers=1, timeout_s=0.2) as p:
        for k in range(4):
            p.open(ticket(k))
        answers(p, 4)
        for k in range(4):
            p.step(ticket(k), "a")
        replies = {r.ticket.ordinal: r for r in answers(p, 4)}
        for k in range(3):
            assert replies[k].error == "environment call took longer than its limit of 0.2 s"
            p.close(ticket(k))
        assert replies[3].error is None
        held.set()
        eventually(lambda: all(e.closed == 1 for e in envs.built[:3]))
        assert p.poll() == []


def test_an_episode_that_ends_while_its_environment_is_busy_is_closed_by_the_worker() -> None:
    held = threading.Event()
    envs = ScriptedEnvs(lambda t: EpisodeScript(hold=held))
    with pool("threads", envs, workers=1) as p:
        for k in range(2):
            p.open(ticket(k))
        answers(p, 2)
        p.step(ticket(0), "a")
        p.step(ticket(1), "a")  # queued behind the first
        p.close(ticket(0))
        p.close(ticket(1))
        assert p.waiting == []
        held.set()
        eventually(lambda: [e.closed for e in envs.built] == [1, 1])
        assert p.poll() == []
        assert envs.built[1].said == []  # nobody waited for it: it was never stepped


def test_shutdown_while_busy_closes_in_the_end_and_ends_the_threads() -> None:
    held = threading.Event()
    before = threading.active_count()
    envs = ScriptedEnvs(lambda t: EpisodeScript(hold=held))
    with pool("threads", envs, workers=3) as p:
        p.open(TICKET)
        answers(p)
        p.step(TICKET, "a")
    held.set()
    eventually(lambda: envs.built[0].closed == 1 and threading.active_count() <= before)


def test_waiting_is_oldest_first_and_a_wait_with_nothing_to_come_ends() -> None:
    held = threading.Event()
    envs = ScriptedEnvs(lambda t: EpisodeScript(hold=held))
    with pool("threads", envs, workers=2) as p:
        for k in range(3):
            p.open(ticket(k))
        answers(p, 3)
        for k in range(3):
            p.step(ticket(k), "a")
        eventually(lambda: sum(age > 0 for _, age in p.waiting) == 2)
        waits = p.waiting
        assert [age for _, age in waits] == sorted((age for _, age in waits), reverse=True)
        assert waits[-1][0].ordinal == 2
        assert not p.wait(0.01)
        held.set()
        answers(p, 3)
    with pool("inline", envs) as p:
        assert not p.wait(LONG_S)
        assert p.waiting == []


def test_an_environment_that_exits_costs_its_episode_and_no_worker() -> None:
    """sys.exit in a library would end the thread without a word, and its call would wait for its deadline."""

    def factory(of: EpisodeTicket) -> ScriptedEnv:
        if of.ordinal == 0:
            sys.exit(3)
        return ScriptedEnvs(lambda t: EpisodeScript())(of)

    with pool("threads", factory, workers=1) as p:
        p.open(ticket(0))
        assert answers(p)[0].error == "SystemExit: 3"
        p.open(ticket(1))
        assert answers(p)[0].error is None


def test_a_wait_for_answers_ends_when_it_is_woken() -> None:
    with pool("threads", ScriptedEnvs(), timeout_s=LONG_S) as p:
        began = threading.Event()
        ended = threading.Event()

        def wait() -> None:
            began.set()
            p.wait(LONG_S)
            ended.set()

        threading.Thread(target=wait, daemon=True).start()
        assert began.wait(10)
        p.wake()
        assert ended.wait(10)
        # woken before it waits: that wait ends at once, the next one is a wait again
        p.wake()
        assert not p.wait(LONG_S)
        assert not p.wait(0.01)
