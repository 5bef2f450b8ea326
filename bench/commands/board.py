"""`bench verify`, `bench submit`, `bench leaderboard`."""

from __future__ import annotations

import functools
import http.server
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.errors import Exit, UsageError
from bench.output import note
from bench.places import existing, unpacked
from leaderboard import rounds, site
from leaderboard.archive import SUFFIX
from leaderboard.errors import RecordError
from leaderboard.records import RunRecord
from leaderboard.row import Row
from leaderboard.store import Store
from leaderboard.submit import Terms, patch, submit
from leaderboard.verify import EXPLAIN, Report, verify
from leaderboard.verify.scores import regrade

_SHOWN = 20
"""Differences printed; --json has all."""


def explain_command(code: str) -> tuple[dict[str, Any], str, int]:
    """What a code of `verify` means."""
    if code not in EXPLAIN:
        raise UsageError(f"code {code!r} not found", f"the codes are {', '.join(EXPLAIN)}")
    return {"code": code, "explanation": EXPLAIN[code]}, f"{code}: {EXPLAIN[code]}", Exit.OK


def verify_command(runs: Sequence[Path], data: str | None, strict: bool) -> tuple[dict[str, Any], str, int]:
    """All findings of every record; exit 3 if any is refused."""
    if not runs:
        raise UsageError("nothing to verify", "give a run directory, the --out of 'bench run'")
    documents, lines = [], []
    for run in runs:
        report = verify(existing(run), data=data)
        ok = report.ok and not (strict and report.findings)
        documents.append({"run": str(run), **report.to_dict(), "ok": ok})
        lines += [*_lines(report), f"{run}: {_verdict(report, ok)}"]
    ok = all(document["ok"] for document in documents)
    return {"ok": ok, "reports": documents}, "\n".join(lines), Exit.OK if ok else Exit.REJECTED


def regrade_command(run: Path, data: str | None) -> tuple[dict[str, Any], str, int]:
    """Replays every recorded episode; exit 3 if a reward, a status or an observation is not what it was."""
    if existing(run).is_file():
        with unpacked(run) as directory:
            return regrade_command(directory, data)
    counts: dict[str, int] = {}
    found = [finding for finding in regrade(RunRecord(run), counts, data=data) if finding.severity == "error"]
    lines = [str(finding) for finding in found[:_SHOWN]]
    lines += [f"… and {len(found) - _SHOWN} more"] if len(found) > _SHOWN else []
    lines.append(
        f"{run}: {counts['rollouts_regraded']} rollouts and {counts['evals_regraded']} evaluations re-graded, "
        f"{len(found)} differ; {counts['rollouts_errored'] + counts['evals_errored']} had errored"
    )
    value = {"run": str(run), "ok": not found, "counts": counts, "differences": [str(f) for f in found]}
    return value, "\n".join(lines), Exit.REJECTED if found else Exit.OK


def terms_of(sign: Path | None, round_: str | None, public: bool) -> Terms:
    """What a submission is held to, from the command line."""
    try:
        return Terms(key=sign, public=public, round=None if round_ is None else rounds.read(round_))
    except RecordError as refused:
        raise UsageError(f"--round: {refused.reason}", refused.hint) from refused


def replay_command(run: Path, items: int, nonce: str, data: str | None) -> tuple[dict[str, Any], str, int]:
    """Verifies a record, then holds its transcripts to its adapters; exit 3 if either refuses."""
    from bench.replay import replay

    if existing(run).is_file():
        with unpacked(run) as directory:
            return replay_command(directory, items, nonce, data)
    report = verify(run, data=data)
    tier = "not replayed: the record itself is refused"
    if report.ok:
        report = replay(run, items=items, nonce=nonce, data=data)
        tier = "T2 replayed" if report.ok else "not replayed"
    value = {"run": str(run), "nonce": nonce, "tier": "T2" if report.ok else None, **report.to_dict()}
    lines = [*_lines(report), f"{run}: {tier} ({_verdict(report, report.ok)})"]
    return value, "\n".join(lines), Exit.OK if report.ok else Exit.REJECTED


