from __future__ import annotations

import math
import subprocess
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks import sandbox
from tasks.sandbox import Limits, Program, SandboxError
from tasks.spec import GradeStatus
from tasks.verify import code
from tasks.verify.code import HiddenTests, grade_program, same, same_output, source_of


def graded(source: str, inputs: list[Any], expected: list[Any], name: str = "f", kind: Any = "function"):
    program = Program(kind=kind, source=source, entry_point=name)
    return grade_program(
        program, HiddenTests(inputs=inputs, expected=expected), limits=Limits(cpu_s=2, wall_s=5)
    )


def test_a_right_program_is_paid_and_says_where_it_ran():
    grade = graded("def f(a): return a + 1", [[1], [2]], [2, 3])
    assert (grade.reward, grade.status, grade.detail) == (1.0, GradeStatus.CORRECT, "2 of 2 tests")
    assert grade.sandbox == sandbox.capability().level


@pytest.mark.parametrize(
    ("source", "inputs", "expected"),
    [
        pytest.param("import os\nos._exit(0)", [[1]], [1], id="code-001"),
        pytest.param("class Solution:\n    def f(self,a): return 7", [[1]], [[7, 8]], id="code-004"),
        pytest.param("class Solution:\n    def f(self,a): return 1", [[1]], [True], id="code-005"),
        pytest.param("def f(x): raise ValueError('failed call')", [[1]], [""], id="code-019"),
        pytest.param("def f(x): raise ValueError('failed call')", [[1]], [None], id="code-019 None"),
        pytest.param(
            "import subprocess\nsubprocess.run = lambda *a, **k: 1\ndef f(x): return 0",
            [[1]],
            [1],
            id="code-021",
        ),
        pytest.param("pass", [[1]], [1], id="mt-007"),
        pytest.param("def f(x): return [1, 2]", [[1]], [(1, 2)], id="list for tuple"),
        pytest.param("def f(x): return {1: 2}", [[1]], [{1: 3}], id="dict"),
        pytest.param("def f(x): return '1'", [[1]], [1], id="text for number"),
        pytest.param("def f(x): return x", [[1], [2]], [1, 3], id="some tests only"),
        pytest.param("", [[1]], [1], id="empty"),
    ],
)
def test_these_earn_nothing(source: str, inputs: list[Any], expected: list[Any]):
    assert graded(source, inputs, expected).reward == 0.0


def test_an_exit_before_reading_earns_nothing_on_standard_input():
    """Case code-001 as it was: a program of stdin tests."""
    grade = graded("import os\nos._exit(0)", ["1 2\n"], ["3\n"], kind="stdin")
    assert (grade.reward, grade.status) == (0.0, GradeStatus.WRONG)
    assert "no_result" in grade.detail


def test_an_empty_output_is_right_only_if_the_program_ended_well():
    assert graded("import os\nos._exit(0)", [""], [""], kind="stdin").reward == 0.0
    assert graded("raise ValueError", [""], [""], kind="stdin").reward == 0.0
    assert graded("pass", [""], [""], kind="stdin").reward == 1.0


def test_a_grandchild_does_not_outlive_its_run():
    """Case code-022."""
    source = "import subprocess,time\nsubprocess.Popen(['sleep','3601'])\ntime.sleep(60)"
    assert graded(source, [[]], [1]).reward == 0.0
    assert "sleep 3601" not in subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout


def test_no_python_is_malformed():
    assert graded("def f(:", [[1]], [1]).status is GradeStatus.MALFORMED


def test_several_right_outputs_are_for_the_checker():
    tests = HiddenTests(inputs=["6\n"], check=lambda number, out: sorted(out.split()) == ["2", "3"])
    for text, reward in (("2 3", 1.0), ("3 2", 1.0), ("6 1", 0.0)):
        assert grade_program(Program(kind="stdin", source=f"print('{text}')"), tests).reward == reward


def test_a_broken_sandbox_is_nobodys_reward(monkeypatch: pytest.MonkeyPatch):
    def broken(*args: Any, **kwargs: Any) -> Any:
        raise SandboxError("no walls")

    monkeypatch.setattr(code.sandbox, "run", broken)
    grade = graded("def f(a): return a", [[1]], [1])
    assert (grade.reward, grade.status, grade.detail) == (0.0, GradeStatus.GRADER_ERROR, "no walls")


def test_tests_that_would_pass_everything_are_refused():
    with pytest.raises(ValueError, match="at least one input"):
        HiddenTests(inputs=[], expected=[])
    with pytest.raises(ValueError, match="2 inputs have 1 expected"):
        HiddenTests(inputs=[1, 2], expected=[1])


def test_grading_works_off_the_main_thread():
    found: list[float] = []
    thread = threading.Thread(target=lambda: found.append(graded("def f(a): return a", [[1]], [1]).reward))
    thread.start()
    thread.join()
    assert found == [1.0]


@pytest.mark.parametrize(
    ("got", "expected", "equal"),
    [
        (1, True, False),
        (True, True, True),
        (1, 1.0, True),
        (0.1 + 0.2, 0.3, True),
        (0.30001, 0.3, False),
        (math.nan, math.nan, True),
        (math.inf, math.inf, True),
        (math.inf, -math.inf, False),
        (10**400, math.inf, False),
        (10**400, 1.0, False),
        (1e-300, 2e-300, False),
        ({0.1 + 0.2: 1}, {0.3: 1}, True),
        ({(0.1 + 0.2, 1)}, {(0.3, 1)}, True),
        ({1, 2}, {2, 1}, True),
        ({1, 2}, {1}, False),
        ({"a": [1.0]}, {"a": [1]}, True),
        ([True], [1], False),
        ({True: 1}, {1: 1}, False),
        (1 + 2j, 1 + 2j, True),
        (b"a", b"a", True),
        (b"a", "a", False),
        (None, None, True),
        (None, 0, False),
    ],
)
def test_data_is_compared_by_type_and_value(got: Any, expected: Any, equal: bool):
    assert same(got, expected) is equal
    assert same(expected, got) is equal


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=8,
)


@given(VALUES, VALUES)
def test_comparison_is_total_reflexive_and_symmetric(a: Any, b: Any):
    assert same(a, a)
    assert same(a, b) is same(b, a)


@pytest.mark.parametrize(
    ("got", "expected", "equal"),
    [
        ("3\n", "3", True),
        ("3 \n\n", "3\n", True),
        ("3", "33", False),
        ("1\n2", "1 2", False),
        (" 3", "3", False),
    ],
)
def test_outputs_differ_in_nothing_but_blanks_at_ends(got: str, expected: str, equal: bool):
    assert same_output(got, expected) is equal


@pytest.mark.parametrize(
    "answer", ["x = 1", "```python\nx = 1\n```", "```\nx = 1\n```", "  ```py\nx = 1\n```\n"]
)
def test_a_fence_is_no_part_of_the_program(answer: str):
    assert source_of(answer) == "x = 1"
