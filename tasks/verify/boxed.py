r"""Answers in ``\boxed{…}`` (or ``\fbox``): the last box of the final part counts, whole or not at all.

The rule: what stands before the last ``</think>`` is never read; of several boxes the last counts, even
where it is empty; a box that does not close is malformed; prose is never searched.
"""

from __future__ import annotations

import re

from tasks.protocol import Answer
from tasks.spec import GradeStatus

_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{")
_THOUGHT_OPEN, _THOUGHT_CLOSE = "<think>", "</think>"


def boxed(text: str) -> str:
    """Writes an answer in a box."""
    return rf"\boxed{{{text}}}"


def read_boxed(text: str, *, max_chars: int) -> Answer:
    """Reads the last box of a turn; anything else is a status and never a guess."""
    text = final_part(text)
    boxes = [match.end() for match in _BOX.finditer(text)]
    if not boxes:
        return Answer(text=None, status=GradeStatus.NO_ANSWER, detail="no box in the last turn")
    end = _closing_brace(text, boxes[-1])
    if end is None:
        return Answer(text=None, status=GradeStatus.MALFORMED, detail="the last box does not close")
    inner = text[boxes[-1] : end].strip()
    if not inner:
        return Answer(text=None, status=GradeStatus.MALFORMED, detail="the last box is empty")
    if len(inner) > max_chars:
        detail = f"the answer has {len(inner)} characters, the limit is {max_chars}"
        return Answer(text=None, status=GradeStatus.MALFORMED, detail=detail)
    detail = f"{len(boxes)} boxes, the last counts" if len(boxes) > 1 else ""
    return Answer(text=inner, status=None, detail=detail)


def final_part(text: str) -> str:
    """Returns what follows the thinking part; nothing where that was never closed."""
    if _THOUGHT_CLOSE in text:
        text = text.rpartition(_THOUGHT_CLOSE)[2]
    return "" if _THOUGHT_OPEN in text else text


def _closing_brace(text: str, start: int) -> int | None:
    """Finds the brace that closes the one before `start`; escaped braces are set braces and don't count."""
    depth = 1
    skip = False
    for place in range(start, len(text)):
        char = text[place]
        if skip:
            skip = False
        elif char == "\\":
            skip = True
        elif char in "{}":
            depth += 1 if char == "{" else -1
            if depth == 0:
                return place
    return None
