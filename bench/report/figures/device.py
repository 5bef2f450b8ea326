"""What the devices did: a representative minute, and utilization over time."""

from __future__ import annotations

import bisect
import itertools

from bench.report.figure import Figure, Table, columns
from bench.report.material import Material
from bench.report.numbers import Number, pointer
from leaderboard.metrics import intervals
from leaderboard.metrics.utilization import SAMPLING
from leaderboard.metrics.work import NS, goodput, work_window
from leaderboard.records import ArmView
from leaderboard.schema import SpanLine
from leaderboard.site import plots
from leaderboard.site.svg import Drawing, Ink, area, beside, label, line, percent, plot, tick

MINUTE_NS = 60 * NS
STEPS = 40
"""Places at which the representative minute may begin."""
BINS = 60
BUSY, USEFUL = Ink(colour="k0"), Ink(colour="k2", dash="5 2")


def minute(material: Material) -> Figure:
    """The device timeline (Gantt) of each arm."""
    title = "What the device did in a minute of each arm"
    if not material.views:
        return Figure(key="timeline", title=title, absent="No update was made.")
    views = material.first_seed
    windows = [representative(view) for view in views]
    longest = max(stop - start for start, stop in windows)
    whole = all(window == work_window(view) for view, window in zip(views, windows, strict=True))
    chosen = (
        f"The whole of each arm, seed {views[0].seed}."
        if whole
        else f"Of each arm the {longest / NS:.0f} s whose busy share is nearest to that of its whole run, or all of it "
        f"where it is shorter; seed {views[0].seed}."
    )
    return Figure(
        key="timeline",
        title=title,
        lead=[
            f"{chosen} A bubble is time in which nothing runs on the device; the grey hills below count the episodes "
            "that are open meanwhile, waiting for their environment or for the device."
        ],
        drawings=[plots.timeline(views, windows, width=1056)],
        legend=plots.ROLE_LEGEND,
        boxes=True,
    )


def utilization(material: Material) -> Figure:
    """Busy and useful share over time, a picture an arm and device, first seed."""
    title = "Utilization over time"
    if not material.views:
        return Figure(key="utilization", title=title, absent="No update was made.")
    views = material.first_seed
    width = beside(sum(len(view.devices) for view in views))
    rows = [
        [
            arm,
            *(
                Number(key=pointer("arms", arm, "mean", key), form="percent")
                for key in ("util_busy", "util_useful")
            ),
            *(
                Number(key=pointer("arms", arm, "mean", "util_by_role", role), form="percent")
                for role in plots.ROLES
            ),
        ]
        for arm in material.arms
    ]
    return Figure(
        key="utilization",
        title=title,
        lead=[
            f"Seed {views[0].seed}, each arm on its own scale of time. Busy: something runs on the device. Useful: "
            "the same, weighed by the share of token slots that held a token which was learnt from; what lies "
            "between is padding and discarded work."
        ],
        drawings=[_over_time(view, device, width) for view in views for device in view.devices],
        legend=[(BUSY, "busy"), (USEFUL, "useful")],
        boxes=True,
        tables=[
            Table(
                caption="Share of the time, mean over seeds",
                columns=columns("arm", "busy", "useful", *plots.ROLES),
                rows=rows,
            )
        ],
    )


def over_time(view: ArmView, device: str, count: int = BINS) -> list[tuple[float, float]]:
    """(busy, useful) share of each of `count` equal slices of the work; their means are the metrics' own."""
    start, stop = work_window(view)
    edges = [start + (stop - start) * k // count for k in range(count + 1)]
    held: list[list[SpanLine]] = [[] for _ in range(count)]
    for span in view.spans:
        if span.device == device and span.t1_ns > start and span.t0_ns < stop:
            first = max(0, bisect.bisect_right(edges, span.t0_ns) - 1)
            for place in range(first, min(count, bisect.bisect_left(edges, span.t1_ns))):
                held[place].append(span)
    kept = goodput(view)
    shares = []
    for spans, window in zip(held, itertools.pairwise(edges), strict=True):
        length = max(1, window[1] - window[0])
        busy = useful = 0.0
        for span, duration in intervals.attribute(spans, window):
            if span.role != "eval":
                busy += duration
                real = span.real_tokens / span.executed_slots if span.executed_slots else 0.0
                useful += duration * real * (kept if span.role in SAMPLING else 1.0)
        shares.append((busy / length, useful / length))
    return shares


def _over_time(view: ArmView, device: str, width: float) -> Drawing:
    shares = over_time(view, device)
    start, stop = work_window(view)
    ground = plot(width, 190, (0.0, max(1, stop - start) / NS), (0.0, 1.0), top=22)
    name = view.arm if len(view.devices) == 1 else f"{view.arm}, {device}"
    drawn = [label(name, 52, 12, kind="strong")]
    drawn += ground.axes("wall time since the arm's start (s)", "", x_form=tick, y_form=percent)
    step = (stop - start) / NS / len(shares)
    for which, ink in ((0, BUSY), (1, USEFUL)):
        upper = [
            (ground.x(step * (k + edge)), ground.y(both[which]))
            for k, both in enumerate(shares)
            for edge in (0, 1)
        ]
        lower = [(x, ground.y(0)) for x, _ in upper]
        drawn += [area(upper, lower, ink.colour, opacity=0.3), line(upper, ink, width=1.4)]
    busy, useful = (sum(both[which] for both in shares) / len(shares) for which in (0, 1))
    return Drawing(
        title=f"Utilization over time, {name}", about=f"Mean busy {busy:.0%}, useful {useful:.0%}.", width=340,
        height=190, marks=tuple(drawn),
    )  # fmt: skip


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
