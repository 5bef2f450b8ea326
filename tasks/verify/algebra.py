"""Exact normal forms: every term as a quotient of polynomials over the rationals, within a budget.

Letters are indeterminates; functions, roots and powers with letters in the exponent are opaque atoms named by
their own normal form. Equal forms are always equal terms. Different forms are different terms where no atom
but one of pi and e is opaque (both are transcendental); otherwise the forms decide nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from tasks.verify.budget import MAX_FACTORIAL, Budget, OverBudget, check_power
from tasks.verify.terms import CONSTANTS, Call, Number, Power, Product, Quotient, Sum, Symbol, Term

Monomial = tuple[tuple[str, int], ...]
Polynomial = dict[Monomial, Fraction]
_ONE: Polynomial = {(): Fraction(1)}


@dataclass(frozen=True, slots=True)
class Form:
    """A quotient of polynomials; `opaque` names the atoms that are not plain letters."""

    over: Polynomial
    under: Polynomial
    opaque: frozenset[str] = frozenset()

    @property
    def constant(self) -> Fraction | None:
        """The rational this form is, where it is one."""
        if not self.over:
            return Fraction(0)
        if self.over.keys() == self.under.keys() == {()}:
            return self.over[()] / self.under[()]
        return None


class Undefined(ArithmeticError):
    """The term has no value: a division by zero, 0**0, the factorial of a negative number."""


def form(term: Term, budget: Budget) -> Form:
    """Returns the normal form of a term.

    Raises:
      OverBudget: it would take more work than an honest answer needs.
      Undefined: it has no value anywhere.
    """
    match term:
        case Number(value):
            return _rational(value)
        case Symbol(name):
            opaque = frozenset({name}) if name in CONSTANTS else frozenset()
            return Form({((name, 1),): Fraction(1)}, _ONE, opaque)
        case Sum(terms):
            total = _rational(Fraction(0))
            for part in terms:
                total = _add(total, form(part, budget), budget)
            return total
        case Product(factors):
            total = _rational(Fraction(1))
            for part in factors:
                total = _multiply(total, form(part, budget), budget)
            return total
        case Quotient(a, b):
            return _divide(form(a, budget), form(b, budget), budget)
        case Power(base, exponent):
            return _power(form(base, budget), form(exponent, budget), budget)
        case Call(name, arguments):
            return _call(name, [form(argument, budget) for argument in arguments])


def same(left: Form, right: Form, budget: Budget) -> bool | None:
    """Says whether two forms are one function; None where opaque atoms leave it open."""
    crossed_left = _times(left.over, right.under, budget)
    crossed_right = _times(right.over, left.under, budget)
    if crossed_left == crossed_right:
        return True
    return (
        None if len(left.opaque | right.opaque) > 1 or (left.opaque | right.opaque) - {"pi", "e"} else False
    )


def ratio(left: Form, right: Form, budget: Budget) -> Fraction | None:
    """Returns the rational r with left = r·right, where there is one and right is not zero."""
    a, b = _times(left.over, right.under, budget), _times(right.over, left.under, budget)
    if not b or a.keys() != b.keys():
        return None
    quotients = {a[key] / b[key] for key in a}
    return quotients.pop() if len(quotients) == 1 else None


def _rational(value: Fraction) -> Form:
    return Form({(): value} if value else {}, _ONE)


def _atom(name: str) -> Form:
    return Form({((name, 1),): Fraction(1)}, _ONE, frozenset({name}))


def _add(left: Form, right: Form, budget: Budget) -> Form:
    opaque = left.opaque | right.opaque
    if left.under == right.under:
        return Form(_plus(left.over, right.over), left.under, opaque)
    over = _plus(_times(left.over, right.under, budget), _times(right.over, left.under, budget))
    return Form(over, _times(left.under, right.under, budget), opaque)


def _multiply(left: Form, right: Form, budget: Budget) -> Form:
    over, under = _times(left.over, right.over, budget), _times(left.under, right.under, budget)
    return Form(over, under, left.opaque | right.opaque)


def _divide(left: Form, right: Form, budget: Budget) -> Form:
    if not right.over:
        raise Undefined("a division by zero")
    return _multiply(left, Form(right.under, right.over, right.opaque), budget)


def _power(base: Form, exponent: Form, budget: Budget) -> Form:
    power = exponent.constant
    if power is not None and power.denominator == 1:
        return _integer_power(base, int(power), budget)
    value = base.constant
    if value is not None and power is not None:
        root = _exact_root(value, power)
        if root is not None:
            return _rational(root)
        if value == 0 and power < 0:
            raise Undefined("a division by zero")
    if power is not None:
        # b**(p/q) is the atom b**(1/q) to the p: powers of one root then meet in one form
        atom = _atom(f"({_text(base)})^(1/{power.denominator})")
        return _integer_power(atom, power.numerator, budget)
    return _atom(f"({_text(base)})^({_text(exponent)})")


def _integer_power(base: Form, power: int, budget: Budget) -> Form:
    value = base.constant
    if value is not None:
        if value == 0 and power <= 0:
            raise Undefined("zero to a power that is not positive")
        check_power(max(value.numerator.bit_length(), value.denominator.bit_length()), power)
        return _rational(value**power)
    if power < 0:
        base, power = Form(base.under, base.over, base.opaque), -power
    if len(base.over) == len(base.under) == 1:
        return Form(_monomial_power(base.over, power), _monomial_power(base.under, power), base.opaque)
    if power > 60:
        raise OverBudget("a power of a sum is too large to be expanded")
    total = Form(_ONE, _ONE, base.opaque)
    for _ in range(power):
        total = _multiply(total, base, budget)
    return total


def _monomial_power(poly: Polynomial, power: int) -> Polynomial:
    ((monomial, coefficient),) = poly.items()
    check_power(max(coefficient.numerator.bit_length(), coefficient.denominator.bit_length()), power)
    raised = tuple((name, count * power) for name, count in monomial) if power else ()
    return {raised: coefficient**power}


def _exact_root(value: Fraction, power: Fraction) -> Fraction | None:
    """value**power where that is rational; odd roots of negatives are the real ones."""
    order = power.denominator
    if value < 0 and order % 2 == 0:
        return None
    check_power(max(value.numerator.bit_length(), value.denominator.bit_length()), abs(power.numerator))
    if order > 64:
        return None
    over, under = _whole_root(abs(value.numerator), order), _whole_root(value.denominator, order)
    if over is None or under is None or (over == 0 and power < 0):
        return None
    root = Fraction(over if value >= 0 else -over, under)
    return root**power.numerator


def _whole_root(value: int, order: int) -> int | None:
    if value < 2:
        return value
    low, high = 1, 1 << (value.bit_length() // order + 1)
    while low < high:
        middle = (low + high + 1) // 2
        if middle**order <= value:
            low = middle
        else:
            high = middle - 1
    return low if low**order == value else None


def _call(name: str, arguments: list[Form]) -> Form:
    values = [argument.constant for argument in arguments]
    first = values[0]
    if name == "factorial" and first is not None:
        return _rational(Fraction(math.factorial(_natural(first))))
    if name == "binom" and first is not None and values[1] is not None:
        return _rational(Fraction(math.comb(_natural(first), _natural(values[1]))))
    if name == "abs" and first is not None:
        return _rational(abs(first))
    if first == 0 and name in ("sin", "tan", "sinh", "tanh", "arcsin", "arctan"):
        return _rational(Fraction(0))
    if first == 0 and name in ("cos", "sec", "exp", "cosh"):
        return _rational(Fraction(1))
    if first == 1 and name in ("ln", "log"):
        return _rational(Fraction(0))
    # log without a base is the natural logarithm, as in calculus and in every computer algebra system
    name = "ln" if name == "log" and len(arguments) == 1 else name
    if name == "exp":
        return _atom(f"(1*e^1)^({_text(arguments[0])})")
    return _atom(f"{name}({';'.join(map(_text, arguments))})")


def _natural(value: Fraction) -> int:
    if value.denominator != 1 or value < 0:
        raise Undefined("a factorial of what is no natural number")
    if value > MAX_FACTORIAL:
        raise OverBudget("a factorial is too large to be worked out")
    return int(value)


def _plus(left: Polynomial, right: Polynomial) -> Polynomial:
    total = dict(left)
    for monomial, coefficient in right.items():
        value = total.get(monomial, 0) + coefficient
        if value:
            total[monomial] = Fraction(value)
        else:
            del total[monomial]
    return total


def _times(left: Polynomial, right: Polynomial, budget: Budget) -> Polynomial:
    budget.spend(len(left) * len(right))
    if right == _ONE:
        return left
    if left == _ONE:
        return right
    total: Polynomial = {}
    for a, x in left.items():
        for b, y in right.items():
            monomial = _joined(a, b)
            total[monomial] = total.get(monomial, Fraction(0)) + x * y
    return {monomial: coefficient for monomial, coefficient in total.items() if coefficient}


def _joined(left: Monomial, right: Monomial) -> Monomial:
    powers = dict(left)
    for name, count in right:
        powers[name] = powers.get(name, 0) + count
    return tuple(sorted(powers.items()))


def _text(given: Form) -> str:
    """A name for a form: equal names are equal forms."""
    over, under = _polynomial_text(given.over), _polynomial_text(given.under)
    return over if under == "1" else f"{over}|{under}"


def _polynomial_text(poly: Polynomial) -> str:
    terms = ["*".join([str(c), *(f"{n}^{p}" for n, p in m)]) for m, c in sorted(poly.items())]
    return "+".join(terms) or "0"
