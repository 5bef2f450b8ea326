"""What a run is given and what it leaves: settings, snapshots, results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from tunix_core.buffer import BufferSpec
from tunix_core.errors import ConfigError
from tunix_core.sampler.base import SamplerSpec
from tunix_core.types import AdapterVersion, Bucket, TenantSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainerSpec:
    """What all arms share. `runtime` 'inline' runs environments in the loop's own thread: deterministic."""

    sampler: SamplerSpec = field(default_factory=SamplerSpec)
    buckets: tuple[Bucket, ...] = (Bucket(rows=16, length=128),)
    overlong: Literal["error", "drop"] = "error"
    """Buckets too short for the longest possible episode: refused at start, or episodes that exceed them are
    filtered, counted and told one by one. Nothing is ever cut."""
    runtime: Literal["inline", "threads"] = "threads"
    env_workers: int = 256
    env_timeout_s: float = 60.0
    no_progress_s: float = 120.0
    snapshot_every: int = 0
    """Keep each tenant's adapter every so many updates, beside the first and the last; 0 = those two only."""
    warn_no_signal_after: int = 10
    """So many updates of a tenant in a row that taught nothing (all groups right, or all wrong) are told."""
    in_flight_updates: bool = True
    """A new adapter is used from the next token on; off: a running turn ends on the adapter it began with."""
    self_check: bool = True
    """Each tenant's first update must be on-policy; off only for samplers whose log-probabilities are made up."""
    device: str = "cpu:0"
    learner_devices: int = 1
    """Devices that share the learner's rows; the sampler lives on the first of them."""
    workers: int = 1
    """Packed batches that one device computes at once; several pay on a CPU, where one leaves cores idle."""
    tenant_slots: int = 0
    """Adapter slots; 0 = one for each tenant given. More leave room for tenants that join while others run."""
    max_rank: int = 0
    """Highest LoRA rank a slot holds; 0 = the highest of the tenants given."""
    buffer: BufferSpec = field(default_factory=BufferSpec)
    """Its durable store lies in `checkpoint_dir`: what it keeps is owed until a checkpoint has it learnt."""
    checkpoint_dir: Path | None = None
    checkpoint_every: int = 0
    """Learner steps between two checkpoints; 0 = only one, when the run ends or is interrupted."""
    checkpoint_s: float = 0.0
    """Seconds between two checkpoints, whatever the steps; 0 = by steps alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A tenant's adapter at a scheduled point, to be scored after the clock has stopped."""

    adapter: AdapterVersion
    samples: int
    """Trajectories the tenant had consumed."""
    t_ns: int

    @property
    def line(self) -> dict[str, Any]:
        """All but the arrays, as plain JSON."""
        a = self.adapter
        return {
            "tenant": a.tenant_id,
            "version": a.version,
            "samples": self.samples,
            "sha256": a.sha256,
            "t_ns": self.t_ns,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainResult:
    """How a run ended. Ledgers close whatever the status."""

    status: Literal["success", "interrupted", "tenant_stopped"]
    reason: str
    t_start_ns: int
    t_stop_ns: int
    ledgers: Mapping[str, Mapping[str, Mapping[str, int]]]
    updates: Mapping[str, int]
    snapshots: tuple[Snapshot, ...]
    recompiles: Mapping[str, int]
    """Compilations inside the window, by function name; the target is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """What a resumed run found."""

    step: int
    """Learner steps done."""
    updates: Mapping[str, int]
    redrawn: Mapping[str, tuple[int, ...]]
    """Ordinals that were in flight and are drawn again, but for what the buffer had kept of them."""
    replayed: Mapping[str, int] = field(default_factory=dict)
    """Trajectories that the durable buffer had kept: they are learnt as they were, not sampled again."""
    quarantined: tuple[str, ...] = ()
    """Records that could not be read, with the reason; their episodes are drawn again."""


def check_run(tenants: Sequence[TenantSpec], spec: TrainerSpec) -> None:
    """Raises ConfigError for a run that cannot work, before anything is built."""
    names = [t.tenant_id for t in tenants]
    if not names:
        raise ConfigError("no tenants: give at least one")
    if len(set(names)) < len(names):
        raise ConfigError(f"tenant ids repeat: {sorted(n for n in set(names) if names.count(n) > 1)}")
    for t in tenants:
        check_tenant(t, spec)
    longest = spec.sampler.max_context + spec.sampler.max_new_tokens
    if spec.overlong not in ("error", "drop"):
        raise ConfigError(f"overlong is {spec.overlong!r}; use 'error' or 'drop'")
    if spec.overlong == "error" and max(b.length for b in spec.buckets) < longest:
        raise ConfigError(
            f"buckets {[(b.rows, b.length) for b in spec.buckets]} cannot hold an episode of {longest} tokens "
            f"(context {spec.sampler.max_context} + turn {spec.sampler.max_new_tokens}); add a longer one, lower "
            "a limit, or set overlong='drop'"
        )
    if spec.buffer.store not in ("memory", "durable"):
        raise ConfigError(f"buffer {spec.buffer.store!r} not found; use 'memory' or 'durable'")
    if spec.buffer.store == "durable" and spec.checkpoint_dir is None:
        raise ConfigError(
            "buffer 'durable' needs a checkpoint_dir: what it keeps is of use to a resumed run only"
        )
    if spec.learner_devices < 1:
        raise ConfigError(f"learner_devices {spec.learner_devices} must be at least 1")
    if spec.checkpoint_every < 0 or (spec.checkpoint_every and spec.checkpoint_dir is None):
        raise ConfigError(
            f"checkpoint_every {spec.checkpoint_every} needs a checkpoint_dir, and must not be negative"
        )


def check_tenant(tenant: TenantSpec, spec: TrainerSpec) -> None:
    """Raises ConfigError for a tenant that this run cannot take."""
    t = tenant
    if min(t.group_size, t.groups_per_update, t.updates) < 1:
        raise ConfigError(
            f"tenant {t.tenant_id!r}: group_size {t.group_size}, groups_per_update {t.groups_per_update} and "
            f"updates {t.updates} must all be at least 1"
        )
    if t.sampling.max_new_tokens > spec.sampler.max_new_tokens:
        raise ConfigError(
            f"tenant {t.tenant_id!r}: max_new_tokens {t.sampling.max_new_tokens} exceeds the sampler's "
            f"{spec.sampler.max_new_tokens}"
        )
