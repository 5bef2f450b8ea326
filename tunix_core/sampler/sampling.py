"""From logits to a token and the log-probability of the very distribution it was drawn from."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from tunix_core.types import Array

BLOCK = 16
"""Tokens whose probabilities are summed in one go."""


def in_cut(logits: Array, top_p: Array, top_k: Array) -> Array:
    """Which tokens the nucleus (top_p) and the k largest (top_k, 0 = all) leave; [..., V], [...] -> bool [..., V].

    The nucleus is the smallest set of most likely tokens whose probability reaches top_p
    (Holtzman et al. 2019, arXiv 1904.09751); the most likely token always stays.
    """
    top_p, top_k = top_p[..., None], top_k[..., None]
    order = jnp.argsort(-logits, axis=-1)
    probs = jax.nn.softmax(jnp.take_along_axis(logits, order, axis=-1), axis=-1)
    rank = jnp.arange(logits.shape[-1])
    # A rounded sum reaches 1 before its end; a row that cuts nothing must not lose its rarest tokens.
    keep = ((jnp.cumsum(probs, axis=-1) - probs) < top_p) | (top_p >= 1)
    keep &= (top_k == 0) | (rank < top_k)
    keep |= rank == 0
    return jnp.take_along_axis(keep, jnp.argsort(order, axis=-1), axis=-1)


def keep_top(logits: Array, top_p: Array, top_k: Array) -> Array:
    """Sets logits outside the cut (`in_cut`) to -inf; [S, V] -> [S, V]."""
    return jnp.where(in_cut(logits, top_p, top_k), logits, -jnp.inf)


def draw(
    logits: Array,
    temperature: Array,
    top_p: Array,
    top_k: Array,
    keys: Array,
    index: Array,
    *,
    filtered: bool,
) -> tuple[Array, Array]:
    """Draws one token per row by inverting its cumulative distribution: one random number a row, not one a token.

    Args:
      logits: float32 [S, V].
      temperature: [S]; 0 is greedy, its log-probability is reported at temperature 1.
      top_p, top_k: [S]; read only when `filtered` (static), since sorting the vocabulary costs.
      keys: uint32 [S, 2], the row's stream.
      index: int32 [S], place of the token in its turn; folded into the key, so that a draw depends on the
        row's identity alone, never on the slot or the neighbours.

    Returns:
      token int32 [S], behavior_logprob float32 [S].
    """
    greedy = temperature == 0
    scaled = logits / jnp.where(greedy, 1.0, temperature)[:, None]
    if filtered:
        scaled = keep_top(scaled, top_p, top_k)
    logprobs = jax.nn.log_softmax(scaled, axis=-1)

    def uniform(key: Array, i: Array) -> Array:
        return jax.random.uniform(jax.random.fold_in(jax.random.wrap_key_data(key), i))

    probs = jnp.exp(logprobs)
    cumulative = _cumulative(probs)
    # of the largest sum at a possible token: rounding can neither leave the row without a token nor pick one cut off
    whole = jnp.max(jnp.where(probs > 0, cumulative, 0.0), axis=-1)
    drawn = jnp.argmax(
        (cumulative > (jax.vmap(uniform)(keys, index) * whole)[:, None]) & (probs > 0), axis=-1
    )
    token = jnp.where(greedy, jnp.argmax(logprobs, axis=-1), drawn).astype(jnp.int32)
    return token, jnp.take_along_axis(logprobs, token[:, None], axis=-1)[:, 0]


def _cumulative(probs: Array) -> Array:
    """Sums up to and with each token, float32 [S, V]: within blocks as one small matrix product, then over blocks.

    Several times as fast as one running sum on CPU.
    """
    rows, tokens = probs.shape
    blocks = -(-tokens // BLOCK)
    padded = jnp.pad(probs, ((0, 0), (0, blocks * BLOCK - tokens))).reshape(rows, blocks, BLOCK)
    inner = padded @ jnp.triu(jnp.ones((BLOCK, BLOCK), jnp.float32))
    total = padded.sum(-1)
    before = jnp.cumsum(total, axis=-1) - total
    return (before[:, :, None] + inner).reshape(rows, -1)[:, :tokens]
