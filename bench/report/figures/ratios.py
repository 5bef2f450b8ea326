"""Arms against each other: forest of ratios, seeds one by one, and the performance profile."""

from __future__ import annotations

from typing import Any

from bench.report.figure import Figure, Table, columns
from bench.report.material import Material
from bench.report.numbers import Number, pointer
from leaderboard.metrics import METRICS
from leaderboard.site import plots
from leaderboard.site.html import Markup
from leaderboard.site.svg import Drawing, Ink, label, line, mark, percent, plot, rule, tick

WIDEST = 8
"""How far an interval is drawn past the ratios; one that goes on ends in an arrow, and the table has it whole."""
MAX_ROWS = 16
"""Tenants in a forest; the table has all."""
_MEAN = Ink(colour="text", mark="diamond")


def forest(material: Material) -> Figure:
    """The time ratio of every tenant with its interval, and their geometric mean; a picture an arm."""
    title = "Time ratio by task"
    found = material.document["ratios"]
    if not found:
        return Figure(
            key="ratios", title=title, absent="There is no second arm to compare with the baseline."
        )
    base = material.document["baseline"]
    rows = []
    for arm, suite in found.items():
        for tenant in suite["by_task"]:
            rows.append([arm, tenant, *_cells("ratios", arm, "by_task", tenant), _p(arm, tenant)])
        rows.append([arm, "geometric mean", *_cells("ratios", arm), "–"])
    return Figure(
        key="ratios",
        title=title,
        lead=[
            f"Time of {base} over time of the arm until a tenant's last update, on a logarithmic axis; right of the "
            "dotted line the arm is faster. Bars are 95 % intervals of Student's t on paired log ratios"
            + (": with one seed there are none." if len(material.record.header.seeds) == 1 else ".")
            + " Tenants of one run share its device, so their ratios hang together."
            + (
                f" Drawn are the first {MAX_ROWS}; the table has all."
                if len(material.tenants) > MAX_ROWS
                else ""
            )
        ],
        drawings=[_forest(material, arm) for arm in found],
        tables=[
            Table(
                caption="Time ratios with 95 % intervals; p adjusted over the tenants (Holm)",
                columns=columns("arm", "tenant", "ratio", "low", "high", "pairs", "p", text=2),
                rows=rows,
            )
        ],
    )


def slopes(material: Material) -> Figure:
    """Every seed's time under the baseline and under each other arm, joined."""
    title = "Every seed, from the baseline to the arm"
    base = material.document["baseline"]
    others = [arm for arm in material.document["ratios"]]
    if not others:
        return Figure(key="seeds", title=title, absent="There is no second arm to compare with the baseline.")
    rows = [
        [
            run["arm"],
            str(run["seed"]),
            Number(key=pointer("runs", place, "metrics", "t_work"), form="seconds"),
        ]
        for place, run in enumerate(material.document["runs"])
    ]
    return Figure(
        key="seeds",
        title=title,
        lead=[METRICS["t_work"].title + ": " + METRICS["t_work"].formula + ". Lines that run side by side say that "
              "pairing took the machine's drift out; one that crosses the others deserves a look."],
        drawings=[_slope(material, base, arm) for arm in others],
        tables=[
            Table(caption="Time to do the work", columns=columns("arm", "seed", "time", text=2), rows=rows)
        ],
    )  # fmt: skip


def profile(material: Material) -> Figure:
    """The share of tenants that an arm has done within a factor of the fastest arm."""
    title = "Performance profile"
    found = material.document["profile"]
    if not found:
        return Figure(
            key="profile", title=title,
            absent="A profile needs two arms and two tenants: `bench run --tasks math,code,search --arms S1,A1` "
            "makes such a run.",
        )  # fmt: skip
    taus = next(iter(found.values()))["tau"]
    ground = plot(520, 240, (taus[0], taus[-1]), (0.0, 1.0))
    drawn = ground.axes(
        "factor of the fastest arm's time", "share of tenants", x_form=lambda v: f"{v:g}×", y_form=percent
    )
    for arm, own in found.items():
        points: list[tuple[float, float]] = []
        for tau, rho in zip(own["tau"], own["rho"], strict=True):
            if points:
                points.append((ground.x(tau), points[-1][1]))
            points.append((ground.x(tau), ground.y(rho)))
        drawn.append(line(points, plots.arm_ink(arm)))
    rows = [[arm, Number(key=pointer("profile", arm, "score"), form="number")] for arm in found]
    said = ", ".join(f"{arm} {own['score']:.2f}" for arm, own in found.items())
    drawing = Drawing(
        title="Performance profile by arm", about=f"Area up to a factor of 4: {said}", width=520, height=240,
        marks=tuple(drawn), wide=True,
    )  # fmt: skip
    return Figure(
        key="profile",
        title=title,
        lead=[
            "How many of the tenants an arm has done within a factor of the fastest arm's time (Dolan & Moré 2002). "
            "An arm that is the fastest for every tenant runs along the top; past 4× a tenant counts as lost."
        ],
        drawings=[drawing],
        legend=[(plots.arm_ink(arm), arm) for arm in found],
        tables=[
            Table(caption="Area under the profile from 1 to 4", columns=columns("arm", "area"), rows=rows)
        ],
    )


