"""Mirrors of a run. The record is the truth; a tracker can be rebuilt from it."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.errors import DependencyError
from bench.trackers.base import NoTracker, Threaded, Tracker

__all__ = ["Tracker", "check", "chosen", "headline", "open_tracker"]


def chosen(name: str, env: Mapping[str, str]) -> str:
    """'auto' is W&B where a key or WANDB_MODE is set, and nothing elsewhere."""
    if name != "auto":
        return name
    return "wandb" if env.get("WANDB_API_KEY") or env.get("WANDB_MODE") else "none"


def check(name: str) -> None:
    """Raises DependencyError for a tracker whose package is missing, before anything is spent."""
    if chosen(name, os.environ) == "wandb" and importlib.util.find_spec("wandb") is None:
        raise DependencyError(
            "tracker wandb: the package is not installed", "pip install wandb, or --tracker none"
        )


def open_tracker(name: str, *, meta: Mapping[str, Any], directory: Path) -> Tracker:
    """The tracker of a run; its own files go into a folder `wandb` beside the run directory."""
    if chosen(name, os.environ) == "none":
        return NoTracker()
    from bench.trackers.wandb import WandbBackend

    return Threaded(WandbBackend(meta, directory.resolve().parent))


def headline(results: Mapping[str, Any]) -> dict[str, float | None]:
    """The scalars of a run's results that a tracker shows beside the curves."""
    shown: dict[str, float | None] = {}
    for arm, pair in results["comparison"]["arms"].items():
        shown |= {f"headline/{arm}/{name}": pair[name] for name in ("speedup", "time_reduction")}
    for run in results["runs"]:
        place, figures = f"headline/{run['arm']}.s{run['seed']}", run["metrics"]
        shown |= {f"{place}/t_work_s": figures["t_work"], f"{place}/util_busy": figures["util_busy"]}
    return shown
