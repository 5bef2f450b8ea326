"""E122, E123, E126, E131, E134, E171: nothing was left out of a record, and two records are of one experiment."""

from __future__ import annotations

import itertools
import json
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from bench.fairness.side import Side
from bench.suites import FREE
from leaderboard.records import RunRecord
from leaderboard.schema import RunHeader
from leaderboard.verify import comparison, schedule, timeline
from leaderboard.verify.report import Finding, error, warning

NS = 1e9
GAP_S, GAP_SHARE = 10.0, 0.5
"""Unexplained time between two arms from which on something may have been left out: half of a run's time."""
OWN = FREE | {"max_staleness", "limit"}
"""Keys of the configuration in which two records of one experiment may differ."""


def whole(record: RunRecord, sides: list[Side]) -> Iterator[Finding]:
    """What must hold of a record: all that was planned is there, in its order, evaluated as planned, on one clock."""
    yield from timeline.plan(record)
    yield from timeline.clock_anchors(record.header)
    yield from comparison.paired(record)
    yield from schedule.evaluations(record)
    yield from schedule.compiling(record)
    yield from _interleaved(record.header)
    yield from _gaps(sides)


def across(a: RunRecord, b: RunRecord) -> Iterator[Finding]:
    """E122, E171: two records are of one experiment: machine, software, model, tasks and settings are the same."""
    first, second = a.header, b.header
    for code, what, x, y in (
        ("E171", "devices", _devices(first), _devices(second)),
        ("E171", "machine", _machine(a), _machine(b)),
        ("E171", "software", first.software, second.software),
        ("E122", "suite version", first.suite_version, second.suite_version),
        ("E122", "suite", _suite(first), _suite(second)),
        ("E122", "model", first.model.model_dump(), second.model.model_dump()),
        ("E122", "latency", first.latency.model_dump(), second.latency.model_dump()),
        ("E122", "tasks", _dumped(first.tasks), _dumped(second.tasks)),
        (
            "E122",
            "tenants",
            [t.model_dump() for t in first.tenants],
            [t.model_dump() for t in second.tenants],
        ),
        ("E122", "sampling", first.sampling, second.sampling),
        ("E122", "configuration", _config(first), _config(second)),
    ):
        if x != y:
            yield error(
                code,
                "run.json",
                f"the two records are of different experiments: {what} differ: {_named(x, y)}",
            )
    only = sorted(set(first.seeds) ^ set(second.seeds))
    if only:
        seeds = ", ".join(map(str, only))
        yield error("E123", "run.json", f"seeds {seeds} are in one record only: the pairs are not whole")
    yield warning(
        "E171",
        "run.json",
        "the arms were not interleaved: what the machine did between the two runs is in the ratio",
    )


def _interleaved(header: RunHeader) -> Iterator[Finding]:
    """E171: no arm has the same place in every seed."""
    places: dict[str, set[int]] = defaultdict(set)
    for i, (arm, _) in enumerate(header.order):
        places[arm].add(i % len(header.arms))
    if len(header.seeds) > 1 and len(header.arms) > 1 and all(len(found) == 1 for found in places.values()):
        yield warning(
            "E171", "run.json", "the arms were not interleaved: each had the same place in every seed"
        )


def _gaps(sides: list[Side]) -> Iterator[Finding]:
    """E126: between two arms there is time for scoring, starting and compiling, and none for a run that isn't told."""
    ordered = sorted(sides, key=lambda side: side.view.start_ns)
    for before, after in itertools.pairwise(ordered):
        if after.run is None:
            continue
        scored = max((turn.t1_ns for line in before.evals for turn in line.turns), default=0)
        since = max(before.view.stop_ns, scored)
        gap = (after.view.start_ns - since) / NS - after.run.init_s - after.run.compile_s
        lasted = min(side.view.stop_ns - side.view.start_ns for side in sides) / NS
        if gap > max(GAP_S, GAP_SHARE * lasted):
            yield warning(
                "E126",
                "run.json",
                f"{gap:.0f} s between {before.name} and {after.name} that no scoring, starting or compiling explains: "
                "was a run left out, or the process stopped?",
            )


def _devices(header: RunHeader) -> Any:
    return [device.model_dump() for device in header.devices], header.device_class


def _machine(record: RunRecord) -> Any:
    path = record.directory / "system.json"
    found = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return {key: value for key, value in found.items() if key != "load_average"}


def _suite(header: RunHeader) -> Any:
    return None if header.suite is None else header.suite.model_dump()


def _dumped(tasks: Any) -> Any:
    return {name: info.model_dump() for name, info in tasks.items()}


def _config(header: RunHeader) -> Any:
    return {key: value for key, value in header.config.items() if key not in OWN}


def _named(x: Any, y: Any) -> str:
    if isinstance(x, dict) and isinstance(y, dict):
        keys = [key for key in sorted(x.keys() | y.keys()) if x.get(key) != y.get(key)]
        return ", ".join(f"{key} is {x.get(key)!r} and {y.get(key)!r}" for key in keys[:3])[:300]
    return f"{x!r} and {y!r}"[:300]
