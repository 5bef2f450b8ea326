"""Canonical JSON (RFC 8785 style) and the hashes taken over it."""

from __future__ import annotations

import hashlib
import json
from typing import Any

GENESIS = "0" * 64
"""`prev` of the first event of a file."""


def dumps(value: Any) -> str:
    """Returns the one text of a JSON value: sorted keys, no spaces, no NaN.

    Raises:
      ValueError: the value holds NaN or an infinity.
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=False)


def encode(value: Any) -> bytes:
    """Returns the canonical text as UTF-8."""
    return dumps(value).encode("utf-8")


def sha256(data: bytes) -> str:
    """Returns the hex SHA-256 of bytes."""
    return hashlib.sha256(data).hexdigest()


def merkle_root(leaves: list[bytes]) -> str:
    """Returns the Merkle root of leaves in order, hex; leaves and nodes are told apart as in RFC 6962."""
    if not leaves:
        return sha256(b"")
    level = [hashlib.sha256(b"\x00" + leaf).digest() for leaf in leaves]
    while len(level) > 1:
        pairs = zip(level[::2], level[1::2], strict=False)
        parents = [hashlib.sha256(b"\x01" + left + right).digest() for left, right in pairs]
        level = parents + level[len(parents) * 2 :]
    return level[0].hex()
