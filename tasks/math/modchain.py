"""`Math/ModChain-v0`: a chain of `level` operations modulo 10, with balanced answers."""

from __future__ import annotations

import random

from tasks import protocol
from tasks.spec import Draw, Grade, TaskItem, TaskSpec
from tasks.verify.numbers import equal_number


class ModChain(TaskSpec):
    """The last step adds or subtracts a uniform digit, which makes the ten answers equally likely."""

    id = "Math/ModChain-v0"
    version = "1"
    title = "Arithmetic chain modulo 10"
    description = "Work out a chain of `level` operations modulo 10, e.g. (7*3+5)%10=?"
    levels = (1, 2, 3, 4, 6, 8)
    tiers = ("T0", "T0", "T1", "T1", "T2", "T2")
    default_level = 2
    max_answer_chars = 4
    best_constant_cap = 0.13

    def generate(self, rng: random.Random, level: int) -> Draw:
        """Draws operands 1..9 (the first 1..19) and operators; the last operand is a digit 0..9."""
        value = rng.randint(1, 19)
        text, product = str(value), value
        total = 0  # value so far = total + product, where product is the open multiplication
        for _ in range(level - 1):
            operator, operand = rng.choice("+-*"), rng.randint(1, 9)
            text += f"{operator}{operand}"
            if operator == "*":
                product *= operand
            else:
                total, product = total + product, operand if operator == "+" else -operand
        head = text
        operator, operand = rng.choice("+-"), rng.randrange(10)
        total += product
        gold = (total + operand if operator == "+" else total - operand) % 10
        return Draw(f"({head}{operator}{operand})%10=?", gold, {"head": total})

    def grade(self, item: TaskItem, text: str) -> Grade:
        """Exact comparison with the residue 0..9."""
        return protocol.grade_answer(
            text, max_chars=self.max_answer_chars, verdict=lambda answer: equal_number(answer, item.gold)
        )

    def oracle(self, item: TaskItem) -> tuple[str, ...]:
        """The residue."""
        return (protocol.answer_turn(str(item.gold)),)

    def careless(self, item: TaskItem, rng: random.Random) -> tuple[str, ...]:
        """Leaves out the last operation."""
        del rng
        return (protocol.answer_turn(str(item.meta["head"] % 10)),)
