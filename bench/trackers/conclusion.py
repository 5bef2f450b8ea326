"""What a mirror shows beside the curves, computed from the record alone."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import Any

from bench.compare import compare
from bench.errors import RejectedError, UsageError
from bench.trackers.base import Conclusion, Table
from leaderboard.records import ArmView, RunRecord

TABLE_ROWS = 200
"""Items of an evaluation in a table; the record has every transcript."""
TEXT_CHARACTERS = 500
COLUMNS = ("tenant", "eval", "env_id", "item", "reward", "status", "stop", "answer")
FILES = ("run.json", "metrics.jsonl")

Scalars = dict[str, float | bool | str | None]


def label(arm: str, seed: int) -> str:
    """How one (arm, seed) is called everywhere: in the adapters' names, and in trackers."""
    return f"{arm}.s{seed}"


def conclude(record: RunRecord, results: Mapping[str, Any]) -> Conclusion:
    """Summary, tables and files of a whole record; `results` are `leaderboard.metrics.results` of it."""
    pairs, parity = results["comparison"]["arms"], _parity(record)
    summary: dict[str, Scalars] = {}
    for run in results["runs"]:
        scalars = _headline(run["metrics"])
        if pair := pairs.get(run["arm"]):
            named = ("speedup", "time_reduction", "low", "high")
            scalars |= {f"headline/{name}": pair[name] for name in named}
        summary[label(run["arm"], run["seed"])] = scalars | parity.get(run["arm"], {})
    return Conclusion(
        summary=summary,
        tables={label(view.arm, view.seed): _table(view) for view in record.views if view.evals},
        files=tuple(record.directory / name for name in FILES),
    )


def _headline(figures: Mapping[str, Any]) -> Scalars:
    after = [own["after"]["accuracy"] for own in figures["accuracy"].values() if own["after"]]
    return {
        "headline/t_work_s": figures["t_work"],
        "headline/util_busy": figures["util_busy"],
        "headline/util_useful": figures["util_useful"],
        "headline/acc": statistics.fmean(after) if after else None,
    }


def _parity(record: RunRecord) -> dict[str, Scalars]:
    """Of the arm that `bench compare` takes for the product; none where it refuses to compare."""
    try:
        found = compare(record.directory)
    except (RejectedError, UsageError):
        return {}
    parity = found.parity
    return {
        found.product: {
            "parity/pass": parity.verdict == "pass",
            "parity/verdict": parity.verdict,
            "parity/difference": parity.difference,
            "parity/low": parity.low,
            "parity/high": parity.high,
        }
    }


def _table(view: ArmView) -> Table:
    last = {line.tenant: line.eval_id for line in sorted(view.evals, key=lambda line: line.eval_id)}
    rows = []
    for line in (line for line in view.evals if line.eval_id == last[line.tenant]):
        answers = [turn.text for turn in line.turns if turn.role == "policy"]
        answer = answers[-1][:TEXT_CHARACTERS] if answers else ""
        cells = [line.tenant, line.eval_id, line.env_id, line.item_index]
        rows.append([*cells, line.reward, line.grade_status, line.stop, answer])
    return Table(columns=COLUMNS, rows=rows[:TABLE_ROWS])
