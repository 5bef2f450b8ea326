"""What a report is made of: one document with every figure, as `--json` prints them, and the lines that are drawn."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import study, table
from bench.errors import UsageError
from bench.report import across, beside
from bench.report.numbers import Number, written
from leaderboard import metrics
from leaderboard.metrics import pairing
from leaderboard.metrics.across import TARGET_MARGIN
from leaderboard.records import ArmView, RunRecord
from leaderboard.site import svg
from leaderboard.site.html import Markup
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

    @property
    def remarks(self) -> list[str]:
        """What the report can't show of a record, and why."""
        refused = self.document["refused"]
        found = [f"no comparison: {refused}"] if refused else []
        for row in self.document["beside"]:
            if row["refused"] and row["run_id"] != self.record.header.run_id:
                found.append(f"{row['path']}: no comparison: {row['refused']}")
            if not row["same_work"] and self.document["study"] is None:
                found.append(f"{row['path']} is of other work than the first run: it has its row, and no place in "
                             "the figures over several runs")  # fmt: skip
        return found

    def label(self, number: Number, x: float, y: float, **more: str | None) -> Markup:
        """A figure of the document as a text in a drawing."""
        return svg.label(
            written(self.document, number), x, y, data_key=number.key, data_form=number.form, **more
        )  # pyright: ignore[reportArgumentType]


def gather(place: Path, *more: Path) -> Material:
    """Recomputes every figure of a run directory, and what others beside it, or a study's folder, add.

    Args:
      place, more: run directories; a study's folder stands for its runs. The page is about the first run, or about
        the study's one with the most tenants; all of them together make the figures that need several.
    Raises:
      UsageError: a folder that holds neither.
      RecordError: a line that can't be read.
    """
    runs: list[Path] = []
    studies: list[Path] = []
    for each in (place, *more):
        if (each / "run.json").is_file():
            runs.append(each)
        elif found := study.records_in(each):
            studies.append(each)
            runs += reversed(found)
        else:
            raise UsageError(
                f"{each} holds no run.json, and no records of a study",
                "'bench run --out DIR' writes a run directory",
            )
    material = _one(runs[0])
    material.document["beside"] = beside.rows(runs) if len(runs) > 1 else []
    material.document["study"] = study.as_dict(studies[0]) if studies else None
    return material


def _one(directory: Path) -> Material:
    record = RunRecord.open(directory)
    shown = table.as_dict(record)
    runs = metrics.results(record)["runs"]
    comparison, refused = beside.compared(directory)
    if comparison is None:
        for arm in shown["arms"]:
            # times of arms that can't be compared stand there; a ratio of them would be a comparison
            arm |= dict.fromkeys(("speedup", "speedup_low", "speedup_high"))
    views = [view for view in record.views if view.updates]
    baseline = comparison["baseline"] if comparison else pairing.BASELINE
    if baseline not in {view.arm for view in views} and views:
        baseline = views[0].arm
    whole = {(view.arm, view.seed) for view in views if _finished(view)}
    finished = [run for run in runs if (run["arm"], run["seed"]) in whole]
    document = {
        "schema": SCHEMA,
        "run": _facts(record, directory),
        "labels": shown["labels"],
        "comparison": comparison,
        "refused": refused,
        "headline": _headline(comparison),
        "table": shown,
        "baseline": baseline,
        "ratios": across.ratios(finished, baseline) if comparison else {},
        "profile": across.profile(finished) if comparison else {},
        "target_margin": TARGET_MARGIN,
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


def _headline(comparison: dict[str, Any] | None) -> dict[str, float | None]:
    """The interval of the time saved: that of the ratio, read as 1 - 1 / ratio."""
    ends = {end: None if comparison is None else comparison[end] for end in ("low", "high")}
    return {f"time_saved_{end}": 1 - 1 / value if value else None for end, value in ends.items()}


def _finished(view: ArmView) -> bool:
    """An arm that was cut short did less work; its time says nothing."""
    return any(event.key == "run_stop" and event.value.get("status") == "success" for event in view.events)


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
