"""The board as static files: opens from a disk, asks no network, holds no submitted markup."""

from __future__ import annotations

from pathlib import Path

from leaderboard import canonical
from leaderboard.bundle import write_atomically
from leaderboard.site import board, detail
from leaderboard.store import Store

__all__ = ["build"]


def build(data_directory: str | Path, out_directory: str | Path) -> Path:
    """Writes index.html, a page per submission, board.json and board.csv; returns index.html's path.

    Raises:
      RecordError: a submission in the folder can't be read.
    """
    store, out = Store(Path(data_directory)), Path(out_directory)
    rows = store.rows()
    (out / "submissions").mkdir(parents=True, exist_ok=True)
    for row in rows:
        page = detail.render(row, store.record(row))
        write_atomically(out / "submissions" / f"{row.slug}.html", page.encode())
    values = [row.model_dump(mode="json", by_alias=True) for row in rows]
    write_atomically(out / "board.json", canonical.encode(values))
    write_atomically(out / "board.csv", board.to_csv(rows).encode())
    write_atomically(out / "index.html", board.render(rows).encode())
    return out / "index.html"
