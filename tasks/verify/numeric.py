"""Terms evaluated in high precision at seeded points: what normal forms leave open is settled here.

Real arithmetic by `decimal`; the precision grows with the digits and exponents an answer holds, so that no
answer can hide a difference below it.
"""

from __future__ import annotations

import decimal
import random
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction

from tasks.verify.budget import MAX_FACTORIAL
from tasks.verify.terms import Call, Number, Power, Product, Quotient, Sum, Symbol, Term, parts, variables

POINTS = 3
_TRIES = 24
_GUARD = 25  # digits given to rounding and cancellation
_MAX_PRECISION = 600
_MAX_ANGLE = Decimal(10) ** 9


class NoValue(ArithmeticError):
    """The term has no real value at this point, or none within this evaluator's reach."""


def agree(gold: Term, answer: Term, *, seed: int = 0, constant_apart: str | None = None) -> bool | None:
    """Compares two terms at `POINTS` points where the gold has a value.

    Args:
      gold, answer: terms over the same letters.
      seed: of the points.
      constant_apart: a letter; the terms may then differ by what does not depend on it.
    Returns:
      False where they differ at a point, True where they agree at all, None where that can't be told.
    """
    precision = min(_MAX_PRECISION, 60 + _digits(gold) + _digits(answer))
    letters = sorted(variables(gold) | variables(answer))
    rng = random.Random(seed)
    agreed = 0
    with decimal.localcontext(decimal.Context(prec=precision, traps=_TRAPS)):
        for attempt in range(_TRIES):
            point = _point(rng, letters, attempt)
            try:
                wanted = _Evaluation(point).of(gold)
                if constant_apart is not None:
                    wanted -= _Evaluation(point | {constant_apart: Decimal(1)}).of(gold)
            except (NoValue, decimal.DecimalException):
                if not letters:
                    return None
                continue
            verdict = _same_value(wanted, answer, point, constant_apart, precision)
            if not verdict:
                return verdict
            agreed += 1
            if agreed == POINTS or not letters:
                return True
    return None


def _same_value(
    wanted: Decimal, answer: Term, point: Mapping[str, Decimal], constant_apart: str | None, precision: int
) -> bool | None:
    evaluation = _Evaluation(point)
    try:
        found = evaluation.of(answer)
        if constant_apart is not None:
            found -= _Evaluation({**point, constant_apart: Decimal(1)}).of(answer)
    except (NoValue, decimal.Overflow):
        return None
    except decimal.DecimalException:
        return False  # no real value where the gold has one
    difference = abs(wanted - found)
    if difference <= max(abs(wanted), abs(found)).scaleb(_GUARD - precision):
        return True
    # a difference as small as rounding may leave of the largest value met says nothing
    return None if difference <= evaluation.largest.scaleb(_GUARD - precision) else False


def _digits(term: Term) -> int:
    """Digits written in a term and the sizes of its whole exponents: what its value may need to be told."""
    count = 0
    for part in parts(term):
        if isinstance(part, Number):
            count += len(str(part.value))
        elif isinstance(part, Power) and isinstance(part.exponent, Number):
            count += int(min(abs(part.exponent.value), _MAX_PRECISION))
    return count


def _point(rng: random.Random, letters: list[str], attempt: int) -> dict[str, Decimal]:
    """Values between 1/8 and 3, all negative and all positive in turn, then mixed: |x| is not x."""
    values = {}
    for letter in letters:
        size = Decimal(rng.randint(125, 3000)) / 1000
        sign = (-1, 1)[attempt % 2] if attempt < 4 else rng.choice((-1, 1))
        values[letter] = size * sign
    return values


_TRAPS = [decimal.InvalidOperation, decimal.DivisionByZero, decimal.Overflow]


