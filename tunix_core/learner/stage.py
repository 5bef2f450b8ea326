"""The learner as a stage: groups of several tenants in, one optimizer step each, reports out."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tunix_core import packing
from tunix_core.advantages import group_advantages, invalid_count
from tunix_core.errors import ConfigError, LearnerError
from tunix_core.learner.sharded import accumulate_sharded, data_mesh, replicated, round_up_rows
from tunix_core.learner.state import hyper_of, init_state, reset_slot
from tunix_core.learner.update import (
    Cut,
    RowSums,
    Tally,
    add_rows,
    apply,
    empty_tally,
    row_sums,
    score_tokens,
)
from tunix_core.losses import sequence_token_weights
from tunix_core.model.config import ModelConfig
from tunix_core.model.lora import Factors, factors_sha256, initial_factors, lora_scale, read_slot
from tunix_core.types import (
    AdapterVersion,
    Bucket,
    Fate,
    Group,
    LossSpec,
    PackedBatch,
    Span,
    StopReason,
    TenantSpec,
    TrainSequence,
    Trajectory,
    UpdateReport,
)
from tunix_core.workers import run


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantBatch:
    """One tenant's share of an update, ready to pack."""

    sequences: tuple[TrainSequence, ...]
    weights: np.ndarray
    rewards: tuple[float | None, ...]
    groups_no_signal: int
    reward_mean_kept: float | None
    invalid_rewards: int
    filtered: int
    filtered_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedUpdate:
    """What one learner step is about to consume, told before it steps: for checks and dumps, not to be changed."""

    update_id: int
    groups: Mapping[str, Sequence[Group]]
    """Of each tenant in the step."""
    sequences: tuple[TrainSequence, ...]
    weights: np.ndarray
    """Of each sequence's loss tokens, float [n]."""
    plan: packing.PackPlan
    batches: Sequence[PackedBatch]
    versions: Mapping[str, int]
    """The learner's, of every tenant, before the step."""


@dataclass(slots=True, kw_only=True)
class Step:
    """One update on its way: prepared on the host, `run` on the device in any thread, then booked by `reports`."""

    packed: PackedUpdate
    shares: Mapping[str, TenantBatch]
    t0_ns: int
    take: Callable[[Step], None]
    t_step_ns: int = 0
    t1_ns: int = 0
    tally: Any = None
    applied: Any = None
    signal: set[str] = field(default_factory=set)
    """Tenants with something to learn."""
    broken: set[str] = field(default_factory=set)
    """Tenants whose log-probabilities are no numbers."""

    def run(self) -> None:
        """Takes the step; nothing else may be asked of the learner meanwhile."""
        self.take(self)


def flat(trajectory: Trajectory, advantage: float) -> TrainSequence | None:
    """A trajectory as one sequence: the ids as they were sampled and read, never tokenised again.

    It ends with its last sampled token: what was read after that predicts nothing, and may be of any length
    (too much to read is what ended the episode). None where nothing was sampled.
    """
    ticket = trajectory.ticket
    last = max((i for i, t in enumerate(trajectory.turns) if t.loss_mask.any()), default=None)
    if last is None:
        return None
    turns = trajectory.turns[: last + 1]
    return TrainSequence(
        tenant_id=ticket.tenant_id,
        ordinal=ticket.ordinal,
        sample_index=ticket.sample_index,
        token_ids=np.concatenate([t.token_ids for t in turns]),
        loss_mask=np.concatenate([t.loss_mask for t in turns]),
        behavior_logprobs=np.concatenate([t.behavior_logprobs for t in turns]),
        policy_version=np.concatenate([t.policy_version for t in turns]),
        advantage=advantage,
    )


def trained_length(trajectory: Trajectory) -> int:
    """Tokens of `flat`: what a row must hold to learn from this trajectory; 0 where nothing was sampled."""
    lengths = np.cumsum([len(t.token_ids) for t in trajectory.turns])
    sampled = [int(n) for n, t in zip(lengths, trajectory.turns, strict=True) if t.loss_mask.any()]
    return sampled[-1] if sampled else 0


