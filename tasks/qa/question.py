"""What the question-answering tasks share: two tools over a library, and the grading of short answers."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from tasks import protocol
from tasks.search.library import Library
from tasks.spec import Grade, GradeStatus, TaskItem, TaskSpec, ToolCall
from tasks.verify.qa import equal_quantity, exact_match, token_f1

TOP_K = 3
MAX_RESULT_CHARS = 1600
NOTHING = "no results"


class QuestionTask(TaskSpec):
    """Items hold ``gold``: aliases, or a quantity, its units and tolerance; see `text_gold`, `number_gold`."""

    max_answer_chars = 64
    tools = ("search", "open")
    tool_help = {  # noqa: RUF012 a read-only mapping
        "search": f"the {TOP_K} passages that fit your words best",
        "open": "a document by its title, or one field of it as 'title | field'",
    }

    @abc.abstractmethod
    def library(self, item: TaskItem) -> Library:
        """Returns the library of the item's world."""

    def grade(self, item: TaskItem, text: str) -> Grade:
        """Exact match over aliases, or an equal quantity; the detail tells the F1, which pays nothing."""
        gold = item.gold
        grade = protocol.grade_answer(
            text, max_chars=self.max_answer_chars, verdict=lambda answer: _right(answer, gold)
        )
        if grade.status is GradeStatus.WRONG and "aliases" in gold:
            return dataclasses.replace(
                grade, detail=f"f1 {token_f1(grade.answer or '', gold['aliases']):.2f}"
            )
        return grade

    def tool_reply(self, item: TaskItem, call: ToolCall) -> str:
        """Passages of the item's library, or a document of it."""
        library = self.library(item)
        if call.name == "open":
            text = library.open(call.argument) or "no such document"
        else:
            text = "\n".join(library.search(call.argument, TOP_K)) or NOTHING
        return protocol.result_turn(text, max_chars=MAX_RESULT_CHARS)

    def oracle(self, item: TaskItem) -> tuple[str, ...]:
        """Searches once a hop, then answers."""
        return (*map(protocol.search_turn, item.meta["queries"]), protocol.answer_turn(written(item.gold)))


def text_gold(aliases: Sequence[str]) -> dict[str, Any]:
    """A gold that is a text; the first alias is the answer as a person would write it."""
    return {"aliases": list(aliases)}


def number_gold(value: Fraction, units: Sequence[str], rel_tol: float = 0.0) -> dict[str, Any]:
    """A gold that is a quantity in the first of the units."""
    return {"value": str(value), "units": list(units), "rel_tol": rel_tol}


def written(gold: dict[str, Any]) -> str:
    """The gold as an answer."""
    if "aliases" in gold:
        return gold["aliases"][0]
    value = Fraction(gold["value"])
    number = str(value) if value.denominator == 1 else str(float(value))
    return " ".join([number, *gold["units"][:1]])


def _right(answer: str, gold: dict[str, Any]) -> bool | None:
    if "aliases" in gold:
        return exact_match(answer, gold["aliases"])
    return equal_quantity(answer, Fraction(gold["value"]), units=gold["units"], rel_tol=gold["rel_tol"])
