"""Brings a run to the board: verify, preview the row, write it. What fails a check isn't written."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from leaderboard import about as about_file
from leaderboard import bundle
from leaderboard.about import FILE, About
from leaderboard.errors import RecordError
from leaderboard.records import RunRecord, read_model
from leaderboard.rescore import MakeEnvironment
from leaderboard.row import Row, build_row
from leaderboard.schema import Manifest
from leaderboard.store import Store
from leaderboard.verify import Finding, Report, verify
from leaderboard.verify.report import collect


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a submission; `row` and `path` are None where it was refused."""

    status: Literal["written", "unchanged", "previewed", "refused"]
    report: Report
    row: Row | None = None
    path: Path | None = None


def submit(
    run_directory: str | Path,
    data_directory: str | Path,
    *,
    about: dict[str, Any] | None = None,
    dry_run: bool = False,
    data: str | None = None,
    make: MakeEnvironment | None = None,
) -> Outcome:
    """Verifies a run directory and writes it to a board's folder.

    Args:
      run_directory: a sealed run.
      data_directory: the board's folder; created where missing.
      about: fields of submission.toml; they go before those of a submission.toml in the run directory.
      dry_run: stop before writing.
      data: where data-set tasks read from.
      make: builds environments in place of the task registry, in tests.
    """
    run_directory = Path(run_directory)
    store = Store(Path(data_directory))
    report = verify(run_directory, data=data, make=make)
    try:
        described = _about(run_directory, about or {})
    except RecordError as refused:
        finding = Finding(code=refused.code, place=refused.place, reason=refused.reason, hint=refused.hint)
        return Outcome(status="refused", report=collect([*report.findings, finding], report.checked))
    if not report.ok:
        return Outcome(status="refused", report=report)
    root = _merkle_root(run_directory)
    earlier = store.find(root)
    if earlier is not None:
        path = store.submissions / earlier.slug
        return Outcome(status="unchanged", report=report, row=earlier, path=path)
    record = RunRecord.open(run_directory)
    slug = f"{slugify(described.name)}-{root[:12]}"
    row = build_row(record, report, slug=slug, merkle_root=root, about=described.model_dump())
    if dry_run:
        return Outcome(status="previewed", report=report, row=row)
    path = store.add(run_directory, row, described, report)
    return Outcome(status="written", report=report, row=row, path=path)


def slugify(name: str) -> str:
    """Returns a name's plain letters and digits joined by hyphens, at most 60 of them."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:60].strip("-") or "run"


def _about(run_directory: Path, given: dict[str, Any]) -> About:
    values = about_file.read(run_directory / FILE) | {k: v for k, v in given.items() if v is not None}
    if not values:
        # a board of one's own needs no ceremony; a public one asks for the file
        header = RunRecord.open(run_directory).header
        values = {"name": f"Run {header.run_id[-6:]}", "authors": ["not given"]}
    return about_file.make(values)


def _merkle_root(run_directory: Path) -> str:
    data = (run_directory / bundle.MANIFEST).read_bytes()
    return read_model(Manifest, data, bundle.MANIFEST).merkle_root
