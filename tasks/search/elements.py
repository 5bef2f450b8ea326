"""The chemical elements as documents and facts, out of the database of the package ``mendeleev`` (MIT)."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass

from tasks.data.sources import package_folder
from tasks.search.library import Document, Library, built_once

_TEXTS = {
    "description": "Description",
    "discoverers": "Discoverers",
    "discovery_location": "Discovery location",
    "name_origin": "Origin of the name",
    "sources": "Sources",
    "uses": "Uses",
}
_FACTS = {
    "discovery_year": "Discovery year",
    "symbol": "Symbol",
    "atomic_number": "Atomic number",
    "cas": "CAS number",
}


@dataclass(frozen=True, slots=True)
class Element:
    """One element: name, texts by field, and its short facts by column name, as written."""

    name: str
    fields: tuple[tuple[str, str], ...]
    facts: dict[str, str]


@built_once
def elements() -> tuple[Element, ...]:
    """Reads all elements in the order of their numbers.

    Raises:
      DataMissingError: the package is not installed; says how to.
    """
    path = package_folder("mendeleev", "elements.db", extra="elements")
    columns = ", ".join(("name", *_FACTS, *_TEXTS))
    with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as connection:
        rows = connection.execute(f"select {columns} from elements order by atomic_number").fetchall()
    return tuple(_element(dict(zip(("name", *_FACTS, *_TEXTS), row, strict=True))) for row in rows)


@built_once
def library() -> Library:
    """All elements: what is known about each, a field a passage."""
    return Library([Document(element.name, element.fields) for element in elements()])


def _element(row: dict[str, object]) -> Element:
    facts = {name: str(row[name]) for name in _FACTS if row[name] is not None}
    texts = {label: facts[name] for name, label in _FACTS.items() if name in facts}
    texts |= {label: " ".join(str(row[name]).split()) for name, label in _TEXTS.items() if row[name]}
    return Element(str(row["name"]), tuple(texts.items()), facts)
