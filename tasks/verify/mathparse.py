r"""The grammar of answers: a recursive-descent parser that reads the whole text or nothing.

Terms: numbers, letters, + - * / ^ ``!``, juxtaposition, fractions, roots, the functions of `FUNCTIONS`.
Values: a term, per cent, tuples and intervals, sets, unions, ratios, lists ("2, 3 and 4"), one relation.
``symbol = value`` is read as a relation; a chain ``1 = 2 = 3`` is no answer. Operators that leave work to the
reader (sums, integrals, limits, derivatives) are not in the grammar at all.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from typing import TypeVar

from tasks.verify import mathtext
from tasks.verify.mathtext import Token
from tasks.verify.terms import (
    INFINITY,
    Bag,
    Call,
    Number,
    Ordered,
    Percent,
    Power,
    Product,
    Quotient,
    Relation,
    Sum,
    Symbol,
    Term,
    Union,
    Value,
    negated,
)

MAX_DEPTH = 60
_Read = TypeVar("_Read")
# fmt: off
FUNCTIONS = {name: name for name in (
    "sin", "cos", "tan", "cot", "sec", "csc", "exp", "sinh", "cosh", "tanh", "arcsin", "arccos", "arctan",
    "ln", "log", "abs", "sqrt",
)} | {"asin": "arcsin", "acos": "arccos", "atan": "arctan"}
GREEK = frozenset({
    "alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "kappa", "lambda", "mu", "nu", "xi",
    "rho", "sigma", "tau", "phi", "psi", "omega",
})
# fmt: on
_RELATIONS = {"=": "=", "!=": "!=", "<": "<", "<=": "<=", ">": "<", ">=": "<="}
_CLOSERS = {"(": ")", "[": "]", "{": "}", r"\{": r"\}", "|": "|"}
_HALF = Fraction(1, 2)
_MEMBER = re.compile(r"^[A-Za-z]\s*\\in(?![A-Za-z])")


class NotAnAnswer(ValueError):
    """The text is no complete answer of this grammar; the message says where it stops being one."""


def parse(text: str, *, thousands: bool = True) -> Value:
    """Reads a cleaned text.

    Args:
      text: plain form as `mathtext.clean` gives it.
      thousands: whether ``1,234`` outside brackets is one number (else two).
    Raises:
      NotAnAnswer: if anything is left over or missing.
    """
    text = _MEMBER.sub("", text)
    found = mathtext.tokens(mathtext.without_thousands(text) if thousands else text)
    if not found:
        raise NotAnAnswer("empty" if found is not None else "a character of no known meaning")
    parser = _Parser(found)
    try:
        value = parser.value()
    except (
        RecursionError
    ) as error:  # MAX_DEPTH stops nesting first, unless the caller's stack is deep already
        raise NotAnAnswer("nested too deeply") from error
    if parser.here is not None:
        raise NotAnAnswer(f"unexpected {parser.here.text!r}")
    return value


class _Parser:
    def __init__(self, found: list[Token]) -> None:
        self._tokens = found
        self._place = 0
        self._depth = 0
        self._bars = 0  # open |…| of absolute values: inside, a bar can only close

    @property
    def here(self) -> Token | None:
        return self._tokens[self._place] if self._place < len(self._tokens) else None

    def _ahead(self, steps: int = 1) -> str:
        place = self._place + steps
        return self._tokens[place].text if place < len(self._tokens) else ""

    def _at(self, *texts: str) -> bool:
        return self.here is not None and self.here.text in texts

    def _take(self) -> Token:
        token = self.here
        if token is None:
            raise NotAnAnswer("it stops in the middle")
        self._place += 1
        return token

    def _expect(self, text: str) -> None:
        if not self._at(text):
            raise NotAnAnswer(f"{text!r} is missing")
        self._place += 1

    # ---------------------------------------------------------------- values

    def value(self) -> Value:
        """A whole answer: one item, or several in a list."""
        items = [self._item()]
        while self._at(",", ";", "and", "or"):
            # "2, 3, and 4": the comma and the word are one separator
            if self._take().text == "," and self._at("and", "or"):
                self._take()
            items.append(self._item())
        return items[0] if len(items) == 1 else _bag(items)

    def _item(self) -> Value:
        first = self._single()
        if self._at(r"\cup"):
            joined = [first]
            while self._at(r"\cup"):
                self._take()
                joined.append(self._single())
            return Union(tuple(joined))
        return first

    def _single(self) -> Value:
        collection = self._collection()
        if collection is not None:
            return collection
        left = self._sum()
        if self._at("%"):
            self._take()
            return _percent(left)
        if self._at(":"):
            terms: list[Value] = [left]
            while self._at(":"):
                self._take()
                terms.append(self._sum())
            return Ordered(":", tuple(terms), ":")
        if self.here is not None and self.here.text in _RELATIONS:
            return self._relation(left)
        return left

    def _relation(self, left: Term) -> Value:
        sign = self._take().text
        if sign == "=" and isinstance(left, Symbol) and self._opens_collection():
            # "x = {1, 2}" names a set; the letter adds nothing to it
            collection = self._collection()
            if collection is not None:
                return collection
        right = self._sum()
        if sign == "=" and isinstance(left, Symbol) and self._at(","):
            # "n = 2, 3, 4" lists the values of one letter
            items: list[Value] = [right]
            while self._at(","):
                self._take()
                items.append(self._sum())
            return _bag(items)
        if self.here is not None and self.here.text in _RELATIONS:
            raise NotAnAnswer("a chain of relations")
        if sign in (">", ">="):
            left, right = right, left
        return Relation(_RELATIONS[sign], left, right)

    def _opens_collection(self) -> bool:
        return self._at("(", "[", "{", r"\{", r"\emptyset")

    def _collection(self) -> Value | None:
        """A tuple, interval or set; None (and nothing read) where a term in brackets stands here."""
        if self._at(r"\emptyset"):
            self._take()
            return Bag(())
        if not self._opens_collection():
            return None
        opening = self._tokens[self._place].text
        end, commas = self._matching(opening)
        braces = opening in ("{", r"\{")
        if not braces and not commas:
            return None
        after = self._tokens[end + 1].text if end + 1 < len(self._tokens) else ""
        if braces and opening == "{" and not commas and after not in ("", ",", r"\cup"):
            return None  # a LaTeX group such as {x}^2
        self._take()
        items: list[Value] = []
        while self._place < end:
            items.append(self._within(self._item))
            if self._place < end:
                if not self._at(",", ";"):
                    raise NotAnAnswer("items must be separated by commas")
                self._take()
                if self._place >= end:
                    raise NotAnAnswer("an item is missing")
        closing = self._take().text
        if braces:
            return Bag(tuple(items))
        if not items:
            raise NotAnAnswer("empty brackets")
        return Ordered(opening, tuple(items), closing)

    def _matching(self, opening: str) -> tuple[int, bool]:
        """Finds the closing mark of a collection, ``(0,1]`` included, and whether commas stand between."""
        closers = (")", "]") if opening in "([" else (_CLOSERS[opening],)
        depth, commas = 0, False
        for place in range(self._place, len(self._tokens)):
            text = self._tokens[place].text
            if text in ("(", "[", "{", r"\{"):
                depth += 1
            elif text in (")", "]", "}", r"\}"):
                depth -= 1
                if depth == 0:
                    if text not in closers:
                        raise NotAnAnswer("brackets do not match")
                    return place, commas
            elif depth == 1 and text in (",", ";"):
                commas = True
        raise NotAnAnswer("a bracket does not close")

    # ---------------------------------------------------------------- terms

    def _within(self, read: Callable[[], _Read]) -> _Read:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise NotAnAnswer("nested too deeply")
        found = read()
        self._depth -= 1
        return found

    def _sum(self) -> Term:
        terms = [self._within(self._product)]
        while self._at("+", "-"):
            minus = self._take().text == "-"
            term = self._within(self._product)
            terms.append(negated(term) if minus else term)
        return terms[0] if len(terms) == 1 else Sum(tuple(terms))

    def _product(self) -> Term:
        left = self._signed()
        while True:
            if self._at("*"):
                self._take()
                right = self._signed()
                left = _times(left, right)
            elif self._at("/"):
                self._take()
                left = Quotient(left, self._signed())
            elif self._starts_factor():
                left = self._juxtaposed(left)
            else:
                return left

    def _juxtaposed(self, left: Term) -> Term:
        token = self.here
        assert token is not None
        number = isinstance(left, Number)
        right = self._power()
        if number and isinstance(right, Quotient) and _is_whole(left) and _is_fraction(right):
            return _mixed(left, right)
        if isinstance(right, Number):
            # "1 2" or "x2": two numbers side by side, or a digit after a letter, mean nothing certain
            if not (number and _is_whole(left) and _is_whole(right) and token.spaced and self._at("/")):
                raise NotAnAnswer("two numbers side by side")
            self._take()
            under = self._power()
            if not _is_whole(under):
                raise NotAnAnswer("two numbers side by side")
            return _mixed(left, Quotient(right, under))
        return _times(left, right)

    def _signed(self) -> Term:
        minus = False
        if self._at("+", "-"):
            minus = self._take().text == "-"
            if self._at("+", "-"):
                raise NotAnAnswer("two signs in a row")
        term = self._within(self._power)
        return negated(term) if minus else term

    def _power(self) -> Term:
        base = self._postfix()
        if not self._at("^", "**"):
            return base
        self._take()
        exponent = self._exponent()
        return Power(base, exponent)

    def _exponent(self) -> Term:
        if self._at("{"):
            return self._group()
        if self._at("-", "+"):
            minus = self._take().text == "-"
            exponent = self._within(self._power)
            return negated(exponent) if minus else exponent
        return self._within(self._power)

    def _postfix(self) -> Term:
        term = self._primary()
        while self._at("!"):
            self._take()
            term = Call("factorial", (term,))
        return term

    def _starts_factor(self) -> bool:
        token = self.here
        if token is None or token.text in ("and", "or", r"\cup", r"\emptyset", r"\in", r"\}", r"\{"):
            return False
        if token.text == "|":
            return self._bars == 0
        return token.kind in ("number", "word", "command") or token.text in ("(", "{", "[")

    def _primary(self) -> Term:
        token = self._take()
        if token.kind == "number":
            return Number(Fraction(token.text.removesuffix(".")))
        if token.kind == "word":
            return self._word(token.text)
        if token.kind == "command":
            return self._command(token.text[1:])
        if token.text in ("(", "[", "{"):
            inner = self._bracketed(_CLOSERS[token.text])
            return inner
        if token.text == "|" and self._bars == 0:
            self._bars += 1
            inner = self._within(self._sum)
            self._expect("|")
            self._bars -= 1
            return Call("abs", (inner,))
        raise NotAnAnswer(f"unexpected {token.text!r}")

    def _bracketed(self, closing: str) -> Term:
        bars, self._bars = self._bars, 0
        inner = self._within(self._sum)
        self._bars = bars
        self._expect(closing)
        return inner

    def _group(self) -> Term:
        """``{…}``, or the single digit or letter that LaTeX takes without braces."""
        if self._at("{"):
            self._take()
            return self._bracketed("}")
        raise NotAnAnswer("an argument in braces is missing")

    def _word(self, word: str) -> Term:
        if word in FUNCTIONS:
            return self._function(FUNCTIONS[word])
        if word == "pi":
            return Symbol("pi")
        if word in ("inf", "infinity"):
            return INFINITY
        if word in ("and", "or") or len(word) > 2:
            raise NotAnAnswer(f"the word {word!r}")
        letters = tuple(self._subscripted(letter) for letter in word)
        return letters[0] if len(letters) == 1 else Product(letters)

    def _subscripted(self, letter: str) -> Symbol:
        if not self._at("_"):
            return Symbol(letter)
        self._take()
        token = self._take()
        if token.text == "{":
            token = self._take()
            self._expect("}")
        if token.kind not in ("number", "word"):
            raise NotAnAnswer("a subscript is no number or word")
        return Symbol(f"{letter}_{token.text}")

    def _command(self, name: str) -> Term:
        if name == "frac":
            return Quotient(*self._fraction())
        if name == "sqrt":
            return self._root()
        if name == "binom":
            return Call("binom", (self._group(), self._group()))
        if name in FUNCTIONS:
            return self._function(name)
        if name == "pi":
            return Symbol("pi")
        if name == "infty":
            return INFINITY
        if name in GREEK:
            return self._subscripted(name)
        raise NotAnAnswer(f"the command {name!r}")

    def _fraction(self) -> tuple[Term, Term]:
        if self._at("{"):
            over = self._group()
            return over, self._group() if self._at("{") else self._digit()
        # \frac12 is one half: LaTeX takes one digit each
        token = self.here
        if token is not None and token.kind == "number" and len(token.text) == 2 and token.text.isdigit():
            self._take()
            return Number(Fraction(token.text[0])), Number(Fraction(token.text[1]))
        over = self._digit()
        return over, self._group() if self._at("{") else self._digit()

    def _digit(self) -> Term:
        token = self._take()
        if token.kind in ("number", "word") and len(token.text) == 1:
            return Number(Fraction(token.text)) if token.kind == "number" else self._word(token.text)
        raise NotAnAnswer("an argument in braces is missing")

    def _root(self) -> Term:
        order: Term = Number(Fraction(2))
        if self._at("["):
            self._take()
            order = self._bracketed("]")
        radicand = self._group() if self._at("{") else self._digit()
        if isinstance(order, Number) and order.value >= 2 and order.value.denominator == 1:
            return Power(radicand, Number(1 / order.value))
        raise NotAnAnswer("the order of a root is no whole number of 2 or more")

    def _function(self, name: str) -> Term:
        base: Term | None = None
        if name == "log" and self._at("_"):
            self._take()
            base = self._group() if self._at("{") else self._digit()
        exponent: Term | None = None
        if self._at("^"):
            self._take()
            exponent = self._exponent()
            if exponent == Number(Fraction(-1)):
                raise NotAnAnswer("an inverse function written as a power")
        argument = self._argument()
        if name == "sqrt":
            term: Term = Power(argument, Number(_HALF))
        else:
            term = Call(name, (argument,) if base is None else (argument, base))
        return term if exponent is None else Power(term, exponent)

    def _argument(self) -> Term:
        if self._at("(", "{"):
            return self._bracketed(_CLOSERS[self._take().text])
        # "sin 2x" takes the product up to the next sign or function
        factors = [self._within(self._power)]
        while self._starts_factor() and not self._at("(", "[") and not self._starts_function():
            factors.append(self._within(self._power))
        return factors[0] if len(factors) == 1 else Product(tuple(factors))

    def _starts_function(self) -> bool:
        return self.here is not None and self.here.text.removeprefix("\\") in FUNCTIONS


def _times(left: Term, right: Term) -> Term:
    factors = left.factors if isinstance(left, Product) else (left,)
    return Product((*factors, right))


def _is_whole(term: Term) -> bool:
    return isinstance(term, Number) and term.value.denominator == 1


def _is_fraction(term: Quotient) -> bool:
    return _is_whole(term.over) and _is_whole(term.under)


def _mixed(whole: Term, fraction: Quotient) -> Term:
    """``3 1/2`` is three and a half; its fraction must be a proper one."""
    over, under = fraction.over, fraction.under
    assert isinstance(whole, Number) and isinstance(over, Number) and isinstance(under, Number)
    if not 0 < over.value < under.value:
        raise NotAnAnswer("a mixed number with an improper fraction")
    sign = -1 if whole.value < 0 else 1
    return Number(whole.value + sign * over.value / under.value)


def _percent(term: Term) -> Percent:
    match term:
        case Number(value):
            return Percent(value)
        case Quotient(Number(a), Number(b)) if b:
            return Percent(a / b)
        case _:
            raise NotAnAnswer("per cent of what is no number")


def _bag(items: list[Value]) -> Bag:
    """``x = 2, x = 3`` and ``x = 2 or 3`` list the values of one letter."""
    letters = {
        i.left for i in items if isinstance(i, Relation) and i.operator == "=" and isinstance(i.left, Symbol)
    }
    if len(letters) == 1:
        items = [i.right if isinstance(i, Relation) and i.left in letters else i for i in items]
    return Bag(tuple(items))
