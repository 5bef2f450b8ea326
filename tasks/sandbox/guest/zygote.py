"""The warm server inside the sandbox: reads a job, forks a process for it, watches it, answers.

It is the only one with a line to the outside, and no job has that line: jobs get fresh pipes, and the two
descriptors of the line are closed in them. Frames are four bytes of length (big-endian) and JSON.
"""

from __future__ import annotations

# imported here once, so that jobs find them loaded
import bisect  # noqa: F401
import contextlib
import gc
import itertools  # noqa: F401
import json
import os
import select
import signal
import struct
import sys
import time
from typing import Any

import job as jobs  # type: ignore[import-not-found]  # neighbours, on sys.path
import walls  # type: ignore[import-not-found]

_ERROR_TAIL = 2000


def main() -> None:
    """Serves until the line closes."""
    options = json.loads(sys.argv[1])
    # a program that imports `values` or `walls` shall not get ours
    sys.path.pop(0)
    for name in ("job", "walls", "values"):
        del sys.modules[name]
    inbound, outbound = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    abi = 0
    if options["walls"]:
        walls.hide_from_children()
        walls.drop_capabilities()
        walls.no_new_privileges()
        abi = walls.landlock(options["readable"])
    os.chdir("/")
    gc.collect()
    gc.freeze()
    _send(outbound, {"ready": True, "landlock": abi, "pid1": os.getpid() == 1})
    while (request := _receive(inbound)) is not None:
        _send(outbound, _serve(request, options["walls"], (inbound, outbound)))


def _serve(request: dict[str, Any], walled: bool, line: tuple[int, int]) -> dict[str, Any]:
    deadline = time.monotonic() + request["wall_s"]
    if request["kind"] != "stdin":
        parts = [_one(request, b"", deadline, walled, line)]
    else:
        parts = []
        for number, text in enumerate(request["inputs"]):
            part = _one(request, text.encode("utf-8", "surrogatepass"), deadline, walled, line)
            for result in part["lines"]:
                result["case"] = number
            parts.append(part)
            if part["ended"] != "exit":
                break  # the rest would wait as long again
    return {"nonce": request["nonce"], "parts": parts}


def _one(
    request: dict[str, Any], text: bytes, deadline: float, walled: bool, line: tuple[int, int]
) -> dict[str, Any]:
    """Forks one process for the job, feeds and reads it until it ends or passes a limit."""
    given_r, given_w = os.pipe()
    out_r, out_w = os.pipe()
    error_r, error_w = os.pipe()
    result_r, result_w = os.pipe()
    child = os.fork()
    if child == 0:
        _child(request, walled, line, given_r, out_w, error_w, result_w)
    for fd in (given_r, out_w, error_w, result_w):
        os.close(fd)
    os.set_blocking(given_w, False)
    found: dict[int, bytearray] = {out_r: bytearray(), error_r: bytearray(), result_r: bytearray()}
    try:
        ended = _watch(request, text, deadline, found, given_w, error_r)
    finally:
        for fd in found:
            os.close(fd)
    # the job's whole session, and in a process namespace of our own simply everybody else
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)
    os.kill(child, signal.SIGKILL)  # not yet waited for, so the number is still its own
    if os.getpid() == 1:
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)
    _, status, usage = os.wait4(child, 0)
    _reap()
    if ended == "exit" and os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        # "killed": it closed its pipes and went on, so the kill above ended it; or memory ran out
        known = {int(signal.SIGXCPU): "cpu", int(signal.SIGKILL): "killed"}
        ended = known.get(number, f"signal {number}")
    if ended == "killed" and usage.ru_utime + usage.ru_stime >= request["cpu_s"]:
        ended = "cpu"
    lines = _lines(bytes(found[result_r]), request["nonce"])
    return {
        "ended": ended,
        "lines": lines,
        "stdout": found[out_r].decode("utf-8", "replace"),
        "stderr": found[error_r][-_ERROR_TAIL:].decode("utf-8", "replace"),
        "cpu_s": usage.ru_utime + usage.ru_stime,
    }


def _child(
    request: dict[str, Any],
    walled: bool,
    line: tuple[int, int],
    given: int,
    out: int,
    error: int,
    result: int,
) -> None:
    status = 70
    try:
        os.setsid()
        if sys.platform == "linux":
            walls.die_with_parent()
        for source, target in ((given, 0), (out, 1), (error, 2)):
            os.dup2(source, target)
        kept = os.dup2(result, 3)
        os.closerange(4, 256)
        os.environ.clear()
        walls.limit(cpu_s=request["cpu_s"], memory_bytes=request["memory_bytes"])
        if walled:
            walls.seccomp()
        jobs.run(request, kept)
        status = 0
    finally:
        os._exit(status)


def _watch(
    request: dict[str, Any],
    text: bytes,
    deadline: float,
    found: dict[int, bytearray],
    given_w: int,
    error_r: int,
) -> str:
    """Feeds stdin and reads the three pipes; returns what ended it: exit, wall or output."""
    poll = select.poll()
    for fd in found:
        poll.register(fd, select.POLLIN)
    open_fds = set(found)
    writing = bool(text)
    if writing:
        poll.register(given_w, select.POLLOUT)
    else:
        os.close(given_w)
    ended = "exit"
    while open_fds:
        left = deadline - time.monotonic()
        if left <= 0:
            ended = "wall"
            break
        for fd, _ in poll.poll(left * 1000 + 1):
            if fd == given_w:
                try:
                    text = text[os.write(fd, text[:65536]) :]
                except BrokenPipeError:
                    text = b""  # the program reads no more; that is its right
                if not text:
                    poll.unregister(fd)
                    os.close(fd)
                    writing = False
                continue
            data = os.read(fd, 65536)
            if not data:
                poll.unregister(fd)
                open_fds.discard(fd)
                continue
            found[fd] += data
            if fd == error_r:
                del found[fd][:-_ERROR_TAIL]
            elif len(found[fd]) > request["output_bytes"]:
                ended, open_fds = "output", set()
                break
    if writing:
        os.close(given_w)
    return ended


def _lines(data: bytes, nonce: str) -> list[dict[str, Any]]:
    """The job's result lines; what lacks the nonce or isn't whole is nobody's result."""
    lines = []
    for raw in data.split(b"\n"):
        try:
            line = json.loads(raw) if raw else None
        except (ValueError, RecursionError):
            continue
        if isinstance(line, dict) and line.pop("nonce", None) == nonce:
            lines.append(line)
    return lines


def _reap() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _receive(fd: int) -> dict[str, Any] | None:
    head = _exactly(fd, 4)
    if head is None:
        return None
    body = _exactly(fd, struct.unpack(">I", head)[0])
    return None if body is None else json.loads(body)


def _exactly(fd: int, count: int) -> bytes | None:
    data = b""
    while len(data) < count:
        more = os.read(fd, count - len(data))
        if not more:
            return None
        data += more
    return data


def _send(fd: int, message: dict[str, Any]) -> None:
    body = json.dumps(message).encode()
    data = struct.pack(">I", len(body)) + body
    while data:
        data = data[os.write(fd, data) :]


if __name__ == "__main__":
    main()
