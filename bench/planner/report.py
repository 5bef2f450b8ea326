"""A plan as text: every figure under the words that say what it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

LABEL = "SIMULATED: a prediction by discrete-event simulation; nothing was run or measured on these devices"


def figures(outcome: Mapping[str, Any], base: float | None, price: float | None) -> dict[str, Any]:
    """An outcome with what follows from it: speed-up over the first arm shown, device hours, cost."""
    hours = outcome["device_seconds"] / 3600
    return {
        **outcome,
        "speedup": base / outcome["t_work_s"] if base and outcome["t_work_s"] else None,
        "device_hours": hours,
        "cost": None if price is None else hours * price,
    }


LITTLE = 1.1
"""A predicted speed-up below which asynchrony is not what the scenario needs."""


def remark(rows: Sequence[Mapping[str, Any]]) -> str:
    """Why A1 gains little over S1, where it does; empty where it gains, or one of them is not planned."""
    arms = {row["arm"]: row for row in rows}
    if not {"S1", "A1"} <= arms.keys() or (arms["A1"]["speedup"] or LITTLE) >= LITTLE:
        return ""
    return (
        f"A1 gains nothing to speak of here: devices are {100 * arms['S1']['util_busy']:.0f} % busy in S1 already, so "
        "little waiting is left to hide; slower tools, fewer tenants or more devices leave more"
    )


def table(rows: Sequence[Mapping[str, Any]], first: Sequence[str] = ("arm",)) -> str:
    """One line a row: `first` are the columns that name it."""
    head = (*first, "T_work s", "speed-up", "busy", "train", "sync", "decode", "prefill", "staleness mean/max",
            "stale", "errors", "tokens/s", "device h", "cost")  # fmt: skip
    lines = [head, *(_cells(row, first) for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    return "\n".join(
        "  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def _cells(row: Mapping[str, Any], first: Sequence[str]) -> tuple[str, ...]:
    age, role = row["staleness"], row["util_by_role"]
    return (
        *(str(row[name]) for name in first),
        f"{row['t_work_s']:.4g}",
        "1 (base)" if row["speedup"] == 1 else "–" if row["speedup"] is None else f"{row['speedup']:.2f}×",
        f"{row['util_busy']:.2f}",
        *(f"{role[name]:.2f}" for name in ("train", "sync", "decode", "prefill")),
        "–" if age["mean"] is None else f"{age['mean']:.2f} / {age['max']}",
        f"{100 * row['stale_discard_frac']:.1f} %",
        f"{100 * row['errored_frac']:.1f} %",
        f"{row['tokens_per_s']:,.0f}",
        f"{row['device_hours']:.3g}",
        "–" if row["cost"] is None else f"{row['cost']:,.2f}",
    )
