"""The configuration of a plan: typed, closed, and turned into setups that can be simulated."""

from __future__ import annotations

import dataclasses
import difflib
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bench.errors import UsageError
from bench.planner.hardware import DEVICES, MODELS, find
from bench.planner.roofline import Efficiency, Memory, RooflineTimes, check, memory
from bench.planner.simulate import Faults, Setup
from bench.planner.work import DrawnWork
from bench.shapes import ROW_LENGTHS
from tasks import latency
from tunix_core import schedule
from tunix_core.sampler.base import SamplerSpec
from tunix_core.types import Bucket, LoraSpec, SamplingSpec, TenantSpec

MAX_CHIPS_PER_REPLICA = 64


class Scenario(BaseModel):
    """Everything `bench plan` can be told. What is left out has the default shown."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, strict=True)

    model: str = Field("llama3-8b", description="Base model.")
    device: str = Field("v5e", description="Accelerator.")
    devices: int = Field(16, ge=1, le=100_000, description="Chips in all.")
    chips_per_replica: int | None = Field(
        None, ge=1, le=MAX_CHIPS_PER_REPLICA, description="Unset: as few as hold it."
    )
    learner_share: float = Field(
        0.0, ge=0, lt=1, description="Of the chips, for the learner; 0: roles share all."
    )
    arms: list[str] = Field(["S0", "S1", "A0", "A1"], min_length=1, description="Timetables.")
    max_staleness: int = Field(2, ge=1, le=1000, description="Of A1, in optimizer updates.")
    consume: Literal["admission", "completion"] = Field(
        "admission", description="completion: A1 learns what is complete first, and drops what grew too old."
    )
    tenants: int = Field(8, ge=1, le=100_000, description="All with the same work.")
    updates: int = Field(5, ge=1, le=10**5, description="Per tenant.")
    group_size: int = Field(8, ge=2, le=1024, description="Rollouts of one item.")
    groups_per_update: int = Field(8, ge=1, le=4096, description="Groups in one update of a tenant.")
    prompt_tokens: int = Field(256, ge=1, le=10**6, description="First context of an episode.")
    response_tokens: float = Field(256.0, ge=1, le=10**6, description="Median of a turn (log-normal).")
    response_p95: float = Field(768.0, ge=1, le=10**6, description="95th percentile of a turn.")
    max_new_tokens: int = Field(1024, ge=1, le=10**6, description="Limit of a turn.")
    turns: int = Field(1, ge=1, le=1000, description="Of an episode.")
    observation_tokens: int = Field(64, ge=0, le=10**6, description="Read between two turns.")
    latency: str = Field("lognormal:median=1,p95=4", description="Of a tool call, as of 'bench run'.")
    env_s: float = Field(0.0, ge=0, le=10**5, description="Own time of an environment call, besides.")
    env_workers: int | None = Field(None, ge=1, le=10**7, description="Unset: one per episode under way.")
    env_timeout_s: float = Field(120.0, gt=0, le=10**5, description="Limit of an environment call.")
    hang_share: float = Field(0.0, ge=0, le=1, description="Of calls that run into the limit and fail.")
    failures_per_hour: float = Field(0.0, ge=0, le=3600, description="Of one sampler replica.")
    restart_s: float = Field(60.0, gt=0, le=10**5, description="Until a failed replica is back.")
    slots: int = Field(64, ge=1, le=10**5, description="Turns that a replica decodes at once.")
    prefill_lanes: int = Field(8, ge=1, le=4096, description="Prompts of one prefill.")
    decode_steps: int = Field(32, ge=1, le=4096, description="Tokens of a turn in one dispatch.")
    batch_tokens: int = Field(16_384, ge=1, le=10**7, description="Of one packed batch.")
    lora_rank: int = Field(16, ge=1, le=1024, description="Of every adapter.")
    train_flops: float = Field(0.4, gt=0, le=1, description="Share of peak in training (assumed).")
    prefill_flops: float = Field(0.4, gt=0, le=1, description="Share of peak in prefill (assumed).")
    decode_bytes: float = Field(0.6, gt=0, le=1, description="Share of HBM bandwidth in decoding (assumed).")
    host_s: float = Field(0.002, ge=0, le=10, description="The loop's own time a dispatch (assumed).")
    price_per_device_hour: float | None = Field(
        None, ge=0, le=10**4, description="Of one chip, in any currency."
    )
    seed: int = Field(0, ge=0, lt=2**31, description="Of every draw.")


def resolve(file: Path | None, sets: Sequence[str], flags: Mapping[str, Any]) -> Scenario:
    """Defaults, then a TOML file, then --set, then flags. Raises UsageError naming key and remedy."""
    values: dict[str, Any] = {}
    if file is not None:
        try:
            values |= tomllib.loads(file.read_text(encoding="utf-8"))
        except OSError as e:
            raise UsageError(f"--config {file} cannot be read: {e.strerror}") from e
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as e:
            raise UsageError(f"--config {file} is not TOML: {e}") from e
    for item in sets:
        key, eq, text = item.partition("=")
        if not eq:
            raise UsageError(f"--set {item!r} is not of the form key=value", "for example --set slots=128")
        values[key.strip()] = parse(text)
    values |= {key: value for key, value in flags.items() if value is not None}
    return build(values)


def parse(text: str) -> Any:
    """A TOML value where it is one, else the text itself."""
    try:
        return tomllib.loads(f"x = {text}")["x"]
    except tomllib.TOMLDecodeError:
        return text.strip()


def build(values: Mapping[str, Any]) -> Scenario:
    """A scenario of plain values. Raises UsageError naming the first that cannot work."""
    values = dict(values)
    for key in values:
        if key not in Scenario.model_fields:
            near = difflib.get_close_matches(key, Scenario.model_fields, n=1, cutoff=0.6)
            raise UsageError(
                f"unknown key {key!r} of a plan",
                f"did you mean {near[0]!r}?" if near else f"keys are {', '.join(Scenario.model_fields)}",
            )
    if isinstance(values.get("arms"), str):
        values["arms"] = [part.strip() for part in values["arms"].split(",") if part.strip()]
    for key, field in Scenario.model_fields.items():
        if field.annotation is float and type(values.get(key)) is int:
            values[key] = float(values[key])
    try:
        return Scenario(**values)
    except ValidationError as e:
        first = e.errors(include_url=False)[0]
        key = str(first["loc"][0]) if first["loc"] else "plan"
        raise UsageError(f"{key} = {first['input']!r}: {first['msg'][:1].lower()}{first['msg'][1:]}") from e


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Chips by role: replicas of so many chips, groups of as many for the learner."""

    chips: int
    replicas: int
    learner_groups: int
    memory: Memory


