"""The scheduler that is simulated is the scheduler that runs."""

from __future__ import annotations

import dataclasses

import pytest

from bench.planner import engine
from tests.bench.planner.virtual import real_run, simulated_run
from tunix_core.sampler.base import SamplerSpec
from tunix_core.sampler.engine import READS
from tunix_core.schedule import ScheduleSpec, arm
from tunix_core.testing.tiny import TINY_SAMPLER, tiny_tenant

TENANTS = [tiny_tenant("a"), tiny_tenant("b", seed=8, updates=4), tiny_tenant("c", seed=9, group_size=3)]
COMPLETION = ScheduleSpec(tenants_at_once=None, step_barrier=False, max_staleness=2, consume="completion")


PARTS = dataclasses.replace(TINY_SAMPLER, part_slots=2, prefill_lanes=1)


@pytest.mark.parametrize("sampler", [TINY_SAMPLER, PARTS], ids=["one part", "parts of two"])
@pytest.mark.parametrize(
    "schedule", ["S0", "S1", "A0", "A1", COMPLETION], ids=["S0", "S1", "A0", "A1", "completion"]
)
def test_the_same_trace_gets_the_same_admissions_dispatches_and_updates(
    schedule: str | ScheduleSpec, sampler: SamplerSpec
) -> None:
    spec = arm(schedule) if isinstance(schedule, str) else schedule
    trace = real_run(TENANTS, spec, workers=9, sampler=sampler)
    simulation = simulated_run(trace, TENANTS, spec, workers=9, sampler=sampler)
    for i, (real, simulated) in enumerate(zip(trace.log, simulation.tally.log, strict=False)):
        assert simulated == real, f"entry {i} of {len(trace.log)}"
    assert len(simulation.tally.log) == len(trace.log)
    assert dict(simulation.tally.ages) == trace.ages
    assert sum(e[0] == "train" for e in trace.log) > 3


def test_as_many_prefill_programs_as_the_real_engine() -> None:
    assert engine.READS == READS
