"""A sealed directory says of every file what it holds; odd files are refused before they are read."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leaderboard import bundle, canonical
from leaderboard.errors import RecordError


def test_the_manifest_names_every_file_with_size_hash_and_rows(tmp_path: Path) -> None:
    (tmp_path / "adapters").mkdir()
    (tmp_path / "adapters" / "a.safetensors").write_bytes(b"\x00\n")
    (tmp_path / "events.jsonl").write_bytes(b"{}\n{}\n")
    manifest = bundle.seal(tmp_path)
    assert [(f.path, f.bytes, f.rows) for f in manifest.files] == [
        ("adapters/a.safetensors", 2, None),
        ("events.jsonl", 6, 2),
    ]
    assert manifest.files[1].sha256 == hashlib.sha256(b"{}\n{}\n").hexdigest()


def test_sealing_twice_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{}")
    bundle.seal(tmp_path)
    first = (tmp_path / "manifest.json").read_bytes()
    bundle.seal(tmp_path)
    assert (tmp_path / "manifest.json").read_bytes() == first
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.json", "manifest.json"]


def test_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run.json").symlink_to("/etc/hostname")
    with pytest.raises(RecordError, match=r"E101 run\.json: a link or special file"):
        bundle.seal(tmp_path)


@pytest.mark.parametrize("name", ["a b", "..x", "-x", "é", "a\nb", "a\u202eb", "<b>"])
def test_an_odd_name_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("")
    with pytest.raises(RecordError, match="E101"):
        bundle.seal(tmp_path)


def test_names_that_differ_only_in_case_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("")
    (tmp_path / "A").write_text("")
    with pytest.raises(RecordError, match="differ only in case"):
        bundle.seal(tmp_path)


def test_the_merkle_root_of_one_and_two_leaves_by_hand() -> None:
    leaf = [hashlib.sha256(b"\x00" + data).digest() for data in (b"a", b"b")]
    assert canonical.merkle_root([b"a"]) == leaf[0].hex()
    assert canonical.merkle_root([b"a", b"b"]) == hashlib.sha256(b"\x01" + leaf[0] + leaf[1]).hexdigest()


@given(st.lists(st.binary(max_size=4), min_size=1, max_size=9), st.data())
def test_the_merkle_root_depends_on_every_leaf(leaves: list[bytes], data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(leaves) - 1))
    changed = [*leaves[:index], leaves[index] + b"!", *leaves[index + 1 :]]
    assert canonical.merkle_root(changed) != canonical.merkle_root(leaves)


def test_canonical_json_refuses_nan() -> None:
    assert canonical.dumps({"b": 1, "a": "é"}) == '{"a":"é","b":1}'
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical.dumps({"a": float("nan")})
