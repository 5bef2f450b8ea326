"""Rounds of a board: a nonce, published at opening, gives everybody's seeds; every attempt is told (E123, E124).

A round is a TOML file of the board, `rounds/<name>.toml`, with `name`, `nonce` (the board's commit at opening, say)
and `opened_utc`. Nobody knows the seeds before, and nobody chooses them.
"""

from __future__ import annotations

import datetime
import hashlib
import tomllib
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from leaderboard.about import About
from leaderboard.errors import RecordError
from leaderboard.row import Row
from leaderboard.schema import RunHeader

MAX_BYTES = 16 * 1024
SEEDS = 2**31
NONCE = "nonce"
"""The name of what is no round of a board's, but a nonce by itself."""


class Round(BaseModel):
    """One round."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,39}$")]
    nonce: Annotated[str, Field(min_length=8, max_length=200, pattern=r"^[A-Za-z0-9._+/=-]+$")]
    opened_utc: datetime.datetime | None = None

    @property
    def seed(self) -> int:
        """The first seed of a run of this round: the leading 31 bits of SHA-256 of the nonce."""
        return int.from_bytes(hashlib.sha256(self.nonce.encode("ascii")).digest()[:4], "big") % SEEDS


def read(given: str) -> Round:
    """Reads a round's file; a text that names no file is a nonce by itself.

    Raises:
      RecordError: E123 for a file that is no round, or a nonce that can't be one.
    """
    path = Path(given)
    try:
        if path.suffix == ".toml" or path.is_file():
            if path.stat().st_size > MAX_BYTES:
                raise RecordError("E123", path.name, "larger than 16 kB")
            return Round.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
        return Round(name=NONCE, nonce=given)
    except OSError as error:
        raise RecordError("E123", given[:80], f"can't be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, ValidationError) as error:
        said = str(error).splitlines()[0][:120]
        raise RecordError(
            "E123", path.name[:80], f"no round: {said}", "name, nonce and opened_utc"
        ) from error


def check(header: RunHeader, about: About, round_: Round, earlier: list[Row]) -> None:
    """Returns if a run is one of the round, and its attempts are told without a gap.

    Args:
      header: of the run.
      about: its submission.toml.
      round_: the board's.
      earlier: rows of the same authors in the same round.
    Raises:
      RecordError: E123 for seeds or a date that aren't the round's, E124 for the ledger of attempts.
    """
    if header.config.get("seed") != round_.seed:
        said = f"the first seed is {header.config.get('seed')!r}, the round's is {round_.seed}"
        raise RecordError("E123", "run.json", said, f"run it with --set seed={round_.seed}")
    if round_.opened_utc is not None:
        began = datetime.datetime.fromtimestamp(header.clock.wall_start_utc, datetime.UTC)
        opened = round_.opened_utc
        if began < (opened if opened.tzinfo else opened.replace(tzinfo=datetime.UTC)):
            raise RecordError("E123", "run.json", "ran before the round opened, with the round's seeds")
    told = {attempt.number for attempt in about.attempts}
    missing = sorted(set(range(1, about.attempt)) - told)
    if missing:
        said = f"attempt {about.attempt}, and nothing is said of attempt {', '.join(map(str, missing))}"
        raise RecordError("E124", "submission.toml", said, "[[attempts]] with number and outcome")
    if max(told, default=0) >= about.attempt or len(told) != len(about.attempts):
        raise RecordError("E124", "submission.toml", "an attempt is told twice, or is none before this one")
    known = {row.attempt for row in earlier if row.attempt is not None}
    if about.attempt in known:
        raise RecordError("E124", "submission.toml", f"attempt {about.attempt} is on the board already")
