"""The configuration of a run: typed, closed, and every value knows where it came from.

Precedence: defaults < suite < TOML file < BENCH_* environment < --set key=value < flags.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from bench import suites
from bench.errors import UsageError

ARMS = ("S0", "S1", "A0", "A1")
OTHER_VARIABLES = (
    "BENCH_DATA_DIR",
    "BENCH_MODELS_DIR",
)
"""Variables of ours that are no key of a run."""


class RunConfig(BaseModel):
    """Everything `bench run` can be told."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, strict=True)

    suite: str | None = Field(
        None, description="A named suite: sets what nothing else does; 'quick' or 'standard'."
    )
    tasks: list[str] = Field(["math", "code", "search"], min_length=1, description="Task ids or short names.")
    arms: list[str] = Field(["S1", "A1"], min_length=1, description="Timetables, of S0, S1, A0, A1.")
    seeds: int = Field(1, ge=1, le=1000, description="How many; paired over the arms.")
    aa: bool | None = Field(
        None, description="S1 twice, for the noise floor; unset: where S1 has rivals and two seeds."
    )
    seed: int = Field(0, ge=0, lt=2**31, description="The first seed.")
    tenants: int | None = Field(
        None, ge=1, le=256, description="They share the tasks in turn; unset: one per task."
    )
    latency: str = Field("none", description="Simulated latency of tools; none is the environments' own.")
    updates: int = Field(20, ge=1, le=10**6, description="Optimizer updates per tenant.")
    group_size: int = Field(8, ge=2, le=1024, description="Rollouts of one item; advantages need two.")
    groups_per_update: int = Field(8, ge=1, le=4096, description="Groups in one update of a tenant.")
    max_staleness: int = Field(2, ge=1, le=1000, description="Of A1, in optimizer updates, inclusive.")
    in_flight_updates: bool = Field(
        True, description="A new adapter from the next token on; false: turns end on the one they began with."
    )
    eval_items: int = Field(128, ge=1, le=10**5, description="Dev items per tenant and evaluation.")
    eval_every: int = Field(
        0, ge=0, le=10**6, description="Updates between snapshots; 0: the first and the last."
    )
    targets: dict[str, float] | None = Field(
        None,
        description="Accuracy of a task that counts as reached, fixed beforehand; unset: S1's last one less 2 points.",
    )
    learning_rate: float = Field(
        3e-3, ge=0, le=10, description="Of every tenant; 0 leaves adapters as they are."
    )
    warmup_updates: int = Field(0, ge=0, le=10**6, description="Linear warm-up of the learning rate.")
    lora_rank: int = Field(8, ge=1, le=256, description="Of every adapter.")
    lora_alpha: float = Field(16.0, gt=0, le=10**4, description="Adapters are scaled by alpha / rank.")
    loss: Literal[
        "decoupled_ppo",
        "ppo_clip",
        "truncated_is",
        "masked_is",
        "sequence_masked_is",
        "geometric_masked_is",
        "cispo",
        "gspo",
        "reinforce",
    ] = Field("decoupled_ppo", description="Policy loss; the default holds up under staleness.")
    advantage: Literal["grpo", "dr_grpo", "rloo", "maxrl"] = Field("grpo", description="Within a group.")
    temperature: float = Field(1.0, gt=0, le=100, description="Of training rollouts; evaluation is greedy.")
    model: str = Field(
        "embedded", description="Base model: embedded, a fetched one ('bench models list'), or a path."
    )
    prompt: Literal["auto", "few-shot", "chat"] = Field(
        "auto", description="Format of prompts; auto: the embedded model's own, few-shot for others."
    )
    shots: int = Field(4, ge=0, le=64, description="Examples in a few-shot prompt.")
    slots: int = Field(32, ge=1, le=4096, description="Rows the sampler decodes at once.")
    runtime: Literal["threads", "inline"] = Field("threads", description="inline: no threads, deterministic.")
    env_workers: int | None = Field(
        None, ge=1, le=4096, description="Threads that step environments; unset: one per episode under way."
    )
    buffer: Literal["memory", "durable"] = Field(
        "memory", description="durable: what was sampled survives a killed run, until it is learnt and saved."
    )
    checkpoint_every: int | None = Field(
        None,
        ge=0,
        le=10**6,
        description="Learner steps between checkpoints; unset: 10 if durable, else none.",
    )
    no_progress_s: float = Field(
        120.0, gt=0, description="A run that stands still so long ends with its reason."
    )
    compile_cache: str = Field(
        "auto", description="Folder of compiled programs for the next run; auto: the user's cache; off: none."
    )
    checkpoint_s: float = Field(
        60.0,
        ge=0,
        description="Between checkpoints to resume from; 0: only when the run is stopped in order.",
    )
    max_time: float | None = Field(None, gt=0, description="Seconds after which the run is stopped in order.")
    tracker: Literal["auto", "none", "wandb", "trackio", "tensorboard"] = Field(
        "auto", description="auto: wandb with a key or WANDB_MODE."
    )
    require_tracker: bool = Field(False, description="Exit 4 where the mirror isn't whole at the end.")
    data: str | None = Field(None, description="Where data-set tasks read from: a folder, a file, or 'hub'.")
    out: str | None = Field(None, description="Run directory, new or empty; unset: runs/<id>.")
    limit: int | None = Field(
        None, ge=1, description="At most N updates and 8 N dev items; marks the record."
    )

    @field_validator("targets")
    @classmethod
    def _shares(cls, targets: dict[str, float] | None) -> dict[str, float] | None:
        for task, target in (targets or {}).items():
            if not 0 < target <= 1:
                raise ValueError(f"the target of {task!r} is {target}, not an accuracy in (0, 1]")
        return targets

    @model_validator(mode="after")
    def _targets_of_tasks(self) -> RunConfig:
        for task in self.targets or {}:
            if task not in self.tasks:
                raise ValueError(f"targets has {task!r}, which is none of the tasks: {', '.join(self.tasks)}")
        return self

    @field_validator("arms")
    @classmethod
    def _known_arms(cls, arms: list[str]) -> list[str]:
        for name in arms:
            if name not in ARMS:
                near = difflib.get_close_matches(name.upper(), ARMS, n=1, cutoff=0.4)
                hint = f" Did you mean {near[0]!r}?" if near else ""
                raise ValueError(f"arm {name!r} not found.{hint} The arms are {', '.join(ARMS)}")
        if len(set(arms)) < len(arms):
            raise ValueError("an arm is named twice")
        return arms


