"""Mirrors of a run. The record is the truth; a tracker can be rebuilt from it."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.errors import DependencyError, UsageError
from bench.trackers.base import Backend, NoTracker, Threaded, Tracker

__all__ = ["NAMES", "Tracker", "check", "chosen", "open_tracker"]

NAMES = ("auto", "none", "wandb", "trackio", "tensorboard")
PACKAGES = {
    "wandb": ("wandb", "pip install wandb"),
    "trackio": ("trackio", "pip install 'async-rl-bench[trackio]'"),
    "tensorboard": ("tensorboardX", "pip install 'async-rl-bench[tensorboard]'"),
}
"""By tracker: the package it needs, and how to get it."""


MODES = ("online", "offline", "shared", "disabled", "dryrun", "run")


def chosen(name: str, env: Mapping[str, str]) -> str:
    """'auto' is W&B where a key or WANDB_MODE is set, and nothing elsewhere."""
    if name != "auto":
        return name
    return "wandb" if env.get("WANDB_API_KEY") or env.get("WANDB_MODE") else "none"


def check(name: str) -> None:
    """Before anything is spent: DependencyError where a tracker's package is missing, UsageError for a wrong mode."""
    mode = os.environ.get("WANDB_MODE")
    if chosen(name, os.environ) == "wandb" and mode and mode not in MODES:
        raise UsageError(f"WANDB_MODE={mode} is no mode of W&B", f"there are {', '.join(MODES)}")
    package, install = PACKAGES.get(tracker := chosen(name, os.environ), ("", ""))
    if package and importlib.util.find_spec(package) is None:
        what = f"tracker {tracker}: the package {package} is not installed"
        raise DependencyError(what, f"{install}, or --tracker none")


def open_tracker(name: str, header: Mapping[str, Any], directory: Path) -> Tracker:
    """The tracker of a run; its own files go into a folder of its name beside the run directory.

    Args:
      name: one of NAMES.
      header: run.json as it is before the first arm.
      directory: the run directory, which itself gets nothing.
    """
    backend = _backend(chosen(name, os.environ), header, directory.resolve().parent)
    return NoTracker() if backend is None else Threaded(backend)


def _backend(name: str, header: Mapping[str, Any], folder: Path) -> Backend | None:
    """Imported here: a run needs one of them at most."""
    if name == "wandb":
        from bench.trackers.wandb import WandbBackend

        return WandbBackend(header, folder)
    if name == "trackio":
        from bench.trackers.trackio import TrackioBackend

        return TrackioBackend(header)
    if name == "tensorboard":
        from bench.trackers.tensorboard import TensorboardBackend

        return TensorboardBackend(header, folder)
    return None
