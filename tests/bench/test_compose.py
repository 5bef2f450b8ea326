"""How a run is composed."""

from __future__ import annotations

import pytest

from bench.compose import env_workers
from bench.config import RunConfig


@pytest.mark.parametrize(("tenants", "workers"), [(1, 48), (32, 1536), (200, 2048)])
def test_no_episode_waits_for_a_thread(tenants: int, workers: int) -> None:
    config = RunConfig(group_size=8, groups_per_update=2, max_staleness=2)
    assert env_workers(config, tenants) == workers
