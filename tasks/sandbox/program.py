"""What is run in the sandbox, within which limits, and what comes back."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal


class SandboxError(Exception):
    """The sandbox itself cannot be had or failed: never the program's fault, and never a reward."""


class Verdict(enum.StrEnum):
    """How a run ended. Anything but `OK` means that some input has no result."""

    OK = "ok"
    """Every input has exactly one outcome: a value, an output, or the program's own exception."""
    NO_RESULT = "no_result"
    """The process ended without an outcome for every input, e.g. by ``os._exit(0)``."""
    ERROR = "error"
    """The program could not be loaded: a syntax error, or an exception at import."""
    TIMEOUT = "timeout"
    """CPU or wall time ran out."""
    OUTPUT_LIMIT = "output_limit"
    """It wrote more than is kept."""
    CRASHED = "crashed"
    """A signal ended it: a segmentation fault, or the kernel for want of memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """Source text and how it is called.

    kind:
      function: ``entry_point(*args)`` for each input, a sequence of plain values; also a method of a class
        ``Solution``.
      expression: each input is the source of an expression, evaluated beside the program.
      stdin: the program is run as ``__main__`` once for each input, a text on its standard input.
    """

    kind: Literal["function", "expression", "stdin"]
    source: str
    entry_point: str = ""
    setup: str = ""
    """Trusted source run before the program in the same namespace: imports and helpers of the tests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Of one run. CPU time judges the program; wall time only ends what waits."""

    cpu_s: int = 2
    """Seconds of CPU time, a process. The machine's speed is in it: see `for_reference`."""
    wall_s: float = 10.0
    memory_bytes: int = 1 << 30
    """Address space of the process, the interpreter included."""
    output_bytes: int = 1 << 20
    """Most that is read from standard output, and from the results."""

    @classmethod
    def for_reference(cls, reference_cpu_s: float) -> Limits:
        """Limits for a task whose reference solution took so long here: ten times that, at least 2 s."""
        cpu_s = max(2, -int(-10 * reference_cpu_s // 1))
        return cls(cpu_s=cpu_s, wall_s=max(10.0, 3.0 * cpu_s))


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseResult:
    """The outcome of one input: a value (kinds function, expression), an output (stdin), or an error."""

    value: Any = None
    stdout: str = ""
    error: str | None = None
    """The exception's type and text; an error is never equal to any value or output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """What a run gave. `cases` has one entry an input where `verdict` is OK, and is empty otherwise."""

    verdict: Verdict
    cases: tuple[CaseResult, ...]
    level: str
    detail: str = ""
    stdout: str = ""
    """Of kinds function and expression, for the reader; never graded."""
    stderr: str = ""
    cpu_s: float = 0.0


Inputs = Sequence[Sequence[Any]] | Sequence[str]
