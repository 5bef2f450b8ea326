"""Latencies of a user's own tools: CSV or JSON lines, checked before anything is concluded from them."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bench.errors import UsageError

COLUMNS = ("latency_s", "seconds", "latency_ms")
"""What the column of times may be called; the last is in milliseconds."""
MAX_S = 86_400.0
MAX_ROWS = 5_000_000


def read(path: Path) -> dict[str, list[float]]:
    """Seconds of every call by tool ('tool' where no column says which).

    Raises UsageError naming the line: an unreadable or empty log, a row without a time, one that is negative, no
    number, or longer than a day.
    """
    found: dict[str, list[float]] = {}
    try:
        for number, row in _rows(path):
            if sum(map(len, found.values())) >= MAX_ROWS:
                raise UsageError(f"{path} has more than {MAX_ROWS} rows", "give a sample of it")
            found.setdefault(str(row.get("tool") or "tool"), []).append(_seconds(path, number, row))
    except OSError as e:
        raise UsageError(f"{path} cannot be read: {e.strerror}", "name a CSV or JSONL file") from e
    except (UnicodeDecodeError, csv.Error) as e:
        raise UsageError(f"{path} is neither CSV nor JSON lines: {e}") from e
    if not found:
        raise UsageError(f"{path} holds no latency", f"a header with {COLUMNS[0]!r}, then a row a call")
    return found


def _rows(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    with path.open(encoding="utf-8-sig", newline="") as stream:
        if path.suffix.lower() in (".jsonl", ".ndjson"):
            for number, line in enumerate(stream, 1):
                if not line.strip():
                    continue
                try:
                    row = json.loads(line)
                except ValueError as e:
                    raise UsageError(f"{path}, line {number} is not JSON: {e}") from e
                if not isinstance(row, dict):
                    raise UsageError(f"{path}, line {number} is no JSON object", 'write {"latency_s": 0.4}')
                yield number, row
        else:
            reader = csv.DictReader(stream)
            for row in reader:
                yield reader.line_num, row


def _seconds(path: Path, number: int, row: Mapping[str, Any]) -> float:
    column = next((c for c in COLUMNS if row.get(c) not in (None, "")), None)
    if column is None:
        raise UsageError(f"{path}, line {number} has no time", f"name its column one of {', '.join(COLUMNS)}")
    try:
        seconds = float(row[column]) / (1000 if column == "latency_ms" else 1)
    except (TypeError, ValueError):
        raise UsageError(f"{path}, line {number}: {column} is no number: {row[column]!r}") from None
    if not math.isfinite(seconds) or seconds < 0:
        raise UsageError(
            f"{path}, line {number}: {column} is {row[column]}: a call takes 0 s or more", "correct the log"
        )
    if seconds > MAX_S:
        raise UsageError(f"{path}, line {number}: {seconds:g} s is more than a day", "is the unit right?")
    return seconds
