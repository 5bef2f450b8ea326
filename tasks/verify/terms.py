"""What a mathematical answer can be, as frozen values: terms, and the collections and relations of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class Number:
    """An exact rational, written as a literal."""

    value: Fraction


@dataclass(frozen=True, slots=True)
class Symbol:
    """A letter; ``pi`` and ``e`` are the constants, ``i`` the imaginary unit."""

    name: str


@dataclass(frozen=True, slots=True)
class Sum:
    """Terms added; a subtraction adds a product with -1."""

    terms: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Product:
    """Factors multiplied."""

    factors: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Quotient:
    """A fraction, kept as written."""

    over: Term
    under: Term


@dataclass(frozen=True, slots=True)
class Power:
    """A power; a root of order n is the power 1/n."""

    base: Term
    exponent: Term


@dataclass(frozen=True, slots=True)
class Call:
    """A function of one or two arguments: sin, ln, log (argument, base), abs, factorial, binom …"""

    name: str
    arguments: tuple[Term, ...]


Term = Number | Symbol | Sum | Product | Quotient | Power | Call


@dataclass(frozen=True, slots=True)
class Percent:
    """A literal with a per-cent sign; what it is worth is the rule's to say."""

    value: Fraction


@dataclass(frozen=True, slots=True)
class Ordered:
    """Items in order between two marks: a tuple, an interval, a ratio (marks ``:``)."""

    opening: str
    items: tuple[Value, ...]
    closing: str


@dataclass(frozen=True, slots=True)
class Bag:
    """Items in any order: a set in braces, or several answers separated by commas or "and"."""

    items: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Union:
    """A union of intervals and sets, in any order."""

    items: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Relation:
    """Two sides and one of = != < <=; > and >= are turned round when read."""

    operator: str
    left: Term
    right: Term


Value = Term | Percent | Ordered | Bag | Union | Relation

MINUS_ONE = Number(Fraction(-1))
INFINITY = Symbol("infinity")
CONSTANTS = frozenset({"pi", "e", "i", "infinity"})


def negated(term: Term) -> Term:
    """The term with the other sign; a literal stays a literal."""
    match term:
        case Number(value):
            return Number(-value)
        case Quotient(Number(value), under):
            return Quotient(Number(-value), under)
        case _:
            return Product((MINUS_ONE, term))


def parts(term: Term) -> Iterator[Term]:
    """The term and everything inside it."""
    yield term
    match term:
        case Sum(inner) | Product(inner) | Call(_, inner):
            children = inner
        case Quotient(a, b) | Power(a, b):
            children = (a, b)
        case _:
            children = ()
    for child in children:
        yield from parts(child)


def variables(term: Term) -> frozenset[str]:
    """Names of the letters in a term, constants aside."""
    return frozenset(p.name for p in parts(term) if isinstance(p, Symbol) and p.name not in CONSTANTS)


def is_literal(value: Value) -> bool:
    """True where nothing is left to work out: numbers, fractions of whole numbers, powers of ten as a scale,
    and collections of these."""
    match value:
        case Number() | Percent():
            return True
        case Symbol(name):
            return name == "infinity"
        case Quotient(Number(a), Number(b)):
            return a.denominator == b.denominator == 1
        case Product((Number(), Power(Number(ten), Number(exponent)))):
            return ten == 10 and exponent.denominator == 1
        case Product((Number(minus), Symbol(name))):
            return minus == -1 and name == "infinity"
        case Ordered(_, items, _) | Bag(items) | Union(items):
            return all(map(is_literal, items))
        case _:
            return False
