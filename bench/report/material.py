"""What a report is made of: one document with every figure, as `--json` prints them, and the lines that are drawn."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import table
from bench.compare import compare
from bench.errors import RejectedError, UsageError
from leaderboard import metrics
from leaderboard.records import ArmView, RunRecord
from leaderboard.site.plots import Learnt

SCHEMA = "bench.report/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Material:
    """One run and what is shown beside it."""

    document: dict[str, Any]
    """Every number a reader sees; embedded in the page."""
    record: RunRecord
    views: list[ArmView]
    """Those that made an update, in the order of their start."""
    learnt: list[Learnt]

    @property
    def arms(self) -> list[str]:
        """Labels of the arms, in the order of their first start."""
        return list(dict.fromkeys(view.arm for view in self.views))

    @property
    def tenants(self) -> list[str]:
        """Names of the tenants."""
        return [info.tenant for info in self.record.header.tenants]

    @property
    def first_seed(self) -> list[ArmView]:
        """One view an arm: those of the seed that began."""
        return [view for view in self.views if view.seed == self.views[0].seed]


def gather(directory: Path) -> Material:
    """Recomputes every figure of a run directory.

    Raises:
      RecordError: a line that can't be read.
    """
    record = RunRecord.open(directory)
    shown = table.as_dict(record)
    runs = metrics.results(record)["runs"]
    comparison, refused = _compared(directory)
    views = [view for view in record.views if view.updates]
    document = {
        "schema": SCHEMA,
        "run": _facts(record, directory),
        "labels": shown["labels"],
        "comparison": comparison,
        "refused": refused,
        "table": shown,
        "arms": {arm: _arm([run["metrics"] for run in runs if run["arm"] == arm], record, arm)
                 for arm in dict.fromkeys(view.arm for view in views)},
        "runs": runs,
    }  # fmt: skip
    devices = len(record.header.devices)
    learnt = [
        Learnt(
            arm=run["arm"],
            seed=run["seed"],
            devices=devices,
            curves={tenant: own["curve"] for tenant, own in run["metrics"]["accuracy"].items()},
        )
        for run in runs
    ]
    return Material(document=document, record=record, views=views, learnt=learnt)


def mean_of_trees(trees: Sequence[Any]) -> Any:
    """The mean of numbers that stand in the same place; what isn't a number in each is left out as None."""
    if all(isinstance(tree, dict) for tree in trees):
        keys = dict.fromkeys(key for tree in trees for key in tree)
        return {key: mean_of_trees([tree[key] for tree in trees if key in tree]) for key in keys}
    numbers = [tree for tree in trees if isinstance(tree, int | float) and not isinstance(tree, bool)]
    return statistics.fmean(numbers) if numbers and len(numbers) == len(trees) else None


def _compared(directory: Path) -> tuple[dict[str, Any] | None, str | None]:
    """A report is also made of runs that allow no verdict; it says then why there is none."""
    try:
        return compare(directory).as_dict(), None
    except (RejectedError, UsageError) as error:
        return None, f"{error}" + (f" ({error.hint})" if error.hint else "")


def _facts(record: RunRecord, directory: Path) -> dict[str, Any]:
    header = record.header
    return {
        "path": str(directory),
        "run_id": header.run_id,
        "created_utc": header.created_utc,
        "suite_version": header.suite_version,
        "status": header.status,
        "status_reason": header.status_reason,
        "device_class": header.device_class,
        "devices": [device.model_dump() for device in header.devices],
        "latency": header.latency.model_dump(),
        "limit_applied": header.limit_applied,
        "seeds": header.seeds,
        "order": [list(each) for each in header.order],
        "tenants": [{"tenant": t.tenant, "env_ids": t.env_ids, "updates": t.updates} for t in header.tenants],
        "arms": [arm.model_dump() for arm in header.arms],
        "model": header.model.model_dump(),
        "software": header.software,
        "config": header.config,
        "set_by": header.set_by,
        "command": header.command,
        "warnings": list(header.warnings),
        "compile": [
            {"arm": r.arm, "seed": r.seed, "init_s": r.init_s, "compile_s": r.compile_s,
             "cache_hits": r.compile_cache_hits}
            for r in header.runs
        ],
    }  # fmt: skip


def _arm(figures: list[dict[str, Any]], record: RunRecord, arm: str) -> dict[str, Any]:
    """An arm over its seeds: the mean of every figure, ledgers and compilations in sum."""
    ledger: dict[str, Counter[str]] = {"rollouts": Counter(), "tokens": Counter()}
    for own in figures:
        for by_unit in own["ledger"].values():
            for unit, counts in by_unit.items():
                ledger[unit].update(counts)
    histogram: Counter[str] = Counter()
    for own in figures:
        histogram.update(own["staleness"]["histogram"])
    compiled: Counter[str] = Counter()
    for view in record.views:
        stops = [event.value for event in view.events if event.key == "run_stop" and view.arm == arm]
        for counts in (value.get("recompiles") for value in stops):
            if isinstance(counts, dict):
                compiled.update({name: count for name, count in counts.items() if isinstance(count, int)})
    return {
        "seeds": len(figures),
        "mean": mean_of_trees([{k: v for k, v in own.items() if k != "accuracy"} for own in figures]),
        "ledger": {unit: dict(counts) for unit, counts in ledger.items()},
        "staleness": dict(sorted(histogram.items(), key=lambda pair: int(pair[0]))),
        "recompiles": dict(sorted(compiled.items())),
    }
