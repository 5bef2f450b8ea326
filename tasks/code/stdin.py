"""`Code/Stdin-v0`: programs that read standard input, judged by a checker where several outputs are right.

Every kind of problem has a brute-force checker here, which shares no code with the reference program.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tasks import protocol
from tasks.code.programs import MAX_PROGRAM_CHARS, grade_source
from tasks.spec import Draw, Grade, TaskItem, TaskSpec
from tasks.verify.code import HiddenTests

_HIDDEN = 6

Parameters = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One kind of problem, varied by parameters."""

    draw: Callable[[random.Random], Parameters]
    describe: Callable[[Parameters], str]
    example: Callable[[random.Random, Parameters], str]
    """Draws an input."""
    answer: Callable[[Parameters, str], str | None]
    """(parameters, input) -> one right output, by brute force; None where there is none to find."""
    check: Callable[[Parameters, str, str], bool]
    """(parameters, input, output) -> whether the output is right."""
    reference: Callable[[Parameters], str]
    slip: Callable[[Parameters], str]
    """A program with a plausible fault."""


# level 1: one number out of a list ----------------------------------------------------------------------

_KEEP = {
    "greater than {k}": lambda x, k: x > k,
    "less than {k}": lambda x, k: x < k,
    "divisible by {k}": lambda x, k: x % k == 0,
    "not divisible by {k}": lambda x, k: x % k != 0,
}
_KEEP_CODE = {
    "greater than {k}": "x > {k}",
    "less than {k}": "x < {k}",
    "divisible by {k}": "x % {k} == 0",
    "not divisible by {k}": "x % {k} != 0",
}
_FOLD = {"sum": sum, "number": len, "sum of the squares": lambda xs: sum(x * x for x in xs)}
_FOLD_CODE = {"sum": "sum({})", "number": "len({})", "sum of the squares": "sum(x * x for x in {})"}


def _numbers(text: str) -> list[int]:
    return [int(word) for word in text.split()]


def _fold_draw(rng: random.Random) -> Parameters:
    return {
        "keep": rng.choice(tuple(_KEEP)),
        "k": rng.randint(2, 9),
        "fold": rng.choice(tuple(_FOLD)),
        "times": rng.randint(1, 5),
    }


def _fold_answer(p: Parameters, given: str) -> str:
    kept = [x for x in _numbers(given)[1:] if _KEEP[p["keep"]](x, p["k"])]
    return str(p["times"] * _FOLD[p["fold"]](kept))


def _fold_program(p: Parameters, times: int) -> str:
    kept = f"[x for x in xs if {_KEEP_CODE[p['keep']].format(k=p['k'])}]"
    factor = f"{times} * " if times != 1 else ""
    return (
        f"input()\nxs = list(map(int, input().split()))\nprint({factor}{_FOLD_CODE[p['fold']].format(kept)})"
    )


def _list_example(rng: random.Random, p: Parameters) -> str:
    del p
    xs = [rng.randint(1, 40) for _ in range(rng.randint(1, 9))]
    return f"{len(xs)}\n{' '.join(map(str, xs))}\n"


FOLD = Problem(
    draw=_fold_draw,
    describe=lambda p: (
        "The first line holds n, the second n whole numbers. Print "
        + (f"{p['times']} times " if p["times"] != 1 else "")
        + f"the {p['fold']} of those that are {p['keep'].format(k=p['k'])}."
    ),
    example=_list_example,
    answer=_fold_answer,
    check=lambda p, given, out: out.split() == [_fold_answer(p, given)],
    reference=lambda p: _fold_program(p, p["times"]),
    # the first line taken for one of the numbers
    slip=lambda p: _fold_program(p, p["times"]).replace("input()\n", "", 1),
)


# level 2: any pair that fits ----------------------------------------------------------------------------

_RELATIONS = {
    "sum is {k}": (lambda a, b, k: a + b == k, "a + b == {k}"),
    "difference is {k}": (lambda a, b, k: abs(a - b) == k, "abs(a - b) == {k}"),
    "sum is divisible by {k}": (lambda a, b, k: (a + b) % k == 0, "(a + b) % {k} == 0"),
    "product is divisible by {k}": (lambda a, b, k: (a * b) % k == 0, "(a * b) % {k} == 0"),
}
_ABSENT = ("-1", "none", "no pair")


