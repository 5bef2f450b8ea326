"""Text to ids and back. The context only ever grows: ids that were sampled are never tokenised again."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, cast

import numpy as np

BYTES = 256
CONTROLS = ("<pad>", "<bos>", "<user>", "<assistant>", "<end>")
"""Names of ids 256..260. No text encodes to them, so no observation can forge a turn."""
MARKS = ("<answer>", "</answer>", "<search>", "</search>", "<result>", "</result>")
"""Ids 261..266: the marks of the tasks' turn protocols, one id each."""
_FIRST_MARK = BYTES + len(CONTROLS)
_MARK_ID = {mark: _FIRST_MARK + i for i, mark in enumerate(MARKS)}
_SPLIT_AT_MARKS = re.compile("(" + "|".join(re.escape(mark) for mark in MARKS) + ")")


class Tokenizer(Protocol):
    """Text to ids and back; controls are ids that no text encodes to."""

    @property
    def vocab_size(self) -> int:
        """Number of ids, unused ones included."""
        ...

    def encode(self, text: str) -> np.ndarray:
        """Ids int32 [n] of a text; never a control id."""
        ...

    def decode(self, ids: Sequence[int] | np.ndarray) -> str:
        """Text of ids; control ids have none."""
        ...

    def token_text(self, token_id: int) -> str:
        """One id for human eyes."""
        ...


class ControlTokenizer(Tokenizer, Protocol):
    """A tokenizer whose own controls mark whose turn it is."""

    @property
    def bos_id(self) -> int:
        """Opens a context."""
        ...

    @property
    def user_id(self) -> int:
        """Opens a message of the environment."""
        ...

    @property
    def assistant_id(self) -> int:
        """Opens a turn of the policy."""
        ...

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """Any of these, sampled, ends the policy's turn."""
        ...


class ByteTokenizer:
    """UTF-8 bytes, five control ids and six marks; 272 ids, of which the last five are unused."""

    vocab_size = 272
    pad_id, bos_id, user_id, assistant_id, end_id = range(BYTES, _FIRST_MARK)
    stop_ids: tuple[int, ...] = (end_id,)

    def encode(self, text: str) -> np.ndarray:
        """Ids int32 [n]; a mark is one id, all else bytes, a lone surrogate (no UTF-8) a question mark."""
        ids: list[int] = []
        for piece in _SPLIT_AT_MARKS.split(text):
            mark = _MARK_ID.get(piece)
            ids.extend(piece.encode("utf-8", "replace")) if mark is None else ids.append(mark)
        return np.asarray(ids, np.int32)

    def decode(self, ids: Sequence[int] | np.ndarray) -> str:
        """Text of ids; invalid UTF-8 shows as U+FFFD, control and unused ids as nothing."""
        pieces: list[str] = []
        run = bytearray()
        for i in np.asarray(ids, np.int64).tolist():
            if 0 <= i < BYTES:
                run.append(i)
                continue
            self._check(i)
            # A byte sequence never reaches across another id: its halves belong to different tokens.
            pieces.append(run.decode("utf-8", "replace"))
            run.clear()
            if 0 <= i - _FIRST_MARK < len(MARKS):
                pieces.append(MARKS[i - _FIRST_MARK])
        pieces.append(run.decode("utf-8", "replace"))
        return "".join(pieces)

    def token_text(self, token_id: int) -> str:
        """One id for human eyes: '\\n' and bytes outside printable ASCII escaped, controls by name."""
        self._check(token_id)
        if token_id < BYTES:
            char = chr(token_id)
            return char if char.isascii() and char.isprintable() else f"\\x{token_id:02x}"
        names = CONTROLS + MARKS
        return names[token_id - BYTES] if token_id - BYTES < len(names) else f"<unused {token_id}>"

    def _check(self, token_id: int) -> None:
        if not 0 <= token_id < self.vocab_size:
            raise ValueError(f"Token id {token_id} is outside 0..{self.vocab_size - 1}.")


