"""`Math/Compare-v0`: the largest of some numbers, or all of them in order."""

from __future__ import annotations

import random
from typing import NamedTuple

from tasks import protocol
from tasks.spec import Draw, Grade, TaskItem, TaskSpec
from tasks.verify.numbers import parse_number


class _Knobs(NamedTuple):
    numbers: int
    digits: int
    sort: bool


KNOBS = {
    1: _Knobs(2, 2, False),
    2: _Knobs(2, 4, False),
    3: _Knobs(3, 4, False),
    4: _Knobs(3, 4, True),
    5: _Knobs(4, 4, True),
    6: _Knobs(5, 5, True),
}
"""More numbers and longer ones; from level 4 on all of them are put in order."""


class Compare(TaskSpec):
    """Levels 1 to 3 ask for the largest number, levels 4 to 6 for all in ascending order."""

    id = "Math/Compare-v0"
    version = "1"
    title = "Compare numbers"
    description = "Give the largest number or put all in order, e.g. max(47,38)=? or sort(9,5,7)=?"
    levels = tuple(KNOBS)
    tiers = ("T0", "T0", "T0", "T1", "T1", "T1")
    default_level = 1
    max_answer_chars = 48
    best_constant_cap = 0.06

    def generate(self, rng: random.Random, level: int) -> Draw:
        """Draws different numbers; with four digits or more they share the first, so that it decides nothing."""
        count, digits, sort = KNOBS[level]
        low, width = 10 ** (digits - 1), 9 * 10 ** (digits - 1)
        if digits > 2:
            low, width = low * rng.randint(1, 9), low
        numbers = rng.sample(range(low, low + width), count)
        gold = sorted(numbers) if sort else max(numbers)
        name = "sort" if sort else "max"
        # comparisons of a plain insertion sort, each of as many digits as there are
        steps = digits * (count * (count - 1) // 2 if sort else count - 1)
        return Draw(f"{name}({','.join(map(str, numbers))})=?", gold, {"numbers": numbers, "steps": steps})

    def split_key(self, draw: Draw) -> str:
        """The same numbers in another order are one piece of knowledge."""
        return ",".join(map(str, sorted(draw.meta["numbers"])))

    def grade(self, item: TaskItem, text: str) -> Grade:
        """Exact comparison of one number, or of every number and its place."""
        return protocol.grade_answer(
            text, max_chars=self.max_answer_chars, verdict=lambda answer: _equal(answer, item.gold)
        )

    def oracle(self, item: TaskItem) -> tuple[str, ...]:
        """The largest, or the sorted list."""
        return (protocol.answer_turn(_written(item.gold)),)

    def careless(self, item: TaskItem, rng: random.Random) -> tuple[str, ...]:
        """Takes the order the wrong way round."""
        del rng
        ordered = sorted(item.meta["numbers"], reverse=True)
        return (protocol.answer_turn(_written(ordered if isinstance(item.gold, list) else ordered[-1])),)


def _written(gold: int | list[int]) -> str:
    return ",".join(map(str, gold)) if isinstance(gold, list) else str(gold)


def _equal(answer: str, gold: int | list[int]) -> bool | None:
    wanted = gold if isinstance(gold, list) else [gold]
    # a comma separates here, so it can't be a thousands separator
    found = [parse_number(part) for part in answer.split(",")]
    return None if None in found else found == wanted
