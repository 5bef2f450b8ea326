"""The decoder: segments don't see each other, padding says nothing, the cache changes nothing."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tunix_core.errors import ConfigError
from tunix_core.model.config import ModelConfig, lora_targets
from tunix_core.model.decoder import (
    Decoder,
    NewKV,
    Past,
    attend,
    empty_cache,
    empty_recent,
    flush,
    write_prompt,
)
from tunix_core.model.rope import rope_table, rotate
from tunix_core.testing import tiny_base

BASE = tiny_base(layers=2)
MODEL = Decoder(BASE.config)
SENTENCE = np.asarray([4, 5, 0, 1, 2, 6, 0, 0, 7], np.int32)  # 0 is a letter, and what arrays are filled with
TOLERANCE = 1e-5


@partial(jax.jit, static_argnames=("config",))
def logits_of(params: Any, ids: Any, positions: Any, segments: Any, *, config: ModelConfig) -> Any:
    model = Decoder(config)
    hidden, _ = model.apply({"params": params}, ids, positions, segments)
    return model.apply({"params": params}, hidden, method="logits")


def logits(ids: np.ndarray, positions: np.ndarray, segments: np.ndarray) -> np.ndarray:
    return np.asarray(logits_of(BASE.params, ids, positions, segments, config=BASE.config))


def placed(*at: int, filler: int = 0, length: int = 32) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The sentence in one row [1, length], once a starting place, a segment each."""
    ids = np.full((1, length), filler, np.int32)
    positions, segments = np.zeros((1, length), np.int32), np.zeros((1, length), np.int32)
    for segment, start in enumerate(at, start=1):
        here = slice(start, start + len(SENTENCE))
        ids[0, here], positions[0, here], segments[0, here] = SENTENCE, np.arange(len(SENTENCE)), segment
    return ids, positions, segments


ALONE = logits(*placed(0))[0, : len(SENTENCE)]


@pytest.mark.parametrize("left", [0, 1, 7, 23])
@pytest.mark.parametrize("filler", [0, 3])
def test_padding_on_either_side_changes_no_logit_whatever_fills_it(left: int, filler: int) -> None:
    found = logits(*placed(left, filler=filler))[0, left : left + len(SENTENCE)]
    np.testing.assert_allclose(found, ALONE, atol=TOLERANCE)


def test_packed_sequences_are_scored_as_if_alone() -> None:
    rng = np.random.default_rng(0)
    ids, positions, segments = placed(0, 9, 20)
    found = logits(ids, positions, segments)
    for start in (0, 9, 20):
        np.testing.assert_allclose(found[0, start : start + len(SENTENCE)], ALONE, atol=TOLERANCE)
    # another content in the first two segments and in the padding is nothing to the third
    other = ids.copy()
    other[0, :20] = rng.integers(0, 8, 20)
    changed = logits(other, positions, segments)
    np.testing.assert_array_equal(changed[0, 20:29], found[0, 20:29])
    assert not np.allclose(changed[0, :9], found[0, :9])


def test_a_token_sees_the_past_and_not_the_future() -> None:
    ids, positions, segments = placed(0)
    before = logits(ids, positions, segments)
    for place in range(len(SENTENCE)):
        other = ids.copy()
        other[0, place] = (other[0, place] + 1) % 8
        after = logits(other, positions, segments)
        np.testing.assert_array_equal(after[0, :place], before[0, :place])
        assert np.abs(after[0, place : len(SENTENCE)] - before[0, place : len(SENTENCE)]).max(-1).min() > 1e-6


def test_an_empty_row_is_finite() -> None:
    ids, positions, segments = placed()
    assert np.isfinite(logits(ids, positions, segments)).all()


def test_decoding_through_the_cache_gives_the_logits_of_one_full_pass() -> None:
    """Prompt by prefill, then flushes of three decoded tokens each; row 1 of 2 holds the sentence."""
    params, prompt, steps = {"params": jax.tree.map(jnp.asarray, BASE.params)}, 3, 3
    cache = empty_cache(BASE.config, 2, 24)
    cache = jax.tree.map(lambda x: x + 99.0, cache)  # what lies beyond a row's length is never read
    ids, positions, segments = placed(0, length=12)
    segments = segments * (np.arange(12) < prompt)

    @jax.jit
    def one(cache: Any, recent: Any, token: Any, start: Any, i: Any) -> Any:
        past = Past(cache, recent, start, i)
        hidden, new = MODEL.apply(params, token[:, None], (start + i)[:, None], None, None, past)
        recent = NewKV(
            *(jax.lax.dynamic_update_slice_in_dim(r, n, i, 2) for r, n in zip(recent, new, strict=True))
        )
        return recent, MODEL.apply(params, hidden[:, 0], method="logits")

    _, new = jax.jit(MODEL.apply)(params, ids, positions, segments)
    cache = write_prompt(cache, new, jnp.asarray([0, 0]), jnp.asarray([False, True]))
    for begin in range(prompt, len(SENTENCE), steps):
        recent = empty_recent(BASE.config, 2, steps)
        start = jnp.asarray([0, begin], jnp.int32)
        for i in range(steps):
            token = jnp.asarray([5, SENTENCE[begin + i]], jnp.int32)
            recent, found = one(cache, recent, token, start, jnp.int32(i))
            np.testing.assert_allclose(found[1], ALONE[begin + i], atol=TOLERANCE)
        cache = flush(Past(cache, recent, start, jnp.int32(steps)))


