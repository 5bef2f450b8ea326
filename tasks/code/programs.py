"""What the tasks share whose answer is a program: reading it, and the size of a change."""

from __future__ import annotations

import difflib

from tasks import protocol
from tasks.sandbox import Limits, Program
from tasks.spec import Grade
from tasks.verify.code import HiddenTests, grade_program, source_of

MAX_PROGRAM_CHARS = 8000


def grade_source(
    text: str,
    tests: HiddenTests,
    *,
    kind: str = "function",
    entry_point: str = "f",
    setup: str = "",
    limits: Limits | None = None,
) -> Grade:
    """Reads the one answer of a turn as a program and runs it on the hidden tests."""
    answer = protocol.read_answer(text, max_chars=MAX_PROGRAM_CHARS)
    if answer.text is None:
        assert answer.status is not None
        return Grade(reward=0.0, status=answer.status, detail=answer.detail)
    source = source_of(answer.text)
    program = Program(kind=kind, source=source, entry_point=entry_point, setup=setup)  # type: ignore[arg-type]
    return grade_program(program, tests, limits=limits)


def changed_lines(before: str, after: str) -> int:
    """How many lines of `before` were replaced or dropped, or added to it, whichever is more."""
    matcher = difflib.SequenceMatcher(a=before.splitlines(), b=after.splitlines(), autojunk=False)
    return sum(max(i2 - i1, j2 - j1) for tag, i1, i2, j1, j2 in matcher.get_opcodes() if tag != "equal")
