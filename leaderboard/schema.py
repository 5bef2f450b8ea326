"""The run directory, `bench.run/1`: one model per kind of line and one for the header.

A directory holds a whole comparison: run.json, the `*.jsonl` files below, system.json, adapters/ and, written
last, manifest.json. Every line names its `arm` and `seed`. Times are integer nanoseconds of one monotonic
clock, from the origin of the process that wrote the record. Numbers that weren't finite are null.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from leaderboard import canonical

SCHEMA = "bench.run/1"

Int = Annotated[int, Field(ge=-(2**63), lt=2**64)]
Count = Annotated[int, Field(ge=0, lt=2**53)]
Nanoseconds = Annotated[int, Field(ge=0, lt=2**63)]
Name = Annotated[str, Field(min_length=1, max_length=200)]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Text = Annotated[str, Field(max_length=1_000_000)]
Json = dict[str, Any]

Role = Literal["prefill", "decode", "train", "sync", "eval"]
Fate = Literal["consumed", "stale", "filtered", "errored", "surplus"]
Status = Literal["running", "success", "target_missed", "diverged", "interrupted", "error", "invalid"]
DeviceClass = Literal["cpu-sim", "gpu", "tpu"]


_NOT_KEPT: set[str] = set()


class Line(BaseModel):
    """Base of every model of the record: unknown fields and coercions are errors."""

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, allow_inf_nan=False, populate_by_name=True
    )

    def model_post_init(self, context: Any, /) -> None:
        """Drops which fields were given: of a line's memory these names are half, and nobody asks for them."""
        object.__setattr__(self, "__pydantic_fields_set__", _NOT_KEPT)

    def to_json(self) -> str:
        """Returns the canonical JSON text, without a line end."""
        return canonical.dumps(self.model_dump(mode="json", by_alias=True))


class EventLine(Line):
    """A point in time. `prev` is the sha256 of the bytes of the line before, without its line end.

    Lines are in order of t_ns. Keys: run_start {wall_utc}, run_stop {status, recompiles, peak_bytes, wall_utc},
    group.complete, adapter.published {tenant, version, sha256}, snapshot {tenant, version, samples, t_ns},
    tenant.stopped, self_check {tenant, ratio_min, ratio_mean, ratio_max, mean_gap, loss_tokens, sampled_tokens},
    rollout.filtered {tenant, ordinal, sample_index, tokens, reason}, checkpoint {step, blocked_ns},
    resumed {step, updates, redrawn}, compile {fun_name, seconds, cached}, warning.
    """

    seq: Count
    t_ns: Nanoseconds
    arm: Name
    seed: Int
    key: Name
    value: Json
    prev: Sha256


class SpanLine(Line):
    """A fenced interval of device work; `real_tokens` of `executed_slots` token slots did useful work."""

    arm: Name
    seed: Int
    device: Name
    role: Role
    t0_ns: Nanoseconds
    t1_ns: Nanoseconds
    tenants: list[Name]
    executed_slots: Count
    real_tokens: Count


class TurnLine(Line):
    """One message of a transcript; log-probabilities and versions belong to sampled tokens only."""

    role: Literal["policy", "environment"]
    text: Text
    token_ids: list[Int]
    behavior_logprobs: list[float] = []
    policy_version: list[Int] = []
    stop: Name | None = None
    t0_ns: Nanoseconds
    t1_ns: Nanoseconds


class RolloutLine(Line):
    """One trajectory of training. Its identity is (arm, seed, tenant, ordinal, sample_index)."""

    rollout_id: Name
    arm: Name
    seed: Int
    tenant: Name
    ordinal: Count
    sample_index: Count
    env_id: Name
    split: Name
    env_seed: Int
    item_index: Count
    level: int | None
    item_uid: str
    turns: list[TurnLine]
    reward: float
    grade_status: str
    stop: Name
    fate: Fate
    consumed_in: Count | None
    oldest_version: Count
    staleness: Count | None
    prompt_tokens: Count
    completion_tokens: Count
    env_ns: Nanoseconds
    t_start_ns: Nanoseconds
    t_end_ns: Nanoseconds
    error: str | None


