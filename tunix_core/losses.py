"""Policy losses, KL estimators and the weights of their sum. Each formula names its source.

A loss is a function of per-token arrays [B, L] and returns losses per token; it sums nothing. The sum is
sum(weight x loss) with weights from `sequence_token_weights`, taken over a tenant's whole update. Packing,
padding and the cut into micro-batches therefore can't change it, nor can rejected tokens: they stay in
the denominator.

policy_logprobs      log-probabilities of the sampled tokens under the weights being trained (differentiated)
proximal_logprobs    the same under the weights at the start of the update
behavior_logprobs    what the sampler recorded when it drew them; never recomputed
advantages           per token; a trajectory's advantage on each of its tokens
loss_mask            true on sampled tokens; nothing else enters a value, a gradient or a diagnostic
segment_ids          which sequence of the row a token belongs to (0 = padding)

Everything is computed in float32. Ratios are exponentials of log-ratios clamped to +-20.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from tunix_core.errors import ConfigError
from tunix_core.types import Array, LossSpec

MAX_LOG_RATIO = 20.0
"""exp(20) = 4.9e8 is beyond every clip and cap, and finite in float32 after any multiplication done here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LossConfig:
    """Constants of the policy losses."""

    clip_low: float = 0.2
    """The ratio's lower clip is 1 - clip_low."""
    clip_high: float = 0.28
    """The ratio's upper clip is 1 + clip_high. The asymmetry is DAPO's, arXiv 2503.14476."""
    is_cap: float = 2.0
    """Importance weights are truncated (or rejected) above it."""
    is_floor: float = 0.5
    """Masked importance sampling rejects below it."""

    def __post_init__(self) -> None:
        if not (self.clip_low >= 0 and self.clip_high >= 0):
            raise ConfigError(f"Clips are {self.clip_low} and {self.clip_high}; use 0 or more.")
        if not (0 <= self.is_floor <= self.is_cap and self.is_cap > 0):
            raise ConfigError(
                f"is_floor {self.is_floor} and is_cap {self.is_cap} leave no weight; use 0 <= floor <= cap."
            )

    @classmethod
    def from_spec(cls, spec: LossSpec) -> LossConfig:
        """The constants that a tenant's LossSpec names."""
        return cls(
            clip_low=spec.clip_low, clip_high=spec.clip_high, is_cap=spec.is_cap, is_floor=spec.is_floor
        )


DEFAULTS = LossConfig()


class PolicyLoss(NamedTuple):
    """Losses per token [B, L], 0 off the mask, and diagnostics per token [B, L]."""

    per_token: Array
    diagnostics: dict[str, Array]
    """ratio and is_weight float32; log_is_weight float32, before clamp and cap; clipped, rejected and silent bool.
    Silent tokens carry no policy gradient: their advantage is zero, they were rejected, or the clip took it."""


class Tokens(NamedTuple):
    """The operands of a loss [B, L]; masked entries are 0, and only `policy` carries a gradient."""

    policy: Array
    proximal: Array
    behavior: Array
    advantages: Array
    mask: Array
    segment_ids: Array


class PolicyLossFn(Protocol):
    """What every policy loss takes (module docstring) and returns."""

    def __call__(
        self,
        policy_logprobs: Array,
        proximal_logprobs: Array,
        behavior_logprobs: Array,
        advantages: Array,
        loss_mask: Array,
        segment_ids: Array,
        config: LossConfig = ...,
    ) -> PolicyLoss:
        """Losses per token, unsummed."""
        ...


_registry: dict[str, PolicyLossFn] = {}

POLICY_LOSSES: Mapping[str, PolicyLossFn] = MappingProxyType(_registry)
"""Names for `LossSpec.policy`."""


