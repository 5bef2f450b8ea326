"""Who submitted: an Ed25519 signature over the Merkle root, made and checked by `ssh-keygen -Y` (E113).

Submitters have such keys already, and ssh-keygen is wherever git over SSH is. A signature proves who, not what.
The format is OpenSSH's SSHSIG (PROTOCOL.sshsig in its sources), with a namespace of our own, so that a signature
made for something else can't be moved here.
"""

from __future__ import annotations

import base64
import binascii
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from leaderboard.errors import RecordError

FILE = "signature.json"
NAMESPACE = "bench-submission"
TIMEOUT_S = 30
_BLOB = r"[A-Za-z0-9+/]{60,100}={0,2}"


class Signature(BaseModel):
    """signature.json, beside a submission's bundle."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    schema_: Literal["bench.signature/1"] = Field(default="bench.signature/1", alias="schema")
    key: Annotated[str, Field(pattern=rf"^ssh-ed25519 {_BLOB}$")]
    merkle_root: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    signature: Annotated[str, Field(max_length=2_000, pattern=r"^[A-Za-z0-9+/=\n -]+$")]


def sign(key_file: Path, merkle_root: str) -> Signature:
    """Signs a Merkle root with a private Ed25519 key that OpenSSH can read (one with a passphrase asks its agent).

    Raises:
      RecordError: E113, no such key, one of another kind, or no ssh-keygen.
    """
    if not key_file.is_file():
        raise RecordError("E113", str(key_file), "no such key", "ssh-keygen -t ed25519 -f KEY makes one")
    public = _run(["-y", "-P", "", "-f", str(key_file)]).decode("utf-8", "replace").split()
    if len(public) < 2 or public[0] != "ssh-ed25519":
        raise RecordError(
            "E113", str(key_file), "not an Ed25519 key", "ssh-keygen -t ed25519 -f KEY makes one"
        )
    with tempfile.TemporaryDirectory(prefix="sign-") as folder:
        message = Path(folder) / "root"
        message.write_text(merkle_root, encoding="ascii")
        _run(["-Y", "sign", "-n", NAMESPACE, "-f", str(key_file), str(message)])
        made = message.with_suffix(".sig").read_text(encoding="ascii")
    return Signature(key=" ".join(public[:2]), merkle_root=merkle_root, signature=made)


def check(signature: Signature, merkle_root: str, registered: frozenset[str] = frozenset()) -> None:
    """Returns if the signature is of this root, by its key, and the key is one that the board knows.

    Args:
      signature: from signature.json.
      merkle_root: of the bundle as it is.
      registered: keys of the board; empty where it registers none.
    Raises:
      RecordError: E113 says which of it fails.
    """
    try:
        base64.b64decode(signature.key.split()[1], validate=True)
    except binascii.Error as error:
        raise RecordError("E113", FILE, "the key isn't base64") from error
    if signature.merkle_root != merkle_root:
        raise RecordError("E113", FILE, "signs another Merkle root", "sign what is submitted")
    if registered and signature.key not in registered:
        raise RecordError("E113", FILE, "the key isn't registered with this board", "ask its maintainers")
    with tempfile.TemporaryDirectory(prefix="check-") as folder:
        allowed, made = Path(folder) / "allowed", Path(folder) / "sig"
        allowed.write_text(f'submitter namespaces="{NAMESPACE}" {signature.key}\n', encoding="ascii")
        made.write_text(signature.signature, encoding="ascii")
        arguments = ["-Y", "verify", "-f", str(allowed), "-I", "submitter", "-n", NAMESPACE, "-s", str(made)]
        try:
            _run(arguments, merkle_root.encode("ascii"))
        except _Failed as refused:
            raise RecordError("E113", FILE, "the signature isn't one of this root by this key") from refused


class _Failed(RecordError):
    """ssh-keygen said no."""


def _run(arguments: list[str], message: bytes = b"") -> bytes:
    program = shutil.which("ssh-keygen")
    if program is None:
        raise RecordError("E113", "ssh-keygen", "not found", "install OpenSSH's client")
    try:
        done = subprocess.run([program, *arguments], input=message, capture_output=True, timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired as late:
        raise _Failed("E113", "ssh-keygen", f"took longer than {TIMEOUT_S} s") from late
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise _Failed("E113", "ssh-keygen", said[-1][:200] if said else "failed")
    return done.stdout
