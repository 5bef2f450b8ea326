"""A pool of killable processes for computations that may never end.

No signals in this process, so it works from any thread: a request goes to a child as one line of JSON, and a
child that misses its deadline is killed, reaped and replaced at the next request.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import queue
import select
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

START_TIMEOUT_S = 60.0
"""Importing a computer algebra system on a loaded machine; paid once a child, outside a request's limit."""


class WorkerTimeout(Exception):
    """The computation passed its limit; its process is gone."""


class WorkerFailure(Exception):
    """The child died or could not do what was asked; the message says why."""


class WorkerPool:
    """At most `size` children of one script; callers beyond that wait their turn."""

    def __init__(self, script: Path, *, size: int = 2) -> None:
        self._script = script
        self._size = size
        self._reset()
        atexit.register(self.close)
        # a forked process has pipes of its parent's children: it leaves them alone and starts its own
        os.register_at_fork(after_in_child=self._reset)

    def _reset(self) -> None:
        self._free: queue.SimpleQueue[_Child | None] = queue.SimpleQueue()
        for _ in range(self._size):
            self._free.put(None)
        self._lock = threading.Lock()  # guards _children: calls come from many threads
        self._children: set[_Child] = set()

    @property
    def pids(self) -> frozenset[int]:
        """Processes that are alive now."""
        with self._lock:
            return frozenset(child.process.pid for child in self._children)

    def call(self, request: dict[str, Any], *, timeout_s: float) -> Any:
        """Runs one request in a child.

        Raises:
          WorkerTimeout: the limit passed.
          WorkerFailure: the child died, or answered with an error.
        """
        child = self._free.get()
        try:
            if child is None or child.process.poll() is not None:
                self._forget(child)
                child = None
                child = self._start()
            answer = child.ask(request | {"timeout_s": timeout_s}, timeout_s)
        except (WorkerTimeout, WorkerFailure):
            self._forget(child)
            child = None
            raise
        finally:
            self._free.put(child)
        if "error" in answer:
            raise WorkerFailure(answer["error"])
        return answer["value"]

    def close(self) -> None:
        """Kills all children; the pool starts new ones if it is used again."""
        with self._lock:
            children = tuple(self._children)
        for child in children:
            self._forget(child)

    def _start(self) -> _Child:
        child = _Child(self._script)
        with self._lock:
            self._children.add(child)
        try:
            child.read(START_TIMEOUT_S)
        except (WorkerTimeout, WorkerFailure):
            self._forget(child)
            raise
        return child

    def _forget(self, child: _Child | None) -> None:
        if child is None:
            return
        with self._lock:
            self._children.discard(child)
        child.kill()


class _Child:
    def __init__(self, script: Path) -> None:
        # -P: the script's own folder has a numbers.py, which must not hide the library's
        self.process = subprocess.Popen(
            [sys.executable, "-P", str(script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"PATH": os.environ.get("PATH", ""), "PYTHONHASHSEED": "0"} | _python_path(),
        )
        self._buffer = b""

    def ask(self, request: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError as error:
            raise WorkerFailure("the verifier's process is gone") from error
        return self.read(timeout_s)

    def read(self, timeout_s: float) -> dict[str, Any]:
        assert self.process.stdout is not None
        deadline = time.monotonic() + timeout_s
        descriptor = self.process.stdout.fileno()
        while b"\n" not in self._buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([descriptor], [], [], left)[0]:
                raise WorkerTimeout(f"no verdict within {timeout_s:g} s")
            piece = os.read(descriptor, 65_536)
            if not piece:
                raise WorkerFailure("the verifier's process died")
            self._buffer += piece
        line, _, self._buffer = self._buffer.partition(b"\n")
        return json.loads(line)

    def kill(self) -> None:
        self.process.kill()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None and not pipe.closed:
                # an unsent request dies with its process
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
        self.process.wait()


def _python_path() -> dict[str, str]:
    path = os.environ.get("PYTHONPATH")
    return {"PYTHONPATH": path} if path else {}
