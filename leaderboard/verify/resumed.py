"""E135, W205: a run that was interrupted and resumed says so, and its clock never stood still."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from leaderboard.metrics.intervals import Interval
from leaderboard.records import ArmView, RunRecord
from leaderboard.schema import RunHeader
from leaderboard.verify.report import Finding, error, warning

NS = 1e9


def resumptions(record: RunRecord) -> Iterator[Finding]:
    """Resumed segments are disclosed, and the time between them is empty and on the clock."""
    disclosed = {(r.arm, r.seed, r.step) for r in record.header.resumed}
    for number, event in enumerate(record.events, start=1):
        if event.key == "resumed" and (event.arm, event.seed, event.value.get("step")) not in disclosed:
            yield error("E135", f"events.jsonl:{number}", "resumed, and run.json doesn't say so")
    for r in record.header.resumed:
        if r.resumed_ns < r.stopped_ns:
            yield error("E135", "run.json", f"{r.arm}, seed {r.seed}: resumed before it had stopped")
        for number, event in enumerate(record.events, start=1):
            if r.stopped_ns < event.t_ns < r.resumed_ns:
                yield error("E135", f"events.jsonl:{number}", "lies in the time in which nothing ran")
        for number, span in enumerate(record.spans, start=1):
            if span.t1_ns > r.stopped_ns and span.t0_ns < r.resumed_ns:
                yield error("E135", f"spans.jsonl:{number}", "lies in the time in which nothing ran")
        where = "anew" if r.step is None else f"after step {r.step}"
        idle = f"{(r.resumed_ns - r.stopped_ns) / NS:.1f} s stood still, on the clock"
        yield warning("W205", "run.json", f"{r.arm}, seed {r.seed} went on {where}; {idle}")


def standstills(header: RunHeader, view: ArmView) -> list[Interval]:
    """When an (arm, seed) was interrupted, each until its first dispatch after that; W205 tells of them."""
    starts = sorted(span.t0_ns for span in view.spans)
    found: list[Interval] = []
    for r in header.resumed:
        if (r.arm, r.seed) == (view.arm, view.seed) and r.step is not None:
            after = bisect_left(starts, r.resumed_ns)
            found.append((r.stopped_ns, starts[after] if after < len(starts) else r.resumed_ns))
    return found
