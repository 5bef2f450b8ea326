"""docs/cli.md: every command is on the page, and every exit code in its table is one that a command ends with."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from bench import compose
from bench.cli.program import app
from bench.errors import Exit
from tests.bench.conftest import Invoke
from tests.bench.fakes import ScriptedArms
from tests.bench.test_cli import RUN

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "cli.md").read_text()
TABLE = {int(code) for code in re.findall(r"^\| (\d+) \|", PAGE, flags=re.M)}


def commands(command: Any, name: str = "bench") -> Iterator[str]:
    if not hasattr(command, "commands"):
        yield name
        return
    for part, inner in command.commands.items():
        yield from commands(inner, f"{name} {part}")


def test_the_page_names_every_command_and_no_other() -> None:
    named = re.findall(r"^\| `(bench [a-z ]+)` \|", PAGE, flags=re.M)
    assert sorted(named) == sorted(commands(typer.main.get_command(app)))


def test_the_table_has_every_code_and_no_other() -> None:
    assert {int(code) for code in Exit} == TABLE
    assert {int(code) for code in PROVOKED} | {130, 143} == TABLE


def _ok(invoke: Invoke, patch: pytest.MonkeyPatch) -> int:
    return invoke(*RUN, "--out", "r")[0]


def _failed(invoke: Invoke, patch: pytest.MonkeyPatch) -> int:
    patch.setattr(compose, "run_arm", ScriptedArms(all_errored=True))
    return invoke(*RUN, "--out", "r")[0]


def _usage(invoke: Invoke, patch: pytest.MonkeyPatch) -> int:
    return invoke("run", "--tasks", "maths")[0]


def _rejected(invoke: Invoke, patch: pytest.MonkeyPatch) -> int:
    invoke(*RUN, "--out", "r")
    path = Path("r/rollouts.jsonl")
    path.write_text(path.read_text().replace('"reward":1.0', '"reward":0.0', 1))
    return invoke("verify", "r")[0]


def _required(invoke: Invoke, patch: pytest.MonkeyPatch) -> int:
    invoke(*RUN, "--out", "r")  # one seed can't show parity
    return invoke("compare", "r", "--require-parity")[0]


def _threshold(invoke: Invoke, patch: pytest.MonkeyPatch) -> int:
    invoke(*RUN, "--out", "r")
    return invoke("compare", "r", "--fail-below", "99")[0]


def _missing(invoke: Invoke, patch: pytest.MonkeyPatch) -> int:
    return invoke("run", "--tasks", "gsm8k")[0]


def _interrupted(invoke: Invoke, patch: pytest.MonkeyPatch) -> int:
    def at_the_second(arm: str, seed: int, update: int) -> None:
        if update == 1:
            signal.raise_signal(signal.SIGTERM)

    patch.setattr(compose, "run_arm", ScriptedArms(before_update=at_the_second))
    return invoke(*RUN, "--out", "r")[0]


PROVOKED = {
    Exit.OK: _ok,
    Exit.FAILED: _failed,
    Exit.USAGE: _usage,
    Exit.REJECTED: _rejected,
    Exit.REQUIRED: _required,
    Exit.THRESHOLD: _threshold,
    Exit.MISSING: _missing,
    Exit.INTERRUPTED: _interrupted,
}


@pytest.mark.parametrize("code", PROVOKED, ids=lambda code: code.name)
def test_a_command_ends_with_it(invoke: Invoke, monkeypatch: pytest.MonkeyPatch, code: Exit) -> None:
    assert PROVOKED[code](invoke, monkeypatch) == code


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs a named pipe to stop a command in its middle")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_before_anything_is_saved_ends_the_process_with_128_and_its_number(
    tmp_path: Path, number: signal.Signals
) -> None:
    config = tmp_path / "c.toml"
    os.mkfifo(config)
    bench = [sys.executable, "-m", "bench", "run", "--config", str(config), "--out", str(tmp_path / "r")]
    process = subprocess.Popen(bench, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with config.open("w"):  # opens when the command reads its configuration, and so stands in its middle
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    ended = process.returncode if process.returncode >= 0 else 128 - process.returncode
    assert (ended, out) == (128 + number, "")
    assert "Traceback" not in err
    assert not (tmp_path / "r").exists()
