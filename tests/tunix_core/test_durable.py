"""Whole runs over the durable buffer: the same bits as over memory, and nothing sampled twice after a kill."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.tunix_core.test_checkpoint import KillAt, Killed
from tunix_core.buffer import BufferSpec
from tunix_core.errors import ConfigError, StorageError
from tunix_core.runspec import TrainerSpec
from tunix_core.schedule import arm
from tunix_core.testing import TINY_SPEC, EpisodeScript, Recorder, ScriptedEnvs, tiny_tenant, tiny_trainer
from tunix_core.trainer import Trainer
from tunix_core.types import EpisodeTicket, Fate

DURABLE = BufferSpec(store="durable")
TENANTS = [tiny_tenant("a", updates=6, seed=1), tiny_tenant("b", updates=5, seed=2)]


def make(
    schedule: Any,
    directory: Path | None,
    *,
    store: BufferSpec = DURABLE,
    recorder: Recorder | None = None,
    envs: ScriptedEnvs | None = None,
    every: int = 3,
    **changes: Any,
) -> Trainer:
    spec: TrainerSpec = replace(
        TINY_SPEC,
        checkpoint_dir=directory,
        checkpoint_every=every if directory else 0,
        buffer=store,
        **changes,
    )
    envs = envs or ScriptedEnvs(lambda t: EpisodeScript(observations=("ab", "c")))
    return tiny_trainer(TENANTS, schedule, envs, spec=spec, observer=recorder or Recorder())


def kept(directory: Path) -> int:
    with sqlite3.connect(directory / "buffer.sqlite") as db:
        (count,) = db.execute("SELECT count(*) FROM records").fetchone()
    db.close()
    return count


@pytest.mark.parametrize("schedule", ["S1", "A0", "A1"])
def test_the_store_changes_no_bit_of_what_is_learnt(schedule: str, tmp_path: Path) -> None:
    runs = []
    for directory, store in ((None, BufferSpec()), (tmp_path, DURABLE)):
        recorder = Recorder()
        result = make(schedule, directory, store=store, recorder=recorder).run()
        runs.append((result.updates, result.ledgers, recorder.adapters("a"), recorder.adapters("b")))
    assert runs[0] == runs[1]
    assert len(runs[0][2]) == 6


def test_a_finished_run_leaves_nothing_owed(tmp_path: Path) -> None:
    make("A1", tmp_path).run()
    assert kept(tmp_path) == 0


@pytest.mark.parametrize("schedule", ["S1", "A1"])
@pytest.mark.parametrize("killed_at", [7, 9])
def test_what_was_learnt_after_the_last_checkpoint_is_learnt_again_to_the_same_bits(
    schedule: str, killed_at: int, tmp_path: Path
) -> None:
    """Also in the asynchronous arm, where sampling again would give other tokens under another adapter."""
    before = KillAt(killed_at)
    with pytest.raises(Killed):
        make(schedule, tmp_path, recorder=before).run()
    opened: list[EpisodeTicket] = []
    envs = ScriptedEnvs(lambda t: opened.append(t) or EpisodeScript(observations=("ab", "c")))  # type: ignore[func-returns-value]
    after = Recorder()
    trainer = make(schedule, tmp_path, recorder=after, envs=envs)
    restored = trainer.restore()
    result = trainer.run()
    assert result.status == "success"
    for name in "ab":
        first, second = before.reports_of(name), after.reports_of(name)
        redone = [r.version_after for r in first if r.version_after > restored.updates[name]]
        again = after.adapters(name)[: len(redone)]
        assert again == before.adapters(name)[restored.updates[name] :][: len(redone)]
        # exactly once over the surviving history, and every redone group from the store
        history = [o for r in first if r.version_after <= restored.updates[name] for o in r.ordinals]
        history += [o for r in second for o in r.ordinals]
        assert sorted(history) == list(range(result.updates[name] * 2))
        spent = {o for r in first if r.version_after in redone for o in r.ordinals}
        assert not spent & {t.ordinal for t in opened if t.tenant_id == name}
    assert sum(restored.replayed.values()) > 0
    assert kept(tmp_path) == 0


def test_by_completion_nothing_from_a_version_that_is_no_more_is_replayed(tmp_path: Path) -> None:
    schedule = replace(arm("A1"), consume="completion")
    with pytest.raises(Killed):
        make(schedule, tmp_path, recorder=KillAt(8)).run()
    after = Recorder()
    trainer = make(schedule, tmp_path, recorder=after)
    trainer.restore()
    assert trainer.run().status == "success"
    assert all(age >= 0 for r in after.reports for age in r.staleness)


def test_a_run_that_begins_anew_owes_nothing_to_the_one_before(tmp_path: Path) -> None:
    with pytest.raises(Killed):
        make("S1", tmp_path, recorder=KillAt(1)).run()
    assert kept(tmp_path) > 0
    recorder, plain = Recorder(), Recorder()
    make("S1", tmp_path, recorder=recorder).run()
    make("S1", None, store=BufferSpec(), recorder=plain).run()
    assert recorder.adapters("a") == plain.adapters("a")
    assert recorder.fates("a") == plain.fates("a")


def test_records_that_are_learnt_force_a_checkpoint_before_they_outgrow_the_bound(tmp_path: Path) -> None:
    recorder = Recorder()
    room = BufferSpec(store="durable", max_bytes=97_000)
    make("A1", tmp_path, store=room, recorder=recorder, every=0).run()
    assert len([e for e in recorder.events if e.key == "checkpoint"]) > 1
    assert kept(tmp_path) == 0


def test_a_durable_buffer_without_checkpoints_is_refused() -> None:
    with pytest.raises(ConfigError, match="needs a checkpoint_dir"):
        make("A1", None)


def test_hardly_any_room_holds_groups_at_the_door_and_changes_nothing_else() -> None:
    """One update of each tenant fits, and little more: at first 4 of the 12 groups that A1 may start do."""
    tight = BufferSpec(max_bytes=2 * 2 * 4 * (4096 + 64 * (24 + 6)))
    recorder = Recorder()
    trainer = make("A1", None, store=tight, recorder=recorder)
    grant, granted = trainer._buffer.grant, []

    def counted(asked: Any) -> Any:
        granted.append((len(asked), len(found := grant(asked))))
        return found

    trainer._buffer.grant = counted
    result = trainer.run()
    assert granted[0] == (12, 4)
    assert result.status == "success" and result.updates == {"a": 6, "b": 5}
    assert recorder.fates("a") == {Fate.CONSUMED: 6 * 2 * 4}


def test_a_tenant_that_does_not_fit_is_refused_and_leaves_its_slot_free() -> None:
    tight = BufferSpec(max_bytes=2 * 2 * 4 * (4096 + 64 * (24 + 6)))
    trainer = make("A1", None, store=tight, tenant_slots=3)
    with pytest.raises(ConfigError, match="can't hold one update of every tenant"):
        trainer.add_tenant(tiny_tenant("c")).result()
    assert trainer.learner.slots[2] is None
    assert trainer.run().status == "success"


def test_a_disk_that_fills_up_ends_the_run_with_closed_books_and_a_resumed_one_loses_nothing(
    tmp_path: Path,
) -> None:
    recorder = Recorder()
    trainer = make("A1", tmp_path, recorder=recorder)
    store = trainer._buffer._store
    store._db.execute("PRAGMA max_page_count=14")  # type: ignore[union-attr]
    with pytest.raises(StorageError, match="database or disk is full"):
        trainer.run()
    assert all(b.ledger.closes() for b in trainer._buffers.values())
    again = make("A1", tmp_path, recorder=recorder)
    if again._checkpoints is not None and again._checkpoints.latest is not None:
        again.restore()
    result = again.run()
    assert result.status == "success" and result.updates == {"a": 6, "b": 5}
