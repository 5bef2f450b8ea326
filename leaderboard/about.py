"""submission.toml: what only a person can say about a run (E181)."""

from __future__ import annotations

import json
import tomllib
import unicodedata
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from leaderboard.errors import RecordError

FILE = "submission.toml"
MAX_BYTES = 64 * 1024


class Attempt(BaseModel):
    """An earlier attempt of the same round, and what became of it."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    number: Annotated[int, Field(ge=1, le=10_000)]
    outcome: Annotated[str, Field(min_length=1, max_length=400)]

    @field_validator("outcome")
    @classmethod
    def _plain(cls, value: str) -> str:
        return _checked(value)


class About(BaseModel):
    """Name, authors and declarations of a submission; plain text throughout."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    name: Annotated[str, Field(min_length=1, max_length=200)]
    authors: Annotated[list[str], Field(min_length=1, max_length=100)]
    contact: Annotated[str, Field(max_length=200)] = ""
    licence: Annotated[str, Field(max_length=60)] = "Apache-2.0"
    code_url: Annotated[str, Field(max_length=500, pattern=r"^(https://\S+)?$")] = ""
    commit: Annotated[str, Field(max_length=64, pattern=r"^[0-9a-f]*$")] = ""
    hardware_owner: Annotated[str, Field(max_length=200)] = ""
    description: Annotated[str, Field(max_length=4000)] = ""
    no_eval_data_in_training: bool = True
    all_attempts_reported: bool = True
    conflicts: Annotated[str, Field(max_length=1000)] = ""
    supersedes: Annotated[str, Field(max_length=80, pattern=r"^([a-z0-9][a-z0-9-]*)?$")] = ""
    supersedes_reason: Annotated[str, Field(max_length=1000)] = ""
    attempt: Annotated[int, Field(ge=1, le=10_000)] = 1
    attempts: Annotated[list[Attempt], Field(max_length=1_000)] = []

    @field_validator(
        "name",
        "authors",
        "contact",
        "licence",
        "hardware_owner",
        "description",
        "conflicts",
        "supersedes_reason",
    )
    @classmethod
    def _plain(cls, value: str | list[str]) -> str | list[str]:
        for text in [value] if isinstance(value, str) else value:
            _checked(text)
        return value

    @model_validator(mode="after")
    def _reasoned(self) -> About:
        if bool(self.supersedes) != bool(self.supersedes_reason):
            raise ValueError("supersedes and supersedes_reason go together")
        return self

    def to_toml(self) -> str:
        """Returns submission.toml; JSON strings are TOML strings."""
        values = self.model_dump()
        attempts = values.pop("attempts")
        lines = [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in values.items()]
        for attempt in attempts:
            lines += ["", "[[attempts]]"]
            lines += [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in attempt.items()]
        return "\n".join(lines) + "\n"

    @property
    def missing(self) -> tuple[str, ...]:
        """What a public board asks for and isn't said."""
        fields = ("contact", "licence", "code_url", "commit", "hardware_owner", "description")
        lacking = [name for name in fields if not getattr(self, name)]
        lacking += [
            name for name in ("no_eval_data_in_training", "all_attempts_reported") if not getattr(self, name)
        ]
        return tuple(lacking)


def _checked(text: str) -> str:
    for character in text:
        # control, format (bidi marks among them), surrogate and private characters can disguise text
        if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co") and character != "\n":
            raise ValueError(f"holds the invisible character U+{ord(character):04X}")
    if not text.strip() and text:
        raise ValueError("is blank")
    return text


def make(values: dict[str, object]) -> About:
    """Checks values given on a command line or in a file.

    Raises:
      RecordError: E181 names the field.
    """
    try:
        return About.model_validate(values)
    except ValidationError as refused:
        first = refused.errors(include_url=False, include_input=False)[0]
        field = ".".join(str(part) for part in first["loc"])[:60]
        raise RecordError("E181", FILE, f"{field!r}: {first['msg']}", "edit the field") from refused


def read(path: Path) -> dict[str, object]:
    """Returns the values of a submission.toml, unchecked; {} where there is none.

    Raises:
      RecordError: E181 if it isn't TOML.
    """
    if not path.is_file():
        return {}
    if path.stat().st_size > MAX_BYTES:
        raise RecordError("E181", FILE, "larger than 64 kB")
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as refused:
        raise RecordError("E181", FILE, f"not TOML: {refused}") from refused
