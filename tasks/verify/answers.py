r"""The strict typed verifier of mathematical answers.

Four stages: the protocol finds one answer text; it is read whole into a typed value (`mathparse`); values are
compared by type, rationals exactly (`algebra`); only what normal forms leave open is evaluated at seeded
points (`numeric`), and what even that leaves open goes to sympy in a killable process. A pure function of its
arguments up to that last stage, and callable from any thread.

Rules, all of them declared: where the gold is a literal the answer must be one too, so restating the exercise
earns nothing; a per-cent answer has one worth, set by `AnswerRule.percent`; lists and sets need exactly the
gold's items, in any order; tuples and intervals need their order and their brackets.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal, NamedTuple

from tasks import protocol
from tasks.spec import Grade, GradeStatus
from tasks.verify import algebra, mathparse, mathtext, numeric
from tasks.verify.boxed import final_part, read_boxed
from tasks.verify.budget import Budget, OverBudget
from tasks.verify.numbers import final_line_answer
from tasks.verify.shape import has_shape
from tasks.verify.terms import (
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
    is_literal,
    variables,
)
from tasks.verify.worker import WorkerFailure, WorkerPool, WorkerTimeout

_PLAIN = re.compile(r"[+-]?[0-9]{1,60}")
POOL = WorkerPool(Path(__file__).with_name("external.py"))
"""Processes with sympy and math-verify, shared by all threads; none is started before it is needed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerRule:
    """What a row of a task declares about its answer."""

    percent: Literal["hundredths", "points"] = "hundredths"
    """What 50% is worth: 0.5, or 50. Never both."""
    rel_tol: Fraction = Fraction(0)
    """Largest relative error of a number; 0 is exact."""
    shape: Literal["any", "expanded", "factored"] = "any"
    """The form a term must have, where the exercise asks for one."""
    constant_apart: str | None = None
    """A letter: terms may differ by what does not depend on it (antiderivatives)."""
    max_chars: int = 256
    timeout_s: float = 2.0
    """Limit of the last stage."""


class Verdict(NamedTuple):
    """The status of one answer, and why."""

    status: GradeStatus
    detail: str = ""


class GoldError(ValueError):
    """The gold itself is no answer of the grammar: a fault of the data, never of the policy."""


def grade_math(
    text: str,
    gold: str,
    rule: AnswerRule | None = None,
    *,
    style: Literal["boxed", "answer", "line"] = "boxed",
) -> Grade:
    r"""Grades a policy's last turn.

    Args:
      text: the turn.
      gold: the right answer, in plain or LaTeX spelling.
      rule: what the row declares; None is the default rule.
      style: ``\boxed{…}`` (the last box counts), ``<answer>…</answer>`` (exactly one), or the first ``#### …`` line.
    """
    rule = rule or AnswerRule()
    read = _READERS[style](text, rule.max_chars)
    if read.text is None:
        assert read.status is not None
        return Grade(reward=0.0, status=read.status, detail=read.detail)
    verdict = verify(read.text, gold, rule)
    detail = "; ".join(filter(None, (read.detail, verdict.detail)))
    reward = 1.0 if verdict.status is GradeStatus.CORRECT else 0.0
    return Grade(reward=reward, status=verdict.status, detail=detail, answer=read.text)


def verify(answer: str, gold: str, rule: AnswerRule | None = None) -> Verdict:
    """Compares an answer's text with the gold; the order of the two arguments is fixed."""
    rule = rule or AnswerRule()
    try:
        wanted = read_gold(gold)
    except GoldError as error:
        return Verdict(GradeStatus.GRADER_ERROR, str(error))
    if isinstance(wanted.value, Number) and _PLAIN.fullmatch(answer):
        # most answers by far are whole numbers: they need no grammar
        return _decided(_close(Fraction(int(answer)), wanted.value.value, rule))
    cleaned = mathtext.clean(answer, units=not wanted.letters)
    if cleaned is None:
        return Verdict(GradeStatus.MALFORMED, "too long, or a character of no known meaning")
    if cleaned.unit and wanted.unit and cleaned.unit != wanted.unit:
        return Verdict(GradeStatus.WRONG, f"{cleaned.unit} instead of {wanted.unit}")
    try:
        return _compare(wanted, _read_answer(cleaned.text, wanted), rule)
    except mathparse.NotAnAnswer as error:
        return Verdict(GradeStatus.MALFORMED, f"not an answer: {error}")
    except algebra.Undefined as error:
        return Verdict(GradeStatus.MALFORMED, f"it has no value: {error}")
    except OverBudget as error:
        return Verdict(GradeStatus.GRADER_TIMEOUT, f"timeout: {error}")


