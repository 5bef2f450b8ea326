"""Numbers in answers: exact rationals, read whole or not at all.

Accepted: ``72``, ``-3``, ``2,125``, ``$18``, ``18.00``, ``18.``, ``3/4``, ``3 1/2``, full-width digits and
vulgar fractions. Everything else (units, percent, expressions, chains, superscripts) is not a number here:
the grader never evaluates and never searches an answer for a number.
"""

from __future__ import annotations

import re
import unicodedata
from fractions import Fraction

MAX_CHARS = 64
"""Longer texts are refused before any arithmetic, so that no answer can cost time."""

_DIGITS = r"(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)"
_DECIMAL = rf"(?:{_DIGITS}(?:\.[0-9]+)?|\.[0-9]+)"
_NUMBER = re.compile(
    rf"(?P<sign>[+-]?)\$?"
    rf"(?:(?:(?P<whole>{_DIGITS}) )?(?P<num>{_DIGITS})/(?P<den>{_DIGITS})|(?P<dec>{_DECIMAL}))"
)
_IN_PROSE = re.compile(rf"(?<![0-9.,/])(?P<sign>(?<![0-9A-Za-z)])[-−])?\$?(?P<dec>{_DECIMAL})(?!,?[0-9])")
_FINAL_LINE = re.compile(r"####[ \t]*(?P<answer>[^\n]*)")


def parse_number(text: str) -> Fraction | None:
    """Returns the number that the whole text is, or None."""
    if len(text) > MAX_CHARS:
        return None
    normal = _normalise(text)
    match = _NUMBER.fullmatch(normal) if normal is not None else None
    if match is None:
        return None
    sign = -1 if match["sign"] == "-" else 1
    if match["dec"] is not None:
        return sign * Fraction(match["dec"].replace(",", ""))
    denominator = _integer(match["den"])
    if denominator == 0:
        return None
    whole = _integer(match["whole"]) if match["whole"] else 0
    return sign * (whole + Fraction(_integer(match["num"]), denominator))


def equal_number(answer: str, gold: int | Fraction) -> bool | None:
    """Compares exactly; None where the answer is not a number."""
    value = parse_number(answer)
    return None if value is None else value == gold


def final_line_answer(text: str) -> str | None:
    """Returns what follows the first ``####``: a model that runs on may invent further exercises."""
    match = _FINAL_LINE.search(text)
    return match["answer"].strip() if match else None


def last_number_in_prose(text: str) -> Fraction | None:
    """Returns the last number of a sentence. For reading data-set golds and reports, never for rewards."""
    normal = unicodedata.normalize("NFKC", text[-10_000:])
    matches = list(_IN_PROSE.finditer(normal))
    if not matches:
        return None
    value = Fraction(matches[-1]["dec"].replace(",", ""))
    return -value if matches[-1]["sign"] else value


def _normalise(text: str) -> str | None:
    """NFKC with the two traps taken out: 3½ must not become 31/2, and 2² must not become 22."""
    parts = []
    for char in text:
        decomposition = unicodedata.decomposition(char)
        if decomposition.startswith(("<super>", "<sub>", "<circle>")):
            return None
        parts.append(" " + char if decomposition.startswith("<fraction>") else char)
    normal = unicodedata.normalize("NFKC", "".join(parts)).replace("−", "-").replace("⁄", "/").strip()
    normal = re.sub(r"^([+-]?) +", r"\1", normal)
    return normal.removesuffix(".") if len(normal) > 1 else normal


def _integer(text: str) -> int:
    return int(text.replace(",", ""))
