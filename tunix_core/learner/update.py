"""The learner's compiled programs: gradients of a packed batch's rows, their sums, the step per tenant.

Gradients are taken with respect to each row's own copy of its tenant's factors and added to the tenant's sum
row by row. A row's gradient does not know its neighbours, so a tenant's update is the same whoever shares the
batch, and the same however its rows are cut into batches.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from tunix_core.kl import kl_penalty
from tunix_core.learner.state import Hyper, LearnerState, adam
from tunix_core.losses import MAX_LOG_RATIO, POLICY_LOSSES, LossConfig
from tunix_core.model.config import ModelConfig
from tunix_core.model.decoder import Decoder
from tunix_core.model.lora import Factors, gather_rows, scale_rows
from tunix_core.sampler.sampling import in_cut
from tunix_core.types import Array, LossSpec, PackedBatch


class Tally(NamedTuple):
    """Sums over a tenant's loss tokens [T]; those of `MAXIMA` are maxima, ratio_min is a minimum."""

    loss: Array
    tokens: Array
    effective: Array
    clipped: Array
    rejected: Array
    weight: Array
    weight_squared: Array
    kl: Array
    gap: Array
    entropy: Array
    ratio: Array
    ratio_min: Array
    ratio_max: Array
    max_weight: Array
    max_log_weight_raw: Array
    max_log_weight: Array


MAXIMA = ("ratio_max", "max_weight", "max_log_weight_raw", "max_log_weight")


class Cut(NamedTuple):
    """The cut of the sampling distribution: top_p float32, top_k int32; per tenant [T] or per row [B]."""

    top_p: Array
    top_k: Array


class Scored(NamedTuple):
    """Of each token given what precedes it in its segment, float32 [B, L]; 0 where nothing precedes."""

    logprobs: Array
    entropy: Array


@partial(jax.jit, static_argnames=("tenants",))
def empty_tally(tenants: int) -> Tally:
    """Nothing counted yet; one dispatch, not one a field."""
    empty = Tally(*(jnp.zeros(tenants, jnp.float32) for _ in Tally._fields))
    return empty._replace(ratio_min=jnp.full(tenants, jnp.inf, jnp.float32))


def _scaled_logits(
    params: Any, lora: Factors | None, batch: PackedBatch, temperature: Array, config: ModelConfig
) -> Array:
    """Logits [B, L, V] over the row's temperature; those at j are of token j + 1."""
    model: Any = Decoder(config)  # flax types what `apply` returns as a frozen dict
    hidden, _ = model.apply({"params": params}, batch.token_ids, batch.positions, batch.segment_ids, lora)
    return model.apply({"params": params}, hidden, method="logits") / temperature[:, None, None]


def _left_in(logits: Array, batch: PackedBatch, cut: Cut | None) -> Array | None:
    """Which tokens the sampler could have drawn, bool [B, L, V]; the one it drew is always among them.

    On-policy it is there anyway. Once the policy has moved on, a token may fall out of today's cut; kept, it
    has a finite log-probability, and its ratio falls continuously as it becomes unlikely.
    """
    if cut is None:
        return None
    shape = logits.shape[:-1]
    top_p, top_k = (jnp.broadcast_to(x[:, None], shape) for x in cut)
    left_in = in_cut(jax.lax.stop_gradient(logits), top_p, top_k)
    drawn = jnp.roll(batch.token_ids, -1, axis=1)[..., None]
    return left_in | (jnp.arange(logits.shape[-1]) == drawn)


def _scored(logits: Array, left_in: Array | None, batch: PackedBatch) -> Scored:
    """Index j describes token j: the shift from "logits at j predict token j + 1" is made here and only here."""
    if left_in is not None:
        logits = jnp.where(left_in, logits, -jnp.inf)
    logprobs = jax.nn.log_softmax(logits, axis=-1)
    following = jnp.take_along_axis(logprobs[:, :-1], batch.token_ids[:, 1:, None], axis=-1)[..., 0]
    surprise = jnp.where(logprobs == -jnp.inf, 0.0, logprobs)  # 0 log 0 is 0
    entropy = -jnp.sum(jnp.exp(logprobs) * surprise, axis=-1)[:, :-1]
    first = batch.positions[:, 1:] == 0
    return Scored(*(jnp.pad(jnp.where(first, 0.0, x), ((0, 0), (1, 0))) for x in (following, entropy)))


def score(
    params: Any,
    lora: Factors | None,
    batch: PackedBatch,
    temperature: Array,
    config: ModelConfig,
    cut: Cut | None = None,
) -> Scored:
    """Scores the tokens of a packed batch at temperature and under the cut of each row [B]."""
    logits = _scaled_logits(params, lora, batch, temperature, config)
    return _scored(logits, _left_in(logits, batch, cut), batch)


@partial(jax.jit, static_argnames=("config",))
def score_tokens(
    params: Any,
    factors: Factors,
    scale: Array,
    temperature: Array,
    batch: PackedBatch,
    cut: Cut | None = None,
    *,
    config: ModelConfig,
) -> Scored:
    """Scores given token ids under the tenants' adapters; temperature, scale and cut [T]."""
    slot = batch.tenant_slot
    lora = scale_rows(gather_rows(factors, slot), scale, slot)
    return score(params, lora, batch, temperature[slot], config, _rows_of(cut, slot))


