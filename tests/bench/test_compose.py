"""The shapes a run is compiled for."""

from __future__ import annotations

import random

import pytest

from bench.compose import BATCH_TOKENS, buckets_for, env_workers
from bench.config import RunConfig
from tunix_core import packing


@pytest.mark.parametrize("longest", [1, 16, 80, 112, 640, 4096])
def test_every_episode_fits_and_a_row_length_has_one_batch_shape(longest: int) -> None:
    """With two shapes a row's gradient could end on other bits for its neighbours' sake, and arms differ."""
    buckets = buckets_for(longest)
    lengths = [b.length for b in buckets]
    assert max(lengths) >= longest and 1 <= len(lengths) <= 3
    assert len(set(lengths)) == len(lengths)
    assert all(b.rows * b.length <= max(BATCH_TOKENS, b.length) for b in buckets)


def test_many_tenants_short_of_a_row_waste_less_than_with_one_length() -> None:
    """The lengths are drawn, so the shares are of this draw alone; what counts is that they fall."""
    rng = random.Random(0)
    lengths, tenants = [], []
    for t in range(12):
        typical = (15, 28, 60)[t % 3]
        for _ in range(16):
            lengths.append(max(4, min(80, round(rng.gauss(typical, typical / 6)))))
            tenants.append(f"t{t}")
    shapes = buckets_for(80)
    waste = packing.plan(lengths, tenants, shapes).stats.waste
    longest_only = [b for b in shapes if b.length == 80]
    assert waste < 0.5 * packing.plan(lengths, tenants, longest_only).stats.waste
    assert waste < 0.08


@pytest.mark.parametrize(("tenants", "workers"), [(1, 48), (32, 1536), (200, 2048)])
def test_no_episode_waits_for_a_thread(tenants: int, workers: int) -> None:
    config = RunConfig(group_size=8, groups_per_update=2, max_staleness=2)
    assert env_workers(config, tenants) == workers
