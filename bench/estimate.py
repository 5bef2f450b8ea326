"""How long a run will take, for `--dry-run`: simulated by the planner from records that this machine has.

Nothing is measured for it. Where no record fits, there is no estimate, and why is said.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.arms import labels, repeated
from bench.errors import BenchError, UsageError
from leaderboard.errors import RecordError
from leaderboard.records import RunRecord

if TYPE_CHECKING:
    from bench.compose import Prepared

LABEL = "ESTIMATE (SIMULATED)"
METHOD = (
    "the trainer's decisions simulated with stage times, lengths of episodes and environment times of the records "
    "named, as fast as their machine was; learning alone (T_work): compilation and evaluation come on top"
)
ACCURACY = (
    "measured on nine arms of four configurations, on a shared machine: off by 4 to 46 % (median 21 %), "
    "docs/planning.md"
)
MAX_RECORDS = 3
MAX_BYTES = 100 * 2**20
"""Of rollouts.jsonl; a plan should not take longer to read than a small run to make."""
MAX_EPISODES = 20_000
"""Simulated per arm; of longer runs the first updates are, and the time is scaled to all of them."""


def estimate(prepared: Prepared, near: Path, fit: Sequence[Path]) -> dict[str, Any]:
    """Seconds per arm and in all, with how they were obtained; `why_not` in their place where there are none.

    Args:
      near: the folder in which the run would be; records in it are looked at, newest first.
      fit: records to use in their place; raises UsageError for one that can't be.
    """
    about = {"label": LABEL, "method": METHOD, "accuracy": ACCURACY}
    records = [_given(path, prepared) for path in fit] or _found(near, prepared)
    if not records:
        what = f"no finished record of this model with all of these tasks on this kind of device in {near}"
        return {**about, "why_not": f"{what}; name one with --fit RUN, or run 'bench audit'"}
    names = [str(record.directory) for record in records]
    try:
        arms = _simulated(prepared, records)
    except BenchError as error:
        return {**about, "fitted_on": names, "why_not": str(error)}
    total = sum(seconds for seconds in arms.values()) * prepared.config.seeds
    return {**about, "fitted_on": names, "seconds_per_seed": arms, "seconds": total}


def text(value: dict[str, Any]) -> str:
    """One line for the plan."""
    if "why_not" in value:
        return f"no estimate: {value['why_not']}"
    arms = ", ".join(f"{arm} {seconds:.0f} s" for arm, seconds in value["seconds_per_seed"].items())
    return (
        f"{LABEL}: {arms} per seed, {value['seconds']:.0f} s in all, fitted on {', '.join(value['fitted_on'])}; "
        f"{value['method']}; {value['accuracy']}"
    )


def _simulated(prepared: Prepared, records: Sequence[RunRecord]) -> dict[str, float]:
    from bench.planner import fit  # loads the device library, for the trainer's own shapes
    from bench.planner.simulate import simulate

    config = prepared.config
    episodes = config.groups_per_update * config.group_size * len(prepared.tenants)
    updates = max(1, min(config.updates, MAX_EPISODES // episodes))
    found: dict[str, float] = {}
    for label in labels(config.arms, config.seeds, config.aa):
        arm = repeated(label) or label
        if arm not in found:
            setup = fit.setup_of(config, arm, 0, records)
            tenants = tuple(dataclasses.replace(t, updates=updates) for t in setup.tenants)
            outcome = simulate(dataclasses.replace(setup, tenants=tenants))
            found[arm] = outcome.t_work_s * config.updates / updates
        found[label] = found[arm]
    return found


def _given(path: Path, prepared: Prepared) -> RunRecord:
    record = RunRecord.open(path)
    if why := _unfit(record, prepared):
        raise UsageError(f"--fit {path}: {why}", "name a finished record with these tasks and this model")
    return record


def _found(near: Path, prepared: Prepared) -> list[RunRecord]:
    if not near.is_dir():
        return []
    headers = sorted(near.glob("*/run.json"), key=lambda path: path.stat().st_mtime, reverse=True)
    found: list[RunRecord] = []
    for header in headers:
        try:
            record = RunRecord.open(header.parent)
        except RecordError:
            continue  # another version's, or broken: 'bench verify' tells
        if not _unfit(record, prepared):
            found.append(record)
        if len(found) == MAX_RECORDS:
            break
    return found


def _unfit(record: RunRecord, prepared: Prepared) -> str:
    """Why a record says nothing about the run; empty if it does."""
    header = record.header
    wanted = {env_id for tenant in prepared.tenants for env_id in tenant.env_ids}
    if header.status != "success":
        return f"it ended with status {header.status}"
    if header.model.sha256 != prepared.card["sha256"]:
        return f"its model is {header.model.name}, not {prepared.card['name']}"
    if lacking := wanted - {env_id for tenant in header.tenants for env_id in tenant.env_ids}:
        return f"it has no episode of {', '.join(sorted(lacking))}"
    rollouts = record.directory / "rollouts.jsonl"
    if not rollouts.is_file() or rollouts.stat().st_size > MAX_BYTES:
        return f"its rollouts.jsonl is missing, or larger than {MAX_BYTES >> 20} MiB"
    from bench.compose import devices

    here, _ = devices()
    if {device["kind"] for device in here} != {device.kind for device in header.devices}:
        return "it was made on another kind of device"
    return ""
