"""The table at the end of a run: what was measured, in a hundred columns, and what it doesn't say."""

from __future__ import annotations

import statistics
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from leaderboard import metrics
from leaderboard.records import RunRecord

WIDTH = 100
ABOUT_ZERO = 0.02
"""Below this accuracy a task taught nothing that the table could show: it is under two items in a hundred."""
_ROLES = ("train", "decode", "prefill")
_NONE = "–"


def as_dict(record: RunRecord) -> dict[str, Any]:
    """Returns the table's figures: means over the seeds of each arm, computed from the recorded lines."""
    header = record.header
    found = metrics.results(record)
    comparison = found["comparison"]
    by_arm: dict[str, list[dict[str, Any]]] = {}
    for run in found["runs"]:
        by_arm.setdefault(run["arm"], []).append(run["metrics"])
    arms = {arm: _arm(figures) | _speedup(arm, comparison) for arm, figures in by_arm.items()}
    return {
        "run_id": header.run_id,
        "status": header.status,
        "status_reason": header.status_reason,
        "model": header.model.name,
        "device_class": header.device_class,
        "devices": len(header.devices),
        "latency": header.latency.model_dump(),
        "limit_applied": header.limit_applied,
        "baseline": comparison["baseline"],
        "arms": arms,
        "scored_about_zero": _scored_about_zero(arms),
        "unfinished": [
            {"arm": run.arm, "seed": run.seed, "status": run.status, "reason": run.reason}
            for run in header.runs
            if run.status != "success"
        ],
    }


