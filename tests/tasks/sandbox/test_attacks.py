from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy
import pytest

from tasks import sandbox
from tasks.sandbox import Level, Limits, Program, Verdict
from tasks.sandbox.levels import GUEST
from tasks.spec import GradeStatus
from tasks.verify.code import HiddenTests, grade_program
from tests.tasks.sandbox.attacks import ATTACKS, REACH_SOURCE, REACHES

TESTS = HiddenTests(inputs=[(2, 3), (10, -4)], expected=[5, 6])
LIMITS = Limits(cpu_s=1, wall_s=4.0, memory_bytes=512 << 20)
RIGHT = "def add(a, b):\n    return a + b"


def add(source: str) -> Program:
    return Program(kind="function", source=source, entry_point="add")


def processes() -> set[str]:
    """Command lines of the processes of this machine, kernel threads aside."""
    found = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    return {line for line in found.stdout.splitlines() if line.startswith(("sleep", "echo"))}


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_earns_nothing_and_the_next_program_is_unaffected(name: str, level: Level):
    grade = grade_program(add(ATTACKS[name]), TESTS, limits=LIMITS, level=level)
    assert grade.reward == 0.0
    assert grade.status in (GradeStatus.WRONG, GradeStatus.MALFORMED)
    assert grade.sandbox == level
    after = grade_program(add(RIGHT), TESTS, limits=LIMITS, level=level)
    assert (after.reward, after.detail) == (1.0, "2 of 2 tests")
    assert not {line for line in processes() if line.startswith("sleep 3600")}


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Things of this machine that a program could want."""
    canary = tmp_path_factory.mktemp("secrets") / "canary.txt"
    canary.write_text("secret")
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield {
            "canary": str(canary),
            "package": numpy.__file__,
            "runner": str(GUEST / "job.py"),
            "port": server.getsockname()[1],
            "pid": os.getpid(),
        }
    assert canary.read_text() == "secret"


@pytest.mark.parametrize("what", REACHES)
def test_a_program_does_not_reach(
    what: str, level: Level, host: dict[str, Any], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("CANARY_SECRET", "secret")
    before = os.stat(host["canary"])
    program = Program(kind="function", source=REACH_SOURCE.format(**host), entry_point="reach")
    result = sandbox.run(program, [[REACHES[what]]], LIMITS, level)
    assert result.verdict is Verdict.OK, result.detail
    assert result.cases[0].error is None
    assert result.cases[0].value != "reached"
    after = os.stat(host["canary"])
    assert (after.st_mode, after.st_mtime_ns, after.st_uid) == (
        before.st_mode,
        before.st_mtime_ns,
        before.st_uid,
    )


def test_the_probes_would_see_an_open_door(host: dict[str, Any]):
    """Without walls the same expressions do reach: so a pass above is the walls' doing."""
    source = (
        REACH_SOURCE.format(**host)
        + "\nimport sys, json\nprint(json.dumps([reach(t) for t in sys.argv[1:]]))"
    )
    harmless = [
        "/etc/passwd", "the canary file", "the canary's folder", "a TCP server", "a UDP socket", "a unix socket",
        "the tests' process, by a signal", "an installed package", "a file without a name",
    ]  # fmt: skip
    child = subprocess.run(
        [sys.executable, "-c", source, *(REACHES[name] for name in harmless)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert child.stdout.count("reached") == len(harmless)


def test_attacks_are_many_and_differ():
    assert len(ATTACKS) + len(REACHES) >= 80
    assert len(set(ATTACKS.values())) == len(ATTACKS) >= 40
