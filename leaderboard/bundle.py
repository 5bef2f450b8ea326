"""Seals a run directory with a manifest, and checks it against one; refuses links, odd paths and bombs."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
from pathlib import Path

from leaderboard import canonical
from leaderboard.errors import RecordError
from leaderboard.schema import Manifest, ManifestFile

MANIFEST = "manifest.json"
MAX_FILES = 2_000
MAX_FILE_BYTES = 4 * 2**30
MAX_TOTAL_BYTES = 8 * 2**30
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]*\Z")


def files(directory: Path) -> list[str]:
    """Returns the relative paths of all files below a directory but the manifest, sorted.

    Raises:
      RecordError: E101 for a link, a special file, an odd or twice-used name, or too much of anything.
    """
    if not directory.is_dir():
        raise RecordError(
            "E101", str(directory), "no such run directory", "give the folder that holds run.json"
        )
    found: list[str] = []
    total = 0
    for folder, names, leaves in os.walk(directory, followlinks=False):
        inner = os.path.relpath(folder, directory).replace(os.sep, "/")
        for name in names + leaves:
            relative = name if inner == "." else f"{inner}/{name}"
            about = os.lstat(os.path.join(folder, name))
            mode = about.st_mode
            if stat.S_ISLNK(mode) or not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                raise RecordError(
                    "E101", relative, "a link or special file", "a bundle holds plain files only"
                )
            if not plain(relative):
                raise RecordError("E101", repr(relative), "a name outside A-Z a-z 0-9 . _ @ + -", "rename it")
            if stat.S_ISDIR(mode) or relative == MANIFEST:
                continue
            size = about.st_size
            total += size
            found.append(relative)
            if size > MAX_FILE_BYTES or total > MAX_TOTAL_BYTES or len(found) > MAX_FILES:
                raise RecordError("E101", relative, "the bundle is too large", "split the run or log less")
    if len({path.casefold() for path in found}) != len(found):
        raise RecordError("E101", str(directory), "two names differ only in case", "rename one of them")
    return sorted(found)


def plain(relative: str) -> bool:
    """True if a relative path is short, not deep, and of plain names that can't climb out or hide."""
    return (
        len(relative) <= 200
        and relative.count("/") <= 4
        and all(_NAME.match(part) for part in relative.split("/"))
    )


def describe(directory: Path, relative: str) -> ManifestFile:
    """Hashes one file in blocks and counts the rows of a JSONL file."""
    digest = hashlib.sha256()
    size = rows = 0
    with (directory / relative).open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
            size += len(block)
            rows += block.count(b"\n")
    counted = rows if relative.endswith(".jsonl") else None
    return ManifestFile(path=relative, bytes=size, sha256=digest.hexdigest(), rows=counted)


def root_of(entries: list[ManifestFile]) -> str:
    """Returns the Merkle root over the canonical entries, in order of path."""
    ordered = sorted(entries, key=lambda entry: entry.path)
    return canonical.merkle_root([entry.to_json().encode() for entry in ordered])


def seal(directory: str | Path) -> Manifest:
    """Writes manifest.json over all files of the directory, atomically, and returns it."""
    directory = Path(directory)
    entries = [describe(directory, relative) for relative in files(directory)]
    manifest = Manifest(files=entries, merkle_root=root_of(entries))
    write_atomically(directory / MANIFEST, manifest.to_json().encode() + b"\n")
    return manifest


def write_atomically(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Writes a file so that a reader sees the old content or the new, never a part; on the disk, if `durable`.

    Raises FileExistsError where something else than a regular file is in its place.
    """
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise FileExistsError(errno.EEXIST, "is there and is no regular file", str(path))
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with partial.open("wb") as stream:
            stream.write(data)
            stream.flush()
            if durable:
                os.fsync(stream.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
