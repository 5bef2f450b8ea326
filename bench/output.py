"""Where a command's words go: its result to stdout, everything else to stderr."""

from __future__ import annotations

import json
import sys
from typing import Any, NoReturn

import typer

from bench.errors import BenchError, UsageError


def result(text: str) -> None:
    """Prints the result; signs that the terminal's encoding lacks are spelt out. Raises UsageError without stdout."""
    if sys.stdout is None:
        raise UsageError("stdout is closed", "there is nowhere to print the result")
    encoding = sys.stdout.encoding or "utf-8"
    text = text.encode(encoding, "backslashreplace").decode(encoding)
    try:
        sys.stdout.write(text if text.endswith("\n") else text + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        hint = "free some space, or name another file"
        raise BenchError(f"stdout can't be written: {error.strerror}", hint) from error


def document(value: dict[str, Any]) -> None:
    """Prints the one JSON document of `--json`."""
    result(json.dumps(value, indent=2, sort_keys=True, allow_nan=False, ensure_ascii=False))


def note(text: str) -> None:
    """Prints a remark, where there is a stderr."""
    if sys.stderr is None:
        return
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def leave(code: int) -> NoReturn:
    """Ends the command with an exit code."""
    raise typer.Exit(int(code))
