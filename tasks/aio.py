"""`AsyncTextEnv`: the asyncio twin of a text environment, with the same results.

Resets and steps run in threads; a simulated delay is awaited and holds no thread, so that thousands of
episodes can wait for their tools at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import Executor
from typing import Any

import gymnasium

from tasks.latency import LatencyEnv


class AsyncTextEnv:
    """One episode at a time, awaited. What is not listed here is on `env`."""

    def __init__(self, env: gymnasium.Env[str, str], executor: Executor | None = None) -> None:
        """Wraps `env`; `executor` runs its calls, None is the event loop's own."""
        self.env = env
        self._executor = executor

    async def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Opens an episode; see `TextEnv.reset`."""
        loop = asyncio.get_running_loop()
        chosen = None if options is None else dict(options)
        return await loop.run_in_executor(self._executor, lambda: self.env.reset(seed=seed, options=chosen))

    async def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Takes the policy's text of one turn; see `TextEnv.step`."""
        loop = asyncio.get_running_loop()
        env = self.env
        if not isinstance(env, LatencyEnv):
            return await loop.run_in_executor(self._executor, env.step, action)  # type: ignore[return-value]
        result, delay_s = await loop.run_in_executor(self._executor, env.step_at_once, action)
        await asyncio.sleep(delay_s)
        return result

    async def close(self) -> None:
        """Frees what the environment holds."""
        await asyncio.get_running_loop().run_in_executor(self._executor, self.env.close)
