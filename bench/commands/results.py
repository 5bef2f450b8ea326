"""`bench compare`, `bench report`, `bench export`."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

from bench.compare import compare
from bench.errors import Exit, Fault, UsageError
from bench.output import note
from bench.places import broken_seal, run_directory, unpacked
from bench.report import Format, gather, render
from leaderboard.bundle import write_atomically

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
    if fail_below is not None and not 0 < fail_below < math.inf:
        raise UsageError(f"--fail-below {fail_below:g} is no speed-up to ask for", "for example 1.2")
    if by not in (None, "task"):
        raise UsageError(f"--by {by!r} is nothing to split by", "there is 'task'")
    if html is not None and other is not None:
        raise UsageError("--html is the page of one run", "'bench report RUN RUN2' puts two side by side")
    found = compare(run, other, baseline=baseline, product=product, metric=metric, sealed=True)
    if html is not None:
        report_command([run], html, "html", option="--html")
    missed: list[Fault] = []
    if require_parity and found.parity.verdict != "pass":
        hint = {"underpowered": "more seeds or items can tell"}.get(
            found.parity.verdict, "the product is less accurate"
        )
        said = f"--require-parity: accuracy parity is {found.parity.verdict}"
        missed.append(Fault(message=said, hint=hint, exit_code=Exit.REQUIRED, expected=True))
    if fail_below is not None and found.speedup < fail_below:
        said = f"--fail-below {fail_below:g}: the speed-up is {found.speedup:.3f}"
        missed.append(Fault(message=said, hint="", exit_code=Exit.THRESHOLD, expected=True))
    for fault in missed:
        note(fault.line())
    code = missed[0].exit_code if missed else Exit.OK
    value = {"ok": not missed, "missed": [fault.message for fault in missed], **found.as_dict()}
    return value, found.text(by_task=by == "task"), code


def report_command(
    runs: Sequence[Path], out: Path | None, form: str | None, *, option: str = "--out"
) -> dict[str, Any]:
    """Writes the report beside the first run, whose directory is sealed; returns {report, remarks}.

    What the page can't show of a record, and why, is said on stderr too.

    Args:
      form: html, md or png; None: what `out` ends with, else html.
      option: what `out` was named by.
    """
    first = runs[0]
    chosen = form or (out.suffix[1:] if out is not None and out.suffix[1:] in SUFFIXES else "html")
    if chosen not in SUFFIXES:
        raise UsageError(f"--format {chosen} is none of {', '.join(SUFFIXES)}", "html is the whole report")
    target = out if out is not None else first.with_name(first.resolve().name + SUFFIXES[chosen][0])
    if target.suffix not in SUFFIXES[chosen]:
        raise UsageError(
            f"{option} {target} is no {SUFFIXES[chosen][0]} file; only reports are overwritten", "name one"
        )
    if any(target.resolve().is_relative_to(run.resolve()) for run in runs):
        raise UsageError(f"{option} {target} lies in the run, which is sealed", "name a file beside it")
    if (target.exists() or target.is_symlink()) and not (target.is_file() and not target.is_symlink()):
        raise UsageError(f"{option} {target} is there and is no regular file", "name another")
    if out is not None and target.is_file() and not _is_report(target, chosen):
        raise UsageError(f"{option} {target} is there already and is no report", "name another, or remove it")
    if not target.parent.is_dir():
        raise UsageError(f"{option} {target}: there is no folder {target.parent}", "make it first")
    with ExitStack() as opened:
        places = [opened.enter_context(unpacked(run)) for run in runs]
        material = gather(*places)
        page = render(material, cast(Format, chosen))
    try:
        write_atomically(target, page)
    except OSError as error:
        raise UsageError(f"{option} {target} can't be written: {error.strerror}", "name another") from error
    for remark in material.remarks:
        note(f"warning: {remark}")
    return {"report": str(target), "remarks": material.remarks}


def _is_report(path: Path, form: str) -> bool:
    """Whether overwriting loses nothing of the user's own."""
    with path.open("rb") as stream:
        return form in OPENINGS and OPENINGS[form].search(stream.read(4096)) is not None


def exported(run: Path, export: Callable[[Path], dict[str, Any]]) -> dict[str, Any]:
    """What `export` wrote of a run directory, and whether the record is the one that was sealed; stderr says so too."""
    broken = broken_seal(run_directory(run))
    value = export(run)
    if broken:
        note(f"warning: {run} is not the record that was sealed, and was exported as it is: {broken}")
    return {**value, "sealed": not broken}
