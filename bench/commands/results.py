"""`bench compare` and `bench report`."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from bench.commands.board import unpacked
from bench.compare import compare
from bench.errors import Exit, RejectedError, UsageError
from bench.output import note
from bench.report import write_html
from leaderboard.verify import intact


def compare_command(
    run: Path, baseline: str | None, product: str | None, fail_below: float | None, require_parity: bool
) -> tuple[dict[str, Any], str, int]:
    """The verdict, and the exit code that the options ask for; accuracy is asked before speed.

    Raises RejectedError for a record that is not the one that was sealed.
    """
    if fail_below is not None and not math.isfinite(fail_below):
        raise UsageError(f"--fail-below {fail_below} is no number to compare with", "for example 1.2")
    with unpacked(run) as directory:
        found = compare(directory, baseline=baseline, product=product)
        report = intact(directory)
    if not report.ok:
        first, more = report.findings[0], len(report.findings) - 1
        raise RejectedError(
            f"{run} is not the record that was sealed: {first}" + (f", and {more} more" if more else ""),
            f"'bench verify {run}' lists everything",
        )
    value = found.as_dict()
    code = Exit.OK
    if require_parity and found.parity.verdict != "pass":
        code = Exit.PARITY
        note(f"accuracy parity is required, and {found.parity.verdict}")
    elif fail_below is not None and found.speedup < fail_below:
        code = Exit.THRESHOLD
        note(f"the speed-up {found.speedup:.3f} is below {fail_below:g}")
    return {"ok": code == Exit.OK, **value}, found.text(), code


def report_command(run: Path, out: Path | None) -> Path:
    """Writes the page beside the run, whose directory is sealed."""
    if not (run / "run.json").is_file():
        raise UsageError(f"{run} holds no run.json", "'bench run --out DIR' writes a run directory")
    target = out if out is not None else run.with_name(run.resolve().name + ".html")
    if target.suffix not in (".html", ".htm"):
        raise UsageError(f"--out {target} is no .html file; only pages are overwritten", "name one")
    if target.resolve().is_relative_to(run.resolve()):
        raise UsageError(f"--out {target} lies in the run, which is sealed", "name a file beside it")
    if (target.exists() or target.is_symlink()) and not (target.is_file() and not target.is_symlink()):
        raise UsageError(f"--out {target} is there and is no regular file", "name another")
    if not target.parent.is_dir():
        raise UsageError(f"--out {target}: there is no folder {target.parent}", "make it first")
    return write_html(run, target)
