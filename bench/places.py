"""Records as they are handed over: a run directory, or one packed as a .tar.gz; sealed, or not what was sealed."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.errors import UsageError
from leaderboard.archive import SUFFIX, unpack
from leaderboard.verify import intact

GZIP = b"\x1f\x8b"
HOW = "'bench run --out DIR' writes one"


def existing(run: Path) -> Path:
    """The path. Raises UsageError where nothing is."""
    if not run.exists():
        raise UsageError(f"run directory {run} not found", HOW)
    return run


def run_directory(run: Path) -> Path:
    """The path of what a run was begun in. Raises UsageError for any other."""
    if not existing(run).is_dir():
        raise UsageError(f"{run} is a file, not a run directory", f"{HOW}; a {SUFFIX} is unpacked first")
    if not (run / "run.json").is_file():
        raise UsageError(f"{run} holds no run.json", f"it is no run directory; {HOW}")
    return run


@contextmanager
def unpacked(run: Path) -> Iterator[Path]:
    """The run directory itself, or an archive's contents for as long as they are needed.

    Raises UsageError for a file that is no archive, RecordError for one that is broken or hostile.
    """
    if not existing(run).is_file():
        yield run
        return
    with run.open("rb") as stream:
        if stream.read(len(GZIP)) != GZIP:
            raise UsageError(f"{run} is neither a run directory nor a {SUFFIX} of one", HOW)
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        yield unpack(run, Path(folder) / "run")


def broken_seal(directory: Path) -> str | None:
    """The first thing in which a record is not the one that was sealed, and how many more there are."""
    report = intact(directory)
    if report.ok:
        return None
    more = sum(report.counts.values()) - 1
    return str(report.findings[0]) + (f", and {more} more" if more else "")
