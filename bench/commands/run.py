"""`bench run`."""

from __future__ import annotations

import signal
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from bench import trackers
from bench.compose import prepare
from bench.config import environment, resolve
from bench.errors import Exit
from bench.output import note
from bench.plan import check_out, describe, limited, text
from bench.progress import Progress
from bench.run import Stop, run, ulid
from bench.secret import scrubbed


def command(
    file: Path | None, sets: Sequence[str], flags: Mapping[str, Any], *, dry_run: bool, quiet: bool
) -> tuple[dict[str, Any], str, int]:
    """Plans, runs, and returns (JSON, text, exit code)."""
    from bench import compose, table

    resolved = limited(resolve(file, environment(), sets, flags))
    config = resolved.config
    run_id = ulid()
    directory = Path(config.out) if config.out else Path("runs") / run_id
    check_out(directory)
    trackers.check(config.tracker)
    prepared = prepare(config)
    if dry_run:
        plan = describe(resolved, prepared, directory)
        return plan, text(plan), Exit.OK
    shown = scrubbed(config.model_dump(mode="json"), environment())
    meta = {"run_id": run_id, "config": shown, "arms": config.arms}
    stop = Stop(max_time_s=config.max_time)
    with stop.listening(), Progress(config, enabled=not quiet) as progress:
        record = run(
            resolved,
            prepared,
            directory,
            run_id=run_id,
            run_arm=compose.run_arm,
            command=["bench", *sys.argv[1:]],
            stop=stop,
            progress=progress,
            open_tracker=partial(trackers.open_tracker, config.tracker, meta=meta, directory=directory),
            limit_applied=config.limit is not None,
        )
    header = record.header
    if header.status != "success":
        note(f"{header.status}: {header.status_reason}")
    value = {
        "ok": header.status == "success",
        "run": str(directory),
        "run_id": header.run_id,
        "status": header.status,
        "reason": header.status_reason,
        "warnings": header.warnings,
        **table.as_dict(record),
    }
    code = exit_code(header.status, stop.signal)
    return value, f"{table.render(record)}\nrecord: {directory}", code


def exit_code(status: str, signal_number: int | None) -> int:
    """What a run that left a record ends the process with."""
    if status == "interrupted":
        return Exit.SIGTERM if signal_number == signal.SIGTERM else Exit.INTERRUPTED
    return Exit.OK if status in ("success", "target_missed") else Exit.FAILED
