"""E101-E112: the bundle opens, its files are those of the manifest, and the event chain is whole."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from leaderboard import bundle, canonical
from leaderboard.records import RunRecord, event_chain, parse, read_lines, read_model
from leaderboard.schema import LINES, REQUIRED_FILES, Manifest
from leaderboard.verify.report import Finding, error


def required(directory: Path) -> Iterator[Finding]:
    """E101, E103: which files there are."""
    present = set(bundle.files(directory))
    for name in REQUIRED_FILES:
        if name not in present and (directory / name).exists():
            yield error("E103", name, "it is no regular file")
        elif name not in present:
            yield error(
                "E103", name, "the file is missing", "was the run interrupted before it was recorded?"
            )


def free_files(directory: Path) -> Iterator[Finding]:
    """E102 of the files without a line model."""
    for name in ("metrics.jsonl", "system.json"):
        path = directory / name
        if not path.is_file():
            continue
        if name.endswith(".json"):
            parse(path.read_bytes(), name)
            continue
        for number, data in read_lines(path):
            if not isinstance(parse(data, f"{name}:{number}"), dict):
                yield error("E102", f"{name}:{number}", "not a JSON object")


def manifest(directory: Path) -> Iterator[Finding]:
    """E111: sizes, hashes, rows, unlisted files and the Merkle root."""
    path = directory / bundle.MANIFEST
    if not path.is_file():
        yield error("E103", bundle.MANIFEST, "the record isn't sealed", "let the run end, or seal it again")
        return
    declared = read_model(Manifest, path.read_bytes(), bundle.MANIFEST)
    listed = {entry.path: entry for entry in declared.files}
    if len(listed) != len(declared.files):
        yield error("E111", bundle.MANIFEST, "a path is listed twice")
    present = bundle.files(directory)
    for name in present:
        if name not in listed:
            yield error("E111", name, "the file isn't in the manifest", "remove it, or seal the record again")
            continue
        actual = bundle.describe(directory, name)
        for what in ("bytes", "sha256", "rows"):
            if getattr(actual, what) != getattr(listed[name], what):
                yield error(
                    "E111",
                    name,
                    f"{what} is {getattr(actual, what)}, the manifest says {getattr(listed[name], what)}",
                    "the file was changed after the run",
                )
                break
    for name in sorted(listed.keys() - set(present)):
        yield error("E111", name, "listed in the manifest but missing")
    if bundle.root_of(declared.files) != declared.merkle_root:
        yield error("E111", bundle.MANIFEST, "the Merkle root doesn't follow from the files")


def chain(record: RunRecord) -> Iterator[Finding]:
    """E112: seq, prev and head of the event chain."""
    path = record.directory / "events.jsonl"
    count = 0
    head = canonical.GENESIS
    for number, expected, event in event_chain(path):
        if event.prev != expected:
            yield error("E112", f"events.jsonl:{number}", "prev isn't the hash of the line before", "edited?")
        if event.seq != number - 1:
            yield error("E112", f"events.jsonl:{number}", f"seq is {event.seq}, expected {number - 1}")
        count = number
    for _, data in read_lines(path):
        last = data
        head = canonical.sha256(last)
    integrity = record.header.integrity
    if (integrity.event_head, integrity.event_count) != (head, count):
        yield error(
            "E112",
            "run.json",
            f"the chain ends with {head[:12]}… after {count} events, "
            f"run.json says {integrity.event_head[:12]}… after {integrity.event_count}",
            "events are missing or were added",
        )


def schema(record: RunRecord) -> Iterator[Finding]:
    """E102, E103 of the header and of every typed line."""
    _ = record.header
    for name in LINES:
        _ = getattr(record, name.removesuffix(".jsonl"))
    yield from ()
