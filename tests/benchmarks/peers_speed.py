"""Rollouts trained on in a second: this project's trainer beside TRL and google-tunix, synchronous, one tenant.

    python -m tests.benchmarks.peers_speed [--trl PYTHON] [--tunix PYTHON] [--rounds 7] [--updates 10] [--json FILE]

PYTHON is the interpreter of an environment that holds the library: TRL with PEFT and datasets, or google-tunix with
qwix. What is not given, or not there, is skipped. One update is generation, reward and one optimizer step. All have
the embedded model's weights (checked by their logits before anything is timed), prompts, group size, groups an
update, length of prompt and of answer (nothing ends early), LoRA rank and matrices, float32, temperature 1, and the
same cores. The reward is a program that takes no time, and there is no latency: what is compared is arithmetic and
overhead, not asynchrony. Workers take turns: all are started and warm, and one works while the others wait.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.benchmarks.harness import Timed, ratio, write
from tests.benchmarks.peers.common import Job, load_job
from tests.benchmarks.peers.export import export
from tunix_core.model.load import load_base

ROOT = Path(__file__).resolve().parents[2]
QUIET = 0.15
"""Cores that others may use: with more, a library whose threads wait for each other by spinning is several times slower
than it is alone, and the figures say nothing."""
PROMPT_TEXT = 29
"""Characters of a prompt; 32 tokens with the control tokens."""


def cpu_seconds(pid: int) -> tuple[float, float] | None:
    """CPU seconds used by the whole machine and by one process, where Linux tells them."""
    try:
        whole = Path("/proc/stat").read_text().split("\n", 1)[0].split()
        own = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except FileNotFoundError:
        return None
    busy = sum(int(whole[i]) for i in (1, 2, 3, 6, 7))  # user, nice, system, irq, softirq
    tick = os.sysconf("SC_CLK_TCK")
    return busy / tick, (int(own[11]) + int(own[12])) / tick


@dataclass
class Worker:
    """A library's process, and what it said."""

    name: str
    process: subprocess.Popen[str]
    log: Path
    about: dict[str, Any] = field(default_factory=dict)

    def answer(self) -> dict[str, Any]:
        """The next line; raises with the end of its log where there is none, or with the problem it tells."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            tail = self.log.read_text(errors="replace")[-3000:]
            raise SystemExit(f"{self.name} ended before it was asked to; the end of its log:\n{tail}")
        found = json.loads(line)
        if "error" in found:
            raise SystemExit(f"{self.name} did not do equal work: {found['error']}")
        return found

    def work(self, updates: int) -> tuple[float, float | None]:
        """Seconds of so many updates, and the cores that anybody else used meanwhile (None where it can't be told)."""
        before = cpu_seconds(self.process.pid)
        self._tell(str(updates))
        seconds = self.answer()["seconds"]
        after = cpu_seconds(self.process.pid)
        if before is None or after is None:
            return seconds, None
        return seconds, max(0.0, ((after[0] - before[0]) - (after[1] - before[1])) / seconds)

    def end(self) -> None:
        """Ends the process."""
        if self.process.poll() is None:
            self._tell("")
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def _tell(self, line: str) -> None:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return  # it has ended: the next `answer` says why


def job_of(wanted: argparse.Namespace) -> Job:
    """Prompts of one length, and the sizes."""
    rng = random.Random(wanted.seed)
    letters = "abcdefghijklmnopqrstuvwxyz 0123456789+-*/?"
    return Job(
        prompts=tuple("".join(rng.choices(letters, k=PROMPT_TEXT)) for _ in range(32)),
        group_size=wanted.group_size,
        groups_per_update=wanted.groups,
        new_tokens=wanted.new_tokens,
        rank=8,
        alpha=16.0,
        learning_rate=1e-4,
        threads=wanted.threads,
        warm_up=wanted.warm_up,
        seed=wanted.seed,
    )


def start(name: str, python: Path, folder: Path) -> Worker:
    """Starts a worker and waits until it is warm."""
    threads = str(load_job(folder).threads)
    offline = {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "JAX_PLATFORMS": "cpu"}
    counts = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), threads)
    log = folder / f"{name}.log"
    with log.open("w") as errors:
        process = subprocess.Popen(
            [str(python), "-m", f"tests.benchmarks.peers.{name}_worker", str(folder)],
            cwd=ROOT, env={**os.environ, **offline, **counts}, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=errors, text=True,
        )  # fmt: skip
    worker = Worker(name, process, log)
    try:
        worker.about = worker.answer()["ready"]
    except SystemExit:
        worker.end()
        raise
    print(f"{name}: ready, {worker.about}", flush=True)
    return worker