def tenant_batch(groups: Sequence[Group], loss: LossSpec, longest_turn: float) -> TenantBatch:
    """Advantages within each group, weights over the tenant's whole update.

    Errored trajectories and rewards that are not finite take no part in a group's statistics and carry no
    loss; so do filtered ones, and truncated ones where `loss.truncated` is 'mask'. 'constant' aggregation divides by
    `longest_turn` where `loss.normaliser` doesn't say otherwise.
    A trajectory whose advantage is exactly zero stays in the denominator: what a group without signal would
    have weighed is part of the tenant's batch.
    """
    sequences: list[TrainSequence] = []
    loss_tokens: list[int] = []
    rewards: list[float | None] = []
    kept: list[float] = []
    no_signal = 0
    invalid = 0
    filtered: list[int] = []
    for group in groups:
        scored = [t for t in group.trajectories if t.error is None]
        values = [t.reward for t in scored]
        filtered += [t.sampled_tokens for t in scored if t.fate is Fate.FILTERED]
        valid = [
            t.fate is not Fate.FILTERED and (loss.truncated == "count" or t.stop is StopReason.TERMINATED)
            for t in scored
        ]
        invalid += invalid_count(values)
        valid = [v and math.isfinite(r) for v, r in zip(valid, values, strict=True)]
        advantages = group_advantages(
            values, loss.advantage, valid=valid, ddof=loss.advantage_ddof, eps=loss.advantage_eps
        )
        rewards += [r if math.isfinite(r) else None for r in values]
        if np.any(advantages != 0):
            kept += [r for r in values if math.isfinite(r)]
        else:
            no_signal += 1
        for trajectory, advantage, counts in zip(scored, advantages, valid, strict=True):
            sequence = flat(trajectory, float(advantage)) if counts else None
            if sequence is None:
                continue
            sequences.append(sequence)
            loss_tokens.append(int(sequence.loss_mask.sum()))
    normaliser = longest_turn if loss.normaliser is None else loss.normaliser
    weights = sequence_token_weights(loss_tokens, loss.aggregation, normaliser)
    return TenantBatch(
        sequences=tuple(sequences),
        weights=weights,
        rewards=tuple(rewards),
        groups_no_signal=no_signal,
        reward_mean_kept=float(np.mean(kept)) if kept else None,
        invalid_rewards=invalid,
        filtered=len(filtered),
        filtered_tokens=sum(filtered),
    )


def _finite_logprobs(sequences: Sequence[TrainSequence]) -> bool:
    """Whether the sampler's log-probabilities are numbers; an adapter that has gone wrong gives none."""
    return all(np.isfinite(s.behavior_logprobs[s.loss_mask]).all() for s in sequences)


