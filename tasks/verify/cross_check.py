"""A second opinion on mathematical answers, for those who want to know how far two verifiers differ.

It never decides a reward. How often it differs from ours, and where, is in ``docs/grading.md``.
"""

from __future__ import annotations

from tasks.verify.answers import POOL


def math_verify(answer: str, gold: str, *, timeout_s: float = 5.0) -> bool:
    """What math-verify says of an answer's text, asked in a process of its own.

    Raises:
      WorkerTimeout: it took longer.
      WorkerFailure: it is not installed (``pip install 'async-rl-bench[math]'``), or it raised.
    """
    request = {"kind": "math_verify", "arguments": [gold, answer]}
    return bool(POOL.call(request, timeout_s=timeout_s))
