"""How time, utilization and throughput go with the number of tenants: what `bench study tenants` found."""

from __future__ import annotations

from typing import Any

from bench.report.figure import Column, Figure, Table
from bench.report.material import Material
from bench.report.numbers import Number, pointer
from leaderboard.site import plots
from leaderboard.site.html import Markup
from leaderboard.site.svg import Drawing, Form, Ink, label, line, mark, percent, plot, tick

PANELS: tuple[tuple[str, str, bool, Form], ...] = (
    ("t_work_s", "time to do the work (s, logarithmic)", True, tick),
    ("util_busy", "device busy", False, percent),
    ("throughput_consumed", "tokens learnt per second", False, tick),
    ("p95_completion_s", "95 % of the tenants are done after (s, logarithmic)", True, tick),
)


def scaling(material: Material) -> Figure:
    """The study beside the run."""
    title = "Scaling with the number of tenants"
    found = material.document["study"]
    if found is None:
        return Figure(
            key="scaling",
            title=title,
            absent="Scaling needs a study: `bench study tenants --tenants 1,2,4,8 --out runs/tenants`, then "
            "`bench report runs/tenants`.",
        )
    cells = (
        ("time", "t_work_s", "seconds"),
        ("over S0", "speedup_over_s0", "times"),
        ("over S1", "speedup_over_s1", "times"),
        ("busy", "util_busy", "percent"),
        ("useful", "util_useful", "percent"),
        ("tokens learnt / s", "throughput_consumed", "rate"),
        ("95 % done after", "p95_completion_s", "seconds"),
        ("accuracy gained", "accuracy_change", "points"),
    )
    rows = [
        [
            Number(key=pointer("study", "rows", place, "tenants"), form="count"),
            row["arm"],
            *(Number(key=pointer("study", "rows", place, key), form=form) for _, key, form in cells),
        ]
        for place, row in enumerate(found["rows"])
    ]
    return Figure(
        key="scaling",
        title=title,
        lead=[
            "One record a number of tenants, each at equal work between its arms. Where one tenant leaves the device "
            "idle, more of them fill it; asynchrony fills what is left."
        ],
        drawings=drawings(found),
        legend=legend(found),
        tables=[
            Table(
                caption="The study, means over seeds",
                columns=[
                    Column(title="tenants"), Column(title="arm", kind="text"),
                    *(Column(title=name) for name, *_ in cells),
                ],
                rows=rows,
            )
        ],
    )  # fmt: skip


def drawings(study: dict[str, Any]) -> list[Drawing]:
    """One picture a figure, a line an arm; tenants on a logarithmic axis."""
    rows = study["rows"]
    return [
        _panel(rows, key, title, logarithmic, form)
        for key, title, logarithmic, form in PANELS
        if all(row.get(key) is not None for row in rows)
    ]


def legend(study: dict[str, Any]) -> list[tuple[Ink, str]]:
    """The arms."""
    return [(plots.arm_ink(arm), arm) for arm in dict.fromkeys(row["arm"] for row in study["rows"])]


def _panel(rows: list[dict[str, Any]], key: str, title: str, logarithmic: bool, form: Form) -> Drawing:
    counts = sorted({row["tenants"] for row in rows})
    values = [row[key] for row in rows]
    top = 1.0 if form is percent else max(values) * 1.15
    low = min(values) / 1.3 if logarithmic else 0.0
    ground = plot(
        340, 220, (counts[0] / 1.15, counts[-1] * 1.15), (low, top), log_x=True, log_y=logarithmic, top=24
    )
    drawn: list[Markup] = [label(title, 8, 10, kind="strong")]
    drawn += ground.axes("tenants", "", x_form=tick, y_form=form, x_ticks=counts)
    said = []
    for arm in dict.fromkeys(row["arm"] for row in rows):
        ink = plots.arm_ink(arm)
        own = [(row["tenants"], row[key]) for row in rows if row["arm"] == arm]
        places = [(ground.x(n), ground.y(value)) for n, value in own]
        drawn.append(line(places, ink))
        drawn += [
            mark(x, y, ink, tip=f"{arm}, {n} tenants: {form(round(value, 3))}")
            for (x, y), (n, value) in zip(places, own, strict=True)
        ]
        said.append(f"{arm}: " + ", ".join(f"{form(round(value, 2))} with {n}" for n, value in own))
    return Drawing(
        title=f"{title} by number of tenants",
        about="; ".join(said),
        width=340,
        height=220,
        marks=tuple(drawn),
    )
