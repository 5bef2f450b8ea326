"""Grades programs by hidden tests: the sandbox returns plain data, and the comparison is made here.

Nothing of a program's own takes part in the verdict: no exit status, no object of its own classes, no file.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from tasks import sandbox
from tasks.sandbox import Limits, Program, RunResult, Verdict
from tasks.spec import Grade, GradeStatus

REL_TOL = 1e-9
"""Floats are equal within this, relative: other orders of summation are no mistake."""

_FENCED = re.compile(r"\A\s*```(?:python|py)?[ \t]*\n(.*?)\n?```\s*\Z", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class HiddenTests:
    """Inputs and what they must give. Only the inputs ever enter the sandbox.

    Where an input has several right outputs, `check` decides: it gets the number of the test and the value
    (or output) and says whether it is right; `expected` is then ignored.
    """

    inputs: Sequence[Any]
    expected: Sequence[Any] = ()
    check: Callable[[int, Any], bool] | None = None
    rel_tol: float = REL_TOL

    def __post_init__(self) -> None:
        if not self.inputs:
            raise ValueError("Hidden tests need at least one input: no test would pass every program.")
        if self.check is None and len(self.expected) != len(self.inputs):
            raise ValueError(f"{len(self.inputs)} inputs have {len(self.expected)} expected results.")


def source_of(answer: str) -> str:
    """Returns the program of an answer: without the fence of a Markdown block, if it is one."""
    fenced = _FENCED.match(answer)
    return fenced.group(1) if fenced else answer


def grade_program(
    program: Program, tests: HiddenTests, *, limits: Limits | None = None, level: sandbox.Level | None = None
) -> Grade:
    """Runs a program on the hidden inputs and compares; never raises on any program.

    Returns:
      1.0 and CORRECT where every test passes; else 0.0 with MALFORMED (no Python), WRONG, or GRADER_ERROR
      where the sandbox failed, which is no fault of the program.
    """
    try:
        result = sandbox.run(program, tests.inputs, limits, level)
    except sandbox.SandboxError as error:
        return Grade(reward=0.0, status=GradeStatus.GRADER_ERROR, detail=str(error))
    passed, why = judge(result, tests, stdin=program.kind == "stdin")
    if all(passed) and passed:
        status = GradeStatus.CORRECT
    elif result.verdict is Verdict.ERROR and why.startswith(("SyntaxError", "IndentationError", "TabError")):
        status = GradeStatus.MALFORMED
    else:
        status = GradeStatus.WRONG
    return Grade(
        reward=1.0 if status is GradeStatus.CORRECT else 0.0,
        status=status,
        detail=f"{sum(passed)} of {len(tests.inputs)} tests{why and f': {why}'}",
        answer=program.source,
        sandbox=result.level,
    )


def judge(result: RunResult, tests: HiddenTests, *, stdin: bool) -> tuple[list[bool], str]:
    """Compares a run with the tests.

    Returns:
      Whether each test passed (empty where the run is void), and why the first one didn't.
    """
    if result.verdict is not Verdict.OK:
        return (
            [],
            f"{result.verdict}: {result.detail}" if result.verdict is not Verdict.ERROR else result.detail,
        )
    passed: list[bool] = []
    why = ""
    for number, case in enumerate(result.cases):
        got = case.stdout if stdin else case.value
        # an error has no value: it is equal to nothing, whatever was expected
        right = case.error is None and (
            tests.check(number, got)
            if tests.check
            else same_output(got, tests.expected[number])
            if stdin
            else same(got, tests.expected[number], tests.rel_tol)
        )
        passed.append(right)
        if not right and not why:
            why = f"test {number + 1}: {case.error or f'{got!r:.80}'}"
    return passed, why


def same(got: Any, expected: Any, rel_tol: float = REL_TOL) -> bool:
    """Whether two plain values are the same data.

    As Python's ``==``, but for three rules: a bool is no number; floats are equal within `rel_tol`, and NaN is
    NaN; sets and dicts may differ in order only. Lists and tuples differ, as they do in Python.
    """
    if isinstance(got, bool) or isinstance(expected, bool):
        return got is expected
    if isinstance(got, float) or isinstance(expected, float):
        if not isinstance(got, int | float) or not isinstance(expected, int | float):
            return False
        return _close(got, expected, rel_tol)
    if isinstance(got, complex) and isinstance(expected, complex):
        return _close(got.real, expected.real, rel_tol) and _close(got.imag, expected.imag, rel_tol)
    if isinstance(got, list | tuple) and type(got) is type(expected):
        return len(got) == len(expected) and all(map(lambda a, b: same(a, b, rel_tol), got, expected))
    if isinstance(got, dict) and isinstance(expected, dict):
        pairs = _paired(got, expected, rel_tol)
        return pairs is not None and all(same(got[a], expected[b], rel_tol) for a, b in pairs)
    if isinstance(got, set | frozenset) and isinstance(expected, set | frozenset):
        return _paired(got, expected, rel_tol) is not None
    return type(got) is type(expected) and got == expected


def same_output(got: str, expected: str) -> bool:
    """Whether two outputs have the same lines; blanks at the ends of lines and of the text don't count."""
    return _lines(got) == _lines(expected)


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.rstrip().splitlines()]


def _close(a: float, b: float, rel_tol: float) -> bool:
    if isinstance(a, float) and isinstance(b, float) and math.isnan(a) and math.isnan(b):
        return True
    # an int past the range of floats is equal to no float, and converting it would raise
    if max(abs(a), abs(b)) > 1e308:
        return a == b
    return math.isclose(a, b, rel_tol=rel_tol)


def _paired(got: Collection[Any], expected: Collection[Any], rel_tol: float) -> list[tuple[Any, Any]] | None:
    """Pairs the members of two sets, or the keys of two dicts; None where one has no partner."""
    if len(got) != len(expected):
        return None
    stored = {one: one for one in expected}  # True is found where 1 is stored: `same` tells them apart
    pairs = []
    for one in got:
        partner = stored.get(one, stored)
        if partner is stored and _has_float(one):
            partner = next((other for other in expected if same(one, other, rel_tol)), stored)
        if partner is stored or not same(one, partner, rel_tol):
            return None
        pairs.append((one, partner))
    return pairs


def _has_float(value: Any) -> bool:
    if isinstance(value, tuple | frozenset):
        return any(map(_has_float, value))
    return isinstance(value, float | complex)
