"""Where a command's words go: its result to stdout, everything else to stderr."""

from __future__ import annotations

import json
import sys
from typing import Any, NoReturn

import typer


def result(text: str) -> None:
    """Prints the result."""
    sys.stdout.write(text if text.endswith("\n") else text + "\n")
    sys.stdout.flush()


def document(value: dict[str, Any]) -> None:
    """Prints the one JSON document of `--json`."""
    result(json.dumps(value, indent=2, sort_keys=True, allow_nan=False, ensure_ascii=False))


def note(text: str) -> None:
    """Prints a remark."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def leave(code: int) -> NoReturn:
    """Ends the command with an exit code."""
    raise typer.Exit(int(code))
