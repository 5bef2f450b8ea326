"""Where an arm's time and its token slots go: step breakdown, padding, recompiles."""

from __future__ import annotations

from bench.report.figure import Figure, Table, columns
from bench.report.material import Material
from bench.report.numbers import Number, pointer, shown
from leaderboard.site import plots
from leaderboard.site.html import Markup
from leaderboard.site.svg import Drawing, Ink, bar, label, percent, plot, rule, tick

# the parts by the record's name of their figure, the colour of each, and MLPerf's word
PARTS = (
    ("learner_train_frac", "train", "train"),
    ("exposed_gen_frac", "bubble", "exposed generation"),
    ("exposed_verify_frac", "prefill", "of it verify"),
    ("exposed_sync_frac", "sync", "weight sync"),
    ("exposed_eval_frac", "eval", "eval"),
    ("other_frac", "other", "other"),
)
WITHIN = "exposed_verify_frac"
"""Drawn over the end of the part before it, which holds it."""


def breakdown(material: Material) -> Figure:
    """A bar an arm, as long as its time, of what the learner did or waited for."""
    title = "Where the learner's time goes"
    arms = material.arms
    if not arms:
        return Figure(key="breakdown", title=title, absent="No update was made.")
    means = {arm: material.document["arms"][arm]["mean"] for arm in arms}
    longest = max(own["t_work"] for own in means.values()) or 1.0
    height = 12 + 34 * len(arms) + 40
    ground = plot(1056, height, (0, longest), (0, 1), left=70, right=76)
    floor = height - 40
    drawn: list[Markup] = [rule(70, floor, 980, floor, "axis")]
    for value in ground.x.ticks(8):
        drawn.append(rule(ground.x(value), floor, ground.x(value), floor + 4, "axis"))
        drawn.append(label(tick(value), ground.x(value), floor + 16, anchor="middle", kind="soft"))
    drawn.append(label("seconds of the work, mean over seeds", 525, height - 5, anchor="middle", kind="soft"))
    said = []
    for row, (arm, own) in enumerate(means.items()):
        y, at = 12 + 34 * row, 0.0
        drawn.append(label(arm, 62, y + 17, anchor="end", kind="strong"))
        for key, colour, name in PARTS:
            seconds = own[key] * own["t_work"]
            start, at = (at - seconds, at) if key == WITHIN else (at, at + seconds)
            if seconds:
                tip = f"{arm}, {name}: {shown(own[key], 'percent')}"
                width = ground.x(at) - ground.x(start)
                drawn.append(bar(ground.x(start), y, width, 24, f"fill-{colour}", tip=tip))
        number = Number(key=pointer("arms", arm, "mean", "t_work"), form="seconds")
        drawn.append(material.label(number, ground.x(at) + 6, y + 17))
        said.append(f"{arm}: " + ", ".join(f"{name} {own[key]:.0%}" for key, _, name in PARTS))
    rows = [
        [
            arm,
            *(Number(key=pointer("arms", arm, "mean", key), form="percent") for key, *_ in PARTS),
        ]
        for arm in arms
    ]
    drawing = Drawing(
        title="Time of the learner by what it did or waited for", about="; ".join(said), width=1056, height=height,
        marks=tuple(drawn), wide=True,
    )  # fmt: skip
    return Figure(
        key="breakdown",
        title=title,
        lead=[
            "Exposed generation is time in which the learner has nothing to train on because episodes are still "
            "open; generation behind training costs nothing and is not in it. Environments answer within an episode, "
            "so their time is part of it where it is exposed; verify is the part of it in which every open episode "
            "only waits for its grade."
        ],
        drawings=[drawing],
        legend=[(Ink(colour=colour), name) for _, colour, name in PARTS],
        boxes=True,
        tables=[
            Table(
                caption="Shares of the learner's time",
                columns=columns("arm", *(n for *_, n in PARTS)),
                rows=rows,
            )
        ],
    )


def padding(material: Material) -> Figure:
    """Token slots that held no token, by role; and what was compiled while the clock ran."""
    arms = material.arms
    title = "Padding and recompiles"
    if not arms:
        return Figure(key="padding", title=title, absent="No update was made.")
    means = {arm: material.document["arms"][arm]["mean"]["padding_waste"] for arm in arms}
    # a weight sync moves no tokens: its slots would count as all padding
    roles = [
        role
        for role in ("train", "decode", "prefill")
        if any(own.get(role) is not None for own in means.values())
    ]
    compiled = {arm: material.document["arms"][arm]["recompiles"] for arm in arms}
    functions = sorted({name for own in compiled.values() for name in own})
    tables = [
        Table(
            caption="Share of executed token slots that held no token",
            columns=columns("arm", *roles, "recompiles"),
            rows=[
                [
                    arm,
                    *(
                        Number(key=pointer("arms", arm, "mean", "padding_waste", r), form="percent")
                        for r in roles
                    ),
                    Number(key=pointer("arms", arm, "mean", "recompiles"), form="small"),
                ]
                for arm in arms
            ],
        )
    ]
    if functions:
        tables.append(
            Table(
                caption="Compilations after the clock started, by function, all seeds",
                columns=columns("function", *arms),
                rows=[
                    [
                        name,
                        *(Number(key=pointer("arms", arm, "recompiles", name), form="count") for arm in arms),
                    ]
                    for name in functions
                ],
            )
        )
    return Figure(
        key="padding",
        title=title,
        lead=[
            "Devices run whole shapes: the share of their token slots that held no token, for training, for sampling "
            "and for reading prompts. "
            + ("" if functions else "Nothing was compiled after the clock had started, in any arm.")
        ],
        drawings=[
            _padding(role, {arm: own.get(role) for arm, own in means.items()}, material) for role in roles
        ],
        tables=tables,
    )


def _padding(role: str, waste: dict[str, float | None], material: Material) -> Drawing:
    height = 24 + 26 * len(waste) + 22
    ground = plot(340, height, (0.0, 1.0), (0, 1), left=50, right=62)
    drawn: list[Markup] = [label(role, 50, 12, kind="strong")]
    for value in (0.0, 0.5, 1.0):
        drawn.append(rule(ground.x(value), 20, ground.x(value), height - 22, "grid"))
        drawn.append(label(percent(value), ground.x(value), height - 8, anchor="middle", kind="soft"))
    for row, (arm, value) in enumerate(waste.items()):
        y = 24 + 26 * row
        drawn.append(label(arm, 44, y + 13, anchor="end", kind="strong"))
        number = Number(key=pointer("arms", arm, "mean", "padding_waste", role), form="percent")
        drawn.append(bar(50, y, ground.x(value or 0.0) - 50, 18, f"fill-{plots.arm_ink(arm).colour}"))
        drawn.append(material.label(number, 336, y + 13, anchor="end"))
    said = ", ".join(f"{arm} {'no such span' if v is None else f'{v:.0%}'}" for arm, v in waste.items())
    return Drawing(
        title=f"Padding of {role} by arm", about=said, width=340, height=height, marks=tuple(drawn)
    )
