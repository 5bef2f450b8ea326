"""Log-probabilities of given token ids under an adapter: the learner's own forward pass, in and out as numpy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tunix_core import packing
from tunix_core.errors import ConfigError
from tunix_core.learner.update import Cut, score_tokens
from tunix_core.model.config import ModelConfig, lora_targets
from tunix_core.model.lora import Factors, lora_scale
from tunix_core.types import AdapterVersion, Bucket, LoraSpec, SamplingSpec, TrainSequence

ROWS = 8
"""Rows of a call; more sequences than that take several."""
PLAIN = SamplingSpec()


def score_sequences(
    config: ModelConfig,
    params: Any,
    sequences: Sequence[Any] | np.ndarray,
    *,
    adapter: AdapterVersion | None = None,
    lora: LoraSpec | None = None,
    mask: Sequence[Any] | np.ndarray | None = None,
    pad_id: int | None = None,
    sampling: SamplingSpec = PLAIN,
) -> list[np.ndarray]:
    """Log-probability of each real token given the real tokens before it.

    Args:
      config, params: the base model.
      sequences: token ids, ragged [n] each or one padded array [B, L].
      adapter: whose factors are added to the base; None scores the base.
      lora: the adapter's rank and alpha, which its factors don't tell; given with `adapter`, and only then.
      mask: true on real tokens, in the shapes of `sequences`; a run without holes each. It decides alone.
      pad_id: where no mask is given, leading and trailing runs of this id are padding. An end-of-turn token
        that doubles as padding is lost at the end of its sequence that way: give a mask.
      sampling: temperature, and the cut of top_p and top_k under which the tokens count.

    Returns:
      One float32 [n] a sequence, n its real tokens; entry 0 is 0, since nothing precedes it. How a sequence was
      padded, and what else is scored, changes it by rounding alone.

    Raises:
      ConfigError: inputs that contradict each other, or that the model can't read.
    """
    if mask is not None and len(mask) != len(sequences):
        raise ConfigError(f"mask is for {len(mask)} sequences, but {len(sequences)} are given.")
    masks = [None] * len(sequences) if mask is None else [np.asarray(m) for m in mask]
    ids = [_real(i, s, m, pad_id, config) for i, (s, m) in enumerate(zip(sequences, masks, strict=True))]
    if not 0 < sampling.temperature < np.inf or not 0 < sampling.top_p <= 1 or sampling.top_k < 0:
        raise ConfigError(
            f"nothing can be scored under {sampling}: temperature > 0, top_p in (0, 1], top_k >= 0."
        )
    factors, scale = _adapter(config, adapter, lora)
    if not ids:
        return []
    bucket = Bucket(rows=min(len(ids), ROWS), length=_row_length(max(map(len, ids)), config))
    plan = packing.plan([len(x) for x in ids], ["0"] * len(ids), [bucket])
    made = [_sequence(k, x) for k, x in enumerate(ids)]
    batches = packing.pack(made, np.zeros(len(ids), np.float32), {"0": 0}, {"0": 0}, plan)
    temperature = np.asarray([sampling.temperature], np.float32)
    cut = None
    if sampling.cuts:
        cut = Cut(np.asarray([sampling.top_p], np.float32), np.asarray([sampling.top_k], np.int32))
    scored = [
        score_tokens(params, factors, scale, temperature, batch, cut, config=config).logprobs
        for batch in batches
    ]
    return packing.unpack(batches, plan, jax.device_get(scored))


def _real(
    i: int, sequence: Any, mask: np.ndarray | None, pad_id: int | None, config: ModelConfig
) -> np.ndarray:
    """The real tokens of one sequence, int32 [n]."""
    ids = np.asarray(sequence)
    if ids.ndim != 1 or (ids.size and not np.issubdtype(ids.dtype, np.integer)):
        raise ConfigError(f"Sequence {i} is {ids.dtype} {list(ids.shape)}; give integer token ids [n].")
    if mask is not None:
        if mask.shape != ids.shape or not np.isin(mask, (0, 1)).all():
            raise ConfigError(
                f"Sequence {i} has {len(ids)} tokens; its mask must be as many booleans, not {mask!r}."
            )
        real = np.flatnonzero(mask)
    else:
        real = np.arange(len(ids)) if pad_id is None else np.flatnonzero(ids != pad_id)
    if not len(real):
        raise ConfigError(f"Sequence {i} has no real token.")
    first, last = int(real[0]), int(real[-1])
    if mask is not None and len(real) != last - first + 1:
        hole = first + int(np.argmin(np.asarray(mask, bool)[first:]))
        raise ConfigError(
            f"Sequence {i}: its mask has a hole at {hole}; padding stands before or after a sequence."
        )
    ids = ids[first : last + 1]
    if ids.min() < 0 or ids.max() >= config.vocab_size:
        raise ConfigError(f"Sequence {i} has ids outside 0..{config.vocab_size - 1}, the vocabulary.")
    if len(ids) > config.max_position_embeddings:
        raise ConfigError(
            f"Sequence {i} has {len(ids)} tokens; the model reads {config.max_position_embeddings} at most."
        )
    return ids.astype(np.int32)


def _row_length(longest: int, config: ModelConfig) -> int:
    """A power of two, so that few shapes are compiled."""
    return min(max(16, 1 << (longest - 1).bit_length()), config.max_position_embeddings)


def _sequence(k: int, ids: np.ndarray) -> TrainSequence:
    n = len(ids)
    return TrainSequence(
        tenant_id="0",
        ordinal=k,
        sample_index=0,
        token_ids=ids,
        loss_mask=np.zeros(n, bool),
        behavior_logprobs=np.zeros(n, np.float32),
        policy_version=np.full(n, -1, np.int32),
        advantage=0.0,
    )


def _adapter(
    config: ModelConfig, adapter: AdapterVersion | None, lora: LoraSpec | None
) -> tuple[Factors, jax.Array]:
    """Factors with one slot in front, and its scale [1]; zeros where there is no adapter."""
    if (adapter is None) != (lora is None):
        raise ConfigError(
            "adapter and lora belong together: the factors don't tell their scale, alpha / rank."
        )
    layers, targets = config.num_hidden_layers, lora_targets(config)
    if adapter is None or lora is None:
        factors: Factors = {
            name: (jnp.zeros((1, layers, n, 1)), jnp.zeros((1, layers, 1, m)))
            for name, (n, m) in targets.items()
        }
        return factors, jnp.ones(1)
    if set(adapter.factors) != set(targets):
        raise ConfigError(f"the adapter has {sorted(adapter.factors)}, the model {sorted(targets)}.")
    for name, (n, m) in targets.items():
        a, b = adapter.factors[name]
        if not (
            a.shape[:2] == (layers, n)
            and b.shape[::2] == (layers, m)
            and a.shape[2] == b.shape[1] >= lora.rank
        ):
            raise ConfigError(
                f"the adapter's {name} is {a.shape} by {b.shape}; with rank {lora.rank} this model needs "
                f"{(layers, n, lora.rank)} by {(layers, lora.rank, m)}."
            )
    stacked = {name: (jnp.asarray(a)[None], jnp.asarray(b)[None]) for name, (a, b) in adapter.factors.items()}
    return stacked, jnp.asarray([lora_scale(lora)], jnp.float32)
