"""What sharing costs each tenant."""

from __future__ import annotations

from bench.report.figure import Figure, Table, columns
from bench.report.material import Material
from bench.report.numbers import Number, pointer
from leaderboard.metrics.across import ALONE
from leaderboard.site import plots
from leaderboard.site.html import Markup
from leaderboard.site.svg import Drawing, bar, label, plot, rule

MAX_ROWS = 16


def fairness(material: Material) -> Figure:
    """Slowdown of every tenant against training alone, and Jain's index, by arm."""
    title = "Fairness between tenants"
    means = {arm: material.document["arms"][arm]["mean"] for arm in material.arms}
    found = {arm: own for arm, own in means.items() if own["jain_fairness"] is not None}
    if not found:
        return Figure(
            key="fairness", title=title,
            absent=f"Slowdown is measured against a tenant that trains alone: `bench run --arms {ALONE},S1,A1` with "
            "two or more tenants makes such a run.",
        )  # fmt: skip
    most = max(own["tenant_slowdown"]["max"] for own in found.values())
    rows = [
        [
            arm,
            _figure(arm, "jain_fairness"),
            *(_figure(arm, "tenant_slowdown", which) for which in ("mean", "max")),
            *(_figure(arm, "tenant_slowdown", "each", tenant) for tenant in material.tenants),
        ]
        for arm in found
    ]
    return Figure(
        key="fairness",
        title=title,
        lead=[
            f"A tenant's time among the others over its own stretch in {ALONE}, where each trains alone: below 1 it is "
            "done sooner in company. Jain's index is 1 where all are slowed alike and 1/n where one has it all. "
            "Every tenant's curve stands under accuracy."
            + (f" Drawn are the {MAX_ROWS} slowest of each arm." if len(material.tenants) > MAX_ROWS else "")
        ],
        drawings=[_bars(material, arm, most) for arm in found],
        tables=[
            Table(
                caption="Slowdown by tenant, and how even it is",
                columns=columns("arm", "Jain", "mean", "worst", *material.tenants),
                rows=rows,
            )
        ],
    )


def _figure(arm: str, *path: str, form: str = "number") -> Number:
    return Number(key=pointer("arms", arm, "mean", *path), form=form)


def _bars(material: Material, arm: str, most: float) -> Drawing:
    slowdown = material.document["arms"][arm]["mean"]["tenant_slowdown"]["each"]
    shown = sorted(slowdown.items(), key=lambda pair: -pair[1])[:MAX_ROWS]
    height = 26 + 24 * len(shown) + 38
    ground = plot(340, height, (0.0, max(most, 1.0) * 1.05), (0, 1), left=100, right=56)
    floor = height - 36
    drawn: list[Markup] = [
        label(arm, 4, 12, kind="strong"),
        label("Jain's index", 290, 12, anchor="end", kind="soft"),
    ]
    drawn.append(material.label(_figure(arm, "jain_fairness"), 336, 12, anchor="end"))
    for value in ground.x.ticks(4):
        drawn.append(rule(ground.x(value), 22, ground.x(value), floor, "grid"))
        drawn.append(label(f"{value:g}×", ground.x(value), floor + 14, anchor="middle", kind="soft"))
    for row, (tenant, value) in enumerate(shown):
        y = 26 + 24 * row
        drawn.append(label(tenant[:15], 92, y + 13, anchor="end"))
        drawn.append(bar(100, y, ground.x(value) - 100, 17, f"fill-{plots.arm_ink(arm).colour}"))
        number = _figure(arm, "tenant_slowdown", "each", tenant, form="times")
        drawn.append(material.label(number, 336, y + 13, anchor="end"))
    drawn.append(rule(ground.x(1), 22, ground.x(1), floor, "target"))
    drawn.append(label("time shared / time alone", 192, height - 5, anchor="middle", kind="soft"))
    said = ", ".join(f"{tenant} {value:.2f}" for tenant, value in shown)
    return Drawing(
        title=f"Slowdown of each tenant against training alone, {arm}", about=said, width=340, height=height,
        marks=tuple(drawn),
    )  # fmt: skip
