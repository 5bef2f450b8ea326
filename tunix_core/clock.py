"""The process's monotonic clock: every time in a record is nanoseconds since one origin."""

from __future__ import annotations

import time

_ORIGIN = time.perf_counter_ns()


def clock_ns() -> int:
    """Nanoseconds since the process's origin; never goes back, never pauses."""
    return time.perf_counter_ns() - _ORIGIN


def go_on_from(now_ns: int) -> None:
    """Makes `clock_ns` say this now: a resumed run goes on with the clock of the process that began it."""
    global _ORIGIN
    _ORIGIN = time.perf_counter_ns() - now_ns