def policy_loss(formula: Callable[[Tokens, LossConfig], PolicyLoss]) -> PolicyLossFn:
    """Registers a formula over clean operands as a loss over raw arrays."""

    @functools.wraps(formula)
    def loss(
        policy_logprobs: Array,
        proximal_logprobs: Array,
        behavior_logprobs: Array,
        advantages: Array,
        loss_mask: Array,
        segment_ids: Array,
        config: LossConfig = DEFAULTS,
    ) -> PolicyLoss:
        mask = jnp.asarray(loss_mask, bool)

        def clean(x: Array) -> Array:
            # Before any arithmetic: where() on the result alone would let a masked NaN into the gradient.
            return jnp.where(mask, jnp.asarray(x, jnp.float32), 0.0)

        stop = jax.lax.stop_gradient
        operands = Tokens(
            policy=clean(policy_logprobs),
            proximal=stop(clean(proximal_logprobs)),
            behavior=stop(clean(behavior_logprobs)),
            advantages=stop(clean(advantages)),
            mask=mask,
            segment_ids=jnp.asarray(segment_ids, jnp.int32),
        )
        return formula(operands, config)

    del loss.__wrapped__  # the formula's signature isn't the loss's
    _registry[formula.__name__] = loss
    return loss


def _exp(log_ratio: Array) -> Array:
    return jnp.exp(jnp.clip(log_ratio, -MAX_LOG_RATIO, MAX_LOG_RATIO))


def _result(
    t: Tokens,
    per_token: Array,
    *,
    ratio: Array,
    is_weight: Array | None = None,
    log_is_weight: Array | None = None,
    clipped: Array | None = None,
    rejected: Array | None = None,
    silenced: Array | None = None,
) -> PolicyLoss:
    stop = jax.lax.stop_gradient
    no = jnp.zeros_like(t.mask)
    silent = (
        (t.advantages == 0) | (no if rejected is None else rejected) | (no if silenced is None else silenced)
    )
    diagnostics = {
        "ratio": jnp.where(t.mask, stop(ratio), 0.0),
        "is_weight": jnp.where(t.mask, 1.0 if is_weight is None else stop(is_weight), 0.0),
        "log_is_weight": jnp.where(t.mask, 0.0 if log_is_weight is None else stop(log_is_weight), 0.0),
        "clipped": no if clipped is None else t.mask & stop(clipped),
        "rejected": no if rejected is None else t.mask & stop(rejected),
        "silent": t.mask & stop(silent),
    }
    return PolicyLoss(jnp.where(t.mask, per_token, 0.0), diagnostics)


def _clipped_surrogate(ratio: Array, advantages: Array, config: LossConfig) -> tuple[Array, Array]:
    """min(r A, clip(r) A) and where the clip took the gradient away."""
    free = ratio * advantages
    held = jnp.clip(ratio, 1.0 - config.clip_low, 1.0 + config.clip_high) * advantages
    return jnp.minimum(free, held), held < free


@policy_loss
def reinforce(t: Tokens, config: LossConfig) -> PolicyLoss:
    """-A log pi, as if on-policy. Williams 1992, Machine Learning 8:229."""
    return _result(t, -t.advantages * t.policy, ratio=_exp(t.policy - t.behavior))


@policy_loss
def ppo_clip(t: Tokens, config: LossConfig) -> PolicyLoss:
    """-min(u A, clip(u) A) with u = policy / behavior: the trust region stands round the sampler's policy.

    Source: Schulman et al. 2017, arXiv 1707.06347.
    """
    ratio = _exp(t.policy - t.behavior)
    surrogate, clipped = _clipped_surrogate(ratio, t.advantages, config)
    return _result(t, -surrogate, ratio=ratio, clipped=clipped, silenced=clipped)


@policy_loss
def decoupled_ppo(t: Tokens, config: LossConfig) -> PolicyLoss:
    """-w min(r A, clip(r) A), r = policy / proximal, w = min(proximal / behavior, is_cap) without gradient.

    The trust region stands round the newest policy, so that staleness isn't taken for a large step.
    Source: Hilton et al. 2021, arXiv 2110.00641; Fu et al. 2025, arXiv 2505.24298 (AReaL).
    """
    log_weight = t.proximal - t.behavior
    weight = jnp.minimum(_exp(log_weight), config.is_cap)
    ratio = _exp(t.policy - t.proximal)
    surrogate, clipped = _clipped_surrogate(ratio, t.advantages, config)
    return _result(
        t,
        -weight * surrogate,
        ratio=ratio,
        is_weight=weight,
        log_is_weight=log_weight,
        clipped=clipped,
        silenced=clipped,
    )