class UpdateLine(Line):
    """What one optimizer update did to one tenant. `staleness` counts sampled tokens by their staleness.

    The last fields are newer than the first records, which read as null.
    """

    arm: Name
    seed: Int
    update_id: Count
    tenant: Name
    version_before: Count
    version_after: Count
    ordinals: list[Count]
    t0_ns: Nanoseconds
    t1_ns: Nanoseconds
    published_ns: Nanoseconds
    loss: float | None
    grad_norm: float | None
    learning_rate: float | None
    clip_fraction: float | None
    is_ess: float | None
    max_is_weight: float | None
    kl: float | None
    logprob_gap: float | None
    entropy: float | None
    loss_tokens: Count
    real_tokens: Count
    executed_slots: Count
    staleness: dict[Annotated[str, Field(pattern=r"^-?[0-9]{1,15}$")], Count]
    reward_mean: float | None
    reward_mean_kept: float | None
    groups_no_signal: Count
    invalid_rewards: Count
    skipped: str | None
    ratio_mean: float | None = None
    ratio_min: float | None = None
    ratio_max: float | None = None
    rejected_fraction: float | None = None
    max_log_is_weight_raw: float | None = None
    max_log_is_weight: float | None = None
    effective_loss_tokens: Count | None = None
    filtered: Count | None = None
    filtered_tokens: Count | None = None


class EvalLine(Line):
    """One evaluated item. `eval_id` 0 is before training; `samples` counts the tenant's consumed rollouts."""

    arm: Name
    seed: Int
    tenant: Name
    eval_id: Count
    version: Count
    samples: Count
    snapshot_ns: Nanoseconds
    env_id: Name
    split: Name
    env_seed: Int
    item_index: Count
    level: int | None
    item_uid: str
    turns: list[TurnLine]
    reward: float
    grade_status: str
    stop: Name
    error: str | None


class Latency(Line):
    """The environments' latency: their own, or a seeded profile added to it and called simulated."""

    profile: str
    simulated: bool
    description: str


class Prompts(Line):
    """The text that stands before and after an observation: the first of an episode, and those that follow."""

    first: Annotated[list[Text], Field(min_length=2, max_length=2)]
    later: Annotated[list[Text], Field(min_length=2, max_length=2)]


class ModelInfo(Line):
    """The frozen base model. `prompts` by task and vocabulary.json say what token ids spell; the embedded has neither.

    tokenizer_sha256 is the hash of vocabulary.json's content.
    """

    name: Name
    sha256: str
    tokenizer_sha256: str
    dtype: str
    parameters: Count
    prompts: dict[Name, Prompts] = {}


class TenantInfo(Line):
    """One tenant's job; `settings` holds its lora, optimizer, loss and sampling."""

    tenant: Name
    env_ids: list[Name]
    level: int | None = None
    group_size: Count
    groups_per_update: Count
    updates: Count
    weight: float = 1.0
    target: float | None = None
    """Accuracy that counts as reached, fixed before the run."""
    settings: Json = {}


class ArmInfo(Line):
    """One timetable: the only thing in which arms differ. An arm that `repeats` another is its A/A control."""

    arm: Name
    tenants_at_once: int | None
    step_barrier: bool
    max_staleness: Count
    consume: Literal["admission", "completion"]
    repeats: Name | None = None


class SuiteInfo(Line):
    """The named suite that was run, and the keys of the configuration that depart from it."""

    name: Name
    version: Count
    changed: list[Name] = []


class TaskInfo(Line):
    """What pins a task: its version, and the hash of the code that makes and grades its items."""

    version: str
    grader_hash: str


class DeviceInfo(Line):
    """A device; `id` is what spans call it."""

    id: Name
    kind: str
    memory_bytes: Count | None = None


class FateCounts(Line):
    """A ledger: generated = consumed + stale + filtered + errored + surplus."""

    generated: Count
    consumed: Count
    stale: Count
    filtered: Count
    errored: Count
    surplus: Count


class TenantLedger(Line):
    """The same identity in rollouts and in sampled tokens."""

    rollouts: FateCounts
    tokens: FateCounts


