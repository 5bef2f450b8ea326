from __future__ import annotations

import os
import signal
import sys
import threading
from typing import Any

import pytest

from tasks import sandbox
from tasks.sandbox import Level, Limits, Program, SandboxError, Verdict, levels, runner
from tasks.sandbox.server import Server


def function(source: str, name: str = "f", **more: Any) -> Program:
    return Program(kind="function", source=source, entry_point=name, **more)


def stdin(source: str) -> Program:
    return Program(kind="stdin", source=source)


def test_values_come_back_as_they_are(level: Level):
    given = [
        None,
        True,
        3,
        2.5,
        "é",
        [1],
        (1, 2),
        {1, 2},
        {"a": (1,)},
        b"x",
        1 + 2j,
        frozenset({3}),
        10**1000,
    ]
    result = sandbox.run(function("def f(x):\n    return x"), [[one] for one in given], level=level)
    assert result.verdict is Verdict.OK
    assert [case.value for case in result.cases] == given
    assert [type(case.value) for case in result.cases] == [type(one) for one in given]
    assert result.level == level


def test_an_error_has_its_own_channel_and_the_other_inputs_go_on(level: Level):
    result = sandbox.run(function("def f(x):\n    return 10 // x"), [[5], [0], [2]], level=level)
    assert [case.value for case in result.cases] == [2, None, 5]
    assert [case.error for case in result.cases] == [
        None,
        "ZeroDivisionError: integer division or modulo by zero",
        None,
    ]


def test_a_solution_may_be_a_method():
    result = sandbox.run(function("class Solution:\n    def f(self, a):\n        return a + 1"), [[1]])
    assert result.cases[0].value == 2


def test_expressions_are_evaluated_beside_the_program():
    program = Program(
        kind="expression", source="def f(x):\n    return helper(x)", setup="def helper(x): return -x"
    )
    result = sandbox.run(program, ["f(3)", "[f(x) for x in range(2)]", "missing(1)"])
    assert [case.value for case in result.cases[:2]] == [-3, [0, -1]]
    assert result.cases[2].error == "NameError: name 'missing' is not defined"


@pytest.mark.parametrize(
    ("source", "verdict", "detail"),
    [
        ("def f(x:", Verdict.ERROR, "SyntaxError"),
        ("1 / 0", Verdict.ERROR, "ZeroDivisionError"),
        ("x = 1", Verdict.ERROR, "NameError: the program defines no 'f'"),
        ("import os\nos._exit(0)", Verdict.NO_RESULT, "0 results for 1 inputs"),
        ("def f(x):\n    while True: pass", Verdict.TIMEOUT, "cpu limit"),
        ("import time\ndef f(x):\n    time.sleep(60)", Verdict.TIMEOUT, "wall limit"),
        ("print('x' * 10_000_000)\ndef f(x): return x", Verdict.OUTPUT_LIMIT, "output limit"),
        ("import ctypes\nctypes.string_at(0)", Verdict.CRASHED, "ended by signal 11"),
    ],
)
def test_a_run_that_ended_otherwise_says_how(source: str, verdict: Verdict, detail: str):
    result = sandbox.run(function(source), [[1]], Limits(cpu_s=1, wall_s=2.5))
    assert (result.verdict, result.cases) == (verdict, ())
    assert detail in result.detail


def test_what_an_error_says_holds_no_address_that_another_process_would_not_repeat():
    program = function("class A: pass\ndef f(x):\n    return A() + lambda_\nlambda_ = lambda: 0")
    said = [sandbox.run(function(f"y = {n}\ndef f(x): raise KeyError(object())"), [[1]]) for n in range(2)]
    assert [result.cases[0].error for result in said] == ["KeyError: <object object at 0x…>"] * 2
    assert "0x" not in str(sandbox.run(program, [[1]]).cases[0].error)


# stdin programs: a real __main__ ------------------------------------------------------------------------


def test_a_program_reads_its_input_and_its_output_is_read():
    result = sandbox.run(stdin("a, b = map(int, input().split())\nprint(a + b)"), ["1 2\n", "30 4\n"])
    assert [case.stdout for case in result.cases] == ["3\n", "34\n"]


@pytest.mark.parametrize(
    "source",
    [
        # case code-009: leaving by sys.exit is legitimate, and so is a comment about os.system
        "import sys\nprint(3)  # no os.system here\nsys.exit(0)",
        # case code-013: a module's global stays global
        "N=0\ndef f():\n    global N\n    N=1\na,b=map(int,input().split())\nf()\nprint(a+b if N else -1)",
        "import os\na, b = map(int, os.read(0, 100).split())\nos.write(1, b'%d\\n' % (a + b))",
        "import sys\na, b = map(int, sys.stdin.read().split())\nsys.stdout.write(f'{a + b}\\n')",
        "if __name__ == '__main__':\n    print(sum(map(int, open(0).read().split())))",
        "from dataclasses import dataclass\n@dataclass\nclass P:\n    a: int\nprint(P(3).a)",
        "import threading\nt = threading.Thread(target=lambda: print(3))\nt.start()\nt.join()",
        "exit(print(3))",
    ],
)
def test_ordinary_programs_of_every_manner_work(source: str, level: Level):
    result = sandbox.run(stdin(source), ["1 2\n"], level=level)
    assert [(case.stdout, case.error) for case in result.cases] == [("3\n", None)]


