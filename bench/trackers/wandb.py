"""Weights & Biases. Rows carry their own axes; `step=` is never passed, since it drops what comes out of order."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PROJECT = "bench-v0.1"
AXES = ("work/updates", "time/wall_s")


def mode(env: Mapping[str, str]) -> str:
    """WANDB_MODE where it is set; else online with a key and offline without one: never a prompt."""
    return env.get("WANDB_MODE") or ("online" if env.get("WANDB_API_KEY") else "offline")


class WandbBackend:
    """One W&B run per `bench run`; the arm and the tenant are columns of each row and part of its key."""

    def __init__(self, meta: Mapping[str, Any], folder: Path) -> None:
        """`meta` has run_id, config and arms; files of an offline run go below `folder`."""
        self._meta, self._folder = meta, folder
        self._run: Any = None

    def start(self) -> None:
        """Opens the run."""
        import wandb

        chosen = mode(os.environ)
        if chosen == "offline" and "WANDB_MODE" not in os.environ:
            sys.stderr.write("wandb: no key, so offline; `wandb sync` sends it later\n")
        self._folder.mkdir(parents=True, exist_ok=True)
        self._run = wandb.init(
            project=PROJECT,
            id=str(self._meta["run_id"]).lower(),
            name=str(self._meta["run_id"]),
            group=str(self._meta["run_id"]),
            job_type="bench",
            config=dict(self._meta["config"]),
            tags=list(self._meta["arms"]),
            dir=str(self._folder),
            mode=chosen,
            resume="allow" if chosen == "online" else None,
            settings=wandb.Settings(silent=True, console="off", save_code=False, disable_git=True),
        )
        for axis in AXES:
            self._run.define_metric(axis)
        for prefix in ("train/*", "stale/*"):
            self._run.define_metric(prefix, step_metric="work/updates")

    def log(self, row: Mapping[str, Any]) -> None:
        """One row, as one history record."""
        self._run.log(dict(row))

    def summary(self, values: Mapping[str, Any]) -> None:
        """Plain scalars."""
        for key, value in values.items():
            self._run.summary[key] = value

    def finish(self, status: str) -> None:
        """Marks a run that did not succeed as failed."""
        self._run.finish(exit_code=0 if status == "success" else 1)
