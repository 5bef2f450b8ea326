"""A tracker mirrors the rows of metrics.jsonl somewhere else. It can neither stop nor slow a run."""

from __future__ import annotations

import queue
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any, Protocol

QUEUED_ROWS = 1_000
FINISH_S = 10.0


class Tracker(Protocol):
    """What a run calls, from one thread at a time; no call raises, and only `finish` waits."""

    def log(self, row: Mapping[str, Any]) -> None:
        """One row of metrics.jsonl, after it is on its way to disk."""
        ...

    def summary(self, values: Mapping[str, Any]) -> None:
        """Headline scalars."""
        ...

    def finish(self, status: str) -> str:
        """Ends the mirror; returns what became of it."""
        ...


class Backend(Protocol):
    """A service's client, called on the tracker's own thread alone; it may raise, and it may hang."""

    def start(self) -> None:
        """Opens the run at the service."""
        ...

    def log(self, row: Mapping[str, Any]) -> None:
        """One row."""
        ...

    def summary(self, values: Mapping[str, Any]) -> None:
        """Headline scalars."""
        ...

    def finish(self, status: str) -> None:
        """Closes the run at the service; called after a fault too, and then also if `start` failed."""
        ...

    def abandon(self) -> None:
        """Lets go of what would delay the end of the process; called on the run's thread, while this one hangs."""
        ...


class NoTracker:
    """Mirrors nothing."""

    def log(self, row: Mapping[str, Any]) -> None:
        """Ignored."""

    def summary(self, values: Mapping[str, Any]) -> None:
        """Ignored."""

    def finish(self, status: str) -> str:
        """Always 'off'."""
        return "off"


class Threaded:
    """A backend on a thread of its own, behind a bounded queue.

    Rows that find the queue full are dropped from the mirror and counted; the record has them all. A backend
    that raises is closed and gets no further rows; one that hangs is left behind at the deadline.
    """

    def __init__(self, backend: Backend, *, rows: int = QUEUED_ROWS, finish_s: float = FINISH_S) -> None:
        self._backend, self._finish_s = backend, finish_s
        self._queue: queue.Queue[tuple[str, Any]] = queue.Queue(rows)
        self._summary: dict[str, Any] = {}
        self.dropped = 0
        self.error: str | None = None
        # a daemon, so that a hanging backend doesn't keep the process
        self._thread = threading.Thread(target=self._work, name="tracker", daemon=True)
        self._thread.start()

    def log(self, row: Mapping[str, Any]) -> None:
        """Queues a row, or drops it."""
        try:
            if self.error is None:
                self._queue.put_nowait(("log", dict(row)))
        except queue.Full:
            self.dropped += 1

    def summary(self, values: Mapping[str, Any]) -> None:
        """Kept until the end, so that a full queue cannot lose it."""
        self._summary |= values

    def finish(self, status: str) -> str:
        """Waits for the backend until the deadline; 'ok', or what went wrong."""
        deadline = time.monotonic() + self._finish_s
        self._queue_end(status, deadline)
        self._thread.join(max(0.0, deadline - time.monotonic()))
        if self._thread.is_alive():
            self._guarded(self._backend.abandon)
            self._report(f"left behind: no answer within {self._finish_s:g} s")
        if self.error is not None:
            return self.error
        return "ok" if not self.dropped else f"ok, {self.dropped} rows dropped (the queue was full)"

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
                continue
            self._backend.summary(self._summary)
            self._backend.finish(value)
            return

    def _guarded(self, call: Any) -> bool:
        try:
            call()
        except Exception as e:  # noqa: BLE001 - the border: a tracker's fault must not reach the run
            self._report(f"failed: {type(e).__name__}: {' '.join(str(e).split())[:300]}")
            return False
        return True

    def _report(self, error: str) -> None:
        """Keeps and shows the first fault; those after it follow from it."""
        if self.error is None:
            self.error = error
            sys.stderr.write(f"warning: tracker {error}; the record is complete without it\n")