class Gold(NamedTuple):
    """A gold as read: its value, its letters, its unit."""

    value: Value
    letters: frozenset[str]
    unit: str | None


@functools.lru_cache(maxsize=8192)
def read_gold(gold: str) -> Gold:
    """Reads a gold; raises `GoldError` where it is no answer of the grammar."""
    for units in (True, False):
        cleaned = mathtext.clean(gold, units=units)
        if cleaned is None:
            break
        try:
            value = mathparse.parse(cleaned.text)
        except mathparse.NotAnAnswer as error:
            raise GoldError(f"the gold {gold[:80]!r} is unusable: {error}") from error
        letters = _letters(value)
        # a letter at the end of a gold with letters is one of them, not a unit
        if not letters or not units:
            return Gold(value, letters, cleaned.unit)
    raise GoldError(f"the gold {gold[:80]!r} is unusable: too long, or a character of no known meaning")


def _read_answer(text: str, wanted: Gold) -> Value:
    """Reads ``1,234`` as one number, or as two where the gold has as many items as that gives."""
    value = mathparse.parse(text)
    if isinstance(wanted.value, Bag) and not (
        isinstance(value, Bag) and len(value.items) == len(wanted.value.items)
    ):
        return mathparse.parse(text, thousands=False)
    return value


def _compare(wanted: Gold, answer: Value, rule: AnswerRule) -> Verdict:
    gold = wanted.value
    # x = 5 and 5 are one answer; 2x = 10 is not, and neither is y = 5
    gold_letter, gold_right = _definition(gold)
    letter, right = _definition(answer)
    if isinstance(answer, Relation):
        if not _letters(answer):
            return Verdict(GradeStatus.MALFORMED, "a relation between numbers")
        if gold_right is not None and is_literal(gold_right) and letter != gold_letter:
            return Verdict(GradeStatus.WRONG, f"it says nothing of {gold_letter}")
        if right is not None and not isinstance(gold, Relation) and letter not in wanted.letters:
            answer = right
    if gold_right is not None and (letter == gold_letter or not isinstance(answer, Relation)):
        gold, answer = gold_right, answer if right is None else right
    if is_literal(gold) and not is_literal(answer):
        return Verdict(GradeStatus.MALFORMED, "not worked out to a literal")
    if rule.shape != "any" and not has_shape(answer, rule.shape):
        return Verdict(GradeStatus.WRONG, f"not {rule.shape}")
    try:
        return _decided(_Comparison(rule).same(gold, answer))
    except _Undecided as open_question:
        return _by_sympy(open_question.gold, open_question.answer, rule)


def _definition(value: Value) -> tuple[str | None, Term | None]:
    match value:
        case Relation("=", Symbol(name), right) if name not in variables(right):
            return name, right
        case _:
            return None, None


class _Undecided(Exception):
    def __init__(self, gold: Term, answer: Term) -> None:
        super().__init__()
        self.gold, self.answer = gold, answer


