"""The two drawings that every page about a run shows: accuracy along the way, and what the devices did."""

from __future__ import annotations

import bisect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from leaderboard.metrics import learning
from leaderboard.metrics.work import NS, work_window
from leaderboard.records import ArmView
from leaderboard.schema import SpanLine
from leaderboard.site.html import Markup
from leaderboard.site.svg import (
    DASHES,
    MARKS,
    Drawing,
    Ink,
    Point,
    area,
    bar,
    label,
    line,
    mark,
    percent,
    plot,
    rule,
    tick,
)  # fmt: skip

Axis = Literal["wall", "samples", "device"]
AXES: dict[Axis, str] = {
    "wall": "wall time since the arm's start (s)",
    "samples": "rollouts learnt from",
    "device": "device-seconds",
}
ROLES = ("train", "decode", "prefill", "sync", "eval")
ROLE_LEGEND = [(Ink(colour=role), role) for role in ROLES] + [(Ink(colour="gap"), "bubble: the device waits")]

_ARMS = {
    "S0": Ink(colour="s0", dash="2 3", mark="diamond"),
    "S1": Ink(colour="s1", dash="7 3", mark="square"),
    "A0": Ink(colour="a0", dash="8 3 2 3", mark="triangle"),
    "A1": Ink(colour="a1"),
}
_STRIP = 26
_LANE = 22
MAX_CELLS = 600
MAX_MARKS = 16
"""Of a curve; more would hide it."""


def arm_ink(arm: str) -> Ink:
    """How an arm is drawn; one that repeats another (`S1-aa`) has its colour, and dots."""
    own = _ARMS.get(arm.partition("-")[0], Ink(colour="k4", dash="4 2"))
    return own if arm in _ARMS else Ink(colour=own.colour, dash="1 3", mark=own.mark)


