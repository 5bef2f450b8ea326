"""Intervals of time: merged unions, and a sweep that gives every instant to one span."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable, Iterator, Sequence

from leaderboard.schema import SpanLine

Interval = tuple[int, int]

PRIORITY = ("train", "sync", "decode", "prefill", "eval")
"""Where spans of one device overlap, the instant belongs to the first of these roles."""


def clip(intervals: Iterable[Interval], window: Interval) -> list[Interval]:
    """Cuts intervals to a window and drops the empty ones."""
    low, high = window
    cut = [(max(start, low), min(stop, high)) for start, stop in intervals]
    return [(start, stop) for start, stop in cut if start < stop]


def merge(intervals: Iterable[Interval]) -> list[Interval]:
    """Returns the union as disjoint intervals in order."""
    merged: list[list[int]] = []
    for start, stop in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], stop)
        else:
            merged.append([start, stop])
    return [(start, stop) for start, stop in merged]


def length(intervals: Iterable[Interval]) -> int:
    """Returns the length of the union."""
    return sum(stop - start for start, stop in merge(intervals))


def subtract(intervals: Iterable[Interval], holes: Iterable[Interval]) -> list[Interval]:
    """Returns what of the union isn't covered by the holes."""
    left: list[Interval] = []
    taken = merge(holes)
    first = 0
    for start, stop in merge(intervals):
        while first < len(taken) and taken[first][1] <= start:
            first += 1
        at, nearest = start, first
        while nearest < len(taken) and taken[nearest][0] < stop:
            low, high = taken[nearest]
            if low > at:
                left.append((at, low))
            at = max(at, high)
            nearest += 1
        if at < stop:
            left.append((at, stop))
    return left


def attribute(spans: Sequence[SpanLine], window: Interval) -> Iterator[tuple[SpanLine, int]]:
    """Gives each busy instant of ONE device to one span; yields (span, nanoseconds), a span once or more.

    The owner is the active span whose role comes first in PRIORITY, the latest started among equals; so
    nested and concurrent spans never count twice.
    """
    low, high = window
    inside = [span for span in spans if max(span.t0_ns, low) < min(span.t1_ns, high)]
    starts = sorted(inside, key=lambda span: span.t0_ns)
    borders = sorted({min(max(t, low), high) for span in inside for t in (span.t0_ns, span.t1_ns)})
    active: list[tuple[int, int, int, SpanLine]] = []
    entered = 0
    for begin, end in itertools.pairwise(borders):
        while entered < len(starts) and starts[entered].t0_ns <= begin:
            span = starts[entered]
            heapq.heappush(active, (PRIORITY.index(span.role), -span.t0_ns, entered, span))
            entered += 1
        while active and active[0][3].t1_ns <= begin:
            heapq.heappop(active)
        if active:
            yield active[0][3], end - begin