@policy_loss
def truncated_is(t: Tokens, config: LossConfig) -> PolicyLoss:
    """-min(u, is_cap) A log pi per token, u = policy / behavior without gradient.

    Source: Ionides 2008, J. Comput. Graph. Stat. 17:295; Espeholt et al. 2018, arXiv 1802.01561.
    """
    log_weight = jax.lax.stop_gradient(t.policy - t.behavior)
    ratio = _exp(log_weight)
    weight = jnp.minimum(ratio, config.is_cap)
    loss = -weight * t.advantages * t.policy
    return _result(t, loss, ratio=ratio, is_weight=weight, log_is_weight=log_weight, clipped=ratio > weight)


@policy_loss
def masked_is(t: Tokens, config: LossConfig) -> PolicyLoss:
    """-u A log pi per token where is_floor <= u <= is_cap, else exactly 0; u = policy / behavior.

    Source: token-level masking as in IcePop (Ling team 2025; GLM-5).
    """
    return _masked(t, jax.lax.stop_gradient(t.policy - t.behavior), config)


@policy_loss
def sequence_masked_is(t: Tokens, config: LossConfig) -> PolicyLoss:
    """As `masked_is` with one weight a sequence, the *product* of its token ratios; rejected as a whole.

    The product is the unbiased weight, and shrinks or grows with length. `geometric_masked_is` doesn't.
    Source: Liu et al. 2025, 'When Speed Kills Stability' (sequence-level masked importance sampling).
    """
    log_weight = jax.lax.stop_gradient(
        sequence_log_ratio(t.policy - t.behavior, t.mask, t.segment_ids, "sum")
    )
    return _masked(t, log_weight, config)


@policy_loss
def geometric_masked_is(t: Tokens, config: LossConfig) -> PolicyLoss:
    """`truncated_is` on the sequences whose *mean* log-ratio stays within [is_floor, is_cap]; else exactly 0.

    The mean says only whether to keep; as a weight it would be biased. Useful bounds are near 1.
    Source: Liu et al. 2025, 'When Speed Kills Stability' (geometric sequence mask).
    """
    log_ratio = jax.lax.stop_gradient(t.policy - t.behavior)
    mean_ratio = _exp(sequence_log_ratio(log_ratio, t.mask, t.segment_ids, "mean"))
    kept = (mean_ratio >= config.is_floor) & (mean_ratio <= config.is_cap)
    ratio = _exp(log_ratio)
    weight = jnp.where(kept, jnp.minimum(ratio, config.is_cap), 0.0)
    loss = jnp.where(kept, -weight * t.advantages * jnp.where(kept, t.policy, 0.0), 0.0)
    return _result(t, loss, ratio=ratio, is_weight=weight, log_is_weight=log_ratio, rejected=~kept)


@policy_loss
def cispo(t: Tokens, config: LossConfig) -> PolicyLoss:
    """-clip(u, 1 - clip_low, 1 + clip_high) A log pi, the clipped u without gradient: no token goes silent.

    The paper leaves the lower side open (clip_low >= 1) and tunes clip_high, 4 to 5 in later work.
    Source: MiniMax 2025, arXiv 2506.13585.
    """
    log_weight = jax.lax.stop_gradient(t.policy - t.behavior)
    ratio = _exp(log_weight)
    weight = jnp.clip(ratio, max(0.0, 1.0 - config.clip_low), 1.0 + config.clip_high)
    loss = -weight * t.advantages * t.policy
    return _result(t, loss, ratio=ratio, is_weight=weight, log_is_weight=log_weight, clipped=ratio != weight)


@policy_loss
def gspo(t: Tokens, config: LossConfig) -> PolicyLoss:
    """-min(s A, clip(s) A) on every token, s = exp(mean over the sequence's tokens of log policy / behavior).

    The length-normalised ratio needs clips far below PPO's (the paper's are 3e-4 and 4e-4). The paper's
    sum is the sequence mean; with it each token's gradient is -s A / length, as there.
    Source: Zheng et al. 2025, arXiv 2507.18071.
    """
    ratio = _exp(sequence_log_ratio(t.policy - t.behavior, t.mask, t.segment_ids, "mean"))
    surrogate, clipped = _clipped_surrogate(ratio, t.advantages, config)
    return _result(t, -surrogate, ratio=ratio, clipped=clipped, silenced=clipped)


