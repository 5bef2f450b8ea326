"""Other people's verifiers, run by `WorkerPool` as a script of its own: sympy and math-verify.

Only this process imports them, once each, and it kills itself should its parent die in the middle of a request.
Terms arrive as trees, never as text: no parser of those libraries, some of which evaluate, sees an answer.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import resource
import signal
import sys
from typing import Any

MEMORY_BYTES = 2 << 30
_SYMPY_NAMES = {
    "arcsin": "asin",
    "arccos": "acos",
    "arctan": "atan",
    "ln": "log",
    "abs": "Abs",
    "binom": "binomial",
}


def sympy_same(left: Any, right: Any) -> bool | None:
    """Says whether two trees are one function by sympy; None where it can't tell."""
    import sympy  # pyright: ignore[reportMissingImports]  # an extra

    difference = build(left) - build(right)
    return True if sympy.simplify(difference) == 0 else difference.equals(0)


def math_verify_same(gold: str, answer: str) -> bool:
    """The verdict of math-verify on two texts, each in a box."""
    import math_verify  # pyright: ignore[reportMissingImports]  # an extra

    # its own limit is a signal that only a main thread may set; this process has a limit of its own
    parsed = [math_verify.parse(rf"\boxed{{{text}}}", parsing_timeout=None) for text in (gold, answer)]
    return bool(math_verify.verify(*parsed, timeout_seconds=None))


def build(tree: Any) -> Any:
    """Makes a sympy expression from a tree of lists: [kind, parts…]."""
    import sympy  # pyright: ignore[reportMissingImports]  # an extra

    kind, *parts = tree
    if kind == "number":
        return sympy.Rational(int(parts[0]), int(parts[1]))
    if kind == "symbol":
        named = {"pi": sympy.pi, "e": sympy.E, "i": sympy.I, "infinity": sympy.oo}
        return named.get(parts[0], sympy.Symbol(parts[0], real=True))
    made = [build(part) for part in parts[1:]] if kind == "call" else [build(part) for part in parts]
    if kind == "sum":
        return sympy.Add(*made)
    if kind == "product":
        return sympy.Mul(*made)
    if kind == "quotient":
        return made[0] / made[1]
    if kind == "power":
        return made[0] ** made[1]
    return getattr(sympy, _SYMPY_NAMES.get(str(parts[0]), str(parts[0])))(*made)


REQUESTS = {"sympy": sympy_same, "math_verify": math_verify_same}


def main() -> None:
    """Answers one request a line until its input ends."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    out, sys.stdout = sys.stdout, sys.stderr  # what a library prints is no answer
    # imported before the first request, whose limit is for the work alone
    for name in ("sympy", "math_verify"):
        if importlib.util.find_spec(name) is not None:
            importlib.import_module(name)
    print(json.dumps({"value": "ready"}), file=out, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        signal.setitimer(signal.ITIMER_REAL, request["timeout_s"] + 2)  # the default action ends the process
        try:
            answer = {"value": REQUESTS[request["kind"]](*request["arguments"])}
        except ImportError as error:
            answer = {"error": f"not installed: {error.name}"}
        except Exception as error:  # noqa: BLE001  # whatever they raise is a verdict not given, and is told
            answer = {"error": f"{type(error).__name__}: {error}"[:200]}
        signal.setitimer(signal.ITIMER_REAL, 0)
        print(json.dumps(answer), file=out, flush=True)


if __name__ == "__main__":
    main()
