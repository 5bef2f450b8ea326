"""The process's monotonic clock: every time in a record is nanoseconds since one origin."""

from __future__ import annotations

import time

_ORIGIN = time.perf_counter_ns()


def clock_ns() -> int:
    """Nanoseconds since the process's origin; never goes back, never pauses."""
    return time.perf_counter_ns() - _ORIGIN
