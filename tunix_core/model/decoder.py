"""The decoder: RMSNorm, rotary positions, grouped-query attention, a gated MLP, with a LoRA pair on every matrix.

What the families differ in (biases, norms of queries and keys, norms after a sublayer, soft caps, local layers)
is read off the config when the program is traced: a family pays for what it has.

One forward serves learner, prefill and decode. A token sees the earlier tokens of its own segment in the batch at
hand and, in decode, what its row has in the cache: what lies beyond is stale and never read. The forward returns
the new keys and values of all layers. Decode collects those of a few steps in a small `recent` part and flushes
them at once: writing into the big arrays at every token costs more than the layers themselves on CPU.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from tunix_core.model.config import ModelConfig
from tunix_core.model.lora import Factors, multi_lora
from tunix_core.model.rope import Rope, rope_table, rotate
from tunix_core.types import Array

NEG = -1e30  # finite, so that a fully masked row gives a uniform softmax and no NaN
UNROLLED_LAYERS = 8  # up to here the scan over layers is unrolled: faster on CPU, still quick to compile


class KVCache(NamedTuple):
    """Keys [layers, S, K, d, M] and values [layers, S, K, M, d] of M positions for S rows.

    Positions are the keys' minor axis: scoring one token against M keys then vectorises over M.
    """

    k: Array
    v: Array


class NewKV(NamedTuple):
    """Keys and values of tokens not in the cache yet: [layers, B, L, K, d] each."""

    k: Array
    v: Array


class Past(NamedTuple):
    """What a decoded token looks back on: the cache below `start` int32 [S], then `recent` below `step`."""

    cache: KVCache
    recent: NewKV
    start: Array
    step: Array


class Sight(NamedTuple):
    """What all layers of a kind share: angles, and which tokens see which, bool [B, L, L] (without a past)."""

    rope: Rope
    mask: Array | None


def empty_cache(config: ModelConfig, rows: int, length: int, dtype: jnp.dtype | str = "float32") -> KVCache:
    """A cache of zeros for `rows` sequences of up to `length` tokens."""
    lead = (config.num_hidden_layers, rows, config.num_key_value_heads)
    return KVCache(
        jnp.zeros((*lead, config.head_dim, length), dtype), jnp.zeros((*lead, length, config.head_dim), dtype)
    )


def empty_recent(config: ModelConfig, rows: int, steps: int, dtype: jnp.dtype | str = "float32") -> NewKV:
    """Room for `steps` decoded tokens per row."""
    shape = (config.num_hidden_layers, rows, steps, config.num_key_value_heads, config.head_dim)
    return NewKV(jnp.zeros(shape, dtype), jnp.zeros(shape, dtype))


def flush(past: Past) -> KVCache:
    """The cache with every row's recent tokens written from its `start` on."""
    k = jnp.transpose(past.recent.k, (1, 0, 3, 4, 2))
    v = jnp.transpose(past.recent.v, (1, 0, 3, 2, 4))
    put = jax.vmap(jax.lax.dynamic_update_slice_in_dim, in_axes=(1, 0, 0, None), out_axes=1)
    return KVCache(put(past.cache.k, k, past.start, 3), put(past.cache.v, v, past.start, 2))


def write_prompt(cache: KVCache, new: NewKV, lane: Array, begins: Array) -> KVCache:
    """Writes whole prompts from position 0 into the rows that begin with them.

    The rest of such a row is cleared: its last tenant's NaN, weighted with 0, would still be a NaN.

    Args:
      new: keys and values [layers, B, L, K, d] of B prompts.
      lane: int32 [S], the prompt of each row; begins: bool [S], the other rows stay as they are.
    """
    rest = cache.v.shape[3] - new.k.shape[2]
    k = jnp.transpose(new.k, (0, 1, 3, 4, 2)).astype(cache.k.dtype)
    v = jnp.transpose(new.v, (0, 1, 3, 2, 4)).astype(cache.v.dtype)
    k = jnp.pad(k, ((0, 0),) * 4 + ((0, rest),))
    v = jnp.pad(v, ((0, 0),) * 3 + ((0, rest), (0, 0)))
    here = begins[None, :, None, None, None]
    return KVCache(jnp.where(here, k[:, lane], cache.k), jnp.where(here, v[:, lane], cache.v))


def _scores(products: Array, config: ModelConfig) -> Array:
    """Scaled products of queries and keys as float32 scores, capped where the model caps them."""
    scores = products.astype(jnp.float32)
    cap = config.attn_logit_softcap
    return scores if cap is None else cap * jnp.tanh(scores / cap)


def _scale(config: ModelConfig) -> float:
    return config.head_dim**-0.5 if config.query_scale is None else config.query_scale