class _Evaluation:
    """One evaluation at one point; `largest` is the largest value met on the way."""

    def __init__(self, point: Mapping[str, Decimal]) -> None:
        self._point = point
        self.largest = Decimal(0)

    def of(self, term: Term) -> Decimal:
        value = self._value(term)
        self.largest = max(self.largest, abs(value))
        return value

    def _value(self, term: Term) -> Decimal:
        match term:
            case Number(value):
                return _decimal(value)
            case Symbol(name):
                return self._symbol(name)
            case Sum(terms):
                return sum((self.of(part) for part in terms), Decimal(0))
            case Product(factors):
                total = Decimal(1)
                for part in factors:
                    total *= self.of(part)
                return total
            case Quotient(a, b):
                return self.of(a) / self.of(b)
            case Power(base, exponent):
                return self._power(base, exponent)
            case Call(name, arguments):
                return self._call(name, [self.of(argument) for argument in arguments])

    def _symbol(self, name: str) -> Decimal:
        if name == "pi":
            return _pi()
        if name == "e":
            return Decimal(1).exp()
        if name not in self._point:
            raise NoValue(f"{name} is not real")
        return self._point[name]

    def _power(self, base: Term, exponent: Term) -> Decimal:
        value = self.of(base)
        if isinstance(exponent, Number):
            order = exponent.value.denominator
            if order == 2:
                return value.sqrt() ** exponent.value.numerator
            if value < 0 and order % 2:
                # the real root, as \sqrt[3]{-8} = -2
                root = -((-value) ** (Decimal(1) / order)) if order > 1 else value
                return root**exponent.value.numerator
        return value ** self.of(exponent)

    def _call(self, name: str, values: list[Decimal]) -> Decimal:
        x = values[0]
        if name in ("ln", "log"):
            return x.ln() / values[1].ln() if len(values) == 2 else x.ln()
        if name == "factorial":
            if x != x.to_integral_value() or not 0 <= x <= MAX_FACTORIAL:
                raise NoValue("no natural number")
            total = Decimal(1)
            for factor in range(2, int(x) + 1):
                total *= factor
            return total
        if name not in _FUNCTIONS:
            raise NoValue(f"{name} is not evaluated here")
        return _FUNCTIONS[name](x)


def _decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / Decimal(value.denominator)


def _pi() -> Decimal:
    """Machin: pi/4 = 4 arctan 1/5 - arctan 1/239."""
    return 4 * (4 * _arctan_series(Decimal(1) / 5) - _arctan_series(Decimal(1) / 239))


def _arctan_series(x: Decimal) -> Decimal:
    total, power, n = Decimal(0), x, 1
    limit = Decimal(10) ** -(decimal.getcontext().prec + 5)
    while abs(power) > limit:
        total += power / n if n % 4 == 1 else -power / n
        power, n = power * x * x, n + 2
    return total


def _arctan(x: Decimal) -> Decimal:
    if abs(x) > 10**6:
        raise NoValue("an argument of arctan is too large")
    halvings = 0
    while abs(x) > Decimal("0.1"):
        x, halvings = x / (1 + (1 + x * x).sqrt()), halvings + 1
    return _arctan_series(x) * 2**halvings


def _arcsin(x: Decimal) -> Decimal:
    if abs(x) == 1:
        return x * _pi() / 2
    return _arctan(x / (1 - x * x).sqrt())


def _sin(x: Decimal) -> Decimal:
    if abs(x) > _MAX_ANGLE:
        raise NoValue("an angle is too large")
    turn = 2 * _pi()
    x -= (x / turn).to_integral_value() * turn
    total, term, n = x, x, 1
    limit = Decimal(10) ** -(decimal.getcontext().prec + 5)
    while abs(term) > limit:
        term *= -x * x / ((n + 1) * (n + 2))
        total, n = total + term, n + 2
    return total


def _cos(x: Decimal) -> Decimal:
    return _sin(x + _pi() / 2)


_FUNCTIONS = {
    "sin": _sin,
    "cos": _cos,
    "tan": lambda x: _sin(x) / _cos(x),
    "cot": lambda x: _cos(x) / _sin(x),
    "sec": lambda x: 1 / _cos(x),
    "csc": lambda x: 1 / _sin(x),
    "exp": lambda x: x.exp(),
    "sinh": lambda x: (x.exp() - (-x).exp()) / 2,
    "cosh": lambda x: (x.exp() + (-x).exp()) / 2,
    "tanh": lambda x: 1 - 2 / ((2 * x).exp() + 1),
    "arcsin": _arcsin,
    "arccos": lambda x: _pi() / 2 - _arcsin(x),
    "arctan": _arctan,
    "abs": abs,
}