class _Comparison:
    """One comparison with one budget."""

    def __init__(self, rule: AnswerRule) -> None:
        self._rule = rule
        self._budget = Budget()

    def same(self, gold: Value, answer: Value) -> bool:
        gold, answer = self._worth(gold), self._worth(answer)
        match gold, answer:
            case (Ordered(":", wanted, _), Ordered(":", found, _)):
                return self._proportional(wanted, found)
            case (Ordered(a, wanted, b), Ordered(c, found, d)):
                return (a, b, len(wanted)) == (c, d, len(found)) and all(map(self.same, wanted, found))
            case (Bag(wanted), Bag(found)) | (Union(wanted), Union(found)):
                return self._same_items(wanted, found)
            case (Relation(), Relation()):
                return self._same_relation(gold, answer)
        collections = (Ordered, Bag, Union, Relation)
        if isinstance(gold, collections) or isinstance(answer, collections):
            return False
        assert not isinstance(gold, Percent) and not isinstance(answer, Percent)
        return self.same_term(gold, answer)

    def same_term(self, gold: Term, answer: Term) -> bool:
        if isinstance(gold, Number) and isinstance(answer, Number):
            return _close(answer.value, gold.value, self._rule)
        try:
            decided = self._by_form(gold, answer)
        except OverBudget:
            # too much to expand, yet perhaps quick to evaluate; numbers that are too large stay refused
            if not _letters(gold) or not _letters(answer):
                raise
            decided = None
        if decided is None:
            decided = numeric.agree(gold, answer, constant_apart=self._rule.constant_apart)
        if decided is None:
            raise _Undecided(gold, answer)
        return decided

    def _by_form(self, gold: Term, answer: Term) -> bool | None:
        wanted, found = algebra.form(gold, self._budget), algebra.form(answer, self._budget)
        a, b = wanted.constant, found.constant
        if a is not None and b is not None and self._rule.constant_apart is None:
            return _close(b, a, self._rule)
        if "infinity" in wanted.opaque | found.opaque:
            return algebra.same(wanted, found, self._budget) is True
        verdict = algebra.same(wanted, found, self._budget)
        return None if verdict is False and self._rule.constant_apart is not None else verdict

    def _worth(self, value: Value) -> Value:
        if isinstance(value, Percent):
            return Number(value.value / 100 if self._rule.percent == "hundredths" else value.value)
        return value

    def _same_items(self, wanted: tuple[Value, ...], found: tuple[Value, ...]) -> bool:
        if len(wanted) != len(found):
            return False
        left = list(found)
        for item in wanted:
            place = next((i for i, other in enumerate(left) if self.same(item, other)), None)
            if place is None:
                return False
            left.pop(place)
        return True

    def _proportional(self, wanted: tuple[Value, ...], found: tuple[Value, ...]) -> bool:
        if len(wanted) != len(found):
            return False
        ratios = set()
        for a, b in zip(wanted, found, strict=True):
            assert isinstance(a, Term) and isinstance(b, Term)
            over, under = algebra.form(a, self._budget), algebra.form(b, self._budget)
            ratios.add(algebra.ratio(over, under, self._budget))
        return None not in ratios and len(ratios) == 1

    def _same_relation(self, gold: Relation, answer: Relation) -> bool:
        """Equations are one up to a factor that is not zero, inequalities up to a positive one."""
        if gold.operator != answer.operator:
            return False
        wanted, found = (
            algebra.form(Sum((side.left, Product((Number(Fraction(-1)), side.right)))), self._budget)
            for side in (gold, answer)
        )
        factor = algebra.ratio(wanted, found, self._budget)
        return factor is not None and (factor > 0 or (factor != 0 and gold.operator in ("=", "!=")))


def _by_sympy(gold: Term, answer: Term, rule: AnswerRule) -> Verdict:
    if rule.constant_apart is not None:
        return Verdict(GradeStatus.GRADER_ERROR, "undecided: no point where both have a value")
    request = {"kind": "sympy", "arguments": [tree(gold), tree(answer)]}
    try:
        same = POOL.call(request, timeout_s=rule.timeout_s)
    except WorkerTimeout as timeout:
        return Verdict(GradeStatus.GRADER_TIMEOUT, f"timeout: {timeout}")
    except WorkerFailure as failure:
        return Verdict(GradeStatus.GRADER_ERROR, f"undecided; sympy, the last resort: {failure}")
    if same is None:
        return Verdict(GradeStatus.GRADER_ERROR, "undecided, by sympy too")
    return _decided(bool(same))


def tree(term: Term) -> list[Any]:
    """A term as nested lists, for `external.build`."""
    match term:
        case Number(value):
            return ["number", str(value.numerator), str(value.denominator)]
        case Symbol(name):
            return ["symbol", name]
        case Sum(terms):
            return ["sum", *map(tree, terms)]
        case Product(factors):
            return ["product", *map(tree, factors)]
        case Quotient(a, b):
            return ["quotient", tree(a), tree(b)]
        case Power(a, b):
            return ["power", tree(a), tree(b)]
        case Call(name, arguments):
            return ["call", name, *map(tree, arguments)]


def _close(found: Fraction, wanted: Fraction, rule: AnswerRule) -> bool:
    return found == wanted or abs(found - wanted) <= rule.rel_tol * abs(wanted)


def _decided(right: bool) -> Verdict:
    return Verdict(GradeStatus.CORRECT if right else GradeStatus.WRONG)


def _letters(value: Value) -> frozenset[str]:
    match value:
        case Ordered(_, items, _) | Bag(items) | Union(items):
            return frozenset().union(*map(_letters, items))
        case Relation(_, left, right):
            return variables(left) | variables(right)
        case Percent():
            return frozenset()
        case _:
            return variables(value)


def _read_tag(text: str, max_chars: int) -> protocol.Answer:
    return protocol.read_answer(final_part(text), max_chars=max_chars)


def _read_line(text: str, max_chars: int) -> protocol.Answer:
    line = final_line_answer(final_part(text))
    if line is None:
        return protocol.Answer(text=None, status=GradeStatus.NO_ANSWER, detail="no #### line")
    return protocol.read_answer(protocol.answer_turn(line), max_chars=max_chars)


def _read_box(text: str, max_chars: int) -> protocol.Answer:
    return read_boxed(text, max_chars=max_chars)


_READERS = {"boxed": _read_box, "answer": _read_tag, "line": _read_line}
