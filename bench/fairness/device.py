"""E145, E171: the same devices, and a baseline whose device stood still only while it had nothing to do."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from bench.fairness.side import Side
from leaderboard.metrics.work import NS, work_window
from leaderboard.stats import geometric_mean
from leaderboard.verify.report import Finding, error, warning
from leaderboard.verify.resumed import standstills

if TYPE_CHECKING:
    import numpy as np

HELD_UP = 0.10
"""Share of its time in which a baseline's device may stand still though work is ready. Honest runs of all arms on two
noisy cores showed 0.02 to 0.05: the host's turns between two dispatches."""
HELD_UP_S = 1.0
"""And so many seconds in all."""
ABOVE_OTHER = 0.05
"""And by so much more than the arm it is compared with: a slow host holds up both."""
SLOWER = 1.5
"""Times as slow as the other arm's that environments, or a token slot, may be before it is told."""


def same(a: Side, b: Side) -> Iterator[Finding]:
    """E171: both arms ran on the same devices."""
    first, second = ({span.device for span in side.view.spans} for side in (a, b))
    if first != second:
        yield error(
            "E171",
            "spans.jsonl",
            f"unequal work, seed {a.view.seed}: devices differ between {a.label} and {b.label}: "
            f"{', '.join(sorted(first))} and {', '.join(sorted(second))}",
        )
    for side, found in ((a, first), (b, second)):
        listed = {device.id for device in side.header.devices}
        if found - listed:
            yield error("E171", "spans.jsonl", f"{side.name}: ran on {', '.join(sorted(found - listed))}, which is not "
                        "among the devices of run.json")  # fmt: skip


def held_up(baseline: Side, other: Side) -> Iterator[Finding]:
    """E145: no sleep between the baseline's dispatches."""
    waited, others = (unexplained(side) for side in (baseline, other))
    start, commit = work_window(baseline.view)
    long = waited * (commit - start) / NS > HELD_UP_S
    if long and waited > HELD_UP and waited > others + ABOVE_OTHER:
        yield error(
            "E145",
            "spans.jsonl",
            f"{baseline.name}: its device stood still for {100 * waited:.0f} % of the time while work was ready "
            f"({other.label}: {100 * others:.0f} %): the baseline was held up",
        )


def slower(pairs: Sequence[tuple[Side, Side]]) -> Iterator[Finding]:
    """E145: over all seeds, the baseline's environments and dispatches were as fast as the other arm's."""
    for what, of in (
        ("environments took", _env_call_s),
        ("a token slot of decode took", partial(_slot_s, role="decode")),
        ("a token slot of train took", partial(_slot_s, role="train")),
    ):
        times = [(x, y) for a, b in pairs if (x := of(a)) is not None and (y := of(b)) is not None]
        if not times:
            continue
        ratio = geometric_mean(x / y for x, y in times)
        if ratio > SLOWER:
            a, b = pairs[0]
            yield warning(
                "E145", "spans.jsonl", f"{what} {ratio:.1f} times as long in {a.label} as in {b.label}"
            )


def unexplained(side: Side) -> float:
    """Share of the window in which the device stood still though a turn was to be sampled, or nobody was waited for.

    A device waits for good reason only while every open episode is in its environment. A turn waits for the device from
    the end of the environment's turn before it to its own end. The time of a resumption is told of by W205.
    """
    window = work_window(side.view)
    if window[1] <= window[0]:
        return 0.0
    idle = _outside(_union((s.t0_ns, s.t1_ns) for s in side.view.spans if s.role != "eval"), window)
    calls: list[tuple[int, int]] = []
    turns: list[tuple[int, int]] = []
    for rollout in side.rollouts:
        ready, called = rollout.t_start_ns, 0
        for turn in rollout.turns:
            if turn.role == "policy":
                turns.append((ready, turn.t1_ns))
            else:
                calls.append((turn.t0_ns, turn.t1_ns))
                called += turn.t1_ns - turn.t0_ns
            ready = turn.t1_ns
        # the last call, which grades, leaves no turn
        if rollout.turns and rollout.turns[-1].role == "policy" and rollout.env_ns > called:
            calls.append((ready, min(ready + rollout.env_ns - called, rollout.t_end_ns)))
    excused = _outside(_union(turns), window)
    excused = _common(excused, _union(calls), window)
    excused = _union([*map(tuple, excused.tolist()), *standstills(side.header, side.view)])
    return _length(_common(idle, _outside(excused, window), window)) / (window[1] - window[0])


def _env_call_s(side: Side) -> float | None:
    """Median length of an environment's call that has a turn; calls run side by side, so it knows no queue."""
    import numpy as np

    found = [t.t1_ns - t.t0_ns for r in side.rollouts for t in r.turns[1:] if t.role == "environment"] or [
        r.env_ns for r in side.rollouts
    ]
    # below a millisecond it is the host's noise, and no arm's time
    middle = float(np.median(found)) / NS if found else 0.0
    return middle if middle > 1e-3 else None


def _slot_s(side: Side, role: str) -> float | None:
    total: dict[str, int] = defaultdict(int)
    for span in side.view.spans:
        if span.role == role:
            total["slots"] += span.executed_slots
            total["ns"] += span.t1_ns - span.t0_ns
    return total["ns"] / total["slots"] / NS if total["slots"] else None


def _union(intervals: Iterable[tuple[int, int]]) -> np.ndarray:
    """Disjoint intervals in order, int64 [N, 2]."""
    import numpy as np

    found = np.array([pair for pair in intervals if pair[0] < pair[1]], dtype=np.int64).reshape(-1, 2)
    if not len(found):
        return found
    found = found[np.argsort(found[:, 0], kind="stable")]
    reach = np.maximum.accumulate(found[:, 1])
    first = np.flatnonzero(np.r_[True, found[1:, 0] > reach[:-1]])
    return np.c_[found[first, 0], np.r_[reach[first[1:] - 1], reach[-1]]]


def _outside(union: np.ndarray, window: tuple[int, int]) -> np.ndarray:
    """What of a window a union leaves."""
    import numpy as np

    low, high = window
    gaps = np.c_[np.r_[low, union[:, 1]], np.r_[union[:, 0], high]].clip(low, high)
    return gaps[gaps[:, 0] < gaps[:, 1]]


def _common(a: np.ndarray, b: np.ndarray, window: tuple[int, int]) -> np.ndarray:
    """The intersection of two unions, by what neither leaves."""
    import numpy as np

    return _outside(_union(map(tuple, np.r_[_outside(a, window), _outside(b, window)].tolist())), window)


def _length(union: np.ndarray) -> int:
    return int((union[:, 1] - union[:, 0]).sum())
