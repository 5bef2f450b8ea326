"""The vocabulary of the trainer. Every other module speaks these words and no others.

Letters in shapes: T adapter slots, B packed rows, L row length, G group size, S sampler slots, H heads,
K key/value heads, D model width, F feed-forward width, V vocabulary, R LoRA rank, lower-case n ragged.

tenant          one user's job: its own adapter, optimizer state, task mix, seed and quota
group           G trajectories of one item; the unit of advantage, staleness and exactly-once accounting
ordinal         k-th group of a tenant; with (tenant_id, sample_index) the identity of all that follows
policy_version  number of optimizer updates the adapter that produced a token had seen
staleness       learner version at consumption minus policy_version, in the tenant's optimizer updates
fate            what became of a trajectory; exactly one final fate each

Host records are frozen dataclasses of numpy arrays and plain values; device batches are NamedTuples.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

Array = Any  # a jax or numpy array; shapes are stated in docstrings


class StopReason(enum.StrEnum):
    """Why a turn or an episode ended."""

    EOS = "eos"
    """The policy emitted its end-of-turn token."""
    MAX_TOKENS = "max_tokens"
    """The turn hit its token limit."""
    CONTEXT = "context"
    """The context has no room for another turn."""
    TERMINATED = "terminated"
    """The environment graded the episode."""
    TRUNCATED = "truncated"
    """The environment's turn budget ran out."""
    ERROR = "error"
    """The environment or its verifier failed."""


class Fate(enum.StrEnum):
    """What became of a trajectory. The ledger: generated = consumed + stale + filtered + errored + surplus."""

    OPEN = "open"
    """Still on its way."""
    CONSUMED = "consumed"
    """Part of exactly one optimizer update."""
    STALE = "stale"
    """Older than the staleness limit when its turn came; dropped and re-drawn."""
    FILTERED = "filtered"
    """Dropped by a declared rule (no signal in the group, over-long)."""
    ERRORED = "errored"
    """The environment failed; never a reward."""
    SURPLUS = "surplus"
    """Complete when the tenant's quota was already met."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingSpec:
    """How tokens are drawn. temperature 0 is greedy and allowed in evaluation only.

    top_p and top_k cut the distribution; sampler and learner make the same cut, so ratios compare like with like.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    max_new_tokens: int = 16

    @property
    def cuts(self) -> bool:
        """Whether any token of the vocabulary may be left out."""
        return self.top_p < 1 or self.top_k > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LoraSpec:
    """One tenant's adapter: contribution = alpha / rank * (x A) B, B zero at start."""

    rank: int = 8
    alpha: float = 16.0
    rank_stabilised: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizerSpec:
    """One tenant's Adam (or plain SGD), with its own clipping norm and warm-up."""

    learning_rate: float = 3e-3
    warmup_updates: int = 0
    clip_norm: float = 1.0
    b1: float = 0.9
    b2: float = 0.95
    eps: float = 1e-8
    kind: str = "adam"