def _pair_draw(rng: random.Random) -> Parameters:
    relation = rng.choice(tuple(_RELATIONS))
    return {
        "relation": relation,
        "k": rng.randint(11, 30) if "divisible" not in relation else rng.randint(7, 19),
        "first": rng.choice((0, 1)),
        "absent": rng.choice(_ABSENT),
    }


def _pairs(p: Parameters, given: str) -> list[str]:
    xs, holds = _numbers(given)[1:], _RELATIONS[p["relation"]][0]
    return [
        f"{i + p['first']} {j + p['first']}"
        for i, j in itertools.permutations(range(len(xs)), 2)
        if holds(xs[i], xs[j], p["k"])
    ]


def _pair_check(p: Parameters, given: str, out: str) -> bool:
    # compared as written, not as int() reads: "+1" and "٣" are no position
    right = _pairs(p, given)
    return " ".join(out.split()) in right if right else out.strip() == p["absent"]


def _pair_program(p: Parameters, first: int) -> str:
    condition = _RELATIONS[p["relation"]][1].format(k=p["k"])
    return (
        "n = int(input())\nxs = list(map(int, input().split()))\nanswer = None\n"
        "for i in range(n):\n    for j in range(i):\n        a, b = xs[i], xs[j]\n"
        f"        if {condition}:\n            answer = (i + {first}, j + {first})\n"
        f"print(*answer) if answer else print({p['absent']!r})"
    )


PAIR = Problem(
    draw=_pair_draw,
    describe=lambda p: (
        "The first line holds n, the second n whole numbers. Print the positions, counted from "
        f"{p['first']}, of any two different elements whose {p['relation'].format(k=p['k'])}, in any order; "
        f"or {p['absent']} where there are none."
    ),
    example=_list_example,
    answer=lambda p, given: next(iter(_pairs(p, given)), None),
    check=_pair_check,
    reference=lambda p: _pair_program(p, p["first"]),
    slip=lambda p: _pair_program(p, 1 - p["first"]),
)


# level 3: any order that respects the rules -------------------------------------------------------------

_RULES = (("a must come before b", False), ("a needs b first", True))
_SEPARATORS = {"on one line": " ", "each on its own line": "\n", "on one line with commas between them": ","}


def _order_draw(rng: random.Random) -> Parameters:
    return {
        "rule": rng.randrange(len(_RULES)),
        "first": rng.choice((0, 1)),
        "rules first": rng.choice((True, False)),
        "absent": rng.choice(("impossible", "no order", "-1", "none", "never")),
        "separator": rng.choice(tuple(_SEPARATORS)),
    }


def _order_input(p: Parameters, given: str) -> tuple[int, list[tuple[int, int]]]:
    """The number of jobs, and pairs of which the first must come before the second; both from 0."""
    head, other, *rest = _numbers(given)
    pairs = [(a - p["first"], b - p["first"]) for a, b in zip(rest[::2], rest[1::2], strict=True)]
    return (other if p["rules first"] else head), [
        (b, a) if _RULES[p["rule"]][1] else (a, b) for a, b in pairs
    ]


def _order_answer(p: Parameters, given: str) -> str | None:
    n, edges = _order_input(p, given)
    for order in itertools.permutations(range(n)):
        if all(order.index(a) < order.index(b) for a, b in edges):
            return _SEPARATORS[p["separator"]].join(str(i + p["first"]) for i in order)
    return None


def _order_check(p: Parameters, given: str, out: str) -> bool:
    if _order_answer(p, given) is None:
        return out.strip() == p["absent"]
    n, edges = _order_input(p, given)
    words = [word.strip() for word in out.strip().split(_SEPARATORS[p["separator"]])]
    names = [str(i + p["first"]) for i in range(n)]
    if sorted(words) != sorted(names):
        return False
    return all(words.index(names[a]) < words.index(names[b]) for a, b in edges)


