"""Requests to a running loop, from any thread, served between two of its rounds."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from tunix_core.errors import ConfigError


class Inbox:
    """While the loop is closed (not running) a request is served at once, in the asker's thread."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._running = False
        self._gate = threading.Lock()

    def __bool__(self) -> bool:
        """Whether a request waits."""
        return bool(self._waiting)

    def ask(self, call: Callable[[], Any]) -> Future[Any]:
        """The call's result, or the ConfigError it raised; any other error of it belongs to the loop."""
        future: Future[Any] = Future()
        with self._gate:
            self._waiting.append((future, call))
            if not self._running:
                self.serve()
        return future

    def serve(self) -> bool:
        """Answers what waits; whether anything did. The loop calls this in its own thread."""
        served = False
        while self._waiting:
            future, call = self._waiting.popleft()
            if not future.set_running_or_notify_cancel():
                continue
            served = True
            try:
                future.set_result(call())
            except ConfigError as error:
                future.set_exception(error)
        return served

    def open(self) -> None:
        """The loop runs from now on, and serves."""
        with self._gate:
            self._running = True

    def close(self) -> None:
        """The loop has ended; what it did not come to is cancelled."""
        with self._gate:
            self._running = False
            for future, _ in self._waiting:
                future.cancel()
            self._waiting.clear()
