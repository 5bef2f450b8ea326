"""How work is best cut on this machine: sizes of programs, one after another and several at once.

    python -m tests.benchmarks.grain_speed [--rounds 5] [--json FILE]

The same tokens in all cases of a kind: 4,096 trained in rows of 128, or 32 turns of 64 tokens sampled. What
`bench/shapes.py` chooses follows from it.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import jax

from tests.benchmarks import learner_speed, sampler_speed
from tests.benchmarks.harness import Timed, interleave, ratio, write
from tunix_core.model.load import load_base
from tunix_core.workers import usable_cores

ROWS = 32


def main() -> int:
    """Prints microseconds a token, and each cut's time over the first one's."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    wanted = parser.parse_args()
    base = load_base()
    params = jax.device_put(base.params)
    cores = usable_cores()
    groups: dict[str, list[Timed]] = {"train": [], "sample": []}
    for rows in (1, 2, 4, ROWS):
        for workers in sorted({1, cores}):
            made = learner_speed.learner(base, params, 1, rows=rows, workers=workers)
            groups["train"].append(
                Timed(
                    f"{rows} rows a program, {workers} at once",
                    lambda made=made: learner_speed.step(made, 1, ROWS),
                    units=ROWS * learner_speed.ROW,
                )
            )
    for part in (ROWS, 16, 8, 4):
        for workers in sorted({1, cores}):
            engine = sampler_speed.engine(base, params, ROWS, 1, part=part, workers=workers)
            groups["sample"].append(
                Timed(
                    f"{part} slots a program, {workers} at once",
                    lambda engine=engine: sampler_speed.decode(engine, ROWS, 1),
                    units=ROWS * sampler_speed.SAMPLED,
                )
            )
    cases = [case for group in groups.values() for case in group]
    interleave(cases, wanted.rounds)
    figures: dict[str, Any] = {}
    for kind, group in groups.items():
        for case in group:
            over = ratio(case, group[0])
            figures[f"{kind}: {case.name}"] = {
                "us_per_token": 1e6 * case.median / case.units,
                "time over the first": over,
            }
            print(
                f"{kind:<7} {case.name:<32} {1e6 * case.median / case.units:7.1f} us a token   "
                f"{over[0]:.2f} (rounds {over[1]:.2f} … {over[2]:.2f}) of {group[0].name}"
            )
    write(wanted.json, cases, figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
