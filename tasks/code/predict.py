"""`Code/Predict-v0`: what does this one-line program print?"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tasks import protocol
from tasks.spec import Draw, Grade, TaskItem, TaskSpec
from tasks.verify.literals import equal_literal


@dataclass(frozen=True, slots=True)
class Operation:
    """Source text, its value, and the slip of somebody who reads past it. `{x}` is a list, `k` a digit."""

    source: str
    value: Callable[[list[int], int], Any]
    slip: Callable[[list[int], int], Any]
    keeps_list: bool = False


OPERATIONS: tuple[Operation, ...] = (
    Operation("sorted({x})", lambda x, k: sorted(x), lambda x, k: x, True),
    Operation("{x}[::-1]", lambda x, k: x[::-1], lambda x, k: x, True),
    Operation("{x}[1:]", lambda x, k: x[1:], lambda x, k: x[:-1], True),
    Operation("{x}[:-1]", lambda x, k: x[:-1], lambda x, k: x, True),
    Operation("{x}+[{k}]", lambda x, k: [*x, k], lambda x, k: x, True),
    Operation("[{k}]+{x}", lambda x, k: [k, *x], lambda x, k: [*x, k], True),
    Operation("{x}[0]", lambda x, k: x[0], lambda x, k: x[1]),
    Operation("{x}[1]", lambda x, k: x[1], lambda x, k: x[0]),
    Operation("{x}[-1]", lambda x, k: x[-1], lambda x, k: x[-2]),
    Operation("max({x})", lambda x, k: max(x), lambda x, k: x[0]),
    Operation("min({x})", lambda x, k: min(x), lambda x, k: x[0]),
    Operation("sum({x})", lambda x, k: sum(x), lambda x, k: sum(x[:-1])),
    Operation("len({x})", lambda x, k: len(x), lambda x, k: len(x) - 1),
)
_LIST_OPERATIONS = tuple(op for op in OPERATIONS if op.keeps_list)
_LENGTHS = {1: (2, 3), 2: (2, 4), 3: (3, 4)}


class Predict(TaskSpec):
    """Levels 1 and 2 apply one operation to lists of up to 3 and 4 digits; level 3 nests two."""

    id = "Code/Predict-v0"
    version = "1"
    title = "Predict the output"
    description = "Say what a one-line Python program prints, e.g. x=[3,1,4];print(sorted(x))"
    levels = (1, 2, 3)
    tiers = ("T0", "T0", "T1")
    default_level = 2
    max_answer_chars = 24
    best_constant_cap = 0.1

    def generate(self, rng: random.Random, level: int) -> Draw:
        """Draws the list, its operations and a digit; the gold is computed by the same operations."""
        shortest, longest = _LENGTHS[level]
        x = [rng.randrange(10) for _ in range(rng.randint(shortest, longest))]
        k = rng.randrange(10)
        source, value = "x", x
        if level == 3:
            inner = rng.choice(_LIST_OPERATIONS)
            source, value = inner.source.format(x="x", k=k), inner.value(x, k)
            # a sum binds more loosely than a subscript, so it is bracketed before the outer operation
            source = f"({source})" if "+" in source else source
        number = rng.randrange(len(OPERATIONS))
        outer = OPERATIONS[number]
        source, gold, slip = outer.source.format(x=source, k=k), outer.value(value, k), outer.slip(value, k)
        return Draw(f"x={literal(x)};print({source})", gold, {"slip": literal(slip)})

    def grade(self, item: TaskItem, text: str) -> Grade:
        """Typed comparison of a literal: an expression is malformed, True is not 1."""
        return protocol.grade_answer(
            text, max_chars=self.max_answer_chars, verdict=lambda answer: equal_literal(answer, item.gold)
        )

    def oracle(self, item: TaskItem) -> tuple[str, ...]:
        """The printed value without spaces."""
        return (protocol.answer_turn(literal(item.gold)),)

    def careless(self, item: TaskItem, rng: random.Random) -> tuple[str, ...]:
        """Reads past the outer operation: the list unchanged, a neighbour's index, the first element."""
        del rng
        return (protocol.answer_turn(item.meta["slip"]),)


def literal(value: Any) -> str:
    """Writes a value as Python does, without spaces."""
    return repr(value).replace(" ", "")
