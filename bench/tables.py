"""A record as flat tables, for pandas, DuckDB or a spreadsheet: one file per kind of line, one of the metrics."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.errors import UsageError
from bench.record import leaves
from leaderboard import metrics, schema
from leaderboard.records import RunRecord
from leaderboard.schema import Line

LINES = tuple(file.removesuffix(".jsonl") for file in schema.LINES)
Row = Mapping[str, Any]


def export_tables(directory: Path, form: str, out: Path | None) -> dict[str, Any]:
    """Writes OUT/{metrics,rollouts,updates,evals,spans,events}.FORM; returns {folder, rows: {table: number}}.

    Columns are the fields of the schema; a field that is a list or an object is JSON text. A metric that is an
    object is a column for every key: `util_busy.learner`.

    Args:
      form: csv or parquet.
      out: a new folder; None: RUN-csv beside the run, which is sealed.

    Raises:
      UsageError: the folder is there already, or lies in the run.
    """
    target = out or directory.with_name(f"{directory.resolve().name}-{form}")
    if target.exists() or target.is_symlink():
        raise UsageError(f"{target} is there already", "name another folder by --out")
    if target.resolve().is_relative_to(directory.resolve()):
        raise UsageError(f"--out {target} lies in the run, which is sealed", "name a folder beside it")
    record = RunRecord.open(directory)
    figures = [_figures(run) for run in metrics.results(record)["runs"]]  # reads, so checks, every line
    target.mkdir(parents=True)
    counts: dict[str, int] = {}
    # a table at a time: rollouts and evaluations are large
    for name in ("metrics", *LINES):
        rows = figures if name == "metrics" else [_cells(line) for line in getattr(record, name)]
        WRITERS[form](target / f"{name}.{form}", rows)
        counts[name] = len(rows)
    return {"folder": str(target), "rows": counts}


def _figures(run: Row) -> Row:
    cells = {name: _cell(value) for name, value in leaves(run["metrics"])}
    return {"arm": run["arm"], "seed": run["seed"], **cells}


def _cells(line: Line) -> Row:
    return {name: _cell(value) for name, value in line.model_dump(mode="json").items()}


def _cell(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (list, dict)) else value


def _columns(rows: Sequence[Row]) -> list[str]:
    """Every column of any row, in the order of appearance: arms need not have the same metrics."""
    return list(dict.fromkeys(name for row in rows for name in row))


def _write_csv(path: Path, rows: Sequence[Row]) -> None:
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, _columns(rows))
        writer.writeheader()
        writer.writerows(rows)


def _write_parquet(path: Path, rows: Sequence[Row]) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    columns = {name: pa.array([row.get(name) for row in rows]) for name in _columns(rows)}
    parquet.write_table(pa.table(columns), path)


WRITERS: dict[str, Callable[[Path, Sequence[Row]], None]] = {"csv": _write_csv, "parquet": _write_parquet}
