"""Numbers of a report: each is a place in the report's one document and a form, and is written in one way only."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

FORMS: dict[str, Callable[[Any], str]] = {
    "times": lambda v: f"{v:.2f}×" if v < 1000 else f"{v:.1e}×",
    "seconds": lambda v: f"{v:,.1f} s",
    "percent": lambda v: f"{100 * v:.1f} %",
    "change": lambda v: f"{100 * v:+.1f} %",
    "points": lambda v: f"{100 * v:+.1f} points",
    "bare points": lambda v: f"{100 * v:+.1f}",
    "number": lambda v: f"{v:.2f}",
    "small": lambda v: f"{v:.3g}",
    "count": lambda v: f"{v:,}",
    "rate": lambda v: f"{v:,.0f}",
    "bytes": lambda v: f"{v / 2**20:,.0f} MiB",
    "word": str,
}
MISSING = "–"


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """A figure of the document: where it stands (a JSON pointer, RFC 6901) and how it is written."""

    key: str
    form: str


Words = Iterable[str | Number]
"""A sentence with figures in it."""


def pointer(*parts: str | int) -> str:
    """Returns the JSON pointer of a path. Source: RFC 6901, section 3."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in parts)


def at(document: Any, key: str) -> Any:
    """Returns what stands at a pointer; None where the path ends early.

    A figure that a record doesn't have is shown as missing, so an absent field and null are the same here.
    """
    value = document
    for part in key.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict):
            value = value.get(name)
        elif isinstance(value, list) and name.isdigit() and int(name) < len(value):
            value = value[int(name)]
        else:
            return None
    return value


def shown(value: Any, form: str) -> str:
    """Writes a value; the one place where a report turns a figure into text."""
    return MISSING if value is None else FORMS[form](value)


def written(document: Any, number: Number) -> str:
    """Writes a figure of the document."""
    return shown(at(document, number.key), number.form)