class Learner:
    """Owns the trained state of all tenants, one slot each. One owner drives it."""

    def __init__(
        self,
        config: ModelConfig,
        params: Any,
        tenants: Sequence[TenantSpec],
        *,
        max_rank: int,
        buckets: Sequence[Bucket],
        clock_ns: Callable[[], int],
        on_span: Callable[[Span], None],
        device: str = "cpu:0",
        on_packed: Callable[[PackedUpdate], None] = lambda packed: None,
        slots: int = 0,
        devices: Sequence[Any] = (),
        workers: int = 1,
    ) -> None:
        """`on_packed` is told of each step's batches while the learner still holds the weights before it.

        `slots` beyond the given tenants stay free for those that join later; 0 = none.
        `devices`, where there are several, each take their share of a batch's rows (`sharded`); the buckets' rows
        are rounded up to a multiple of them.
        `workers` batches are computed at once (one device only); they are added in order, so the bits are the same.
        """
        self.mesh = data_mesh(devices)
        self.config, self.params, self.max_rank = config, params, max_rank
        spare = max(0, slots - len(tenants))
        self.slots: list[TenantSpec | None] = [*tenants, *[None] * spare]
        self.slot_of = {t.tenant_id: i for i, t in enumerate(tenants)}
        self.state = init_state(config, self.slots, max_rank)
        self.buckets = round_up_rows(buckets, max(len(devices), 1))
        if self.mesh is not None:
            self.params, self.state = replicated((self.params, self.state), self.mesh)
        self.versions = dict.fromkeys(self.slot_of, 0)
        self.losses: tuple[LossSpec, ...] = ()
        self._settle_settings()
        self._clock_ns, self._on_span, self._device = clock_ns, on_span, device
        self._on_packed, self._workers = on_packed, workers

    def add(self, tenant: TenantSpec) -> int:
        """Gives a tenant the first free slot, at version 0, and returns it; nobody else's bits change.

        A loss that no tenant had before costs one compilation at its first update.
        """
        if tenant.tenant_id in self.slot_of:
            raise ConfigError(f"tenant {tenant.tenant_id!r} is here already")
        if None not in self.slots:
            raise ConfigError(
                f"no slot for tenant {tenant.tenant_id!r}: all {len(self.slots)} are taken. Remove a tenant "
                "or raise tenant_slots"
            )
        hyper_of([tenant])
        factors = initial_factors(self.config, tenant, self.max_rank)
        slot = self.slots.index(None)
        self.state = reset_slot(self.state, slot, factors, lora_scale(tenant.lora))
        self.slots[slot] = tenant
        self.slot_of[tenant.tenant_id] = slot
        self.versions[tenant.tenant_id] = 0
        self._settle_settings()
        return slot

    def remove(self, tenant_id: str) -> None:
        """Frees a tenant's slot; whoever gets it next starts anew."""
        slot = self.slot_of.pop(tenant_id)
        del self.versions[tenant_id]
        self.slots[slot] = None
        self._settle_settings()

    def load(
        self, arrays: Mapping[str, Any], slots: Sequence[TenantSpec | None], versions: Mapping[str, int]
    ) -> None:
        """Takes up saved state: arrays 'adapters', 'adam' and 'updates' of all slots, who sits where, versions."""
        self.slots = list(slots)
        self.slot_of.clear()
        self.slot_of.update({t.tenant_id: i for i, t in enumerate(self.slots) if t is not None})
        self.versions = dict(versions)
        self._settle_settings()
        placed = jax.tree.map(jnp.asarray, arrays)
        if self.mesh is not None:
            placed = replicated(placed, self.mesh)
        self.state = self.state._replace(**placed)

    def _settle_settings(self) -> None:
        self.hyper = hyper_of(self.slots)
        present = (t.loss for t in self.slots if t is not None)
        # a loss once compiled stays: dropping it would compile the others again
        self.losses = tuple(dict.fromkeys([*self.losses, *present]))
        self._loss_index = np.asarray([self.losses.index(t.loss) if t else 0 for t in self.slots], np.int32)

    def update(self, update_id: int, due: Mapping[str, Sequence[Group]]) -> list[UpdateReport]:
        """One step for every tenant in `due`, prepared, taken and reported, for who has nothing to do meanwhile."""
        step = self.prepare(update_id, due)
        step.run()
        return self.reports(step)

    def prepare(self, update_id: int, due: Mapping[str, Sequence[Group]]) -> Step:
        """Advantages, weights and packing of one update, on the host; the step's `run` then does it on the device."""
        t0 = self._clock_ns()
        shares = {
            name: tenant_batch(groups, self._spec(name).loss, float(self._spec(name).sampling.max_new_tokens))
            for name, groups in due.items()
        }
        flat_sequences = [s for name in due for s in shares[name].sequences]
        weights = np.concatenate([shares[name].weights for name in due]) if due else np.zeros(0)
        plan = packing.plan(
            [len(s.token_ids) for s in flat_sequences],
            [s.tenant_id for s in flat_sequences],
            self.buckets,
        )
        packed = PackedUpdate(
            update_id=update_id,
            groups=due,
            sequences=tuple(flat_sequences),
            weights=weights,
            plan=plan,
            batches=packing.pack(flat_sequences, weights, self.slot_of, self.versions, plan),
            versions=dict(self.versions),
        )
        self._on_packed(packed)
        return Step(packed=packed, shares=shares, t0_ns=t0, take=self._take)

    def _take(self, step: Step) -> None:
        due, shares = step.packed.groups, step.shares
        step.t_step_ns = self._clock_ns()
        grad_sum, tally = self._sums(step.packed.batches, self.state.grad_sum, empty_tally(len(self.slots)))
        signal = {name for name in due if any(s.advantage != 0 for s in shares[name].sequences)}
        signal |= {n for n in due if shares[n].sequences and self._spec(n).loss.kl_coefficient > 0}
        broken = {name for name in due if not _finite_logprobs(shares[name].sequences)}
        mask = np.asarray([t is not None and t.tenant_id in signal - broken for t in self.slots])
        self.state, applied = apply(self.state._replace(grad_sum=grad_sum), self.hyper, mask)
        step.tally, step.applied = jax.device_get((tally, applied))
        step.signal, step.broken = signal, broken
        step.t1_ns = self._clock_ns()

    def reports(self, step: Step) -> list[UpdateReport]:
        """Books a step that was run: versions rise. A report each, `skipped` set where no step was taken.

        A tenant without any loss token, or with all advantages zero, still counts the update: its parameters
        stay as they are to the bit and its version rises, since the groups are spent. Only a step that failed
        (a log-probability or a gradient that is not finite) leaves the version where it was.
        """
        due, stats = step.packed.groups, step.packed.plan.stats
        self._on_span(
            Span(
                device=self._device,
                role="train",
                t0_ns=step.t_step_ns,
                t1_ns=step.t1_ns,
                tenants=tuple(sorted(due)),
                executed_slots=stats.executed_slots,
                real_tokens=stats.real_tokens,
            )
        )
        reports = []
        for name in due:
            skipped, failed = None, False
            if name in step.broken:
                skipped, failed = "non-finite log-probability from the sampler", True
            elif name not in step.signal:
                skipped = "no signal: every advantage is zero"
            elif not step.applied.stepped[self.slot_of[name]]:
                skipped, failed = "non-finite gradient", True
            before = self.versions[name]
            self.versions[name] = after = before if failed else before + 1
            reports.append(self._report(step, name, before, after, skipped))
        return reports

    def score(self, batches: Sequence[PackedBatch]) -> list[np.ndarray]:
        """Log-probabilities float32 [B, L] of the batches' tokens under the adapters of now, one a batch."""
        adapters, temperature = self.state.adapters, self.hyper.temperature
        scored = [
            score_tokens(self.params, *adapters, temperature, batch, self._cut, config=self.config)
            for batch in batches
        ]
        return [np.asarray(s.logprobs) for s in jax.device_get(scored)]

    def adapter(self, tenant_id: str) -> AdapterVersion:
        """The tenant's current factors, on the host, with their hash."""
        factors = read_slot(self.state.adapters.factors, self.slot_of[tenant_id])
        return AdapterVersion(
            tenant_id=tenant_id,
            version=self.versions[tenant_id],
            factors=factors,
            sha256=factors_sha256(factors),
            t_ns=self._clock_ns(),
        )

    def warm_up(self, *, score: bool = False) -> None:
        """Compiles every bucket and the optimizer step, scoring too if asked; leaves the state as it was."""

        def blank(bucket: Bucket) -> PackedBatch:
            shape = (bucket.rows, bucket.length)
            whole, real = np.zeros(shape, np.int32), np.zeros(shape, np.float32)
            mask, slots = np.zeros(shape, bool), np.zeros(bucket.rows, np.int32)
            return PackedBatch(whole, whole, whole, whole, mask, real, real, real, slots)

        batches = [blank(bucket) for bucket in self.buckets]
        grad_sum, tally = self._sums(batches, self.state.grad_sum, empty_tally(len(self.slots)))
        self.state = self.state._replace(grad_sum=grad_sum)
        jax.block_until_ready(tally)
        if score:
            for _ in run(lambda batch: self.score([batch]), batches, self._workers):
                pass
        self.state, _ = apply(self.state, self.hyper, np.zeros(len(self.slots), bool))
        jax.block_until_ready(jnp.zeros(()))

    def _sums(self, batches: Sequence[PackedBatch], grad_sum: Factors, tally: Tally) -> tuple[Factors, Tally]:
        """Adds the batches' gradients and figures, in order; consumes both sums."""
        shared = (self.params, self.state.adapters.factors, self.state.adapters.scale, self.hyper.temperature)
        if self.mesh is not None:
            for batch in batches:
                grad_sum, tally = accumulate_sharded(
                    *shared, self._loss_index, batch, grad_sum, tally, self._cut,
                    mesh=self.mesh, config=self.config, losses=self.losses,
                )  # fmt: skip
            return grad_sum, tally

        def rows_of(batch: PackedBatch) -> RowSums:
            rows = row_sums(
                *shared, self._cut, self._loss_index, batch, config=self.config, losses=self.losses
            )
            # a worker has the next batch only when this one is done; alone, the device may run ahead of us
            return jax.block_until_ready(rows) if self._workers > 1 else rows

        for batch, rows in zip(batches, run(rows_of, batches, self._workers), strict=True):
            grad_sum, tally = add_rows(grad_sum, tally, rows, batch.tenant_slot)
        return grad_sum, tally

    @property
    def _cut(self) -> Cut | None:
        """None while no tenant cuts: the compiled programs then sort no vocabulary."""
        if not any(t is not None and t.sampling.cuts for t in self.slots):
            return None
        return Cut(self.hyper.top_p, self.hyper.top_k)

    def _spec(self, tenant_id: str) -> TenantSpec:
        if tenant_id not in self.slot_of:
            raise LearnerError(f"tenant {tenant_id!r} has no slot; the learner holds {sorted(self.slot_of)}")
        spec = self.slots[self.slot_of[tenant_id]]
        assert spec is not None
        return spec

    def _report(self, step: Step, name: str, before: int, after: int, skipped: str | None) -> UpdateReport:
        groups, share = step.packed.groups[name], step.shares[name]
        tally, applied, stats = step.tally, step.applied, step.packed.plan.stats
        slot = self.slot_of[name]
        tokens = float(tally.tokens[slot])

        def mean(total: np.ndarray) -> float:
            return float(total[slot]) / tokens if tokens else 0.0

        squared = float(tally.weight_squared[slot])
        ages: dict[int, int] = {}
        for s in share.sequences:
            for age, n in zip(
                *np.unique(before - s.policy_version[s.loss_mask], return_counts=True), strict=True
            ):
                ages[int(age)] = ages.get(int(age), 0) + int(n)
        finite = [r for r in share.rewards if r is not None]
        return UpdateReport(
            update_id=step.packed.update_id,
            tenant_id=name,
            version_before=before,
            version_after=after,
            ordinals=tuple(g.ordinal for g in groups),
            t0_ns=step.t0_ns,
            t1_ns=step.t1_ns,
            published_ns=step.t1_ns,
            loss=float(tally.loss[slot]),
            grad_norm=float(applied.grad_norm[slot]),
            learning_rate=float(applied.learning_rate[slot]),
            clip_fraction=mean(tally.clipped),
            is_ess=float(tally.weight[slot]) ** 2 / (squared * tokens) if squared and tokens else 1.0,
            max_is_weight=float(tally.max_weight[slot]),
            kl=mean(tally.kl),
            logprob_gap=mean(tally.gap),
            entropy=mean(tally.entropy),
            loss_tokens=int(tokens),
            real_tokens=stats.real_tokens,
            executed_slots=stats.executed_slots,
            staleness=ages,
            reward_mean=float(np.mean(finite)) if finite else 0.0,
            reward_mean_kept=share.reward_mean_kept,
            groups_no_signal=share.groups_no_signal,
            invalid_rewards=share.invalid_rewards,
            skipped=skipped,
            ratio_mean=mean(tally.ratio) if tokens else 1.0,
            ratio_min=float(tally.ratio_min[slot]) if tokens else 1.0,
            ratio_max=float(tally.ratio_max[slot]) if tokens else 1.0,
            rejected_fraction=mean(tally.rejected),
            max_log_is_weight_raw=float(tally.max_log_weight_raw[slot]),
            max_log_is_weight=float(tally.max_log_weight[slot]),
            effective_loss_tokens=int(tally.effective[slot]),
            filtered=share.filtered,
            filtered_tokens=share.filtered_tokens,
        )
