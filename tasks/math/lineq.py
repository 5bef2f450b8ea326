"""`Math/LinEq-v0`: one linear equation in x, solved exactly."""

from __future__ import annotations

import math
import random
from fractions import Fraction
from typing import NamedTuple

from tasks import protocol
from tasks.spec import Draw, Grade, TaskItem, TaskSpec
from tasks.verify.answers import AnswerRule, grade_math


class _Equation(NamedTuple):
    """a·x + b = c·x + d in whole numbers, beside the text it is shown as."""

    text: str
    a: int
    b: int
    c: int
    d: int
    steps: int


class LinEq(TaskSpec):
    """Level 1 is x+b=c, 2 has a factor, 3 x on both sides, 4 fractions as solutions, 5 brackets, 6 fractions
    everywhere."""

    id = "Math/LinEq-v0"
    version = "1"
    title = "Linear equation"
    description = "Solve a linear equation exactly, e.g. 3x+5=20; x=?"
    levels = (1, 2, 3, 4, 5, 6)
    tiers = ("T1", "T1", "T1", "T2", "T2", "T2")
    default_level = 2
    max_answer_chars = 24
    best_constant_cap = 0.05
    rule = AnswerRule(max_chars=max_answer_chars)

    def generate(self, rng: random.Random, level: int) -> Draw:
        """Draws an equation with one solution; at the levels below 4 a whole one from -20 to 20."""
        while True:
            text, a, b, c, d, steps = _WRITERS[level](rng)
            if a == c:
                continue
            solution = Fraction(d - b, a - c)
            if (solution.denominator == 1) == (level <= 3) and solution.denominator < 60:
                break
        meta = {"slip": str(Fraction(d + b, a - c)), "steps": steps}
        return Draw(f"{text}; x=?", str(solution), meta)

    def grade(self, item: TaskItem, text: str) -> Grade:
        """The solution as a number or fraction, exactly; ``x=5`` is as good, ``2x=10`` is not."""
        return grade_math(text, item.gold, self.rule, style="answer")

    def oracle(self, item: TaskItem) -> tuple[str, ...]:
        """The solution in lowest terms."""
        return (protocol.answer_turn(item.gold),)

    def careless(self, item: TaskItem, rng: random.Random) -> tuple[str, ...]:
        """Takes the constant to the other side without changing its sign."""
        del rng
        return (protocol.answer_turn(item.meta["slip"]),)


def _shift(rng: random.Random) -> _Equation:
    x, b = rng.randint(-20, 20), _nonzero(rng, 30)
    return _Equation(f"x{b:+d}={x + b}", 1, b, 0, x + b, 1)


def _factor(rng: random.Random) -> _Equation:
    x, a, b = rng.randint(-20, 20), rng.choice((2, 3, 4, 5, 6, 7, 8, 9, -2, -3, -4, -5)), _nonzero(rng, 30)
    return _Equation(f"{a}x{b:+d}={a * x + b}", a, b, 0, a * x + b, 2)


def _both_sides(rng: random.Random) -> _Equation:
    x, a, c, b = rng.randint(-20, 20), rng.randint(2, 9), _nonzero(rng, 9), _nonzero(rng, 30)
    d = a * x + b - c * x
    return _Equation(f"{a}x{b:+d}={_x(c)}{d:+d}", a, b, c, d, 4)


def _fraction(rng: random.Random) -> _Equation:
    a, b, c, d = rng.randint(2, 9), _nonzero(rng, 30), _nonzero(rng, 9), _nonzero(rng, 30)
    return _Equation(f"{a}x{b:+d}={_x(c)}{d:+d}", a, b, c, d, 5)


def _brackets(rng: random.Random) -> _Equation:
    a, b, c, d = rng.randint(2, 9), _nonzero(rng, 9), _nonzero(rng, 20), _nonzero(rng, 9)
    e, f = rng.randint(2, 9), _nonzero(rng, 9)
    text = f"{a}(x{b:+d}){c:+d}={e}({_x(d)}{f:+d})"
    return _Equation(text, a, a * b + c, e * d, e * f, 8)


def _fractions(rng: random.Random) -> _Equation:
    (a, p), (b, q), (c, r), (d, s) = ((_nonzero(rng, 9), rng.randint(2, 9)) for _ in range(4))
    common = math.lcm(p, q, r, s)
    text = f"{a}/{p}*x{b:+d}/{q}={c}/{r}*x{d:+d}/{s}"
    whole = (a * common // p, b * common // q, c * common // r, d * common // s)
    return _Equation(text, *whole, 10)


_WRITERS = {1: _shift, 2: _factor, 3: _both_sides, 4: _fraction, 5: _brackets, 6: _fractions}


def _nonzero(rng: random.Random, most: int) -> int:
    return rng.choice((-1, 1)) * rng.randint(1, most)


def _x(coefficient: int) -> str:
    return {1: "x", -1: "-x"}.get(coefficient, f"{coefficient}x")
