"""`TextVectorEnv`: many text environments stepped together, in threads.

Gymnasium's own asynchronous vector environment keeps observations in shared memory, which it reads once for
text spaces: every later observation is forty zeros (Gymnasium issue 1164). This one hands texts over as they
are, gives the same results as stepping one environment after the other, and knows groups: the same item for
several samples of the policy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from tasks.registry import make

_Result = tuple[str, float, bool, bool, dict[str, Any]]


class TextVectorEnv(VectorEnv[tuple[str, ...], Sequence[str | None], NDArray[Any]]):
    """`num_envs` text environments as one.

    Observations are tuples of `num_envs` texts; rewards (float64), terminations and truncations (bool) are
    arrays of shape (num_envs,); infos are a dict of arrays with a mask each, as Gymnasium's are.

    What happens after an episode's end is the `autoreset_mode`:
      DISABLED (default): nothing; reset it with ``options={"reset_mask": mask}``, or leave it alone with an
        action of None, which repeats its flags with an empty observation and no reward.
      NEXT_STEP: the step after the end resets and ignores the action.
      SAME_STEP: the step that ends also resets; the last observation and info are in ``final_obs`` and
        ``final_info``.
    A reset that comes by itself has no options: they hold for the reset they are given to.
    """

    def __init__(
        self,
        makers: Sequence[Callable[[], gymnasium.Env[str, str]]],
        *,
        autoreset_mode: AutoresetMode | str = AutoresetMode.DISABLED,
        workers: int | None = None,
    ) -> None:
        """Builds the environments.

        Args:
          makers: one function an environment.
          autoreset_mode: see above.
          workers: threads; None is one an environment, at most 64. 1 steps one after the other.
        """
        if not makers:
            raise ValueError("A vector environment needs at least one environment.")
        self.envs = [make_one() for make_one in makers]
        self.num_envs = len(self.envs)
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.metadata = self.envs[0].metadata | {"autoreset_mode": self.autoreset_mode}
        self.single_observation_space = self.envs[0].observation_space
        self.single_action_space = self.envs[0].action_space
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self._threads = ThreadPoolExecutor(workers or min(self.num_envs, 64), thread_name_prefix="text-env")
        self._terminated = np.zeros(self.num_envs, dtype=np.bool_)
        self._truncated = np.zeros(self.num_envs, dtype=np.bool_)
        self._observations = [""] * self.num_envs
        self._group_seed = 0
        self._group_index = 0

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[tuple[str, ...], dict[str, Any]]:
        """Opens episodes in all environments, or in those of a mask.

        Args:
          seed: an int gives environment i the seed ``seed + i``, a sequence one each, None goes on.
          options: those of `TextEnv.reset`, and two more. ``reset_mask``: bool array (num_envs,), which to
            reset. ``group_size``: so many environments in a row share one item; then all use the one `seed`
            (None goes on with the last one) and group g takes item ``index + g`` of its stream.
        Raises:
          ValueError: an option that does not fit.
        """
        chosen = dict(options or {})
        mask = self._mask(chosen.pop("reset_mask", None))
        group_size = chosen.pop("group_size", None)
        if group_size is not None:
            each = self._groups(group_size, seed, chosen)
        else:
            if isinstance(seed, int):
                seed = range(seed, seed + self.num_envs)
            seeds = [None] * self.num_envs if seed is None else list(seed)
            if len(seeds) != self.num_envs:
                raise ValueError(f"seed has {len(seeds)} entries for {self.num_envs} environments.")
            each = [(one, chosen) for one in seeds]
        places = [int(i) for i in np.flatnonzero(mask)]
        opened = self._threads.map(lambda i: self.envs[i].reset(seed=each[i][0], options=each[i][1]), places)
        infos: dict[str, Any] = {}
        for i, (observation, info) in zip(places, opened, strict=True):
            self._observations[i] = observation
            self._terminated[i] = self._truncated[i] = False
            infos = self._add_info(infos, info, i)
        return tuple(self._observations), infos

    def step(
        self, actions: Sequence[str | None]
    ) -> tuple[tuple[str, ...], NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """Takes one turn in every environment.

        Raises:
          ValueError: another number of actions than environments.
          gymnasium.error.ResetNeeded: a turn for an episode that is over, where nothing resets it.
        """
        if isinstance(actions, str) or len(actions) != self.num_envs:
            raise ValueError(f"actions must be {self.num_envs} texts, one an environment.")
        results = list(self._threads.map(self._step_one, range(self.num_envs), actions))
        infos: dict[str, Any] = {}
        rewards = np.zeros(self.num_envs, dtype=np.float64)
        for i, (observation, reward, terminated, truncated, info) in enumerate(results):
            self._observations[i], rewards[i] = observation, reward
            self._terminated[i], self._truncated[i] = terminated, truncated
            infos = self._add_info(infos, info, i)
        return tuple(self._observations), rewards, self._terminated.copy(), self._truncated.copy(), infos

    def close_extras(self, **kwargs: Any) -> None:
        """Ends the threads and closes every environment."""
        del kwargs
        self._threads.shutdown()
        for env in self.envs:
            env.close()

    def _step_one(self, i: int, action: str | None) -> _Result:
        env, over = self.envs[i], bool(self._terminated[i] or self._truncated[i])
        if over and self.autoreset_mode is AutoresetMode.NEXT_STEP:
            observation, info = env.reset()
            return observation, 0.0, False, False, info
        if action is None:
            if not over:
                raise ValueError(f"Environment {i} has no action, and its episode is not over.")
            return "", 0.0, bool(self._terminated[i]), bool(self._truncated[i]), {}
        observation, reward, terminated, truncated, info = env.step(action)
        if self.autoreset_mode is AutoresetMode.SAME_STEP and (terminated or truncated):
            final = {"final_obs": observation, "final_info": info}
            observation, info = env.reset()
            return observation, float(reward), terminated, truncated, info | final
        return observation, float(reward), terminated, truncated, info

    def _mask(self, mask: Any) -> NDArray[np.bool_]:
        if mask is None:
            return np.ones(self.num_envs, dtype=np.bool_)
        found = np.asarray(mask)
        if found.dtype != np.bool_ or found.shape != (self.num_envs,) or not found.any():
            raise ValueError(f"reset_mask must be {self.num_envs} bools, at least one true; got {mask!r}.")
        return found

    def _groups(
        self, size: Any, seed: int | Sequence[int | None] | None, options: dict[str, Any]
    ) -> list[tuple[int, dict[str, Any]]]:
        if isinstance(size, bool) or not isinstance(size, int) or size < 1 or self.num_envs % size:
            raise ValueError(f"group_size {size!r} must be an int that divides {self.num_envs} environments.")
        if seed is not None and not isinstance(seed, int):
            raise ValueError("With group_size the seed is one int: a group's members share their item.")
        if seed is not None:
            self._group_seed, self._group_index = seed, 0
        first = options.pop("index", self._group_index)
        self._group_index = first + self.num_envs // size
        return [
            (self._group_seed, options | {"index": first + i // size, "sample_index": i % size})
            for i in range(self.num_envs)
        ]


def make_vec(
    task_id: str,
    num_envs: int = 1,
    *,
    autoreset_mode: AutoresetMode | str = AutoresetMode.DISABLED,
    workers: int | None = None,
    **options: Any,
) -> TextVectorEnv:
    """Builds `num_envs` environments of one task; `options` are those of `tasks.make`."""
    return TextVectorEnv(
        [lambda: make(task_id, **options)] * num_envs, autoreset_mode=autoreset_mode, workers=workers
    )
