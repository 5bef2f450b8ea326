"""`run`: a program in, plain results out. The servers behind it are warm, shared by all threads and replaced
when one is lost.

The trust runs one way. Only inputs go in; what comes back is data, compared elsewhere with what was expected.
An exit status proves nothing, and a result that is missing or doubled makes the whole run void.
"""

from __future__ import annotations

import atexit
import functools
import os
import queue
import secrets
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tasks.sandbox import levels
from tasks.sandbox.guest.values import UnplainError, decode, encode
from tasks.sandbox.levels import Level
from tasks.sandbox.program import CaseResult, Inputs, Limits, Program, RunResult, SandboxError, Verdict
from tasks.sandbox.server import Server, ServerLost

_MAX_SERVERS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Capability:
    """The level this machine runs programs at, and why not at a higher one."""

    level: Level
    landlock_abi: int
    why_not: tuple[str, ...]

    def __str__(self) -> str:
        walls = {
            Level.L2: f"bubblewrap, Landlock {self.landlock_abi}, seccomp, limits",
            Level.L1: f"Landlock {self.landlock_abi}, seccomp, limits",
            Level.L0: "limits only",
        }
        return f"{self.level} ({walls[self.level]})"


def run(
    program: Program, inputs: Inputs, limits: Limits | None = None, level: Level | None = None
) -> RunResult:
    """Runs a program on every input in the sandbox.

    Safe from any thread; waits while all servers are busy. `level` None is the strongest that this machine
    has, or what BENCH_SANDBOX names.

    Raises:
      SandboxError: there is no such sandbox here, or it failed through no fault of the program.
      UnplainError: an input is no plain data.
    """
    limits = limits or Limits()
    request: dict[str, Any] = {
        "nonce": secrets.token_hex(16),
        "kind": program.kind,
        "source": program.source,
        "setup": program.setup,
        "entry_point": program.entry_point,
        "inputs": [encode(list(given)) if program.kind == "function" else given for given in inputs],
        "cpu_s": limits.cpu_s,
        "wall_s": limits.wall_s,
        "memory_bytes": limits.memory_bytes,
        "output_bytes": limits.output_bytes,
    }
    pool = _pool(level or capability().level)
    try:
        answer = pool.ask(request)
    except ServerLost as lost:
        # once may be the machine's doing; twice, each time in a fresh server, is the program's
        try:
            answer = pool.ask(request, fresh=True)
        except ServerLost:
            return RunResult(
                verdict=Verdict.CRASHED, cases=(), level=pool.level, detail=f"the server: {lost}"
            )
    return _result(program, len(inputs), answer["parts"], pool.level)


@functools.cache
def capability() -> Capability:
    """Finds the strongest level that starts here and holds against a few probes.

    Raises:
      SandboxError: neither L2 nor L1 can be had and L0 was not asked for, or the level asked for can't be had.
    """
    asked = levels.wanted()
    why_not: list[str] = []
    for level in (asked,) if asked else (Level.L2, Level.L1):
        try:
            with_walls = _probe(level)
        except SandboxError as error:
            why_not.append(str(error))
            continue
        return Capability(level=level, landlock_abi=with_walls, why_not=tuple(why_not))
    raise SandboxError(
        f"No sandbox for model-written code on this machine: {'; '.join(why_not)}. Install bubblewrap or use "
        f"a kernel with Landlock (5.13 or later); or set {levels.LEVEL_VARIABLE}=L0 to run such code with "
        "limits only: it can then read and change what you can, and no board takes the results."
    )


_PROBE = """
import ctypes, os, socket
def reaches():
    found = []
    def tried(name, action):
        try:
            action()
        except (OSError, ValueError):
            return
        found.append(name)
    tried("a host file", lambda: open("/etc/hostname").read() and open("/etc/passwd").read())
    tried("a socket", lambda: socket.socket())
    tried("a new process", lambda: os._exit(0) if os.fork() == 0 else None)
    tried("a signal to its parent", lambda: os.kill(os.getppid() or 1, 0))
    tried("a new file", lambda: open("/tmp/probe", "w"))
    tried("a new file here", lambda: open("probe", "w"))
    return found
"""