@dataclass(frozen=True, slots=True, kw_only=True)
class LossSpec:
    """Names of functions in `advantages`, `losses` and `kl`, and all their constants.

    A group whose advantages are all zero teaches nothing and stays in the denominator: leaving it out would
    raise the step size whenever a task is nearly solved, or hardly at all.
    """

    advantage: str = "grpo"
    advantage_ddof: int = 0
    """0: population standard deviation, 1: sample standard deviation ('grpo' only)."""
    advantage_eps: float = 1e-6
    """Added to the standard deviation ('grpo' only)."""
    policy: str = "decoupled_ppo"
    clip_low: float = 0.2
    clip_high: float = 0.28
    is_floor: float = 0.5
    is_cap: float = 2.0
    kl_coefficient: float = 0.0
    kl_estimator: str = "k3"
    aggregation: str = "token_mean"
    normaliser: float | None = None
    """Tokens a sequence is divided by in 'constant' aggregation; None is the tenant's max_new_tokens."""
    truncated: str = "count"
    """'count' learns from episodes cut at the token limit (reward as graded); 'mask' leaves them out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantSpec:
    """Everything about one tenant's job that the trainer needs."""

    tenant_id: str
    env_ids: tuple[str, ...]
    """Task mix: group k is drawn from these by a pure function of (seed, k)."""
    seed: int = 0
    group_size: int = 8
    groups_per_update: int = 8
    updates: int = 20
    weight: float = 1.0
    lora: LoraSpec = field(default_factory=LoraSpec)
    optimizer: OptimizerSpec = field(default_factory=OptimizerSpec)
    loss: LossSpec = field(default_factory=LossSpec)
    sampling: SamplingSpec = field(default_factory=SamplingSpec)
    max_turns: int = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeTicket:
    """Identity of one trajectory, and all an environment needs to be opened."""

    tenant_id: str
    ordinal: int
    sample_index: int
    env_id: str
    split: str
    env_seed: int
    item_index: int
    admitted_version: int = 0

    @property
    def key(self) -> tuple[str, int, int]:
        """(tenant_id, ordinal, sample_index)."""
        return (self.tenant_id, self.ordinal, self.sample_index)


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleRequest:
    """One turn to be generated. context_ids int32 [n]."""

    ticket: EpisodeTicket
    turn_index: int
    context_ids: np.ndarray
    sampling: SamplingSpec
    stop_ids: tuple[int, ...]
    stream_seed: tuple[int, int]
    """Two uint32 words folded from the ticket's identity and turn; position is folded in on the device."""
    adapter_slot: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleResult:
    """The sampled turn. token_ids int32 [m], behavior_logprobs float32 [m], policy_version int32 [m]."""

    ticket: EpisodeTicket
    turn_index: int
    token_ids: np.ndarray
    behavior_logprobs: np.ndarray
    policy_version: np.ndarray
    stop: StopReason
    t_start_ns: int
    t_end_ns: int

    def __post_init__(self) -> None:
        n = len(self.token_ids)
        if not n == len(self.behavior_logprobs) == len(self.policy_version):
            raise ValueError(
                f"sampled ids, logprobs and versions differ in length: {n}, "
                f"{len(self.behavior_logprobs)}, {len(self.policy_version)}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One message. Arrays [n]; loss_mask is true on sampled tokens only, policy_version is -1 elsewhere."""

    role: str
    """'policy' or 'environment'."""
    text: str
    token_ids: np.ndarray
    loss_mask: np.ndarray
    behavior_logprobs: np.ndarray
    policy_version: np.ndarray
    stop: StopReason | None
    t_start_ns: int
    t_end_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Trajectory:
    """A finished episode."""

    ticket: EpisodeTicket
    item_uid: str
    turns: tuple[Turn, ...]
    reward: float
    grade_status: str
    stop: StopReason
    fate: Fate
    t_start_ns: int
    t_end_ns: int
    env_ns: int = 0
    """Nanoseconds spent in the environment, simulated latency included."""
    error: str | None = None

    @property
    def oldest_version(self) -> int:
        """Version of the oldest sampled token; the admitted version where nothing was sampled."""
        # asked of every trajectory; what an environment said is never sampled
        sampled = [t for t in self.turns if t.role == "policy" and t.loss_mask.any()]
        versions = [int(t.policy_version[t.loss_mask].min()) for t in sampled]
        return min(versions, default=self.ticket.admitted_version)

    @property
    def newest_version(self) -> int:
        """Version of the newest sampled token; the admitted version where nothing was sampled."""
        versions = [int(t.policy_version.max()) for t in self.turns if t.loss_mask.any()]
        return max(versions, default=self.ticket.admitted_version)

    @property
    def sampled_tokens(self) -> int:
        """Number of tokens drawn from the policy."""
        return sum(int(np.count_nonzero(t.loss_mask)) for t in self.turns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """G trajectories of one item."""

    tenant_id: str
    ordinal: int
    trajectories: tuple[Trajectory, ...]

    @property
    def oldest_version(self) -> int:
        """Version of the group's oldest sampled token."""
        return min(t.oldest_version for t in self.trajectories)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainSequence:
    """One trajectory, flat. All arrays [n]; index j always describes token j (no shift)."""

    tenant_id: str
    ordinal: int
    sample_index: int
    token_ids: np.ndarray
    loss_mask: np.ndarray
    behavior_logprobs: np.ndarray
    policy_version: np.ndarray
    advantage: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """One compiled shape of a packed batch: rows B by row length L."""

    rows: int
    length: int


class PackedBatch(NamedTuple):
    """Device batch [B, L]; a row holds one tenant's sequences. Index j describes token j.

    segment_ids int32 (0 = pad, 1.. within a row), positions int32 (restart per segment), token_age int32
    (staleness of sampled tokens, 0 elsewhere), loss_mask bool, behavior_logprobs and advantages float32,
    token_weights float32 (1 / denominator of the token's tenant and aggregation, 0 off the loss),
    tenant_slot int32 [B] (rows without sequences point at slot 0 and weigh nothing).
    """

    token_ids: Array
    segment_ids: Array
    positions: Array
    token_age: Array
    loss_mask: Array
    behavior_logprobs: Array
    advantages: Array
    token_weights: Array
    tenant_slot: Array


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterVersion:
    """What is published: one tenant's factors per target, host arrays a [layers, in, R], b [layers, R, out]."""

    tenant_id: str
    version: int
    factors: Mapping[str, tuple[np.ndarray, np.ndarray]]
    sha256: str
    t_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateReport:
    """What one optimizer update did to one tenant."""

    update_id: int
    tenant_id: str
    version_before: int
    version_after: int
    ordinals: tuple[int, ...]
    t0_ns: int
    t1_ns: int
    published_ns: int
    loss: float
    grad_norm: float
    learning_rate: float
    clip_fraction: float
    is_ess: float
    max_is_weight: float
    """Largest importance weight that entered the loss, after clamp, cap and rejection."""
    kl: float
    logprob_gap: float
    """Mean |proximal - behaviour| log-probability over sampled tokens."""
    entropy: float
    loss_tokens: int
    real_tokens: int
    executed_slots: int
    staleness: Mapping[int, int]
    """Sampled-token count by staleness."""
    reward_mean: float
    reward_mean_kept: float | None
    groups_no_signal: int
    invalid_rewards: int
    skipped: str | None = None
    ratio_mean: float = 1.0
    """Of policy / behaviour over the loss tokens, before any clip; 1 where there are none, as for the next two."""
    ratio_min: float = 1.0
    ratio_max: float = 1.0
    rejected_fraction: float = 0.0
    """Share of the loss tokens that the loss's mask rejected."""
    max_log_is_weight_raw: float = 0.0
    """Largest |log importance weight| before clamp and cap."""
    max_log_is_weight: float = 0.0
    """The same of the weights that entered the loss; rejected tokens have none."""
    effective_loss_tokens: int = 0
    """Loss tokens that carry a policy gradient: advantage not zero, neither rejected nor silenced by a clip."""
    filtered: int = 0
    """Rollouts of these groups that a declared rule kept from the update (over-long ones), and their tokens."""
    filtered_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A closed, fenced interval of device work."""

    device: str
    role: str
    """prefill | decode | train | sync | eval"""
    t0_ns: int
    t1_ns: int
    tenants: tuple[str, ...]
    executed_slots: int
    real_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A point in time worth recording; value holds plain JSON values."""

    key: str
    t_ns: int
    value: Mapping[str, Any]
