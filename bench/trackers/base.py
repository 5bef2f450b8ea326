"""A tracker mirrors the rows of metrics.jsonl somewhere else. It can neither stop nor slow a run."""

from __future__ import annotations

import queue
import sys
import threading
from collections.abc import Mapping
from typing import Any, Protocol

QUEUED_ROWS = 1_000
FINISH_S = 10.0


class Tracker(Protocol):
    """What a run calls, always from one thread."""

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
    """A service's client, called on the tracker's own thread alone."""

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
        """Closes the run at the service."""
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
    that raises is not called again; one that hangs is left behind at the deadline (the thread is a daemon).
    """

    def __init__(self, backend: Backend, *, rows: int = QUEUED_ROWS, finish_s: float = FINISH_S) -> None:
        self._backend, self._finish_s = backend, finish_s
        self._queue: queue.Queue[tuple[str, Any]] = queue.Queue(rows)
        self.dropped = 0
        self.error: str | None = None
        self._thread = threading.Thread(target=self._work, name="tracker", daemon=True)
        self._thread.start()

    def log(self, row: Mapping[str, Any]) -> None:
        """Queues a row, or drops it."""
        self._put("log", dict(row))

    def summary(self, values: Mapping[str, Any]) -> None:
        """Queues the headline."""
        self._put("summary", dict(values))

    def finish(self, status: str) -> str:
        """Waits for the backend until the deadline; 'ok', or what went wrong."""
        try:
            self._queue.put(("finish", status), timeout=self._finish_s)
        except queue.Full:
            return f"left behind: no answer for {self._finish_s:g} s"
        self._thread.join(self._finish_s)
        if self._thread.is_alive():
            return f"left behind: did not finish within {self._finish_s:g} s"
        if self.error is not None:
            return f"failed: {self.error}"
        return "ok" if not self.dropped else f"ok, {self.dropped} rows dropped (the queue was full)"

    def _put(self, what: str, value: Any) -> None:
        if self.error is not None:
            return
        try:
            self._queue.put_nowait((what, value))
        except queue.Full:
            self.dropped += 1

    def _work(self) -> None:
        try:
            self._backend.start()
            while True:
                what, value = self._queue.get()
                getattr(self._backend, what)(value)
                if what == "finish":
                    return
        except Exception as e:  # noqa: BLE001 - the border: a tracker's fault must not reach the run
            self.error = f"{type(e).__name__}: {e}"
            sys.stderr.write(f"warning: tracker stopped ({self.error}); the record is complete without it\n")
