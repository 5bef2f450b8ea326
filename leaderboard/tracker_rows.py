"""The rows of metrics.jsonl: what trackers are sent, as it follows from the lines.

The recorder writes them while a run is under way, verification computes them again.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from leaderboard.records import ArmView, RunRecord
from leaderboard.schema import EvalLine, UpdateLine

FIGURES = (
    "loss",
    "grad_norm",
    "learning_rate",
    "clip_fraction",
    "is_ess",
    "max_is_weight",
    "kl",
    "logprob_gap",
    "entropy",
    "ratio_mean",
    "ratio_min",
    "ratio_max",
    "rejected_fraction",
    "max_log_is_weight_raw",
    "max_log_is_weight",
    "reward_mean",
    "reward_mean_kept",
)
"""Of an update; null, and left out of its row, where they weren't finite."""


def update_row(line: UpdateLine, *, samples: int, start_ns: int) -> dict[str, Any]:
    """One update's row; `samples` are the tenant's rollouts consumed until then, `start_ns` is run_start."""
    tokens = sum(line.staleness.values())
    figures = {name: getattr(line, name) for name in FIGURES}
    return {
        **_axes(line, updates=line.version_after, samples=samples, wall_ns=line.t1_ns - start_ns),
        **{f"train/{name}": value for name, value in figures.items() if value is not None},
        "stale/mean": sum(int(age) * n for age, n in line.staleness.items()) / tokens if tokens else 0.0,
        "stale/max": max(map(int, line.staleness), default=0),
        "pad/train": 1 - line.real_tokens / line.executed_slots if line.executed_slots else 0.0,
    }


def eval_row(lines: Sequence[EvalLine], *, start_ns: int) -> dict[str, Any]:
    """One evaluation's row, from all its items."""
    first = lines[0]
    wall_ns = first.snapshot_ns - start_ns
    return {
        **_axes(first, updates=first.version, samples=first.samples, wall_ns=wall_ns),
        "eval/id": first.eval_id,
        "eval/accuracy": sum(line.reward for line in lines) / len(lines),
        "eval/items": len(lines),
    }


def tracker_rows(record: RunRecord) -> Iterator[dict[str, Any]]:
    """All rows of a record: of each (arm, seed) the updates in order, then its evaluations by tenant."""
    for view in record.views:
        yield from _rows(view)


def _rows(view: ArmView) -> Iterator[dict[str, Any]]:
    consumed = Counter((line.tenant, line.consumed_in) for line in view.rollouts if line.fate == "consumed")
    samples: Counter[str] = Counter()
    for line in view.updates:
        samples[line.tenant] += consumed[line.tenant, line.update_id]
        yield update_row(line, samples=samples[line.tenant], start_ns=view.start_ns)
    evaluations: dict[tuple[str, int], list[EvalLine]] = defaultdict(list)
    for line in view.evals:
        evaluations[line.tenant, line.eval_id].append(line)
    for _, lines in sorted(evaluations.items()):
        yield eval_row(lines, start_ns=view.start_ns)


def _axes(line: UpdateLine | EvalLine, *, updates: int, samples: int, wall_ns: int) -> dict[str, Any]:
    return {
        "arm": line.arm,
        "seed": line.seed,
        "tenant": line.tenant,
        "work/updates": updates,
        "work/samples": samples,
        "time/wall_s": max(0, wall_ns) / 1e9,
    }
