"""How long a stage works: what the simulation asks of a machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tunix_core.types import Bucket


class StageTimes(Protocol):
    """Seconds of every kind of work of one sampler replica, of the learner, and of the thread that drives them."""

    def prefill_s(self, lanes: int, lengths: Sequence[int]) -> float:
        """One dispatch of prefill programs of so many lanes, by their compiled lengths."""
        ...

    def decode_s(self, active: int, context_tokens: float, executed_slots: int) -> float:
        """One dispatch of decode steps for so many running turns, which hold so many tokens together."""
        ...

    def train_s(self, batches: Sequence[Bucket], tenants: int) -> float:
        """One learner step over packed batches of so many tenants."""
        ...

    def pack_s(self, batches: Sequence[Bucket]) -> float:
        """What the host does before a learner step: advantages, packing."""
        ...

    def score_s(self, batches: Sequence[Bucket]) -> float:
        """The forward pass over a tenant's first update that checks it against the sampler."""
        ...

    def publish_s(self) -> float:
        """One tenant's adapter from learner to sampler."""
        ...

    def host_s(self, episodes: int, learnt: int) -> float:
        """What the loop does besides, once a turn: so many episodes moved on, so many were learnt and recorded."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredTimes:
    """Times measured on one machine: straight lines in what is executed. All in seconds."""

    prefill_base: float
    prefill_per_slot: float
    decode_base: float
    decode_per_slot: float = 0.0
    """A token slot of the parts that hold a turn."""
    train_base: float = 0.0
    train_per_tenant: float = 0.0
    train_per_slot: float = 0.0
    """A token slot of a packed batch, empty ones included."""
    pack_per_slot: float = 0.0
    score_per_slot: float = 0.0
    publish: float = 0.0
    host_base: float = 0.0
    host_per_episode: float = 0.0
    host_per_learnt: float = 0.0
    source: Mapping[str, object] = field(default_factory=dict)
    """What was fitted on what."""

    def prefill_s(self, lanes: int, lengths: Sequence[int]) -> float:
        """A straight line in executed token slots."""
        return self.prefill_base + self.prefill_per_slot * lanes * sum(lengths)

    def decode_s(self, active: int, context_tokens: float, executed_slots: int) -> float:
        """A straight line in executed token slots."""
        del active, context_tokens
        return self.decode_base + self.decode_per_slot * executed_slots

    def train_s(self, batches: Sequence[Bucket], tenants: int) -> float:
        """A straight line in executed token slots and tenants."""
        slots = sum(b.rows * b.length for b in batches)
        return self.train_base + self.train_per_tenant * tenants + self.train_per_slot * slots

    def pack_s(self, batches: Sequence[Bucket]) -> float:
        """In proportion to executed token slots."""
        return self.pack_per_slot * sum(b.rows * b.length for b in batches)

    def score_s(self, batches: Sequence[Bucket]) -> float:
        """In proportion to executed token slots."""
        return self.score_per_slot * sum(b.rows * b.length for b in batches)

    def publish_s(self) -> float:
        """Constant."""
        return self.publish

    def host_s(self, episodes: int, learnt: int) -> float:
        """A straight line in both."""
        return self.host_base + self.host_per_episode * episodes + self.host_per_learnt * learnt
