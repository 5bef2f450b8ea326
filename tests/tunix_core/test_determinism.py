"""The same seed gives the same run: whatever else is computed beside it, and in every process."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tunix_core.rollout import play
from tunix_core.testing import (
    TINY_SPEC,
    BatchDump,
    EpisodeScript,
    LetterTokenizer,
    Recorder,
    ScriptedEnvs,
    tiny_tenant,
    tiny_trainer,
)
from tunix_core.tokens import Renderer
from tunix_core.types import EpisodeTicket, SamplingSpec, TenantSpec

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("t0", "t1")
UPDATES = 6
TWO_TURNS = EpisodeScript(observations=("ab", "c"))


def tenants(seed: int = 0) -> list[TenantSpec]:
    return [tiny_tenant(n, seed=seed + i, updates=UPDATES) for i, n in enumerate(NAMES)]


def told(recorder: Recorder) -> dict[str, Any]:
    """All that training did: tokens with their log-probabilities, losses, adapters, step by step."""
    return {
        name: (
            [r.loss for r in recorder.reports_of(name)],
            recorder.adapters(name),
            [
                (key, turn.token_ids.tobytes(), turn.behavior_logprobs.tobytes())
                for key, t in sorted(recorder.consumed(name).items())
                for turn in t.turns
            ],
        )
        for name in NAMES
    }


class Evaluating(Recorder):
    """Scores a snapshot on dev items whenever one is taken, in a sampler that has nothing to do."""

    trainer: Any = None
    evaluated = 0

    def event(self, event: Any) -> None:
        super().event(event)
        sampler = self.trainer.sampler
        if event.key != "snapshot" or sampler.busy:
            return
        name = event.value["tenant"]
        tickets = [
            EpisodeTicket(
                tenant_id=name, ordinal=k, sample_index=0, env_id="e", split="dev", env_seed=1, item_index=k
            )
            for k in range(5)
        ]
        self.evaluated += 1
        done = play(
            sampler,
            tickets,
            env_factory=ScriptedEnvs(lambda t: TWO_TURNS),
            renderer=Renderer(LetterTokenizer()),
            sampling={name: SamplingSpec(temperature=0.0, max_new_tokens=6)},
            adapter_slot=self.trainer.learner.slot_of,
            clock_ns=lambda: 0,
        )
        assert len(done) == 5


@pytest.mark.parametrize("schedule", ["S1", "A0"])
def test_evaluation_its_cadence_and_logging_change_nothing_in_training(schedule: str, tmp_path: Path) -> None:
    """Snapshots scored every 0, 1 and 5 updates, with and without a dump of each batch.

    Source: https://github.com/karpathy/char-rnn/issues/17
    """
    seen = []
    counts = []
    for every, dump in ((None, False), (0, False), (1, False), (5, False), (1, True)):
        recorder = Recorder() if every is None else Evaluating()
        trainer = tiny_trainer(
            tenants(),
            schedule,
            ScriptedEnvs(lambda t: TWO_TURNS),
            spec=replace(TINY_SPEC, snapshot_every=every or 0),
            observer=recorder,
            **({"on_packed": BatchDump(tmp_path)} if dump else {}),
        )
        if isinstance(recorder, Evaluating):
            recorder.trainer = trainer
        result = trainer.run()
        last = {s.adapter.tenant_id: s.adapter.sha256 for s in result.snapshots}
        seen.append((told(recorder), last))
        counts.append(recorder.evaluated if isinstance(recorder, Evaluating) else 0)
    assert all(one == seen[0] for one in seen)
    assert counts[0] == 0 < counts[1] <= counts[3] <= counts[2] == counts[4]
    assert counts[1] < counts[2]


def test_another_seed_is_another_run() -> None:
    runs = []
    for seed in (0, 0, 10):
        recorder = Recorder()
        tiny_trainer(tenants(seed), "S1", ScriptedEnvs(lambda t: TWO_TURNS), observer=recorder).run()
        runs.append(told(recorder))
    assert runs[0] == runs[1]
    assert all(runs[0][n] != runs[2][n] for n in NAMES)


def test_siblings_of_a_group_are_drawn_apart_and_a_repeat_draws_them_alike() -> None:
    """Source: https://github.com/NovaSky-AI/SkyRL/pull/1042"""
    groups = []
    for neighbours in ([], [tiny_tenant("t1", seed=9, updates=1)]):
        recorder = Recorder()
        mine = tiny_tenant("t0", seed=42, updates=1, group_size=8, groups_per_update=1)
        tiny_trainer([mine, *neighbours], "S1", ScriptedEnvs(), observer=recorder).run()
        groups.append([t.turns[1].token_ids.tolist() for _, t in sorted(recorder.consumed("t0").items())])
    assert groups[0] == groups[1]  # whoever else is in the batch
    assert len({tuple(ids) for ids in groups[0]}) > 4


def digest_of_a_run() -> str:
    recorder = Recorder()
    tiny_trainer(tenants(), "A1", ScriptedEnvs(lambda t: TWO_TURNS), observer=recorder).run()
    return hashlib.sha256(repr(told(recorder)).encode()).hexdigest()


PROGRAM = """
import random
import numpy
from tests.tunix_core.test_determinism import digest_of_a_run
random.seed(1)
numpy.random.seed(2)
print(digest_of_a_run())
"""


def test_an_inline_run_is_the_same_to_the_bit_in_another_process() -> None:
    """Whatever the hash seed and the global random states are."""
    child = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "4711"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert child.returncode == 0, child.stderr
    assert child.stdout.strip() == digest_of_a_run()