def _order_program(p: Parameters, swap: bool) -> str:
    head, pair = "m, n" if p["rules first"] else "n, m", "b, a" if swap else "a, b"
    return (
        f"import sys\n{head}, *rest = map(int, sys.stdin.read().split())\n"
        f"before = {{i: set() for i in range({p['first']}, n + {p['first']})}}\n"
        f"for {pair} in zip(rest[::2], rest[1::2]):\n    before[b].add(a)\n"
        "order = []\nwhile len(order) < n:\n"
        "    free = [i for i in before if i not in order and before[i] <= set(order)]\n"
        "    if not free:\n        break\n    order.append(free[0])\n"
        f"print({_SEPARATORS[p['separator']]!r}.join(map(str, order)) if len(order) == n else {p['absent']!r})"
    )


def _order_example(rng: random.Random, p: Parameters) -> str:
    n = rng.randint(3, 6)
    order = rng.sample(range(p["first"], n + p["first"]), n)
    pairs = [pair for pair in itertools.combinations(order, 2) if rng.random() < 0.5]
    if pairs and rng.random() < 0.3:  # one rule against the others
        pairs.append((pairs[0][1], pairs[0][0]))
    rng.shuffle(pairs)
    head = (len(pairs), n) if p["rules first"] else (n, len(pairs))
    return "".join(f"{a} {b}\n" for a, b in [head, *pairs])


def _order_words(p: Parameters) -> str:
    head = "m and n" if p["rules first"] else "n and m"
    return (
        f"The first line holds {head}: there are n jobs, numbered from {p['first']}, and m rules. Each of the "
        f"next m lines holds a and b: {_RULES[p['rule']][0]}. Print any order of all jobs that keeps the rules, "
        f"{p['separator']}; or {p['absent']} where there is none."
    )


ORDER = Problem(
    draw=_order_draw,
    describe=_order_words,
    example=_order_example,
    answer=_order_answer,
    check=_order_check,
    reference=lambda p: _order_program(p, _RULES[p["rule"]][1]),
    slip=lambda p: _order_program(p, not _RULES[p["rule"]][1]),
)

PROBLEMS = {1: FOLD, 2: PAIR, 3: ORDER}


class Stdin(TaskSpec):
    """Level 1 folds a list, level 2 finds any pair that fits, level 3 any order that keeps the rules."""

    id = "Code/Stdin-v0"
    version = "1"
    title = "Standard input and output"
    description = "Write a program that reads standard input; any right output counts"
    levels = (1, 2, 3)
    tiers = ("T2", "T2", "T3")
    default_level = 1
    max_answer_chars = MAX_PROGRAM_CHARS
    best_constant_cap = 0.02
    sandboxed = True
    accepts_expressions = True

    def generate(self, rng: random.Random, level: int) -> Draw:
        """Draws a problem, an example, and hidden inputs of which half or more have answers of their own."""
        problem = PROBLEMS[level]
        parameters = problem.draw(rng)
        while True:
            shown, *hidden = (problem.example(rng, parameters) for _ in range(_HIDDEN + 1))
            answers = [problem.answer(parameters, given) for given in hidden]
            found = {answer for answer in answers if answer is not None}
            if shown not in hidden and len(set(hidden)) == _HIDDEN and len(found) >= _HIDDEN // 2:
                break
        gold = problem.reference(parameters)
        prompt = f"Write a Python program. {problem.describe(parameters)} Example input:\n{shown}"
        return Draw(
            prompt, gold, {"level": level, "parameters": parameters, "inputs": hidden, "shown": shown}
        )

    def split_key(self, draw: Draw) -> str:
        """One problem stays in one split, whichever inputs it has."""
        return draw.gold

    def grade(self, item: TaskItem, text: str) -> Grade:
        """Runs the program on the hidden inputs and has each output checked."""
        problem, parameters, inputs = (
            PROBLEMS[item.meta["level"]],
            item.meta["parameters"],
            item.meta["inputs"],
        )
        tests = HiddenTests(inputs=inputs, check=lambda i, out: problem.check(parameters, inputs[i], out))
        return grade_source(text, tests, kind="stdin")

    def oracle(self, item: TaskItem) -> tuple[str, ...]:
        """The reference program."""
        return (protocol.answer_turn(item.gold),)

    def careless(self, item: TaskItem, rng: random.Random) -> tuple[str, ...]:
        """A program that misreads the statement in one point."""
        del rng
        return (protocol.answer_turn(PROBLEMS[item.meta["level"]].slip(item.meta["parameters"])),)
