"""What the learner owns: adapters, optimizer state and version of every tenant, stacked on a leading T."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from tunix_core.advantages import ADVANTAGES
from tunix_core.errors import ConfigError
from tunix_core.kl import KL_ESTIMATORS
from tunix_core.losses import AGGREGATIONS, POLICY_LOSSES, LossConfig
from tunix_core.model.config import ModelConfig
from tunix_core.model.lora import Adapters, Factors, stack_adapters
from tunix_core.types import Array, OptimizerSpec, TenantSpec


class LearnerState(NamedTuple):
    """Trained state; the frozen base is an argument beside it, never copied.

    adapters [T, ...]; adam: optax state, vmapped (leading T); updates int32 [T]; grad_sum as the factors.
    """

    adapters: Adapters
    adam: Any
    updates: Array
    grad_sum: Factors


class Hyper(NamedTuple):
    """One value per tenant [T], float32; sgd bool, top_k int32. The last three are those the tenant samples with."""

    learning_rate: Array
    warmup_updates: Array
    clip_norm: Array
    b1: Array
    b2: Array
    eps: Array
    sgd: Array
    temperature: Array
    top_p: Array
    top_k: Array


IDLE = TenantSpec(tenant_id="", env_ids=(), optimizer=OptimizerSpec(learning_rate=0.0))
"""Stands in a slot without a tenant; it never steps."""


def hyper_of(tenants: Sequence[TenantSpec | None]) -> Hyper:
    """Collects the tenants' optimizer settings, slot by slot. Raises ConfigError for one that cannot work."""
    for t in tenants:
        if t is not None:
            _check(t)
    specs = [t or IDLE for t in tenants]

    def column(name: str) -> np.ndarray:
        return np.asarray([getattr(t.optimizer, name) for t in specs], np.float32)

    return Hyper(
        learning_rate=column("learning_rate"),
        warmup_updates=column("warmup_updates"),
        clip_norm=column("clip_norm"),
        b1=column("b1"),
        b2=column("b2"),
        eps=column("eps"),
        sgd=np.asarray([t.optimizer.kind == "sgd" for t in specs]),
        temperature=np.asarray([t.sampling.temperature for t in specs], np.float32),
        top_p=np.asarray([t.sampling.top_p for t in specs], np.float32),
        top_k=np.asarray([t.sampling.top_k for t in specs], np.int32),
    )


def _check(tenant: TenantSpec) -> None:
    who, o, loss, sampling = f"tenant {tenant.tenant_id!r}", tenant.optimizer, tenant.loss, tenant.sampling
    for name, value, known in (
        ("optimizer", o.kind, ("adam", "sgd")),
        ("advantage", loss.advantage, tuple(ADVANTAGES)),
        ("policy loss", loss.policy, tuple(POLICY_LOSSES)),
        ("aggregation", loss.aggregation, AGGREGATIONS),
        ("kl_estimator", loss.kl_estimator, KL_ESTIMATORS),
        ("truncated", loss.truncated, ("count", "mask")),
        ("advantage_ddof", loss.advantage_ddof, (0, 1)),
    ):
        if value not in known:
            choices = ", ".join(map(str, known))
            raise ConfigError(f"{who}: {name} {value!r} not found; use one of {choices}")
    for name, value, works, rule in (
        ("learning_rate", o.learning_rate, o.learning_rate >= 0, ">= 0"),
        ("clip_norm", o.clip_norm, o.clip_norm > 0, "> 0"),
        ("advantage_eps", loss.advantage_eps, 0 < loss.advantage_eps < math.inf, "> 0 and finite"),
        ("kl_coefficient", loss.kl_coefficient, 0 <= loss.kl_coefficient < math.inf, ">= 0 and finite"),
        (
            "normaliser",
            loss.normaliser,
            loss.normaliser is None or 0 < loss.normaliser < math.inf,
            "> 0 tokens",
        ),
        ("top_p", sampling.top_p, 0 < sampling.top_p <= 1, "in (0, 1]; 1 cuts nothing"),
        ("top_k", sampling.top_k, sampling.top_k >= 0, ">= 0; 0 cuts nothing"),
        # at temperature 0 there are no probability ratios to learn from
        ("temperature", sampling.temperature, 0 < sampling.temperature < math.inf, "> 0 in training"),
    ):
        if not works:
            raise ConfigError(f"{who}: {name} is {value}, but must be {rule}")
    if loss.normaliser is not None and loss.aggregation != "constant":
        raise ConfigError(f"{who}: normaliser {loss.normaliser} is read by aggregation 'constant' alone")
    try:
        LossConfig.from_spec(loss)
    except ConfigError as error:
        raise ConfigError(f"{who}: {error}") from error


def adam(b1: Array | float, b2: Array | float, eps: Array | float) -> optax.GradientTransformation:
    """Adam's direction without the step size (Kingma & Ba 2014, arXiv 1412.6980)."""
    return optax.scale_by_adam(b1=b1, b2=b2, eps=eps)  # pyright: ignore[reportArgumentType]


def init_state(config: ModelConfig, tenants: Sequence[TenantSpec | None], max_rank: int) -> LearnerState:
    """Version 0 of every tenant, tenant k in slot k; None leaves a slot free."""
    adapters = stack_adapters(config, tenants, max_rank)
    return LearnerState(
        adapters=adapters,
        adam=jax.vmap(adam(0.9, 0.95, 1e-8).init)(adapters.factors),
        updates=jnp.zeros(len(tenants), jnp.int32),
        grad_sum=jax.tree.map(jnp.zeros_like, adapters.factors),
    )


@partial(jax.jit, donate_argnames=("state",))
def reset_slot(
    state: LearnerState, slot: int | Array, factors: Factors, scale: float | Array
) -> LearnerState:
    """A slot begins anew: these factors, no moments, no updates, no gradient. The others keep their bits."""
    fresh = LearnerState(
        adapters=Adapters(factors, jnp.asarray(scale, jnp.float32)),
        adam=adam(0.9, 0.95, 1e-8).init(factors),
        updates=jnp.zeros((), jnp.int32),
        grad_sum=jax.tree.map(jnp.zeros_like, factors),
    )
    return jax.tree.map(lambda all_slots, one: all_slots.at[slot].set(one), state, fresh)
