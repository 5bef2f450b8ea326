"""The learner over several devices: rows of a batch are dealt along one mesh axis, everything else is replicated.

A device sums the gradients of its own rows, then the devices' sums are added. That order of additions depends on
which device a row came to, so results agree with one device's to float rounding, not to the bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from tunix_core.errors import ConfigError
from tunix_core.learner.update import MAXIMA, Cut, Tally, add_rows, empty_tally, row_sums
from tunix_core.model.config import ModelConfig
from tunix_core.model.lora import Factors
from tunix_core.types import Array, Bucket, LossSpec, PackedBatch

AXIS = "data"
"""Name of the mesh axis that rows are dealt along."""


def data_mesh(devices: Sequence[Any]) -> Mesh | None:
    """One axis over the devices; None for a single one, which needs no mesh and keeps its bits."""
    if len(set(devices)) < len(devices):
        raise ConfigError(f"the learner's devices repeat: {', '.join(map(str, devices))}")
    return Mesh(np.asarray(devices), (AXIS,)) if len(devices) > 1 else None


def replicated(tree: Any, mesh: Mesh) -> Any:
    """Every array whole on every device of the mesh."""
    return jax.device_put(tree, NamedSharding(mesh, PartitionSpec()))


def round_up_rows(buckets: Sequence[Bucket], devices: int) -> tuple[Bucket, ...]:
    """Buckets whose rows divide evenly: 10 rows on 8 devices become 16.

    The six rows more hold no tokens and weigh nothing. Denominators count a tenant's loss tokens, never rows, so
    the loss is that of ten rows; a mean over rows would come out at 10 / 16 of it.
    """
    return tuple(Bucket(rows=-(-b.rows // devices) * devices, length=b.length) for b in buckets)


@partial(jax.jit, static_argnames=("mesh", "config", "losses"), donate_argnames=("grad_sum", "tally"))
def accumulate_sharded(
    params: Any,
    factors: Factors,
    scale: Array,
    temperature: Array,
    loss_index: Array,
    batch: PackedBatch,
    grad_sum: Factors,
    tally: Tally,
    cut: Cut | None = None,
    *,
    mesh: Mesh,
    config: ModelConfig,
    losses: tuple[LossSpec, ...],
) -> tuple[Factors, Tally]:
    """Adds one packed batch to the tenants' sums over a mesh; the batch's rows B are a multiple of its size.

    Arguments as of `update.row_sums`; grad_sum as factors, tally of all tenants.
    """

    def of_own_rows(*operands: Any) -> tuple[Factors, Tally]:
        own_factors, own = operands[1], operands[-1]
        rows = row_sums(*operands, config=config, losses=losses)
        nothing = jax.tree.map(jnp.zeros_like, own_factors)
        grads, figures = add_rows(nothing, empty_tally(scale.shape[0]), rows, own.tenant_slot)
        return jax.lax.psum(grads, AXIS), Tally(*map(_over_devices, Tally._fields, figures))

    whole, dealt = PartitionSpec(), PartitionSpec(AXIS)
    summed = jax.shard_map(
        of_own_rows, mesh=mesh, in_specs=(*[whole] * 6, dealt), out_specs=whole, check_vma=False
    )
    grads, figures = summed(params, factors, scale, temperature, cut, loss_index, batch)
    return jax.tree.map(jnp.add, grad_sum, grads), Tally(*map(_joined, Tally._fields, tally, figures))


def _over_devices(name: str, figure: Array) -> Array:
    if name in MAXIMA:
        return jax.lax.pmax(figure, AXIS)
    return jax.lax.pmin(figure, AXIS) if name == "ratio_min" else jax.lax.psum(figure, AXIS)


def _joined(name: str, one: Array, other: Array) -> Array:
    if name in MAXIMA:
        return jnp.maximum(one, other)
    return jnp.minimum(one, other) if name == "ratio_min" else one + other
