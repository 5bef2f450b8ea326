"""`Search/Lookup-v0`: ask a search tool for one fact of a fictional world, then answer.

Every world has its own entities, and which value an entity has is drawn from the world's seed: nothing in
the question tells the answer, so only retrieval does.
"""

from __future__ import annotations

import functools
import hashlib
import random
from dataclasses import dataclass

from tasks import protocol
from tasks.search.index import Bm25Index, stemmer
from tasks.spec import Draw, Grade, TaskItem, TaskSpec, ToolCall
from tasks.verify.text_match import equal_text

VALUES: dict[str, tuple[str, ...]] = {
    "flag": ("red", "blue", "green", "gold", "white", "black", "pink", "gray", "brown", "teal"),
    "coin": ("iron", "tin", "zinc", "lead", "jade", "opal", "ruby", "onyx", "clay", "bone"),
    "crop": ("rice", "corn", "oats", "rye", "beet", "kale", "plum", "fig", "bean", "hemp"),
    "beast": ("wolf", "bear", "hawk", "owl", "fox", "lynx", "seal", "crow", "toad", "moth"),
}
WORLDS = 128
_ENTITIES = {1: 4, 2: 16, 3: 64}
TOP_K = 2
MAX_RESULT_CHARS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """One fictional world: values by (entity, attribute), in the order of its facts."""

    level: int
    number: int
    names: tuple[str, ...]
    values: dict[tuple[str, str], str]

    @property
    def facts(self) -> list[str]:
        """One line a fact."""
        return [f"{name} {attribute} is {value}." for (name, attribute), value in self.values.items()]


class Lookup(TaskSpec):
    """Levels hold 16, 64 and 256 facts a world."""

    id = "Search/Lookup-v0"
    version = "1"
    title = "Look up a fact"
    description = "Find one fact of a fictional world with the search tool, e.g. Zorva flag?"
    levels = (1, 2, 3)
    tiers = ("T0", "T0", "T1")
    default_level = 2
    max_turns = 3
    max_tool_calls = 2
    max_answer_chars = 16
    tools = ("search",)
    best_constant_cap = 0.15

    def generate(self, rng: random.Random, level: int) -> Draw:
        """Draws a world, one of its entities and an attribute."""
        drawn = world(level, rng.randrange(WORLDS))
        name, attribute = rng.choice(drawn.names), rng.choice(tuple(VALUES))
        meta = {"world": drawn.number, "level": level, "query": f"{name} {attribute}"}
        return Draw(f"{name} {attribute}?", drawn.values[name, attribute], meta)

    def grade(self, item: TaskItem, text: str) -> Grade:
        """Exact match of the value, case aside."""
        return protocol.grade_answer(
            text, max_chars=self.max_answer_chars, verdict=lambda answer: equal_text(answer, (item.gold,))
        )

    def oracle(self, item: TaskItem) -> tuple[str, ...]:
        """Searches for the question's words, then answers."""
        return (protocol.search_turn(item.meta["query"]), protocol.answer_turn(item.gold))

    def careless(self, item: TaskItem, rng: random.Random) -> tuple[str, ...]:
        """Answers at once with a value of the right kind, without searching."""
        return (protocol.answer_turn(rng.choice(VALUES[item.meta["query"].split()[-1]])),)

    def closed_book(self, item: TaskItem) -> tuple[str, ...]:
        """Knows which values there are, and of a world nothing."""
        return (protocol.answer_turn(VALUES[item.meta["query"].split()[-1]][0]),)

    def tool_reply(self, item: TaskItem, call: ToolCall) -> str:
        """The two best facts of the item's world."""
        found = index(item.meta["level"], item.meta["world"]).search(call.argument, TOP_K)
        return protocol.result_turn(" ".join(found) or "no results", max_chars=MAX_RESULT_CHARS)


@functools.cache
def world(level: int, number: int) -> World:
    """Builds a world; every attribute's values are dealt evenly, so that no value is a good guess."""
    count = _ENTITIES[level]
    start = number * count + sum(WORLDS * c for lv, c in _ENTITIES.items() if lv < level)
    names = _names()[start : start + count]
    rng = random.Random(int.from_bytes(hashlib.sha256(f"lookup world {level} {number}".encode()).digest()))
    values: dict[tuple[str, str], str] = {}
    for attribute, vocabulary in VALUES.items():
        deck = list(vocabulary) * (count // len(vocabulary)) + rng.sample(vocabulary, count % len(vocabulary))
        rng.shuffle(deck)
        values.update({(name, attribute): value for name, value in zip(names, deck, strict=True)})
    order = list(values)
    rng.shuffle(order)
    return World(level=level, number=number, names=names, values={key: values[key] for key in order})


@functools.lru_cache(maxsize=2 * WORLDS)
def index(level: int, number: int) -> Bm25Index:
    """The BM25 index of a world; those of a level or two are kept."""
    return Bm25Index(world(level, number).facts)


@functools.cache
def _names() -> tuple[str, ...]:
    """All entity names, unique even after stemming: two names with one stem would be one to the index."""
    rng = random.Random("lookup names")
    wanted = WORLDS * sum(_ENTITIES.values())
    words = {stem for values in VALUES.values() for stem in values} | set(VALUES)
    seen, names = set(words), []
    while len(names) < wanted:
        shape = rng.choice(("cvcv", "cvccv"))
        name = "".join(rng.choice("bdfgklmnprstvz" if c == "c" else "aeiou") for c in shape)
        stem = stemmer().stemWord(name)
        if stem not in seen and name not in seen:
            seen |= {stem, name}
            names.append(name.capitalize())
    return tuple(names)
