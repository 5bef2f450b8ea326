"""Runs programs that nobody has read: Python from a policy, behind walls, on inputs; plain data comes back.

Levels, and what each stops and does not stop, are described in ``docs/sandbox.md``.
"""

from tasks.sandbox.guest.values import UnplainError
from tasks.sandbox.levels import LEVEL_VARIABLE, Level
from tasks.sandbox.program import CaseResult, Limits, Program, RunResult, SandboxError, Verdict
from tasks.sandbox.runner import Capability, capability, run, shut_down

__all__ = [
    "LEVEL_VARIABLE",
    "Capability",
    "CaseResult",
    "Level",
    "Limits",
    "Program",
    "RunResult",
    "SandboxError",
    "UnplainError",
    "Verdict",
    "capability",
    "run",
    "shut_down",
]
