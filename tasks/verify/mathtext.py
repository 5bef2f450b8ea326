r"""From the characters of an answer to tokens: Unicode and LaTeX spellings become one plain form.

Nothing is dropped that carries value: of units only one, at the very end, from a closed list or, set as text, a
plural of what was counted; of currency one sign, at the front. What no rule knows stays in the text, and the
parser then refuses the whole.
"""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple

MAX_CHARS = 512
"""Longer answers are refused unread."""

_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺", "0123456789-+")
_SUPERSCRIPT_RUN = re.compile("[⁻⁺]?[⁰¹²³⁴⁵⁶⁷⁸⁹]+")
_CHARACTERS = str.maketrans(
    {"−": "-", "–": "-", "⁄": "/", "×": "*", "·": "*", "⋅": "*", "÷": "/", "≤": "<=", "≥": ">=", "≠": "!="}
    | {"π": r"\pi ", "∞": r"\infty ", "√": r"\sqrt ", "∪": r"\cup ", "∈": r"\in ", "∅": r"\emptyset "}
)
_DELIMITERS = (("$$", "$$"), ("$", "$"), (r"\(", r"\)"), (r"\[", r"\]"))
_SPELLINGS = (
    (re.compile(r"\\(?:left|right|[bB]igg?[lr]?)(?![A-Za-z])"), ""),
    (re.compile(r"\\(?:[,;:! ]|q?quad(?![A-Za-z]))|~"), " "),
    (re.compile(r"\{,\}"), ","),
    (re.compile(r"\\[dt]frac(?![A-Za-z])"), r"\\frac"),
    (re.compile(r"\\(?:cdot|times)(?![A-Za-z])"), "*"),
    (re.compile(r"\\div(?![A-Za-z])"), "/"),
    (re.compile(r"\\leq?(?![A-Za-z])"), "<="),
    (re.compile(r"\\geq?(?![A-Za-z])"), ">="),
    (re.compile(r"\\lt(?![A-Za-z])"), "<"),
    (re.compile(r"\\gt(?![A-Za-z])"), ">"),
    (re.compile(r"\\neq?(?![A-Za-z])"), "!="),
    (re.compile(r"\\(?:varnothing)(?![A-Za-z])"), r"\\emptyset"),
    (re.compile(r"\\%"), "%"),
    (re.compile(r"\\\$"), "$"),
    (re.compile(r"\\[lr]brace(?![A-Za-z])"), lambda m: r"\{" if m.group()[1] == "l" else r"\}"),
    (re.compile(r"\^\s*(?:\\circ|\{\s*\\circ\s*\})(?![A-Za-z])|°"), " degrees"),
    (re.compile(r"\\(?:text|textrm|mathrm|textbf|mathbf|mbox)\s*\{([^{}]*)\}"), r" \1 "),
)
_CURRENCY = re.compile(r"^\s*([+-])?\s*[$€£]\s*((?(1)|-?))(?=[0-9.])")

_UNIT_SPELLINGS = """
dollars dollar usd | euros euro eur | pounds pound | cents cent | degrees degree deg
meters meter metres metre m | kilometers kilometer kilometres kilometre km | mm
centimeters centimeter centimetres centimetre cm | miles mile | feet foot ft | inches inch | yards yard
grams gram g | kilograms kilogram kg | ounces ounce oz | liters liter litres litre | ml | mph
seconds second s | minutes minute min | hours hour hr hrs h | days day | weeks week | months month | years year
units unit | people | items | times
"""
UNITS: dict[str, str] = {
    spelling: spellings.split()[0]
    for spellings in _UNIT_SPELLINGS.replace("\n", "|").split("|")
    for spelling in spellings.split()
}
"""Spelling to name of every unit that may follow a number."""
_COUNTED = re.compile(r"(?<=[0-9])\s*\\(?:text|textrm|mathrm)\s*\{\s*(?P<noun>[a-z]{2,19}s)\s*\}\s*\.?\s*$")
_WORTH = frozenset((
    "tens", "dozens", "scores", "hundreds", "thousands", "millions", "billions", "trillions",
    "halves", "thirds", "quarters", "percents", "plus", "minus", "squares", "cubes",
))  # fmt: skip
"""Plurals that change what a number is worth, beside those in -ths."""
_UNIT = re.compile(
    r"(?P<number>[0-9.%})])\s*(?:square |cubic |sq )?(?P<unit>"
    + "|".join(sorted((u for u in UNITS if len(u) > 1), key=lambda u: (-len(u), u)))
    # a lone letter is a unit only where a space sets it apart: 5m is a product
    + r"|(?<=\s)[mgsh])(?:\^\{?[23]\}?)?\s*$",
    re.IGNORECASE,
)
_TOKEN = re.compile(
    r"(?P<number>[0-9]+(?:\.[0-9]*)?|\.[0-9]+)|(?P<command>\\[A-Za-z]+|\\[{}|])|(?P<word>[A-Za-z]+)"
    r"|(?P<mark>\*\*|<=|>=|!=|[-+*/^_(){}\[\],;:=<>!%|])"
)
_THOUSANDS = re.compile(r"(?<![0-9.,])[0-9]{1,3}(?:,[0-9]{3})+(?![0-9,])")
_SPACED_THOUSANDS = re.compile(r"([+-]?)([0-9]{1,3}(?: [0-9]{3})+(?:\.[0-9]+)?)")