def submit_command(
    run: Path,
    to: Path,
    about: dict[str, Any],
    dry_run: bool,
    data: str | None,
    terms: Terms,
    patch_file: Path | None = None,
) -> tuple[dict[str, Any], str, int]:
    """Verifies, previews the row, writes it or a patch that would; exit 3 if refused."""
    if existing(run).is_file():
        with unpacked(run) as directory:
            named = about if about.get("name") else {**about, "name": run.name.removesuffix(SUFFIX)}
            return submit_command(directory, to, named, dry_run, data, terms, patch_file)
    if to.exists() and not to.is_dir():
        raise UsageError(f"--to {to} is a file", "name a folder")
    directory = run
    told = {key: value for key, value in about.items() if value is not None}
    if not (directory / "submission.toml").is_file():
        told = {"name": directory.resolve().name, "authors": ["anonymous"], **told}
    outcome = submit(directory, to, about=told, terms=terms, dry_run=dry_run, data=data)
    if patch_file is not None and outcome.path is not None:
        patch(outcome.path, patch_file)
        note(f"{patch_file}: 'git apply' it in a clone of the board, and open a pull request")
    row = outcome.row
    value = {
        "ok": outcome.report.ok,
        "status": outcome.status,
        "path": None if outcome.path is None else str(outcome.path),
        "row": None if row is None else row.model_dump(mode="json", by_alias=True),
        "report": outcome.report.to_dict(),
    }
    lines = _lines(outcome.report)
    if row is not None:
        lines.append(f"row: {row_line(row)}")
    place = "" if outcome.path is None else f": {outcome.path}"
    lines.append(f"{outcome.status}{place} ({_verdict(outcome.report, outcome.report.ok)})")
    if outcome.path is not None:
        note(f"next: bench leaderboard build --data {to}")
    return value, "\n".join(lines), Exit.REJECTED if outcome.status == "refused" else Exit.OK


def build_command(data: Path, out: Path) -> Path:
    """The static site."""
    if out.exists() and not out.is_dir():
        raise UsageError(f"--out {out} is a file", "name a folder")
    return site.build(_folder(data), out, processes=os.cpu_count() or 1)


def serve_command(out: Path, port: int) -> None:
    """Serves a built site to this machine until interrupted."""
    if not (out / "index.html").is_file():
        raise UsageError(f"{out} holds no site", f"bench leaderboard build --out {out}")
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(out))
    try:
        server = http.server.ThreadingHTTPServer(("127.0.0.1", port), handler)
    except OSError as error:
        raise UsageError(f"port {port} cannot be used: {error.strerror}", "choose another --port") from error
    with server:
        note(f"http://127.0.0.1:{server.server_address[1]}/ (Ctrl-C ends it)")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            note("ended")


def show_board_command(data: Path) -> tuple[dict[str, Any], str]:
    """The board's rows, fastest first, as far as they can be ranked."""
    rows = Store(_folder(data)).rows()
    rows.sort(key=lambda row: (row.limit_applied, -(row.headline.speedup if row.headline else 0.0), row.slug))
    values = [row.model_dump(mode="json", by_alias=True) for row in rows]
    return {"rows": values}, "\n".join(map(row_line, rows)) or f"no submissions in {data}"


def row_line(row: Row) -> str:
    """A submission in a line; what is simulated or cut short says so."""
    headline = row.headline
    claim = "no comparison"
    if headline is not None:
        claim = f"{headline.speedup:.2f}x {headline.arm} against {headline.baseline}"
        if headline.low is not None and headline.high is not None:
            claim += f" [{headline.low:.2f}, {headline.high:.2f}]"
    marks = ["SIMULATED latency"] * row.latency_simulated + ["LIMITED"] * row.limit_applied
    seeds = f"{row.seeds} seed" + "s" * (row.seeds != 1)
    return "  ".join([row.slug, row.tier, row.device_class, seeds, claim, *marks])


def _folder(data: Path) -> Path:
    if not data.is_dir():
        raise UsageError(f"board folder {data} not found", f"'bench submit RUN --to {data}' makes it")
    return data


def _lines(report: Report) -> list[str]:
    unlisted = sum(report.counts.values()) - len(report.findings)
    return [*map(str, report.findings), *([f"and {unlisted} more"] if unlisted else [])]


def _verdict(report: Report, ok: bool) -> str:
    checked = ", ".join(f"{what.replace('_', ' ')} {count}" for what, count in report.checked.items())
    verdict = "verified" if ok else f"REJECTED {', '.join(report.codes)}".strip()
    return f"{verdict}: {checked}" if checked else verdict
