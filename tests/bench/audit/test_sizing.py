"""Sizes follow from Little's law and the simulation."""

from __future__ import annotations

import pytest

from bench.audit.sizing import recommend, spread
from bench.planner.simulate import Setup
from bench.planner.times import MeasuredTimes
from bench.planner.work import DrawnWork
from tasks import latency
from tunix_core.sampler.base import SamplerSpec
from tunix_core.schedule import arm
from tunix_core.types import Bucket, TenantSpec


def setup(profile: str, workers: int = 4096) -> Setup:
    tenants = tuple(
        TenantSpec(tenant_id=f"t{i}", env_ids=("x",), seed=i, groups_per_update=2, updates=4)
        for i in range(3)
    )
    return Setup(
        tenants=tenants,
        schedule=arm("A1"),
        sampler=SamplerSpec(),
        buckets=(Bucket(rows=1, length=128),),
        times=MeasuredTimes(prefill_base=0.01, prefill_per_slot=0.0, decode_base=0.005, train_base=0.02),
        work=DrawnWork(
            prompt_tokens=30,
            response_tokens=8,
            response_p95=16,
            max_new_tokens=24,
            delay=latency.parse(profile),
        ),
        env_workers=workers,
    )


def test_slow_tools_are_the_bottleneck_and_get_the_workers_that_littles_law_asks_for() -> None:
    found = recommend(setup("const:2", workers=2))
    assert found.bottleneck.startswith("environment latency")
    assert found.settings["env_workers"] >= 10
    assert found.predicted["sized"]["t_work_s"] < 0.5 * found.predicted["given"]["t_work_s"]


def test_sizing_never_costs_more_than_it_says() -> None:
    found = recommend(setup("lognormal:median=0.4,p95=2"))
    best = min(row["t_work_s"] for row in found.predicted["by_staleness"].values())
    assert found.predicted["sized"]["t_work_s"] <= 1.02**2 * best


def test_fast_tools_leave_the_device_as_the_bottleneck() -> None:
    assert recommend(setup("const:0.001")).bottleneck.startswith("the device")


def test_spread_of_known_numbers() -> None:
    found = spread([1.0] * 99 + [101.0])
    assert found["mean"] == pytest.approx(2.0)
    assert found["p50"] == 1.0
    assert found["share_of_slowest_1pct"] == pytest.approx(101 / 200)