def _rows_of(cut: Cut | None, slot: Array) -> Cut | None:
    return None if cut is None else Cut(cut.top_p[slot], cut.top_k[slot])


class RowSums(NamedTuple):
    """What one batch adds, per row [B]: gradients by the row's own factors, and its figures."""

    grads: Factors
    tally: Tally


@partial(jax.jit, static_argnames=("config", "losses"))
def row_sums(
    params: Any,
    factors: Factors,
    scale: Array,
    temperature: Array,
    cut: Cut | None,
    loss_index: Array,
    batch: PackedBatch,
    *,
    config: ModelConfig,
    losses: tuple[LossSpec, ...],
) -> RowSums:
    """Gradients and figures of every row of a packed batch; nothing of it depends on another batch.

    The weights at the start of the update are the weights being differentiated (one optimizer step per
    update), so the proximal log-probabilities are the policy's under stop-gradient: no second forward.

    Args:
      factors, scale, temperature: of all tenants, leading T.
      cut: of all tenants; None, where nobody cuts, compiles to a program that sorts no vocabulary.
      loss_index: int32 [T], which of the static `losses` a tenant uses.
    """
    slot, mask = batch.tenant_slot, batch.loss_mask
    heat, row_cut = temperature[slot], _rows_of(cut, slot)

    def loss_of(rows: Factors) -> tuple[Array, Tally]:
        logits = _scaled_logits(params, scale_rows(rows, scale, slot), batch, heat, config)
        left_in = _left_in(logits, batch, row_cut)
        scored = _scored(logits, left_in, batch)
        proximal = jax.lax.stop_gradient(scored.logprobs)
        reference = None
        if any(spec.kl_coefficient > 0 for spec in losses):
            # Under the policy's cut, not its own: else a token it would not draw makes the divergence infinite.
            reference = _scored(_scaled_logits(params, None, batch, heat, config), left_in, batch).logprobs
        per_token = jnp.zeros(mask.shape, jnp.float32)
        shown: dict[str, Array] = dict.fromkeys(
            ("is_weight", "log_is_weight", "clipped", "rejected", "silent"),
            jnp.zeros(mask.shape, jnp.float32),
        )
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
            if reference is not None and spec.kl_coefficient > 0:
                value += spec.kl_coefficient * kl_penalty(scored.logprobs, reference, mask, spec.kl_estimator)
            own = (loss_index[slot] == i)[:, None]
            per_token = jnp.where(own, value, per_token)
            shown = {k: jnp.where(own, diagnostics[k].astype(jnp.float32), v) for k, v in shown.items()}
        weighted = jnp.where(mask, batch.token_weights * per_token, 0.0)
        return weighted.sum(), _figures(batch, *jax.lax.stop_gradient((scored, weighted, shown)))

    return RowSums(*jax.grad(loss_of, has_aux=True)(gather_rows(factors, slot)))


def _figures(batch: PackedBatch, scored: Scored, weighted: Array, shown: Mapping[str, Array]) -> Tally:
    """A batch's figures per row; tokens off the mask enter none."""
    mask = batch.loss_mask
    policy = scored.logprobs
    behaviour = jnp.where(mask, batch.behavior_logprobs, policy)
    ratio = jnp.exp(jnp.clip(policy - behaviour, -MAX_LOG_RATIO, MAX_LOG_RATIO))
    weight, log_weight = shown["is_weight"], jnp.abs(shown["log_is_weight"])
    entered = jnp.where(weight > 0, jnp.abs(jnp.log(jnp.where(weight > 0, weight, 1.0))), 0.0)
    return Tally(
        loss=weighted.sum(1),
        tokens=mask.sum(1).astype(jnp.float32),
        effective=(mask & (shown["silent"] == 0)).sum(1).astype(jnp.float32),
        clipped=shown["clipped"].sum(1),
        rejected=shown["rejected"].sum(1),
        weight=weight.sum(1),
        weight_squared=(weight**2).sum(1),
        kl=kl_penalty(policy, behaviour, mask, "k3").sum(1),
        gap=jnp.where(mask, jnp.abs(policy - behaviour), 0.0).sum(1),
        entropy=jnp.where(mask, scored.entropy, 0.0).sum(1),
        ratio=jnp.where(mask, ratio, 0.0).sum(1),
        ratio_min=jnp.where(mask, ratio, jnp.inf).min(1),
        ratio_max=jnp.where(mask, ratio, 0.0).max(1),
        max_weight=weight.max(1),
        max_log_weight_raw=log_weight.max(1),
        max_log_weight=entered.max(1),
    )


@partial(jax.jit, donate_argnames=("grad_sum", "tally"))
def add_rows(grad_sum: Factors, tally: Tally, rows: RowSums, slot: Array) -> tuple[Factors, Tally]:
    """Adds each row to its tenant's sums, row by row; slot int32 [B]."""
    grad_sum = jax.tree.map(lambda total, g: total.at[slot].add(jnp.moveaxis(g, 1, 0)), grad_sum, rows.grads)

    def joined(name: str, total: Array, new: Array) -> Array:
        if name in MAXIMA:
            return total.at[slot].max(new)
        return total.at[slot].min(new) if name == "ratio_min" else total.at[slot].add(new)

    return grad_sum, Tally(*map(joined, Tally._fields, tally, rows.tally))


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
