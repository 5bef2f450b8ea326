"""A bundle as one file: packed the same every time, unpacked with suspicion."""

from __future__ import annotations

import gzip
import shutil
import tarfile
import tempfile
import zlib
from pathlib import Path
from typing import IO

from leaderboard import bundle
from leaderboard.errors import RecordError

SUFFIX = ".tar.gz"
MAX_RATIO = 200
"""Unpacked to packed bytes; transcripts of short episodes reach about 20."""


def pack(directory: str | Path, target: str | Path) -> Path:
    """Writes a sealed run directory to one archive; equal content gives equal bytes."""
    directory, target = Path(directory), Path(target)
    names = [*bundle.files(directory), bundle.MANIFEST]
    with (
        target.open("wb") as raw,
        gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive,
    ):
        for name in sorted(names):
            entry = tarfile.TarInfo(name)
            entry.size = (directory / name).stat().st_size
            entry.mode = 0o644
            with (directory / name).open("rb") as stream:
                archive.addfile(entry, stream)
    return target


def unpack(source: str | Path, target: str | Path) -> Path:
    """Unpacks an archive to a new directory; appears whole or not at all.

    Raises:
      RecordError: E101 for links, odd or repeated names, bombs, and what isn't such an archive.
    """
    source, target = Path(source), Path(target)
    if target.exists():
        raise RecordError("E101", str(target), "exists already", "name a new directory")
    limit = min(bundle.MAX_TOTAL_BYTES, MAX_RATIO * source.stat().st_size + 2**20)
    staging = Path(tempfile.mkdtemp(prefix=".unpacking-", dir=target.parent))
    try:
        try:
            # streamed ('r|'), so that a lying header can't send the reader anywhere
            with gzip.open(source, "rb") as unzipped, tarfile.open(fileobj=unzipped, mode="r|") as archive:
                _extract(archive, staging, limit)
        except (tarfile.TarError, zlib.error, EOFError, OSError) as broken:
            raise RecordError("E101", source.name, f"not a whole {SUFFIX} archive: {broken}") from broken
        bundle.files(staging)
        staging.chmod(0o755)
        staging.rename(target)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return target


def _extract(archive: tarfile.TarFile, folder: Path, limit: int) -> None:
    seen: set[str] = set()
    for entry in archive:
        if not entry.isreg() or not bundle.plain(entry.name) or entry.name.casefold() in seen:
            raise RecordError("E101", repr(entry.name)[:120], "a link, an odd name, or a name twice")
        seen.add(entry.name.casefold())
        limit -= entry.size
        if limit < 0 or len(seen) > bundle.MAX_FILES:
            raise RecordError("E101", entry.name, "unpacks to too much", "is it a bomb?")
        stream = archive.extractfile(entry)
        path = folder / entry.name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as out:
            _copy(stream, out)


def _copy(stream: IO[bytes] | None, out: IO[bytes]) -> None:
    assert stream is not None, "a regular entry has content"
    shutil.copyfileobj(stream, out, 1 << 20)
