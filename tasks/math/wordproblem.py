"""`Math/WordProblem-v0`: stories of one quantity that changes, of one step up to seven, with idle sentences."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tasks import protocol
from tasks.spec import Draw, Grade, TaskItem, TaskSpec
from tasks.verify.answers import AnswerRule, grade_math

# fmt: off
NAMES = (
    "Ada", "Ben", "Chen", "Dora", "Emil", "Fatou", "Goran", "Hana", "Ivo", "Jun", "Kofi", "Lena",
    "Mira", "Nils", "Oana", "Petra", "Quinn", "Rosa", "Sven", "Tariq", "Uma", "Vera", "Wanda", "Yusuf",
)
THINGS = (
    "apples", "stamps", "marbles", "shells", "coins", "cards", "pencils", "beads", "books", "buttons",
    "cookies", "eggs", "flowers", "lemons", "nuts", "plums", "postcards", "ribbons", "stickers", "tickets",
)
# fmt: on
_MOST = 2000
"""No quantity on the way is larger."""


class _Story(NamedTuple):
    name: str
    other: str
    things: str


class _Step(NamedTuple):
    """A sentence, and the quantity after it."""

    sentence: str
    quantity: int


Event = Callable[[random.Random, _Story, int], _Step | None]


class Knobs(NamedTuple):
    """Steps of a story and sentences that have numbers but change nothing."""

    steps: int
    idle: int


KNOBS = {
    1: Knobs(1, 0), 2: Knobs(2, 0), 3: Knobs(3, 0), 4: Knobs(3, 1), 5: Knobs(5, 1), 6: Knobs(7, 2),
}  # fmt: skip


class WordProblem(TaskSpec):
    """The level sets how many things happen, and from level 4 on how many sentences are beside the point."""

    id = "Math/WordProblem-v0"
    version = "1"
    title = "Word problem"
    description = "Work out a short story in whole numbers, one to seven steps, with idle sentences"
    levels = tuple(KNOBS)
    tiers = ("T1", "T1", "T2", "T2", "T2", "T2")
    default_level = 2
    max_answer_chars = 24
    best_constant_cap = 0.03
    rule = AnswerRule(max_chars=max_answer_chars)

    def generate(self, rng: random.Random, level: int) -> Draw:
        """Draws events one after another, each so that the quantity stays a whole number above zero."""
        steps, idle = KNOBS[level]
        name, other = rng.sample(NAMES, 2)
        story = _Story(name, other, rng.choice(THINGS))
        start = quantity = rng.randint(6, 90)
        sentences: list[str] = []
        last: Event | None = None
        while len(sentences) < steps:
            event = rng.choice(EVENTS)
            # no event twice in a row, and the question about dollars only at the end
            if event is last:
                continue
            step = event(rng, story, quantity)
            if step is not None and step.quantity <= _MOST:
                sentences.append(step.sentence)
                quantity, last = step.quantity, event
        question, gold = rng.choice(_QUESTIONS)(rng, story, quantity)
        for _ in range(idle):
            sentences.insert(rng.randint(0, len(sentences) - 1), rng.choice(_IDLE)(rng, story))
        opening = f"{name} has {start} {story.things}."
        meta = {"start": start, "quantity": quantity, "steps": steps + 2 * idle}
        return Draw(" ".join((opening, *sentences, question)), str(gold), meta)

    def grade(self, item: TaskItem, text: str) -> Grade:
        """The number, exactly; one unit or currency sign may stand with it."""
        return grade_math(text, item.gold, self.rule, style="answer")

    def oracle(self, item: TaskItem) -> tuple[str, ...]:
        """The number."""
        return (protocol.answer_turn(item.gold),)

    def careless(self, item: TaskItem, rng: random.Random) -> tuple[str, ...]:
        """Stops reading after the first sentence."""
        del rng
        return (protocol.answer_turn(str(item.meta["start"])),)


def _gain(rng: random.Random, story: _Story, quantity: int) -> _Step:
    count = rng.randint(3, 60)
    verb = rng.choice(("finds", "buys", "is given"))
    return _Step(f"{story.name} {verb} {count} more {story.things}.", quantity + count)


def _lose(rng: random.Random, story: _Story, quantity: int) -> _Step | None:
    if quantity < 6:
        return None
    count = rng.randint(2, min(quantity - 2, 60))
    text = rng.choice((f"gives {count} {story.things} to {story.other}", f"loses {count} {story.things}"))
    return _Step(f"{story.name} {text}.", quantity - count)


def _daily(rng: random.Random, story: _Story, quantity: int) -> _Step:
    days, each = rng.randint(2, 7), rng.randint(2, 12)
    text = f"For {days} days {story.name} collects {each} {story.things} a day."
    return _Step(text, quantity + days * each)


def _boxes(rng: random.Random, story: _Story, quantity: int) -> _Step:
    boxes, each = rng.randint(2, 9), rng.randint(3, 12)
    text = f"{story.other} brings {story.name} {boxes} boxes of {each} {story.things} each."
    return _Step(text, quantity + boxes * each)


def _multiply(rng: random.Random, story: _Story, quantity: int) -> _Step:
    word, factor = rng.choice((("doubles", 2), ("triples", 3)))
    return _Step(f"Then the number of {story.things} {story.name} has {word}.", quantity * factor)


def _share(rng: random.Random, story: _Story, quantity: int) -> _Step | None:
    friends = [n for n in range(2, 10) if quantity % n == 0 and quantity // n > 2]
    if not friends:
        return None
    count = rng.choice(friends)
    text = f"{story.name} packs all {story.things} into {count} equal bags and keeps one bag."
    return _Step(text, quantity // count)


def _percent(rng: random.Random, story: _Story, quantity: int) -> _Step | None:
    fitting = [p for p in (10, 20, 25, 40, 50, 75) if quantity * p % 100 == 0 and quantity * p >= 200]
    if not fitting:
        return None
    percent = rng.choice(fitting)
    text = f"{story.name} sells {percent}% of the {story.things}."
    return _Step(text, quantity - quantity * percent // 100)


def _half(rng: random.Random, story: _Story, quantity: int) -> _Step | None:
    word, over, under = rng.choice((("half", 1, 2), ("a third", 1, 3), ("three quarters", 3, 4)))
    if quantity % under or quantity < 3 * under:
        return None
    return _Step(f"{story.name} uses up {word} of the {story.things}.", quantity - quantity * over // under)


EVENTS: Sequence[Event] = (_gain, _lose, _daily, _boxes, _multiply, _share, _percent, _half)


def _how_many(rng: random.Random, story: _Story, quantity: int) -> tuple[str, int]:
    del rng
    return f"How many {story.things} does {story.name} have now?", quantity


def _dollars(rng: random.Random, story: _Story, quantity: int) -> tuple[str, int]:
    price = rng.randint(2, 9)
    text = f"How many dollars are all the {story.things} {story.name} has now worth at ${price} each?"
    return text, quantity * price


def _together(rng: random.Random, story: _Story, quantity: int) -> tuple[str, int]:
    word, factor = rng.choice((("twice", 2), ("three times", 3)))
    text = f"{story.other} has {word} as many {story.things} as {story.name} has now. How many do they have together?"
    return text, quantity * (factor + 1)


_QUESTIONS = (_how_many, _how_many, _dollars, _together)


def _age(rng: random.Random, story: _Story) -> str:
    return f"{story.other} is {rng.randint(6, 90)} years old."


def _weather(rng: random.Random, story: _Story) -> str:
    del story
    return f"It is {rng.randint(5, 35)} degrees outside."


def _others(rng: random.Random, story: _Story) -> str:
    things = rng.choice([things for things in THINGS if things != story.things])
    return f"{story.other} has {rng.randint(3, 60)} {things} at home."


def _street(rng: random.Random, story: _Story) -> str:
    return f"{story.name} lives at number {rng.randint(2, 150)}."


_IDLE = (_age, _weather, _others, _street)