def layout(s: Scenario) -> Layout:
    """Places the model on the chips. Raises UsageError where it, or so many tenants, don't fit."""
    model, device = find("model", s.model, MODELS), find("device", s.device, DEVICES)
    shapes = {"sampler": sampler_spec(s), "buckets": buckets(s), "shared": s.learner_share == 0}
    sizes = [2**k for k in range(MAX_CHIPS_PER_REPLICA.bit_length())]
    tries = [s.chips_per_replica] if s.chips_per_replica else [n for n in sizes if n <= s.devices]
    found: list[Layout] = []
    for chips in tries:
        groups = s.devices // chips
        learner = groups if s.learner_share == 0 else round(groups * s.learner_share)
        if groups < 1 or learner < 1 or (s.learner_share and learner == groups):
            continue
        needs = [
            memory(
                model, device, chips=chips, learner_groups=learner, tenants=n, lora_rank=s.lora_rank, **shapes
            )
            for n in (s.tenants, learner)
        ]
        replicas = groups if s.learner_share == 0 else groups - learner
        found.append(Layout(chips=chips, replicas=replicas, learner_groups=learner, memory=needs[0]))
        if needs[0].worst <= needs[0].limit:
            return found[-1]
    if not found:
        need = "two replicas' worth" if s.learner_share else "one replica's worth"
        raise UsageError(
            f"{s.devices} devices are fewer than {need} at chips_per_replica {s.chips_per_replica or 1}",
            "take more devices, fewer chips_per_replica, or learner_share 0",
        )
    last = found[-1]
    room = last.memory.limit - last.memory.worst
    state = last.memory.learner["adapters_and_optimizer"] / -(-s.tenants // last.learner_groups)
    kept = -(-s.tenants // last.learner_groups) + int(room // state)
    check(last.memory, max(0, kept) * last.learner_groups, s.tenants, model, device, last.chips)
    return last


def sampler_spec(s: Scenario) -> SamplerSpec:
    """Shapes of one replica: prefill lengths from the first context in triples up to the longest."""
    longest = _work(s).max_context
    lengths = [s.prompt_tokens]
    while lengths[-1] < longest:
        lengths.append(min(lengths[-1] * 3, longest))
    return SamplerSpec(
        slots=s.slots,
        prefill_lanes=min(s.prefill_lanes, s.slots),
        prefill_lengths=tuple(lengths),
        max_new_tokens=s.max_new_tokens,
        decode_steps=s.decode_steps,
    )


def buckets(s: Scenario) -> tuple[Bucket, ...]:
    """Packed batches of about `batch_tokens`, at the trainer's row lengths."""
    longest = _work(s).max_context + s.max_new_tokens
    lengths = sorted({-(-round(longest * share) // 128) * 128 for share in ROW_LENGTHS}, reverse=True)
    return tuple(Bucket(rows=max(1, s.batch_tokens // n), length=n) for n in lengths)


def setup(s: Scenario, arm: str, placed: Layout | None = None) -> Setup:
    """What one arm of a scenario is simulated with."""
    placed = placed or layout(s)
    spec = schedule.arm(arm, s.max_staleness if arm == "A1" else None)
    if arm == "A1":
        spec = dataclasses.replace(spec, consume=s.consume)
    model, device = MODELS[s.model], DEVICES[s.device]
    tenants = tuple(
        TenantSpec(
            tenant_id=f"t{i}",
            env_ids=("planned",),
            seed=s.seed * s.tenants + i,
            group_size=s.group_size,
            groups_per_update=s.groups_per_update,
            updates=s.updates,
            lora=LoraSpec(rank=s.lora_rank),
            sampling=SamplingSpec(max_new_tokens=s.max_new_tokens),
        )
        for i in range(s.tenants)
    )
    under_way = s.tenants * s.groups_per_update * s.group_size * (1 + s.max_staleness)
    efficiency = Efficiency(
        train_flops=s.train_flops,
        prefill_flops=s.prefill_flops,
        decode_bytes=s.decode_bytes,
        host_s=s.host_s,
    )
    return Setup(
        tenants=tenants,
        schedule=spec,
        sampler=sampler_spec(s),
        buckets=buckets(s),
        times=RooflineTimes(
            model=model,
            device=device,
            chips=placed.chips,
            learner_groups=placed.learner_groups,
            lora_rank=s.lora_rank,
            decode_steps=s.decode_steps,
            tenants=s.tenants,
            efficiency=efficiency,
        ),
        work=_work(s),
        replicas=placed.replicas,
        split=s.learner_share > 0,
        sampler_devices=placed.chips,
        learner_devices=placed.learner_groups * placed.chips,
        env_workers=s.env_workers or under_way,
        env_timeout_s=s.env_timeout_s,
        faults=Faults(hang_share=s.hang_share, failures_per_hour=s.failures_per_hour, restart_s=s.restart_s),
        seed=s.seed,
    )


def _work(s: Scenario) -> DrawnWork:
    profile = latency.parse(s.latency, seed=s.seed)
    return DrawnWork(
        prompt_tokens=s.prompt_tokens,
        response_tokens=s.response_tokens,
        response_p95=s.response_p95,
        max_new_tokens=s.max_new_tokens,
        turns=s.turns,
        observation_tokens=s.observation_tokens,
        env_s=s.env_s,
        delay=profile if profile.simulated else None,
        seed=s.seed,
    )
