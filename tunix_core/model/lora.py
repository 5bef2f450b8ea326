"""Stacked LoRA adapters: T tenants on one frozen base.

Source: Hu et al. 2021, arXiv 2106.09685; rank-stabilised scaling: Kalajdzievski 2023, arXiv 2312.03732.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tunix_core.errors import ConfigError
from tunix_core.model.config import ModelConfig, lora_targets
from tunix_core.streams import fold
from tunix_core.types import Array, LoraSpec, TenantSpec

Factors = dict[str, tuple[Array, Array]]
"""Per target: (a [..., in, R], b [..., R, out])."""


class Adapters(NamedTuple):
    """Factors of all slots: per target a [T, layers, in, R], b [T, layers, R, out]; scale [T]; float32."""

    factors: Factors
    scale: Array


def lora_scale(spec: LoraSpec) -> float:
    """alpha / r, or alpha / sqrt(r) where rank-stabilised."""
    return spec.alpha / (math.sqrt(spec.rank) if spec.rank_stabilised else spec.rank)


def multi_lora(x: Array, a: Array, b: Array) -> Array:
    """(x a) b with one pair of factors per row: x [B, L, in], a [B, in, R], b [B, R, out] -> [B, L, out].

    The only LoRA arithmetic in the house; prefill, decode and learner share it, so they cannot drift apart.
    A row reads its own tenant's factors alone: another tenant's NaN cannot reach it.
    """
    return jnp.einsum("blr,bro->blo", jnp.einsum("bli,bir->blr", x, a), b)


def gather_rows(factors: Factors, slot: Array) -> Factors:
    """Picks each row's factors: slot int32 [B] -> per target a [layers, B, in, R], b [layers, B, R, out]."""
    return {
        name: (jnp.moveaxis(a[slot], 1, 0), jnp.moveaxis(b[slot], 1, 0)) for name, (a, b) in factors.items()
    }


def scale_rows(rows: Factors, scale: Array, slot: Array) -> Factors:
    """Folds alpha / r into b, per row."""
    s = scale[slot][None, :, None, None]
    return {name: (a, b * s) for name, (a, b) in rows.items()}


def initial_factors(config: ModelConfig, spec: TenantSpec, max_rank: int) -> Factors:
    """One tenant's factors at version 0, host arrays: a [layers, in, R], b [layers, R, out] of zeros.

    A is uniform in +-1/sqrt(in) (the Kaiming bound PEFT uses) from the tenant's own `init` stream; columns
    past the tenant's rank are zero in both factors, so their gradients are exactly zero for ever.
    Raises ConfigError if the tenant's rank exceeds max_rank.
    """
    r = spec.lora.rank
    if not 1 <= r <= max_rank:
        raise ConfigError(f"tenant {spec.tenant_id!r}: LoRA rank {r} is outside 1..{max_rank}")
    layers = config.num_hidden_layers
    out: Factors = {}
    for name, (d_in, d_out) in lora_targets(config).items():
        rng = np.random.default_rng(fold("init", spec.tenant_id, spec.seed, name))
        a = np.zeros((layers, d_in, max_rank), np.float32)
        a[:, :, :r] = rng.uniform(-1, 1, (layers, d_in, r)).astype(np.float32) / math.sqrt(d_in)
        out[name] = (a, np.zeros((layers, max_rank, d_out), np.float32))
    return out


def stack_adapters(config: ModelConfig, tenants: Sequence[TenantSpec | None], max_rank: int) -> Adapters:
    """All tenants at version 0, tenant k in slot k; a slot without one holds zeros."""
    shapes = lora_targets(config)
    layers = config.num_hidden_layers
    empty = {
        n: (np.zeros((layers, i, max_rank), np.float32), np.zeros((layers, max_rank, o), np.float32))
        for n, (i, o) in shapes.items()
    }
    each = [empty if t is None else initial_factors(config, t, max_rank) for t in tenants]
    factors = {
        name: (jnp.stack([f[name][0] for f in each]), jnp.stack([f[name][1] for f in each]))
        for name in shapes
    }
    scale = [0.0 if t is None else lora_scale(t.lora) for t in tenants]
    return Adapters(factors, jnp.asarray(scale, jnp.float32))


@jax.jit
def write_slot(
    factors: Factors, slot: int | Array, new: Mapping[str, tuple[np.ndarray, np.ndarray]]
) -> Factors:
    """Factors with one slot replaced."""
    return {
        name: (a.at[slot].set(new[name][0]), b.at[slot].set(new[name][1])) for name, (a, b) in factors.items()
    }


def read_slot(factors: Factors, slot: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """One slot's factors as host arrays."""
    return jax.device_get(_slot(factors, slot))


@jax.jit
def _slot(factors: Factors, slot: int | Array) -> Factors:
    return {name: (a[slot], b[slot]) for name, (a, b) in factors.items()}


def factors_sha256(factors: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> str:
    """Content hash of one tenant's factors: names, shapes and bytes, in name order."""
    digest = hashlib.sha256()
    for name in sorted(factors):
        for part, x in zip("ab", factors[name], strict=True):
            x = np.ascontiguousarray(x)
            digest.update(f"{name}.{part}:{x.shape}:{x.dtype}".encode())
            digest.update(x.tobytes())
    return digest.hexdigest()
