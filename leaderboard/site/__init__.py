"""The board as static files: opens from a disk, asks no network, holds no submitted markup."""

from __future__ import annotations

import functools
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from leaderboard import signature
from leaderboard.about import About
from leaderboard.bundle import MANIFEST, write_atomically
from leaderboard.errors import RecordError
from leaderboard.records import RunRecord, read_model
from leaderboard.row import Row, build_row
from leaderboard.schema import Manifest
from leaderboard.site import board, detail, downloads
from leaderboard.store import Store
from leaderboard.verify import Report, sealed
from leaderboard.verify.figures import differences

__all__ = ["build"]


ENOUGH = 16
"""Submissions from which on another process is worth its start."""


def build(data_directory: str | Path, out_directory: str | Path, *, processes: int = 1) -> Path:
    """Writes index.html, a page per submission, and the table as JSON, CSV, Parquet and SQLite; returns the index.

    Args:
      processes: that read bundles, at most; started by spawning, so more than one is for programs whose main module
        can be imported.
    Raises:
      RecordError: a submission in the folder can't be read, was changed after it was written, or its row
        doesn't follow from its bundle.
    """
    store, out = Store(Path(data_directory)), Path(out_directory)
    rows = store.rows()
    (out / "submissions").mkdir(parents=True, exist_ok=True)
    write = functools.partial(_write_page, store, out / "submissions")
    processes = min(processes, len(rows) // ENOUGH)
    if processes > 1:
        with ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("spawn")) as pool:
            for refused in pool.map(write, rows, chunksize=ENOUGH // 2):
                if refused is not None:
                    pool.shutdown(cancel_futures=True)
                    raise RecordError(*refused)
    else:
        for row in rows:
            if (refused := write(row)) is not None:
                raise RecordError(*refused)
    for name, content in downloads.files(rows):
        write_atomically(out / name, content)
    write_atomically(out / "index.html", board.render(rows).encode())
    return out / "index.html"


def _write_page(store: Store, folder: Path, row: Row) -> tuple[str, str, str, str] | None:
    """Writes the page of a submission; returns what a RecordError is made of where it is refused."""
    try:
        page = detail.render(row, _held_to_bundle(store, row))
    except RecordError as error:
        return error.code, error.place, error.reason, error.hint
    write_atomically(folder / f"{row.slug}.html", page.encode(), durable=False)
    return None


def _held_to_bundle(store: Store, row: Row) -> RunRecord:
    """The record of a row, which is written once and shown for ever: it must still follow from what lies beside it."""
    folder = store.submissions / row.slug / "bundle"
    report = sealed(folder)
    if not report.ok:
        first = report.errors[0]
        raise RecordError(
            first.code, f"{row.slug}/bundle/{first.place}", first.reason, "submit the run again"
        )
    record = store.record(row)
    manifest = read_model(Manifest, (folder / MANIFEST).read_bytes(), MANIFEST)
    told = row.model_dump(include=set(About.model_fields) & set(Row.model_fields))
    if row.signed_by is not None:
        signature.check(store.signature(row), manifest.merkle_root, frozenset({row.signed_by}))
    same = {"slug": row.slug, "merkle_root": manifest.merkle_root, "about": told, "tier": row.tier}
    same |= {"round_name": row.round, "signed_by": row.signed_by}
    rebuilt = build_row(record, Report(findings=(), counts={}, checked=row.checked), **same)
    # rows older than these have none
    left_out = {"warnings"} | (set() if row.sketch else {"sketch"}) | (set() if row.parity else {"parity"})
    here, there = (r.model_dump(mode="json", exclude=left_out) for r in (rebuilt, row))
    found = next(differences(here, there), None)
    if found is not None:
        what, ours, theirs = found
        reason = f"{what} is {theirs!r}, its bundle gives {ours!r}"
        raise RecordError("E172", f"{row.slug}/summary.json", reason, "submit the run again")
    return record
