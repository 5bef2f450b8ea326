"""`bench compare` and `bench report`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.compare import compare
from bench.report import write_html


def compare_command(
    run: Path, baseline: str | None, product: str | None, fail_below: float | None, require_parity: bool
) -> tuple[dict[str, Any], str, int]:
    """The verdict, and the exit code that the options ask for."""
    found = compare(run, baseline=baseline, product=product)
    value = found.as_dict()
    code = 0
    if require_parity and value["parity"] != "pass":
        code = 4
    if fail_below is not None and value["speedup"] < fail_below:
        code = 5
    return value, found.text(), code


def report_command(run: Path, out: Path | None) -> Path:
    """Writes the page beside the run, whose directory is sealed."""
    return write_html(run, out if out is not None else run.with_name(run.name + ".html"))
