"""How often math-verify and the strict grader disagree, and on what.

    BENCH_DATA_DIR=… python -m tests.benchmarks.math_verify_agreement [--items 500]

Answers of known worth are given to both: right ones, spelt in the ways that people and models spell them, and
wrong ones. Both verifiers' errors are counted, and every kind of disagreement is shown with an example.
math-verify is the extra ``[math]``; a data set that is not here is left out and named.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import NamedTuple

import tasks
from tasks import protocol, splits
from tasks.data.sources import DataMissingError
from tasks.spec import GradeStatus
from tasks.verify import answers, cross_check


class Sample(NamedTuple):
    """One answer of known worth."""

    kind: str
    gold: str
    answer: str
    right: bool


def _thousands(gold: str) -> str | None:
    return f"{int(gold):,}" if gold.lstrip("-").isdigit() and len(gold) > 3 else None


NUMBER_SPELLINGS: dict[str, Callable[[str], str | None]] = {
    "as it is": lambda gold: gold,
    "dollars": lambda gold: rf"\${gold}",
    "unit": lambda gold: f"{gold} dollars",
    "LaTeX unit": lambda gold: rf"{gold}\text{{ apples}}",
    "thousands": _thousands,
    "thin spaces": lambda gold: (_thousands(gold) or "").replace(",", r"\,") or None,
    "decimal": lambda gold: f"{gold}.0" if "." not in gold else None,
    "fraction": lambda gold: rf"\frac{{{2 * Fraction(gold)}}}{{2}}" if gold.isdigit() else None,
    "x = value": lambda gold: f"x = {gold}",
    "full stop": lambda gold: f"{gold}.",
    "full width": lambda gold: gold.translate({ord(c): 0xFEE0 + ord(c) for c in "0123456789"}),
}
WRONG: dict[str, Callable[[str], str | None]] = {
    "one more": lambda gold: str(Fraction(gold) + 1) if Fraction(gold).denominator == 1 else None,
    "negated": lambda gold: str(-Fraction(gold)) if Fraction(gold).denominator == 1 and gold != "0" else None,
    "chain": lambda gold: f"{int(gold) - 1} = {gold}" if gold.isdigit() else None,
    "two answers": lambda gold: f"{gold} or {int(gold) + 1}" if gold.isdigit() else None,
    "not worked out": lambda gold: f"{int(gold) - 3} + 3" if gold.isdigit() else None,
    "per cent": lambda gold: rf"{gold}\%" if gold.isdigit() and gold != "0" else None,
}


def number_samples(count: int) -> Iterator[Sample]:
    """Golds of GSM8K and SVAMP in every spelling, and wrong ones."""
    rng = random.Random(0)
    for name in ("gsm8k", "svamp"):
        spec = tasks.get(name)
        try:
            rows = spec.rows("test")
        except DataMissingError as missing:
            sys.stderr.write(f"left out: {name}: {missing}\n")
            continue
        assert rows is not None
        for draw in rng.sample(list(rows), min(count, len(rows))):
            for right, table in ((True, NUMBER_SPELLINGS), (False, WRONG)):
                for kind, write in table.items():
                    answer = write(str(draw.gold))
                    if answer is not None:
                        yield Sample(f"number, {kind}", str(draw.gold), answer, right)


def symbolic_samples(count: int) -> Iterator[Sample]:
    """Oracles of SymbolicEq's equality levels, and its careless demonstrator's answers."""
    spec, rng = tasks.get("symbolic"), random.Random(0)
    for level in (1, 2, 3):
        for index in range(count // 5):
            item = splits.item(spec, "test", 0, index, level)
            for right, turns in ((True, spec.oracle(item)), (False, spec.careless(item, rng))):
                answer = protocol.read_answer(turns[-1], max_chars=spec.max_answer_chars).text
                assert answer is not None
                yield Sample(f"symbolic, {item.meta['kind']}", str(item.gold), answer, right)


def main() -> int:
    """Prints error rates, the disagreement rate, and an example of each kind."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--items", type=int, default=500, help="rows of each data set")
    count = parser.parse_args().items
    totals: Counter[str] = Counter()
    by_kind: Counter[tuple[str, bool, bool, bool]] = Counter()
    examples: dict[tuple[str, bool, bool, bool], str] = {}
    for sample in (*number_samples(count), *symbolic_samples(count)):
        ours = answers.verify(sample.answer, sample.gold).status is GradeStatus.CORRECT
        theirs = cross_check.math_verify(sample.answer, sample.gold)
        totals["answers"] += 1
        totals["disagree"] += ours != theirs
        for name, said in (("ours", ours), ("math-verify", theirs)):
            totals[f"{name}, {'right refused' if sample.right else 'wrong paid'}"] += said != sample.right
        if not ours == theirs == sample.right:
            key = (sample.kind, sample.right, ours, theirs)
            by_kind[key] += 1
            examples.setdefault(key, f"{sample.answer!r} for {sample.gold!r}")
    print(f"{totals['answers']:,} answers; the two disagree on {totals['disagree'] / totals['answers']:.2%}")
    for name in ("ours", "math-verify"):
        refused, paid = totals[f"{name}, right refused"], totals[f"{name}, wrong paid"]
        print(f"{name}: {refused} right ones refused, {paid} wrong ones paid")
    print("| Kind | It is | Ours says | math-verify says | Times | Example |\n|---|---|---|---|---|---|")
    for key, times in by_kind.most_common():
        kind, *verdicts = key
        cells = ("right" if verdict else "wrong" for verdict in verdicts)
        print(f"| {kind} | {' | '.join(cells)} | {times} | `{examples[key]}` |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
