"""Rotary positions: frequencies of the known scalings, tables of angles, the rotation.

Sources: Su et al. 2021, arXiv 2104.09864; linear: Chen et al. 2023, arXiv 2306.15595; yarn: Peng et al. 2023,
arXiv 2309.00071; llama3: Llama 3.1's release, as `config.json` describes it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from tunix_core.model.config import ModelConfig, RopeScaling
from tunix_core.types import Array


class Rope(NamedTuple):
    """cos and sin float32 [B, L, 1, d/2] of every token's angles."""

    cos: Array
    sin: Array


def rope_table(positions: Array, config: ModelConfig, *, local: bool = False) -> Rope:
    """Angles of positions int32 [B, L], in a local layer or in the others."""
    theta, scaling = config.rope_theta, config.rope_scaling
    if local and config.local_rope_theta is not None:
        theta, scaling = config.local_rope_theta, None
    half = config.head_dim // 2
    frequency = theta ** (-jnp.arange(half, dtype=jnp.float32) / half)
    if scaling is not None:
        frequency = frequency * _stretch(scaling, theta, config.head_dim)
    angle = positions[..., None, None].astype(jnp.float32) * frequency
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    if scaling is not None and (grown := attention_factor(scaling)) != 1:
        return Rope(cos * grown, sin * grown)
    return Rope(cos, sin)


def rotate(x: Array, rope: Rope) -> Array:
    """Rotates pairs (i, i + d/2) of x [B, L, H, d]."""
    half = x.shape[-1] // 2
    x1, x2 = x[..., :half], x[..., half:]
    return jnp.concatenate([x1 * rope.cos - x2 * rope.sin, x2 * rope.cos + x1 * rope.sin], axis=-1).astype(
        x.dtype
    )


def attention_factor(scaling: RopeScaling) -> float:
    """What queries and keys grow by; other than 1 for yarn alone (its section 3.4)."""
    if scaling.kind != "yarn":
        return 1.0
    if scaling.attention_factor is not None:
        return scaling.attention_factor
    return 0.1 * math.log(scaling.factor) + 1 if scaling.factor > 1 else 1.0


def _stretch(scaling: RopeScaling, theta: float, dim: int) -> np.ndarray:
    """What each of the dim / 2 frequencies is multiplied by, float32."""
    index = np.arange(dim // 2)
    if scaling.kind == "linear":
        shares = np.full(dim // 2, 1 / scaling.factor)
    elif scaling.kind == "factors":
        shares = 1 / np.asarray(scaling.factors)
    elif scaling.kind == "llama3":
        # rotations within the original context decide: many stay as they are, few are divided, between is blended
        rotations = scaling.original_max_position_embeddings * theta ** (-2 * index / dim) / (2 * math.pi)
        kept = (rotations - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor)
        kept = np.clip(kept, 0, 1)
        shares = (1 - kept) / scaling.factor + kept
    else:
        low, high = (
            dim
            * math.log(scaling.original_max_position_embeddings / (rotations * 2 * math.pi))
            / (2 * math.log(theta))
            for rotations in (scaling.beta_fast, scaling.beta_slow)
        )
        low, high = max(math.floor(low), 0), min(math.ceil(high), dim - 1)
        divided = np.clip((index - low) / max(high - low, 1e-3), 0, 1)
        shares = divided / scaling.factor + (1 - divided)
    return shares.astype(np.float32)
