"""`bench compare` and `bench report`."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

from bench.commands.board import unpacked
from bench.compare import compare
from bench.errors import Exit, RejectedError, UsageError
from bench.output import note
from bench.report import Format, render
from leaderboard.bundle import write_atomically
from leaderboard.verify import intact

SUFFIXES = {"html": (".html", ".htm"), "md": (".md",), "png": (".png",)}
"""Formats of a report, and what their files are called."""
OPENINGS = {"html": re.compile(rb"<title>Run \S+</title>"), "md": re.compile(rb"\A# Run \S+\n")}
"""What a report begins with; a picture says nothing of where it comes from."""


def compare_command(
    run: Path,
    baseline: str | None,
    product: str | None,
    fail_below: float | None,
    require_parity: bool,
    *,
    other: Path | None = None,
    metric: str = "t_work",
    by: str | None = None,
    html: Path | None = None,
) -> tuple[dict[str, Any], str, int]:
    """The verdict, and the exit code that the options ask for; accuracy is asked before speed.

    Raises RejectedError for a record that is not the one that was sealed.
    """
    if fail_below is not None and not math.isfinite(fail_below):
        raise UsageError(f"--fail-below {fail_below} is no number to compare with", "for example 1.2")
    if by not in (None, "task"):
        raise UsageError(f"--by {by!r} is nothing to split by", "there is 'task'")
    if html is not None and other is not None:
        raise UsageError("--html is the page of one run", "'bench report RUN RUN2' puts two side by side")
    with ExitStack() as stack:
        directory, *others = (
            stack.enter_context(unpacked(path)) for path in (run, other) if path is not None
        )
        second = others[0] if others else None
        found = compare(directory, second, baseline=baseline, product=product, metric=metric)
        _sealed(run, directory)
        if other is not None and second is not None:
            _sealed(other, second)
    if html is not None:
        report_command([run], html, "html")
    value = found.as_dict()
    code = Exit.OK
    if require_parity and found.parity.verdict != "pass":
        code = Exit.REQUIRED
        note(f"accuracy parity is required, and {found.parity.verdict}")
    elif fail_below is not None and found.speedup < fail_below:
        code = Exit.THRESHOLD
        note(f"the speed-up {found.speedup:.3f} is below {fail_below:g}")
    return {"ok": code == Exit.OK, **value}, found.text(by_task=by == "task"), code


def _sealed(run: Path, directory: Path) -> None:
    """Raises RejectedError for a record that is not the one that was sealed."""
    report = intact(directory)
    if not report.ok:
        first, more = report.findings[0], len(report.findings) - 1
        raise RejectedError(
            f"{run} is not the record that was sealed: {first}" + (f", and {more} more" if more else ""),
            f"'bench verify {run}' lists everything",
        )


def report_command(runs: Sequence[Path], out: Path | None, form: str | None) -> Path:
    """Writes the report beside the first run, whose directory is sealed.

    Args:
      form: html, md or png; None: what `out` ends with, else html.
    """
    first = runs[0]
    chosen = form or (out.suffix[1:] if out is not None and out.suffix[1:] in SUFFIXES else "html")
    if chosen not in SUFFIXES:
        raise UsageError(f"--format {chosen} is none of {', '.join(SUFFIXES)}", "html is the whole report")
    target = out if out is not None else first.with_name(first.resolve().name + SUFFIXES[chosen][0])
    if target.suffix not in SUFFIXES[chosen]:
        raise UsageError(
            f"--out {target} is no {SUFFIXES[chosen][0]} file; only reports are overwritten", "name one"
        )
    if any(target.resolve().is_relative_to(run.resolve()) for run in runs):
        raise UsageError(f"--out {target} lies in the run, which is sealed", "name a file beside it")
    if (target.exists() or target.is_symlink()) and not (target.is_file() and not target.is_symlink()):
        raise UsageError(f"--out {target} is there and is no regular file", "name another")
    if out is not None and target.is_file() and not _is_report(target, chosen):
        raise UsageError(f"--out {target} is there already and is no report", "name another, or remove it")
    if not target.parent.is_dir():
        raise UsageError(f"--out {target}: there is no folder {target.parent}", "make it first")
    with ExitStack() as opened:
        places = [opened.enter_context(unpacked(run)) for run in runs]
        write_atomically(target, render(places, cast(Format, chosen)))
    return target


def _is_report(path: Path, form: str) -> bool:
    """Whether overwriting loses nothing of the user's own."""
    with path.open("rb") as stream:
        return form in OPENINGS and OPENINGS[form].search(stream.read(4096)) is not None
