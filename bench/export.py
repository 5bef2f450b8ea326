"""A record as others want it: W&B runs, tables, accuracy as JSON. What is exported twice is there once."""

from __future__ import annotations

from pathlib import Path

from bench.trackers import check
from bench.trackers.conclusion import conclude
from bench.trackers.wandb import RECORD, WandbBackend
from leaderboard import metrics
from leaderboard.records import RunRecord, parse, read_lines


def export_wandb(directory: Path) -> str:
    """Replays metrics.jsonl; returns what was sent where.

    The mirror made during a run may lack rows, so these are runs beside it, in the same group. Row n is step n
    there: of a run that exists already, only the rows it lacks are sent.
    """
    check("wandb")
    record = RunRecord.open(directory)
    header = record.header.model_dump(mode="json", by_alias=True)
    rows = [parse(line, f"metrics.jsonl:{n}") for n, line in read_lines(directory / "metrics.jsonl")]
    backend = WandbBackend(header, directory.resolve().parent, suffix=RECORD)
    sent = 0
    backend.start()
    for view in record.views:
        own = [row for row in rows if (row["arm"], row["seed"]) == (view.arm, view.seed)]
        for row in own[backend.open(view.arm, view.seed) :]:
            backend.log(row)
            sent += 1
    backend.conclude(conclude(record, metrics.results(record)))
    place = backend.place
    backend.finish(record.header.status)
    return f"{sent} rows of {record.header.run_id}: {place}"
