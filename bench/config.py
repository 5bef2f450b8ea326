"""The configuration of a run: typed, closed, and every value knows where it came from.

Precedence: defaults < TOML file < BENCH_* environment < --set key=value < flags.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from bench.errors import UsageError

ARMS = ("S0", "S1", "A0", "A1")


class RunConfig(BaseModel):
    """Everything `bench run` can be told. Defaults have a reason in their description."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    tasks: list[str] = Field(default=["math", "code", "search"], min_length=1, description="Task ids or aliases.")
    arms: list[str] = Field(default=["S1", "A1"], min_length=1, description="Timetables to run.")
    seeds: Annotated[int, Field(ge=1, le=1000)] = 1
    seed: Annotated[int, Field(ge=0)] = 0
    tenants: Annotated[int, Field(ge=1, le=256)] | None = None
    latency: str = "none"
    updates: Annotated[int, Field(ge=1)] = 20
    group_size: Annotated[int, Field(ge=2)] = 8
    groups_per_update: Annotated[int, Field(ge=1)] = 8
    max_staleness: Annotated[int, Field(ge=1)] = 2
    eval_items: Annotated[int, Field(ge=1)] = 128
    eval_every: Annotated[int, Field(ge=0)] = 0
    learning_rate: Annotated[float, Field(ge=0)] = 3e-3
    warmup_updates: Annotated[int, Field(ge=0)] = 0
    lora_rank: Annotated[int, Field(ge=1)] = 8
    lora_alpha: Annotated[float, Field(gt=0)] = 16.0
    loss: Literal[
        "decoupled_ppo", "ppo_clip", "truncated_is", "masked_is", "sequence_masked_is", "geometric_masked_is",
        "cispo", "gspo", "reinforce",
    ] = "decoupled_ppo"
    advantage: Literal["grpo", "dr_grpo", "rloo", "maxrl"] = "grpo"
    temperature: Annotated[float, Field(gt=0)] = 1.0
    model: str = "embedded"
    slots: Annotated[int, Field(ge=1)] = 32
    runtime: Literal["threads", "inline"] = "threads"
    env_workers: Annotated[int, Field(ge=1)] = 256
    no_progress_s: Annotated[float, Field(gt=0)] = 120.0
    max_time: Annotated[float, Field(gt=0)] | None = None
    tracker: Literal["auto", "none", "wandb"] = "auto"
    data: str | None = None
    out: str | None = None
    limit: Annotated[int, Field(ge=1)] | None = None

    @field_validator("arms")
    @classmethod
    def _known_arms(cls, arms: list[str]) -> list[str]:
        for name in arms:
            if name not in ARMS:
                raise ValueError(f"arm {name!r} not found; the arms are {', '.join(ARMS)}")
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
        if key not in RunConfig.model_fields:
            near = difflib.get_close_matches(key, RunConfig.model_fields, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]!r}?" if near else "`bench config show` lists the keys"
            raise UsageError(f"unknown key {key!r} ({where}); {hint}")
        values[key], origin[key] = value, where

    if file is not None:
        for key, value in _read(file).items():
            put(key, value, f"file {file.name}")
    for name, text in env.items():
        if name.startswith("BENCH_") and name.removeprefix("BENCH_").lower() in RunConfig.model_fields:
            put(name.removeprefix("BENCH_").lower(), _parse(text), f"environment {name}")
    for item in sets:
        key, eq, text = item.partition("=")
        if not eq:
            raise UsageError(f"--set {item!r} is not of the form key=value")
        put(key.strip(), _parse(text), "--set")
    for key, value in flags.items():
        if value is not None:
            put(key, value, f"--{key.replace('_', '-')}")
    for key in ("tasks", "arms"):
        if isinstance(values.get(key), str):
            values[key] = [part.strip() for part in values[key].split(",") if part.strip()]
    try:
        return Resolved(config=RunConfig(**values), set_by=origin)
    except ValidationError as e:
        first = e.errors()[0]
        key = str(first["loc"][0]) if first["loc"] else "config"
        message = first["msg"].removeprefix("Value error, ")
        raise UsageError(f"{key} = {first['input']!r} ({origin.get(key, 'default')}): {message}") from e


def _read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text())
    except OSError as e:
        raise UsageError(f"--config {file} cannot be read: {e.strerror}") from e
    except tomllib.TOMLDecodeError as e:
        raise UsageError(f"--config {file} is not TOML: {e}") from e


def _parse(text: str) -> Any:
    """A TOML value where it is one, else the text itself."""
    try:
        return tomllib.loads(f"x = {text}")["x"]
    except tomllib.TOMLDecodeError:
        return text


def environment() -> dict[str, str]:
    """The process's environment."""
    return dict(os.environ)
