"""What a looser staleness limit buys and costs: speed-up and accuracy over several runs."""

from __future__ import annotations

from typing import Any

from bench.report.figure import Figure, Table, columns
from bench.report.material import Material
from bench.report.numbers import Number, pointer
from leaderboard.site.html import Markup
from leaderboard.site.svg import Drawing, Ink, label, line, mark, percent, plot, rule

INK = Ink(colour="a1")


def frontier(material: Material) -> Figure:
    """Speed-up against accuracy, a point a staleness limit."""
    title = "Staleness, speed and accuracy"
    rows = [
        (place, row)
        for place, row in enumerate(material.document["beside"])
        if row["same_work"] and row["speedup"] is not None and row["max_staleness"] is not None
    ]
    rows.sort(key=lambda pair: pair[1]["max_staleness"])
    if len({row["max_staleness"] for _, row in rows}) < 2:
        return Figure(
            key="frontier",
            title=title,
            absent="The frontier needs runs that differ in nothing but the staleness limit: `bench run --max-staleness "
            "1 --out runs/k1`, the same with 2, 4 and 8, then `bench report runs/k1 runs/k2 runs/k4 runs/k8`.",
        )
    found = [row for _, row in rows]
    cells = (
        ("limit", "max_staleness", "count"),
        ("mean staleness", "staleness_mean", "number"),
        ("speed-up", "speedup", "times"),
        ("low", "low", "times"),
        ("high", "high", "times"),
        ("accuracy", "accuracy", "percent"),
        ("difference to the baseline", "accuracy_difference", "points"),
    )
    return Figure(
        key="frontier",
        title=title,
        lead=[
            "Every point is a run; numbers beside it are its staleness limit in optimizer updates. Up and to the right "
            "is better; where the line turns down, more staleness costs accuracy."
        ],
        drawings=[
            _scatter(found),
            _against(found, "speedup", "speed-up over the baseline", lambda v: f"{v:g}×", ends=True),
            _against(found, "accuracy", "accuracy after training", percent, ends=False),
        ],
        tables=[
            Table(
                caption="Runs by staleness limit",
                columns=columns("run", *(name for name, *_ in cells)),
                rows=[
                    [
                        row["path"],
                        *(Number(key=pointer("beside", place, key), form=form) for _, key, form in cells),
                    ]
                    for place, row in rows
                ],
            )
        ],
    )


def _scatter(rows: list[dict[str, Any]]) -> Drawing:
    x = [row["speedup"] for row in rows]
    y = [row["accuracy"] for row in rows]
    ground = plot(340, 220, _around(x), _around(y), top=18)
    drawn: list[Markup] = [label("speed-up against accuracy", 52, 11, kind="strong")]
    drawn += ground.axes("speed-up over the baseline", "accuracy", x_form=lambda v: f"{v:g}×", y_form=percent)
    places = [(ground.x(a), ground.y(b)) for a, b in zip(x, y, strict=True)]
    drawn.append(line(places, INK, width=1.4))
    for row, place in zip(rows, places, strict=True):
        tip = f"limit {row['max_staleness']}: {row['speedup']:.2f}×, {row['accuracy']:.1%}"
        drawn += [mark(*place, INK, tip=tip), label(row["max_staleness"], place[0] + 7, place[1] - 5)]
    said = "; ".join(
        f"limit {r['max_staleness']}: {r['speedup']:.2f} times, {r['accuracy']:.0%}" for r in rows
    )
    return Drawing(
        title="Speed-up against accuracy by staleness limit",
        about=said,
        width=340,
        height=220,
        marks=tuple(drawn),
    )


def _against(rows: list[dict[str, Any]], key: str, title: str, form: Any, *, ends: bool) -> Drawing:
    limits = [row["max_staleness"] for row in rows]
    values = [row[key] for row in rows]
    bounds = [row[end] for row in rows for end in ("low", "high") if ends and row[end] is not None]
    ground = plot(
        340, 220, (limits[0] / 1.2, limits[-1] * 1.2), _around([*values, *bounds]), log_x=True, top=18
    )  # fmt: skip
    drawn: list[Markup] = [label(title, 52, 11, kind="strong")]
    drawn += ground.axes(
        "staleness limit (updates)", "", x_form=lambda v: f"{v:g}", y_form=form, x_ticks=sorted(set(limits))
    )
    for row in rows:
        if ends and row["low"] is not None:
            x = ground.x(row["max_staleness"])
            drawn.append(rule(x, ground.y(row["low"]), x, ground.y(row["high"]), "axis"))
    places = [(ground.x(n), ground.y(value)) for n, value in zip(limits, values, strict=True)]
    drawn.append(line(places, INK))
    drawn += [mark(*place, INK) for place in places]
    said = "; ".join(f"limit {n}: {form(round(v, 3))}" for n, v in zip(limits, values, strict=True))
    return Drawing(title=f"{title} by staleness limit", about=said, width=340, height=220, marks=tuple(drawn))


def _around(values: list[float]) -> tuple[float, float]:
    """A little more than what the values span, so that none lies on the border."""
    low, high = min(values), max(values)
    room = 0.12 * (high - low) or 0.05 * (abs(high) or 1.0)
    return low - room, high + room
