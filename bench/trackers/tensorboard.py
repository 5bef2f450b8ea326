"""TensorBoard, by tensorboardX: one folder per (arm, seed) and tenant, scalars over the tenant's updates."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.trackers.base import Conclusion
from bench.trackers.conclusion import label


class TensorboardBackend:
    """Writes event files into `tensorboard/<run id>` beside the run directory; nothing leaves the machine."""

    def __init__(self, header: Mapping[str, Any], folder: Path) -> None:
        self._root = folder / "tensorboard" / str(header["run_id"])
        self._writers: dict[str, Any] = {}

    def start(self) -> None:
        """Makes the folder."""
        self._root.mkdir(parents=True, exist_ok=True)

    def log(self, row: Mapping[str, Any]) -> None:
        """Every number of the row, but its axes: TensorBoard has one, and the updates are it."""
        writer = self._writer(f"{label(row['arm'], row['seed'])}/{row['tenant']}")
        for key, value in row.items():
            if "/" in key and not key.startswith(("work/", "time/")) and isinstance(value, int | float):
                writer.add_scalar(key, value, int(row["work/updates"]))
        writer.add_scalar("time/wall_s", row["time/wall_s"], int(row["work/updates"]))

    def conclude(self, conclusion: Conclusion) -> None:
        """The numbers of the summary at step 0; tables and files have no place here."""
        for name, scalars in conclusion.summary.items():
            for key, value in scalars.items():
                if isinstance(value, int | float):
                    self._writer(name).add_scalar(key, float(value), 0)

    def finish(self, status: str) -> None:
        """Writes out and closes the files."""
        del status
        for writer in self._writers.values():
            writer.close()

    def abandon(self) -> None:
        """Nothing of it outlives the process."""

    def _writer(self, place: str) -> Any:
        if place not in self._writers:
            writer = importlib.import_module("tensorboardX").SummaryWriter
            self._writers[place] = writer(logdir=str(self._root / place))
        return self._writers[place]
