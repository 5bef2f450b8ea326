"""Environments in the style of GEM as Gymnasium environments.

Such an environment has `reset(seed)` and `step(text)` and looks like Gymnasium's; it also reseeds the global
random state, ends an episode with `terminated` and `truncated` both true, and gives rewards of any number
type. What comes out of `GemEnv` passes Gymnasium's checker.

It is an environment to roll out in, not a task of a run: a record can be graded again only where reward is a
function of an item and a text (`tasks.TaskSpec`), and here it is whatever the environment says.

Source: https://github.com/axon-rl/gem, `gem/core.py` (Apache-2.0); read and run at version 0.1.0.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from typing import Any, Protocol

import gymnasium

from tasks.adapters.ambient import AmbientState
from tasks.data.sources import DataMissingError
from tasks.spaces import UnicodeText

_MAX_CHARS = 100_000
_PLAIN = (str, int, float, bool, type(None))


class GemLike(Protocol):
    """What is asked of the wrapped environment."""

    def reset(self, seed: int | None = None) -> tuple[Any, dict[str, Any]]:
        """Begins an episode."""
        ...

    def step(self, action: str) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Takes a turn."""
        ...


class GemEnv(gymnasium.Env[str, str]):
    """One environment; `make_env` is called under a random state of its own, for some play a game at once.

    `info` holds ``stop``: None, ``terminated`` or ``truncated``, and the plain values of the inner `info`; an
    episode that the inner environment calls both is terminated here and ``truncated_too`` says so.
    """

    metadata = {"render_modes": []}  # noqa: RUF012 Gymnasium's own form

    def __init__(self, make_env: Callable[[], GemLike], *, max_chars: int = _MAX_CHARS) -> None:
        self.observation_space = UnicodeText(max_chars)
        self.action_space = UnicodeText(max_chars)
        self._state = AmbientState(0)
        with self._state.lent():
            self._inner = make_env()
        self._open = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Begins an episode; the inner environment is seeded from `np_random` every time.

        Raises:
          ValueError: options were given, of which such an environment knows none.
        """
        super().reset(seed=seed)
        if options:
            raise ValueError(f"A GEM environment takes no options; it was given {sorted(options)}.")
        drawn = int(self.np_random.integers(1 << 31))
        self._state = AmbientState(drawn)
        with self._state.lent():
            observation, info = self._inner.reset(seed=drawn)
        self._open = True
        return str(observation), _plain(info) | {"stop": None}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Takes a turn.

        Raises:
          RuntimeError: there is no open episode.
          ValueError: the inner environment gave a reward that is no finite number.
        """
        if not self._open:
            raise RuntimeError("The episode is over; call reset() first.")
        with self._state.lent():
            observation, reward, terminated, truncated, info = self._inner.step(action)
        reward = float(reward)
        if not math.isfinite(reward):
            raise ValueError(
                f"{type(self._inner).__name__} gave the reward {reward}, which is no finite number."
            )
        terminated, truncated = bool(terminated), bool(truncated)
        told = _plain(info) | {"stop": "terminated" if terminated else "truncated" if truncated else None}
        if terminated and truncated:
            told["truncated_too"] = True
        self._open = not (terminated or truncated)
        return str(observation), reward, terminated, truncated and not terminated, told


def make(env_id: str, **options: Any) -> GemEnv:
    """Makes an environment of GEM's registry, e.g. ``game:GuessTheNumber-v0-easy``.

    Raises:
      DataMissingError: GEM is not installed.
      ValueError: GEM has no such environment.
    """
    try:
        importlib.import_module("gem.envs")  # registers them
        gem = importlib.import_module("gem")
    except ModuleNotFoundError as error:
        raise DataMissingError(
            "GEM is not installed (pip install gem-llm, best in an environment of its own: it pins its "
            "requirements); or give GemEnv a function that makes your environment."
        ) from error
    return GemEnv(lambda: gem.make(env_id, **options))


def _plain(info: dict[str, Any]) -> dict[str, Any]:
    """Without what another process would not repeat: objects, arrays, clocks in them."""
    return {str(key): value for key, value in info.items() if isinstance(value, _PLAIN)}
