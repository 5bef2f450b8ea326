"""What a simulated episode is: how long its turns are, and how long its environment takes to answer."""

from __future__ import annotations

import bisect
import hashlib
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Protocol

from bench.errors import UsageError
from tunix_core.types import EpisodeTicket

_Z95 = NormalDist().inv_cdf(0.95)


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnShape:
    """One turn: tokens read before it, tokens sampled in it, and the environment's own seconds to answer it."""

    context_tokens: int
    sampled_tokens: int
    env_s: float = 0.0
    prompt: str | None = None
    """Turns of one tenant with the same prompt are read once; None: a group's first turns share theirs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeShape:
    """An episode. `cut`: its last turn ran into a token limit and is not handed to the environment."""

    turns: tuple[TurnShape, ...]
    reset_s: float = 0.0
    cut: bool = False

    @property
    def trained_tokens(self) -> int:
        """Length of the sequence the learner gets."""
        return self.turns[-1].context_tokens + self.turns[-1].sampled_tokens if self.turns else 0


class Work(Protocol):
    """Where episodes come from: pure functions of a ticket, so that every arm meets the same ones."""

    def shape(self, ticket: EpisodeTicket) -> EpisodeShape:
        """The episode of a ticket."""
        ...

    def delay_s(self, ticket: EpisodeTicket, turn: int) -> float:
        """Seconds a tool adds to the environment's own time in answering turn 0, 1, …"""
        ...


class Delay(Protocol):
    """A latency: `tasks.latency.LatencyProfile`, or a log of a user's own tools."""

    def delay_s(self, key: tuple[Any, ...]) -> float:
        """Seconds, a pure function of the key."""
        ...


@dataclass(frozen=True, slots=True)
class LoggedDelay:
    """Delays drawn, with replacement, from seconds that were measured."""

    seconds: tuple[float, ...]
    seed: int = 0

    def delay_s(self, key: tuple[Any, ...]) -> float:
        """One of the measured ones."""
        return self.seconds[int(uniform(self.seed, "log", *key) * len(self.seconds))]


def uniform(*key: object) -> float:
    """A number in [0, 1) folded from identity, the same in every process."""
    digest = hashlib.blake2b("\0".join(map(str, key)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") / 2**64


def delay_key(ticket: EpisodeTicket, turn: int) -> tuple[Any, ...]:
    """The key under which the trainer's environments look a simulated delay up."""
    return (ticket.env_id, ticket.env_seed, ticket.item_index, ticket.sample_index, turn + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnWork:
    """Episodes drawn from log-normal lengths: prompt fixed, `turns` turns, each read back with an observation."""

    prompt_tokens: int
    response_tokens: float
    """Median of a turn."""
    response_p95: float
    max_new_tokens: int
    turns: int = 1
    observation_tokens: int = 0
    env_s: float = 0.0
    delay: Delay | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.response_tokens <= self.response_p95 <= self.max_new_tokens:
            raise UsageError(
                f"response_tokens {self.response_tokens:g}, response_p95 {self.response_p95:g} and max_new_tokens "
                f"{self.max_new_tokens} must ascend from 1",
                "a turn's median is at most its 95th percentile, and that at most the limit",
            )
        if self.prompt_tokens < 1 or self.turns < 1 or self.observation_tokens < 0 or self.env_s < 0:
            raise UsageError("prompt_tokens and turns start at 1, observation_tokens and env_s at 0")

    @property
    def max_context(self) -> int:
        """Longest context of a turn."""
        return self.prompt_tokens + (self.turns - 1) * (self.max_new_tokens + self.observation_tokens)

    def shape(self, ticket: EpisodeTicket) -> EpisodeShape:
        """Drawn from the ticket's identity."""
        sigma = math.log(self.response_p95 / self.response_tokens) / _Z95
        rng = random.Random(int(uniform(self.seed, *ticket.key, ticket.env_seed) * 2**53))
        context, turns = self.prompt_tokens, []
        for _ in range(self.turns):
            sampled = round(self.response_tokens * math.exp(sigma * rng.gauss(0.0, 1.0)))
            sampled = min(max(sampled, 1), self.max_new_tokens)
            turns.append(TurnShape(context_tokens=context, sampled_tokens=sampled, env_s=self.env_s))
            context += sampled + self.observation_tokens
        return EpisodeShape(turns=tuple(turns), reset_s=self.env_s)

    def delay_s(self, ticket: EpisodeTicket, turn: int) -> float:
        """As `delay` says."""
        return 0.0 if self.delay is None else self.delay.delay_s(delay_key(ticket, turn))


@dataclass(frozen=True, slots=True)
class RecordedWork:
    """Episodes that were recorded, drawn with replacement by task; delays as the coming run will meet them.

    `stages` are policy versions from which the shapes of a task hold on: a policy that learns talks differently.
    """

    shapes: Mapping[str, Sequence[tuple[int, Sequence[EpisodeShape]]]]
    """By task: (from version, shapes), ascending from version 0."""
    delay: Delay | None = None
    seed: int = 0

    def shape(self, ticket: EpisodeTicket) -> EpisodeShape:
        """One of the recorded episodes of this task, from when the policy was about as old."""
        stages = self.shapes.get(ticket.env_id)
        if not stages:
            known = ", ".join(sorted(self.shapes)) or "none"
            raise UsageError(
                f"no episode of {ticket.env_id} was measured; there are some of {known}",
                "audit the tasks of the run that is to be planned",
            )
        versions = [version for version, _ in stages]
        shapes = stages[max(0, bisect.bisect_right(versions, ticket.admitted_version) - 1)][1]
        return shapes[int(uniform(self.seed, "shape", *ticket.key, ticket.env_seed) * len(shapes))]

    def delay_s(self, ticket: EpisodeTicket, turn: int) -> float:
        """As `delay` says."""
        return 0.0 if self.delay is None else self.delay.delay_s(delay_key(ticket, turn))
