"""Estimators of KL(policy || reference) from the log-probabilities of sampled tokens."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from tunix_core.errors import ConfigError
from tunix_core.losses import MAX_LOG_RATIO
from tunix_core.types import Array

KL_ESTIMATORS = ("k1", "k2", "k3")
"""Kinds of `kl_penalty`."""


def kl_penalty(
    policy_logprobs: Array, reference_logprobs: Array, loss_mask: Array, kind: str = "k3"
) -> Array:
    """Per-token estimate [B, L] of KL(policy || reference), 0 off the mask; added to the loss.

    With d = log reference - log policy:
      k1 = -d, unbiased, may be negative; its gradient is zero in expectation, so it is for reports;
      k2 = d^2 / 2, biased, its gradient is the KL's on-policy;
      k3 = exp(d) - 1 - d, unbiased, never negative. Beyond d = 20 the exponential is continued by its
      tangent, so value and gradient stay finite and still pull back.
    Source: Schulman 2020, joschu.net/blog/kl-approx.html.
    """
    if kind not in KL_ESTIMATORS:
        raise ConfigError(f"KL estimator {kind!r} not found. The estimators are k1, k2 and k3.")
    mask = jnp.asarray(loss_mask, bool)
    policy = jnp.where(mask, jnp.asarray(policy_logprobs, jnp.float32), 0.0)
    reference = jnp.where(mask, jnp.asarray(reference_logprobs, jnp.float32), 0.0)
    d = jax.lax.stop_gradient(reference) - policy
    if kind == "k1":
        return -d
    if kind == "k2":
        return 0.5 * d * d
    held = jnp.minimum(d, MAX_LOG_RATIO)
    # Not exp(20) * (d - held): the two halves of its gradient would cancel, and round away what is left.
    tangent = jnp.exp(MAX_LOG_RATIO) * jnp.maximum(d - MAX_LOG_RATIO, 0.0)
    # Near 0 expm1(d) - d is all rounding and may come out negative; the series is exact there.
    small = jnp.abs(d) < 1e-3
    near = jnp.where(small, d, 0.0)
    return jnp.where(small, near * near * (0.5 + near / 6.0), jnp.expm1(held) - d + tangent)
