"""A bundle travels as one file; an archive that means harm is refused and leaves nothing behind."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leaderboard import bundle
from leaderboard.archive import pack, unpack
from leaderboard.errors import RecordError
from leaderboard.verify import verify


def test_packed_and_unpacked_a_run_still_passes(golden_run: Path, tmp_path: Path) -> None:
    packed = pack(golden_run, tmp_path / "run.tar.gz")
    assert verify(unpack(packed, tmp_path / "again")).ok


def test_an_archive_is_verified_as_it_is(golden_run: Path, tmp_path: Path) -> None:
    packed = pack(golden_run, tmp_path / "run.tar.gz")
    assert verify(packed).ok
    packed.write_bytes(b"nothing of the kind")
    assert verify(packed).codes == ("E101",)


def test_equal_content_gives_equal_bytes(golden_run: Path, tmp_path: Path) -> None:
    first, second = (pack(golden_run, tmp_path / name).read_bytes() for name in ("a.tar.gz", "b.tar.gz"))
    assert first == second


def write(path: Path, *entries: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for entry, content in entries:
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return path


def entry(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info


@pytest.mark.parametrize(
    "make",
    [
        lambda p: write(p, (entry("../evil"), b"x")),
        lambda p: write(p, (entry("/tmp/evil"), b"x")),
        lambda p: write(p, (entry("a/../../evil"), b"x")),
        lambda p: write(p, (entry("run.json", tarfile.SYMTYPE, "/etc/passwd"), b"")),
        lambda p: write(p, (entry("run.json", tarfile.LNKTYPE, "/etc/passwd"), b"")),
        lambda p: write(p, (entry("pipe", tarfile.FIFOTYPE), b"")),
        lambda p: write(p, (entry("a"), b"1"), (entry("a"), b"2")),
        lambda p: write(p, (entry("a"), b"1"), (entry("A"), b"2")),
        lambda p: write(p, (entry("bomb"), bytes(2**24))),
        lambda p: p.write_bytes(b"not an archive") and p,
        lambda p: p.write_bytes(gzip.compress(b"x" * 2000)) and p,
    ],
)
def test_a_harmful_archive_is_refused(tmp_path: Path, make: Callable[[Path], Path]) -> None:
    source = make(tmp_path / "x.tar.gz")
    with pytest.raises(RecordError, match="E101"):
        unpack(source, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["x.tar.gz"]


def test_an_existing_folder_is_left_alone(golden_run: Path, tmp_path: Path) -> None:
    packed = pack(golden_run, tmp_path / "run.tar.gz")
    (tmp_path / "out").mkdir()
    with pytest.raises(RecordError, match="exists already"):
        unpack(packed, tmp_path / "out")


@given(place=st.floats(0, 1, exclude_max=True), cut=st.booleans(), bit=st.integers(0, 7))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_damaged_archive_never_crashes(
    golden_run: Path, tmp_path: Path, place: float, cut: bool, bit: int
) -> None:
    packed = tmp_path / "run.tar.gz"
    if not packed.exists():
        pack(golden_run, packed)
    data = bytearray(packed.read_bytes())
    index = int(place * len(data))
    damaged = tmp_path / "damaged.tar.gz"
    if cut:
        del data[index:]
    else:
        data[index] ^= 1 << bit
    damaged.write_bytes(bytes(data))
    try:
        out = unpack(damaged, tmp_path / "out")
    except RecordError as refused:
        assert refused.code == "E101"
        return
    # the archive's own header and padding hold nothing of the run; any other damage is the manifest's to find
    names = [*bundle.files(golden_run), bundle.MANIFEST]
    same = all((out / n).is_file() and (out / n).read_bytes() == (golden_run / n).read_bytes() for n in names)
    ok = verify(out).ok
    for path in sorted(out.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    out.rmdir()
    assert ok == same
