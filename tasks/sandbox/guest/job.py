"""One job, in a process of its own: runs a program on inputs and reports each result on a private pipe.

Whatever happens here is the program's own business: it can break this process, lie about its own outputs and
nothing else. It never sees an expected output, so a forged result is a guess.
"""

from __future__ import annotations

import builtins
import io
import json
import os
import random
import re
import sys
import types
from collections.abc import Callable
from typing import Any

from values import UnplainError, decode, encode  # type: ignore[import-not-found]  # a neighbour, on sys.path

_MAX_ERROR_CHARS = 300


def run(job: dict[str, Any], results: int) -> None:
    """Runs a job; writes lines of JSON to the file descriptor `results`, each with the job's nonce."""
    random.seed(0)  # the server's state would differ from server to server
    nonce, write = job["nonce"], os.write
    dumps = json.dumps

    def report(**line: Any) -> None:
        data = dumps({"nonce": nonce, **line}).encode() + b"\n"
        while data:
            data = data[write(results, data) :]

    if job["kind"] == "stdin":
        _run_main(job, report)
    else:
        _run_calls(job, report)


def _run_calls(job: dict[str, Any], report: Callable[..., None]) -> None:
    module = types.ModuleType("candidate")
    sys.modules["candidate"] = module
    space = module.__dict__
    try:
        if job["setup"]:
            exec(compile(job["setup"], "<setup>", "exec"), space)
        exec(compile(job["source"], "<program>", "exec"), space)
        call = _caller(job, space)
    except BaseException as error:  # noqa: BLE001 the border of foreign code: told, on the errors' own channel
        report(error=_said(error))
        return
    for number, given in enumerate(job["inputs"]):
        try:
            value = encode(call(given))
        except UnplainError as error:
            report(case=number, error=f"the result is not plain data: {error}")
        except BaseException as error:  # noqa: BLE001 as above
            report(case=number, error=_said(error))
        else:
            report(case=number, value=value)


def _caller(job: dict[str, Any], space: dict[str, Any]) -> Callable[[Any], Any]:
    if job["kind"] == "expression":
        return lambda text: eval(compile(text, "<call>", "eval"), space)
    name = job["entry_point"]
    function = space.get(name)
    if function is None and "Solution" in space:
        function = getattr(space["Solution"](), name)
    if function is None:
        raise NameError(f"the program defines no {name!r}")
    return lambda given: function(*decode(given))


def _run_main(job: dict[str, Any], report: Callable[..., None]) -> None:
    """A program of its own: its globals are those of `__main__`, it reads fd 0 and writes fd 1."""
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    sys.argv = ["main.py"]
    # a script has these from `site`, which was not loaded
    builtins.exit = builtins.quit = sys.exit  # type: ignore[assignment]
    # the server's own streams were made for its pipes
    sys.stdin = io.TextIOWrapper(io.FileIO(0, closefd=False), "utf-8", errors="replace")
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(io.FileIO(1, "w", closefd=False)), "utf-8", errors="replace"
    )
    sys.stderr = io.TextIOWrapper(
        io.FileIO(2, "w", closefd=False), "utf-8", errors="replace", write_through=True
    )
    error = None
    try:
        exec(compile(job["source"], "main.py", "exec"), module.__dict__)
    except SystemExit as end:
        # leaving with success is an ordinary way to end; leaving with anything else is not
        error = None if end.code in (None, 0) else f"SystemExit: {str(end.code)[:_MAX_ERROR_CHARS]}"
    except BaseException as caught:  # noqa: BLE001 as above
        error = _said(caught)
    try:
        sys.stdout.flush()
    except (OSError, ValueError) as caught:
        error = error or _said(caught)
    if error is None:
        report(case=0, done=True)
    else:
        report(case=0, error=error)


def _said(error: BaseException) -> str:
    try:
        text = str(error)
    except BaseException:  # noqa: BLE001 an exception of the program's own may fail to say what it is
        text = "?"
    # an object's address differs from process to process, and an episode's replay must read the same
    return re.sub(r"\b0x[0-9a-f]{6,}", "0x…", f"{type(error).__name__}: {text[:10_000]}")[:_MAX_ERROR_CHARS]
