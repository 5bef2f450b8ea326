"""The learner's step: many tenants in one against one tenant, and against a step for each tenant.

    python -m tests.benchmarks.learner_speed [--tenants 32] [--rounds 7] [--json FILE]

Equal real tokens in all cases, no padding, the embedded model. `one tenant` and `N tenants` take one step of N rows;
`a step each` takes N steps of one row, as a learner does that updates one tenant at a time. Matrix multiplication at
its best is measured in the same run, so that the share of it that the step reaches is known.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bench.shapes import grain_of
from tests.benchmarks.harness import Timed, interleave, ratio, write
from tunix_core.clock import clock_ns
from tunix_core.learner.stage import Learner
from tunix_core.model.config import ModelConfig, lora_targets
from tunix_core.model.load import load_base
from tunix_core.types import Bucket, EpisodeTicket, Fate, Group, StopReason, TenantSpec, Trajectory, Turn

PROMPT, SAMPLED, GROUP = 12, 20, 4
ROW = (PROMPT + SAMPLED) * GROUP
"""A group fills a row."""


def group(tenant: str, ordinal: int, version: int, rng: np.random.Generator) -> Group:
    """Four episodes of one turn, half of them right."""

    def turn(role: str, n: int) -> Turn:
        sampled = role == "policy"
        return Turn(
            role=role, text="", token_ids=rng.integers(0, 256, n).astype(np.int32), loss_mask=np.full(n, sampled),
            behavior_logprobs=np.full(n, -2.0, np.float32), policy_version=np.full(n, version if sampled else -1),
            stop=None, t_start_ns=0, t_end_ns=0,
        )  # fmt: skip

    return Group(
        tenant_id=tenant,
        ordinal=ordinal,
        trajectories=tuple(
            Trajectory(
                ticket=EpisodeTicket(tenant_id=tenant, ordinal=ordinal, sample_index=i, env_id="", split="train",
                                     env_seed=0, item_index=0),
                item_uid="", turns=(turn("environment", PROMPT), turn("policy", SAMPLED)), reward=float(i % 2),
                grade_status="", stop=StopReason.TERMINATED, fate=Fate.OPEN, t_start_ns=0, t_end_ns=0,
            )
            for i in range(GROUP)
        ),
    )  # fmt: skip


def learner(
    base: Any, params: Any, tenants: int, *, rows: int | None = None, workers: int | None = None
) -> Learner:
    """A learner of so many tenants with one bucket, batches and workers as `bench run` has them or as given."""
    grain = grain_of(jax.default_backend())
    specs = [TenantSpec(tenant_id=f"t{i}", env_ids=("x",), seed=i) for i in range(tenants)]
    bucket = Bucket(rows=rows or max(1, grain.batch_tokens // ROW), length=ROW)
    made = Learner(
        base.config, params, specs, max_rank=8, buckets=[bucket], clock_ns=clock_ns, on_span=lambda span: None,
        workers=workers or grain.workers,
    )  # fmt: skip
    made.warm_up()
    return made


def step(made: Learner, tenants: int, groups: int) -> None:
    """One update of all tenants, so many groups each; waits for the device."""
    rng = np.random.default_rng(0)
    due = {
        f"t{i}": [group(f"t{i}", k, made.versions[f"t{i}"], rng) for k in range(groups)]
        for i in range(tenants)
    }
    reports = made.update(0, due)
    assert all(report.skipped is None for report in reports)
    jax.block_until_ready(made.state)


def step_flops(config: ModelConfig, rank: int, tokens: int, row: int) -> float:
    """Multiply-adds times two of a step: 4 per frozen weight (no gradient of it), 6 per adapter weight, attention."""
    targets = lora_targets(config)
    frozen = (
        config.num_hidden_layers * sum(i * o for i, o in targets.values())
        + config.hidden_size * config.vocab_size
    )
    adapters = config.num_hidden_layers * sum(rank * (i + o) for i, o in targets.values())
    width = config.num_attention_heads * config.head_dim
    return tokens * (4 * frozen + 6 * adapters + 3 * 4 * config.num_hidden_layers * row * width)


def main() -> int:
    """Prints times and ratios."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tenants", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path)
    wanted = parser.parse_args()
    n = wanted.tenants
    base = load_base()
    params = jax.device_put(base.params)
    alone, together, single = (
        learner(base, params, 1),
        learner(base, params, n),
        learner(base, params, 1),
    )
    matrix = jnp.ones((1024, 1024), jnp.float32)
    multiply = jax.jit(lambda x: x @ x)

    def each() -> None:
        for _ in range(n):
            step(single, 1, 1)

    cases = [
        Timed("one tenant", lambda: step(alone, 1, n), units=n * ROW),
        Timed(f"{n} tenants", lambda: step(together, n, 1), units=n * ROW),
        Timed("a step each", each, units=n * ROW),
        Timed("matrix product", lambda: jax.block_until_ready(multiply(matrix)), units=2 * 1024**3),
    ]
    interleave(cases, wanted.rounds)
    one, many, serial, product = cases
    peak = product.units / product.median
    flops = step_flops(base.config, 8, n * ROW, ROW)
    figures = {
        "many / one": ratio(many, one),
        "a step each / many": ratio(serial, many),
        "share of the matrix product's rate": flops / many.median / peak,
    }
    for case in cases[:3]:
        print(f"{case.name:<14} {1000 * case.median:8.1f} ms  {case.units / case.median:10,.0f} tokens/s")
    print(f"matrix product {peak / 1e9:8.1f} GFLOP/s")
    print(f"{n} tenants / one tenant: {figures['many / one'][0]:.2f} (rounds {figures['many / one'][1]:.2f} … "
          f"{figures['many / one'][2]:.2f})")  # fmt: skip
    print(f"a step each / {n} tenants: {figures['a step each / many'][0]:.2f}")
    share = 100 * figures["share of the matrix product's rate"]
    print(f"the step of {n} tenants reaches {share:.0f} % of it")
    write(wanted.json, cases, figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
