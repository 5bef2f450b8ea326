"""How fast tasks are: sandbox, math grader, search, generators, beside GEM, reasoning-gym and math-verify.

    python -m tests.benchmarks.tasks_speed [--seconds 1] [--rounds 5] [--json FILE]

All cases take turns, round by round, so that a slow moment of the machine meets all alike; a case's figure is
its median round, and a ratio is the median of the rounds' ratios. Peers that aren't installed are named and
left out (they pin each other's requirements: install them in an environment of their own, with this project's
``[search,sandbox]``). Exits with 1 where a floor is missed.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import itertools
import json
import multiprocessing
import os
import platform
import random
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tasks
from tasks import sandbox, splits
from tasks.data.sources import DataMissingError
from tasks.data.task import DataTask
from tasks.sandbox import Level, Program, SandboxError
from tasks.search import factbook
from tasks.verify.answers import grade_math

EASY = ("T0", "T1")
Work = Callable[[], object]


@dataclass
class Case:
    """One thing to repeat; `floor` is the least rate that is promised, `against` a case of ours to divide by."""

    name: str
    work: Work
    floor: float | None = None
    against: str | None = None
    threads: int = 1
    processes: int = 1
    rates: list[float] = field(default_factory=list)

    def round(self, seconds: float) -> None:
        """Repeats the work for so long and notes the rate, in repetitions a second."""
        self.rates.append(_rate(self.work, seconds, self.threads, self.processes))

    @property
    def rate(self) -> float:
        """The median round."""
        return statistics.median(self.rates)


def sandbox_cases() -> Iterator[Case]:
    """A trivial program and one test, warm; two at a time, as on two cores."""
    program = Program(kind="function", source="def f(x):\n    return x + 1", entry_point="f")

    def check(level: Level) -> None:
        assert sandbox.run(program, [[1]], level=level).cases[0].value == 2

    for level in (Level.L2, Level.L1, Level.L0):
        with _if_there(SandboxError, f"sandbox {level}"):
            check(level)
            floor = 150.0 if level is not Level.L0 else None
            yield Case(f"sandbox {level}: check", lambda level=level: check(level), floor, threads=2)
    code = "def f(x):\n    return x + 1\nprint(f(1))"
    yield Case(
        "no sandbox: python -I -S -c",
        lambda: subprocess.run([sys.executable, "-I", "-S", "-c", code], check=True, capture_output=True),
        against="sandbox L2: check",
        threads=2,
    )
    with _if_there(ModuleNotFoundError, "gem"):
        gem = importlib.import_module("gem.utils.sandbox")
        for kind in ("none", "bwrap"):
            with _if_there(FileNotFoundError, f"gem, sandbox '{kind}'"):
                ran, out, why = gem.run_python(code, kind)
                if not ran or out != "2\n":
                    raise FileNotFoundError(f"it does not run here: {why[-80:]}")
                yield Case(
                    f"gem, sandbox '{kind}': check",
                    lambda kind=kind: gem.run_python(code, kind),
                    against="sandbox L2: check",
                    threads=2,
                )


def math_cases() -> Iterator[Case]:
    """Plain whole numbers, then a fraction in LaTeX and a polynomial, each right and wrong in turn."""
    kinds = {"plain number": ("72", ("72", "73")), "fraction": ("3/4", (r"\frac{6}{8}", r"\frac{5}{8}")),
             "polynomial": ("x^2+3x+2", ("(x+1)(x+2)", "(x+1)(x+3)"))}  # fmt: skip
    for kind, (gold, spellings) in kinds.items():
        texts = itertools.cycle([rf"The answer is \boxed{{{text}}}." for text in spellings])
        floor = 20_000.0 if kind == "plain number" else None
        yield Case(f"math: {kind}", lambda gold=gold, texts=texts: grade_math(next(texts), gold), floor)
        with _if_there(ModuleNotFoundError, "math-verify"):
            lib = importlib.import_module("math_verify")

            def verify(gold: str = gold, texts: Iterator[str] = texts, lib: Any = lib) -> object:
                return lib.verify(lib.parse(rf"\boxed{{{gold}}}"), lib.parse(next(texts)))

            yield Case(f"math-verify: {kind}", verify, against=f"math: {kind}")
        with _if_there(ModuleNotFoundError, "gem"):
            gem = importlib.import_module("gem.envs.math_env").MathEnv
            yield Case(
                f"gem math: {kind}",
                lambda gold=gold, texts=texts, gem=gem: gem.check_correct(next(texts), gold),
                against=f"math: {kind}",
            )


def search_cases() -> Iterator[Case]:
    """Queries over the whole World Factbook."""
    with _if_there(DataMissingError, "the search corpus"):
        library = factbook.library()
        names = itertools.cycle(country.name for country in factbook.countries())
        yield Case(
            "search: query of the Factbook", lambda: library.search(f"{next(names)} highest point", 3), 200.0
        )


def generator_cases() -> Iterator[Case]:
    """A new item of every generated task at every level made for small models; a process a core, as in a run."""
    for spec in tasks.specs().values():
        if isinstance(spec, DataTask):
            continue
        for level, tier in zip(spec.levels, spec.tiers, strict=True):
            if tier in EASY:
                indices = itertools.count()
                yield Case(
                    f"item: {spec.id} level {level} ({tier})",
                    lambda spec=spec, level=level, indices=indices: splits.item(
                        spec, "train", 0, next(indices), level
                    ),
                    floor=10_000.0,
                    processes=2,
                )
    with _if_there(ModuleNotFoundError, "reasoning-gym"):
        create = importlib.import_module("reasoning_gym").create_dataset
        pairs = {
            "chain_sum": "Math/Add-v0 level 2 (T0)",
            "leg_counting": "Math/WordProblem-v0 level 1 (T1)",
            "simple_equations": "Math/LinEq-v0 level 1 (T1)",
            "countdown": "Math/Countdown-v0 level 3 (T1)",
        }
        for name, ours in pairs.items():
            dataset, indices = create(name, seed=0, size=1 << 20), itertools.count()
            yield Case(
                f"reasoning-gym item: {name}",
                lambda dataset=dataset, indices=indices: dataset[next(indices)],
                against=f"item: {ours}",
                processes=2,
            )


def episode_cases() -> Iterator[Case]:
    """A whole episode: reset and one answer, through the environment."""
    env, seeds = tasks.make("Math/Add-v0"), itertools.count()

    def episode() -> None:
        env.reset(seed=next(seeds))
        env.step("<answer>7</answer>")

    yield Case("episode: Math/Add-v0", episode)
    with _if_there(ModuleNotFoundError, "gem"):
        importlib.import_module("gem.envs")
        other = importlib.import_module("gem").make("game:GuessTheNumber-v0-easy")

        def theirs() -> None:
            other.reset(seed=next(seeds))
            other.step(r"\boxed{7}")

        yield Case("gem episode: GuessTheNumber", theirs, against="episode: Game/GuessNumber-v0")
    guess = tasks.make("Game/GuessNumber-v0")

    def ours() -> None:
        guess.reset(seed=next(seeds))
        guess.step("<answer>7</answer>")

    yield Case("episode: Game/GuessNumber-v0", ours)


def main() -> int:
    """Runs all cases and prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=1.0, help="length of a round of one case")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, help="also write the figures here")
    wanted = parser.parse_args()
    cases = [
        *sandbox_cases(), *math_cases(), *search_cases(), *generator_cases(), *episode_cases(),
    ]  # fmt: skip
    order = random.Random(0)
    for case in cases:
        _rate(case.work, wanted.seconds / 5, case.threads, 1)  # warm
    for number in range(wanted.rounds):
        _say(f"round {number + 1} of {wanted.rounds}")
        for case in order.sample(cases, len(cases)):
            case.round(wanted.seconds / (3 if case.processes > 1 else 1))
    by_name = {case.name: case for case in cases}
    missed = [case for case in cases if case.floor is not None and case.rate < case.floor]
    width = max(len(case.name) for case in cases)
    lines = [f"{'':<{width}}  median /s (min … max), floor, ours is so many times as fast"]
    for case in cases:
        line = f"{case.name:<{width}}  {case.rate:>9,.0f} ({min(case.rates):,.0f} … {max(case.rates):,.0f})"
        if case.floor is not None:
            line += f"  floor {case.floor:,.0f}: {'MISSED' if case in missed else 'kept'}"
        if case.against is not None:
            line += f"  {ratio(by_name[case.against], case):.1f}x"
        lines.append(line)
    print("\n".join(lines))
    print(f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}")
    print(f"sandbox {sandbox.capability()}")
    if wanted.json:
        figures = {case.name: {"rates": case.rates, "floor": case.floor} for case in cases}
        wanted.json.write_text(json.dumps(figures, indent=1) + "\n")
    return 1 if missed else 0