def test_rows_that_begin_take_their_prompt_and_lose_the_rest_others_keep_all() -> None:
    cache = jax.tree.map(lambda x: x + 7.0, empty_cache(BASE.config, 3, 4))
    prompts = jnp.broadcast_to(jnp.asarray([1.0, 2.0])[:, None, None, None], (2, 2, 3, 2, 4))
    written = write_prompt(
        cache, NewKV(prompts, prompts), jnp.asarray([1, 0, 1]), jnp.asarray([True, False, True])
    )
    for row, expected in ((0, [2, 2, 2, 0]), (1, [7, 7, 7, 7]), (2, [2, 2, 2, 0])):
        for position, value in enumerate(expected):
            assert np.all(written.k[:, row, :, :, position] == value)
            assert np.all(written.v[:, row, :, position] == value)


def test_rotary_attention_depends_on_distance_alone() -> None:
    rng = np.random.default_rng(1)
    config = dataclasses.replace(BASE.config, head_dim=8)
    q, k = (jnp.asarray(rng.normal(size=(1, 1, 1, 8)), jnp.float32) for _ in range(2))

    def score(i: int, j: int) -> float:
        turned = [rotate(x, rope_table(jnp.asarray([[at]]), config)) for x, at in ((q, i), (k, j))]
        return float(jnp.sum(turned[0] * turned[1]))

    assert score(9, 4) == pytest.approx(score(25, 20), abs=1e-5)
    assert score(9, 4) != pytest.approx(score(9, 5), abs=1e-3)
    np.testing.assert_array_equal(rotate(q, rope_table(jnp.asarray([[0]]), config)), q)


def test_query_heads_share_key_heads_in_blocks() -> None:
    """Grouped attention equals plain attention with each key head repeated for its block of query heads."""
    rng = np.random.default_rng(2)
    q = rng.normal(size=(1, 5, 4, 3)).astype(np.float32)
    k, v = (rng.normal(size=(1, 5, 2, 3)).astype(np.float32) for _ in range(2))
    mask = np.tril(np.ones((1, 5, 5), bool))
    config = dataclasses.replace(BASE.config, query_scale=3**-0.5)
    expected = np.zeros((5, 4, 3))
    for h in range(4):
        scores = q[0, :, h] @ k[0, :, h // 2].T / np.sqrt(3)
        weights = np.exp(np.where(mask[0], scores, -np.inf))
        expected[:, h] = weights / weights.sum(-1, keepdims=True) @ v[0, :, h // 2]
    np.testing.assert_allclose(attend(q, k, v, mask, config)[0], expected.reshape(5, 12), atol=1e-5)


def test_segments_and_past_exclude_each_other() -> None:
    ids = np.zeros((1, 2), np.int32)
    with pytest.raises(ValueError, match="exactly one"):
        MODEL.apply({"params": BASE.params}, ids, ids)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"num_attention_heads": 3}, "not a multiple"),
        ({"head_dim": 5}, "must be even"),
        ({"hidden": 3}, "unknown keys"),
    ],
)
def test_a_config_that_cannot_work_is_refused(changes: dict[str, int], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        ModelConfig.from_mapping({**BASE.config.as_dict(), **changes})


def test_a_config_without_a_size_is_refused_and_a_whole_one_comes_back() -> None:
    values = BASE.config.as_dict()
    assert ModelConfig.from_mapping(values) == BASE.config
    del values["hidden_size"]
    with pytest.raises(ConfigError, match="hidden_size"):
        ModelConfig.from_mapping(values)


def test_every_linear_layer_carries_an_adapter() -> None:
    shapes = jax.tree.map(np.shape, BASE.params["layers"])
    kernels = {k: v["kernel"][1:] for k, v in shapes.items() if "kernel" in v}
    assert kernels == lora_targets(BASE.config)
