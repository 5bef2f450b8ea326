from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tasks
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
        ('{"name": "search", "arguments": {"q": "x", "k": "3"}}', "arguments must be one text"),
        ('{"name": "search", "arguments": {"q": 3}}', "arguments must be one text"),
        ('{"name": "search", "arguments": {}}', "arguments must be one text"),
        ('{"name": "rm", "arguments": {"query": "x"}}', "no such tool"),
    ],
)
def test_a_call_that_cannot_run_says_why(text: str, reason: str):
    assert read_call(text, tools=("search",)) == BadCall(reason=reason)


def test_deeply_nested_json_is_bad_json_and_no_crash():
    assert read_call('{"a":' + "[" * 100_000, tools=("search",)) == BadCall(reason="bad JSON")


def test_every_tool_has_its_own_marks_and_limit():
    tools = ("search", "open")
    assert read_call("see <open>d7</open>", tools=tools) == ToolCall(name="open", argument="d7")
    assert read_call("<open>d7</open><search>x</search>", tools=tools) == BadCall(reason="one call a turn")
    assert read_call("<python>1</python>", tools=tools) is None
    assert isinstance(read_call(f"<open>{'a' * 300}</open>", tools=tools, max_chars=300), ToolCall)


def test_a_task_without_tools_says_so():
    assert read_call("<search>x</search>", tools=()) == BadCall(reason="no such tool")


@pytest.mark.parametrize("task_id", list(tasks.specs()))
def test_the_instructions_say_what_the_parser_reads(task_id: str):
    spoken = protocol.Protocol.of(tasks.get(task_id))
    text = spoken.instructions()
    assert f"at most {spoken.max_answer_chars} characters" in text
    assert spoken.read_answer("<answer>" + "a" * spoken.max_answer_chars + "</answer>").status is None
    for name in spoken.tools:
        assert (f"<{name}>text</{name}>" in text) == bool(spoken.max_tool_calls)
        assert spoken.read_call(f"<{name}>text</{name}>") == ToolCall(name=name, argument="text")
        as_json = json.dumps({"name": name, "arguments": {"text": "a"}})
        assert spoken.read_call(as_json) == ToolCall(name=name, argument="a")
