"""The learner's two compiled programs: accumulate gradients of a packed batch, apply them per tenant.

Gradients are taken with respect to each row's own copy of its tenant's factors and added to the tenant's sum
row by row. A row's gradient does not know its neighbours, so a tenant's update is the same whoever shares the
batch, and the same however its rows are cut into batches.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from tunix_core.kl import kl_penalty
from tunix_core.learner.state import Hyper, LearnerState, adam
from tunix_core.losses import POLICY_LOSSES, LossConfig
from tunix_core.model.config import ModelConfig
from tunix_core.model.decoder import Decoder
from tunix_core.model.lora import Factors, gather_rows, scale_rows
from tunix_core.types import Array, LossSpec, PackedBatch


class Tally(NamedTuple):
    """Sums over a tenant's loss tokens [T]; max_weight is a maximum."""

    loss: Array
    tokens: Array
    clipped: Array
    rejected: Array
    weight: Array
    weight_squared: Array
    max_weight: Array
    kl: Array
    gap: Array
    entropy: Array


class Scored(NamedTuple):
    """Of each token given what precedes it in its segment, float32 [B, L]; 0 where nothing precedes."""

    logprobs: Array
    entropy: Array


def empty_tally(tenants: int) -> Tally:
    """Nothing counted yet."""
    return Tally(*(jnp.zeros(tenants, jnp.float32) for _ in Tally._fields))


def score(
    params: Any, lora: Factors | None, batch: PackedBatch, temperature: Array, config: ModelConfig
) -> Scored:
    """Scores the tokens of a packed batch at temperature [B].

    Index j describes token j: the shift from "logits at j predict token j + 1" is made here and only here.
    """
    model: Any = Decoder(config)  # flax types what `apply` returns as a frozen dict
    hidden, _ = model.apply({"params": params}, batch.token_ids, batch.positions, batch.segment_ids, lora)
    logits = model.apply({"params": params}, hidden, method="logits") / temperature[:, None, None]
    logprobs = jax.nn.log_softmax(logits, axis=-1)
    following = jnp.take_along_axis(logprobs[:, :-1], batch.token_ids[:, 1:, None], axis=-1)[..., 0]
    entropy = -jnp.sum(jnp.exp(logprobs) * logprobs, axis=-1)[:, :-1]
    first = batch.positions[:, 1:] == 0
    return Scored(*(jnp.pad(jnp.where(first, 0.0, x), ((0, 0), (1, 0))) for x in (following, entropy)))


@partial(jax.jit, static_argnames=("config",))
def score_tokens(
    params: Any,
    factors: Factors,
    scale: Array,
    temperature: Array,
    batch: PackedBatch,
    *,
    config: ModelConfig,
) -> Scored:
    """Scores given token ids under the tenants' adapters; temperature and scale [T]."""
    slot = batch.tenant_slot
    lora = scale_rows(gather_rows(factors, slot), scale, slot)
    return score(params, lora, batch, temperature[slot], config)


