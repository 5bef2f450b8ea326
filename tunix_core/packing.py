"""Sequences to fixed-shape batches and back: one tenant a row, rows of least slack, a few compiled shapes.

What shares a row with what depends on the tenant's own sequences and the buckets alone, never on its
neighbours. Neighbours only decide which batch a row travels in. Nothing is ever cut.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tunix_core.errors import ConfigError, LearnerError
from tunix_core.schedule import staleness
from tunix_core.types import Bucket, PackedBatch, TrainSequence


@dataclass(frozen=True, slots=True, kw_only=True)
class RowPlan:
    """One row: sequences of one tenant, by index, ascending."""

    tenant: str
    sequences: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPlan:
    """One compiled shape and the rows in it; rows beyond these are empty."""

    bucket: Bucket
    rows: tuple[RowPlan, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PackStats:
    """The balance: tokens in = real_tokens + dropped_tokens; executed_slots = all of B x L."""

    real_tokens: int
    executed_slots: int
    dropped_sequences: int
    dropped_tokens: int

    @property
    def waste(self) -> float:
        """Share of executed slots that held no token; 0 when nothing was executed."""
        return 1.0 - self.real_tokens / self.executed_slots if self.executed_slots else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PackPlan:
    """Where each sequence goes. `dropped` lists the over-long ones that the option let go."""

    batches: tuple[BatchPlan, ...]
    lengths: tuple[int, ...]
    dropped: tuple[int, ...] = ()

    @property
    def stats(self) -> PackStats:
        """The balance of this plan."""
        dropped_tokens = sum(self.lengths[i] for i in self.dropped)
        return PackStats(
            real_tokens=sum(self.lengths) - dropped_tokens,
            executed_slots=sum(b.bucket.rows * b.bucket.length for b in self.batches),
            dropped_sequences=len(self.dropped),
            dropped_tokens=dropped_tokens,
        )


def plan(
    lengths: Sequence[int],
    tenants: Sequence[str],
    buckets: Sequence[Bucket],
    *,
    overlong: Literal["error", "drop"] = "error",
) -> PackPlan:
    """Plans the batches of one update.

    Args:
      lengths: tokens per sequence [n], each at least 1.
      tenants: tenant id per sequence [n]; a tenant's sequences are given in its canonical order.
      buckets: the compiled shapes.
      overlong: a sequence longer than every bucket is an error, or is dropped and counted.
    """
    _check(lengths, tenants, buckets, overlong)
    longest = max(bucket.length for bucket in buckets)
    dropped = tuple(i for i, n in enumerate(lengths) if n > longest)
    if dropped and overlong == "error":
        i = dropped[0]
        raise LearnerError(
            f"Sequence {i} of tenant {tenants[i]!r} has {lengths[i]} tokens; the longest bucket holds "
            f"{longest}. Add a longer bucket, lower the token limits, or choose overlong='drop'."
        )
    members: dict[str, list[int]] = {}
    for i, tenant in enumerate(tenants):
        if lengths[i] <= longest:
            members.setdefault(tenant, []).append(i)
    row_lengths = sorted({bucket.length for bucket in buckets})
    rows: dict[int, list[RowPlan]] = defaultdict(list)
    for tenant, indices in members.items():
        for length, sequences in _rows([(int(lengths[i]), i) for i in indices], row_lengths):
            rows[length].append(RowPlan(tenant=tenant, sequences=sequences))
    return PackPlan(batches=_batches(rows, buckets), lengths=tuple(lengths), dropped=dropped)


def pack(
    sequences: Sequence[TrainSequence],
    weights: np.ndarray | Sequence[float],
    slot_of: Mapping[str, int],
    versions: Mapping[str, int],
    plan: PackPlan,
) -> list[PackedBatch]:
    """Fills the planned batches.

    Args:
      sequences: the sequences that were planned [n].
      weights: weight of each sequence's loss tokens [n] (`losses.sequence_token_weights`).
      slot_of: adapter slot per tenant.
      versions: learner version per tenant, from which token ages are counted.
      plan: of `plan`.
    """
    if not len(sequences) == len(weights) == len(plan.lengths):
        raise LearnerError(
            f"{len(sequences)} sequences and {len(weights)} weights for a plan of {len(plan.lengths)}."
        )
    return [_fill(batch, sequences, weights, slot_of, versions, plan) for batch in plan.batches]


def unpack(batches: Sequence[PackedBatch], plan: PackPlan, per_token: Sequence[Any]) -> list[np.ndarray]:
    """Per-token arrays [B, L], one a batch, back to one array a sequence (empty where dropped)."""
    dtype = np.asarray(per_token[0]).dtype if per_token else np.float32
    found = [np.zeros(0, dtype) for _ in plan.lengths]
    for batch, batch_plan, values in zip(batches, plan.batches, per_token, strict=True):
        segment_ids, values = np.asarray(batch.segment_ids), np.asarray(values)
        for r, row in enumerate(batch_plan.rows):
            for segment, i in enumerate(row.sequences, start=1):
                found[i] = values[r][segment_ids[r] == segment]
    return found


def _check(lengths: Sequence[int], tenants: Sequence[str], buckets: Sequence[Bucket], overlong: str) -> None:
    if not buckets or any(b.rows < 1 or b.length < 1 for b in buckets):
        raise ConfigError(
            f"Buckets {list(buckets)} can't hold anything. Give at least one, rows and length >= 1."
        )
    if overlong not in ("error", "drop"):
        raise ConfigError(f"overlong is {overlong!r}; use 'error' or 'drop'.")
    if len(lengths) != len(tenants):
        raise LearnerError(f"{len(lengths)} lengths but {len(tenants)} tenants.")
    if any(n < 1 for n in lengths):
        raise LearnerError(f"Sequence {next(i for i, n in enumerate(lengths) if n < 1)} has no tokens.")


def _rows(sized: Sequence[tuple[int, int]], row_lengths: Sequence[int]) -> list[tuple[int, tuple[int, ...]]]:
    """(row length, sequence indices) of one tenant: the cheapest of first-fit-decreasing at each row length and of
    rows of least slack.

    A row that stayed emptier than it was opened for shrinks to the shortest length that holds it.
    """
    size = {i: n for n, i in sized}
    fillings = [_first_fit_decreasing(sized, row_lengths, at_least) for at_least in row_lengths]
    fillings.append(_least_slack(sized, row_lengths))
    options = [
        [(next(n for n in row_lengths if n >= sum(size[i] for i in row)), row) for row in rows]
        for rows in fillings
    ]
    best = min(options, key=lambda rows: (sum(length for length, _ in rows), len(rows)))
    return sorted(best, key=lambda row: row[1])


def _least_slack(sized: Sequence[tuple[int, int]], row_lengths: Sequence[int]) -> list[tuple[int, ...]]:
    """Row by row: the longest sequence left, with those that leave the smallest share of some row length empty.

    Minimum bin slack (Gupta and Ho, "A new heuristic algorithm for the one-dimensional bin-packing problem", 1999)
    over several bin sizes. The sums that can be reached are the bits of an integer.
    """
    left = sorted(sized, key=lambda item: (-item[0], item[1]))
    longest = row_lengths[-1]
    rows: list[tuple[int, ...]] = []
    while left:
        (n, first), *rest = left
        reached = [1 << n]
        for m, _ in rest:
            reached.append((reached[-1] | reached[-1] << m) & ((2 << longest) - 1))
        # the fullest for each row length; equally empty, the longer row: it takes more with it
        sums = {
            length: (reached[-1] & ((2 << length) - 1)).bit_length() - 1
            for length in row_lengths
            if n <= length
        }
        total = min(sums.items(), key=lambda entry: (1 - entry[1] / entry[0], -entry[0]))[1]
        row = [first]
        for k in range(len(rest), 0, -1):
            if not reached[k - 1] >> total & 1:
                row.append(rest[k - 1][1])
                total -= rest[k - 1][0]
        rows.append(tuple(sorted(row)))
        taken = set(row)
        left = [item for item in left if item[1] not in taken]
    return rows


def _first_fit_decreasing(
    sized: Sequence[tuple[int, int]], row_lengths: Sequence[int], at_least: int
) -> list[tuple[int, ...]]:
    rows: list[list[int]] = []
    free: list[int] = []
    for n, i in sorted(sized, key=lambda item: (-item[0], item[1])):
        fits = next((r for r, room in enumerate(free) if n <= room), None)
        if fits is None:
            rows.append([])
            free.append(next(length for length in row_lengths if length >= max(n, at_least)))
            fits = len(rows) - 1
        rows[fits].append(i)
        free[fits] -= n
    return [tuple(sorted(indices)) for indices in rows]


def _batches(rows: Mapping[int, list[RowPlan]], buckets: Sequence[Bucket]) -> tuple[BatchPlan, ...]:
    """Longest rows first. A row travels among rows of its own length only: in a longer one its bits would differ."""
    batches: list[BatchPlan] = []
    for length in sorted(rows, reverse=True):
        queue = list(rows[length])
        while queue:
            size = _row_count(len(queue), {b.rows for b in buckets if b.length == length})
            taken, queue = queue[:size], queue[size:]
            batches.append(BatchPlan(bucket=Bucket(rows=size, length=length), rows=tuple(taken)))
    return tuple(batches)


def _row_count(n: int, counts: set[int]) -> int:
    """Rows of the next batch for n waiting rows: first the fewest empty rows, then the fewest batches."""
    ascending = sorted(counts)
    left, pieces = n, []
    while left > 0:
        pieces.append(next((c for c in reversed(ascending) if c <= left), ascending[0]))
        left -= pieces[-1]
    cover = next((c for c in ascending if c >= n), None)
    return cover if cover is not None and cover <= sum(pieces) else pieces[0]


def _fill(
    batch: BatchPlan,
    sequences: Sequence[TrainSequence],
    weights: np.ndarray | Sequence[float],
    slot_of: Mapping[str, int],
    versions: Mapping[str, int],
    plan: PackPlan,
) -> PackedBatch:
    shape = (batch.bucket.rows, batch.bucket.length)
    out = PackedBatch(
        token_ids=np.zeros(shape, np.int32),
        segment_ids=np.zeros(shape, np.int32),
        positions=np.zeros(shape, np.int32),
        token_age=np.zeros(shape, np.int32),
        loss_mask=np.zeros(shape, bool),
        behavior_logprobs=np.zeros(shape, np.float32),
        advantages=np.zeros(shape, np.float32),
        token_weights=np.zeros(shape, np.float32),
        tenant_slot=np.zeros(shape[0], np.int32),
    )
    for r, row in enumerate(batch.rows):
        out.tenant_slot[r] = slot_of[row.tenant]
        start = 0
        for segment, i in enumerate(row.sequences, start=1):
            sequence = sequences[i]
            _check_sequence(sequence, i, row.tenant, plan.lengths[i])
            at = (r, slice(start, start + plan.lengths[i]))
            mask = np.asarray(sequence.loss_mask, bool)
            out.token_ids[at] = sequence.token_ids
            out.segment_ids[at] = segment
            out.positions[at] = np.arange(plan.lengths[i])
            out.token_age[at] = _ages(sequence, mask, versions[row.tenant])
            out.loss_mask[at] = mask
            # Off the loss these carry placeholders; zeros keep whatever stood there out of every figure.
            out.behavior_logprobs[at] = np.where(mask, sequence.behavior_logprobs, 0.0)
            out.advantages[at] = np.where(mask, sequence.advantage, 0.0)
            out.token_weights[at] = np.where(mask, weights[i], 0.0)
            start += plan.lengths[i]
    return out


def _ages(sequence: TrainSequence, mask: np.ndarray, learner_version: int) -> np.ndarray:
    if not mask.any():
        return np.zeros(mask.shape, np.int32)
    staleness(learner_version, int(sequence.policy_version[mask].max()))  # refuses versions of the future
    return np.where(mask, learner_version - sequence.policy_version, 0)


def _check_sequence(sequence: TrainSequence, i: int, tenant: str, length: int) -> None:
    name = f"Sequence {i} ({sequence.tenant_id!r}, {sequence.ordinal}, {sequence.sample_index})"
    if sequence.tenant_id != tenant:
        raise LearnerError(f"{name} was planned for tenant {tenant!r}.")
    arrays = (sequence.token_ids, sequence.loss_mask, sequence.behavior_logprobs, sequence.policy_version)
    if any(len(a) != length for a in arrays):
        raise LearnerError(
            f"{name}: planned {length} tokens, but ids, mask, log-probabilities and versions have "
            f"{', '.join(str(len(a)) for a in arrays)}. They must be equal."
        )
    if sequence.loss_mask[0]:
        raise LearnerError(
            f"{name}: its first token is in the loss, but nothing precedes it to predict it from."
        )
