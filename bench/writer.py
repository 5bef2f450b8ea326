"""The thread that writes a record, so that no dispatch of the trainer waits for a disk."""

from __future__ import annotations

import math
import os
import queue
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bench.errors import RecordingError

QUEUED = 20_000
"""Jobs that may wait. A full queue blocks the trainer: a record with holes is worth nothing."""


class LineFile:
    """An append-only file that never ends in a torn line, but for a crash of the machine."""

    def __init__(self, path: Path, *, keep: int | None = None) -> None:
        """Makes a new file; or goes on with one that is there, of which so many bytes are kept."""
        self._path = path
        new = os.O_CREAT | os.O_EXCL if keep is None else 0
        self._fd = os.open(path, os.O_WRONLY | new | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._size = keep or 0
        os.ftruncate(self._fd, self._size)

    @property
    def size(self) -> int:
        """Bytes of whole lines."""
        return self._size

    def append(self, line: bytes) -> None:
        """Writes one line; OSError leaves the file as it was."""
        data = memoryview(line + b"\n")
        try:
            while data:
                data = data[os.write(self._fd, data) :]
        except OSError as error:
            os.ftruncate(self._fd, self._size)
            error.filename = str(self._path)
            raise
        self._size += len(line) + 1

    @property
    def closed(self) -> bool:
        """True after `close`."""
        return self._fd < 0

    def sync(self) -> None:
        """Returns once all lines are on the disk."""
        os.fsync(self._fd)

    def close(self) -> None:
        """Closes the file; twice is once."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class Writer:
    """Does jobs in order on one thread. After the first that fails it does none; callers get the error."""

    def __init__(self) -> None:
        self._jobs: queue.Queue[Callable[[], None] | None] = queue.Queue(QUEUED)
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._work, name="record writer", daemon=True)
        self._thread.start()

    def put(self, job: Callable[[], None]) -> None:
        """Queues a job.

        Raises:
          RecordingError: an earlier job failed; nothing is written any more.
        """
        self._check()
        self._jobs.put(job)

    def drain(self) -> None:
        """Returns once every job queued before is done; raises as `put`."""
        self._jobs.join()
        self._check()

    def close(self) -> None:
        """Does what is queued and ends the thread; raises as `put`. Twice is once."""
        self.stop()
        self._check()

    def stop(self) -> None:
        """As `close`, but says nothing of what failed."""
        if self._thread.is_alive():
            self._jobs.put(None)
            self._thread.join()

    def _check(self) -> None:
        if isinstance(self._error, OSError):
            what = f"{self._error.filename or 'the record'} cannot be written: {self._error.strerror}"
            raise RecordingError(what, "free some space, or name another --out") from self._error
        if self._error is not None:
            raise RecordingError(f"the record cannot be written: {self._error}") from self._error

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                if self._error is None:
                    job()
            except Exception as error:  # noqa: BLE001 kept, and raised on the thread that owns the run
                self._error = error
            finally:
                self._jobs.task_done()
        self._jobs.task_done()


def strict(value: Any, on_nonfinite: Callable[[], None]) -> Any:
    """A JSON value without NaN and infinities: each becomes null and is told to `on_nonfinite`."""
    if isinstance(value, float) and not math.isfinite(value):
        on_nonfinite()
        return None
    if isinstance(value, Mapping):
        return {str(key): strict(part, on_nonfinite) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [strict(part, on_nonfinite) for part in value]
    return value
