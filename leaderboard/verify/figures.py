"""E142, E164, E172: reported figures recompute from the lines, those of run.json and of metrics.jsonl."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from leaderboard.metrics import VERSION, results
from leaderboard.records import RunRecord, parse, read_lines
from leaderboard.tracker_rows import tracker_rows
from leaderboard.verify.report import Finding, error, warning

TOLERANCE = 1e-6
ROUNDING = 3e-4
"""Of an interval's half-width: half of the last decimal of 2.042, the smallest quantile of the old table."""
_MISSING = object()


def reported(record: RunRecord) -> Iterator[Finding]:
    """Compares run.json's results with those recomputed, figure by figure.

    Results of an earlier version lack the figures added since, and nothing else.
    """
    said = record.header.results
    # the version says what may be missing; whatever is there is compared
    version = said.get("version", 1)
    earlier = isinstance(version, int) and 1 <= version < VERSION
    ours = results(record) | {"version": version if earlier else VERSION}
    for path, own, theirs in differences(ours, {"version": version} | said):
        if earlier and (_added_since(path, theirs) or (version == 1 and _rounded(path, own, theirs, ours))):
            continue
        code = "E172" if path.startswith("comparison") else "E164" if ".accuracy" in path else "E142"
        yield error(
            code,
            "run.json",
            f"results.{path} is {_show(theirs)}, the lines give {_show(own)}",
            "recompute it",
        )
    if len(record.header.seeds) < 2:
        yield warning("W203", "run.json", "one seed: no interval can be given")
    if record.header.limit_applied:
        yield warning("W202", "run.json", "--limit was applied: shown, not ranked")


def rows(record: RunRecord) -> Iterator[Finding]:
    """E142: metrics.jsonl, which trackers were sent, is what the lines give."""
    path = record.directory / "metrics.jsonl"
    if not path.is_file():
        return  # E103 says so
    written = [parse(data, f"metrics.jsonl:{number}") for number, data in read_lines(path)]
    ours = list(tracker_rows(record))
    if len(ours) != len(written):
        yield error("E142", "metrics.jsonl", f"{len(written)} rows, the lines give {len(ours)}")
    for number, (said, due) in enumerate(zip(written, ours, strict=False), start=1):
        for what, expected, found in differences(due, said):
            reason = f"{what[:60]} is {_show(found)}, the lines give {_show(expected)}"
            yield error("E142", f"metrics.jsonl:{number}", reason)


def differences(ours: Any, theirs: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yields (path, ours, theirs) of the leaves in which two JSON values differ by more than 1e-6."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in sorted(ours.keys() | theirs.keys()):
            inner = f"{path}.{key}" if path else key
            yield from differences(ours.get(key, _MISSING), theirs.get(key, _MISSING), inner)
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for index, (left, right) in enumerate(zip(ours, theirs, strict=True)):
            yield from differences(left, right, f"{path}[{index}]")
    elif not _equal(ours, theirs):
        yield path, ours, theirs


def _added_since(path: str, theirs: Any) -> bool:
    return theirs is _MISSING and path.startswith(("runs[", "comparison."))


def _rounded(path: str, own: Any, theirs: Any, ours: dict[str, Any]) -> bool:
    """Whether an end of a speed-up's interval differs as little as Student's quantiles of three decimals make it."""
    parts = path.split(".")
    if parts[:2] != ["comparison", "arms"] or parts[-1] not in ("low", "high"):
        return False
    middle = ours["comparison"]["arms"][".".join(parts[2:-1])]["speedup"]
    if not all(isinstance(x, float) and x > 0 for x in (own, theirs, middle)):
        return False
    return abs(math.log(own / theirs)) <= ROUNDING * abs(math.log(own / middle))


def _equal(ours: Any, theirs: Any) -> bool:
    numbers = isinstance(ours, int | float) and isinstance(theirs, int | float)
    if numbers and not isinstance(ours, bool) and not isinstance(theirs, bool):
        return math.isclose(ours, theirs, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    return type(ours) is type(theirs) and ours == theirs


def _show(value: Any) -> str:
    return "missing" if value is _MISSING else repr(value)[:60]
