from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks import protocol
from tasks.protocol import BadCall, read_answer, read_call
from tasks.spec import GradeStatus, ToolCall

TEXTS_WITH_MARKS = st.lists(st.sampled_from([*protocol.MARKS, "4", "x", " ", "\n", "{"]), max_size=12).map(
    "".join
)


def test_one_complete_answer_is_read_and_stripped():
    assert read_answer("so <answer> 42 </answer>", max_chars=8).text == "42"


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("", GradeStatus.NO_ANSWER),
        ("I stop here", GradeStatus.NO_ANSWER),
        ("<answer>4", GradeStatus.MALFORMED),
        ("4</answer>", GradeStatus.MALFORMED),
        ("<answer></answer>", GradeStatus.MALFORMED),
        ("<answer><answer>4</answer></answer>", GradeStatus.MALFORMED),
        ("<answer>123456789</answer>", GradeStatus.MALFORMED),
        ("<answer>4</answer><answer>5</answer>", GradeStatus.MULTIPLE),
        ("<answer>4</answer> no, <answer>4</answer>", GradeStatus.MULTIPLE),
    ],
)
def test_anything_else_is_a_status_and_never_a_guess(text: str, status: GradeStatus):
    read = read_answer(text, max_chars=8)
    assert (read.text, read.status) == (None, status)


@given(TEXTS_WITH_MARKS)
def test_reading_never_raises_and_gives_a_text_or_a_status(text: str):
    read = read_answer(text, max_chars=8)
    assert (read.text is None) != (read.status is None)
    call = read_call(text, tools=("search",))
    assert call is None or isinstance(call, ToolCall | BadCall)


@given(TEXTS_WITH_MARKS)
def test_tool_output_holds_no_mark_but_its_own(text: str):
    inner = protocol.result_turn(text)[len(protocol.RESULT_OPEN) : -len(protocol.RESULT_CLOSE)]
    assert not any(mark in inner for mark in protocol.MARKS)


def test_long_tool_output_is_cut_with_a_sign_and_keeps_its_marks():
    cut = protocol.result_turn("a" * 200, max_chars=100)
    assert len(cut) == 100
    assert cut.endswith("…</result>")


def test_a_call_is_read_from_tags_or_from_json():
    assert read_call("<search>Zorva flag</search>", tools=("search",)) == ToolCall(
        name="search", argument="Zorva flag"
    )
    text = json.dumps({"name": "search", "arguments": {"query": "Zorva flag"}})
    assert read_call(text, tools=("search",)) == ToolCall(name="search", argument="Zorva flag")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("<search>a</search><search>b</search>", "one call a turn"),
        ("<search>a", "one call a turn"),
        ("</search>a<search>", "one call a turn"),
        ("<search> </search>", "empty query"),
        (f"<search>{'a' * 300}</search>", "query too long"),
        ('{"name": "search"', "bad JSON"),
        ('{"name": "search", "arguments": "q"}', "a call needs name and arguments"),
        ('{"name": "search", "arguments": {"q": "x"}}', "arguments must be one text, query"),
        ('{"name": "rm", "arguments": {"query": "x"}}', "no such tool"),
    ],
)
def test_a_call_that_cannot_run_says_why(text: str, reason: str):
    assert read_call(text, tools=("search",)) == BadCall(reason=reason)


def test_deeply_nested_json_is_bad_json_and_no_crash():
    assert read_call('{"a":' + "[" * 100_000, tools=("search",)) == BadCall(reason="bad JSON")
