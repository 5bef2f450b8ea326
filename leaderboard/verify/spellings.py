"""E163: what token ids spell is what a turn says, by the embedded model's table or by the record's own.

A tokenizer encodes in one way of many, so ids are held to the text they stand for and not to a second encoding:
for that a list of spellings is enough, and no tokenizer, and no model.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from leaderboard.errors import RecordError
from leaderboard.records import RunRecord, parse
from leaderboard.schema import Prompts, TurnLine
from leaderboard.verify.report import Finding, error

FILE = "vocabulary.json"
CONTROLS = (256, 257, 258, 259, 260)
MARKS = ("<answer>", "</answer>", "<search>", "</search>", "<result>", "</result>")
VOCABULARY = 272
EMBEDDED: tuple[bytes | None, ...] = (
    *(bytes([b]) for b in range(256)),
    *(None for _ in CONTROLS),
    *(mark.encode() for mark in MARKS),
    *(None for _ in range(VOCABULARY - 256 - len(CONTROLS) - len(MARKS))),
)
"""Ids of the embedded model's tokenizer: bytes, controls, the marks of the protocol, unused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spelling:
    """What ids spell, and the text that stands around observations."""

    pieces: Sequence[bytes | None]
    """None for a control, which has no text."""
    prompts: Mapping[str, Prompts]

    def check(self, place: str, env_id: str, turns: Sequence[TurnLine]) -> Iterator[Finding]:
        """Every turn's ids spell its text; an observation's also what its prompt puts around it."""
        observed = 0
        for index, turn in enumerate(turns):
            if any(not 0 <= i < len(self.pieces) for i in turn.token_ids):
                yield error("E163", place, f"turn {index}: a token id outside 0..{len(self.pieces) - 1}")
                continue
            said = turn.text
            prompt = self.prompts.get(env_id)
            if turn.role == "environment" and prompt is not None and turn.token_ids:
                before, after = prompt.later if observed else prompt.first
                said = f"{before}{turn.text}{after}"
            observed += turn.role == "environment"
            spelt = spell(turn.token_ids, self.pieces)
            # a last observation, which nobody answers, has no ids
            if spelt != said and (self.prompts == {} or turn.token_ids or turn.role == "policy"):
                yield error("E163", place, f"turn {index}: its token ids spell {spelt[:60]!r}, not its text")


def spell(ids: Sequence[int], pieces: Sequence[bytes | None]) -> str:
    """Text of ids; invalid UTF-8 is U+FFFD, and no character reaches across a control."""
    text, run = "", bytearray()
    for i in ids:
        if (piece := pieces[i]) is None:
            text += run.decode("utf-8", "replace")
            run.clear()
        else:
            run += piece
    return text + run.decode("utf-8", "replace")


def of(record: RunRecord) -> Spelling | Finding:
    """The spelling of a record's model, or what is wrong with it."""
    model = record.header.model
    if model.name == "embedded":
        return Spelling(pieces=EMBEDDED, prompts={})
    path = record.directory / FILE
    if not path.is_file():
        return error("E163", FILE, "missing: nothing says what this model's token ids spell")
    try:
        listed = parse(path.read_bytes(), FILE)["spellings"]
        pieces = [None if s is None else s.encode("latin-1") for s in listed]
    except (RecordError, KeyError, TypeError, AttributeError, UnicodeEncodeError):
        return error("E163", FILE, "no list of spellings")
    if hashlib.sha256(json.dumps(listed).encode()).hexdigest() != model.tokenizer_sha256:
        return error("E163", FILE, "hashes to another value than run.json's tokenizer_sha256")
    return Spelling(pieces=pieces, prompts=model.prompts)
