"""Examples for few-shot prompts: episodes of the oracle on train items of a seed that no run draws from."""

from __future__ import annotations

from typing import Any

from tunix_core.pretrained.formats import Dialogue, Exchange

EXAMPLE_SEED = 2**31 - 1
"""Seeds of tenants come from `seed`, which is below."""


def dialogues(env_id: str, shots: int, data: str | None = None) -> list[Dialogue]:
    """Plays the oracle over the first train items of `EXAMPLE_SEED`."""
    from bench.compose import make_env

    env: Any = make_env(env_id, data=data)
    out: list[Dialogue] = []
    for index in range(shots):
        observation, _ = env.reset(seed=EXAMPLE_SEED, options={"split": "train", "index": index})
        exchanges: list[Exchange] = []
        for turn in env.task.oracle(env.item):
            exchanges.append(Exchange(observation, turn))
            observation, *_ = env.step(turn)
        out.append(exchanges)
    return out
