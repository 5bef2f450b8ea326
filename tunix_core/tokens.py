"""Text to ids and back. The context only ever grows: ids that were sampled are never tokenised again."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol

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
    """What the renderer needs of a tokenizer; five control ids are outside the reach of any text."""

    @property
    def vocab_size(self) -> int:
        """Number of ids, unused ones included."""
        ...

    @property
    def pad_id(self) -> int:
        """Fills arrays. Never a sign of padding: masks and lengths say what is padding."""
        ...

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

    def encode(self, text: str) -> np.ndarray:
        """Ids int32 [n] of a text; never a control id."""
        ...

    def decode(self, ids: Sequence[int] | np.ndarray) -> str:
        """Text of ids; control ids have none."""
        ...

    def token_text(self, token_id: int) -> str:
        """One id for human eyes."""
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


class Renderer:
    """Writes the dialogue as ids: [bos, user, text, assistant], sampled turn, [user, text, assistant], ..."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """Ids that end a turn of the policy; the sampler stops at any of them and keeps it."""
        return self.tokenizer.stop_ids

    def observation_ids(self, observation: str, *, first: bool) -> np.ndarray:
        """Ids int32 [n] that an observation adds to the context, up to the policy's next turn."""
        tok = self.tokenizer
        head = [tok.bos_id, tok.user_id] if first else [tok.user_id]
        return np.concatenate(
            [np.asarray(head, np.int32), tok.encode(observation), np.asarray([tok.assistant_id], np.int32)]
        )

    def open(self, observation: str) -> np.ndarray:
        """The context int32 [n] in which the first turn is sampled."""
        return self.observation_ids(observation, first=True)

    def extend(self, context_ids: np.ndarray, sampled_ids: np.ndarray, observation: str) -> np.ndarray:
        """The next context int32 [n]: what was there, what was sampled as it was sampled, what came back.

        A turn without a stop id was cut at a length limit; it ends the episode, so extending it raises.
        """
        if len(sampled_ids) == 0 or int(sampled_ids[-1]) not in self.stop_ids:
            raise ValueError(
                f"The sampled turn of {len(sampled_ids)} ids doesn't end in a stop id {self.stop_ids}: it "
                "was cut at a length limit. End the episode instead of extending it."
            )
        added = self.observation_ids(observation, first=False)
        return np.concatenate([np.asarray(context_ids, np.int32), np.asarray(sampled_ids, np.int32), added])

    def turn_text(self, sampled_ids: np.ndarray) -> str:
        """The policy's words in one turn, as the environment gets them."""
        return self.tokenizer.decode(sampled_ids)
