"""A record's curve, sent to W&B again: same id, so that doing it twice makes no second run."""

from __future__ import annotations

import json
from pathlib import Path

from bench.trackers import check
from bench.trackers.wandb import WandbBackend, mode
from leaderboard.records import RunRecord


def export_wandb(directory: Path) -> str:
    """Replays metrics.jsonl; returns what was sent where."""
    import os

    check("wandb")
    header = RunRecord.open(directory).header
    backend = WandbBackend(
        {"run_id": header.run_id, "config": header.config, "arms": [a.arm for a in header.arms]}, directory.parent
    )
    backend.start()
    rows = 0
    with (directory / "metrics.jsonl").open() as lines:
        for line in lines:
            backend.log(json.loads(line))
            rows += 1
    backend.finish(header.status)
    return f"{rows} rows of {header.run_id} ({mode(os.environ)})"