class AdapterHashes(Line):
    """Content hashes of a tenant's adapter before and after."""

    initial_sha256: str
    final_sha256: str


class ArmRun(Line):
    """One (arm, seed) of the comparison."""

    arm: Name
    seed: Int
    status: Status
    reason: str = ""
    t_start_ns: Nanoseconds
    t_stop_ns: Nanoseconds
    init_s: float
    compile_s: float
    compile_cache_hits: Count = 0
    programs_compiled: Count | None = None
    """Before its clock started, and by no cache; records older than this field have null."""
    settings_sha256: Sha256 | None = None
    """Of what it was built with, the timetable aside: a key of the header's `settings`."""
    recompiles_after_warmup: Count
    ledger: dict[str, TenantLedger]
    updates: dict[str, Count]
    adapters: dict[str, AdapterHashes]


class Resumption(Line):
    """A process that went on where an earlier one had stopped; what lies between counts on the clock."""

    arm: Name
    seed: Int
    step: Count | None
    """Learner steps that were kept of this (arm, seed); null where it began anew."""
    stopped_ns: Nanoseconds
    """The last the earlier process had recorded."""
    resumed_ns: Nanoseconds
    dropped_lines: Count
    """Recorded after the step that was kept, and done again."""


class Warmup(Line):
    """What was done once, before any arm's clock: loading, compiling, one unrecorded update."""

    seconds: float
    compile_s: float
    compile_cache_hits: Count
    programs_compiled: Count


class Integrity(Line):
    """Where the event chain ended: the sha256 of its last line, and its length."""

    event_head: Sha256
    event_count: Count


class Clock(Line):
    """Anchors of the monotonic clock in wall time (seconds since 1970)."""

    wall_start_utc: float
    wall_stop_utc: float | None = None
    monotonic_start_ns: Nanoseconds = 0
    monotonic_stop_ns: Nanoseconds | None = None


class RunHeader(Line):
    """run.json."""

    schema_: Literal["bench.run/1"] = Field(default=SCHEMA, alias="schema")
    run_id: Annotated[str, Field(pattern=r"^[0-9A-HJKMNP-TV-Z]{26}$")]
    suite_version: Name
    suite: SuiteInfo | None = None
    created_utc: Name
    command: list[str]
    config: Json
    set_by: dict[str, str]
    official: bool = False
    limit_applied: bool
    latency: Latency
    model: ModelInfo
    tenants: list[TenantInfo]
    arms: list[ArmInfo]
    seeds: list[Int]
    order: list[Annotated[tuple[str, int], Field(strict=False)]]
    sampling: dict[Literal["train", "eval"], Json]
    tasks: dict[str, TaskInfo]
    devices: list[DeviceInfo]
    device_class: DeviceClass
    software: Json
    clock: Clock
    warmup: Warmup | None = None
    resumed: list[Resumption] = []
    settings: dict[str, Json] = {}
    """By hash: what arms were built with. Arms that can be compared share one."""
    runs: list[ArmRun] = []
    results: Json = {}
    integrity: Integrity
    tracker: Json = {}
    warnings: list[str] = []
    status: Status
    status_reason: str = ""


class ManifestFile(Line):
    """One file of the directory; `rows` counts the lines of a JSONL file."""

    path: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/@+-]{0,199}$")]
    bytes: Count
    sha256: Sha256
    rows: Count | None = None


class Manifest(Line):
    """manifest.json: everything in the directory but itself."""

    schema_: Literal["bench.run/1"] = Field(default=SCHEMA, alias="schema")
    files: list[ManifestFile]
    merkle_root: Sha256


LINES: dict[str, type[Line]] = {
    "events.jsonl": EventLine,
    "spans.jsonl": SpanLine,
    "rollouts.jsonl": RolloutLine,
    "updates.jsonl": UpdateLine,
    "evals.jsonl": EvalLine,
}
"""The typed line files; metrics.jsonl and system.json are free JSON objects."""

REQUIRED_FILES = ("run.json", *LINES, "metrics.jsonl", "system.json")
