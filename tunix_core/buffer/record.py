"""A trajectory as bytes with a checksum, and what makes one unfit to be kept.

Layout: an 8-byte BLAKE2b digest of all that follows, the length of the head (uint32, little endian), the head
(JSON: every plain field, and dtype and length of every array), then the arrays' bytes, turn by turn. Arrays come
back with the dtype and the bits they had. Nothing of it is pickled: reading a file runs no code.
"""

from __future__ import annotations

import hashlib
import json
import struct
from typing import Any

import numpy as np

from tunix_core.errors import StorageError
from tunix_core.types import EpisodeTicket, Fate, StopReason, Trajectory, Turn

_DIGEST, _LENGTH = 8, struct.Struct("<I")
_ARRAYS = ("token_ids", "loss_mask", "behavior_logprobs", "policy_version")
_TICKET = tuple(EpisodeTicket.__slots__)
_PLAIN = ("item_uid", "reward", "grade_status", "stop", "fate", "t_start_ns", "t_end_ns", "env_ns", "error")
_TURN = ("role", "text", "stop", "t_start_ns", "t_end_ns")
TURN_BYTES = 256
"""What the objects of a turn cost beside its arrays and its text, roughly; a trajectory's own count as two turns."""


def size_of(trajectory: Trajectory) -> int:
    """Bytes a trajectory occupies in memory: arrays and text exactly, objects by TURN_BYTES."""
    total = 2 * TURN_BYTES
    for t in trajectory.turns:
        arrays = (
            t.token_ids.nbytes + t.loss_mask.nbytes + t.behavior_logprobs.nbytes + t.policy_version.nbytes
        )
        total += TURN_BYTES + arrays + len(t.text)
    return total


def defect(trajectory: Trajectory, size: int, limit: int) -> str | None:
    """Why a trajectory must not be kept, or None. Its values are the learner's business, its form is ours."""
    if size > limit:
        return f"{size} bytes, and a record may have {limit}"
    for i, t in enumerate(trajectory.turns):
        n = len(t.token_ids)
        if not n == len(t.loss_mask) == len(t.behavior_logprobs) == len(t.policy_version):
            lengths = ", ".join(f"{len(getattr(t, name))} {name}" for name in _ARRAYS)
            return f"turn {i} has {lengths}"
    return None


def encode(trajectory: Trajectory) -> bytes:
    """The record, its digest in front."""
    arrays = [np.ascontiguousarray(getattr(t, name)) for t in trajectory.turns for name in _ARRAYS]
    head = {
        "ticket": [getattr(trajectory.ticket, name) for name in _TICKET],
        "plain": [getattr(trajectory, name) for name in _PLAIN],
        "turns": [[getattr(t, name) for name in _TURN] for t in trajectory.turns],
        "arrays": [[a.dtype.str, len(a)] for a in arrays],
    }
    # ASCII, so that text which is no valid Unicode comes back as it was
    text = json.dumps(head, separators=(",", ":")).encode("ascii")
    body = b"".join([_LENGTH.pack(len(text)), text, *(a.tobytes() for a in arrays)])
    return _digest(body) + body


def decode(record: bytes) -> Trajectory:
    """The trajectory back; StorageError where the bytes are not those that were written."""
    body = memoryview(record)[_DIGEST:]
    if len(record) < _DIGEST + _LENGTH.size or _digest(body) != record[:_DIGEST]:
        raise StorageError(f"checksum of {len(record)} bytes does not match")
    (length,) = _LENGTH.unpack_from(body)
    at = _LENGTH.size + length
    head: dict[str, Any] = json.loads(bytes(body[_LENGTH.size : at]))
    arrays = []
    for dtype, count in head["arrays"]:
        arrays.append(np.frombuffer(body, np.dtype(dtype), count, at))
        at += arrays[-1].nbytes
    turns = []
    for i, fields in enumerate(head["turns"]):
        own = arrays[len(_ARRAYS) * i : len(_ARRAYS) * (i + 1)]
        turn: dict[str, Any] = dict(zip((*_TURN, *_ARRAYS), (*fields, *own), strict=True))
        turn["stop"] = None if turn["stop"] is None else StopReason(turn["stop"])
        turns.append(Turn(**turn))
    plain = dict(zip(_PLAIN, head["plain"], strict=True))
    plain |= {"stop": StopReason(plain["stop"]), "fate": Fate(plain["fate"])}
    ticket = EpisodeTicket(**dict(zip(_TICKET, head["ticket"], strict=True)))
    return Trajectory(ticket=ticket, turns=tuple(turns), **plain)


def _digest(body: bytes | memoryview) -> bytes:
    return hashlib.blake2b(body, digest_size=_DIGEST).digest()
