"""`bench run` and `bench resume`."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from bench import trackers
from bench.compose import Prepared, prepare
from bench.config import Resolved, RunConfig, environment, resolve
from bench.errors import Exit, RejectedError, UsageError
from bench.output import note
from bench.plan import check_out, describe, limited, text
from bench.progress import Progress
from bench.resume import Journal, Point, config_of, drift
from bench.run import Stop, first_header, run, ulid
from leaderboard.records import RunRecord, parse
from tunix_core.clock import go_on_from


def command(
    file: Path | None,
    sets: Sequence[str],
    flags: Mapping[str, Any],
    *,
    dry_run: bool,
    quiet: bool,
    resume: bool = False,
    fit: Sequence[Path] = (),
) -> tuple[dict[str, Any], str, int]:
    """Plans, runs, and returns (JSON, text, exit code); with `resume`, goes on in an --out that was begun.

    `fit` are records that the plan's time is estimated from.
    """
    if fit and not dry_run:
        raise UsageError("--fit without --dry-run", "it is what the plan's time is estimated from")
    resolved = resolve(file, environment(), sets, flags)
    if resume and not resolved.config.out:
        raise UsageError("--resume without --out", "name the folder of the run")
    return start(resolved, dry_run=dry_run, quiet=quiet, resume=resume, fit=fit)


def start(
    resolved: Resolved,
    *,
    dry_run: bool = False,
    quiet: bool = False,
    resume: bool = False,
    fit: Sequence[Path] = (),
) -> tuple[dict[str, Any], str, int]:
    """`command`, of a configuration that is known."""
    resolved = limited(resolved)
    config = resolved.config
    run_id = ulid()
    directory = Path(config.out).expanduser() if config.out else Path("runs") / run_id
    if resume and (directory / "run.json").is_file():
        return _go_on(directory, resolved, quiet=quiet)
    check_out(directory)
    _check_tracker(config)
    prepared = prepare(config)
    if dry_run:
        plan = describe(resolved, prepared, directory, fit)
        return plan, text(plan), Exit.OK
    journal = Journal(directory)
    try:
        return _execute(resolved, prepared, directory, run_id, journal, None, quiet=quiet)
    finally:
        journal.close()
        _forget(journal, directory)


def resume_command(
    directory: Path, max_time: float | None, tracker: str | None, *, quiet: bool
) -> tuple[dict[str, Any], str, int]:
    """Goes on with a run that was stopped or killed, by the configuration in its record."""
    path = directory / "run.json"
    if not path.is_file():
        raise UsageError(f"{directory} holds no run.json", "nothing was begun there: 'bench run'")
    header = parse(path.read_bytes(), "run.json")
    changes = {"max_time": max_time, **({"tracker": tracker} if tracker else {})}
    resolved = Resolved(config=config_from(header, changes), set_by=header["set_by"])
    return _go_on(directory, resolved, quiet=quiet)


def config_from(header: Mapping[str, Any], changes: Mapping[str, Any]) -> RunConfig:
    """The configuration of a record, but for `changes`. Raises UsageError where this version doesn't take it."""
    try:
        return RunConfig.model_validate({**config_of(header), **changes})
    except ValidationError as e:
        first = e.errors(include_url=False)[0]
        raise UsageError(
            f"run.json: config.{first['loc'][0]}: {first['msg']}", "another version wrote it?"
        ) from e


def _go_on(directory: Path, resolved: Resolved, *, quiet: bool) -> tuple[dict[str, Any], str, int]:
    _check_tracker(resolved.config)
    journal = Journal(directory)
    try:
        point = journal.find()
        prepared = prepare(resolved.config)
        command, limit = point.header["command"], point.header["limit_applied"]
        now = first_header(resolved, prepared, point.header["run_id"], command, limit)
        if found := drift(point.header, now):
            hint = "resume with what it was begun with, or start a new run"
            raise UsageError(f"{directory} was begun with something else: {'; '.join(found[:5])}", hint)
        since = time.time() - point.header["clock"]["wall_start_utc"]
        now_ns = point.header["clock"]["monotonic_start_ns"] + int(since * 1e9)
        if now_ns <= point.stopped_ns:
            raise UsageError("the clock of this machine is behind the record's last line", "set the clock")
        go_on_from(now_ns)
        _disclose(point, now_ns)
        journal.clear(point)
        return _execute(resolved, prepared, directory, point.header["run_id"], journal, point, quiet=quiet)
    finally:
        journal.close()


def _disclose(point: Point, now_ns: int) -> None:
    """Into the header, and onto stderr: what is kept, what is done again, how long nothing ran."""
    header, at = point.header, point.at
    done = {(run["arm"], run["seed"]) for run in point.runs}
    arm, seed = at[:2] if at else next(tuple(pair) for pair in header["order"] if tuple(pair) not in done)
    step = at[2] if at else None
    entry = {"arm": arm, "seed": seed, "step": step, "stopped_ns": point.stopped_ns, "resumed_ns": now_ns}
    header["resumed"] = [*header.get("resumed", []), entry | {"dropped_lines": point.dropped_lines}]
    header |= {"status": "running", "status_reason": "", "runs": point.runs, "results": {}, "tracker": {}}
    header["integrity"] = {"event_head": "0" * 64, "event_count": 0}
    header["clock"] |= {"wall_stop_utc": None, "monotonic_stop_ns": None}
    where = "begins anew" if step is None else f"goes on after step {step}"
    note(
        f"resumed: {len(point.runs)} of {len(header['order'])} (arm, seed) are done; {arm} seed {seed} {where}; "
        f"{point.dropped_lines} lines recorded later are dropped and done again; "
        f"{(now_ns - point.stopped_ns) / 1e9:.1f} s in which nothing ran count on the clock"
    )


def _check_tracker(config: RunConfig) -> None:
    trackers.check(config.tracker)
    if config.require_tracker and trackers.chosen(config.tracker, environment()) == "none":
        hint = "--tracker wandb, trackio or tensorboard"
        raise UsageError("require_tracker is set, and there is no tracker", hint)


def _forget(journal: Journal, directory: Path) -> None:
    """A run that ended before its first header left nothing to resume."""
    if not (directory / "run.json").is_file():
        journal.remove()


def _execute(
    resolved: Resolved,
    prepared: Prepared,
    directory: Path,
    run_id: str,
    journal: Journal,
    point: Point | None,
    *,
    quiet: bool,
) -> tuple[dict[str, Any], str, int]:
    from bench import compose, table

    config = resolved.config
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
            journal=journal,
            point=point,
        )
    header = record.header
    if header.status != "success":
        note(f"{header.status}: {header.status_reason}; 'bench resume {directory}' goes on")
    value = {
        "ok": header.status == "success",
        "run": str(directory),
        "run_id": header.run_id,
        "status": header.status,
        "reason": header.status_reason,
        "warnings": header.warnings,
        **table.as_dict(record),
    }
    code = exit_code(header.status)
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


def exit_code(status: str) -> int:
    """What a run that left a record ends the process with."""
    if status == "interrupted":
        return Exit.INTERRUPTED
    return Exit.OK if status in ("success", "target_missed") else Exit.FAILED


def _mirrored(tracker: Mapping[str, Any]) -> bool:
    return tracker["status"] == "ok" and not tracker["dropped"]
