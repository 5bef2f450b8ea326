"""Faults below a whole `bench run`, each in a process of its own under a watchdog: it ends, and says why."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from leaderboard.records import RunRecord

ROOT = Path(__file__).resolve().parents[2]
WATCHDOG_S = 240
"""Far above the no-progress limit of 2 s; most of it is for starting up on a busy machine."""

PROGRAM = """
import functools, itertools, sys, threading
from dataclasses import replace
from bench import cli, compose
from tunix_core import trainer
from tunix_core.testing import Answer, EpisodeScript, ScriptedEnvs, ScriptedSampler, constant, tiny_base
from tunix_core.tokens import ByteTokenizer

fault, out = sys.argv[1:]
never, opened, asked = threading.Event(), itertools.count(1), itertools.count(1)

def script(ticket):
    n = next(opened)
    fails = fault == "environments fail" or (fault == "one in 50 fails" and n % 50 == 0)
    hangs = fault == "a rollout hangs" and (ticket.split, *ticket.key[1:]) == ("train", 0, 0)
    return EpisodeScript(
        reward=constant(ticket.sample_index % 2), raise_at="reset" if fails else None, hold=never if hangs else None
    )

def answer(request):
    lost = fault == "the sampler fails" and next(asked) == 5
    return Answer(
        token_ids=(ord("1"), *ByteTokenizer.stop_ids),
        error=RuntimeError("device lost") if lost else None,
        hold=never if fault == "the sampler hangs" else None,
    )

base = tiny_base(vocab_size=ByteTokenizer.vocab_size)
compose.load_model = lambda name: (base, base.params)
compose.env_factory = lambda prepared, simulate: ScriptedEnvs(script)
plain = compose.trainer_spec
compose.trainer_spec = lambda *given: replace(plain(*given), self_check=False, env_timeout_s=0.5)
trainer.Trainer = functools.partial(trainer.Trainer, sampler=ScriptedSampler(answer))
cli.main([
    "run", "--tasks", "math", "--arms", "A1", "--updates", "13", "--eval-items", "1", "--tracker", "none",
    "--set", "group_size=2", "--set", "groups_per_update=2", "--set", "no_progress_s=2", "--quiet", "--debug",
    "--set", "env_workers=4", "--out", out,
])
"""


def run(fault: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Raises TimeoutExpired where the process doesn't end by itself."""
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, fault, str(folder / "run")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=WATCHDOG_S,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (
            "environments fail",
            r"all 4 of its environments failed, the first with RuntimeError: scripted failure",
        ),
        ("the sampler fails", r"RuntimeError: device lost"),
        (
            "the sampler hangs",
            r"no progress for 2 s; waiting for \d+ turns of the sampler: math group 0 sample 0",
        ),
    ],
)
def test_a_run_that_cannot_go_on_ends_with_its_first_cause_and_not_with_0(
    fault: str, said: str, tmp_path: Path
) -> None:
    """Source: https://github.com/NVIDIA-NeMo/RL/issues/3488"""
    done = run(fault, tmp_path)
    assert done.returncode == 1, done.stderr
    assert re.search(said, done.stdout + done.stderr), done.stdout + done.stderr
    # a hang has no traceback; what raised has
    assert ("Traceback (most recent call last)" in done.stderr) == (fault != "the sampler hangs")


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["one in 50 fails", "a rollout hangs"])
def test_a_run_survives_failures_of_single_rollouts_and_counts_them(fault: str, tmp_path: Path) -> None:
    """Source: https://github.com/thinking-machines-lab/tinker-cookbook/issues/945"""
    done = run(fault, tmp_path)
    assert done.returncode == 0, done.stderr
    (result,) = RunRecord.open(tmp_path / "run").header.runs
    assert result.updates == {"math": 13}
    rollouts = result.ledger["math"].rollouts
    assert rollouts.errored == 1
    assert rollouts.consumed == 13 * 4 - 1