class Around(NamedTuple):
    """Ids int32 that stand before and after an observation."""

    before: np.ndarray
    after: np.ndarray


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptFormat:
    """How a dialogue is written as ids.

    first, later: what stands around the first observation and around those that follow; lead: the text that a turn
    of the policy begins with in the examples of `first`; stop_ids: any of them, sampled, ends a turn, and the first
    of them is how an example ends.
    """

    first: Around
    later: Around
    stop_ids: tuple[int, ...]
    lead: str = ""


def control_format(tokenizer: ControlTokenizer) -> PromptFormat:
    """[bos, user, text, assistant], sampled turn, [user, text, assistant], ..."""
    user, assistant = (np.asarray([i], np.int32) for i in (tokenizer.user_id, tokenizer.assistant_id))
    bos = np.asarray([tokenizer.bos_id], np.int32)
    first, later = Around(np.concatenate([bos, user]), assistant), Around(user, assistant)
    return PromptFormat(first=first, later=later, stop_ids=tokenizer.stop_ids)


class Renderer:
    """Writes the dialogue as ids, in the format of its environment."""

    def __init__(
        self, tokenizer: Tokenizer, formats: PromptFormat | Mapping[str, PromptFormat] | None = None
    ) -> None:
        """`formats`: of all environments, or by env_id; None: the tokenizer's own controls.

        Raises ValueError where formats end turns differently: one sampler serves them all.
        """
        self.tokenizer = tokenizer
        if formats is None:
            formats = control_format(cast(ControlTokenizer, tokenizer))
        self._formats = formats
        each = [formats] if isinstance(formats, PromptFormat) else list(formats.values())
        self._stop_ids = each[0].stop_ids
        if any(f.stop_ids != self._stop_ids for f in each):
            raise ValueError("the formats of a renderer must end turns by the same ids")

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """Ids that end a turn of the policy; the sampler stops at any of them and keeps it."""
        return self._stop_ids

    def format_of(self, env_id: str) -> PromptFormat:
        """The format of an environment; KeyError where formats are by environment and it has none."""
        return self._formats if isinstance(self._formats, PromptFormat) else self._formats[env_id]

    def observation_ids(self, observation: str, *, first: bool, env_id: str = "") -> np.ndarray:
        """Ids int32 [n] that an observation adds to the context, up to the policy's next turn."""
        form = self.format_of(env_id)
        around = form.first if first else form.later
        return np.concatenate([around.before, self.tokenizer.encode(observation), around.after])

    def turn_ids(self, text: str, env_id: str = "") -> np.ndarray:
        """Ids int32 [n] of a turn that says a text and ends."""
        form = self.format_of(env_id)
        return np.append(self.tokenizer.encode(form.lead + text), np.int32(form.stop_ids[0]))

    def open(self, observation: str, env_id: str = "") -> np.ndarray:
        """The context int32 [n] in which the first turn is sampled."""
        return self.observation_ids(observation, first=True, env_id=env_id)

    def extend(
        self, context_ids: np.ndarray, sampled_ids: np.ndarray, observation: str, env_id: str = ""
    ) -> np.ndarray:
        """The next context int32 [n]: what was there, what was sampled as it was sampled, what came back.

        A turn without a stop id was cut at a length limit; it ends the episode, so extending it raises.
        """
        if len(sampled_ids) == 0 or int(sampled_ids[-1]) not in self.stop_ids:
            raise ValueError(
                f"The sampled turn of {len(sampled_ids)} ids doesn't end in a stop id {self.stop_ids[:9]}: it "
                "was cut at a length limit. End the episode instead of extending it."
            )
        added = self.observation_ids(observation, first=False, env_id=env_id)
        return np.concatenate([np.asarray(context_ids, np.int32), np.asarray(sampled_ids, np.int32), added])

    def turn_text(self, sampled_ids: np.ndarray) -> str:
        """The policy's words in one turn, as the environment gets them."""
        return self.tokenizer.decode(sampled_ids)
