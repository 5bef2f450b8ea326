"""The first-step self-check: at version 0 sampler and learner hold the same weights, so they must agree.

Whatever separates the two sides (a mask, a shift, the temperature, the ids, an adapter) shows here, at the
first update, as a ratio that is not 1; later it would hide behind the staleness that is meant to be there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tunix_core import packing
from tunix_core.learner.stage import PackedUpdate

MEAN_GAP = 1e-3
"""Mean |policy - behaviour| log-probability allowed over a tenant's first update; float32 on one device has 1e-6."""
TOKEN_RATIO = 0.05
"""How far the ratio of any one token may be from 1: a wrong token is far outside, a reduced precision inside."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedSequence:
    """One sequence of the update as both sides see it. Arrays [n], index j describes token j."""

    ordinal: int
    sample_index: int
    token_ids: np.ndarray
    loss_mask: np.ndarray
    advantage: float
    behavior_logprobs: np.ndarray
    policy_logprobs: np.ndarray
    policy_version: np.ndarray
    sampled_tokens: int
    """What the sampler says it drew."""

    @property
    def gaps(self) -> np.ndarray:
        """|policy - behaviour| log-probability float32 [n], 0 off the loss."""
        difference = np.abs(self.policy_logprobs - self.behavior_logprobs)
        return np.where(self.loss_mask, difference, 0.0).astype(np.float32)


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfCheck:
    """A tenant's first update under test; `failure` is None where it passes."""

    tenant_id: str
    ratio_min: float
    ratio_mean: float
    ratio_max: float
    """Policy over behaviour probability, over all loss tokens; 1 where there are none."""
    mean_gap: float
    gap_by_position: np.ndarray
    """Mean |log-probability gap| float32 [longest sequence] of the loss tokens at a position; 0 without any."""
    first_outside: tuple[int, int, int] | None
    """(ordinal, sample_index, position) of the first loss token outside TOKEN_RATIO, by position."""
    loss_tokens: int
    sampled_tokens: int
    sequences: tuple[CheckedSequence, ...]

    @property
    def figures(self) -> dict[str, float | int]:
        """Its numbers as plain values, for the record."""
        return {
            "ratio_min": self.ratio_min,
            "ratio_mean": self.ratio_mean,
            "ratio_max": self.ratio_max,
            "mean_gap": self.mean_gap,
            "loss_tokens": self.loss_tokens,
            "sampled_tokens": self.sampled_tokens,
        }

    @property
    def failure(self) -> str | None:
        """Why the update is not on-policy, or None."""
        if self.loss_tokens != self.sampled_tokens:
            return (
                f"{self.loss_tokens} tokens carry loss, but {self.sampled_tokens} were sampled. "
                "A mask lost tokens, or let some in that the policy did not say."
            )
        if self.first_outside is None and self.mean_gap <= MEAN_GAP:
            return None
        where = ""
        if self.first_outside is not None:
            ordinal, sample, position = self.first_outside
            where = f", first at position {position} (group {ordinal}, sample {sample})"
        return (
            f"sampler and learner differ by {self.mean_gap:.2e} in mean |log-probability| on the same weights "
            f"(limit {MEAN_GAP:g}); the ratio is {self.ratio_min:.4f} / {self.ratio_mean:.4f} / "
            f"{self.ratio_max:.4f} (min / mean / max, limit 1 +- {TOKEN_RATIO:g}){where}. "
            "A mask, a shift, the temperature or the token ids differ between the two sides."
        )


