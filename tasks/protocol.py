"""The turn protocol: six marks, their strict reading, and the escaping that keeps tool output out of it.

A policy answers with ``<answer>…</answer>`` and calls a tool with ``<NAME>…</NAME>``, e.g. ``<search>``; the
environment replies with ``<result>…</result>``. Only the policy's last turn is ever read for an answer. A
tool call may also be a JSON function call: ``{"name": "search", "arguments": {"query": "…"}}``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tasks.spec import Grade, GradeStatus, TaskSpec, ToolCall

ANSWER_OPEN, ANSWER_CLOSE = "<answer>", "</answer>"
SEARCH_OPEN, SEARCH_CLOSE = "<search>", "</search>"
RESULT_OPEN, RESULT_CLOSE = "<result>", "</result>"
MARKS = (ANSWER_OPEN, ANSWER_CLOSE, SEARCH_OPEN, SEARCH_CLOSE, RESULT_OPEN, RESULT_CLOSE)

TOOL_BUDGET_USED = "tool budget used"
NO_CALL = "no call"
MAX_CALL_CHARS = 256
"""A longer query is refused; BM25 gains nothing from it and hostile ones cost time."""

_ANSWER_MARK = re.compile(r"</?answer>")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a turn holds: one answer's text, or the status that says why there is none."""

    text: str | None
    status: GradeStatus | None
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BadCall:
    """A tool call that cannot run; `reason` goes back to the policy as the observation."""

    reason: str


def answer_turn(text: str) -> str:
    """Writes an answer in the protocol."""
    return f"{ANSWER_OPEN}{text}{ANSWER_CLOSE}"


def search_turn(query: str) -> str:
    """Writes a search call in the protocol."""
    return f"{SEARCH_OPEN}{query}{SEARCH_CLOSE}"


def escape(text: str) -> str:
    """Makes text that came from elsewhere unable to look like a protocol mark."""
    return text.replace("<", "‹")


def result_turn(text: str, *, max_chars: int | None = None) -> str:
    """Wraps tool output, escaped, in the result mark; cut with ``…`` where it passes `max_chars` in all."""
    body = escape(text)
    if max_chars is not None:
        room = max_chars - len(RESULT_OPEN) - len(RESULT_CLOSE)
        body = body if len(body) <= room else body[: room - 1] + "…"
    return f"{RESULT_OPEN}{body}{RESULT_CLOSE}"


