"""Progress on stderr: a live line on a terminal, now and then a line elsewhere."""

from __future__ import annotations

import os
import sys
import time
from collections import defaultdict

from bench.config import RunConfig
from tunix_core.types import UpdateReport

EVERY_S = 15.0


class Progress:
    """Counts updates of the running (arm, seed) and says where it stands."""

    def __init__(self, config: RunConfig, *, enabled: bool = True) -> None:
        self._config, self._enabled = config, enabled
        self._live = enabled and sys.stderr.isatty() and not os.environ.get("CI")
        self._name = ""
        self._started = self._said = time.monotonic()
        self._updates: dict[str, int] = {}
        self._rewards: dict[str, float] = {}
        self._staleness: dict[int, int] = {}

    def note(self, text: str) -> None:
        """A line of its own."""
        if self._enabled:
            sys.stderr.write(("\r\x1b[2K" if self._live else "") + text + "\n")
            sys.stderr.flush()

    def begin(self, arm: str, seed: int) -> None:
        """A new (arm, seed)."""
        self._name = f"{arm} seed {seed}"
        self._started = self._said = time.monotonic()
        self._updates, self._rewards, self._staleness = {}, {}, defaultdict(int)
        self.note(f"{self._name}: setting up")

    def update(self, report: UpdateReport) -> None:
        """One tenant's update."""
        self._updates[report.tenant_id] = report.version_after
        self._rewards[report.tenant_id] = report.reward_mean
        for age, n in report.staleness.items():
            self._staleness[age] += n
        now = time.monotonic()
        if not self._enabled or (not self._live and now - self._said < EVERY_S):
            return
        self._said = now
        total = sum(self._staleness.values())
        mean = sum(a * n for a, n in self._staleness.items()) / total if total else 0.0
        shown = "  ".join(
            f"{name} {done}/{self._config.updates} reward {self._rewards[name]:.2f}"
            for name, done in self._updates.items()
        )
        line = f"{self._name}: {now - self._started:5.0f} s  {shown}  staleness {mean:.2f}"
        if self._live:
            width = os.get_terminal_size(sys.stderr.fileno()).columns
            sys.stderr.write("\r\x1b[2K" + line[: width - 1])
        else:
            sys.stderr.write(line + "\n")
        sys.stderr.flush()
