"""`Math/Countdown-v0`: make a target of given numbers, each used exactly once."""

from __future__ import annotations

import random

from tasks import protocol
from tasks.spec import Draw, Grade, TaskItem, TaskSpec
from tasks.verify.arithmetic import uses_to_make

_TARGETS = range(10, 1000)
_LARGEST = {3: 20, 4: 30, 5: 50, 6: 100}


class Countdown(TaskSpec):
    """The level is how many numbers there are, from three to six. Any right expression counts."""

    id = "Math/Countdown-v0"
    version = "1"
    title = "Countdown"
    description = "Make the target with + - * / of all numbers, e.g. make 46 of 3,7,25"
    levels = (3, 4, 5, 6)
    tiers = ("T1", "T2", "T2", "T3")
    default_level = 3
    max_answer_chars = 80
    best_constant_cap = 0.01

    def generate(self, rng: random.Random, level: int) -> Draw:
        """Joins numbers at random until one is left; whole and positive on the way, the sum of all excluded."""
        while True:
            numbers = [rng.randint(1, _LARGEST[level]) for _ in range(level)]
            target, expression = _joined(rng, numbers)
            # a plain sum is what a solver tries first
            if target in _TARGETS and target != sum(numbers):
                break
        shown = rng.sample(numbers, level)
        meta = {"numbers": shown, "target": target, "steps": level - 1}
        return Draw(f"make {target} of {','.join(map(str, shown))}", expression, meta)

    def split_key(self, draw: Draw) -> str:
        """The order the numbers are shown in makes no other exercise."""
        return f"{sorted(draw.meta['numbers'])}={draw.meta['target']}"

    def grade(self, item: TaskItem, text: str) -> Grade:
        """Exact value, and exactly the given numbers."""
        return protocol.grade_answer(
            text,
            max_chars=self.max_answer_chars,
            verdict=lambda answer: uses_to_make(answer, item.meta["numbers"], item.meta["target"]),
        )

    def oracle(self, item: TaskItem) -> tuple[str, ...]:
        """The expression the target was made by."""
        return (protocol.answer_turn(item.gold),)

    def careless(self, item: TaskItem, rng: random.Random) -> tuple[str, ...]:
        """Adds everything up and hopes."""
        del rng
        return (protocol.answer_turn("+".join(map(str, item.meta["numbers"]))),)


def _joined(rng: random.Random, numbers: list[int]) -> tuple[int, str]:
    parts = [(number, str(number)) for number in numbers]
    while len(parts) > 1:
        rng.shuffle(parts)
        (a, left), (b, right) = parts.pop(), parts.pop()
        if a < b:
            a, left, b, right = b, right, a, left
        # the operators that keep the value whole, above zero, and small enough to come back into range
        fitting = "+" + "-" * (a > b) + "*" * (b > 1 and a * b < 5000) + "/" * (b > 1 and a % b == 0)
        operator = rng.choice(fitting)
        if operator == "+":
            value = a + b
        elif operator == "-":
            value = a - b
        else:
            value = a * b if operator == "*" else a // b
        parts.append((value, f"({left}{operator}{right})"))
    value, expression = parts[0]
    return value, expression[1:-1]
