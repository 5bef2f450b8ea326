"""Predicted beside measured over many real runs: how far off is `bench plan`?

    python -m tests.benchmarks.plan_accuracy OUT [--only 3] [--updates 3]

Fits stage times and episode lengths on FIT (seeds and latencies of their own), then runs every configuration of GRID
and predicts it. Nothing of a predicted run is fitted: only its configuration and the simulated delays that its seeds
give are taken. Records that are there already are used again, so a study that stopped goes on. Needs a quiet machine.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.cli import invoke
from bench.planner import fit
from leaderboard.records import RunRecord
from tests.benchmarks.harness import machine

LATENCIES = ("none", "const:0.3", "remote-tools", "heavy:median=0.2,p95=1,tail=0.02,tail_s=4")
TENANTS = (1, 4, 8, 16, 32)
GRID = tuple(itertools.product(TENANTS, LATENCIES))
"""20 runs of the arms S0, S1 and A1: 60 predictions."""
FIT = ((2, "none", 100), (6, "none", 101), (12, "lognormal:median=0.1,p95=0.3", 102))


def record(place: Path, tenants: int, latency: str, seed: int, updates: int) -> RunRecord:
    """The record of one configuration; made if it isn't there."""
    if not (place / "manifest.json").is_file():
        args = ["run", "--quiet", "--tracker", "none", "--arms", "S0,S1,A1", "--latency", latency, "--out", str(place),
                "--updates", str(updates), "--eval-items", "1", "--tenants", str(tenants), "--seed", str(seed),
                "--set", "groups_per_update=2"]  # fmt: skip
        code = invoke(args)
        if code:
            raise SystemExit(f"{place} ended with exit code {code}")
    return RunRecord.open(place)


def summary(rows: Sequence[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Median and 90th percentile of the absolute relative errors, all arms and each."""
    found: dict[str, dict[str, float]] = {}
    for arm in ("all", *dict.fromkeys(row["arm"] for row in rows)):
        own = [row for row in rows if arm in ("all", row["arm"])]
        for name in ("t_work_s", "util_busy"):
            errors = sorted(abs(row[name]["error"]) for row in own)
            found.setdefault(arm, {"n": len(errors)})
            found[arm][f"{name}_median"] = statistics.median(errors)
            found[arm][f"{name}_p90"] = errors[int(0.9 * (len(errors) - 1))]
    return found


def main(argv: Sequence[str] | None = None) -> None:
    """Runs, predicts, writes OUT/plan_accuracy.json and prints the errors."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", type=int, default=len(GRID), help="so many configurations of the grid")
    parser.add_argument("--updates", type=int, default=4)
    given = parser.parse_args(argv)
    fitted = [record(given.out / f"fit{i}", *which, given.updates) for i, which in enumerate(FIT)]
    rows: list[dict[str, Any]] = []
    for i, (tenants, latency) in enumerate(GRID[: given.only]):
        made = record(given.out / f"g{i:02d}", tenants, latency, i, given.updates)
        rows += [{"tenants": tenants, "latency": latency, **row} for row in fit.predict(made, fitted)]
    found = {"machine": machine(), "summary": summary(rows), "rows": rows}
    (given.out / "plan_accuracy.json").write_text(json.dumps(found, indent=1) + "\n")
    sys.stdout.write(json.dumps(found["summary"], indent=1) + "\n")


if __name__ == "__main__":
    main()
