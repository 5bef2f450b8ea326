"""submission.toml: what only a person can say about a run (E181)."""

from __future__ import annotations

import json
import tomllib
import unicodedata
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from leaderboard.errors import RecordError

FILE = "submission.toml"
MAX_BYTES = 64 * 1024


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

    @field_validator("name", "authors", "contact", "licence", "hardware_owner", "description")
    @classmethod
    def _plain(cls, value: str | list[str]) -> str | list[str]:
        for text in [value] if isinstance(value, str) else value:
            for character in text:
                # control, format (bidi marks among them), surrogate and private characters can disguise text
                if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co") and character != "\n":
                    raise ValueError(f"holds the invisible character U+{ord(character):04X}")
            if not text.strip() and text:
                raise ValueError("is blank")
        return value

    def to_toml(self) -> str:
        """Returns submission.toml; JSON strings are TOML strings."""
        lines = (
            f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in self.model_dump().items()
        )
        return "\n".join(lines) + "\n"


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