def attend(q: Array, k: Array, v: Array, mask: Array, config: ModelConfig) -> Array:
    """Grouped-query attention within a batch: q [B, L, H, d], k and v [B, L, K, d], mask bool [B, L, L]."""
    b, length, heads, d = q.shape
    q = q.reshape(b, length, k.shape[2], heads // k.shape[2], d)
    scores = _scores(jnp.einsum("blkgd,bmkd->bkglm", q, k).astype(jnp.float32) * _scale(config), config)
    weights = jax.nn.softmax(jnp.where(mask[:, None, None], scores, NEG), axis=-1).astype(v.dtype)
    return jnp.einsum("bkglm,bmkd->blkgd", weights, v).reshape(b, length, heads * d)


def attend_past(
    q: Array, k: Array, v: Array, past: Past, config: ModelConfig, local: Array | None = None
) -> Array:
    """One token per row against its past and itself: q [S, 1, H, d], k and v [S, 1, K, d]; one layer's past.

    `local` bool: whether this layer sees its window alone. Products are spelled out rather than left to
    `einsum`: a batch of S * K matrix-vector products is several times slower on CPU than one fused multiply and sum.
    """
    s, _, heads, d = q.shape
    kv = k.shape[2]
    q = q.reshape(s, kv, heads // kv, d) * _scale(config)
    old = _scores(jnp.sum(q[..., None] * past.cache.k[:, :, None], axis=3), config)
    index, step = jnp.arange(past.cache.v.shape[2]), jnp.arange(past.recent.k.shape[1])
    seen, near = index < past.start[:, None], step < past.step
    if local is not None:
        assert config.sliding_window is not None
        seen &= ~local | (index > (past.start + past.step - config.sliding_window)[:, None])
        near &= ~local | (step > past.step - config.sliding_window)
    old = jnp.where(seen[:, None, None], old, NEG)
    recent = _scores(jnp.einsum("skgd,snkd->skgn", q, past.recent.k), config)
    recent = jnp.where(near, recent, NEG)
    own = _scores(jnp.sum(q * k[:, 0, :, None], axis=-1, keepdims=True), config)

    top = jnp.maximum(jnp.maximum(old.max(-1, keepdims=True), recent.max(-1, keepdims=True)), own)
    old, recent, own = jnp.exp(old - top), jnp.exp(recent - top), jnp.exp(own - top)
    total = old.sum(-1, keepdims=True) + recent.sum(-1, keepdims=True) + own
    mixed = jnp.sum(old[..., None] * past.cache.v[:, :, None], axis=3)
    mixed += jnp.einsum("skgn,snkd->skgd", recent, past.recent.v) + own * v[:, 0, :, None]
    return (mixed / total).astype(v.dtype).reshape(s, 1, heads * d)


class RMSNorm(nn.Module):
    """Root-mean-square norm with a learnt gain (Zhang & Sennrich 2019, arXiv 1910.07467)."""

    eps: float

    @nn.compact
    def __call__(self, x: Array) -> Array:
        """x [..., D] -> same shape; the statistic is float32."""
        gain = self.param("scale", nn.initializers.ones, (x.shape[-1],))
        x32 = x.astype(jnp.float32)
        x32 = x32 * jax.lax.rsqrt(jnp.mean(x32 * x32, axis=-1, keepdims=True) + self.eps)
        return (x32 * gain).astype(x.dtype)


class LoraDense(nn.Module):
    """A frozen matrix and each row's low-rank addition to it."""

    features: int
    use_bias: bool = False

    @nn.compact
    def __call__(self, x: Array, lora: tuple[Array, Array] | None) -> Array:
        """x [B, L, in] -> [B, L, features]; lora is a row's (a [B, in, R], scaled b [B, R, features]) or None."""
        kernel = self.param("kernel", nn.initializers.lecun_normal(), (x.shape[-1], self.features))
        y = x @ kernel.astype(x.dtype)
        if self.use_bias:
            y += self.param("bias", nn.initializers.zeros, (self.features,)).astype(x.dtype)
        return y if lora is None else y + multi_lora(x, *lora).astype(x.dtype)


class Block(nn.Module):
    """One layer. Carries x through `nn.scan`; takes and returns its slice of the cache."""

    config: ModelConfig

    @nn.compact
    def __call__(
        self,
        x: Array,
        lora: Factors | None,
        stored: tuple[KVCache, NewKV] | None,
        local: Array | None,
        bounds: tuple[Array, Array] | None,
        sights: tuple[Sight, Sight | None],
    ) -> tuple[Array, NewKV]:
        """x [B, L, D], sights of global and of local layers -> (x, new keys and values)."""
        c, (b, length, _) = self.config, x.shape
        sight = sights[0] if local is None else jax.tree.map(partial(jnp.where, local), sights[1], sights[0])

        def dense(name: str, features: int, h: Array) -> Array:
            biased = c.attention_bias and name in ("q_proj", "k_proj", "v_proj")
            return LoraDense(features, biased, name=name)(h, None if lora is None else lora[name])

        def heads(name: str, n: int, h: Array) -> Array:
            return dense(name, n * c.head_dim, h).reshape(b, length, n, c.head_dim)

        def norm(name: str, h: Array) -> Array:
            return RMSNorm(c.rms_norm_eps, name=name)(h)

        h = norm("input_layernorm", x)
        q = heads("q_proj", c.num_attention_heads, h)
        k = heads("k_proj", c.num_key_value_heads, h)
        if c.qk_norm:
            q, k = norm("q_norm", q), norm("k_norm", k)
        q, k = rotate(q, sight.rope), rotate(k, sight.rope)
        v = heads("v_proj", c.num_key_value_heads, h)
        if stored is None:
            mixed = attend(q, k, v, sight.mask, c)
        else:
            assert bounds is not None  # both or neither
            mixed = attend_past(q, k, v, Past(*stored, *bounds), c, local)
        h = dense("o_proj", c.hidden_size, mixed)
        x = x + (norm("post_attention_layernorm", h) if c.post_norms else h)

        # Llama's checkpoints call the norm before the MLP by the name that Gemma's give to the one after attention
        h = norm("pre_feedforward_layernorm" if c.post_norms else "post_attention_layernorm", x)
        act = nn.silu if c.hidden_act == "silu" else nn.gelu
        gated = act(dense("gate_proj", c.intermediate_size, h)) * dense("up_proj", c.intermediate_size, h)
        h = dense("down_proj", c.hidden_size, gated)
        return x + (norm("post_feedforward_layernorm", h) if c.post_norms else h), NewKV(k, v)


class Decoder(nn.Module):
    """Token ids to hidden states; `logits` turns chosen hidden states into scores over the vocabulary."""

    config: ModelConfig
    dtype: str = "float32"

    def setup(self) -> None:
        """Declares embedding, stacked blocks and final norm."""
        c = self.config
        init = nn.initializers.normal(0.02)
        self.embed_tokens = self.param("embed_tokens", init, (c.vocab_size, c.hidden_size))
        if not c.tie_word_embeddings:
            self.lm_head = self.param("lm_head", init, (c.hidden_size, c.vocab_size))
        self.layers = nn.scan(
            Block,
            variable_axes={"params": 0},
            split_rngs={"params": True},
            in_axes=(0, 0, 0, nn.broadcast, nn.broadcast),  # pyright: ignore[reportArgumentType]
            out_axes=0,
            length=c.num_hidden_layers,
            unroll=c.num_hidden_layers if c.num_hidden_layers <= UNROLLED_LAYERS else 1,
        )(c)
        self.norm = RMSNorm(c.rms_norm_eps)

    def __call__(
        self,
        token_ids: Array,
        positions: Array,
        segment_ids: Array | None = None,
        lora: Factors | None = None,
        past: Past | None = None,
    ) -> tuple[Array, NewKV]:
        """Hidden states and the new keys and values.

        Args:
          token_ids, positions: int32 [B, L]; positions restart at 0 in every segment.
          segment_ids: int32 [B, L], 0 = padding (learner and prefill).
          lora: per row, gathered and scaled: a [layers, B, in, R], b [layers, B, R, out].
          past: of B rows, with L = 1 (decode).

        Returns:
          hidden [B, L, D] after the final norm, and the tokens' keys and values.
        """
        if (segment_ids is None) == (past is None):
            raise ValueError("give segment_ids (learner, prefill) or past (decode), exactly one of them")
        if past is not None and token_ids.shape[1] != 1:
            raise ValueError(f"decode takes one token per row, got {token_ids.shape[1]}")
        c = self.config
        mask = None if segment_ids is None else _causal(segment_ids)
        local, nearby = None, None
        if any(c.local_layers):
            assert c.sliding_window is not None
            local = jnp.asarray(c.local_layers)
            near = positions[:, :, None] - positions[:, None, :] < c.sliding_window
            nearby = Sight(rope_table(positions, c, local=True), None if mask is None else mask & near)
        sights = (Sight(rope_table(positions, c), mask), nearby)
        x = self.embed_tokens[token_ids].astype(self.dtype)
        if c.embed_scale != 1:
            x *= jnp.asarray(c.embed_scale, self.dtype)
        stored, bounds = (None, None) if past is None else (past[:2], past[2:])
        x, new = self.layers(x, lora, stored, local, bounds, sights)
        return self.norm(x), new

    def logits(self, hidden: Array) -> Array:
        """hidden [..., D] -> float32 [..., V]."""
        c = self.config
        head = self.embed_tokens.T if c.tie_word_embeddings else self.lm_head
        logits = (hidden @ head.astype(hidden.dtype)).astype(jnp.float32)
        if c.final_logit_softcap is not None:
            logits = c.final_logit_softcap * jnp.tanh(logits / c.final_logit_softcap)
        return logits


def _causal(segment_ids: Array) -> Array:
    """Who sees whom, bool [B, L, L]: the earlier tokens of one's own segment; nobody sees padding."""
    same = segment_ids[:, :, None] == segment_ids[:, None, :]
    index = jnp.arange(segment_ids.shape[1])
    return same & (segment_ids != 0)[:, :, None] & (index[:, None] >= index[None, :])[None]
