"""Checks a run directory: every check has a stable code, all of them run, nothing submitted is executed.

A record that passes is consistent and its rewards are true of its transcripts. It may still have been made
up from end to end: only a replay of its adapters, or a run of one's own, shows that.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from leaderboard.archive import unpack
from leaderboard.errors import RecordError
from leaderboard.records import RunRecord
from leaderboard.rescore import MakeEnvironment
from leaderboard.verify import (
    accounts,
    comparison,
    figures,
    files,
    latencies,
    privacy,
    resumed,
    schedule,
    scores,
    settings,
    spans,
    timeline,
)
from leaderboard.verify.report import EXPLAIN, Finding, Report, collect, error, guarded

__all__ = ["EXPLAIN", "Finding", "Report", "intact", "sealed", "verify"]


def verify(
    directory: str | Path,
    *,
    sealed: bool = True,
    data: str | None = None,
    make: MakeEnvironment | None = None,
) -> Report:
    """Runs all checks on a run directory, or on one packed as a .tar.gz.

    Args:
      directory: holds run.json; or the archive.
      sealed: require a manifest that fits; False for a record still to be sealed.
      data: where data-set tasks read from, as for a run.
      make: builds environments in place of the task registry, in tests.
    """
    directory = Path(directory)
    if directory.is_file():
        return _verify_archive(directory, data=data, make=make)
    record = RunRecord(directory)
    checked: dict[str, int] = {}
    checks = [files.required(directory), files.free_files(directory), files.schema(record)]
    if sealed:
        checks.append(files.manifest(directory))
    readable = collect((finding for check in checks for finding in guarded(check)), {})
    if "E101" in readable.codes:
        # links and files past every limit aren't opened a second time
        return readable
    # a file that can't be read is one finding, however many checks need it; the others still run
    checks = [
        files.chain(record),
        timeline.plan(record),
        timeline.clock(record),
        timeline.windows(record),
        resumed.resumptions(record),
        schedule.compiling(record),
        schedule.evaluations(record),
        spans.spans(record),
        spans.pinned(record),
        spans.fast(record),
        latencies.delays(record),
        latencies.baseline(record),
        accounts.ledgers(record),
        accounts.consumption(record),
        accounts.versions(record),
        accounts.ages(record),
        accounts.optimizer(record),
        accounts.equal_work(record),
        scores.suite(record),
        scores.regrade(record, checked, make=make, data=data),
        scores.screened(record),
        scores.disjoint(record),
        scores.tokens(record),
        scores.coverage(record),
        settings.configuration(record),
        settings.adapters(record),
        comparison.paired(record),
        comparison.independent(record),
        comparison.varied(record),
        figures.reported(record),
        figures.rows(record),
        privacy.secrets(directory),
    ]
    found = [finding for check in checks for finding in guarded(check)]
    return collect([*readable.findings, *found], checked)


def intact(directory: Path) -> Report:
    """Whether a directory is byte for byte what was sealed: manifest and event chain, nothing re-graded."""
    checks = (files.required(directory), files.manifest(directory), files.chain(RunRecord(directory)))
    return collect((finding for check in checks for finding in guarded(check)), {})


def sealed(directory: Path) -> Report:
    """`intact` of a record that was verified before under this manifest: its bytes alone."""
    checks = (files.required(directory), files.manifest(directory))
    return collect((finding for check in checks for finding in guarded(check)), {})


def _verify_archive(archive: Path, *, data: str | None, make: MakeEnvironment | None) -> Report:
    with tempfile.TemporaryDirectory(prefix="verify-") as folder:
        try:
            unpacked = unpack(archive, Path(folder) / "run")
        except RecordError as refused:
            return collect([error(refused.code, refused.place, refused.reason, refused.hint)], {})
        return verify(unpacked, data=data, make=make)
