"""The sampler's tokens a second, by rows decoded at once and by tenants mixed among them.

    python -m tests.benchmarks.sampler_speed [--rows 1,8,32,64] [--tenants 1,8,32] [--rounds 5] [--json FILE]

The embedded model; every row is given a prompt of 30 tokens and decodes 64, none stops early.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np

from bench.shapes import grain_of, prefill_lanes
from tests.benchmarks.harness import Timed, interleave, ratio, write
from tunix_core.clock import clock_ns
from tunix_core.model.load import load_base
from tunix_core.model.lora import stack_adapters
from tunix_core.sampler.base import SamplerSpec, turn
from tunix_core.sampler.engine import SamplerEngine
from tunix_core.types import EpisodeTicket, SampleRequest, SamplingSpec, TenantSpec

PROMPT, SAMPLED = 30, 64


def engine(
    base: Any, params: Any, rows: int, tenants: int, *, part: int | None = None, workers: int | None = None
) -> SamplerEngine:
    """A warm engine, its parts and workers as `bench run` has them here or as given."""
    specs = [TenantSpec(tenant_id=f"t{i}", env_ids=("x",), seed=i) for i in range(tenants)]
    grain = grain_of(jax.default_backend())
    spec = SamplerSpec(slots=rows, part_slots=part or grain.part_slots, prefill_lanes=prefill_lanes(grain, rows, 32),
                       prefill_lengths=(32,), max_new_tokens=SAMPLED,
                       workers=workers or grain.workers)  # fmt: skip
    made = SamplerEngine(spec, base.config, params, stack_adapters(base.config, specs, 8), stop_ids=(),
                         clock_ns=clock_ns, on_span=lambda span: None)  # fmt: skip
    made.warm_up()
    return made


def decode(made: SamplerEngine, rows: int, tenants: int) -> None:
    """Fills every slot, tenants in turn, and decodes to the end."""
    rng = np.random.default_rng(0)
    for i in range(rows):
        ticket = EpisodeTicket(tenant_id=f"t{i % tenants}", ordinal=i, sample_index=0, env_id="", split="train",
                               env_seed=0, item_index=0)  # fmt: skip
        made.submit(
            SampleRequest(
                ticket=ticket, turn_index=0, context_ids=rng.integers(0, 256, PROMPT).astype(np.int32),
                sampling=SamplingSpec(max_new_tokens=SAMPLED), stop_ids=(), stream_seed=(i, 0),
                adapter_slot=i % tenants,
            )
        )  # fmt: skip
    done = 0
    while made.busy:
        done += len(turn(made))
    assert done == rows


def main() -> int:
    """Prints tokens a second, and what mixing tenants costs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", default="1,8,32,64")
    parser.add_argument("--tenants", default="1,8,32")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    wanted = parser.parse_args()
    base = load_base()
    params = jax.device_put(base.params)
    cases: dict[tuple[int, int], Timed] = {}
    for rows in map(int, wanted.rows.split(",")):
        for tenants in map(int, wanted.tenants.split(",")):
            if tenants <= rows:
                made = engine(base, params, rows, tenants)
                cases[rows, tenants] = Timed(
                    f"{rows} rows, {tenants} tenants",
                    lambda made=made, rows=rows, tenants=tenants: decode(made, rows, tenants),
                    units=rows * SAMPLED,
                )
    interleave(list(cases.values()), wanted.rounds)
    figures: dict[str, Any] = {}
    for (rows, _), case in cases.items():
        cost = ratio(case, cases[rows, 1])
        figures[case.name] = {"tokens_per_s": case.units / case.median, "time over one tenant": cost}
        print(f"{case.name:<22} {case.units / case.median:9,.0f} tokens/s   {cost[0]:.2f}x the time of one tenant "
              f"(rounds {cost[1]:.2f} … {cost[2]:.2f})")  # fmt: skip
    write(wanted.json, list(cases.values()), figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
