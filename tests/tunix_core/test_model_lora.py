"""Stacked adapters: their scale, their start, their padding, and that no slot reaches another."""

from __future__ import annotations

import math

import jax
import numpy as np
import pytest

from tunix_core.errors import ConfigError
from tunix_core.model.decoder import Decoder
from tunix_core.model.lora import (
    Factors,
    factors_sha256,
    gather_rows,
    initial_factors,
    lora_scale,
    multi_lora,
    read_slot,
    scale_rows,
    stack_adapters,
    write_slot,
)
from tunix_core.testing import random_adapter, tiny_base, tiny_tenant
from tunix_core.types import LoraSpec

BASE = tiny_base()
TENANTS = [tiny_tenant(f"t{i}", lora=LoraSpec(rank=2, alpha=4.0)) for i in range(3)]


def logits(slots: list[int], factors: Factors, scale: np.ndarray | None) -> np.ndarray:
    """Logits of one fixed sentence a row, each row under its slot's adapter; None: the base alone."""
    ids = np.tile(np.asarray([[4, 5, 0, 1, 6, 2]], np.int32), (len(slots), 1))
    positions, segments = np.tile(np.arange(6), (len(slots), 1)), np.ones_like(ids)
    slot = np.asarray(slots)

    @jax.jit
    def run(factors: Factors) -> jax.Array:
        rows = None if scale is None else scale_rows(gather_rows(factors, slot), scale, slot)
        params = {"params": BASE.params}
        hidden, _ = Decoder(BASE.config).apply(params, ids, positions, segments, rows)
        return Decoder(BASE.config).apply(params, hidden, method="logits")

    return np.asarray(run(factors))


@pytest.mark.parametrize(("stabilised", "expected"), [(False, 64.0), (True, 181.0193)])
def test_contribution_is_alpha_over_rank_times_x_a_b(stabilised: bool, expected: float) -> None:
    """x = ones(1, 4), A = ones(4, 8), B = ones(8, 4), r = 8, alpha = 16: 16 / 8 * 4 * 8 = 64, not 512."""
    scale = np.asarray([lora_scale(LoraSpec(rank=8, alpha=16.0, rank_stabilised=stabilised))], np.float32)
    a, b = np.ones((1, 1, 4, 8), np.float32), np.ones((1, 1, 8, 4), np.float32)
    slot = np.zeros(1, np.int32)
    rows = scale_rows(gather_rows({"m": (a, b)}, slot), scale, slot)["m"]
    found = multi_lora(np.ones((1, 1, 4), np.float32), rows[0][0], rows[1][0])
    np.testing.assert_allclose(found, np.full((1, 1, 4), expected), rtol=1e-6)


@pytest.mark.parametrize(
    ("rank", "alpha", "stabilised", "scale"),
    [(8, 16.0, False, 2.0), (4, 8.0, False, 2.0), (8, 16.0, True, 16 / math.sqrt(8)), (1, 1.0, False, 1.0)],
)
def test_scale(rank: int, alpha: float, stabilised: bool, scale: float) -> None:
    assert lora_scale(LoraSpec(rank=rank, alpha=alpha, rank_stabilised=stabilised)) == pytest.approx(scale)


def test_fresh_adapters_leave_the_base_exactly_as_it_is() -> None:
    fresh = stack_adapters(BASE.config, TENANTS, 2)
    with_adapters = logits([0, 1, 2], fresh.factors, np.asarray(fresh.scale))
    np.testing.assert_array_equal(with_adapters, logits([0, 1, 2], fresh.factors, None))


def test_b_starts_at_zero_and_a_from_the_tenants_own_seed() -> None:
    first, again = (initial_factors(BASE.config, TENANTS[0], 2) for _ in range(2))
    other_seed = initial_factors(BASE.config, tiny_tenant("t0", seed=8), 2)
    other_tenant = initial_factors(BASE.config, tiny_tenant("t9"), 2)
    assert factors_sha256(first) == factors_sha256(again)
    for name, (a, b) in first.items():
        assert not b.any() and a.all()
        assert np.abs(a).max() <= 1 / math.sqrt(a.shape[1])
        for other in (other_seed, other_tenant):
            assert not np.array_equal(a, other[name][0])


def test_a_smaller_rank_is_the_same_adapter_with_zeros_behind() -> None:
    spec = tiny_tenant("t0", lora=LoraSpec(rank=4, alpha=8.0))
    padded, dedicated = (initial_factors(BASE.config, spec, r) for r in (16, 4))
    for name, (a, b) in padded.items():
        assert a.shape[-1] == b.shape[-2] == 16
        np.testing.assert_array_equal(a[..., :4], dedicated[name][0])
        assert not a[..., 4:].any()


@pytest.mark.parametrize("rank", [0, 17, 32])
def test_a_rank_beyond_the_store_is_refused(rank: int) -> None:
    with pytest.raises(ConfigError, match=f"'t0'.*rank {rank}.*1..16"):
        initial_factors(BASE.config, tiny_tenant("t0", lora=LoraSpec(rank=rank)), 16)


def test_each_row_reads_its_own_slot_and_a_nan_stays_in_its() -> None:
    adapters = stack_adapters(BASE.config, TENANTS, 2)
    scale = np.asarray(adapters.scale)
    factors = write_slot(adapters.factors, 1, random_adapter(seed=1).factors)
    clean = logits([2, 1, 0, 1], factors, scale)
    np.testing.assert_array_equal(clean[1], clean[3])
    assert np.abs(clean[1] - clean[0]).max() > 0.1
    poison = {k: (a * np.nan, b * np.nan) for k, (a, b) in random_adapter().factors.items()}
    poisoned = logits([2, 1, 0, 1], write_slot(factors, 2, poison), scale)
    np.testing.assert_array_equal(poisoned[1:], clean[1:])
    assert np.isnan(poisoned[0]).all()


def test_a_written_slot_reads_back_and_the_others_stay() -> None:
    adapters = stack_adapters(BASE.config, TENANTS, 2)
    new = random_adapter(seed=3)
    written = write_slot(adapters.factors, 1, new.factors)
    assert factors_sha256(read_slot(written, 1)) == new.sha256
    for slot in (0, 2):
        assert factors_sha256(read_slot(written, slot)) == factors_sha256(read_slot(adapters.factors, slot))


def test_a_recycled_slot_keeps_no_trace_of_its_last_tenant() -> None:
    fresh = stack_adapters(BASE.config, TENANTS, 2)
    used = write_slot(fresh.factors, 1, random_adapter().factors)
    recycled = write_slot(used, 1, initial_factors(BASE.config, TENANTS[1], 2))
    for name in fresh.factors:
        for one, other in zip(recycled[name], fresh.factors[name], strict=True):
            np.testing.assert_array_equal(one, other)


def test_the_hash_sees_names_shapes_and_bits() -> None:
    base = {"m": (np.zeros((1, 2, 3), np.float32), np.zeros((1, 3, 2), np.float32))}
    renamed = {"n": base["m"]}
    reshaped = {"m": (np.zeros((1, 3, 2), np.float32), np.zeros((1, 2, 3), np.float32))}
    negative = {"m": (-base["m"][0], base["m"][1])}  # -0.0 is other bits
    swapped = {"m": (base["m"][0].astype(np.float64), base["m"][1])}
    assert len({factors_sha256(x) for x in (base, renamed, reshaped, negative, swapped)}) == 5
