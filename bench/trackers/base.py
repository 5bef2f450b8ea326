"""A tracker mirrors the rows of metrics.jsonl somewhere else. It can neither stop nor slow a run."""

from __future__ import annotations

import queue
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

QUEUED_ROWS = 1_000
FINISH_S = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Named columns of plain values."""

    columns: tuple[str, ...]
    rows: list[list[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Conclusion:
    """What a mirror gets once the record is whole; keys are labels `<arm>.s<seed>`."""

    summary: Mapping[str, Mapping[str, float | bool | str | None]]
    """Scalars to show beside the curves: headline/*, parity/*."""
    tables: Mapping[str, Table]
    """Of each (arm, seed), the items of its last evaluation, capped."""
    files: tuple[Path, ...]
    """Small files of the record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mirrored:
    """What became of a mirror; run.json keeps it under `tracker`."""

    status: str
    """'off', 'ok', or what went wrong."""
    rows: int = 0
    """Handed to the service's client."""
    dropped: int = 0
    """Found the queue full; the record has them."""

    @property
    def complete(self) -> bool:
        """Whether the mirror shows the whole run."""
        return self.status == "ok" and not self.dropped


class Tracker(Protocol):
    """What a run calls, from one thread at a time; no call raises, and only `finish` waits."""

    def log(self, row: Mapping[str, Any]) -> None:
        """One row of metrics.jsonl, after it is on its way to disk."""
        ...

    def conclude(self, make: Callable[[], Conclusion]) -> None:
        """What is known only at the end; at most once, before `finish`. Not made where nothing mirrors."""
        ...

    def finish(self, status: str) -> Mirrored:
        """Ends the mirror."""
        ...


class Backend(Protocol):
    """A service's client, called on the tracker's own thread alone; it may raise, and it may hang."""

    def start(self) -> None:
        """Opens the service."""
        ...

    def log(self, row: Mapping[str, Any]) -> None:
        """One row."""
        ...

    def conclude(self, conclusion: Conclusion) -> None:
        """Summary, tables, files: as much of them as the service has a place for."""
        ...

    def finish(self, status: str) -> None:
        """Closes what is open; called after a fault too, and then also if `start` failed."""
        ...

    def abandon(self) -> None:
        """Lets go of what would delay the end of the process; called on the run's thread, while this one hangs."""
        ...


class NoTracker:
    """Mirrors nothing."""

    def log(self, row: Mapping[str, Any]) -> None:
        """Ignored."""

    def conclude(self, make: Callable[[], Conclusion]) -> None:
        """Ignored."""

    def finish(self, status: str) -> Mirrored:
        """Always 'off'."""
        return Mirrored(status="off")


class Threaded:
    """A backend on a thread of its own, behind a bounded queue.

    Rows that find the queue full are dropped from the mirror and counted; the record has them all. A backend
    that raises is closed and gets no further rows; one that hangs is left behind at the deadline.
    """

    def __init__(self, backend: Backend, *, rows: int = QUEUED_ROWS, finish_s: float = FINISH_S) -> None:
        self._backend, self._finish_s = backend, finish_s
        self._queue: queue.Queue[tuple[str, Any]] = queue.Queue(rows)
        self._conclusion: Conclusion | None = None
        self._sent = self._dropped = 0
        self.error: str | None = None
        self._late: str | None = None
        # a daemon, so that a hanging backend doesn't keep the process
        self._thread = threading.Thread(target=self._work, name="tracker", daemon=True)
        self._thread.start()

    def log(self, row: Mapping[str, Any]) -> None:
        """Queues a row, or drops it."""
        try:
            if self.error is None:
                self._queue.put_nowait(("log", dict(row)))
        except queue.Full:
            self._dropped += 1

    def conclude(self, make: Callable[[], Conclusion]) -> None:
        """Kept until the end, so that a full queue cannot lose it."""
        try:
            self._conclusion = make()
        except Exception as e:  # noqa: BLE001 - the same border; said at the end, the rows still go out
            self._late = _fault(e)

    def finish(self, status: str) -> Mirrored:
        """Waits for the backend until the deadline."""
        deadline = time.monotonic() + self._finish_s
        self._queue_end(status, deadline)
        self._thread.join(max(0.0, deadline - time.monotonic()))
        if self._thread.is_alive():
            self._guarded(self._backend.abandon)
            self._report(f"left behind: no answer within {self._finish_s:g} s")
        if self._late is not None:
            self._report(self._late)
        if self._dropped:
            dropped = f"{self._dropped} rows dropped (the queue was full)"
            sys.stderr.write(f"warning: tracker: {dropped}; the record has them\n")
        return Mirrored(status=self.error or "ok", rows=self._sent, dropped=self._dropped)

    def _queue_end(self, status: str, deadline: float) -> None:
        """In slices, since a backend that raises meanwhile reads no queue any more."""
        while self.error is None and (left := deadline - time.monotonic()) > 0:
            try:
                self._queue.put(("finish", status), timeout=min(left, 0.05))
                return
            except queue.Full:
                continue

    def _work(self) -> None:
        if not self._guarded(self._backend.start) or not self._guarded(self._mirror):
            self._guarded(lambda: self._backend.finish("failed"))

    def _mirror(self) -> None:
        while True:
            what, value = self._queue.get()
            if what == "log":
                self._backend.log(value)
                self._sent += 1
                continue
            if self._conclusion is not None:
                self._backend.conclude(self._conclusion)
            self._backend.finish(value)
            return

    def _guarded(self, call: Callable[[], object]) -> bool:
        try:
            call()
        except Exception as e:  # noqa: BLE001 - the border: a tracker's fault must not reach the run
            self._report(_fault(e))
            return False
        return True

    def _report(self, error: str) -> None:
        """Keeps and shows the first fault; those after it follow from it."""
        if self.error is None:
            self.error = error
            sys.stderr.write(f"warning: tracker {error}; the record is complete without it\n")


def _fault(error: Exception) -> str:
    return f"failed: {type(error).__name__}: {' '.join(str(error).split())[:300]}"
