"""Accuracy against wall time, consumed samples and device-seconds."""

from __future__ import annotations

from bench.report.figure import Figure, Table, columns
from bench.report.material import Material
from bench.report.numbers import Number, pointer
from leaderboard.site import plots
from leaderboard.site.plots import AXES, Crossing
from leaderboard.site.svg import Drawing

MAX_PANELS = 9


def accuracy(material: Material) -> Figure:
    """The mean over tenants on all three axes, then each tenant against wall time."""
    title = "Accuracy against time and work"
    if not any(run.curves for run in material.learnt):
        return Figure(key="accuracy", title=title, absent="The run has no evaluation.")
    runs = material.learnt
    drawings = [plots.accuracy(runs, axis) for axis in AXES]
    if len(material.tenants) > 1:
        drawings += [_panel(material, name, own) for name, own in _panels(material).items()]
    seeds = len(material.record.header.seeds)
    many = "Thin: every seed; thick: their mean; shaded: from the lowest to the highest seed. "
    return Figure(
        key="accuracy",
        title=title,
        lead=[
            (many if seeds > 1 else "")
            + "Two arms that coincide over samples and part over time learn the same and differ in speed alone. "
            "A snapshot is scored after the clock has stopped and stands where it was taken.",
            *(
                []
                if not material.document["targets"]
                else [
                    f" Dotted: where {material.document['baseline']} ends, less ",
                    Number(key="/margin", form="percent"),
                    "; the short bars below it are the intervals in which each seed came to hold that twice in a row.",
                ]
            ),
        ],
        drawings=drawings,
        legend=[(plots.arm_ink(arm), arm) for arm in material.arms],
        tables=[_before_and_after(material), _reached(material)],
    )


def _panel(material: Material, name: str, tenants: list[str]) -> Drawing:
    """One tenant's curves with its target, or several tenants' mean without."""
    found = material.document["targets"].get(tenants[0]) if len(tenants) == 1 else None
    crossings = [
        Crossing(arm=arm, low=each["low_s"], high=each["high_s"])
        for arm, own in (found["arms"] if found else {}).items()
        for each in own["crossings"]
        if each["low_s"] is not None
    ]
    return plots.accuracy(
        material.learnt,
        tenants=tenants,
        name=name,
        target=found["target"] if found else None,
        crossings=crossings,
    )


def _reached(material: Material) -> Table:
    rows = [
        [
            arm,
            tenant,
            Number(key=pointer("targets", tenant, "target"), form="percent"),
            str(each["seed"]),
            *(
                Number(key=pointer("targets", tenant, "arms", arm, "crossings", place, end), form="seconds")
                for end in ("low_s", "high_s")
            ),
        ]
        for tenant, found in material.document["targets"].items()
        for arm, own in found["arms"].items()
        for place, each in enumerate(own["crossings"])
    ]
    return Table(
        caption="When each seed came to hold the dotted line",
        columns=columns("arm", "tenant", "level", "seed", "after", "by", text=2),
        rows=rows,
    )


def _panels(material: Material) -> dict[str, list[str]]:
    """Tenants by the name of their panel: each its own, or where they are many, those of a task together."""
    if len(material.tenants) <= MAX_PANELS:
        return {tenant: [tenant] for tenant in material.tenants}
    panels: dict[str, list[str]] = {}
    for info in material.record.header.tenants:
        panels.setdefault(f"mean of {', '.join(info.env_ids)}", []).append(info.tenant)
    return panels


def _before_and_after(material: Material) -> Table:
    rows = []
    for place, arm in enumerate(material.document["table"]["arms"]):
        for tenant in arm["accuracy"]:
            base = ("table", "arms", place, "accuracy", tenant)
            before, after = (Number(key=pointer(*base, when), form="percent") for when in ("before", "after"))
            rows.append([arm["arm"], tenant, before, after])
    return Table(
        caption="Accuracy before and after, mean over seeds",
        columns=columns("arm", "tenant", "before", "after", text=2),
        rows=rows,
    )
