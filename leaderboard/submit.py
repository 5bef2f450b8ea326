"""Brings a run to the board: verify, preview the row, write it. What fails a check isn't written."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from leaderboard import about as about_file
from leaderboard import bundle, rounds, signature
from leaderboard.about import FILE, About
from leaderboard.admission import Rules, copied, corrects, known_key
from leaderboard.errors import RecordError
from leaderboard.records import RunRecord, read_model
from leaderboard.rescore import MakeEnvironment
from leaderboard.rounds import NONCE, Round
from leaderboard.row import Row, build_row
from leaderboard.schema import Manifest
from leaderboard.signature import Signature
from leaderboard.store import Store
from leaderboard.verify import Finding, Report, verify
from leaderboard.verify.report import collect, warning


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a submission; `row` and `path` are None where it was refused."""

    status: Literal["written", "unchanged", "previewed", "refused"]
    report: Report
    row: Row | None = None
    path: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a submission is held to beyond its record."""

    round: Round | None = None
    """Its seeds must follow from the nonce, and its attempts be told."""
    key: Path | None = None
    """Private Ed25519 key that signs it."""
    public: bool = False
    """A public board asks for every field of submission.toml."""


def submit(
    run_directory: str | Path,
    data_directory: str | Path,
    *,
    about: dict[str, Any] | None = None,
    terms: Terms = Terms(),
    dry_run: bool = False,
    data: str | None = None,
    make: MakeEnvironment | None = None,
) -> Outcome:
    """Verifies a run directory and writes it to a board's folder.

    Args:
      run_directory: a sealed run.
      data_directory: the board's folder; created where missing.
      about: fields of submission.toml; they go before those of a submission.toml in the run directory.
      terms: round, signature and form.
      dry_run: stop before writing.
      data: where data-set tasks read from.
      make: builds environments in place of the task registry, in tests.
    """
    run_directory = Path(run_directory)
    store = Store(Path(data_directory))
    report = verify(run_directory, data=data, make=make)
    try:
        described = _about(run_directory, about or {})
        if not report.ok:
            return Outcome(status="refused", report=report)
        root = _merkle_root(run_directory)
        earlier = store.find(root)
        record = RunRecord.open(run_directory)
        signed = None if terms.key is None else signature.sign(terms.key, root)
        row = build_row(
            record,
            report,
            slug=earlier.slug if earlier else f"{slugify(described.name)}-{root[:12]}",
            merkle_root=root,
            about=described.model_dump(),
            # a nonce by itself is no round of a board's
            round_name=None if terms.round is None or terms.round.name == NONCE else terms.round.name,
            signed_by=None if signed is None else signed.key,
        )
        _hold_to_terms(store, row, described, record, terms, signed)
        if earlier is not None:
            path = store.submissions / earlier.slug
            known = collect([*report.findings, *_not_applied(row, earlier)], report.checked)
            return Outcome(status="unchanged", report=known, row=earlier, path=path)
    except RecordError as refused:
        finding = Finding(code=refused.code, place=refused.place, reason=refused.reason, hint=refused.hint)
        return Outcome(status="refused", report=collect([*report.findings, finding], report.checked))
    if dry_run:
        return Outcome(status="previewed", report=report, row=row)
    path = store.add(run_directory, row, described, report, signed)
    return Outcome(status="written", report=report, row=row, path=path)


def patch(submission: Path, target: Path) -> None:
    """Writes a patch that adds a submission's folder to a board's repository: `git apply FILE`, for a pull request.

    Raises:
      RecordError: E101, git isn't there or refuses.
    """
    with tempfile.TemporaryDirectory(prefix="patch-") as folder:
        shutil.copytree(submission, Path(folder) / "submissions" / submission.name)
        commands = (
            ("init", "-q"),
            ("add", "-A", "-f"),
            ("diff", "--cached", "--binary", "--no-color", "--no-ext-diff"),
        )
        made = b""
        for command in commands:
            try:
                made = subprocess.run(["git", *command], cwd=folder, capture_output=True, check=True).stdout
            except FileNotFoundError as missing:
                raise RecordError(
                    "E101", "git", "not found", "install git, or give --to a folder"
                ) from missing
            except subprocess.CalledProcessError as failed:
                said = failed.stderr.decode("utf-8", "replace").strip()[:200]
                raise RecordError("E101", "git", f"{command[0]}: {said}") from failed
    bundle.write_atomically(target, made)


def _hold_to_terms(
    store: Store, row: Row, about: About, record: RunRecord, terms: Terms, signed: Signature | None
) -> None:
    rows = [other for other in store.rows() if other.slug != row.slug]
    by_slug = {other.slug: other for other in [*rows, row]}
    corrects(row, by_slug)
    for other in rows:
        if copied(row, other, by_slug):
            reason = f"it holds rollouts of {other.slug}"
            raise RecordError(
                "E165", "rollouts.jsonl", reason, "submit a run of your own, or supersede yours"
            )
    if terms.public and about.missing:
        reason = f"a public board asks for {', '.join(about.missing)}"
        raise RecordError("E181", FILE, reason, "fill in submission.toml")
    known_key(signed, row.merkle_root, Rules.of(store))
    if terms.round is not None:
        mine = [other for other in rows if other.round == row.round and other.authors == row.authors]
        rounds.check(record.header, about, terms.round, mine)


def _not_applied(row: Row, earlier: Row) -> Iterator[Finding]:
    """What a second submission of the same content would have changed, and doesn't."""
    asked = ("name", "authors", "description", "code_url", "round", "supersedes", "signed_by")
    differing = [key for key in asked if getattr(row, key) != getattr(earlier, key)]
    if differing:
        said = f"it is on the board as {earlier.slug} already; not applied: {', '.join(differing)}"
        yield warning("E181", FILE, said, "entries are never changed")


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