def ratio(ours: Case, theirs: Case) -> float:
    """Median over rounds of ours / theirs."""
    return statistics.median(a / b for a, b in zip(ours.rates, theirs.rates, strict=True))


def _rate(work: Work, seconds: float, threads: int, processes: int) -> float:
    if processes > 1:
        # a fork, so that the work needs no pickling; the children do nothing else
        with ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("fork")) as pool:
            return sum(pool.map(_forked, [seconds] * processes, [_keep(work)] * processes))
    done = [0] * threads

    def repeat(place: int) -> None:
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            work()
            done[place] += 1

    began = time.perf_counter()
    if threads == 1:  # in this thread: some peers set signals, which only the main one may
        repeat(0)
        return done[0] / (time.perf_counter() - began)
    crew = [threading.Thread(target=repeat, args=(place,)) for place in range(threads)]
    for one in crew:
        one.start()
    for one in crew:
        one.join()
    return sum(done) / (time.perf_counter() - began)


_KEPT: list[Work] = []


def _keep(work: Work) -> int:
    _KEPT.append(work)
    return len(_KEPT) - 1


def _forked(seconds: float, number: int) -> float:
    return _rate(_KEPT[number], seconds, 1, 1)


@contextlib.contextmanager
def _if_there(missing: type[Exception], what: str) -> Iterator[None]:
    try:
        yield
    except missing as error:
        _say(f"left out: {what} ({error})")


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")


if __name__ == "__main__":
    sys.exit(main())
