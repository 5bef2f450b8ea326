"""Progress on stderr: a live panel on a terminal, a line now and then elsewhere, or nothing."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import IO, TYPE_CHECKING, Self

from bench.config import RunConfig
from tunix_core.types import UpdateReport

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table

EVERY_S = 15.0
PARTS = 10
"""Lines of a run that is faster than one in EVERY_S."""


def is_live(stream: IO[str], env: Mapping[str, str]) -> bool:
    """Whether a panel that redraws itself is welcome."""
    return stream.isatty() and not env.get("CI") and env.get("TERM") != "dumb"


class Progress:
    """Counts updates of the running (arm, seed) and says where it stands. Called by the thread of the run."""

    def __init__(
        self,
        config: RunConfig,
        *,
        enabled: bool = True,
        stream: IO[str] | None = None,
        env: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._config, self._enabled, self._clock = config, enabled, clock
        self._stream = sys.stderr if stream is None else stream
        self._is_live = enabled and is_live(self._stream, os.environ if env is None else env)
        self._live: Live | None = None
        self._total = config.updates * (config.tenants or len(config.tasks))
        self._name = ""
        self._reset()

    def __enter__(self) -> Self:
        """Opens the panel, where there is one."""
        if self._is_live:
            from rich.console import Console
            from rich.live import Live

            console = Console(file=self._stream)
            live = Live(self._panel(), console=console, refresh_per_second=4, transient=True)
            live.start()
            self._live = live
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Takes the panel off the screen."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def note(self, text: str) -> None:
        """A line that stays."""
        if not self._enabled:
            return
        if self._live is not None:
            self._live.console.print(text, highlight=False, markup=False)
        else:
            self._stream.write(text + "\n")
            self._stream.flush()

    def begin(self, arm: str, seed: int) -> None:
        """A new (arm, seed)."""
        self._name = f"{arm} seed {seed}"
        self._reset()
        self.note(f"{self._name}: compiling")
        self._redraw()

    def update(self, report: UpdateReport) -> None:
        """One tenant's update."""
        if self._first is None:
            self._first = self._clock()
        self._done[report.tenant_id] = report.version_after
        self._rewards[report.tenant_id] = report.reward_mean
        for age, count in report.staleness.items():
            self._tokens += count
            self._age += age * count
        now, part = self._clock(), PARTS * sum(self._done.values()) // self._total
        if self._live is None and (now - self._said >= EVERY_S or part > self._said_part):
            self._said, self._said_part = now, part
            self.note(self.line())
        self._redraw()

    @property
    def share(self) -> float:
        """How much of the (arm, seed) is done, 0 to 1; the slowest tenants count as much as the others."""
        return sum(self._done.values()) / self._total

    def line(self) -> str:
        """Where the (arm, seed) stands."""
        shown = ", ".join(
            f"{name} {done}/{self._config.updates} reward {self._rewards[name]:.2f}"
            for name, done in self._done.items()
        )
        left = self._left()
        eta = "" if left is None else f", {left:.0f} s to go"
        return f"{self._name}: {100 * self.share:.0f} %, staleness {self.staleness:.2f}{eta}; {shown}"

    @property
    def staleness(self) -> float:
        """Mean over the tokens learnt so far."""
        return self._age / self._tokens if self._tokens else 0.0

    def _left(self) -> float | None:
        """Seconds to go, by the pace since the first update."""
        if self._first is None or not 0 < self.share < 1:
            return None
        since_first = sum(self._done.values()) - 1
        if not since_first:
            return None
        return (self._clock() - self._first) * (self._total - since_first - 1) / since_first

    def _reset(self) -> None:
        self._said, self._said_part = self._clock(), 0
        self._first: float | None = None
        self._done: dict[str, int] = {}
        self._rewards: dict[str, float] = {}
        self._tokens = self._age = 0

    def _redraw(self) -> None:
        if self._live is not None:
            self._live.update(self._panel())

    def _panel(self) -> Table:
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        left = self._left()
        title = f"{self._name or 'bench run'}  staleness {self.staleness:.2f}"
        panel = Table(
            title=title + ("" if left is None else f"  {left:.0f} s to go"), title_justify="left", box=None
        )
        for name in ("tenant", "", "updates", "reward"):
            panel.add_column(name)
        for name, done in self._done.items():
            bar = ProgressBar(total=self._config.updates, completed=done, width=30)
            panel.add_row(name, bar, f"{done}/{self._config.updates}", f"{self._rewards[name]:.2f}")
        return panel