def _probe(level: Level) -> int:
    server = Server(level)
    try:
        if level is Level.L0:
            return 0
        request = {
            "nonce": "probe",
            "kind": "function",
            "source": _PROBE,
            "setup": "",
            "entry_point": "reaches",
        }
        limits = {"cpu_s": 2, "wall_s": 10.0, "memory_bytes": 1 << 30, "output_bytes": 1 << 16}
        result = _result(
            Program(kind="function", source=_PROBE),
            1,
            server.ask(request | limits | {"inputs": [[]]})["parts"],
            level,
        )
        reached = result.cases[0].value if result.cases else f"no answer ({result.verdict}: {result.detail})"
        if reached != []:
            raise SandboxError(f"level {level} does not hold here: a program reaches {reached}")
        return server.landlock_abi
    except ServerLost as lost:
        raise SandboxError(f"level {level} does not answer: {lost}") from lost
    finally:
        server.close()


class _Pool:
    """Servers of one level, started when needed; at most one a core."""

    def __init__(self, level: Level) -> None:
        self.level = level
        self._lock = threading.Lock()  # guards _all: calls come from many threads
        self._all: set[Server] = set()
        self._free: queue.SimpleQueue[Server | None] = queue.SimpleQueue()
        for _ in range(max(1, min(os.cpu_count() or 1, _MAX_SERVERS))):
            self._free.put(None)

    def ask(self, request: dict[str, Any], *, fresh: bool = False) -> dict[str, Any]:
        """Asks a free server, waiting for one; `fresh` starts a new one in its place."""
        server = self._free.get()
        try:
            if fresh and server is not None:
                self._drop(server)
                server = None
            if server is None:
                server = Server(self.level)
                with self._lock:
                    self._all.add(server)
            return server.ask(request)
        except ServerLost:
            assert server is not None
            self._drop(server)
            server = None
            raise
        finally:
            self._free.put(server)

    def close(self) -> None:
        with self._lock:
            servers = tuple(self._all)
        for server in servers:
            self._drop(server)

    def _drop(self, server: Server) -> None:
        with self._lock:
            self._all.discard(server)
        server.close()


_pools: dict[Level, _Pool] = {}
_pools_lock = threading.Lock()


def _pool(level: Level) -> _Pool:
    with _pools_lock:
        if level not in _pools:
            _pools[level] = _Pool(level)
        return _pools[level]


@atexit.register
def shut_down() -> None:
    """Ends all servers; the next run starts new ones."""
    with _pools_lock:
        pools = tuple(_pools.values())
        _pools.clear()
    for pool in pools:
        pool.close()


def _forget() -> None:
    # a forked process shares its parent's pipes: it leaves those servers alone and starts its own
    global _pools_lock
    _pools_lock = threading.Lock()
    _pools.clear()


os.register_at_fork(after_in_child=_forget)

_ENDED = {"wall": Verdict.TIMEOUT, "cpu": Verdict.TIMEOUT, "output": Verdict.OUTPUT_LIMIT}


def _result(program: Program, count: int, parts: Sequence[dict[str, Any]], level: Level) -> RunResult:
    cpu_s = sum(part["cpu_s"] for part in parts)
    last = parts[-1] if parts else {"stdout": "", "stderr": "", "ended": "exit"}

    def void(verdict: Verdict, detail: str) -> RunResult:
        return RunResult(
            verdict=verdict,
            cases=(),
            level=level,
            detail=detail,
            stdout=last["stdout"],
            stderr=last["stderr"],
            cpu_s=cpu_s,
        )

    lines = [line for part in parts for line in part["lines"]]
    for line in lines:
        if "case" not in line:
            return void(Verdict.ERROR, str(line.get("error")))
    for part in parts:
        if part["ended"] in _ENDED:
            return void(_ENDED[part["ended"]], f"{part['ended']} limit")
        if part["ended"] != "exit":
            return void(Verdict.CRASHED, f"ended by {part['ended']}")
    by_case: dict[int, dict[str, Any]] = {}
    for line in lines:
        if line["case"] in by_case:
            return void(Verdict.NO_RESULT, f"two results for input {line['case']}")
        by_case[line["case"]] = line
    if set(by_case) != set(range(count)):
        return void(Verdict.NO_RESULT, f"{len(by_case)} results for {count} inputs")
    outputs = [part["stdout"] for part in parts] if program.kind == "stdin" else [""] * count
    cases = tuple(_case(by_case[number], outputs[number]) for number in range(count))
    return RunResult(
        verdict=Verdict.OK,
        cases=cases,
        level=level,
        stdout=last["stdout"],
        stderr=last["stderr"],
        cpu_s=cpu_s,
    )


def _case(line: dict[str, Any], stdout: str) -> CaseResult:
    if "error" in line:
        return CaseResult(error=str(line["error"]), stdout=stdout)
    try:
        return CaseResult(value=decode(line.get("value")), stdout=stdout)
    except UnplainError as error:
        return CaseResult(error=f"not a result: {error}", stdout=stdout)
