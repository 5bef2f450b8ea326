"""The board as static files: opens from a disk, asks no network, holds no submitted markup."""

from __future__ import annotations

import functools
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from leaderboard.admission import Rules, among, held, shown
from leaderboard.bundle import write_atomically
from leaderboard.errors import RecordError
from leaderboard.row import Row
from leaderboard.site import board, detail, downloads
from leaderboard.store import Store

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
    own, rules = store.rows(), Rules.of(store)
    among(own)
    rows = [shown(row, rules) for row in own]
    (out / "submissions").mkdir(parents=True, exist_ok=True)
    board_rows = [row.model_copy(update={"sketch": []}) for row in own]  # what each process gets
    write = functools.partial(_write_page, store, rules, board_rows, out / "submissions")
    processes = min(processes, len(rows) // ENOUGH)
    if processes > 1:
        with ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("spawn")) as pool:
            for refused in pool.map(write, own, chunksize=ENOUGH // 2):
                if refused is not None:
                    pool.shutdown(cancel_futures=True)
                    raise RecordError(*refused)
    else:
        for row in own:
            if (refused := write(row)) is not None:
                raise RecordError(*refused)
    for name, content in downloads.files(rows):
        write_atomically(out / name, content)
    write_atomically(out / "index.html", board.render(rows).encode())
    return out / "index.html"


def _write_page(
    store: Store, rules: Rules, rows: list[Row], folder: Path, row: Row
) -> tuple[str, str, str, str] | None:
    """Writes the page of a submission; returns what a RecordError is made of where it is refused."""
    try:
        record = held(store, row, rules, rows)
        page = detail.render(shown(row, rules), record, rows)
    except RecordError as error:
        return error.code, error.place, error.reason, error.hint
    write_atomically(folder / f"{row.slug}.html", page.encode(), durable=False)
    return None
