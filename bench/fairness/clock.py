"""E123, E131, E133, W205: every arm came to its end in one go, on a clock that never paused, compiled as the other."""

from __future__ import annotations

from collections.abc import Iterator

from bench.fairness.side import Side
from leaderboard.verify.report import Finding, error, warning

NS = 1e9
PAUSE_S, DRIFT = 1.0, 1e-4
"""Wall and monotonic clock may differ by so much: a second, and 100 ppm of what was measured."""


def ended(side: Side) -> Iterator[Finding]:
    """E123: the arm's own events end with success, whatever run.json says."""
    ends = [str(event.value.get("status")) for event in side.view.events if event.key == "run_stop"]
    if ends != ["success"]:
        found = ", ".join(ends) or "no run_stop"
        yield error("E123", "events.jsonl", f"{side.name}: its events end with {found}, not success")


def paused(side: Side) -> Iterator[Finding]:
    """E131: from run_start to run_stop as much time went by on the wall as on the arm's clock."""
    anchors = {
        event.key: (event.t_ns, event.value.get("wall_utc"))
        for event in side.view.events
        if event.key in ("run_start", "run_stop")
    }
    (t0, wall0), (t1, wall1) = (anchors.get(key, (0, None)) for key in ("run_start", "run_stop"))
    if not isinstance(wall0, int | float) or not isinstance(wall1, int | float):
        return
    steady, wall = (t1 - t0) / NS, wall1 - wall0
    if abs(wall - steady) > PAUSE_S + DRIFT * abs(steady):
        yield error(
            "E131",
            "events.jsonl",
            f"{side.name}: its clock went on by {steady:.1f} s while {wall:.1f} s went by on the wall: it was paused",
        )


def resumed(side: Side) -> Iterator[Finding]:
    """W205: an arm that was resumed in its middle holds time in which nothing ran, and a process's start.

    One that was begun anew has a clock of its own.
    """
    for r in side.header.resumed:
        if (r.arm, r.seed) == (side.view.arm, side.view.seed) and r.step is not None:
            idle = (r.resumed_ns - r.stopped_ns) / NS
            yield warning(
                "W205",
                "run.json",
                f"{side.name} was resumed after step {r.step}: its time holds {idle:.1f} s in which nothing ran, "
                "and starting again; run it whole to compare times",
            )


def compiled(a: Side, b: Side) -> Iterator[Finding]:
    """E133: both arms found their programs compiled, or neither did."""
    states = [_state(side) for side in (a, b)]
    if None not in states and states[0] != states[1]:
        yield error(
            "E133",
            "run.json",
            f"unequal work, seed {a.view.seed}: compile caches differ between {a.label} and {b.label}: "
            f"{states[0]} and {states[1]}",
        )


def _state(side: Side) -> str | None:
    """None for a record that is older than the count."""
    count = side.run.programs_compiled if side.run is not None else None
    return None if count is None else "cold" if count else "warm"