class Token(NamedTuple):
    """One token; `spaced` tells whether white space stood before it."""

    kind: str
    text: str
    spaced: bool


class Cleaned(NamedTuple):
    """The plain form of an answer, and the unit or currency that was taken off it."""

    text: str
    unit: str | None


def clean(raw: str, *, units: bool = True) -> Cleaned | None:
    """Returns the plain form; None for what is too long or holds characters of no known meaning.

    Args:
      raw: the answer as it was written.
      units: whether a unit may follow; not where the gold has letters of its own.
    """
    if len(raw) > MAX_CHARS:
        return None
    text = _plain_characters(raw)
    if text is None:
        return None
    text = _without_delimiters(text)
    if units:
        text = _without_counted(text)
    for pattern, spelling in _SPELLINGS:
        text = pattern.sub(spelling, text)
    text = text.strip()
    # one full stop ends a sentence; two or more are an ellipsis
    if text.endswith(".") and not text.endswith(".."):
        text = text[:-1].rstrip()
    if "..." in text or r"dots" in text:
        return None
    unit = None
    currency = _CURRENCY.match(text)
    if currency is not None:
        text = (currency[1] or "") + currency[2] + text[currency.end() :]
        unit = "dollars" if "$" in currency.group() else currency.group().strip()[-1]
    found = _UNIT.search(text) if units else None
    if found is not None:
        named = UNITS[found["unit"].lower()]
        if unit not in (None, named):
            return None
        text, unit = text[: found.end("number")].rstrip(), named
    spaced = _SPACED_THOUSANDS.fullmatch(text)
    return Cleaned(text.replace(" ", "") if spaced else text, unit)


def _without_counted(text: str) -> str:
    found = _COUNTED.search(text)
    if found is None or found["noun"] in UNITS or found["noun"] in _WORTH or found["noun"].endswith("ths"):
        return text
    return text[: found.start()]


def tokens(text: str) -> list[Token] | None:
    """Splits a plain form; None where a character belongs to no token."""
    found: list[Token] = []
    place, spaced = 0, False
    while place < len(text):
        if text[place].isspace():
            place, spaced = place + 1, True
            continue
        match = _TOKEN.match(text, place)
        if match is None:
            return None
        assert match.lastgroup is not None
        found.append(Token(match.lastgroup, match.group(), spaced))
        place, spaced = match.end(), False
    return found


def without_thousands(text: str) -> str:
    """Takes the separators out of ``1,234,567``, except inside brackets, where a comma separates items."""
    depth, kept, start = 0, [], 0
    for place, char in enumerate(text):
        if char in "([{":
            if depth == 0:
                kept.append(_joined(text[start:place]))
                start = place
            depth += 1
        elif char in ")]}":
            depth -= 1
            if depth == 0:
                kept.append(text[start:place])
                start = place
    kept.append(_joined(text[start:]) if depth == 0 else text[start:])
    return "".join(kept)


def _joined(text: str) -> str:
    return _THOUSANDS.sub(lambda match: match.group().replace(",", ""), text)


def _plain_characters(raw: str) -> str | None:
    """NFKC with its traps taken out first: 3½ must not become 31/2, x² not x2."""
    text = _SUPERSCRIPT_RUN.sub(lambda match: "^{" + match.group().translate(_SUPERSCRIPTS) + "}", raw)
    out = []
    for char in text:
        if char.isascii():
            out.append(char)
            continue
        decomposition = unicodedata.decomposition(char)
        if decomposition.startswith(("<super>", "<sub>", "<circle>")):
            return None
        out.append(" " + char if decomposition.startswith("<fraction>") else char)
    return unicodedata.normalize("NFKC", "".join(out)).translate(_CHARACTERS)


def _without_delimiters(text: str) -> str:
    text = text.strip()
    for opening, closing in _DELIMITERS:
        inner = text[len(opening) : -len(closing)]
        if text.startswith(opening) and text.endswith(closing) and len(text) > len(opening) + len(closing):
            # "$1$ and $2$" is not one formula, and a lone "$5" is money
            return inner.strip() if opening[0] not in inner or opening[0] == "\\" else text
    return text
