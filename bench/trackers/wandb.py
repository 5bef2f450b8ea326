"""Weights & Biases. Rows carry their own axes; `step=` is never passed, since it drops what comes out of order."""

from __future__ import annotations

import importlib
import netrc
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bench.errors import BenchError

PROJECT = "bench-v0.1"
AXES = {"work/updates": ("train/*", "stale/*"), "time/wall_s": ("eval/*",)}
"""Each axis with the rows' keys that are drawn over it."""
HOST = "https://api.wandb.ai"


class WandbError(BenchError):
    """W&B refused a run or could not be reached."""


def mode(env: Mapping[str, str]) -> str:
    """WANDB_MODE where it is set, but online only with a key: without one W&B would ask for it."""
    wanted = env.get("WANDB_MODE") or "online"
    return "offline" if wanted in ("online", "run") and not has_key(env) else wanted


def has_key(env: Mapping[str, str]) -> bool:
    """Whether a key is in the environment or where `wandb login` leaves it."""
    if env.get("WANDB_API_KEY") or env.get("WANDB_IDENTITY_TOKEN_FILE"):
        return True
    places = (
        [Path(env["NETRC"])] if env.get("NETRC") else [Path.home() / name for name in (".netrc", "_netrc")]
    )
    host = urlsplit(env.get("WANDB_BASE_URL") or HOST).hostname or ""
    try:
        return any(netrc.netrc(str(p)).authenticators(host) is not None for p in places if p.is_file())
    except (netrc.NetrcParseError, OSError):
        return False


class WandbBackend:
    """One W&B run per record; arm, seed and tenant are columns of each row."""

    def __init__(self, meta: Mapping[str, Any], folder: Path, *, run_id: str | None = None) -> None:
        """Prepares; nothing is opened yet.

        Args:
          meta: run_id, config and arms of the record.
          folder: W&B's own files go into a folder `wandb` in here, never into the run directory.
          run_id: W&B's id of the run where it isn't the record's.
        """
        self._meta, self._folder = meta, folder
        self._id = run_id or str(meta["run_id"]).lower()
        self._run: Any = None

    def start(self) -> None:
        """Opens the run; raises WandbError."""
        wandb = _import("wandb")
        chosen = mode(os.environ)
        if chosen == "offline" and os.environ.get("WANDB_MODE") != "offline":
            sys.stderr.write("wandb: no key, so offline; `wandb sync` sends it later\n")
        self._folder.mkdir(parents=True, exist_ok=True)
        settings = wandb.Settings(
            silent=True,
            console="off",
            # W&B would store the working tree's uncommitted changes
            disable_git=True,
            disable_code=True,
            # sampling the machine takes time from what is being measured
            x_disable_stats=True,
        )
        name = str(self._meta["run_id"])
        try:
            self._run = wandb.init(
                project=PROJECT,
                id=self._id,
                name=name,
                group=name,
                job_type="run",
                config=dict(self._meta["config"]),
                tags=list(self._meta["arms"]),
                dir=str(self._folder),
                mode=chosen,
                resume="allow" if chosen == "online" else None,
                settings=settings,
            )
        except wandb.Error as e:
            raise WandbError(f"wandb: {e}", "WANDB_MODE=offline writes the run here, to be sent later") from e
        for axis, prefixes in AXES.items():
            self._run.define_metric(axis)
            for prefix in prefixes:
                self._run.define_metric(prefix, step_metric=axis)

    @property
    def logged(self) -> int:
        """Rows that the run has: more than none at the start where it is resumed."""
        return int(self._run.step)

    @property
    def place(self) -> str:
        """Where to look at it: the URL, or how to send the folder of an offline run."""
        if self._run.offline or self._run.disabled:
            return f"offline; send it with: wandb sync {Path(self._run.dir).parent}"
        return str(self._run.url)

    def log(self, row: Mapping[str, Any]) -> None:
        """One row, as one history record."""
        self._run.log(dict(row))

    def summary(self, values: Mapping[str, Any]) -> None:
        """Plain scalars."""
        self._run.summary.update(dict(values))

    def finish(self, status: str) -> None:
        """Marks a run that did not succeed as failed."""
        if self._run is not None:
            self._run.finish(exit_code=0 if status == "success" else 1)

    def abandon(self) -> None:
        """Ends W&B's own process, whose exit hook would wait up to 90 s; what it wrote so far can be synced."""
        # W&B has no public way; reading the name takes no lock, which the hanging thread may hold
        connection = getattr(_import("wandb.sdk.wandb_setup")._singleton, "_connection", None)
        if connection is not None and connection._proc is not None:
            connection._cleanup()
            connection._proc._process.kill()


def _import(name: str) -> Any:
    """Imports W&B only once it is needed; by name, since a type checker takes `wandb` for this very file."""
    return importlib.import_module(name)
