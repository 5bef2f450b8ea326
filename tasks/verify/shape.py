"""The form of a term, where an exercise asks for one: copying the exercise must not count as solving it."""

from __future__ import annotations

from typing import Literal

from tasks.verify.terms import Call, Number, Power, Product, Quotient, Sum, Term, Value, parts, variables


def has_shape(value: Value, shape: Literal["expanded", "factored"]) -> bool:
    """Says whether a term is a sum of monomials, or a product of factors with letters."""
    if not isinstance(value, Term):
        return False
    return _is_expanded(value) if shape == "expanded" else _is_factored(value)


def _is_expanded(term: Term) -> bool:
    """No product or power has a sum with letters inside, and no two terms are of one kind."""
    monomials = term.terms if isinstance(term, Sum) else (term,)
    kinds = [_kind(monomial) for monomial in monomials]
    return None not in kinds and len(set(kinds)) == len(kinds)


def _kind(term: Term) -> tuple[tuple[str, int], ...] | None:
    """The letters of a monomial with their powers; None where it is no monomial."""
    powers: dict[str, int] = {}
    for factor in _factors(term):
        base, power = factor, 1
        if isinstance(factor, Power):
            match factor.exponent:
                case Number(value) if value.denominator == 1 and value > 0:
                    base, power = factor.base, int(value)
                case _:
                    return None
        names = variables(base)
        if not names and not any(isinstance(part, Sum) for part in parts(base)):
            continue
        if isinstance(base, (Sum, Product, Quotient, Call)) or len(names) != 1:
            return None
        (name,) = names
        powers[name] = powers.get(name, 0) + power
    return tuple(sorted(powers.items()))


def _factors(term: Term) -> list[Term]:
    if isinstance(term, Product):
        return [inner for factor in term.factors for inner in _factors(factor)]
    if isinstance(term, Quotient) and not variables(term.under):
        return [*_factors(term.over), term.under]
    return [term]


def _is_factored(term: Term) -> bool:
    """A product of at least two factors with letters (a power counts as often as it says), each of degree one."""
    count = 0
    for factor in _factors(term):
        base, power = factor, 1
        if isinstance(factor, Power) and isinstance(factor.exponent, Number):
            base, power = factor.base, int(factor.exponent.value)
        if not variables(base):
            continue
        inner = base.terms if isinstance(base, Sum) else (base,)
        kinds = [_kind(part) for part in inner]
        if any(kind is None or sum(p for _, p in kind) > 1 for kind in kinds):
            return False
        count += power
    return count >= 2
