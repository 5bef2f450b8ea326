"""trackio: a local store and a viewer without an account. One run per (arm, seed), one after another."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from typing import Any

from bench.trackers.base import Conclusion
from bench.trackers.conclusion import label


class TrackioBackend:
    """Writes where trackio keeps its projects (TRACKIO_DIR)."""

    def __init__(self, header: Mapping[str, Any]) -> None:
        self._header = header
        self._runs: dict[str, Any] = {}

    def start(self) -> None:
        """Opens the first run."""
        importlib.import_module("trackio")
        for name, module in list(sys.modules.items()):
            if name.partition(".")[0] == "trackio":
                # it talks on stdout, which is for the run's result
                vars(module)["print"] = _say_nothing
        self._open(*self._header["order"][0])

    def log(self, row: Mapping[str, Any]) -> None:
        """One row; trackio counts steps itself and keeps every row, its axes among them."""
        self._open(row["arm"], row["seed"]).log(dict(row))

    def conclude(self, conclusion: Conclusion) -> None:
        """The summary as one more row: trackio has no other place for it."""
        for name, run in self._runs.items():
            if scalars := conclusion.summary.get(name):
                run.log(dict(scalars))

    def finish(self, status: str) -> None:
        """Waits until everything is stored."""
        del status
        for run in self._runs.values():
            run.finish()

    def abandon(self) -> None:
        """Its threads are daemons: nothing keeps the process."""

    def _open(self, arm: str, seed: int) -> Any:
        name = label(arm, seed)
        if name not in self._runs:
            header = self._header
            self._runs[name] = importlib.import_module("trackio").init(
                project=f"bench-v{header['suite_version']}",
                name=f"{header['run_id']}.{name}",
                group=header["run_id"],
                config={**header["config"], "record": {"arm": arm, "seed": seed}},
                embed=False,
                # sampling the machine takes time from what is being measured
                auto_log_gpu=False,
                auto_log_cpu=False,
            )
        return self._runs[name]


def _say_nothing(*args: object, **kwargs: object) -> None:
    """In place of trackio's `print`."""
