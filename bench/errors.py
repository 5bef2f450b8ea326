"""Errors a user can act on, each with its exit code, and the one place where exceptions become sentences."""

from __future__ import annotations

import enum
import errno
from dataclasses import dataclass


class Exit(enum.IntEnum):
    """What the process ends with."""

    OK = 0
    """Everything asked for was done."""
    FAILED = 1
    """A task or a run failed."""
    USAGE = 2
    """A flag, key, value or path that cannot work."""
    REJECTED = 3
    """Verification refused a record."""
    REQUIRED = 4
    """What a --require-… option asks for is not so: parity failed or could not be shown, a mirror has gaps."""
    THRESHOLD = 5
    """A comparison missed the threshold it was given."""
    MISSING = 6
    """A package, file, device or credential is missing."""
    INTERRUPTED = 7
    """Stopped on request; what was recorded until then is readable, and `bench resume` goes on."""
    SIGINT = 130
    """Stopped by SIGINT before anything was saved."""
    SIGTERM = 143
    """Stopped by SIGTERM before anything was saved."""


class Terminated(KeyboardInterrupt):
    """A second SIGTERM: at once."""


class BenchError(Exception):
    """Base; `exit_code` is what the process ends with, `hint` what to do."""

    exit_code = Exit.FAILED

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class UsageError(BenchError):
    """A flag, a key or a value that cannot work."""

    exit_code = Exit.USAGE


class DependencyError(BenchError):
    """Something is missing: a package, a file, a credential."""

    exit_code = Exit.MISSING


class RejectedError(BenchError):
    """A record that cannot be trusted or read."""

    exit_code = Exit.REJECTED


class RecordingError(BenchError):
    """The run directory could not be written any further."""


def ended(status: str, reason: str) -> str:
    """How a run came to its end, for the middle of a sentence."""
    if status == "running":
        return "was cut off: its process was killed, or is still at work"
    return f"ended with status {status}" + (f": {reason}" if reason else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """An error as a user sees it."""

    message: str
    hint: str
    exit_code: int
    expected: bool
    """False for a defect of this program: a report should carry the traceback."""

    def line(self) -> str:
        """One line for stderr."""
        return " ".join(f"error: {self.message}".split()) + (f" (hint: {self.hint})" if self.hint else "")

    def as_dict(self) -> dict[str, object]:
        """The JSON document of an error."""
        error = {"message": self.message, "hint": self.hint, "exit_code": int(self.exit_code)}
        return {"schema": "bench.error/1", "ok": False, "error": error}


def fault_of(error: BaseException) -> Fault:
    """Turns an exception of any part into what a user sees."""
    if isinstance(error, BenchError):
        return Fault(message=str(error), hint=error.hint, exit_code=error.exit_code, expected=True)
    if isinstance(error, Terminated):
        return Fault(message="terminated", hint="", exit_code=Exit.SIGTERM, expected=True)
    if isinstance(error, KeyboardInterrupt):
        return Fault(message="interrupted", hint="", exit_code=Exit.SIGINT, expected=True)
    if isinstance(error, ModuleNotFoundError) and not _own(error.name):
        hint = f"install it: pip install {(error.name or '').partition('.')[0]}"
        message = f"the package {error.name!r} is not installed"
        return Fault(message=message, hint=hint, exit_code=Exit.MISSING, expected=True)
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES):
        hint = "free some space, or name another folder"
        message = f"{error.filename or 'a file'}: {error.strerror}"
        return Fault(message=message, hint=hint, exit_code=Exit.FAILED, expected=True)
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        message = f"{error.filename}: {error.strerror[:1].lower()}{error.strerror[1:]}"
        return Fault(message=message, hint="name another path", exit_code=Exit.USAGE, expected=True)
    code = _code_of_parts(error)
    if code is not None:
        return Fault(message=str(error), hint="", exit_code=code, expected=True)
    hint = "a defect of bench: run it again with --debug and report the traceback"
    message = f"internal error: {type(error).__name__}: {error}"
    return Fault(message=message, hint=hint, exit_code=Exit.FAILED, expected=False)


def of_bench(error: Exception) -> BenchError | None:
    """An error of another part as one of this module, with the same exit code; None for one that nobody foresaw."""
    if isinstance(error, BenchError):
        return error
    fault = fault_of(error)
    if not fault.expected:
        return None
    kinds: dict[int, type[BenchError]] = {
        kind.exit_code: kind for kind in (UsageError, DependencyError, RejectedError)
    }
    return kinds.get(fault.exit_code, BenchError)(fault.message, fault.hint)


def _own(name: str | None) -> bool:
    return (name or "").partition(".")[0] in ("bench", "leaderboard", "tasks", "tunix_core")


def _code_of_parts(error: BaseException) -> Exit | None:
    """Exit codes of the other packages' errors; imported here, since only a failing command pays for it."""
    from leaderboard.errors import RecordError
    from tasks.data.sources import DataError
    from tasks.fixtures import FixtureError
    from tasks.latency import LatencyError
    from tasks.registry import TaskFileError, UnknownTaskError
    from tasks.sandbox import SandboxError
    from tunix_core.errors import AssetError, ConfigError, TunixError

    codes = (
        (UnknownTaskError, Exit.USAGE),
        (TaskFileError, Exit.USAGE),
        (FixtureError, Exit.FAILED),
        (SandboxError, Exit.MISSING),
        (LatencyError, Exit.USAGE),
        (ConfigError, Exit.USAGE),
        (DataError, Exit.MISSING),
        (AssetError, Exit.MISSING),
        (RecordError, Exit.REJECTED),
        (TunixError, Exit.FAILED),
    )
    return next((code for kind, code in codes if isinstance(error, kind)), None)
