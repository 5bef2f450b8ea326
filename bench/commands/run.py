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
from bench.errors import Exit, RejectedError, UsageError
from bench.output import note
from bench.plan import check_out, describe, limited, text
from bench.progress import Progress
from bench.run import Stop, run, ulid
from leaderboard.records import RunRecord


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
    if config.require_tracker and trackers.chosen(config.tracker, environment()) == "none":
        hint = "--tracker wandb, trackio or tensorboard"
        raise UsageError("require_tracker is set, and there is no tracker", hint)
    prepared = prepare(config)
    if dry_run:
        plan = describe(resolved, prepared, directory)
        return plan, text(plan), Exit.OK
    stop = Stop(max_time_s=config.max_time)
    with stop.listening(), Progress(config, enabled=not quiet) as progress:
        record = run(
            resolved,
            prepared,
            directory,
            run_id=run_id,
            run_arm=compose.run_arm,
            warm_up=compose.warm_up,
            command=["bench", *sys.argv[1:]],
            stop=stop,
            progress=progress,
            open_tracker=partial(trackers.open_tracker, config.tracker, directory=directory),
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
    if config.require_tracker and code == Exit.OK and not _mirrored(header.tracker):
        note(f"a whole mirror is required, and the tracker is: {header.tracker['status']}")
        code = Exit.REQUIRED
    ending, more = conclusion(record)
    return {**value, **more}, "\n".join([table.render(record), *ending, f"record: {directory}"]), code


def conclusion(record: RunRecord) -> tuple[list[str], dict[str, Any]]:
    """The verdict on a run that has arms to compare, and of a suite the page too: (lines, JSON)."""
    from bench.compare import compare
    from bench.report import write_html

    header = record.header
    if header.status != "success" or len(header.arms) < 2:
        return [], {}
    lines: list[str] = []
    value: dict[str, Any] = {}
    try:
        found = compare(record.directory)
    except RejectedError as error:
        # the run itself is whole and kept; that its arms can't be compared is what it has shown
        note(f"no verdict: {error}")
        value["comparison"] = None
    else:
        value["comparison"] = found.as_dict()
        lines += ["", found.text()]
    if header.suite is not None:
        page = write_html(record.directory)
        value["report"] = str(page)
        lines.append(f"report: {page}")
    return lines, value


def exit_code(status: str, signal_number: int | None) -> int:
    """What a run that left a record ends the process with."""
    if status == "interrupted":
        return Exit.SIGTERM if signal_number == signal.SIGTERM else Exit.INTERRUPTED
    return Exit.OK if status in ("success", "target_missed") else Exit.FAILED


def _mirrored(tracker: Mapping[str, Any]) -> bool:
    return tracker["status"] == "ok" and not tracker["dropped"]
