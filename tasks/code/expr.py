"""`Code/Expr-v0`: write the expression that explains the examples, judged on other inputs."""

from __future__ import annotations

import random

from tasks import protocol
from tasks.spec import Draw, Grade, TaskItem, TaskSpec
from tasks.verify.expressions import fits

_HIDDEN = (-7, -2, 6, 11, 23, 50)
"""Never shown: a table of the shown pairs, or a curve bent through them, fails here."""


class Expr(TaskSpec):
    """Level 1 is a*x+b, level 2 has a negative slope as well, level 3 is a*x*x+b*x+c."""

    id = "Code/Expr-v0"
    version = "1"
    title = "Write the expression"
    description = "Write an expression in x that gives the examples, e.g. f(1)=5;f(2)=7;f(x)=?"
    levels = (1, 2, 3)
    tiers = ("T0", "T1", "T1")
    default_level = 1
    max_answer_chars = 32
    best_constant_cap = 0.05
    accepts_expressions = True

    def generate(self, rng: random.Random, level: int) -> Draw:
        """Draws whole coefficients, and as many examples as the degree needs to be certain."""
        square = rng.choice((1, 2, 3)) if level == 3 else 0
        slope = rng.randint(1, 12) if level == 1 else rng.choice([a for a in range(-9, 10) if a])
        constant = rng.randint(1, 60) if level == 1 else rng.randint(-20, 20)
        shown = sorted(rng.sample(range(5), 3 if level == 3 else 2))
        values = {x: square * x * x + slope * x + constant for x in (*shown, *_HIDDEN)}
        examples = ";".join(f"f({x})={values[x]}" for x in shown)
        gold = expression((square, slope, constant))
        meta = {"table": [[x, y] for x, y in values.items()], "slip": expression((square, slope, 0))}
        return Draw(f"{examples};f(x)=?", gold, meta)

    def split_key(self, draw: Draw) -> str:
        """One function stays in one split, whichever examples show it."""
        return draw.gold

    def grade(self, item: TaskItem, text: str) -> Grade:
        """Runs the expression on shown and hidden inputs; only + - * and whole numbers are read."""
        table = {x: y for x, y in item.meta["table"]}
        return protocol.grade_answer(
            text, max_chars=self.max_answer_chars, verdict=lambda answer: fits(answer, table)
        )

    def oracle(self, item: TaskItem) -> tuple[str, ...]:
        """The expression the examples were made from."""
        return (protocol.answer_turn(item.gold),)

    def careless(self, item: TaskItem, rng: random.Random) -> tuple[str, ...]:
        """Finds the slope and forgets the constant."""
        del rng
        return (protocol.answer_turn(item.meta["slip"]),)


def expression(coefficients: tuple[int, int, int]) -> str:
    """Writes a polynomial of degree two at most: (0, -3, 5) gives ``-3*x+5``."""
    terms = [
        f"{coefficient:+d}{factor}"
        for coefficient, factor in zip(coefficients, ("*x*x", "*x", ""), strict=True)
        if coefficient
    ]
    return "".join(terms).removeprefix("+") or "0"
