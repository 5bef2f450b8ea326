"""`Math/SymbolicEq-v0`: expand, differentiate, factor, integrate; any equal form of the answer counts."""

from __future__ import annotations

import random
from collections.abc import Sequence

from tasks import protocol
from tasks.spec import Draw, Grade, TaskItem, TaskSpec
from tasks.verify.answers import AnswerRule, grade_math

RULES = {
    "expand": AnswerRule(shape="expanded", max_chars=96),
    "differentiate": AnswerRule(max_chars=96),
    "factor": AnswerRule(shape="factored", max_chars=96),
    "integrate": AnswerRule(constant_apart="x", max_chars=96),
}
"""Expanding and factoring are about form: the exercise itself, copied, would be equal but is not solved."""


class SymbolicEq(TaskSpec):
    """Level 1 expands, 2 differentiates a polynomial, 3 factors, 4 uses the product rule, 5 integrates."""

    id = "Math/SymbolicEq-v0"
    version = "1"
    title = "Symbolic algebra"
    description = "Expand, differentiate, factor or integrate in x, e.g. expand (x+3)(x-5)"
    levels = (1, 2, 3, 4, 5)
    tiers = ("T2", "T2", "T2", "T3", "T3")
    default_level = 1
    max_answer_chars = 96
    best_constant_cap = 0.01
    accepts_expressions = True

    def generate(self, rng: random.Random, level: int) -> Draw:
        """Draws an exercise of the level's kind with small whole coefficients."""
        return _WRITERS[level](rng)

    def grade(self, item: TaskItem, text: str) -> Grade:
        """Equality of functions, and the form the exercise asks for; an antiderivative up to a constant."""
        return grade_math(text, item.gold, RULES[item.meta["kind"]], style="answer")

    def oracle(self, item: TaskItem) -> tuple[str, ...]:
        """The answer as the generator wrote it."""
        return (protocol.answer_turn(item.gold),)

    def careless(self, item: TaskItem, rng: random.Random) -> tuple[str, ...]:
        """Forgets the middle term, the exponent, a sign, the inner derivative, the division."""
        del rng
        return (protocol.answer_turn(item.meta["slip"]),)


def _expand(rng: random.Random) -> Draw:
    a, b, c, d = rng.randint(1, 5), _nonzero(rng, 9), rng.randint(1, 5), _nonzero(rng, 9)
    gold = polynomial((a * c, a * d + b * c, b * d))
    slip = polynomial((a * c, 0, b * d)) if a * d + b * c else polynomial((a * c, a + c, b * d))
    return _draw("expand", f"({polynomial((a, b))})({polynomial((c, d))})", gold, slip, steps=4)


def _differentiate(rng: random.Random) -> Draw:
    coefficients = [_nonzero(rng, 9), *(rng.randint(-9, 9) for _ in range(3)), _nonzero(rng, 9)]
    slip = [*(c * (4 - place) for place, c in enumerate(coefficients[:-1])), 0]
    return _draw("differentiate", polynomial(coefficients), polynomial(_derivative(coefficients)),
                 polynomial(slip), steps=6)  # fmt: skip


def _factor(rng: random.Random) -> Draw:
    a, b, c, d = rng.randint(1, 3), _nonzero(rng, 9), rng.randint(1, 3), _nonzero(rng, 9)
    exercise = polynomial((a * c, a * d + b * c, b * d))
    gold = f"({polynomial((a, b))})({polynomial((c, d))})"
    slip = f"({polynomial((a, -b))})({polynomial((c, d))})"
    return _draw("factor", exercise, gold, slip, steps=8)


def _product_rule(rng: random.Random) -> Draw:
    inner = [_nonzero(rng, 6), rng.randint(-6, 6), _nonzero(rng, 6)]
    k, name = rng.randint(2, 9), rng.choice(("sin", "cos", "exp"))
    p, q = polynomial(inner), polynomial(_derivative(inner))
    other, sign = {"sin": ("cos", ""), "cos": ("sin", "-"), "exp": ("exp", "")}[name]
    gold = f"({q})*{name}({k}x)+({p})*({sign}{k})*{other}({k}x)"
    slip = f"({q})*({sign}{k})*{other}({k}x)"
    return _draw("differentiate", f"({p})*{name}({k}x)", gold, slip, steps=11)


def _integrate(rng: random.Random) -> Draw:
    coefficients = [_nonzero(rng, 9), rng.randint(-9, 9), _nonzero(rng, 9)]
    a, k, name = _nonzero(rng, 9), rng.randint(2, 9), rng.choice(("sin", "cos", "exp"))
    other, sign = {"sin": ("cos", -1), "cos": ("sin", 1), "exp": ("exp", 1)}[name]
    degrees = range(len(coefficients), 0, -1)
    terms = [f"{c:+d}/{n}*x^{n}" for c, n in zip(coefficients, degrees, strict=True) if c]
    gold = "".join(terms).removeprefix("+") + f"{sign * a:+d}/{k}*{other}({k}x)"
    slip = "".join(terms).removeprefix("+") + f"{sign * a:+d}*{other}({k}x)"
    times = {1: "+", -1: "-"}.get(a, f"{a:+d}*")
    return _draw("integrate", f"{polynomial(coefficients)}{times}{name}({k}x)", gold, slip, steps=14)


_WRITERS = {1: _expand, 2: _differentiate, 3: _factor, 4: _product_rule, 5: _integrate}


def polynomial(coefficients: Sequence[int]) -> str:
    """Writes a polynomial in x, highest power first: (1, -2, 0) gives ``x^2-2x``."""
    terms = []
    for power, c in zip(range(len(coefficients) - 1, -1, -1), coefficients, strict=True):
        if c:
            letter = "" if power == 0 else "x" if power == 1 else f"x^{power}"
            size = "" if abs(c) == 1 and letter else str(abs(c))
            terms.append(f"{'-' if c < 0 else '+'}{size}{letter}")
    return "".join(terms).removeprefix("+") or "0"


def _derivative(coefficients: Sequence[int]) -> list[int]:
    degree = len(coefficients) - 1
    return [c * (degree - place) for place, c in enumerate(coefficients[:-1])]


def _draw(kind: str, exercise: str, gold: str, slip: str, *, steps: int) -> Draw:
    return Draw(f"{kind} {exercise}", gold, {"kind": kind, "slip": slip, "steps": steps})


def _nonzero(rng: random.Random, most: int) -> int:
    return rng.choice((-1, 1)) * rng.randint(1, most)