def pythons(wanted: argparse.Namespace) -> dict[str, Path]:
    """The interpreter of each worker that can be started; says which can't."""
    found = {"ours": Path(sys.executable)}
    for name in ("trl", "tunix"):
        python = getattr(wanted, name)
        if python is None:
            print(f"{name}: skipped, no --{name} PYTHON given")
        elif not python.is_file():
            print(f"{name}: skipped, {python} is not there")
        else:
            found[name] = python
    return found


def measure(workers: list[Worker], rounds: int, updates: int, samples: int) -> tuple[list[Timed], list[int]]:
    """Every worker does so many updates a round, in an order of the round's own; and which rounds were disturbed."""
    order = random.Random(0)
    cases = {worker.name: Timed(worker.name, lambda: None, units=updates * samples) for worker in workers}
    disturbed: set[int] = set()
    for k in range(rounds):
        for worker in order.sample(workers, len(workers)):
            seconds, others = worker.work(updates)
            cases[worker.name].times.append(seconds)
            if others is not None and others > QUIET:
                print(f"disturbed: others used {others:.2f} cores while {worker.name} worked", flush=True)
                disturbed.add(k)
    return list(cases.values()), sorted(disturbed)


def report(cases: list[Timed]) -> dict[str, Any]:
    """Prints samples a second and the ratios of times to ours, round by round; returns them."""
    ours = cases[0]
    figures: dict[str, Any] = {f"{case.name}, samples/s": case.units / case.median for case in cases}
    for case in cases:
        rates = sorted(case.units / t for t in case.times)
        print(
            f"{case.name:<6} {case.units / case.median:8.1f} samples/s (rounds {rates[0]:.1f} … {rates[-1]:.1f})"
        )
    for case in cases[1:]:
        middle, low, high = figures[f"{case.name} / ours, time"] = ratio(case, ours)
        print(f"{case.name} takes {middle:.2f} times our time (rounds {low:.2f} … {high:.2f})")
    return figures


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trl", type=Path, metavar="PYTHON")
    parser.add_argument("--tunix", type=Path, metavar="PYTHON")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--updates", type=int, default=10, help="updates a round")
    parser.add_argument("--warm-up", type=int, default=5, help="updates before the first round")
    parser.add_argument("--group-size", type=int, default=8)
    parser.add_argument("--groups", type=int, default=2, help="groups in an update")
    parser.add_argument("--new-tokens", type=int, default=24)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    wanted = parser.parse_args()
    if wanted.rounds < 1 or wanted.updates < 1 or wanted.warm_up < 1:
        parser.error("--rounds, --updates and --warm-up must be at least 1")
    return wanted


def main() -> int:
    """Prints times and ratios."""
    wanted = parse()
    if hasattr(os, "sched_setaffinity"):  # handed on to the workers
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: wanted.threads])
    job, workers = job_of(wanted), []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        export(load_base(), job, folder)
        try:
            for library, python in pythons(wanted).items():
                workers.append(start(library, python, folder))
            cases, disturbed = measure(workers, wanted.rounds, wanted.updates, job.rollouts)
        finally:
            for worker in workers:
                worker.end()
    figures = report(cases)
    print(
        f"{len(disturbed)} of {wanted.rounds} rounds disturbed by other processes"
        + "; repeat it" * bool(disturbed)
    )
    write(
        wanted.json,
        cases,
        figures,
        job={**json.loads(json.dumps(vars(wanted), default=str)), "prompt_tokens": PROMPT_TEXT + 3},
        workers={worker.name: worker.about for worker in workers},
        disturbed_rounds=disturbed,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