@partial(jax.jit, static_argnames=("config", "losses"), donate_argnames=("grad_sum", "tally"))
def accumulate(
    params: Any,
    factors: Factors,
    scale: Array,
    temperature: Array,
    loss_index: Array,
    batch: PackedBatch,
    grad_sum: Factors,
    tally: Tally,
    *,
    config: ModelConfig,
    losses: tuple[LossSpec, ...],
) -> tuple[Factors, Tally]:
    """Adds one packed batch's gradients and figures to the tenants' sums.

    Args:
      factors, scale, temperature: of all tenants, leading T.
      loss_index: int32 [T], which of the static `losses` a tenant uses.
      grad_sum: as factors; tally: of all tenants.

    The weights at the start of the update are the weights being differentiated (one optimizer step per
    update), so the proximal log-probabilities are the policy's under stop-gradient: no second forward.
    """
    slot = batch.tenant_slot
    reference = None
    if any(spec.kl_coefficient > 0 for spec in losses):
        reference = score(params, None, batch, temperature[slot], config).logprobs

    def loss_of(rows: Factors) -> tuple[Array, Tally]:
        scored = score(params, scale_rows(rows, scale, slot), batch, temperature[slot], config)
        proximal = jax.lax.stop_gradient(scored.logprobs)
        mask = batch.loss_mask
        per_token = jnp.zeros(mask.shape, jnp.float32)
        shown = dict.fromkeys(("is_weight", "clipped", "rejected"), jnp.zeros(mask.shape, jnp.float32))
        for i, spec in enumerate(losses):
            value, diagnostics = POLICY_LOSSES[spec.policy](
                scored.logprobs,
                proximal,
                batch.behavior_logprobs,
                batch.advantages,
                mask,
                batch.segment_ids,
                LossConfig.from_spec(spec),
            )
            if spec.kl_coefficient > 0:
                assert reference is not None
                value += spec.kl_coefficient * kl_penalty(scored.logprobs, reference, mask, spec.kl_estimator)
            own = (loss_index[slot] == i)[:, None]
            per_token = jnp.where(own, value, per_token)
            shown = {k: jnp.where(own, diagnostics[k].astype(jnp.float32), v) for k, v in shown.items()}
        weighted = jnp.where(mask, batch.token_weights * per_token, 0.0)
        behaviour = jnp.where(mask, batch.behavior_logprobs, proximal)
        weight = shown["is_weight"]
        rows_tally = Tally(
            loss=weighted.sum(1),
            tokens=mask.sum(1).astype(jnp.float32),
            clipped=shown["clipped"].sum(1),
            rejected=shown["rejected"].sum(1),
            weight=weight.sum(1),
            weight_squared=(weight**2).sum(1),
            max_weight=weight.max(1),
            kl=kl_penalty(proximal, behaviour, mask, "k3").sum(1),
            gap=jnp.where(mask, jnp.abs(proximal - behaviour), 0.0).sum(1),
            entropy=jnp.where(mask, scored.entropy, 0.0).sum(1),
        )
        return weighted.sum(), jax.lax.stop_gradient(rows_tally)

    grads, rows_tally = jax.grad(loss_of, has_aux=True)(gather_rows(factors, slot))
    grad_sum = jax.tree.map(lambda total, g: total.at[slot].add(jnp.moveaxis(g, 1, 0)), grad_sum, grads)
    summed = Tally(*(total.at[slot].add(x) for total, x in zip(tally, rows_tally, strict=True)))
    return grad_sum, summed._replace(max_weight=tally.max_weight.at[slot].max(rows_tally.max_weight))


class Applied(NamedTuple):
    """Per tenant [T]: gradient norm before clipping, step size used, whether the step was taken."""

    grad_norm: Array
    learning_rate: Array
    stepped: Array


@partial(jax.jit, donate_argnames=("state",))
def apply(state: LearnerState, hyper: Hyper, due: Array) -> tuple[LearnerState, Applied]:
    """One optimizer step for every tenant with due [T] true, each with its own clip, step size and count.

    A tenant that is not due, or whose gradient is not finite, keeps adapters, moments and count bit for bit.
    Clears the gradient sums of the due ones.
    """

    def one(factors: Factors, moments: Any, grads: Factors, h: Hyper, updates: Array, due: Array) -> Any:
        norm = jnp.sqrt(sum(jnp.sum(g * g) for g in jax.tree.leaves(grads)))
        stepped = due & jnp.isfinite(norm)
        clipped = jax.tree.map(lambda g: g * jnp.minimum(1.0, h.clip_norm / jnp.maximum(norm, 1e-12)), grads)
        direction, new_moments = adam(h.b1, h.b2, h.eps).update(clipped, moments)
        direction = jax.tree.map(lambda d, g: jnp.where(h.sgd, g, d), direction, clipped)
        ramp = jnp.minimum(1.0, (updates + 1) / jnp.maximum(h.warmup_updates, 1.0))
        rate = h.learning_rate * ramp
        new_factors = jax.tree.map(lambda w, d: w - rate * d, factors, direction)

        def pick(new: Any, old: Any) -> Any:
            return jax.tree.map(lambda a, b: jnp.where(stepped, a, b), new, old)

        cleared = jax.tree.map(lambda g: jnp.where(due, jnp.zeros_like(g), g), grads)
        return (
            pick(new_factors, factors),
            pick(new_moments, moments),
            jnp.where(stepped, updates + 1, updates),
            cleared,
            Applied(norm, rate, stepped),
        )

    factors, moments, updates, cleared, applied = jax.vmap(one)(
        state.adapters.factors, state.adam, state.grad_sum, hyper, state.updates, due
    )
    new = LearnerState(state.adapters._replace(factors=factors), moments, updates, cleared)
    return new, applied
