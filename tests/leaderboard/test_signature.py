"""A signature is one of this very content, by this very key, and the board knows the key (case 42 of the corpus)."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from leaderboard import signature
from leaderboard.errors import RecordError
from leaderboard.signature import Signature
from leaderboard.site import build
from leaderboard.submit import Terms, submit
from tests.leaderboard import golden

pytestmark = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="no ssh-keygen on PATH")
ABOUT = {"name": "Mine", "authors": ["Ada"]}
ROOT = "a" * 64


def make_key(path: Path, kind: str = "ed25519") -> Path:
    command = ["ssh-keygen", "-q", "-t", kind, "-N", "", "-C", "", "-f", str(path)]
    subprocess.run(command, check=True, capture_output=True)
    return path


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_key(tmp_path_factory.mktemp("keys") / "mine")


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_key(tmp_path_factory.mktemp("keys") / "other")


def test_a_signature_of_this_root_by_a_known_key_holds(key: Path) -> None:
    signed = signature.sign(key, ROOT)
    signature.check(signed, ROOT)
    signature.check(signed, ROOT, frozenset({signed.key}))


def test_no_other_root_key_or_signature_does(key: Path, other: Path) -> None:
    signed, theirs = signature.sign(key, ROOT), signature.sign(other, ROOT)
    with pytest.raises(RecordError, match=r"E113 .*another Merkle root"):
        signature.check(signed, "b" * 64)
    with pytest.raises(RecordError, match=r"E113 .*isn't registered"):
        signature.check(signed, ROOT, frozenset({theirs.key}))
    old = signature.sign(key, "c" * 64).signature
    forged = (
        signed.model_copy(update={"key": theirs.key}),
        signed.model_copy(update={"signature": old}),
        signed.model_copy(update={"signature": "AAAA"}),
        signed.model_copy(update={"key": "ssh-ed25519 " + "A" * 68}),
    )
    for one in forged:
        with pytest.raises(RecordError, match="E113"):
            signature.check(one, ROOT)


@pytest.mark.parametrize(
    "key", ["ssh-rsa AAAA", "ssh-ed25519 AAAA\nevil ssh-ed25519 BBBB", "ssh-ed25519 $(id)", "-oX=1"]
)
def test_a_key_is_one_plain_line(key: str) -> None:
    with pytest.raises(ValueError, match="key"):
        Signature(key=key, merkle_root=ROOT, signature="A")


def test_only_an_ed25519_key_signs(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"E113 .*no such key"):
        signature.sign(tmp_path / "none", ROOT)
    with pytest.raises(RecordError, match=r"E113 .*not an Ed25519 key"):
        signature.sign(make_key(tmp_path / "rsa", "ecdsa"), ROOT)


def test_a_board_with_keys_takes_submissions_signed_by_one_of_them(
    golden_run: Path, tmp_path: Path, key: Path, other: Path
) -> None:
    board = tmp_path / "data"
    board.mkdir()
    (board / "keys").write_text(f"# who may submit\n{key.with_suffix('.pub').read_text()}")
    for wrong in (Terms(), Terms(key=other)):
        refused = submit(golden_run, board, about=ABOUT, terms=wrong)
        assert (refused.status, refused.report.codes) == ("refused", ("E113",))
    outcome = submit(golden_run, board, about=ABOUT, terms=Terms(key=key))
    assert outcome.path is not None and outcome.row is not None and outcome.row.signed_by is not None
    build(board, tmp_path / "site")
    # a signature taken from elsewhere is seen when the board is built
    path = outcome.path / "signature.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"merkle_root": "0" * 64}))
    with pytest.raises(RecordError, match="E113"):
        build(board, tmp_path / "site")


def test_a_changed_run_needs_another_signature(run: Path, key: Path) -> None:
    before = json.loads((run / "manifest.json").read_text())["merkle_root"]
    signed = signature.sign(key, before)
    golden.edit_header(run, lambda h: h.update(warnings=["x"]))
    golden.recompute(run)
    with pytest.raises(RecordError, match="E113"):
        signature.check(signed, json.loads((run / "manifest.json").read_text())["merkle_root"])
