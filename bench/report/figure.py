"""A figure of a report: drawings with their legend, a table of the same figures, and how to read both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from bench.report.numbers import Number, Words
from leaderboard.site.svg import Drawing, Ink

Kind = Literal["text", "number"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a table; a table is sorted by it."""

    title: str
    kind: Kind = "number"


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Figures by row; a cell is words or a number of the document, or several of them."""

    caption: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[str | Number | tuple[str | Number, ...]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One of the report's fifteen. `absent` stands in its place where the record has no data for it."""

    key: str
    """Anchor in the page."""
    title: str
    lead: Words = ()
    drawings: Sequence[Drawing] = ()
    legend: Sequence[tuple[Ink, str]] = ()
    boxes: bool = False
    """The legend shows areas, not lines."""
    tables: Sequence[Table] = ()
    open_tables: bool = False
    """Tables that are the figure stand open; those that repeat a drawing are folded."""
    absent: str = ""


def columns(*titles: str, text: int = 1) -> list[Column]:
    """The first `text` columns hold words, the others numbers."""
    return [
        Column(title=title, kind="text" if place < text else "number") for place, title in enumerate(titles)
    ]
