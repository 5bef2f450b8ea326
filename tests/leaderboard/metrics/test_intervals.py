"""Time is counted once, whoever overlaps: checked against a nanosecond-by-nanosecond count."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from leaderboard.metrics import intervals
from leaderboard.schema import SpanLine

points = st.integers(0, 40)
some_intervals = st.lists(st.tuples(points, points).map(sorted).map(tuple), max_size=8)


def covered(parts: list[tuple[int, int]]) -> set[int]:
    return {t for start, stop in parts for t in range(start, stop)}


def span(role: str, t0: int, t1: int) -> SpanLine:
    return SpanLine(
        arm="S1",
        seed=0,
        device="d",
        role=role,  # type: ignore[arg-type]
        t0_ns=t0,
        t1_ns=t1,
        tenants=[],
        executed_slots=1,
        real_tokens=1,
    )


@given(some_intervals)
def test_merged_intervals_cover_the_same_and_are_disjoint(parts: list[tuple[int, int]]) -> None:
    merged = intervals.merge(parts)
    assert covered(merged) == covered(parts)
    assert intervals.length(parts) == len(covered(parts))
    assert all(left[1] < right[0] for left, right in itertools.pairwise(merged))


@given(some_intervals, some_intervals)
def test_subtraction_leaves_what_only_the_first_covers(
    parts: list[tuple[int, int]], holes: list[tuple[int, int]]
) -> None:
    assert covered(intervals.subtract(parts, holes)) == covered(parts) - covered(holes)


@given(some_intervals, st.tuples(points, points).map(sorted).map(tuple))
def test_clipping_keeps_to_the_window(parts: list[tuple[int, int]], window: tuple[int, int]) -> None:
    assert covered(intervals.clip(parts, window)) == covered(parts) & covered([window])


@given(
    st.lists(st.tuples(st.sampled_from(intervals.PRIORITY), points, points), max_size=8),
    st.tuples(points, points).map(sorted).map(tuple),
)
def test_every_busy_instant_goes_to_the_first_role_active(
    raw: list[tuple[str, int, int]], window: tuple[int, int]
) -> None:
    spans = [span(role, min(a, b), max(a, b)) for role, a, b in raw]
    expected = dict.fromkeys(intervals.PRIORITY, 0)
    for t in range(*window):
        active = [s.role for s in spans if s.t0_ns <= t < s.t1_ns]
        if active:
            expected[min(active, key=intervals.PRIORITY.index)] += 1
    found = dict.fromkeys(intervals.PRIORITY, 0)
    for owner, duration in intervals.attribute(spans, window):
        found[owner.role] += duration
    assert found == expected
