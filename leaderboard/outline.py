"""Reads a record for comparison: every line, without what only grading needs.

A transcript is kept as the times, lengths and ends of its turns; tokens, log-probabilities and texts are checked to be
there and let go. So a record of 100,000 rollouts fits into memory and is read in seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, cast

from pydantic import ConfigDict, Field, PlainValidator, TypeAdapter, ValidationError

from leaderboard.errors import RecordError
from leaderboard.records import RunRecord, keeping_all, read_lines
from leaderboard.schema import Count, EvalLine, Fate, Int, Name, Nanoseconds, RolloutLine

_STRICT = ConfigDict(strict=True, extra="ignore", allow_inf_nan=False)

T = TypeVar("T")


class Content(NamedTuple):
    """What remains of token ids: how many they are, and a number that is equal for equal ones."""

    tokens: int
    fingerprint: int


def _content(ids: Any) -> Content:
    try:
        return Content(len(ids), hash(tuple(ids)))
    except TypeError:
        raise ValueError("not a list of token ids") from None


@dataclass(slots=True, kw_only=True)
class TurnOutline:
    """One message without its content."""

    __pydantic_config__ = _STRICT
    role: Literal["policy", "environment"]
    content: Annotated[Content, Field(alias="token_ids"), PlainValidator(_content)]
    stop: Name | None = None
    t0_ns: Nanoseconds
    t1_ns: Nanoseconds


@dataclass(slots=True, kw_only=True)
class RolloutOutline:
    """A `RolloutLine` without its transcript's content."""

    __pydantic_config__ = _STRICT
    arm: Name
    seed: Int
    tenant: Name
    ordinal: Count
    sample_index: Count
    env_id: Name
    split: Name
    env_seed: Int
    item_index: Count
    item_uid: str
    turns: list[TurnOutline]
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


@dataclass(slots=True, kw_only=True)
class EvalOutline:
    """An `EvalLine` without its transcript's content."""

    __pydantic_config__ = _STRICT
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
    item_uid: str
    turns: list[TurnOutline]
    reward: float
    grade_status: str
    stop: Name
    error: str | None


class RunOutline(RunRecord):
    """A run directory whose episodes are outlines; headers, events, spans and updates are whole."""

    @cached_property
    def rollouts(self) -> list[RolloutLine]:
        """rollouts.jsonl; of type RolloutOutline, which metrics read like the line itself."""
        return cast(Any, _read(self.directory / "rollouts.jsonl", TypeAdapter(RolloutOutline)))

    @cached_property
    def evals(self) -> list[EvalLine]:
        """evals.jsonl; of type EvalOutline."""
        return cast(Any, _read(self.directory / "evals.jsonl", TypeAdapter(EvalOutline)))


def _read(path: Path, adapter: TypeAdapter[T]) -> list[T]:
    if not path.is_file():
        raise RecordError(
            "E103", path.name, "it is no regular file" if path.exists() else "the file is missing"
        )
    found: list[T] = []
    try:
        with keeping_all():
            for _, data in read_lines(path):
                found.append(adapter.validate_json(data))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])[:120] or "value"
        code = "E103" if first["type"] == "missing" else "E102"
        raise RecordError(code, f"{path.name}:{len(found) + 1}", f"{where!r}: {first['msg']}") from error
    return found
