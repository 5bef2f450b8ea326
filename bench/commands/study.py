"""`bench study`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench import study
from bench.commands.run import command
from bench.output import note
from bench.report import write_study_figure


def tenants_command(
    tenants: str, out: Path, file: Path | None, sets: Sequence[str], flags: Mapping[str, Any], *, quiet: bool
) -> tuple[dict[str, Any], str, int]:
    """Runs what is missing and returns (JSON, text, exit code)."""

    def run_one(n: int, place: Path) -> int:
        note(f"{n} tenants, into {place}")
        _, text, code = command(
            file, sets, {**flags, "tenants": n, "aa": False, "out": str(place)}, dry_run=False, quiet=quiet
        )
        note(text)
        return code

    code = study.run(study.counts(tenants), out, run_one)
    if code:
        return {"ok": False}, "the study is not complete; the same command goes on with it", code
    found = study.write(out)
    write_study_figure(found, out)
    return {"ok": True, **found}, f"{study.render(found)}\n\nstudy: {out / 'study.md'}", 0
