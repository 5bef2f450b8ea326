"""Short text answers: equality after a normalisation that keeps what carries meaning."""

from __future__ import annotations

import re
import unicodedata

_DASHES = str.maketrans({c: "-" for c in "‐‑‒–—―−"} | {"’": "'", "‘": "'"})
_ARTICLES = re.compile(r"\b(?:a|an|the)\b\s+")


def normalise(text: str) -> str:
    """Case, width, dashes, spaces, a leading article and a final full stop don't matter; signs do."""
    text = unicodedata.normalize("NFKC", text).translate(_DASHES).casefold()
    text = " ".join(text.split())
    text = _ARTICLES.sub("", text, count=1) if _ARTICLES.match(text) else text
    return text.rstrip(".!?").strip()


def equal_text(answer: str, golds: tuple[str, ...]) -> bool:
    """True where the answer is one of the golds."""
    wanted = {normalise(gold) for gold in golds}
    found = normalise(answer)
    return bool(found) and found in wanted
