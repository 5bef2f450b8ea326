"""Named random streams: a seed is folded from identity, never taken from an order of arrival.

Slots, batch companions, arms and the frequency of evaluation therefore don't enter any draw.
"""

from __future__ import annotations

import enum
import hashlib
from operator import index

import numpy as np

from tunix_core.types import EpisodeTicket


class Stream(enum.StrEnum):
    """The kinds of randomness; two streams never share a draw."""

    DATA = "data"
    """Which task and item a group is drawn from."""
    INIT = "init"
    """Initial adapter factors."""
    SAMPLING = "sampling"
    """Tokens of training episodes."""
    EVALUATION = "evaluation"
    """Tokens of evaluation episodes."""


def fold(*parts: int | str) -> tuple[int, int]:
    """Two uint32 words from any parts, the same in every process; types and boundaries of parts count."""
    digest = _digest(parts)
    return int.from_bytes(digest[:4], "little"), int.from_bytes(digest[4:8], "little")


def generator(stream: Stream, *parts: int | str) -> np.random.Generator:
    """A fresh numpy generator of a stream; the global random state is neither read nor moved."""
    return np.random.default_rng(int.from_bytes(_digest((stream.value, *parts)), "little"))


def init_seed(tenant_seed: int) -> tuple[int, int]:
    """Words from which a tenant's adapter is initialised."""
    return fold(Stream.INIT.value, tenant_seed)


def sampling_seed(ticket: EpisodeTicket, turn_index: int) -> tuple[int, int]:
    """Words from which one turn is sampled; the sampler folds the token's position in on the device.

    Evaluation (any split but 'train') has a stream of its own. The policy version isn't part of it: two
    evaluations of the same items differ by the policy alone.
    """
    stream = Stream.SAMPLING if ticket.split == "train" else Stream.EVALUATION
    return fold(
        stream.value,
        ticket.tenant_id,
        ticket.env_seed,
        ticket.split,
        ticket.env_id,
        ticket.item_index,
        ticket.ordinal,
        ticket.sample_index,
        turn_index,
    )


def _digest(parts: tuple[int | str, ...]) -> bytes:
    hasher = hashlib.sha256()
    for part in parts:
        kind, text = ("s", part) if isinstance(part, str) else ("i", str(index(part)))
        data = text.encode("utf-8", "surrogatepass")
        hasher.update(f"{kind}{len(data)}:".encode())
        hasher.update(data)
    return hasher.digest()
