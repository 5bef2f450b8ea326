"""A resumed run: the same numbers where that can be, every prompt learnt once everywhere, nothing half-read."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tunix_core.checkpoint import Checkpoints, Saved
from tunix_core.errors import CheckpointError, ConfigError
from tunix_core.resume import differing, spec_from_json, spec_to_json
from tunix_core.runspec import TrainerSpec
from tunix_core.tenant import FINAL_FATES, Ledger, from_runs, to_runs
from tunix_core.testing import (
    TINY_SPEC,
    EpisodeScript,
    Recorder,
    ScriptedEnvs,
    tiny_base,
    tiny_tenant,
    tiny_trainer,
)
from tunix_core.trainer import Trainer
from tunix_core.types import Fate, OptimizerSpec, TenantSpec, UpdateReport

UPDATES = 7
TENANTS = [
    tiny_tenant("a", updates=UPDATES, seed=1),
    tiny_tenant("b", updates=UPDATES, seed=2, optimizer=OptimizerSpec(learning_rate=0.02, warmup_updates=4)),
    tiny_tenant("c", updates=UPDATES - 2, seed=3),
]
TWO_TURNS = EpisodeScript(observations=("ab", "c"))


class Killed(BaseException):
    """Nothing in the trainer may catch it; what comes after is as lost as after a kill."""


class KillAt(Recorder):
    """Raises when a number of updates has been reported."""

    def __init__(self, updates: int) -> None:
        super().__init__()
        self.left = updates

    def update(self, report: UpdateReport) -> None:
        super().update(report)
        self.left -= 1
        if self.left == 0:
            raise Killed


def make(
    schedule: str,
    directory: Path | None,
    *,
    tenants: Sequence[TenantSpec] = TENANTS,
    every: int = 2,
    observer: Recorder | None = None,
    should_stop: Callable[[], bool] = lambda: False,
    **changes: Any,
) -> Trainer:
    spec: TrainerSpec = replace(
        TINY_SPEC,
        snapshot_every=3,
        checkpoint_dir=directory,
        checkpoint_every=every if directory else 0,
        **{"tenant_slots": 8, "max_rank": 4, **changes},
    )
    envs = ScriptedEnvs(lambda t: TWO_TURNS)
    return tiny_trainer(
        tenants, schedule, envs, spec=spec, observer=observer or Recorder(), should_stop=should_stop
    )


@cache
def uninterrupted(schedule: str) -> tuple[dict[str, str], list[tuple[Any, ...]]]:
    trainer = make(schedule, None)
    return outcome(trainer, trainer.run())


def outcome(trainer: Trainer, result: Any) -> tuple[dict[str, str], list[tuple[Any, ...]]]:
    """Final adapters, and every snapshot."""
    assert result.status == "success"
    finals = {name: trainer.learner.adapter(name).sha256 for name in trainer.learner.slot_of}
    return finals, sorted(
        (s.adapter.tenant_id, s.adapter.version, s.samples, s.adapter.sha256) for s in result.snapshots
    )


@pytest.mark.parametrize("schedule", ["S0", "S1", "A0"])
@pytest.mark.parametrize("killed_at", [1, 4, 8, 13])
def test_a_killed_and_resumed_run_ends_on_the_same_bits(
    schedule: str, killed_at: int, tmp_path: Path
) -> None:
    with pytest.raises(Killed):
        make(schedule, tmp_path, observer=KillAt(killed_at)).run()
    trainer = make(schedule, tmp_path)
    if Checkpoints(tmp_path).latest is None:
        with pytest.raises(CheckpointError, match="holds no complete checkpoint"):
            trainer.restore()
    else:
        restored = trainer.restore()
        assert restored.step > 0 and restored.updates == {
            n: b.updates_done for n, b in trainer._buffers.items()
        }
    trainer.warm_up()
    result = trainer.run()
    assert outcome(trainer, result) == uninterrupted(schedule)
    for name, books in result.ledgers.items():
        assert books["consumed"]["groups"] == result.updates[name] * 2
        assert books["generated"] == {
            unit: sum(books[f.value][unit] for f in FINAL_FATES) for unit in books["generated"]
        }


def test_an_interrupted_run_goes_on_from_its_very_last_update(tmp_path: Path) -> None:
    recorder = Recorder()
    trainer = make("S1", tmp_path, every=0, observer=recorder, should_stop=lambda: len(recorder.reports) >= 5)
    assert trainer.run().status == "interrupted"
    again = make("S1", tmp_path, every=0)
    assert sum(again.restore().updates.values()) == len(recorder.reports)
    assert outcome(again, again.run()) == uninterrupted("S1")


def test_a_finished_run_has_nothing_left_to_do(tmp_path: Path) -> None:
    trainer = make("A1", tmp_path)
    first = outcome(trainer, trainer.run())
    recorder = Recorder()
    again = make("A1", tmp_path, observer=recorder)
    assert again.restore().redrawn == {}
    assert outcome(again, again.run()) == first
    assert recorder.reports == []


@pytest.mark.parametrize("kills", [[2, 3, 5, 1, 4], [7, 7]])
def test_over_any_number_of_kills_every_group_is_learnt_exactly_once(
    kills: list[int], tmp_path: Path
) -> None:
    """The asynchronous arm: groups in flight at a checkpoint are drawn again, not lost and not doubled.

    Source of the fault this guards against: NVIDIA-NeMo/RL pull 3599, PrimeIntellect-ai/prime-rl pull 3032.
    """
    lines: list[tuple[int, str, tuple[int, ...]]] = []
    for left in [*kills, 10**9]:
        recorder = KillAt(left)
        trainer = make("A1", tmp_path, observer=recorder)
        step = 0
        if Checkpoints(tmp_path).latest is not None:
            step = trainer.restore().step
        # what was learnt after the checkpoint is undone by resuming from it
        lines = [line for line in lines if line[0] < step]
        with suppress(Killed):
            trainer.run()
        lines += [(r.update_id, r.tenant_id, r.ordinals) for r in recorder.reports]
    learnt = Counter((name, k) for _, name, ordinals in lines for k in ordinals)
    assert learnt == Counter((t.tenant_id, k) for t in TENANTS for k in range(t.updates * 2))


def test_tenants_that_joined_and_left_are_as_they_were(tmp_path: Path) -> None:
    late = tiny_tenant("late", updates=4, seed=8)

    class Joins(KillAt):
        def update(self, report: UpdateReport) -> None:
            if (report.tenant_id, report.version_after) == ("a", 1):
                trainer.add_tenant(late)
                trainer.remove_tenant("c")
            super().update(report)

    trainer = make("A0", tmp_path, observer=Joins(9), every=1)
    with pytest.raises(Killed):
        trainer.run()
    again = make("A0", tmp_path, every=1)
    restored = again.restore()
    assert set(restored.updates) == {"a", "b", "c", "late"}
    assert [t.tenant_id if t else None for t in again.learner.slots][:4] == ["a", "b", None, "late"]
    result = again.run()
    assert result.status == "success"
    assert {n: result.updates[n] for n in ("a", "b", "late")} == {"a": 7, "b": 7, "late": 4}
    finals, _ = uninterrupted("A0")
    assert again.learner.adapter("a").sha256 == finals["a"]


CHILD = """
import json, os, signal, sys
from pathlib import Path
sys.path.insert(0, {root!r})
from tests.tunix_core.test_checkpoint import Recorder, make
from tunix_core.checkpoint import Checkpoints