def tenant_ink(number: int) -> Ink:
    """How the n-th tenant is drawn."""
    return Ink(colour=f"k{number % 6}", dash=DASHES[number % len(DASHES)], mark=MARKS[number % len(MARKS)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Learnt:
    """What one (arm, seed) learnt: per tenant its evaluations, as `leaderboard.metrics` gives them."""

    arm: str
    seed: int
    devices: int
    curves: Mapping[str, Sequence[Mapping[str, Any]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossing:
    """Between two evaluations, at `low` and `high` on the axis, one seed of an arm came to hold the target."""

    arm: str
    low: float
    high: float


def learnt(view: ArmView) -> Learnt:
    """Scores a view."""
    curves = {tenant: own["curve"] for tenant, own in learning.accuracy(view).items()}
    return Learnt(arm=view.arm, seed=view.seed, devices=len(view.devices), curves=curves)


def accuracy(
    runs: Sequence[Learnt],
    axis: Axis = "wall",
    *,
    tenants: Sequence[str] | None = None,
    name: str = "mean of all tenants",
    target: float | None = None,
    crossings: Sequence[Crossing] = (),
    width: float = 340,
) -> Drawing:
    """Accuracy of one tenant or the mean of several against time or work: every seed thin, their mean and range.

    Args:
      tenants: whose; None: of all.
      name: what these are called.
      target: accuracy to reach; a dotted line.
      crossings: drawn on the target line.
    """
    by_arm: dict[str, list[list[Point]]] = {}
    for run in runs:
        points = _points(run, axis, tenants)
        if points:
            by_arm.setdefault(run.arm, []).append(points)
    far = max((x for seeds in by_arm.values() for points in seeds for x, _ in points), default=0.0) or 1.0
    ground = plot(width, 224, (0.0, far), (0.0, 1.0), top=22)
    drawn = [label(name, ground.left, 11, kind="strong")]
    drawn += ground.axes(AXES[axis], "accuracy", x_form=tick, y_form=percent)
    said = []
    for arm, seeds in by_arm.items():
        ink = arm_ink(arm)
        places = [[(ground.x(x), ground.y(y)) for x, y in points] for points in seeds]
        if len(seeds) > 1:
            xs = sorted({x for points in places for x, _ in points})
            at = [[_between(points, x) for points in places] for x in xs]
            drawn.append(area([(x, min(v)) for x, v in zip(xs, at, strict=True)],
                              [(x, max(v)) for x, v in zip(xs, at, strict=True)], ink.colour))  # fmt: skip
            drawn += [line(points, ink, width=1, opacity=0.5) for points in places]
            drawn.append(line([(x, sum(v) / len(v)) for x, v in zip(xs, at, strict=True)], ink, width=2.2))
        else:
            drawn.append(line(places[0], ink, width=2.2))
        size = 3.5 if len(seeds) == 1 else 2.8
        for points, shown in zip(seeds, places, strict=True):
            if len(points) > MAX_MARKS:
                continue
            drawn += [
                mark(*place, ink, size=size, tip=f"{arm}: {100 * y:.1f} % at {tick(round(x, 1))}")
                for (x, y), place in zip(points, shown, strict=True)
            ]
        ends = [points[-1] for points in seeds]
        said.append(
            f"{arm} ends at {100 * sum(y for _, y in ends) / len(ends):.0f} % "
            f"after {tick(round(sum(x for x, _ in ends) / len(ends), 1))}"
        )
    if target is not None:
        drawn.append(rule(ground.left, ground.y(target), width - ground.right, ground.y(target), "target"))
        lanes = list(dict.fromkeys(crossing.arm for crossing in crossings))
        for crossing in crossings:
            height = ground.y(target) + 5 * lanes.index(crossing.arm) + 2
            start, stop = ground.x(crossing.low), ground.x(crossing.high)
            ends = " and ".join(tick(round(end, 1)) for end in (crossing.low, crossing.high))
            tip = f"{crossing.arm} reaches the dotted line between {ends}"
            drawn.append(bar(start, height, stop - start, 3, f"fill-{arm_ink(crossing.arm).colour}", tip=tip))
    return Drawing(
        title=f"Accuracy against {AXES[axis]}, {name}",
        about="; ".join(said) or "No evaluation was recorded.",
        width=width,
        height=224,
        marks=tuple(drawn),
    )


def timeline(
    views: Sequence[ArmView], windows: Sequence[tuple[int, int]] | None = None, *, width: float = 760
) -> Drawing:
    """One strip a device of each view: which role held it; bubbles stand out, open episodes are drawn below.

    Args:
      windows: [from, to] in ns of the record's clock, one a view; None: all of the work, on one scale.
    """
    shown = windows or [work_window(view) for view in views]
    longest = max((stop - start for start, stop in shown), default=0) or 1
    left, y = 70.0, 6.0
    drawn: list[Markup] = []
    said: list[str] = []
    for view, (start, stop) in zip(views, shown, strict=True):
        share = (width - left - 8) / longest
        for device in view.devices:
            spans = [span for span in view.spans if span.device == device]
            name = view.arm if len(view.devices) == 1 else f"{view.arm} {device}"
            drawn.append(label(name, left - 8, y + 17, anchor="end", kind="strong"))
            drawn.append(bar(left, y, (stop - start) * share, _STRIP, "empty"))
            drawn += _strip(spans, (start, stop), left, y, share * longest / MAX_CELLS, longest)
            y += _STRIP
        lane, most = _open_episodes(view, (start, stop), left, y + 2, share)
        drawn.append(label("episodes", left - 8, y + 15, anchor="end", kind="soft"))
        drawn += lane
        y += _LANE + 10
        said.append(f"{view.arm}: {(stop - start) / NS:.0f} s, at most {most} episodes open at once")
    scale = plot(width, y + 34, (0.0, longest / NS), (0, 1), left=left, right=8, bottom=34)
    drawn.append(rule(left, y, width - 8, y, "axis"))
    for value in scale.x.ticks(8):
        drawn.append(rule(scale.x(value), y, scale.x(value), y + 4, "axis"))
        drawn.append(label(tick(value), scale.x(value), y + 16, anchor="middle", kind="soft"))
    drawn.append(label("seconds", (left + width) / 2, y + 30, anchor="middle", kind="soft"))
    return Drawing(
        title="What each device did over time, by arm",
        about="; ".join(said) or "Nothing was recorded.",
        width=width,
        height=y + 34,
        marks=tuple(drawn),
        wide=True,
    )


def _points(run: Learnt, axis: Axis, tenants: Sequence[str] | None) -> list[Point]:
    """The curve of a tenant; of several, the mean at every moment at which one was evaluated."""
    curves = [own for name, own in run.curves.items() if own and (tenants is None or name in tenants)]
    if not curves:
        return []
    times = sorted({point["t_s"] for own in curves for point in own})
    scored = [[(point["t_s"], point["accuracy"]) for point in own] for own in curves]
    counted = [[(point["t_s"], float(point["samples"])) for point in own] for own in curves]
    if len(curves) == 1:
        # an evaluation at the very same moment as the one before it is still a point of its own
        where = [(point["t_s"], point["samples"], point["accuracy"]) for point in curves[0]]
    else:
        where = [
            (
                t,
                sum(_between(own, t) for own in counted),
                sum(_between(own, t) for own in scored) / len(curves),
            )
            for t in times
        ]
    places = {"wall": lambda t, n: t, "samples": lambda t, n: n, "device": lambda t, n: t * run.devices}
    return [(places[axis](t, n), y) for t, n, y in where]


def _between(points: Sequence[Point], x: float) -> float:
    """On the line through the points; before the first and past the last, what these say."""
    after = bisect.bisect_right(points, x, key=lambda point: point[0])
    if after == 0:
        return points[0][1]
    if after == len(points):
        return points[-1][1]
    (x0, y0), (x1, y1) = points[after - 1], points[after]
    return y0 + (y1 - y0) * (x - x0) / (x1 - x0)


def _strip(
    spans: Sequence[SpanLine], window: tuple[int, int], left: float, y: float, cell: float, longest: int
) -> list[Markup]:
    """Runs of cells that one role held most of, and of cells that none did."""
    start, stop = window
    count = max(1, round(MAX_CELLS * (stop - start) / longest))
    held: list[dict[str, int]] = [{} for _ in range(count)]
    size = max(1, (stop - start) // count)
    for span in spans:
        low, high = max(span.t0_ns, start), min(span.t1_ns, stop)
        for at in range(
            (low - start) // size, min(count - 1, (high - start) // size) + 1 if low < high else 0
        ):
            covered = min(high, start + (at + 1) * size) - max(low, start + at * size)
            held[at][span.role] = held[at].get(span.role, 0) + covered
    roles = [max(own, key=lambda role: own[role]) if 2 * sum(own.values()) >= size else "" for own in held]
    drawn, first = [], 0
    for at in range(1, count + 1):
        if at == count or roles[at] != roles[first]:
            kind = f"fill-{roles[first]}" if roles[first] else "gap"
            drawn.append(bar(left + first * cell, y, (at - first) * cell, _STRIP, kind))
            first = at
    return drawn


def _open_episodes(
    view: ArmView, window: tuple[int, int], left: float, y: float, share: float
) -> tuple[list[Markup], int]:
    """How many episodes were under way, as a low hill; and the most at once."""
    start, stop = window
    steps = sorted([(r.t_start_ns, 1) for r in view.rollouts] + [(r.t_end_ns, -1) for r in view.rollouts])
    count, most, points = 0, 0, []
    slices = 300
    edges = [start + (stop - start) * k // slices for k in range(slices + 1)]
    at = 0
    for edge in edges:
        while at < len(steps) and steps[at][0] <= edge:
            count += steps[at][1]
            at += 1
        points.append((edge, count))
        most = max(most, count)
    if not most:
        return [], 0
    upper = [(left + (t - start) * share, y + _LANE - _LANE * n / most) for t, n in points]
    lower = [(x, y + _LANE) for x, _ in upper]
    return [area(upper, lower, "soft", opacity=0.45)], most
