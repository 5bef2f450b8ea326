"""Golds from an independent computation, demonstrators, and the search tool."""

from __future__ import annotations

import contextlib
import io
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tasks
from tasks import splits
from tasks.math.add import sum_without_carry
from tasks.qa import lookup
from tasks.search.index import Bm25Index
from tasks.spec import GradeStatus, TaskItem, ToolCall


def items(task_id: str, level: int, count: int = 150) -> list[TaskItem]:
    return [splits.item(tasks.get(task_id), "train", 1, i, level) for i in range(count)]


@pytest.mark.parametrize("level", tasks.get("add").levels)
def test_sums_are_right_and_addends_have_the_level_of_digits(level: int):
    for item in items("add", level):
        a, b = item.prompt.removesuffix("=?").split("+")
        assert item.gold == int(a) + int(b)
        assert len(a) == len(b) == level


@pytest.mark.parametrize("level", tasks.get("modchain").levels)
def test_chains_are_what_python_computes(level: int):
    for item in items("modchain", level):
        expression = item.prompt.removesuffix("=?")
        assert item.gold == eval(expression)
        assert sum(expression.count(op) for op in "+-*") == level


@pytest.mark.parametrize("level", tasks.get("predict").levels)
def test_programs_print_their_gold(level: int):
    spec = tasks.get("predict")
    for item in items("predict", level):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(item.prompt)
        assert out.getvalue().strip() == str(item.gold)
        assert len(spec.oracle(item)[0]) <= len("<answer></answer>") + 15


def test_default_prompts_and_answers_stay_short():
    for task_id in ("add", "modchain", "predict", "lookup"):
        spec = tasks.get(task_id)
        for item in items(task_id, spec.default_level, 500):
            assert len(item.prompt) <= 48
            assert len(spec.oracle(item)[-1]) <= len("<answer></answer>") + 12


def test_forgetting_the_carry():
    assert sum_without_carry(47, 38) == 75
    assert sum_without_carry(90, 10) == 0
    spec = tasks.get("add")
    item = next(i for i in items("add", 2) if i.meta["a"] % 10 + i.meta["b"] % 10 >= 10)
    grade = spec.grade(item, spec.careless(item, random.Random(0))[0])
    assert grade.status is GradeStatus.WRONG


def test_an_unevaluated_sum_is_no_answer():
    spec = tasks.get("add")
    item = items("add", 2, 1)[0]
    restated = item.prompt.removesuffix("=?")
    assert spec.grade(item, f"<answer>{restated}</answer>").status is GradeStatus.MALFORMED


@pytest.mark.parametrize("task_id", ["add", "modchain", "predict", "expr", "lookup"])
@given(text=st.text(max_size=60))
@settings(max_examples=40, deadline=None)
def test_graders_are_total_and_pay_zero_or_one(task_id: str, text: str):
    spec = tasks.get(task_id)
    item = splits.item(spec, "train", 0, 0)
    for attempt in (text, f"<answer>{text}</answer>"):
        grade = spec.grade(item, attempt)
        assert grade.reward in (0.0, 1.0)
        assert (grade.reward == 1.0) == (grade.status is GradeStatus.CORRECT)


@pytest.mark.parametrize("level", tasks.get("lookup").levels)
def test_the_question_finds_its_fact_first(level: int):
    spec = tasks.get("lookup")
    for item in items("lookup", level, 25):
        reply = spec.tool_reply(item, ToolCall(name="search", argument=item.meta["query"]))
        assert reply.startswith(f"<result>{item.meta['query']} is {item.gold}.")
        assert len(reply) <= lookup.MAX_RESULT_CHARS


def test_an_unknown_word_finds_nothing():
    """Case qa-011."""
    assert Bm25Index(["red fox", "blue owl"]).search("zzzqqq", 3) == ()
    item = items("lookup", 2, 1)[0]
    reply = tasks.get("lookup").tool_reply(item, ToolCall(name="search", argument="zzzqqq"))
    assert reply == "<result>no results</result>"


def test_search_stems_and_keeps_order_on_ties():
    index = Bm25Index(["harbors of Zorva", "Zorva coin", "Zorva flag"])
    assert index.search("harbor", 3) == ("harbors of Zorva",)
    assert index.search("zorva", 3)[1:] == ("Zorva coin", "Zorva flag")
    assert index.search("", 3) == ()


def test_names_are_unique_across_worlds_and_values_are_dealt_evenly():
    names = [name for number in range(lookup.WORLDS) for name in lookup.world(2, number).names]
    assert len(set(names)) == len(names)
    values = [lookup.world(2, 0).values[name, "flag"] for name in lookup.world(2, 0).names]
    assert max(values.count(value) for value in set(values)) <= 2


def test_the_answer_is_not_in_the_question():
    assert all(item.gold not in item.prompt.lower().split() for item in items("lookup", 2))


@pytest.mark.parametrize("level", tasks.get("expr").levels)
def test_expressions_explain_their_examples_and_the_hidden_inputs(level: int):
    for item in items("expr", level):
        for x, y in item.meta["table"]:
            assert eval(item.gold, {"x": x}) == y
        shown = item.prompt.removesuffix(";f(x)=?").split(";")
        assert all(eval(item.gold, {"x": int(e[2])}) == int(e.split("=")[1]) for e in shown)
        assert len(item.prompt) <= 48


def test_a_right_expression_may_be_written_in_any_way_but_not_as_a_table():
    spec = tasks.get("expr")
    item = next(i for i in items("expr", 1) if i.gold.startswith("2*x+"))
    constant = item.gold.removeprefix("2*x+")
    assert spec.grade(item, f"<answer>{constant} + x + x</answer>").reward == 1.0
    (x, y), *_ = item.meta["table"]
    for hack in (f"{y} if x=={x} else 0", f"[{y}][0]", f"{{{x}:{y}}}[x]", "x**2", "f(x)", str(y), "y"):
        assert spec.grade(item, f"<answer>{hack}</answer>").reward == 0.0
