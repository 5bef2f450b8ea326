"""One sandbox server as its owner sees it: a child process behind two pipes, killed when it does not answer."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import struct
import subprocess
import time
from typing import Any

from tasks.sandbox import levels
from tasks.sandbox.levels import Level
from tasks.sandbox.program import SandboxError

_START_S = 30.0
_GRACE_S = 5.0
"""What an answer may take past the job's own wall limit, on a loaded machine."""
_MAX_FRAME = 256 << 20


class ServerLost(Exception):
    """The server died or stopped answering; whether the job did it is for the caller to find out."""


class Server:
    """A warm server of one level. Not for two threads at once."""

    def __init__(self, level: Level) -> None:
        """Starts it and waits until it is ready.

        Raises:
          SandboxError: it did not start; says why.
        """
        self.level = level
        command = levels.command(level)
        options = {"walls": level is not Level.L0, "readable": levels.readable()}
        self._process = subprocess.Popen(
            [*command.argv, json.dumps(options)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=command.env,
            start_new_session=True,
        )
        try:
            ready = self._receive(time.monotonic() + _START_S)
        except ServerLost as lost:
            self._process.kill()
            said = self._said() or str(lost)
            self.close()
            raise SandboxError(f"level {level} did not start: {said}") from lost
        self.landlock_abi: int = ready["landlock"]

    @property
    def pid(self) -> int:
        """Of the process that was started; at L2 it is the wrapper."""
        return self._process.pid

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Runs one job.

        Raises:
          ServerLost: no answer within the job's wall limit and some grace. The server must be closed.
        """
        body = json.dumps(request).encode()
        deadline = time.monotonic() + request["wall_s"] + _GRACE_S
        self._send(struct.pack(">I", len(body)) + body, deadline)
        answer = self._receive(deadline)
        if answer.get("nonce") != request["nonce"]:
            raise ServerLost("it answered another job")
        return answer

    def close(self) -> None:
        """Kills the server and with it all it made; returns when it is gone."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()

    def _said(self) -> str:
        assert self._process.stderr is not None
        return (self._process.stderr.read().decode(errors="replace").strip().splitlines() or [""])[-1]

    def _send(self, data: bytes, deadline: float) -> None:
        assert self._process.stdin is not None
        fd = self._process.stdin.fileno()
        os.set_blocking(fd, False)
        while data:
            if not _within(fd, select.POLLOUT, deadline):
                raise ServerLost("it takes no more work")
            try:
                data = data[os.write(fd, data) :]
            except BrokenPipeError as error:
                raise ServerLost("it is gone") from error

    def _receive(self, deadline: float) -> dict[str, Any]:
        length = struct.unpack(">I", self._exactly(4, deadline))[0]
        if length > _MAX_FRAME:
            raise ServerLost(f"it announced an answer of {length} bytes")
        return json.loads(self._exactly(length, deadline))

    def _exactly(self, count: int, deadline: float) -> bytes:
        assert self._process.stdout is not None
        fd = self._process.stdout.fileno()
        parts: list[bytes] = []
        while count:
            if not _within(fd, select.POLLIN, deadline):
                raise ServerLost("it does not answer")
            data = os.read(fd, min(count, 1 << 20))
            if not data:
                raise ServerLost("it is gone")
            parts.append(data)
            count -= len(data)
        return b"".join(parts)


def _within(fd: int, event: int, deadline: float) -> bool:
    # poll, not select: a trainer's process may have more than 1024 files open
    poller = select.poll()
    poller.register(fd, event)
    return bool(poller.poll(max(0.0, deadline - time.monotonic()) * 1000))
