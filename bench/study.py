"""`bench study tenants`: the 2×2 of synchronous/asynchronous and one/many tenants, for several numbers of tenants.

One record a number of tenants, each a run like any other (verifiable, comparable by itself); the study is a table
and a figure over them, computed from their lines alone. A record that is there and ended well is not run again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench import table
from bench.errors import RejectedError, UsageError, ended
from leaderboard import metrics
from leaderboard.bundle import write_atomically
from leaderboard.records import RunRecord

DEFAULT_TENANTS = (1, 2, 4, 8, 16, 32)
MAX_TENANTS = 256
SETTING_ASIDE = (
    "out", "tracker", "compile_cache", "env_workers", "slots", "max_time", "aa", "suite", "arms",
)  # fmt: skip
"""Keys that change where and how comfortably a run is made, not what work it does."""


def counts(text: str) -> tuple[int, ...]:
    """Reads '1,2,4'. Raises UsageError for anything else."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts or not all(
        part.isascii() and part.isdigit() and 1 <= int(part) <= MAX_TENANTS for part in parts
    ):
        raise UsageError(
            f"--tenants {text!r} is no list of numbers from 1 to {MAX_TENANTS}", "for example 1,8,32"
        )
    return tuple(sorted({int(part) for part in parts}))


def folder(out: Path, tenants: int) -> Path:
    """The record of one number of tenants."""
    return out / f"n{tenants:03d}"


def run(tenants: Sequence[int], out: Path, run_one: Callable[[int, Path], int]) -> int:
    """Runs what isn't there yet, fewest tenants first; the first exit code that isn't 0 ends it.

    Raises UsageError where a folder holds a record that did not end well.
    """
    for n in tenants:
        place = folder(out, n)
        if (place / "run.json").is_file():
            header = RunRecord.open(place).header
            if header.status != "success":
                how = ended(header.status, header.status_reason)
                hint = f"'bench resume {place}' goes on with it; or remove it to run it again"
                raise UsageError(f"{place} holds a run that {how}", hint)
            continue
        code = run_one(n, place)
        if code:
            return code
    return 0


def records_in(out: Path) -> list[Path]:
    """The run directories of a study, fewest tenants first."""
    return sorted(path.parent for path in out.glob("n[0-9][0-9][0-9]/run.json"))


def as_dict(out: Path) -> dict[str, Any]:
    """The study of all records in a folder: {labels, learner_share…, rows: [{tenants, arm, seed means…}]}.

    Raises UsageError where there are none, RejectedError where they are of different work.
    """
    places = records_in(out)
    records = [RunRecord.open(place) for place in places]
    if not records:
        raise UsageError(f"{out} holds no record of a study", "'bench study tenants --out DIR' makes one")
    first = work(records[0], "tenants")
    rows: list[dict[str, Any]] = []
    labels: dict[str, None] = {}
    for place, record in zip(places, records, strict=True):
        if record.header.status != "success":
            raise RejectedError(f"{place} {ended(record.header.status, record.header.status_reason)}")
        if work(record, "tenants") != first:
            raise RejectedError(f"{place} is of other work than {places[0]}: the settings differ")
        shown = table.as_dict(record)
        labels |= dict.fromkeys(shown["labels"])
        n = len(record.header.tenants)
        base = {arm["arm"]: arm["t_work_s"] for arm in shown["arms"]}
        for arm in shown["arms"]:
            devices = len(record.header.devices)
            figures = [metrics.compute(view) for view in record.views if view.arm == arm["arm"]]
            t = arm["t_work_s"]
            rows.append(
                {
                    "tenants": n,
                    "arm": arm["arm"],
                    "seeds": arm["seeds"],
                    "t_work_s": t,
                    "speedup_over_s0": base["S0"] / t if "S0" in base and t else None,
                    "speedup_over_s1": base["S1"] / t if "S1" in base and t else None,
                    "util_busy": arm["util_busy"],
                    "util_useful": arm["util_useful"],
                    "busy_s_per_1000_tokens": table.mean_of(
                        busy_per_1000_tokens(f, devices) for f in figures
                    ),
                    "throughput_consumed": table.mean_of(f["throughput_consumed"] for f in figures),
                    "p95_completion_s": table.mean_of(f["tenant_completion"]["p95"] for f in figures),
                    "learner_share": table.mean_of(learner_share(f, devices) for f in figures),
                    "padding_train": arm["padding_train"],
                    "padding_decode": arm["padding_decode"],
                    "recompiles": arm["recompiles"],
                    "staleness_mean": arm["staleness_mean"],
                    "accuracy_change": _change(arm["accuracy"]),
                }
            )
    return {"labels": list(labels), "rows": rows}


def busy_per_1000_tokens(figures: dict[str, Any], devices: int) -> float | None:
    """Device seconds spent for every thousand tokens that were learnt from; with time, it explains utilization."""
    learnt = figures["throughput_consumed"] * figures["t_work"]
    return 1000 * figures["util_busy"] * figures["t_work"] * devices / learnt if learnt else None


def learner_share(figures: dict[str, Any], devices: int) -> float:
    """Training's share of the time: a learner that takes one tenant at a time can't get below N times this."""
    return figures["util_by_role"]["train"] * devices


def render(study: dict[str, Any]) -> str:
    """The study as a Markdown table under its labels."""
    head = ("tenants", "arm", "T_work s", "vs S0", "vs S1", "busy", "useful", "busy s / 1000 tokens",
            "learner's share", "padding train / decode", "recompiles", "staleness", "accuracy")  # fmt: skip
    lines = [f"*{label}*\n" for label in study["labels"]]
    lines += [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    for row in study["rows"]:
        cells = (
            str(row["tenants"]),
            row["arm"],
            f"{row['t_work_s']:.1f}",
            _times(row["speedup_over_s0"]),
            _times(row["speedup_over_s1"]),
            _share(row["util_busy"]),
            _share(row["util_useful"]),
            "–" if row["busy_s_per_1000_tokens"] is None else f"{row['busy_s_per_1000_tokens']:.2f}",
            _share(row["learner_share"]),
            f"{_share(row['padding_train'])} / {_share(row['padding_decode'])}",
            str(row["recompiles"]),
            "–" if row["staleness_mean"] is None else f"{row['staleness_mean']:.2f}",
            "–" if row["accuracy_change"] is None else f"{100 * row['accuracy_change']:+.1f}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def write(out: Path) -> dict[str, Any]:
    """Writes study.json and study.md beside the records."""
    study = as_dict(out)
    write_atomically(out / "study.json", (json.dumps(study, indent=1) + "\n").encode())
    write_atomically(out / "study.md", (render(study) + "\n").encode())
    return study


def work(record: RunRecord, *but: str) -> dict[str, Any]:
    """The settings that must be the same in records put side by side, `but` for what is varied between them."""
    return {key: value for key, value in record.header.config.items() if key not in (*SETTING_ASIDE, *but)}


def _change(accuracy: dict[str, dict[str, float | None]]) -> float | None:
    pairs = [(score["before"], score["after"]) for score in accuracy.values()]
    return table.mean_of(
        after - before for before, after in pairs if before is not None and after is not None
    )


def _times(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}×"


def _share(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.0f} %"
