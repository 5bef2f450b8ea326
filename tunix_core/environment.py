"""The seam between tasks and trainer: the protocol every Gymnasium text environment already satisfies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from tunix_core.types import EpisodeTicket


class Environment(Protocol):
    """Text in, text out, Gymnasium's five values.

    Observations are the *new* text only. ``reset``'s info holds ``item_uid``. The info of the last step
    holds ``grade_status`` (a string) and ``stop`` (a string); the reward of the last step is the
    episode's reward. An info with ``harness_error`` set marks an episode whose verifier or tool failed:
    it is counted and never rewarded.
    """

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Starts an episode and returns (observation, info)."""
        ...

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Takes the policy's text of one turn; returns (observation, reward, terminated, truncated, info)."""
        ...

    def close(self) -> None:
        """Frees what the environment holds."""
        ...


EnvFactory = Callable[[EpisodeTicket], Environment]
"""Builds the environment of one episode; supplied by the composer, so that tasks and trainer never meet."""
