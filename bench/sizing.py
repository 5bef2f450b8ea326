"""Sizes of a run, read off the tasks themselves: how long their prompts, turns and episodes are."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tasks.env import TextEnv
from tunix_core.tokens import Renderer

PROBED_ITEMS = 100
TURN_MARGIN = 1.25
"""A policy may be wordier than the oracle; beyond this a turn is cut and counted as truncated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Token counts: first context, longest context, longest turn, whole episode."""

    opening: int
    context: int
    turn: int

    @property
    def episode(self) -> int:
        """Longest sequence the learner can get."""
        return self.context + self.turn


def round_up(n: float, multiple: int) -> int:
    """The next multiple."""
    return math.ceil(n / multiple) * multiple


def probe(
    env_id: str,
    env: TextEnv,
    renderer: Renderer,
    splits: Iterable[str] = ("train", "dev"),
    items: int = PROBED_ITEMS,
) -> Sizes:
    """Plays the oracle over some items and measures, with room for a wordier policy that uses every turn."""
    opening = turn = growth = 0
    for split in splits:
        for index in range(items):
            observation, _ = env.reset(seed=0, options={"split": split, "index": index})
            opening = max(opening, len(renderer.open(observation, env_id)))
            for text in env.task.oracle(env.item):
                said = len(renderer.turn_ids(text, env_id))
                turn = max(turn, said)
                observation, _, terminated, truncated, _ = env.step(text)
                if not (terminated or truncated):
                    added = renderer.observation_ids(observation, first=False, env_id=env_id)
                    growth = max(growth, said + len(added))
    turn = math.ceil(turn * TURN_MARGIN) + 2
    context = opening + math.ceil((env.task.max_turns - 1) * growth * TURN_MARGIN)
    return Sizes(opening=opening, context=context, turn=turn)


def sizes_of(envs: Mapping[str, TextEnv], renderer: Renderer) -> Sizes:
    """The largest sizes over the environments of a run."""
    each = [probe(env_id, env, renderer) for env_id, env in envs.items()]
    return Sizes(
        opening=round_up(max(s.opening for s in each), 16),
        context=round_up(max(s.context for s in each), 16),
        turn=max(s.turn for s in each),
    )
