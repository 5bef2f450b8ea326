"""The space of texts. Gymnasium's own `Text` knows a fixed alphabet only; a policy writes any character."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import gymnasium

from tasks.protocol import MARKS

_SAMPLE_PIECES = (*"0123456789abcdefghijklmnopqrstuvwxyz+-*/=?.,()[] \n", "é", "‹", "数", *MARKS)


class UnicodeText(gymnasium.Space[str]):
    """Texts of up to `max_length` code points, any character but lone surrogates (no UTF-8 holds those)."""

    def __init__(self, max_length: int, seed: int | None = None) -> None:
        if max_length < 1:
            raise ValueError(f"max_length must be at least 1, not {max_length}.")
        self.max_length = max_length
        super().__init__(shape=(), dtype=None, seed=seed)

    @property
    def is_np_flattenable(self) -> bool:
        """Texts have no array form."""
        return False

    def sample(self, mask: Any | None = None, probability: Any | None = None) -> str:
        """Draws a short text of letters, digits, protocol marks and a few wide characters."""
        if mask is not None or probability is not None:
            raise ValueError("UnicodeText has no masked sampling; call sample() without arguments.")
        count = int(self.np_random.integers(0, 13))
        picks = self.np_random.integers(0, len(_SAMPLE_PIECES), size=count)
        return "".join(_SAMPLE_PIECES[i] for i in picks)[: self.max_length]

    def contains(self, x: Any) -> bool:
        """True for a str short enough and free of lone surrogates."""
        return isinstance(x, str) and len(x) <= self.max_length and not has_surrogate(x)

    def to_jsonable(self, sample_n: Iterable[str]) -> list[str]:
        """Texts are JSON already."""
        return list(sample_n)

    def from_jsonable(self, sample_n: list[Any]) -> list[str]:
        """Inverse of `to_jsonable`."""
        return [str(text) for text in sample_n]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UnicodeText) and other.max_length == self.max_length

    def __hash__(self) -> int:
        return hash((UnicodeText, self.max_length))

    def __repr__(self) -> str:
        return f"UnicodeText({self.max_length})"


def has_surrogate(text: str) -> bool:
    """True where the text cannot be encoded in UTF-8."""
    return any("\ud800" <= char <= "\udfff" for char in text)