def _masked(t: Tokens, log_weight: Array, config: LossConfig) -> PolicyLoss:
    ratio = _exp(log_weight)
    kept = (ratio >= config.is_floor) & (ratio <= config.is_cap)
    weight = jnp.where(kept, ratio, 0.0)
    loss = jnp.where(kept, -weight * t.advantages * jnp.where(kept, t.policy, 0.0), 0.0)
    return _result(t, loss, ratio=ratio, is_weight=weight, log_is_weight=log_weight, rejected=~kept)


def sequence_log_ratio(log_ratio: Array, loss_mask: Array, segment_ids: Array, kind: str) -> Array:
    """Each token's sequence-level log-ratio [B, L]: 'sum' (product of ratios) or 'mean' (geometric mean).

    Taken over the sequence's loss tokens alone; tokens off the mask get their sequence's value too.
    """
    if kind not in ("sum", "mean"):
        raise ConfigError(f"Sequence ratio {kind!r} not found. The kinds are 'sum' and 'mean'.")
    mask = jnp.asarray(loss_mask, bool)
    segments = jnp.asarray(segment_ids, jnp.int32)

    def per_row(values: Array, row_mask: Array, row_segments: Array) -> Array:
        n = values.shape[0] + 1  # at most L segments, and 0 for padding
        total = jax.ops.segment_sum(jnp.where(row_mask, values, 0.0), row_segments, n)
        if kind == "mean":
            total = total / jnp.maximum(
                jax.ops.segment_sum(row_mask.astype(jnp.float32), row_segments, n), 1.0
            )
        return total[row_segments]

    return jax.vmap(per_row)(jnp.asarray(log_ratio, jnp.float32), mask, segments)


AGGREGATIONS = ("token_mean", "sequence_mean", "constant")
"""Kinds of `sequence_token_weights`."""


def sequence_token_weights(
    loss_tokens: Sequence[int] | np.ndarray, kind: str, constant: float | None = None
) -> np.ndarray:
    """Weight float32 [n] of each token of n sequences: one tenant's whole update, before any packing.

    Args:
      loss_tokens: loss tokens per sequence [n]; 0 for one that is masked out entirely.
      kind: 'token_mean', every token the same, 1 / sum(loss_tokens) (DAPO, arXiv 2503.14476);
        'sequence_mean', every sequence the same, 1 / (sequences x its loss_tokens) (GRPO, arXiv 2402.03300);
        'constant', 1 / (sequences x constant) (Dr. GRPO, arXiv 2503.20783).
        Sequences without loss tokens count in no denominator.
      constant: the normaliser of 'constant', usually the longest allowed answer.
    """
    counts = np.asarray(loss_tokens, np.float64)
    present = counts > 0
    sequences = int(present.sum())
    if kind == "token_mean":
        weights = np.full(counts.shape, 1.0 / max(counts.sum(), 1.0))
    elif kind == "sequence_mean":
        weights = 1.0 / (max(sequences, 1) * np.maximum(counts, 1.0))
    elif kind == "constant":
        if constant is None or not constant > 0:
            raise ConfigError(f"Aggregation 'constant' needs a positive constant, not {constant}.")
        weights = np.full(counts.shape, 1.0 / (max(sequences, 1) * constant))
    else:
        raise ConfigError(
            f"Aggregation {kind!r} not found. The kinds are token_mean, sequence_mean and constant."
        )
    return np.where(present, weights, 0.0).astype(np.float32)


def effective_sample_size(weights: Array, mask: Array) -> Array:
    """(sum w)^2 / (n sum w^2) over masked-in tokens, in 0..1; 1 on-policy, 0 without tokens. Kish 1965."""
    kept = jnp.where(jnp.asarray(mask, bool), jnp.asarray(weights, jnp.float32), 0.0)
    n = jnp.asarray(mask, bool).sum()
    squares = (kept**2).sum()
    return jnp.where(squares > 0, kept.sum() ** 2 / jnp.where(squares > 0, n * squares, 1.0), 0.0)
