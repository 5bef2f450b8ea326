"""`bench compare` and `bench report`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.compare import compare
from bench.errors import Exit, UsageError
from bench.output import note
from bench.report import write_html


def compare_command(
    run: Path, baseline: str | None, product: str | None, fail_below: float | None, require_parity: bool
) -> tuple[dict[str, Any], str, int]:
    """The verdict, and the exit code that the options ask for; accuracy is asked before speed."""
    found = compare(run, baseline=baseline, product=product)
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
    return write_html(run, out if out is not None else run.with_name(run.resolve().name + ".html"))
