"""`bench verify`, `bench submit`, `bench leaderboard`."""

from __future__ import annotations

import functools
import http.server
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bench.errors import UsageError
from leaderboard import site
from leaderboard.store import Store
from leaderboard.submit import submit
from leaderboard.verify import EXPLAIN, Finding, verify


def _lines(findings: Iterable[Finding]) -> list[str]:
    return [str(f) for f in findings]


def _existing(run: Path | None) -> Path:
    if run is None or not run.exists():
        raise UsageError(f"run directory {run} not found. `bench run --out DIR` writes one.")
    return run


def explain_command(code: str) -> tuple[dict[str, Any], str, int]:
    """What a code of `verify` means."""
    if code not in EXPLAIN:
        raise UsageError(f"code {code!r} not found. Known codes: {', '.join(EXPLAIN)}.")
    return {"code": code, "explanation": EXPLAIN[code]}, f"{code}: {EXPLAIN[code]}", 0


def verify_command(run: Path | None, data: str | None) -> tuple[dict[str, Any], str, int]:
    """All findings; exit 3 if any is an error."""
    report = verify(_existing(run), data=data)
    checked = ", ".join(f"{k.replace('_', ' ')} {v}" for k, v in report.checked.items())
    verdict = "verified" if report.ok else f"REJECTED ({', '.join(report.codes)})"
    text = "\n".join([*_lines(report.findings), f"{verdict}: {checked}"])
    return report.to_dict(), text, 0 if report.ok else 3


def submit_command(
    run: Path, to: Path, name: str | None, authors: list[str], dry_run: bool, data: str | None
) -> tuple[dict[str, Any], str, int]:
    """Verifies, previews the row, writes it."""
    about: dict[str, Any] = {"name": name or run.resolve().name, "authors": authors or ["anonymous"]}
    outcome = submit(_existing(run), to, about=about, dry_run=dry_run, data=data)
    lines = _lines(outcome.report.findings)
    value: dict[str, Any] = {"status": outcome.status, "report": outcome.report.to_dict()}
    if outcome.row is not None:
        value["row"] = outcome.row.model_dump(mode="json", by_alias=True)
        lines.append(f"row: {outcome.row.model_dump_json(by_alias=True)}")
    if outcome.path is not None:
        value["path"] = str(outcome.path)
        lines.append(f"{outcome.status}: {outcome.path}")
        lines.append(f"next: bench leaderboard build --data {to}")
    else:
        lines.append(outcome.status)
    return value, "\n".join(lines), 3 if outcome.status == "refused" else 0


def build_command(data: Path, out: Path) -> Path:
    """The static site."""
    if not data.is_dir():
        raise UsageError(f"board folder {data} not found. `bench submit RUN --to {data}` makes it.")
    return site.build(data, out)


def serve_command(out: Path, port: int) -> None:
    """Serves a built site until interrupted."""
    if not (out / "index.html").is_file():
        raise UsageError(f"{out} holds no site. `bench leaderboard build --out {out}` makes one.")
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(out))
    with http.server.ThreadingHTTPServer(("127.0.0.1", port), handler) as server:
        server.serve_forever()


def show_board_command(data: Path) -> tuple[list[dict[str, Any]], str]:
    """The board's rows."""
    rows = [row.model_dump(mode="json", by_alias=True) for row in Store(data).rows()]
    lines = [
        f"{r['slug']}: "
        + ", ".join(f"{k} {v}" for k, v in r.items() if isinstance(v, str | int | float) and k != "slug")
        for r in rows
    ]
    return rows, "\n".join(lines) or "no submissions"
