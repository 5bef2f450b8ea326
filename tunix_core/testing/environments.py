"""Environments that follow a script: rewards, faults, answers that never come, the order in which they end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

from tunix_core.types import EpisodeTicket


def share_of(letter: str) -> Callable[[tuple[str, ...]], float]:
    """A reward: the share of a letter in all that the policy said."""
    return lambda said: "".join(said).count(letter) / max(len("".join(said)), 1)


share_of_a = share_of("a")
"""The default reward: dense, so that groups have signal."""


def constant(reward: Any) -> Callable[[tuple[str, ...]], Any]:
    """A reward that is always the same; NaN, None and infinities included."""
    return lambda said: reward


class CompletionOrder:
    """Episodes end one after another in the given order of (tenant_id, ordinal, sample_index).

    For runtime 'threads', with as many workers as episodes may wait; those not named are free. An order that
    the run can't follow (an episode that is admitted only after a later one has ended) shows as a stall.
    """

    def __init__(self, keys: Sequence[tuple[str, int, int]]) -> None:
        self._turns = {key: threading.Event() for key in keys}
        self._next = dict(pairwise(keys))
        if keys:
            self._turns[keys[0]].set()

    def wait(self, ticket: EpisodeTicket) -> None:
        """Blocks until every earlier episode is closed."""
        if ticket.key in self._turns:
            self._turns[ticket.key].wait()

    def ended(self, ticket: EpisodeTicket) -> None:
        """Lets the next one end."""
        following = self._next.get(ticket.key)
        if following is not None:
            self._turns[following].set()

    def release(self) -> None:
        """Lets all of them end: for the clean-up of a test."""
        for turn in self._turns.values():
            turn.set()


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeScript:
    """What one scripted episode does."""

    observations: tuple[str, ...] = ("ab",)
    """The first at reset, one more after each turn; the episode ends with the turn after the last."""
    reward: Callable[[tuple[str, ...]], Any] = share_of_a
    """Of all the policy said, turn by turn."""
    endless: bool = False
    """Never ends: the last observation comes again and again."""
    truncate: bool = False
    """Ends as truncated rather than terminated."""
    raise_at: Literal["factory", "reset", "step", "close"] | None = None
    """Where the episode raises `error`."""
    error: type[Exception] = RuntimeError
    harness_error: str | None = None
    """Reported with the last step: the verifier failed."""
    hold: threading.Event | None = None
    """Every step waits for it: an environment as slow as the test wants."""
    on_step: Callable[[EpisodeTicket], None] = lambda ticket: None
    """Called in every step, before anything else."""
    order: CompletionOrder | None = None
    """Its last step waits for its turn in this order."""


class ScriptedEnv:
    """An environment that follows its script."""

    def __init__(self, ticket: EpisodeTicket, script: EpisodeScript) -> None:
        self.ticket, self.script = ticket, script
        self.said: list[str] = []
        self.closed = 0

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """The first observation; the item's uid is made of the ticket."""
        del seed, options
        self._fail("reset")
        t = self.ticket
        return self.script.observations[0], {"item_uid": f"{t.env_id}/{t.env_seed}/{t.item_index}"}

    def step(self, action: str) -> tuple[str, Any, bool, bool, dict[str, Any]]:
        """The next observation, or the reward."""
        script = self.script
        script.on_step(self.ticket)
        if script.hold is not None:
            script.hold.wait()
        self._fail("step")
        self.said.append(action)
        if script.endless or len(self.said) < len(script.observations):
            return (
                script.observations[min(len(self.said), len(script.observations) - 1)],
                0.0,
                False,
                False,
                {},
            )
        if script.order is not None:
            script.order.wait(self.ticket)
        info: dict[str, Any] = {"grade_status": "correct", "stop": "terminated"}
        if script.harness_error is not None:
            info["harness_error"] = script.harness_error
        return "", script.reward(tuple(self.said)), not script.truncate, script.truncate, info

    def close(self) -> None:
        """Counts."""
        self.closed += 1
        if self.script.order is not None:
            self.script.order.ended(self.ticket)
        self._fail("close")

    def _fail(self, place: str) -> None:
        if self.script.raise_at == place:
            raise self.script.error(f"scripted failure in {place}")


class ScriptedEnvs:
    """An environment factory: `choose` gives each ticket its script; `built` holds the environments made."""

    def __init__(self, choose: Callable[[EpisodeTicket], EpisodeScript] | None = None) -> None:
        self._choose = choose or (lambda ticket: EpisodeScript())
        self.built: list[ScriptedEnv] = []

    def __call__(self, ticket: EpisodeTicket) -> ScriptedEnv:
        """Builds the environment of one episode."""
        script = self._choose(ticket)
        if script.raise_at == "factory":
            raise script.error("scripted failure in factory")
        env = ScriptedEnv(ticket, script)
        self.built.append(env)
        return env
