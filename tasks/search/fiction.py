"""Fictional worlds: people, companies, towns, rivers and regions, with a document each.

Everything is drawn from the world's number, so nothing about a world can be known from elsewhere.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass

from tasks.search.index import stemmer
from tasks.search.library import Document, Library, built_once

WORLDS = 100
_COUNTS = {"person": 80, "company": 60, "town": 50, "river": 30, "region": 20}
_PRODUCTS = (
    "kettles",
    "lanterns",
    "ropes",
    "clocks",
    "saddles",
    "barrels",
    "mirrors",
    "bricks",
    "flutes",
    "sails",
)
RELATIONS: dict[str, tuple[str, str, str]] = {
    "employer": ("person", "company", "{0} works for {1}."),
    "birthplace": ("person", "town", "{0} was born in {1}."),
    "seat": ("company", "town", "{0} is based in {1}."),
    "leader": ("company", "person", "{0} is led by {1}."),
    "river": ("town", "river", "{0} lies on the river {1}."),
    "region": ("town", "region", "{0} belongs to the region {1}."),
    "mayor": ("town", "person", "The mayor of {0} is {1}."),
    "source": ("river", "region", "{0} rises in the region {1}."),
    "capital": ("region", "town", "{0} is governed from {1}."),
}
"""Relation: (whose, what, the sentence that says so)."""


@dataclass(frozen=True, slots=True)
class World:
    """Names by kind, and for each relation who stands to whom."""

    number: int
    names: dict[str, tuple[str, ...]]
    relations: dict[str, dict[str, str]]

    def documents(self) -> list[Document]:
        """One document an entity: the sentences of its own relations."""
        found = []
        for kind, names in self.names.items():
            for name in names:
                lines = [
                    (relation, sentence.format(name, self.relations[relation][name]))
                    for relation, (whose, _, sentence) in RELATIONS.items()
                    if whose == kind
                ]
                if kind == "company":
                    digest = hashlib.sha256(f"{self.number} {name}".encode()).digest()
                    lines.append(("product", f"{name} makes {_PRODUCTS[digest[0] % len(_PRODUCTS)]}."))
                found.append(Document(name, tuple(lines)))
        return found

    def follow(self, start: str, path: Sequence[str]) -> list[str]:
        """Returns the entities on a path of relations, `start` first."""
        places = [start]
        for relation in path:
            places.append(self.relations[relation][places[-1]])
        return places


@functools.lru_cache(maxsize=WORLDS)
def world(number: int) -> World:
    """Builds a world; who stands to whom is dealt evenly, so that no name is a good guess."""
    rng = random.Random(int.from_bytes(hashlib.sha256(f"fiction {number}".encode()).digest()))
    names = _names(number)
    relations = {}
    for relation, (whose, what, _) in RELATIONS.items():
        pool = list(names[what])
        deck = pool * (len(names[whose]) // len(pool)) + rng.sample(pool, len(names[whose]) % len(pool))
        rng.shuffle(deck)
        relations[relation] = dict(zip(names[whose], deck, strict=True))
    return World(number, names, relations)


@functools.lru_cache(maxsize=WORLDS)
def library(number: int) -> Library:
    """The documents of a world."""
    return Library(world(number).documents())


def _names(number: int) -> dict[str, tuple[str, ...]]:
    """A world's own names: no other world has them, so that a question's text tells its world."""
    size = sum(_COUNTS.values())
    own = iter(_all_names()[number * size : (number + 1) * size])
    return {kind: tuple(itertools.islice(own, count)) for kind, count in _COUNTS.items()}


@built_once
def _all_names() -> tuple[str, ...]:
    """Names of one word each, different even after stemming: else two would be one to the index."""
    rng = random.Random("names of fictional worlds")
    seen: set[str] = set()
    names: list[str] = []
    while len(names) < WORLDS * sum(_COUNTS.values()):
        name = "".join(rng.choice("bdfgklmnprstvz" if c == "c" else "aeiou") for c in rng.choice(_SHAPES))
        stem = stemmer().stemWord(name)
        if stem not in seen:
            seen.add(stem)
            names.append(name.capitalize())
    return tuple(names)


_SHAPES = ("cvccv", "cvcvc", "cvccvc")