@pytest.mark.parametrize(
    ("source", "error"),
    [
        ("print(3)\nraise ValueError('no')", "ValueError: no"),
        ("print(3)\nimport sys\nsys.exit(2)", "SystemExit: 2"),
        ("def f(:", "SyntaxError"),
        ("input(); input()", "EOFError"),
    ],
)
def test_a_program_that_fails_has_an_error_whatever_it_printed(source: str, error: str):
    result = sandbox.run(stdin(source), ["1\n"])
    assert result.cases[0].error is not None
    assert result.cases[0].error.startswith(error)


def test_inputs_larger_than_a_pipe_and_programs_that_ignore_theirs():
    lines = "1\n" * 500_000
    result = sandbox.run(stdin("import sys\nprint(len(sys.stdin.read()))"), [lines])
    assert result.cases[0].stdout == "1000000\n"
    assert sandbox.run(stdin("print(1)"), [lines]).cases[0].stdout == "1\n"


def test_runs_share_nothing_not_even_the_order_of_sets_or_chance():
    source = "import random\ndef f():\n    return [list({'a', 'b', 'c', 'd'}), random.random(), hash('x')]"
    first = sandbox.run(function(source), [[]])
    sandbox.shut_down()
    assert sandbox.run(function(source), [[]]).cases == first.cases
    sandbox.run(function("import builtins\nbuiltins.len = lambda x: 7\ndef f(x): return 1"), [[1]])
    assert sandbox.run(function("def f(x): return len(x)"), [["ab"]]).cases[0].value == 2


def test_many_threads_get_their_own_results():
    found: dict[int, Any] = {}

    def one(i: int) -> None:
        found[i] = sandbox.run(function("def f(x): return x * x"), [[i]]).cases[0].value

    threads = [threading.Thread(target=one, args=(i,)) for i in range(30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {i: i * i for i in range(30)}


def test_a_lost_server_is_replaced_and_the_run_goes_on():
    level = sandbox.capability().level
    assert sandbox.run(function("def f(): return 1"), [[]]).cases[0].value == 1
    lost = {server.pid for server in runner._pool(level)._all}
    for pid in lost:
        os.killpg(pid, signal.SIGKILL)
    for _ in range(2 * len(lost)):
        assert sandbox.run(function("def f(): return 1"), [[]]).cases[0].value == 1
    assert not lost & {server.pid for server in runner._pool(level)._all}


def test_a_closed_server_leaves_no_process(level: Level):
    server = Server(level)
    server.ask(
        {"nonce": "n", "kind": "function", "source": "def f(): return 1", "setup": "", "entry_point": "f",
         "inputs": [[]], "cpu_s": 1, "wall_s": 5.0, "memory_bytes": 1 << 30, "output_bytes": 1 << 16}
    )  # fmt: skip
    server.close()
    with pytest.raises(ProcessLookupError):
        os.killpg(server.pid, 0)


# which level --------------------------------------------------------------------------------------------


@pytest.fixture
def fresh_choice(monkeypatch: pytest.MonkeyPatch):
    sandbox.capability.cache_clear()
    yield monkeypatch
    sandbox.capability.cache_clear()


def test_the_strongest_level_there_is_is_chosen_and_says_what_it_is(fresh_choice: pytest.MonkeyPatch):
    fresh_choice.delenv(levels.LEVEL_VARIABLE, raising=False)
    fresh_choice.setattr(levels, "bubblewrap", lambda: None)
    found = sandbox.capability()
    assert found.level is Level.L1
    assert "level L2 needs bubblewrap: install" in found.why_not[0]
    assert str(found).startswith("L1 (Landlock ")


def test_without_walls_nothing_runs_unless_asked_for_by_name(fresh_choice: pytest.MonkeyPatch):
    fresh_choice.delenv(levels.LEVEL_VARIABLE, raising=False)
    fresh_choice.setattr(sys, "platform", "darwin")
    with pytest.raises(SandboxError, match=r"level L2 needs Linux; level L1 needs Linux.*BENCH_SANDBOX=L0"):
        sandbox.capability()
    fresh_choice.setenv(levels.LEVEL_VARIABLE, "L0")
    assert sandbox.capability().level is Level.L0
    fresh_choice.setenv(levels.LEVEL_VARIABLE, "L9")
    sandbox.capability.cache_clear()
    with pytest.raises(SandboxError, match="'L9' is no level; set L2, L1 or L0"):
        sandbox.capability()


def test_walls_that_do_not_hold_are_not_trusted(fresh_choice: pytest.MonkeyPatch, level: Level):
    """The probe runs inside: a level whose server builds no walls is refused, whatever it is called."""

    class Open(Server):
        def __init__(self, level: Level) -> None:
            super().__init__(Level.L0)
            self.level = level

    fresh_choice.setattr(runner, "Server", Open)
    with pytest.raises(SandboxError, match=r"does not hold here: a program reaches .*'a socket'"):
        runner._probe(level)


def test_a_limit_follows_the_reference_and_never_falls_below_two_seconds():
    """Case code-015: fifty milliseconds made a score depend on the machine."""
    assert Limits.for_reference(0.001).cpu_s == 2
    assert Limits.for_reference(0.81).cpu_s == 9
    assert Limits.for_reference(0.81).wall_s >= 3 * 9
