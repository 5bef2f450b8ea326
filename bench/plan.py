"""What a run would do: its matrix, order, seeds, sizes and what it will cost, before anything is spent."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import estimate
from bench.arms import labels, repeated, timetable
from bench.config import Resolved, suite_info
from bench.errors import UsageError
from bench.resume import state_directory
from bench.run import planned

if TYPE_CHECKING:
    from bench.compose import Prepared

LIMIT_ITEMS = 8
"""Dev items per update that `limit` leaves."""
LINE_BYTES = 900
"""Of a line of a transcript, beside its tokens."""
TOKEN_BYTES = 18
"""Of a token in a line: id, log-probability, version, text."""


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
    try:
        str(path).encode()
    except UnicodeEncodeError:
        what = f"--out {str(path)!r} is not text in this locale's encoding"
        raise UsageError(what, "set LC_ALL=C.UTF-8, or name another folder") from None
    if any(len(part.encode()) > 255 for part in path.parts):
        raise UsageError(f"--out {path} has a name of more than 255 bytes", "name a shorter one")
    if path.exists():
        if not path.is_dir():
            raise UsageError(f"--out {path} is a file", "name a new folder")
        if any(path.iterdir()):
            raise UsageError(f"--out {path} is not empty; a run never overwrites", "name a new folder")
    if state_directory(path).exists():
        what = f"{state_directory(path)} is left of a run that was killed"
        raise UsageError(what, "resume that run, delete its state, or name a new folder")
    parent = path
    while not parent.exists():
        parent = parent.parent
    if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK) or _kernels(parent):
        what = f"--out {path} cannot be written: {parent} is not a writable folder"
        raise UsageError(what, "name another folder")


def _kernels(folder: Path) -> bool:
    """Whether a folder is the kernel's own: it looks writable, and nothing can be made in it."""
    return folder.resolve().parts[:2] in (("/", "proc"), ("/", "sys"))


def describe(
    resolved: Resolved, prepared: Prepared, directory: Path, fit: Sequence[Path] = ()
) -> dict[str, Any]:
    """The plan as plain values; `fit` are records to estimate the time from, else those beside `directory`."""
    from bench.compose import tenants_of

    config = resolved.config
    runs = planned(config)
    rollouts = (
        config.updates * config.groups_per_update * config.group_size * len(prepared.tenants) * len(runs)
    )
    evaluations = 2 + ((config.updates - 1) // config.eval_every if config.eval_every else 0)
    scored = evaluations * config.eval_items * len(prepared.tenants) * len(runs)
    episode_bytes = LINE_BYTES + TOKEN_BYTES * prepared.sizes.episode
    return {
        "out": str(directory),
        "order": [[arm, seed] for arm, seed in runs],
        "suite": suite_info(config),
        "arms": {
            name: _timetable(name, config.max_staleness)
            for name in labels(config.arms, config.seeds, config.aa)
        },
        "tenants": {t.tenant_id: list(t.env_ids) for t in prepared.tenants},
        "seeds": {
            str(seed): {t.tenant_id: t.seed for t in tenants_of(prepared, seed)}
            for seed in range(config.seeds)
        },
        "updates_per_tenant": config.updates,
        "rollouts": rollouts,
        "evaluated_items": scored,
        "latency": {"profile": config.latency, "simulated": prepared.latency is not None},
        "model": {"name": prepared.card["name"], "sha256": prepared.card["sha256"]},
        "tokens": {"context": prepared.sizes.context, "turn": prepared.sizes.turn},
        "devices": "one device, the first of the default platform, samples and learns",
        "time": estimate.estimate(prepared, directory.parent, fit),
        "disk_bytes_at_most": (rollouts + scored) * episode_bytes,
        "sent_elsewhere": "metrics.jsonl, to W&B" if _mirrored(config.tracker) else "nothing",
        "limit_applied": config.limit is not None,
        "config": config.model_dump(mode="json"),
        "set_by": resolved.set_by,
    }


def text(plan: dict[str, Any]) -> str:
    """The plan for a reader."""
    tenants = ", ".join(f"{name} ({' '.join(ids)})" for name, ids in plan["tenants"].items())
    latency, tokens, model = plan["latency"], plan["tokens"], plan["model"]
    rows = {
        "out": plan["out"],
        "order": ", ".join(f"{arm} seed {seed}" for arm, seed in plan["order"]),
        **{f"arm {name}": what for name, what in plan["arms"].items()},
        "tenants": tenants,
        **{
            f"seed {seed}": ", ".join(f"{name} {derived}" for name, derived in of.items())
            for seed, of in plan["seeds"].items()
        },
        "work": f"{plan['updates_per_tenant']} updates per tenant and arm, {plan['rollouts']} rollouts, "
        f"{plan['evaluated_items']} evaluated items in all",
        "latency": latency["profile"]
        + (" (SIMULATED)" if latency["simulated"] else " (the environments' own)"),
        "model": f"{model['name']}, sha256 {model['sha256'][:12]}, checked",
        "tokens": f"context up to {tokens['context']}, turn up to {tokens['turn']}",
        "devices": plan["devices"],
        "time": estimate.text(plan["time"]),
        "disk": f"at most {plan['disk_bytes_at_most'] / 1e6:.0f} MB",
        "sent": plan["sent_elsewhere"],
        "limit": "applied: the record is marked and not ranked" if plan["limit_applied"] else "none",
        "settings": ", ".join(f"{key} by {who}" for key, who in plan["set_by"].items()) or "defaults",
    }
    width = max(map(len, rows))
    return "\n".join(f"{key:<{width}}  {value}" for key, value in rows.items())


def _timetable(name: str, max_staleness: int) -> str:
    spec = timetable(name, max_staleness)
    together = (
        "all tenants together" if spec.tenants_at_once is None else f"{spec.tenants_at_once} tenant at a time"
    )
    barrier = "step barrier" if spec.step_barrier else "no barrier"
    again = f"; {repeated(name)} again, for the noise floor" if repeated(name) else ""
    return f"{together}, {barrier}, staleness at most {spec.max_staleness}{again}"


def _mirrored(tracker: str) -> bool:
    from bench.trackers import chosen

    return chosen(tracker, os.environ) == "wandb"
