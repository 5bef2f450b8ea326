"""`Math/Add-v0`: the sum of two whole numbers of `level` digits each."""

from __future__ import annotations

import random

from tasks import protocol
from tasks.spec import Draw, Grade, TaskItem, TaskSpec
from tasks.verify.numbers import equal_number


class Add(TaskSpec):
    """Two addends of equal length; the level is the number of digits."""

    id = "Math/Add-v0"
    version = "1"
    title = "Addition"
    description = "Add two whole numbers of `level` digits, e.g. 47+38=?"
    levels = (1, 2, 3, 4, 6, 8, 12)
    tiers = ("T0", "T0", "T1", "T1", "T1", "T2", "T2")
    default_level = 2
    max_answer_chars = 20
    best_constant_cap = 0.12

    def generate(self, rng: random.Random, level: int) -> Draw:
        """Draws both addends uniformly from the numbers of `level` digits."""
        low, high = (0 if level == 1 else 10 ** (level - 1)), 10**level - 1
        a, b = rng.randint(low, high), rng.randint(low, high)
        return Draw(f"{a}+{b}=?", a + b, {"a": a, "b": b})

    def split_key(self, draw: Draw) -> str:
        """a+b and b+a are one piece of knowledge and stay in one split."""
        a, b = sorted((draw.meta["a"], draw.meta["b"]))
        return f"{a}+{b}"

    def grade(self, item: TaskItem, text: str) -> Grade:
        """Exact integer comparison of a literal; ``47+38`` itself is malformed."""
        return protocol.grade_answer(
            text, max_chars=self.max_answer_chars, verdict=lambda answer: equal_number(answer, item.gold)
        )

    def oracle(self, item: TaskItem) -> tuple[str, ...]:
        """The sum."""
        return (protocol.answer_turn(str(item.gold)),)

    def careless(self, item: TaskItem, rng: random.Random) -> tuple[str, ...]:
        """Adds digit by digit and forgets every carry."""
        del rng
        return (protocol.answer_turn(str(sum_without_carry(item.meta["a"], item.meta["b"]))),)


def sum_without_carry(a: int, b: int) -> int:
    """Adds two numbers digit by digit modulo 10: 47 and 38 give 75."""
    total, place = 0, 1
    while a or b:
        total += (a % 10 + b % 10) % 10 * place
        a, b, place = a // 10, b // 10, place * 10
    return total
