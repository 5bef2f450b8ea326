"""A record's curve, sent to W&B again: same id, so that doing it twice makes no second run."""

from __future__ import annotations

from pathlib import Path

from bench.trackers import check, headline
from bench.trackers.wandb import WandbBackend
from leaderboard import metrics
from leaderboard.records import RunRecord, parse, read_lines


def export_wandb(directory: Path) -> str:
    """Replays metrics.jsonl; returns what was sent where.

    The mirror made during a run may lack rows, so this is a run beside it, in the same group. Row n is step n
    there: of a run that exists already, only the rows it lacks are sent.
    """
    check("wandb")
    record = RunRecord.open(directory)
    header = record.header
    meta = {"run_id": header.run_id, "config": header.config, "arms": [a.arm for a in header.arms]}
    rows = [parse(line, f"metrics.jsonl:{n}") for n, line in read_lines(directory / "metrics.jsonl")]
    backend = WandbBackend(meta, directory.resolve().parent, run_id=f"{header.run_id.lower()}-record")
    backend.start()
    sent = rows[backend.logged :]
    for row in sent:
        backend.log(row)
    backend.summary(headline(metrics.results(record)))
    place = backend.place
    backend.finish(header.status)
    return f"{len(sent)} rows of {header.run_id}: {place}"
