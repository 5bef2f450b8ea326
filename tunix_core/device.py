"""The device's own thread: one piece of work at a time, beside the loop that decides what comes next."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable


class DeviceThread:
    """Does what it is given while its owner goes on; the owner hears of the end through `on_done`, and then `end`s it.

    With `inline` the work is done within `end`, in the owner's thread: everything then happens in one order only.
    """

    def __init__(self, on_done: Callable[[], None], *, inline: bool = False) -> None:
        """`on_done` is called in the device's thread."""
        self._on_done, self._inline = on_done, inline
        self._work: Callable[[], None] | None = None
        self._then: Callable[[], bool] | None = None
        self._error: BaseException | None = None
        self._ended = threading.Event()
        self._given: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    @property
    def busy(self) -> bool:
        """Whether there is work that has not been ended."""
        return self._work is not None

    @property
    def done(self) -> bool:
        """Whether `end` would not wait."""
        return self._work is not None and (self._inline or self._ended.is_set())

    def begin(self, work: Callable[[], None], then: Callable[[], bool]) -> None:
        """Starts `work`; `then` belongs to the owner, who calls it through `end`."""
        assert self._work is None, "one piece of work at a time"
        self._work, self._then = work, then
        if self._inline:
            return
        if self._thread is None:
            # a daemon: a device that hangs can't keep the process alive
            self._thread = threading.Thread(target=self._serve, name="device", daemon=True)
            self._thread.start()
        self._given.put(work)

    def end(self) -> bool:
        """Waits for the work, raises what it raised, and returns what `then` says."""
        work, then = self._work, self._then
        assert work is not None and then is not None, "nothing was begun"
        if self._inline:
            self._do(work)
        self._ended.wait()
        self._ended.clear()
        self._work = self._then = None
        error, self._error = self._error, None
        if error is not None:
            raise error
        return then()

    def close(self, timeout_s: float) -> None:
        """Lets the thread go when its work is over, or after so long; what the work found is dropped."""
        if self._thread is not None:
            self._given.put(None)
            self._thread.join(timeout_s)
            self._thread = None
        self._work = self._then = self._error = None
        self._ended.clear()

    def _serve(self) -> None:
        while (work := self._given.get()) is not None:
            self._do(work)
            self._on_done()

    def _do(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - handed to the owner, who raises it
            self._error = error
        self._ended.set()
