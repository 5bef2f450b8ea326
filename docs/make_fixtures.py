"""Writes tasks/data/fixtures/*.jsonl anew: `python docs/make_fixtures.py [ID…]`.

Run it when a task's version changes, and read the difference: each line is a promise of the task. Items of
data-set tasks are made from the rows below, which are our own.
"""

from __future__ import annotations

import sys
from typing import Any

import tasks
from tasks import fixtures
from tasks.data.task import DataTask

OWN_ROWS: dict[str, list[dict[str, Any]]] = {
    "Math/GSM8K-v0": [
        {
            "question": "Ada has 3 nuts and finds 5 more. How many has she?",
            "answer": "3+5=<<3+5=8>>8\n#### 8",
        },
        {"question": "A road of 1,250 m is walked twice. How many metres?", "answer": "2*1250\n#### 2,500"},
        {"question": "It is 4 degrees and gets 7 colder. What is it now?", "answer": "4-7\n#### -3"},
        {"question": "Half of 15 cakes are eaten. How many are left?", "answer": "15/2\n#### 7.5"},
    ],
    "Math/SVAMP-v0": [
        {"Body": "There are 9 cups on a shelf", "Question": "How many after one more?", "Answer": 10.0},
        {"Body": "Bo had 12 coins and lost 5.", "Question": "How many has he left?", "Answer": 7.0},
        {"Body": "Each bag holds 1.5 kg", "Question": "How much do 3 bags hold?", "Answer": 4.5},
        {"Body": "Cy reads 20 pages a day", "Question": "How many in 50 days?", "Answer": 1000.0},
    ],
    "Code/CRUXEval-v0": [
        {"code": "def f(xs):\n    return xs[::-1]", "input": "[1, 2, 3]", "output": "[3, 2, 1]"},
        {
            "code": "def f(s):\n    return {c: s.count(c) for c in s}",
            "input": "'aba'",
            "output": "{'a': 2, 'b': 1}",
        },
        {"code": "def f(a, b):\n    return a > b, a / b", "input": "1, 2", "output": "(False, 0.5)"},
        {"code": "def f(s):\n    return s.upper() or None", "input": "'x y'", "output": "'X Y'"},
    ],
    "Code/MBPP-v0": [
        {
            "task_id": f"own/{name}",
            "prompt": f'def {name}(x):\n    """{text}"""\n',
            "canonical_solution": f"    return {expression}",
            "entry_point": name,
            "test": "def check(candidate):\n"
            + "".join(f"    assert candidate({x!r}) == {eval(expression, {'x': x})!r}\n" for x in inputs),
            "description": text,
        }
        for name, text, expression, inputs in (
            ("double", "Write a function to double a number.", "2 * x", (1, 5, -3)),
            (
                "last_two",
                "Write a function to return the last two elements.",
                "x[-2:]",
                ([1, 2, 3], [4], [5, 6]),
            ),
            (
                "vowels",
                "Write a function to count the vowels.",
                "sum(c in 'aeiou' for c in x)",
                ("abc", "aeiou", "x"),
            ),
            ("half", "Write a function to halve a number.", "x / 2", (2, 5, 9)),
        )
    ],
}
OWN_ROWS["Code/HumanEval-v0"] = [
    row | {"prompt": row["prompt"].replace('"""\n', '\n    Any input.\n    """\n', 1)}
    for row in OWN_ROWS["Code/MBPP-v0"]
]


def make(task_id: str) -> str:
    """Makes and writes the fixtures of one task; says where."""
    spec = tasks.get(task_id)
    items = None
    if isinstance(spec, DataTask):
        drawn = [spec.from_row(row) for row in OWN_ROWS[spec.id]]
        items = [fixtures.row_item(spec, *draw) for draw in drawn if draw is not None]
    made = fixtures.make(spec, items)
    return f"{fixtures.write(spec, made)} ({len(made)})"


if __name__ == "__main__":
    for task in sys.argv[1:] or tasks.specs():
        sys.stdout.write(f"{make(task)}\n")
