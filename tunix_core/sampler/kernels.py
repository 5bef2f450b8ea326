"""The sampler's compiled programs: read prompts, begin turns with them, decode a few tokens in some slots."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from tunix_core.model.config import ModelConfig
from tunix_core.model.decoder import (
    Decoder,
    KVCache,
    NewKV,
    Past,
    empty_recent,
    flush,
    write_prompt,
)
from tunix_core.model.lora import Adapters, gather_rows, scale_rows
from tunix_core.sampler.sampling import draw
from tunix_core.types import Array


class Rows(NamedTuple):
    """What each row of a call samples with: adapter_slot, top_k int32 [S]; temperature, top_p float32 [S];
    keys uint32 [S, 2]; index int32 [S], tokens already sampled in this turn."""

    adapter_slot: Array
    temperature: Array
    top_p: Array
    top_k: Array
    keys: Array
    index: Array


class Decoded(NamedTuple):
    """Outcome of a decode call: token_ids int32, behavior_logprobs float32, emitted bool, all [steps, S]."""

    token_ids: Array
    behavior_logprobs: Array
    emitted: Array


def _rows_of(adapters: Adapters, slot: Array) -> Any:
    return scale_rows(gather_rows(adapters.factors, slot), adapters.scale, slot)


@partial(jax.jit, static_argnames=("config",))
def prefill(
    params: Any,
    adapters: Adapters,
    token_ids: Array,
    lengths: Array,
    adapter_slot: Array,
    *,
    config: ModelConfig,
) -> tuple[NewKV, Array]:
    """Reads B prompts.

    Args:
      token_ids: int32 [B, L]; lengths int32 [B], 0 for an unused lane.
      adapter_slot: int32 [B], whose adapter reads a lane.

    Returns:
      The prompts' keys and values, and the logits float32 [B, V] of what follows each.
    """
    model: Any = Decoder(config)  # flax types what `apply` returns as a frozen dict
    index = jnp.arange(token_ids.shape[1])
    segments = (index < lengths[:, None]).astype(jnp.int32)
    positions = jnp.broadcast_to(index, token_ids.shape)
    lora = _rows_of(adapters, adapter_slot)
    hidden, new = model.apply({"params": params}, token_ids, positions, segments, lora)
    last = jnp.take_along_axis(hidden, jnp.maximum(lengths - 1, 0)[:, None, None], axis=1)[:, 0]
    return new, model.apply({"params": params}, last, method="logits")


@partial(jax.jit, static_argnames=("filtered",), donate_argnames=("cache",))
def begin(
    cache: KVCache, new: NewKV, logits: Array, lane: Array, begins: Array, rows: Rows, *, filtered: bool
) -> tuple[KVCache, Array, Array]:
    """Puts read prompts into the slots that begin with them and draws the first token of each turn.

    Args:
      cache: of S slots; new, logits: of `prefill`'s B lanes.
      lane: int32 [S], the prompt of each slot that begins; several may begin with one prompt.
      begins: bool [S]; the other slots keep what they hold, and what is drawn for them means nothing.

    Returns:
      cache, token int32 [S], behavior_logprob float32 [S].
    """
    token, logprob = draw(
        logits[lane], rows.temperature, rows.top_p, rows.top_k, rows.keys, rows.index, filtered=filtered
    )
    return write_prompt(cache, new, lane, begins), token, logprob


@partial(jax.jit, static_argnames=("config", "steps", "filtered"), donate_argnames=("cache",))
def decode(
    params: Any,
    adapters: Adapters,
    cache: KVCache,
    last_token: Array,
    start: Array,
    remaining: Array,
    rows: Rows,
    stop_ids: Array,
    *,
    config: ModelConfig,
    steps: int,
    filtered: bool,
) -> tuple[KVCache, Decoded]:
    """Decodes `steps` tokens in S slots at once; a row stops emitting at a stop id or its limit.

    Args:
      last_token: int32 [S], sampled but not in the cache yet; start: int32 [S], tokens in the cache.
      remaining: int32 [S], tokens the turn may still have; 0 = empty slot.
      stop_ids: int32 [n].

    The cache must have room for start + steps positions in every row.
    """
    model: Any = Decoder(config)  # flax types what `apply` returns as a frozen dict
    lora = _rows_of(adapters, rows.adapter_slot)
    recent = empty_recent(config, start.shape[0], steps, cache.k.dtype)

    def one(carry: Any, i: Array) -> tuple[Any, Decoded]:
        recent, token, alive = carry
        past = Past(cache, recent, start, i)
        hidden, new = model.apply({"params": params}, token[:, None], (start + i)[:, None], None, lora, past)
        recent = NewKV(
            *(jax.lax.dynamic_update_slice_in_dim(r, n, i, 2) for r, n in zip(recent, new, strict=True))
        )
        logits = model.apply({"params": params}, hidden[:, 0], method="logits")
        drawn, logprob = draw(
            logits, rows.temperature, rows.top_p, rows.top_k, rows.keys, rows.index + i, filtered=filtered
        )
        token = jnp.where(alive, drawn, token)
        out = Decoded(token, logprob, alive)
        stopped = jnp.any(token[:, None] == stop_ids, axis=-1)
        return (recent, token, alive & ~stopped & (i + 1 < remaining)), out

    (recent, _, _), out = jax.lax.scan(one, (recent, last_token, remaining > 0), jnp.arange(steps))
    return flush(Past(cache, recent, start, jnp.int32(steps))), out