class Log(Recorder):
    def update(self, report):
        with open({log!r}, "a") as f:
            f.write(json.dumps([report.update_id, report.tenant_id, report.ordinals]) + "\\n")
        if report.update_id == int(sys.argv[1]):
            os.kill(os.getpid(), signal.SIGKILL)

trainer = make("A1", Path({directory!r}), observer=Log(), every=1)
step = 0
if Checkpoints(Path({directory!r})).latest is not None:
    step = trainer.restore().step
with open({log!r}, "a") as f:
    f.write(json.dumps(["resumed", step]) + "\\n")
print(trainer.run().status)
"""


@pytest.mark.slow
def test_a_process_killed_with_sigkill_loses_and_doubles_nothing(tmp_path: Path) -> None:
    """Whatever the writer thread was doing: what is not complete is not there."""
    root = str(Path(__file__).parents[2])
    log, directory = tmp_path / "log", tmp_path / "checkpoints"
    script = CHILD.format(root=root, log=str(log), directory=str(directory))

    # the second process need not compile again
    cached = {
        "JAX_COMPILATION_CACHE_DIR": str(tmp_path / "compiled"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }

    def child(kill_at: int) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", script, str(kill_at)],
            env={**os.environ, **cached},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    assert child(4).returncode == -signal.SIGKILL
    done = child(-1)
    assert (done.returncode, done.stdout.strip()) == (0, "success"), done.stderr[-2000:]
    learnt: list[list[Any]] = []
    for line in map(json.loads, log.read_text().splitlines()):
        if line[0] == "resumed":
            learnt = [kept for kept in learnt if kept[0] < line[1]]
        else:
            learnt.append(line)
    assert Counter((name, k) for _, name, ordinals in learnt for k in ordinals) == Counter(
        (t.tenant_id, k) for t in TENANTS for k in range(t.updates * 2)
    )


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("schedule", "tenants", "changes", "words"),
    [
        ("A1", TENANTS, {}, "schedule"),
        ("S1", TENANTS, {"max_rank": 3}, "max_rank 4, here 3"),
        ("S1", [*TENANTS[:2], tiny_tenant("d")], {}, "no tenant 'd'"),
        ("S1", [replace(TENANTS[0], updates=9), *TENANTS[1:]], {}, "tenant 'a' with another updates"),
        (
            "S1",
            [replace(TENANTS[0], optimizer=OptimizerSpec(learning_rate=1.0)), *TENANTS[1:]],
            {},
            "tenant 'a' with another optimizer.learning_rate",
        ),
    ],
)
def test_a_checkpoint_of_another_run_is_refused_by_what_differs(
    schedule: str, tenants: list[TenantSpec], changes: dict[str, Any], words: str, tmp_path: Path
) -> None:
    with pytest.raises(Killed):
        make("S1", tmp_path, observer=KillAt(8)).run()
    with pytest.raises(CheckpointError, match=words):
        make(schedule, tmp_path, tenants=tenants, **changes).restore()


def test_a_half_written_checkpoint_is_not_taken_up(tmp_path: Path) -> None:
    make("S1", tmp_path, every=1).run()
    newest = max(int(p.name) for p in tmp_path.iterdir())
    # the name under which a checkpoint is written until it is whole
    (tmp_path / str(newest)).rename(tmp_path / f"{newest}.orbax-checkpoint-tmp")
    assert make("S1", tmp_path).restore().step == newest - 1


def test_arrays_other_than_those_saved_are_refused(tmp_path: Path) -> None:
    make("S1", tmp_path, every=1).run()
    (books,) = [p for p in (tmp_path / "7" / "books").iterdir() if b"arrays_sha256" in p.read_bytes()]
    text = books.read_text()
    at = text.index('"arrays_sha256": "') + len('"arrays_sha256": "')
    books.write_text(text[:at] + ("0" if text[at] != "0" else "1") + text[at + 1 :])
    with pytest.raises(CheckpointError, match="the arrays of checkpoint 7 are not those that were saved"):
        make("S1", tmp_path).restore()


def test_a_flipped_byte_is_found(tmp_path: Path) -> None:
    """In a process of its own: the reader's threads complain at exit about what they could not read."""
    checkpoints = Checkpoints(tmp_path)
    arrays = {"w": np.random.default_rng(0).normal(size=5000)}
    checkpoints.save(Saved(step=3, arrays=arrays, snapshots={}, books={}))
    checkpoints.close()
    data = max((p for p in tmp_path.rglob("*") if p.is_file()), key=lambda p: p.stat().st_size)
    raw = bytearray(data.read_bytes())
    raw[len(raw) // 2] ^= 0xFF
    data.write_bytes(bytes(raw))
    code = (
        "import numpy as np; from pathlib import Path; from tunix_core.checkpoint import Checkpoints\n"
        f"Checkpoints(Path({str(tmp_path)!r})).restore({{'w': np.zeros(5000)}})"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode != 0
    assert "CheckpointError" in done.stderr and "checkpoint 3" in done.stderr


def test_two_histories_do_not_mix_in_one_folder(tmp_path: Path) -> None:
    make("S1", tmp_path, every=1).run()
    with pytest.raises(CheckpointError, match=r"which is there already\. Resume from the newest"):
        make("S1", tmp_path, every=1).run()


def test_a_checkpoint_needs_a_folder() -> None:
    with pytest.raises(ConfigError, match="checkpoint_every 3 needs a checkpoint_dir"):
        tiny_trainer(TENANTS, "S1", ScriptedEnvs(), spec=replace(TINY_SPEC, checkpoint_every=3))
    with pytest.raises(ConfigError, match="nothing to restore from"):
        make("S1", None).restore()


# ---------------------------------------------------------------- parts


def test_what_is_saved_is_copied_before_the_caller_goes_on(tmp_path: Path) -> None:
    arrays = {"w": np.ones(1000, np.float32)}
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(Saved(step=1, arrays=arrays, snapshots={}, books={}))
    arrays["w"][:] = 7
    checkpoints.wait()
    assert np.all(checkpoints.restore(arrays).arrays["w"] == 1)
    checkpoints.close()


def test_only_the_newest_are_kept(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, keep=2)
    for step in range(1, 6):
        checkpoints.save(Saved(step=step, arrays={"w": np.full(3, step)}, snapshots={}, books={"n": step}))
    checkpoints.wait()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["4", "5"]
    assert checkpoints.restore({"w": np.zeros(3, int)}).books["n"] == 5
    checkpoints.close()


def test_settings_survive_json_and_differences_are_named() -> None:
    spec = TENANTS[1]
    assert spec_from_json(json.loads(json.dumps(spec_to_json(spec)))) == spec
    assert differing(spec, replace(spec, seed=5, optimizer=OptimizerSpec())) == [
        "seed",
        "optimizer.learning_rate",
        "optimizer.warmup_updates",
    ]


@given(st.sets(st.integers(0, 60)))
def test_runs_of_numbers_come_back(numbers: set[int]) -> None:
    runs = to_runs(numbers)
    assert from_runs(runs) == sorted(numbers)
    assert all(b[0] > a[1] + 1 for a, b in pairwise(runs))


@given(st.lists(st.sampled_from([*FINAL_FATES, None]), max_size=8), st.integers(1, 3))
def test_books_survive_json_without_what_was_open(fates: list[Fate | None], size: int) -> None:
    ledger = Ledger("t")
    for ordinal, fate in enumerate(fates):
        ledger.admit(ordinal, size)
        for i in range(size):
            ledger.arrive(ordinal, i, tokens=3 + i)
        if fate is not None:
            ledger.settle(ordinal, fate)
    again = Ledger.from_json("t", json.loads(json.dumps(ledger.to_json())))
    assert again.closes()
    before, after = ledger.snapshot(), again.snapshot()
    for fate in FINAL_FATES:
        assert after[fate.value] == before[fate.value]
    for ordinal, fate in enumerate(fates):
        if fate is None:
            again.admit(ordinal, size)
        else:
            assert again.fate(ordinal) is fate


def test_the_base_model_has_to_be_the_same(tmp_path: Path) -> None:
    with pytest.raises(Killed):
        make("S1", tmp_path, observer=KillAt(8)).run()
    other = replace(tiny_base(), sha256="f" * 64)
    spec = replace(TINY_SPEC, tenant_slots=8, max_rank=4, checkpoint_dir=tmp_path)
    with pytest.raises(CheckpointError, match=f"base_sha256 '', here '{'f' * 64}'"):
        tiny_trainer(TENANTS, "S1", ScriptedEnvs(), spec=spec, base=other).restore()
