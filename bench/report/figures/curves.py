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
                if not _aims(material)
                else [
                    f" Dotted: where {material.document['baseline']} ends, less ",
                    Number(key="/target_margin", form="percent"),
                    "; the short bars below it are the intervals in which each seed came to hold that twice in a row.",
                ]
            ),
        ],
        drawings=drawings,
        legend=[(plots.arm_ink(arm), arm) for arm in material.arms],
        tables=[_before_and_after(material), _reached(material)],
    )


def _aims(material: Material) -> dict[str, float]:
    """The level to reach, by tenant; of those that have one."""
    runs = material.document["runs"]
    return {tenant: own["target"] for run in runs for tenant, own in run["metrics"]["t_target"].items()}


def _panel(material: Material, name: str, tenants: list[str]) -> Drawing:
    """One tenant's curves with its target, or several tenants' mean without."""
    target, crossings = None, []
    if len(tenants) == 1:
        target = _aims(material).get(tenants[0])
        for run in material.document["runs"]:
            own = run["metrics"]["t_target"].get(tenants[0])
            if own and own["reached"]:
                at = own["seconds"]
                crossings.append(Crossing(arm=run["arm"], low=at["low"], high=at["high"]))
    return plots.accuracy(material.learnt, tenants=tenants, name=name, target=target, crossings=crossings)


def _reached(material: Material) -> Table:
    rows = []
    for place, run in enumerate(material.document["runs"]):
        for tenant in run["metrics"]["t_target"]:

            def n(*path: str, form: str, place: int = place, tenant: str = tenant) -> Number:
                return Number(key=pointer("runs", place, "metrics", "t_target", tenant, *path), form=form)

            ends = (n("seconds", end, form="seconds") for end in ("low", "high", "estimate"))
            samples = n("samples", "estimate", form="rate")
            rows.append([run["arm"], tenant, n("target", form="percent"), str(run["seed"]), *ends, samples])
    return Table(
        caption="When each seed came to hold the dotted line",
        columns=columns("arm", "tenant", "level", "seed", "after", "by", "about", "rollouts by then", text=2),
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
