"""Grades short answers to questions: exact match after a normalisation that keeps what carries meaning.

The normalisation of SQuAD (Rajpurkar et al. 2016, arXiv 1606.05250), which most code bases copy, deletes all
punctuation, and with it the difference between -5 and 5, 3.5 and 35, 1/2 and 12, C++ and C. Here numbers are
read before punctuation goes. What does not count: case, width, accents, articles, quotes, hyphens between
words, thousands separators, a currency sign, and trailing zeros of a decimal.
"""

from __future__ import annotations

import collections
import re
import string
import unicodedata
from collections.abc import Sequence
from fractions import Fraction

MAX_CHARS = 512
"""A longer text is no short answer: it equals nothing, and is not read."""

_DASHES = str.maketrans({char: "-" for char in "‐‑‒–—―−"} | dict.fromkeys("’‘ʼ`´", "'") | {"⁄": "/"})
_TOKEN = re.compile(
    r"(?P<number>(?:(?<![\w.,/])[+-])?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:/\d+(?:\.\d+)?)?%?)"
    r"|(?P<word>[^\W\d_]+(?:'[^\W\d_]+)*[+#]*)"
)
_ARTICLES = frozenset({"a", "an", "the"})


def normalise(text: str) -> tuple[str, ...]:
    """Returns the words and numbers of a short answer; numbers as exact fractions, e.g. ``1.50`` as ``3/2``."""
    if len(text) > MAX_CHARS:
        return ()
    text = unicodedata.normalize("NFKC", text).translate(_DASHES).casefold()
    text = "".join(c for c in unicodedata.normalize("NFD", text) if not unicodedata.combining(c))
    tokens = []
    for match in _TOKEN.finditer(text):
        word = match["word"]
        tokens.append(word.replace("'", "") if word else _number(match["number"]))
    kept = tuple(token for token in tokens if token not in _ARTICLES)
    return kept or tuple(tokens)  # "The" and "A" alone are answers, not nothing


def exact_match(answer: str, golds: Sequence[str]) -> bool:
    """Whether the answer is one of the aliases; an empty one never is."""
    found = normalise(answer)
    return bool(found) and any(found == normalise(gold) for gold in golds)


def token_f1(answer: str, golds: Sequence[str]) -> float:
    """Returns the best F1 of token overlap with an alias, in [0, 1]; reported, never a reward."""
    found = collections.Counter(normalise(answer))
    best = 0.0
    for gold in golds:
        wanted = collections.Counter(normalise(gold))
        common = sum((found & wanted).values())
        if common:
            best = max(best, 2 * common / (sum(found.values()) + sum(wanted.values())))
    return best


def em_squad(answer: str, golds: Sequence[str]) -> bool:
    """Exact match after SQuAD's normalisation: for comparison with published figures only."""
    return any(_squad(answer) == _squad(gold) for gold in golds)


def equal_quantity(
    answer: str, gold: Fraction, *, units: Sequence[str] = (), rel_tol: float = 0.0
) -> bool | None:
    """Whether the answer is a number equal to the gold, with one of the units or none.

    Args:
      answer: e.g. ``4,970 km``.
      gold: in the first of the units.
      units: ways to write the one unit; another unit is another answer.
      rel_tol: allowed difference, relative to the gold.
    Returns:
      None where the answer is no number, or has a word that is no such unit.
    """
    tokens = normalise(answer)
    if not tokens:
        return None
    number, *rest = tokens
    value = as_fraction(number)
    if value is None:
        return None
    if rest and tuple(rest) not in {normalise(unit) for unit in units}:
        return None
    return abs(value - gold) <= Fraction(rel_tol).limit_denominator(10**9) * abs(gold)


def as_fraction(token: str) -> Fraction | None:
    """Reads a normalised number; None for a word or a percentage."""
    try:
        return Fraction(token)
    except (ValueError, ZeroDivisionError):
        return None


def _number(text: str) -> str:
    plain = text.replace(",", "")
    percent = plain.endswith("%")
    numerator, _, denominator = plain.rstrip("%").partition("/")
    value = Fraction(numerator)
    if denominator:
        if not Fraction(denominator):
            return plain
        value /= Fraction(denominator)
    return f"{value}%" if percent else str(value)


def _squad(text: str) -> str:
    text = "".join(char for char in text.lower() if char not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())