def self_check(packed: PackedUpdate, logprobs: Sequence[np.ndarray], tenant_id: str) -> SelfCheck:
    """Compares what the sampler said of its tokens with what the learner says.

    Args:
      packed: an update's batches, as the learner is about to consume them.
      logprobs: the learner's log-probabilities of their tokens, float32 [B, L] a batch (`Learner.score`).
      tenant_id: whose share is checked.
    """
    drawn = {t.ticket.key: t.sampled_tokens for g in packed.groups[tenant_id] for t in g.trajectories}
    fields = [
        packing.unpack(packed.batches, packed.plan, values)
        for values in (
            [b.token_ids for b in packed.batches],
            [b.loss_mask for b in packed.batches],
            [b.behavior_logprobs for b in packed.batches],
            logprobs,
        )
    ]
    sequences = tuple(
        CheckedSequence(
            ordinal=s.ordinal,
            sample_index=s.sample_index,
            token_ids=ids,
            loss_mask=mask,
            advantage=s.advantage,
            behavior_logprobs=behaviour,
            policy_logprobs=policy,
            policy_version=s.policy_version,
            sampled_tokens=drawn[s.tenant_id, s.ordinal, s.sample_index],
        )
        for s, ids, mask, behaviour, policy in zip(packed.sequences, *fields, strict=True)
        if s.tenant_id == tenant_id and len(ids)
    )
    return _compare(tenant_id, sequences)


def _compare(tenant_id: str, sequences: tuple[CheckedSequence, ...]) -> SelfCheck:
    longest = max((len(s.token_ids) for s in sequences), default=0)
    gaps, counts = np.zeros(longest), np.zeros(longest)
    outside: list[tuple[int, int, int]] = []
    log_ratios = []
    for s in sequences:
        n = len(s.token_ids)
        gaps[:n] += s.gaps
        counts[:n] += s.loss_mask
        log_ratio = (s.policy_logprobs - s.behavior_logprobs)[s.loss_mask]
        log_ratios.append(log_ratio)
        # written so that a NaN is outside
        off = ~((np.log1p(-TOKEN_RATIO) <= log_ratio) & (log_ratio <= np.log1p(TOKEN_RATIO)))
        outside += [(int(p), s.ordinal, s.sample_index) for p in np.flatnonzero(s.loss_mask)[off]]
    with np.errstate(over="ignore"):  # an infinite ratio is told as such
        ratios = np.exp(np.concatenate(log_ratios)) if log_ratios else np.zeros(0)
    total = int(counts.sum())
    position, ordinal, sample = min(outside, default=(None, 0, 0), key=lambda at: at[0] or 0)
    return SelfCheck(
        tenant_id=tenant_id,
        ratio_min=float(ratios.min()) if total else 1.0,
        ratio_mean=float(ratios.mean()) if total else 1.0,
        ratio_max=float(ratios.max()) if total else 1.0,
        mean_gap=float(gaps.sum() / total) if total else 0.0,
        gap_by_position=np.divide(gaps, counts, out=np.zeros(longest), where=counts > 0).astype(np.float32),
        first_outside=None if position is None else (ordinal, sample, position),
        loss_tokens=total,
        sampled_tokens=sum(s.sampled_tokens for s in sequences),
        sequences=sequences,
    )


def token_table(check: SelfCheck, token_text: Callable[[int], str], *, sequences: int = 1) -> str:
    """The first sequences, a token a line: what it is, whether it is learnt, and what both sides say of it.

    Log-probabilities and version are shown for loss tokens only; elsewhere they mean nothing.
    """
    lines = []
    for s in check.sequences[:sequences]:
        lines.append(f"tenant {check.tenant_id}, group {s.ordinal}, sample {s.sample_index}")
        lines.append(
            f"{'pos':>4}  {'text':<12} {'id':>5}  mask  {'advantage':>9}  {'behaviour':>9}  {'policy':>9}  version"
        )
        for j, token_id in enumerate(s.token_ids.tolist()):
            line = f"{j:>4}  {token_text(token_id):<12} {token_id:>5}"
            if s.loss_mask[j]:
                behaviour, policy = s.behavior_logprobs[j], s.policy_logprobs[j]
                line += f"     1  {s.advantage:>9.4f}  {behaviour:>9.4f}  {policy:>9.4f}  {s.policy_version[j]:>7}"
            else:
                line += "     0"
            lines.append(line)
    return "\n".join(lines)