def render(record: RunRecord) -> str:
    """Returns the table as plain text, no line wider than a hundred columns."""
    table = as_dict(record)
    tasks = {tenant.tenant: ", ".join(tenant.env_ids) for tenant in record.header.tenants}
    blocks = [_head(table), _figures(table["arms"]), _accuracies(table["arms"]), _notes(table, tasks)]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _arm(figures: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    oldest = [f["staleness"]["max"] for f in figures if f["staleness"]["max"] is not None]
    tenants = sorted({tenant for f in figures for tenant in f["accuracy"]})
    return {
        "seeds": len(figures),
        "t_work": _mean(f["t_work"] for f in figures),
        "util_busy": _mean(f["util_busy"] for f in figures),
        "util_useful": _mean(f["util_useful"] for f in figures),
        "accuracy": {
            tenant: {when: _mean(_accuracy(f, tenant, when) for f in figures) for when in ("before", "after")}
            for tenant in tenants
        },
        "staleness": {
            "mean": _mean(f["staleness"]["mean"] for f in figures),
            "max": max(oldest, default=None),
        },
        "padding": {role: _mean(f["padding_waste"].get(role) for f in figures) for role in _ROLES},
        "recompiles": _mean(f["recompiles"] for f in figures),
    }


def _speedup(arm: str, comparison: Mapping[str, Any]) -> dict[str, Any]:
    """The baseline's is 1 by definition; an arm that didn't finish has none."""
    if arm == comparison["baseline"]:
        return {"speedup": {"speedup": 1.0, "low": None, "high": None}}
    own = comparison["arms"].get(arm, {})
    return {"speedup": {key: own.get(key) for key in ("speedup", "low", "high")}}


def _accuracy(figures: Mapping[str, Any], tenant: str, when: str) -> float | None:
    evaluation = figures["accuracy"].get(tenant, {}).get(when)
    return evaluation["accuracy"] if evaluation else None


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None


def _scored_about_zero(arms: Mapping[str, Any]) -> list[str]:
    best: dict[str, float] = {}
    for arm in arms.values():
        for tenant, scores in arm["accuracy"].items():
            for score in scores.values():
                if score is not None:
                    best[tenant] = max(best.get(tenant, 0.0), score)
    return [tenant for tenant, score in best.items() if score < ABOUT_ZERO]


def _head(table: Mapping[str, Any]) -> str:
    devices = f"{table['devices']} x {table['device_class']}"
    line = f"run {table['run_id']}: {table['status']}, model {table['model']}, {devices}"
    return _wrap(f"{line}; {table['status_reason']}" if table["status_reason"] else line)


def _figures(arms: Mapping[str, Any]) -> str:
    head = ("arm", "seeds", "T_work s", "speed-up", "busy", "useful", "staleness", "padding", "recompiles")
    under = ("", "", "", "", "", "", "mean/max", "train/dec/pre", "")
    rows = [head, under]
    for name, arm in arms.items():
        padding = "/".join(_number(arm["padding"][role], 2) for role in _ROLES)
        rows.append(
            (
                _cut(name, 8),
                str(arm["seeds"]),
                _number(arm["t_work"], 2),
                _interval(arm["speedup"]),
                _number(arm["util_busy"], 3),
                _number(arm["util_useful"], 3),
                f"{_number(arm['staleness']['mean'], 2)}/{_number(arm['staleness']['max'], 0)}",
                padding,
                f"{arm['recompiles']:g}",
            )
        )
    return _columns(rows)


def _accuracies(arms: Mapping[str, Any]) -> str:
    tenants = sorted({tenant for arm in arms.values() for tenant in arm["accuracy"]})
    if not tenants:
        return ""
    rows = [("accuracy", *(_cut(name, 8) for name in arms))]
    for tenant in tenants:
        scores = [arm["accuracy"].get(tenant, {"before": None, "after": None}) for arm in arms.values()]
        cells = (f"{_number(s['before'], 3)} → {_number(s['after'], 3)}" for s in scores)
        rows.append((_cut(tenant, 28), *cells))
    return _columns(rows)


def _notes(table: Mapping[str, Any], tasks: Mapping[str, str]) -> str:
    notes: list[str] = []
    for run in table["unfinished"]:
        reason = f": {run['reason']}" if run["reason"] else ""
        notes.append(f"{run['arm']}, seed {run['seed']} ended with {run['status']}{reason}")
    if table["limit_applied"]:
        notes.append("LIMITED run: a limit cut the work short; the figures count for nothing but a try")
    if table["latency"]["simulated"]:
        said = table["latency"]["description"].removeprefix("simulated: ")
        notes.append(f"latency: SIMULATED ({table['latency']['profile']}: {said})")
    if table["device_class"] == "cpu-sim":
        notes.append("device class cpu-sim: ratios do not transfer to accelerators")
    for tenant in table["scored_about_zero"]:
        named = f"{tenant} ({tasks[tenant]})" if tasks.get(tenant, tenant) != tenant else tenant
        notes.append(f"{named} scored about 0 with model {table['model']}: its accuracy says nothing here")
    if any(arm["seeds"] < 2 for arm in table["arms"].values()):
        notes.append("one seed: no interval")
    return "\n".join(_wrap(note) for note in notes)


def _columns(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    gap = "  " if sum(widths) + 2 * (len(widths) - 1) <= WIDTH else " "
    lines = (
        gap.join(
            [row[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True))]
        )
        for row in rows
    )
    return "\n".join(line.rstrip() for line in lines)


def _interval(speedup: Mapping[str, float | None]) -> str:
    text = _number(speedup["speedup"], 2)
    if speedup["low"] is None or speedup["high"] is None:
        return text
    return f"{text} [{_number(speedup['low'], 2)}, {_number(speedup['high'], 2)}]"


def _number(value: float | None, digits: int) -> str:
    return _NONE if value is None else f"{value:.{digits}f}"


def _cut(text: str, width: int) -> str:
    plain = _plain(text)
    return plain if len(plain) <= width else plain[: width - 1] + "…"


def _wrap(text: str) -> str:
    return textwrap.fill(_plain(text), WIDTH, subsequent_indent="  ")


def _plain(text: str) -> str:
    """Names come from a file that anyone may have written; none of them steers the terminal."""
    return "".join(c if c.isprintable() else " " for c in text)
