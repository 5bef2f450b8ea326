"""The shapes a run is compiled for."""

from __future__ import annotations

import random

import pytest

from bench.shapes import buckets_for, grain_of, prefill_lanes
from tunix_core import packing


@pytest.mark.parametrize("platform", ["cpu", "gpu"])
@pytest.mark.parametrize("longest", [1, 16, 80, 112, 640, 8192])
def test_every_episode_fits_and_a_row_length_has_one_batch_shape(longest: int, platform: str) -> None:
    """With two shapes a row's gradient could end on other bits for its neighbours' sake, and arms differ."""
    grain = grain_of(platform)
    buckets = buckets_for(longest, grain)
    lengths = [b.length for b in buckets]
    assert max(lengths) >= longest and 1 <= len(lengths) <= 3
    assert len(set(lengths)) == len(lengths)
    assert all(b.rows * b.length <= max(grain.batch_tokens, b.length) for b in buckets)


def test_many_tenants_short_of_a_row_waste_less_than_with_one_length() -> None:
    """The lengths are drawn, so the shares are of this draw alone; what counts is that they fall."""
    rng = random.Random(0)
    lengths, tenants = [], []
    for t in range(12):
        typical = (15, 28, 60)[t % 3]
        for _ in range(16):
            lengths.append(max(4, min(80, round(rng.gauss(typical, typical / 6)))))
            tenants.append(f"t{t}")
    shapes = buckets_for(80, grain_of("cpu"))
    waste = packing.plan(lengths, tenants, shapes).stats.waste
    longest_only = [b for b in shapes if b.length == 80]
    assert waste < 0.5 * packing.plan(lengths, tenants, longest_only).stats.waste
    assert waste < 0.08


def test_a_cpu_runs_small_programs_side_by_side_an_accelerator_large_ones_alone() -> None:
    cpu, gpu = grain_of("cpu"), grain_of("gpu")
    assert cpu.workers >= 1 and gpu.workers == 1
    assert max(b.rows for b in buckets_for(100, cpu)) == 2 and min(b.rows for b in buckets_for(100, gpu)) > 8
    assert prefill_lanes(cpu, 32, 100) == 1 and prefill_lanes(gpu, 32, 100) == 16
    assert prefill_lanes(gpu, 4, 100) == 4 and prefill_lanes(gpu, 32, 100_000) == 1
