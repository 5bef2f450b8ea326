"""`bench run`."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench import trackers
from bench.config import Resolved, environment, resolve
from bench.errors import UsageError
from bench.progress import Progress
from bench.run import Stop, order, run, ulid

LIMIT_ITEMS = 8


def limited(resolved: Resolved) -> Resolved:
    """The config with `limit` applied: fewer updates, fewer dev items."""
    config = resolved.config
    if config.limit is None:
        return resolved
    smaller = {
        "updates": min(config.updates, config.limit),
        "eval_items": min(config.eval_items, LIMIT_ITEMS * config.limit),
    }
    return resolved.model_copy(update={"config": config.model_copy(update=smaller)})


def check_out(path: Path) -> None:
    """Raises UsageError for a folder that a run could not be written into; leaves nothing behind."""
    if path.exists():
        if not path.is_dir():
            raise UsageError(f"--out {path} is a file. Name a new folder.")
        if any(path.iterdir()):
            raise UsageError(f"--out {path} is not empty; a run never overwrites. Name a new folder.")
    parent = path
    while not parent.exists():
        parent = parent.parent
    if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
        raise UsageError(
            f"--out {path} cannot be written: {parent} is not a writable folder. Name another folder."
        )


def command(
    file: Path | None, sets: Sequence[str], flags: Mapping[str, Any], *, dry_run: bool, quiet: bool
) -> tuple[dict[str, Any], str, int]:
    """Plans, runs, and returns (JSON, text, exit code)."""
    from bench.compose import prepare

    resolved = limited(resolve(file, environment(), sets, flags))
    config = resolved.config
    run_id = ulid()
    directory = Path(config.out) if config.out else Path("runs") / run_id
    check_out(directory)
    trackers.check(config.tracker)
    prepared = prepare(config)
    if dry_run:
        plan = plan_of(resolved, prepared, directory)
        return plan, "\n".join(f"{k}: {v}" for k, v in plan.items()), 0

    from bench import table
    from bench.compose import run_arm

    progress = Progress(config, enabled=not quiet)
    tracker = trackers.open_tracker(
        config.tracker,
        meta={"run_id": run_id, "config": config.model_dump(mode="json"), "arms": config.arms},
        directory=directory,
    )
    stop = Stop(max_time_s=config.max_time)
    with stop.listening():
        record = run(
            resolved,
            prepared,
            directory,
            run_id=run_id,
            run_arm=run_arm,
            command=["bench", *sys.argv[1:]],
            stop=stop,
            progress=progress,
            tracker=tracker,
            limit_applied=config.limit is not None,
        )
    header = record.header
    value = {
        "run": str(directory),
        "status": header.status,
        "reason": header.status_reason,
        **table.as_dict(record),
    }
    text = f"{table.render(record)}\nrecord: {directory}"
    if header.status == "interrupted":
        code = {signal.SIGTERM: 143}.get(signal.Signals(stop.signal), 7) if stop.signal is not None else 7
        return value, f"{text}\ninterrupted: {header.status_reason}", code
    if header.status != "success":
        sys.stderr.write(f"error: {header.status_reason}\n")
        return value, text, 1
    return value, text, 0


def plan_of(resolved: Resolved, prepared: Any, directory: Path) -> dict[str, Any]:
    """What a run would do."""
    config = resolved.config
    rollouts = config.updates * config.groups_per_update * config.group_size
    return {
        "out": str(directory),
        "order": [f"{arm}.s{seed}" for arm, seed in order(config.arms, config.seeds)],
        "tenants": {t.tenant_id: list(t.env_ids) for t in prepared.tenants},
        "updates per tenant": config.updates,
        "rollouts per tenant and arm": rollouts,
        "dev items per tenant and evaluation": config.eval_items,
        "latency": config.latency + (" (SIMULATED)" if prepared.latency is not None else ""),
        "model": f"{prepared.card['name']} sha256 {prepared.card['sha256'][:12]}",
        "tokens": f"context {prepared.sizes.context}, turn {prepared.sizes.turn}",
        "tracker": config.tracker,
        "limited": config.limit is not None,
        "config": config.model_dump(mode="json"),
        "set_by": resolved.set_by,
    }
