"""What the devices did: a representative minute, and utilization over time."""

from __future__ import annotations

from bench.report.figure import Figure
from bench.report.material import Material
from leaderboard.metrics import intervals
from leaderboard.metrics.work import NS, work_window
from leaderboard.records import ArmView
from leaderboard.site import plots

MINUTE_NS = 60 * NS
STEPS = 40
"""Places at which the representative minute may begin."""


def minute(material: Material) -> Figure:
    """The device timeline (Gantt) of each arm."""
    title = "What the device did in a minute of each arm"
    if not material.views:
        return Figure(key="timeline", title=title, absent="No update was made.")
    views = material.first_seed
    windows = [representative(view) for view in views]
    longest = max(stop - start for start, stop in windows) / NS
    return Figure(
        key="timeline",
        title=title,
        lead=[
            f"Of each arm the {longest:.0f} s whose busy share is nearest to that of its whole run, seed "
            f"{views[0].seed}. A bubble is time in which nothing runs on the device; the grey hills below count "
            "the episodes that are open meanwhile, most of them waiting for their environment."
        ],
        drawings=[plots.timeline(views, windows, width=1056)],
        legend=plots.ROLE_LEGEND,
        boxes=True,
    )


def representative(view: ArmView, length_ns: int = MINUTE_NS) -> tuple[int, int]:
    """The stretch of the work whose busy share is nearest to the whole's; the earliest among equals."""
    start, stop = work_window(view)
    if stop - start <= length_ns:
        return start, stop
    busy = intervals.merge((span.t0_ns, span.t1_ns) for span in view.spans if span.role != "eval")

    def share(low: int, high: int) -> float:
        return intervals.length(intervals.clip(busy, (low, high))) / (high - low)

    whole = share(start, stop)
    places = [start + (stop - start - length_ns) * k // STEPS for k in range(STEPS + 1)]
    low = min(places, key=lambda at: abs(share(at, at + length_ns) - whole))
    return low, low + length_ns