def read_answer(text: str, *, max_chars: int) -> Answer:
    """Reads the one complete answer of a turn; anything else is a status and never a guess."""
    marks = [(m.group(), m.start(), m.end()) for m in _ANSWER_MARK.finditer(text)]
    if not marks:
        return Answer(text=None, status=GradeStatus.NO_ANSWER, detail="no answer mark in the last turn")
    kinds = [mark for mark, _, _ in marks]
    if len(kinds) % 2 or kinds != [ANSWER_OPEN, ANSWER_CLOSE] * (len(kinds) // 2):
        return Answer(text=None, status=GradeStatus.MALFORMED, detail="answer marks do not pair up")
    if len(kinds) > 2:
        return Answer(text=None, status=GradeStatus.MULTIPLE, detail=f"{len(kinds) // 2} answers in one turn")
    inner = text[marks[0][2] : marks[1][1]].strip()
    if not inner:
        return Answer(text=None, status=GradeStatus.MALFORMED, detail="the answer is empty")
    if len(inner) > max_chars:
        detail = f"the answer has {len(inner)} characters, the limit is {max_chars}"
        return Answer(text=None, status=GradeStatus.MALFORMED, detail=detail)
    return Answer(text=inner, status=None)


def grade_answer(text: str, *, max_chars: int, verdict: Callable[[str], bool | None]) -> Grade:
    """Reads the answer and asks `verdict` for True, False, or None where it is no literal of the type."""
    answer = read_answer(text, max_chars=max_chars)
    if answer.text is None:
        assert answer.status is not None
        return Grade(reward=0.0, status=answer.status, detail=answer.detail)
    right = verdict(answer.text)
    if right is None:
        return Grade(reward=0.0, status=GradeStatus.MALFORMED, detail="not a literal", answer=answer.text)
    status = GradeStatus.CORRECT if right else GradeStatus.WRONG
    return Grade(reward=1.0 if right else 0.0, status=status, answer=answer.text)


def read_call(
    text: str, *, tools: tuple[str, ...], max_chars: int = MAX_CALL_CHARS
) -> ToolCall | BadCall | None:
    """Reads the tool call of a turn: None where there is none, `BadCall` where it cannot run.

    A call is ``<NAME>argument</NAME>`` with the name of one of `tools`, or a JSON function call and nothing
    else: ``{"name": NAME, "arguments": {…one text…}}``.
    """
    stripped = text.strip()
    if stripped.startswith("{"):
        return _read_json_call(stripped, tools, max_chars)
    # a task without tools still knows a search when it sees one, and says that there is no such tool
    names = [name for name in (tools or ("search",)) if f"<{name}>" in text or f"</{name}>" in text]
    if not names:
        return None
    start, end = (f"<{names[0]}>", f"</{names[0]}>")
    if (
        len(names) > 1
        or text.count(start) != 1
        or text.count(end) != 1
        or text.index(end) < text.index(start)
    ):
        return BadCall(reason="one call a turn")
    argument = text[text.index(start) + len(start) : text.index(end)]
    return _checked_call(names[0], argument, tools, max_chars)


def _read_json_call(text: str, tools: tuple[str, ...], max_chars: int) -> ToolCall | BadCall:
    try:
        call = json.loads(text)
    except (ValueError, RecursionError):
        return BadCall(reason="bad JSON")
    arguments = call.get("arguments")
    name = call.get("name")
    if not isinstance(name, str) or not isinstance(arguments, dict):
        return BadCall(reason="a call needs name and arguments")
    texts = list(arguments.values())
    if len(texts) != 1 or not isinstance(texts[0], str):
        return BadCall(reason="arguments must be one text")
    return _checked_call(name, texts[0], tools, max_chars)


def _checked_call(name: str, argument: str, tools: tuple[str, ...], max_chars: int) -> ToolCall | BadCall:
    if name not in tools:
        return BadCall(reason="no such tool")
    argument = argument.strip()
    if not argument:
        return BadCall(reason="empty query")
    if len(argument) > max_chars:
        return BadCall(reason="query too long")
    return ToolCall(name=name, argument=argument)


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """How one task is spoken to: the instructions a policy gets, and the reading of what it writes.

    Prompt and parser are made from the same values, so they can't drift apart.
    """

    tools: tuple[str, ...] = ()
    tool_help: Mapping[str, str] = field(default_factory=dict)
    """What each tool does, in one clause."""
    max_answer_chars: int = 16
    max_call_chars: int = MAX_CALL_CHARS
    max_turns: int = 1
    max_tool_calls: int = 0

    @classmethod
    def of(cls, spec: TaskSpec) -> Protocol:
        """Returns the protocol of a task."""
        return cls(
            tools=spec.tools,
            tool_help=spec.tool_help,
            max_answer_chars=spec.max_answer_chars,
            max_call_chars=spec.max_call_chars,
            max_turns=spec.max_turns,
            max_tool_calls=spec.max_tool_calls,
        )

    def instructions(self) -> str:
        """Returns the rules of an episode in words, for a policy that reads English."""
        lines = [
            f"Give the final answer once, as {answer_turn('your answer')}, "
            f"at most {self.max_answer_chars} characters. Only your last turn is read for it."
        ]
        for name in self.tools if self.max_tool_calls else ():
            about = self.tool_help.get(name, "a tool")
            lines.append(f"Call {name} ({about}) with <{name}>text</{name}>; {RESULT_OPEN} holds its reply.")
        if self.tools and self.max_tool_calls:
            lines.append(
                f"One call a turn, at most {self.max_tool_calls} calls and {self.max_turns} turns; "
                'a call may also be JSON: {"name": "' + self.tools[0] + '", "arguments": {"text": "…"}}.'
            )
        return "\n".join(lines)

    def read_answer(self, text: str) -> Answer:
        """Reads the one complete answer of the policy's last turn."""
        return read_answer(text, max_chars=self.max_answer_chars)

    def read_call(self, text: str) -> ToolCall | BadCall | None:
        """Reads the tool call of a turn."""
        return read_call(text, tools=self.tools, max_chars=self.max_call_chars)

    def escape(self, text: str) -> str:
        """Makes text from elsewhere unable to look like a protocol mark."""
        return escape(text)