def _cells(*place: str) -> list[Number]:
    ends = [Number(key=pointer(*place, end), form="times") for end in ("ratio", "low", "high")]
    return [*ends, Number(key=pointer(*place, "pairs" if len(place) == 2 else "n"), form="count")]


def _p(arm: str, tenant: str) -> Number:
    return Number(key=pointer("ratios", arm, "adjusted_p", tenant), form="small")


def _forest(material: Material, arm: str) -> Drawing:
    suite = material.document["ratios"][arm]
    entries: list[tuple[str, dict[str, Any], tuple[str, ...]]] = [
        (name, own, ("ratios", arm, "by_task", name)) for name, own in [*suite["by_task"].items()][:MAX_ROWS]
    ]
    entries.append(("geometric mean", suite, ("ratios", arm)))
    middles = [own["ratio"] for _, own, _ in entries]
    ends = [*middles, *(own[end] for _, own, _ in entries for end in ("low", "high") if own[end])]
    # two seeds that disagree have an interval of many decades, beside which nothing else could be seen
    low = max(min(*ends, 0.9) / 1.08, min(*middles, 0.9) / WIDEST)
    high = min(max(*ends, 1.1) * 1.08, max(*middles, 1.1) * WIDEST)
    height = 40 + 24 * len(entries) + 40
    ground = plot(340, height, (low, high), (0, 1), log_x=True, left=112, right=52, top=24)
    drawn: list[Markup] = [label(f"{arm} against {material.document['baseline']}", 4, 11, kind="strong")]
    floor = height - 40
    drawn.append(rule(112, floor, 288, floor, "axis"))
    for value in ground.x.ticks(4):
        drawn.append(rule(ground.x(value), floor, ground.x(value), floor + 4, "axis"))
        drawn.append(label(f"{value:g}×", ground.x(value), floor + 16, anchor="middle", kind="soft"))
    drawn.append(rule(ground.x(1), 22, ground.x(1), floor, "target"))
    said = []
    for place, (name, own, path) in enumerate(entries):
        y = 38 + 24 * place
        ink = _MEAN if path == ("ratios", arm) else plots.arm_ink(arm)
        drawn.append(label(name[:17], 104, y + 4, anchor="end", kind="strong" if ink is _MEAN else None))
        if own["low"] is not None:
            inside = max(own["low"], low), min(own["high"], high)
            drawn.append(line([(ground.x(end), y) for end in inside], Ink(colour=ink.colour)))
            if own["low"] < low:
                drawn.append(label("‹", ground.x(low) - 5, y + 4, kind="strong"))
            if own["high"] > high:
                drawn.append(label("›", ground.x(high) + 1, y + 4, kind="strong"))
        drawn.append(mark(ground.x(own["ratio"]), y, ink, size=4.5))
        drawn.append(
            material.label(Number(key=pointer(*path, "ratio"), form="times"), 336, y + 4, anchor="end")
        )
        interval = f" ({own['low']:.2f} to {own['high']:.2f})" if own["low"] is not None else ""
        said.append(f"{name} {own['ratio']:.2f}{interval}")
    drawn.append(label("baseline's time / arm's time", 200, height - 6, anchor="middle", kind="soft"))
    return Drawing(
        title=f"Time ratio of {arm} to the baseline, by tenant", about="; ".join(said), width=340, height=height,
        marks=tuple(drawn),
    )  # fmt: skip


def _slope(material: Material, base: str, arm: str) -> Drawing:
    times: dict[int, dict[str, float]] = {}
    for run in material.document["runs"]:
        times.setdefault(run["seed"], {})[run["arm"]] = run["metrics"]["t_work"]
    pairs = {seed: (own[base], own[arm]) for seed, own in times.items() if base in own and arm in own}
    values = [v for pair in pairs.values() for v in pair if v > 0]
    ground = plot(
        340,
        220,
        (0, 1),
        (min(values, default=1) / 1.15, max(values, default=1) * 1.15),
        log_y=True,
        left=62,
        right=62,
    )
    drawn: list[Markup] = []
    for value in ground.y.ticks(4):
        drawn.append(rule(62, ground.y(value), 278, ground.y(value), "grid"))
        drawn.append(label(f"{tick(value)} s", 56, ground.y(value) + 4, anchor="end", kind="soft"))
    for x, name in ((62, base), (278, arm)):
        drawn.append(rule(x, 12, x, 180, "axis"))
        drawn.append(label(name, x, 196, anchor="middle", kind="strong"))
    for seed, (before, after) in pairs.items():
        start, stop = (62.0, ground.y(before)), (278.0, ground.y(after))
        drawn.append(line((start, stop), Ink(colour=plots.arm_ink(arm).colour), width=1.5))
        drawn.append(mark(*start, plots.arm_ink(base), tip=f"seed {seed}, {base}: {before:.1f} s"))
        drawn.append(mark(*stop, plots.arm_ink(arm), tip=f"seed {seed}, {arm}: {after:.1f} s"))
    faster = sum(after < before for before, after in pairs.values())
    drawn.append(label("time to do the work, logarithmic", 170, 214, anchor="middle", kind="soft"))
    return Drawing(
        title=f"Time of every seed under {base} and under {arm}",
        about=f"{arm} is faster in {faster} of {len(pairs)} seeds.", width=340, height=220, marks=tuple(drawn),
    )  # fmt: skip