class Resolved(BaseModel):
    """A config and the origin of each value that is not a default."""

    config: RunConfig
    set_by: dict[str, str]


def resolve(
    file: Path | None, env: Mapping[str, str], sets: Sequence[str], flags: Mapping[str, Any]
) -> Resolved:
    """Merges the layers and validates the result. Raises UsageError naming key, origin and remedy."""
    values: dict[str, Any] = {}
    origin: dict[str, str] = {}

    def put(key: str, value: Any, where: str) -> None:
        key = key.replace("-", "_")
        if origin.get(key) == where and where.startswith("file"):
            raise UsageError(f"{key} is set twice ({_place(where, file)})", "keep one of them")
        if key not in RunConfig.model_fields:
            near = _nearest(key)
            hint = f"did you mean {near!r}?" if near else "'bench config show' lists the keys"
            if isinstance(value, dict):
                hint = f"keys stand at the top level of the file, under no [{key}]"
            raise UsageError(f"unknown key {key!r} ({_place(where, file)})", hint)
        values[key], origin[key] = value, where

    if file is not None:
        for key, value in _read(file).items():
            put(key, value, f"file {file.name}")
    for name, text in env.items():
        key = name.removeprefix("BENCH_").lower()
        # other programs have variables of this prefix too: only a near miss is taken for a mistake
        if (
            name.startswith("BENCH_")
            and name not in OTHER_VARIABLES
            and (key in RunConfig.model_fields or _nearest(key))
        ):
            put(key, _parse(text), f"environment {name}")
    for item in sets:
        key, eq, text = item.partition("=")
        if not eq:
            raise UsageError(f"--set {item!r} is not of the form key=value", "for example --set updates=10")
        put(key.strip(), _parse(text), "--set")
    for key, value in flags.items():
        if value is not None:
            put(key, value, f"--{key.replace('_', '-')}")
    if values.get("suite") is not None:
        named = suites.find(str(values["suite"]))
        for key, value in named.settings.items():
            if key not in values:
                values[key], origin[key] = value, f"suite {named.name}"
    for key in ("tasks", "arms"):
        if isinstance(values.get(key), str):
            values[key] = [part.strip() for part in values[key].split(",") if part.strip()]
    if origin.get("targets", "").startswith("suite "):
        # of tasks that were named instead of the suite's
        values["targets"] = {k: v for k, v in values["targets"].items() if k in values["tasks"]} or None
    try:
        return Resolved(config=RunConfig(**values), set_by=origin)
    except ValidationError as e:
        first = e.errors(include_url=False)[0]
        key = str(first["loc"][0]) if first["loc"] else "config"
        message = first["msg"].removeprefix("Value error, ")
        message = message[:1].lower() + message[1:]
        where = _place(origin.get(key, "default"), file)
        field = RunConfig.model_fields.get(key)
        hint = f"{key}: {field.description}" if field is not None else ""
        raise UsageError(f"{key} = {first['input']!r} ({where}): {message}", hint) from e


def _place(origin: str, file: Path | None) -> str:
    """An origin for a message, which may name the whole path; a record holds the file's name alone."""
    return f"file {file}" if file is not None and origin == f"file {file.name}" else origin


def _nearest(key: str) -> str | None:
    return next(iter(difflib.get_close_matches(key, RunConfig.model_fields, n=1, cutoff=0.7)), None)


def _read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8-sig"))
    except OSError as e:
        raise UsageError(f"--config {file} cannot be read: {e.strerror}") from e
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as e:
        raise UsageError(f"--config {file} is not TOML: {e}") from e
    except RecursionError as e:
        raise UsageError(f"--config {file} is nested too deep") from e


def _parse(text: str) -> Any:
    """A TOML value where it is one, else the text itself."""
    try:
        return tomllib.loads(f"x = {text}")["x"]
    except tomllib.TOMLDecodeError:
        return text


def suite_info(config: RunConfig) -> dict[str, Any] | None:
    """The suite of a run as its record tells it: name, version, and the keys that depart from it."""
    if config.suite is None:
        return None
    defaults = {key: field.get_default() for key, field in RunConfig.model_fields.items()}
    named = suites.find(config.suite)
    return {
        "name": named.name,
        "version": named.version,
        "changed": suites.changed(named.name, config.model_dump(mode="json"), defaults),
    }


def environment() -> dict[str, str]:
    """The process's environment."""
    return dict(os.environ)
