"""What became of the tokens: how old they were when learnt from, and the ledger."""

from __future__ import annotations

from bench.report.figure import Figure, Table, columns
from bench.report.material import Material
from bench.report.numbers import Number, pointer
from leaderboard.metrics.work import FATES
from leaderboard.site import plots
from leaderboard.site.html import Markup, tag
from leaderboard.site.svg import Drawing, Ink, bar, beside, label, percent, plot

FATE_COLOURS = {"consumed": "a0", "stale": "s1", "filtered": "k3", "errored": "k5", "surplus": "s0"}


def staleness(material: Material) -> Figure:
    """How many updates old the consumed tokens were, by arm, with effective sample size and discards."""
    title = "Staleness of what was learnt"
    arms = [arm for arm in material.arms if material.document["arms"][arm]["staleness"]]
    if not arms:
        return Figure(key="staleness", title=title, absent="No token was learnt from.")
    oldest = max(int(age) for arm in arms for age in material.document["arms"][arm]["staleness"])
    figures = (
        ("mean", ("staleness", "mean"), "number"),
        ("p95, mean over seeds", ("staleness", "p95"), "small"),
        ("max, mean over seeds", ("staleness", "max"), "small"),
        ("effective sample fraction", ("is_ess",), "percent"),
        ("discarded as stale", ("stale_discard_frac",), "percent"),
    )
    rows = [
        [arm, *(Number(key=pointer("arms", arm, "mean", *path), form=f) for _, path, f in figures)]
        for arm in arms
    ]
    return Figure(
        key="staleness",
        title=title,
        lead=[
            "Optimizer updates of the tenant between the adapter that sampled a token and the one that learnt from "
            "it, counted in tokens. Stale tokens are reweighted; the effective sample fraction says how much of the "
            "sample the weights leave."
        ],
        drawings=[_ages(material, arm, oldest, beside(len(arms))) for arm in arms],
        tables=[
            Table(
                caption="Staleness and its price",
                columns=columns("arm", *(n for n, *_ in figures)),
                rows=rows,
            )
        ],
    )


def ledger(material: Material) -> Figure:
    """Every sampled token's fate, all seeds together."""
    title = "Token ledger"
    arms = [
        arm for arm in material.arms if material.document["arms"][arm]["ledger"]["tokens"].get("generated")
    ]
    if not arms:
        return Figure(key="ledger", title=title, absent="No token was sampled.")
    kept = ("generated", *FATES)
    tables = [
        Table(
            caption=f"{unit.capitalize()}, all seeds and tenants",
            columns=columns("arm", *kept),
            rows=[[arm, *(Number(key=pointer("arms", arm, "ledger", unit, fate), form="count") for fate in kept)]
                  for arm in arms],
        )
        for unit in ("tokens", "rollouts")
    ]  # fmt: skip
    return Figure(
        key="ledger",
        title=title,
        lead=[
            "generated = consumed + stale + filtered + errored + surplus, exactly, for every tenant and arm."
        ],
        drawings=[_flow(material, arm, beside(len(arms))) for arm in arms],
        legend=[(Ink(colour=colour), fate) for fate, colour in FATE_COLOURS.items()],
        boxes=True,
        tables=tables,
    )


def _ages(material: Material, arm: str, oldest: int, width: float) -> Drawing:
    own = material.document["arms"][arm]["staleness"]
    total = sum(own.values())
    slots = oldest + 1
    ground = plot(width, 200, (-0.5, oldest + 0.5), (0.0, 1.0), top=22)
    step = max(1, -(-slots // 12))
    drawn: list[Markup] = [label(arm, 52, 12, kind="strong")]
    drawn += ground.axes(
        "staleness (updates)", "share of tokens", x_form=lambda v: f"{v:g}", y_form=percent,
        x_ticks=range(0, slots, step),
    )  # fmt: skip
    wide = min(48.0, 0.7 * (ground.x(1) - ground.x(0)))
    for age, tokens in own.items():
        share, x = tokens / total, ground.x(int(age))
        top = ground.y(share)
        tip = f"{arm}: {tokens:,} tokens ({share:.1%}) {age} updates old"
        drawn.append(
            bar(x - wide / 2, top, wide, ground.y(0) - top, f"fill-{plots.arm_ink(arm).colour}", tip=tip)
        )
    ess = Number(key=pointer("arms", arm, "mean", "is_ess"), form="percent")
    drawn.append(label("effective sample", width - 68, 12, anchor="end", kind="soft"))
    drawn.append(material.label(ess, width - 14, 12, anchor="end", kind="strong"))
    said = ", ".join(f"{age}: {tokens / total:.0%}" for age, tokens in own.items())
    return Drawing(
        title=f"Staleness of consumed tokens, {arm}", about=f"Share of tokens by updates of age: {said}", width=340,
        height=200, marks=tuple(drawn),
    )  # fmt: skip


def _flow(material: Material, arm: str, width: float) -> Drawing:
    """From one bar to as many as there are fates, joined by ribbons as thick as their tokens."""
    counts = material.document["arms"][arm]["ledger"]["tokens"]
    fates = [fate for fate in FATES if counts[fate]]
    gap, tall, left, right, top = 10.0, 84.0, 90.0, width - 96, 26.0
    y0, y1 = top + gap * (len(fates) - 1) / 2, top
    drawn: list[Markup] = [label(arm, 4, 12, kind="strong")]
    drawn.append(bar(left - 10, y0, 10, tall, "fill-text"))
    drawn.append(label("generated", left - 16, y0 + tall / 2, anchor="end"))
    whole = Number(key=pointer("arms", arm, "ledger", "tokens", "generated"), form="count")
    drawn.append(material.label(whole, left - 16, y0 + tall / 2 + 15, anchor="end", kind="soft"))
    names = top
    for fate in fates:
        thick = tall * counts[fate] / counts["generated"]
        middle = (left + right) / 2
        ribbon = (
            f"M{left} {y0:.1f}C{middle} {y0:.1f} {middle} {y1:.1f} {right} {y1:.1f}V{y1 + thick:.1f}"
            f"C{middle} {y1 + thick:.1f} {middle} {y0 + thick:.1f} {left} {y0 + thick:.1f}Z"
        )
        colour, share = FATE_COLOURS[fate], counts[fate] / counts["generated"]
        tip = f"{arm}: {counts[fate]:,} tokens {fate} ({share:.1%})"
        drawn.append(tag("path", d=ribbon, class_=f"fill-{colour}", fill_opacity=0.45, data_tip=tip))
        drawn.append(bar(right, y1, 10, thick, f"fill-{colour}"))
        at = max(names, y1 + thick / 2)
        drawn.append(label(fate, right + 16, at, kind=None))
        number = Number(key=pointer("arms", arm, "ledger", "tokens", fate), form="count")
        drawn.append(material.label(number, right + 16, at + 14, kind="soft"))
        names = at + 32
        y0, y1 = y0 + thick, y1 + thick + gap
    said = ", ".join(f"{fate} {counts[fate]:,}" for fate in fates)
    height = max(top + tall + gap * len(fates), names) + 8
    return Drawing(
        title=f"What became of the tokens, {arm}", about=f"Of {counts['generated']:,} tokens: {said}", width=340,
        height=height, marks=tuple(drawn),
    )  # fmt: skip
