"""The end table of a run, as text and as JSON. Every figure comes from `leaderboard.metrics`."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from typing import Any

from leaderboard import metrics
from leaderboard.records import RunRecord

NEAR_ZERO = 0.02


def mean_of(values: Iterable[float | None]) -> float | None:
    """The mean of what is there; None where nothing is."""
    found = [v for v in values if v is not None]
    return statistics.fmean(found) if found else None


def as_dict(record: RunRecord) -> dict[str, Any]:
    """{labels, arms: [{arm, seeds, t_work_s, speedup, …, accuracy: {tenant: {before, after}}}]}."""
    results = metrics.results(record)
    pairs = results["comparison"]["arms"]
    arms = []
    for arm in dict.fromkeys(run["arm"] for run in results["runs"]):
        figures = [run["metrics"] for run in results["runs"] if run["arm"] == arm]

        def over(
            pick: Callable[[dict[str, Any]], float | None], figures: list[Any] = figures
        ) -> float | None:
            return mean_of(pick(f) for f in figures)

        accuracy = {
            tenant: {
                when: over(lambda f, t=tenant, w=when: _at(f["accuracy"].get(t), w))
                for when in ("before", "after")
            }
            for tenant in dict.fromkeys(t for f in figures for t in f["accuracy"])
        }
        pair = pairs.get(arm)
        arms.append(
            {
                "arm": arm,
                "seeds": len(figures),
                "t_work_s": over(lambda f: f["t_work"]),
                "speedup": None if pair is None else pair["speedup"],
                "speedup_low": None if pair is None else pair["low"],
                "speedup_high": None if pair is None else pair["high"],
                "util_busy": over(lambda f: f["util_busy"]),
                "util_useful": over(lambda f: f["util_useful"]),
                "staleness_mean": over(lambda f: f["staleness"]["mean"]),
                "staleness_max": max((f["staleness"]["max"] or 0 for f in figures), default=0),
                "padding_train": over(lambda f: f["padding_waste"].get("train")),
                "padding_decode": over(lambda f: f["padding_waste"].get("decode")),
                "padding_prefill": over(lambda f: f["padding_waste"].get("prefill")),
                "recompiles": sum(f["recompiles"] for f in figures),
                "accuracy": accuracy,
            }
        )
    return {"labels": labels(record, arms), "baseline": results["comparison"]["baseline"], "arms": arms}


def _at(accuracy: dict[str, Any] | None, when: str) -> float | None:
    point = None if accuracy is None else accuracy.get(when)
    return None if point is None else point["accuracy"]


def labels(record: RunRecord, arms: list[dict[str, Any]]) -> list[str]:
    """What has to stand beside the figures, always."""
    header = record.header
    found = []
    if header.latency.simulated:
        what = header.latency.description.removeprefix("simulated: ")
        profile = header.latency.profile
        # a profile's name says less than its description, and its formula is part of it
        found.append(f"latency: SIMULATED ({what if what.startswith(profile) else f'{profile}: {what}'})")
    if header.device_class == "cpu-sim":
        found.append("device class cpu-sim: ratios do not transfer to accelerators")
    if header.limit_applied:
        found.append("LIMITED run (--limit): not comparable with full ones")
    if header.status != "success":
        found.append(
            f"status {header.status}" + (f": {header.status_reason}" if header.status_reason else "")
        )
    if len(header.seeds) == 1 and len(header.arms) > 1:
        found.append("one seed: no interval")
    zero = {
        tenant
        for arm in arms
        for tenant, score in arm["accuracy"].items()
        if score["after"] is not None and score["after"] <= NEAR_ZERO and (score["before"] or 0) <= NEAR_ZERO
    }
    if zero:
        found.append(
            f"accuracy about 0 for {', '.join(sorted(zero))}: the {header.model.name} model cannot do it"
        )
    return found + list(header.warnings)


def render(record: RunRecord) -> str:
    """Plain text, readable in 100 columns."""
    value = as_dict(record)
    header = (
        "arm",
        "time s",
        "speed-up",
        "util busy",
        "useful",
        "staleness mean/max",
        "padding train/dec/pre",
        "recompiles",
    )
    rows: list[tuple[str, ...]] = [header]
    for a in value["arms"]:
        speedup = _number(a["speedup"], "{:.2f}×")
        if a["arm"] == value["baseline"]:
            speedup = "1 (base)"
        elif a["speedup_low"] is not None:
            speedup += f" [{a['speedup_low']:.2f}, {a['speedup_high']:.2f}]"
        rows.append(
            (
                a["arm"],
                _number(a["t_work_s"], "{:.1f}"),
                speedup,
                _number(a["util_busy"], "{:.2f}"),
                _number(a["util_useful"], "{:.2f}"),
                f"{_number(a['staleness_mean'], '{:.2f}')} / {a['staleness_max']}",
                " / ".join(_percent(a[f"padding_{p}"]) for p in ("train", "decode", "prefill")),
                str(a["recompiles"]),
            )
        )
    tenants = list(dict.fromkeys(t for a in value["arms"] for t in a["accuracy"]))
    scores = [("accuracy, before → after", *(a["arm"] for a in value["arms"]))]
    for tenant in tenants:
        cells = [a["accuracy"].get(tenant, {"before": None, "after": None}) for a in value["arms"]]
        scores.append((tenant, *(f"{_percent(c['before'])} → {_percent(c['after'])}" for c in cells)))
    return "\n".join([*_aligned(rows), "", *_aligned(scores), "", *value["labels"]])


def _aligned(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]


def _number(value: float | None, form: str) -> str:
    return "–" if value is None else form.format(value)


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.0f} %"
