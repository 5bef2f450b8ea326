"""The board's table as files for other programs: JSON with every field, CSV, Parquet and SQLite with the main ones."""

from __future__ import annotations

import csv
import io
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from leaderboard import canonical
from leaderboard.row import Row
from leaderboard.site.html import Markup, tag

JSON, CSV, PARQUET, SQLITE = "board.json", "board.csv", "board.parquet", "board.sqlite"
TEXT, REAL, INTEGER = "TEXT", "REAL", "INTEGER"
COLUMNS = {
    "slug": TEXT, "name": TEXT, "tier": TEXT, "suite_version": TEXT, "hardware": TEXT, "devices": INTEGER,
    "latency": TEXT, "latency_simulated": INTEGER, "limit_applied": INTEGER, "tenants": INTEGER, "arm": TEXT,
    "baseline": TEXT, "speedup": REAL, "low": REAL, "high": REAL, "seeds": INTEGER, "time_s": REAL, "busy": REAL,
    "useful": REAL, "accuracy_difference": REAL, "parity": TEXT, "created_utc": TEXT, "run_id": TEXT,
    "merkle_root": TEXT,
}  # fmt: skip
"""Columns of the flat files, and their types in SQLite."""


def files(rows: Sequence[Row]) -> Iterator[tuple[str, bytes]]:
    """Yields (file name, content)."""
    flat = [_flat(row) for row in rows]
    yield JSON, canonical.encode([row.model_dump(mode="json", by_alias=True) for row in rows])
    yield CSV, _csv(flat).encode()
    yield PARQUET, _parquet(flat)
    yield SQLITE, _sqlite(flat)


def links() -> Iterator[Markup | str]:
    """Yields links to them, for a paragraph."""
    for number, name in enumerate((JSON, CSV, PARQUET, SQLITE)):
        yield from ((" · ",) if number else ())
        yield tag("a", name, href=name)


def _flat(row: Row) -> dict[str, Any]:
    head, parity = row.headline, row.parity
    arm = row.arms.get(head.arm) if head else None
    return {
        "slug": row.slug,
        "name": row.name,
        "tier": row.tier,
        "suite_version": row.suite_version,
        "hardware": row.device_class,
        "devices": len(row.devices),
        "latency": row.latency_profile,
        "latency_simulated": int(row.latency_simulated),
        "limit_applied": int(row.limit_applied),
        "tenants": len(row.tenants),
        "arm": head.arm if head else None,
        "baseline": head.baseline if head else None,
        "speedup": head.speedup if head else None,
        "low": head.low if head else None,
        "high": head.high if head else None,
        "seeds": row.seeds,
        "time_s": arm.t_work if arm else None,
        "busy": arm.util_busy if arm else None,
        "useful": arm.util_useful if arm else None,
        "accuracy_difference": parity.difference if parity else None,
        "parity": parity.verdict if parity else None,
        "created_utc": row.created_utc,
        "run_id": row.run_id,
        "merkle_root": row.merkle_root,
    }


def _csv(flat: Iterable[dict[str, Any]]) -> str:
    """A text a spreadsheet would run as a formula gets an apostrophe."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in flat:
        writer.writerow(["" if row[name] is None else _inert(row[name]) for name in COLUMNS])
    return stream.getvalue()


def _parquet(flat: Sequence[dict[str, Any]]) -> bytes:
    import pyarrow as pa
    from pyarrow import parquet

    types = {TEXT: pa.string(), REAL: pa.float64(), INTEGER: pa.int64()}
    table = pa.table(
        {name: pa.array([row[name] for row in flat], types[kind]) for name, kind in COLUMNS.items()}
    )
    sink = io.BytesIO()
    parquet.write_table(table, sink)
    return sink.getvalue()


def _sqlite(flat: Iterable[dict[str, Any]]) -> bytes:
    database = sqlite3.connect(":memory:")
    try:
        columns = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
        database.execute(f"CREATE TABLE board ({columns}, PRIMARY KEY (slug))")
        holes = ", ".join("?" for _ in COLUMNS)
        rows = (tuple(row[name] for name in COLUMNS) for row in flat)
        database.executemany(f"INSERT INTO board VALUES ({holes})", rows)
        database.commit()
        return database.serialize()
    finally:
        database.close()


def _inert(cell: object) -> object:
    return f"'{cell}" if isinstance(cell, str) and cell[:1] in tuple("=+-@\t\r") else cell
