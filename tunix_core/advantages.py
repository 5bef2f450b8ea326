"""Group advantages: rewards of one item's trajectories to advantages. Host functions, float64 inside.

A reward that is None, NaN or infinite, or that `valid` leaves out, gets advantage 0 and takes no part in
any statistic. A group without spread, or with one member left, gets exact zeros in every dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tunix_core.errors import ConfigError


class _Group(NamedTuple):
    rewards: np.ndarray  # [..., G] float64, 0 where not valid
    centred: np.ndarray  # [..., G] rewards - mean of the valid ones, 0 where not valid
    valid: np.ndarray  # [..., G] bool
    members: np.ndarray  # [..., 1] number of valid members, at least 1


def _grpo(group: _Group, ddof: int, eps: float) -> np.ndarray:
    """(r - mean) / (std + eps). Shao et al. 2024, arXiv 2402.03300."""
    variance = (group.centred**2).sum(-1, keepdims=True) / np.maximum(group.members - ddof, 1)
    return group.centred / (np.sqrt(variance) + eps)


def _dr_grpo(group: _Group, ddof: int, eps: float) -> np.ndarray:
    """r - mean. Liu et al. 2025, arXiv 2503.20783."""
    return group.centred


def _rloo(group: _Group, ddof: int, eps: float) -> np.ndarray:
    """r - mean of the others = n / (n - 1) (r - mean). Ahmadian et al. 2024, arXiv 2402.14740."""
    return group.centred * group.members / np.maximum(group.members - 1, 1)


def _maxrl(group: _Group, ddof: int, eps: float) -> np.ndarray:
    """(r - mean) / mean, 0 where the mean is 0. MaxRL 2026, arXiv 2602.02710; for rewards >= 0."""
    if (group.rewards < 0).any():
        raise ConfigError("Advantage 'maxrl' needs rewards >= 0. Use 'grpo', 'dr_grpo' or 'rloo'.")
    mean = group.rewards.sum(-1, keepdims=True) / group.members
    return group.centred / np.where(mean > 0, mean, 1.0)


ADVANTAGES: Mapping[str, Callable[[_Group, int, float], np.ndarray]] = {
    "grpo": _grpo,
    "dr_grpo": _dr_grpo,
    "rloo": _rloo,
    "maxrl": _maxrl,
}
"""Kinds of `group_advantages`."""


def group_advantages(
    rewards: Sequence[float | None] | np.ndarray,
    kind: str = "grpo",
    *,
    valid: Sequence[bool] | np.ndarray | None = None,
    ddof: int = 0,
    eps: float = 1e-6,
) -> np.ndarray:
    """Advantages float32 [..., G], same order as the rewards.

    Args:
      rewards: [G], or any leading axes of groups; None, NaN and infinities are masked.
      kind: 'grpo', 'dr_grpo', 'rloo' or 'maxrl'.
      valid: [..., G]; false leaves a member out (a truncated episode, say).
      ddof: 0 for the population standard deviation, 1 for the sample one ('grpo' only).
      eps: added to the standard deviation ('grpo' only); positive.
    """
    if kind not in ADVANTAGES:
        raise ConfigError(f"Advantage {kind!r} not found. The kinds are {', '.join(ADVANTAGES)}.")
    if ddof not in (0, 1):
        raise ConfigError(f"ddof is {ddof}; use 0 (population) or 1 (sample).")
    if not 0 < eps < np.inf:
        raise ConfigError(f"eps is {eps}; use a small positive number.")
    values = _as_float64(rewards)
    if values.ndim == 0:
        raise ValueError("rewards is a scalar; give the rewards of a whole group.")
    if values.shape[-1] == 0:
        return np.zeros(values.shape, np.float32)
    keep = np.isfinite(values)
    if valid is not None:
        keep = keep & np.broadcast_to(np.asarray(valid, bool), values.shape)
    low = np.where(keep, values, np.inf).min(-1, keepdims=True)
    high = np.where(keep, values, -np.inf).max(-1, keepdims=True)
    # Decided before any sum is taken: a rounded mean would leave a residue that the division blows up.
    has_spread = low < high
    values = np.where(keep, values, 0.0)
    count = np.maximum(keep.sum(-1, keepdims=True), 1)
    # Statistics of the distance from the lowest reward: what all members share can't cost digits.
    shifted = np.where(keep & has_spread, values - np.where(has_spread, low, 0.0), 0.0)
    centred = np.where(keep & has_spread, shifted - shifted.sum(-1, keepdims=True) / count, 0.0)
    result = ADVANTAGES[kind](_Group(values, centred, keep, count), ddof, eps)
    return np.where(keep & has_spread, result, 0.0).astype(np.float32)


def invalid_count(rewards: Sequence[float | None] | np.ndarray) -> int:
    """Number of rewards that are None, NaN or infinite."""
    return int((~np.isfinite(_as_float64(rewards))).sum())


def soft_overlong_penalty(length: int, max_length: int, buffer: int) -> float:
    """Reward added to a long answer: 0 up to max_length - buffer, then down to -1 at max_length and beyond.

    Source: Yu et al. 2025, arXiv 2503.14476 (DAPO), equation 13.
    """
    if not 0 < buffer <= max_length:
        raise ConfigError(
            f"The penalty's buffer is {buffer}; it must be in 1..{max_length}, the length limit."
        )
    return -min(max(length - (max_length - buffer), 0) / buffer, 1.0)


def _as_float64(rewards: Any) -> np.ndarray:
    array = np.asarray(rewards)
    if array.dtype == object:
        array = np.vectorize(lambda r: np.nan if r is None else float(r), otypes=[np.float64])(array)
    return array.astype(np.float64)
