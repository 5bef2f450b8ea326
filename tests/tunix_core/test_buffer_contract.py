"""What every store promises (docs/buffer.md): one set of tests, each store in turn."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.tunix_core.test_buffer import arrived
from tunix_core.buffer import BufferSpec, Put, Quarantined, TrajectoryBuffer
from tunix_core.buffer.durable import DurableStore
from tunix_core.buffer.groups import TenantBuffer
from tunix_core.buffer.record import decode, encode, size_of
from tunix_core.buffer.store import open_store
from tunix_core.errors import ConfigError, StorageError
from tunix_core.schedule import Admission
from tunix_core.tenant import tickets
from tunix_core.testing import tiny_tenant
from tunix_core.types import EpisodeTicket, Fate, TenantSpec, Trajectory

EPISODE = size_of(arrived(tickets(tiny_tenant("a"), 0, 0)[0]))
STORES = ("memory", "durable")


def tenant(name: str, **changes: Any) -> TenantSpec:
    return tiny_tenant(name, **{"group_size": 3, "groups_per_update": 2, "updates": 50, **changes})


def open_buffer(
    kind: str, folder: Path, *tenants: TenantSpec, groups: int = 100, **changes: Any
) -> TrajectoryBuffer:
    """A buffer with room for so many groups of three."""
    spec = BufferSpec(max_bytes=groups * 3 * EPISODE, **changes)
    buffer = TrajectoryBuffer(spec, open_store(kind, folder), episode_bytes=EPISODE)
    for t in tenants or (tenant("a"), tenant("b")):
        buffer.join(t)
    return buffer


def members(name: str, ordinal: int) -> tuple[EpisodeTicket, ...]:
    return tickets(tenant(name), ordinal, 0)


def fill(buffer: TrajectoryBuffer, name: str, ordinal: int) -> list[Put]:
    buffer.admit(name, ordinal)
    return [buffer.put(arrived(ticket)) for ticket in members(name, ordinal)]


@pytest.fixture(params=STORES)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


# ---------------------------------------------------------------- groups


def test_a_group_is_delivered_whole_or_not_at_all(kind: str, tmp_path: Path) -> None:
    buffer = open_buffer(kind, tmp_path)
    buffer.admit("a", 0)
    first, second, third = members("a", 0)
    assert [buffer.put(arrived(t)) for t in (third, first)] == [Put.ACCEPTED, Put.ACCEPTED]
    with pytest.raises(ValueError, match="has 2 of 3 members"):
        buffer.take("a", [0], Fate.CONSUMED)
    assert buffer.put(arrived(second)) is Put.COMPLETE
    (group,) = buffer.take("a", [0], Fate.CONSUMED)
    assert [t.ticket.sample_index for t in group.trajectories] == [0, 1, 2]
    buffer.shut()


def test_an_identity_is_accepted_once_before_and_after_its_group_is_learnt(kind: str, tmp_path: Path) -> None:
    buffer = open_buffer(kind, tmp_path)
    fill(buffer, "a", 0)
    again = arrived(members("a", 0)[1])
    assert buffer.put(again) is Put.DUPLICATE
    buffer.take("a", [0], Fate.CONSUMED)
    assert buffer.put(again) is Put.DUPLICATE
    assert buffer.counts["a"] == {Put.ACCEPTED: 3, Put.DUPLICATE: 2}
    with pytest.raises(ValueError, match="never admitted"):
        buffer.put(arrived(members("a", 7)[0]))
    buffer.shut()


def test_stale_groups_leave_with_their_count(kind: str, tmp_path: Path) -> None:
    buffer = open_buffer(kind, tmp_path)
    fill(buffer, "a", 0)
    buffer.take("a", [0], Fate.STALE)
    assert buffer.tenants["a"].ledger.snapshot()["stale"] == {"groups": 1, "rollouts": 3, "tokens": 12}
    assert buffer.bytes == 0 and buffer.tenants["a"].ledger.closes()
    buffer.shut()


# ---------------------------------------------------------------- the bound


def test_a_record_without_room_is_refused_until_something_is_taken(kind: str, tmp_path: Path) -> None:
    buffer = open_buffer(kind, tmp_path, tenant("a"), groups=2)
    assert Put.FULL not in fill(buffer, "a", 0) + fill(buffer, "a", 1)
    assert buffer.bytes == buffer.max_bytes
    assert fill(buffer, "a", 2) == [Put.FULL] * 3
    buffer.take("a", [0], Fate.CONSUMED)
    assert [buffer.put(arrived(t)) for t in members("a", 2)] == [Put.ACCEPTED, Put.ACCEPTED, Put.COMPLETE]
    assert buffer.counts["a"][Put.FULL] == 3
    buffer.shut()


def test_a_bound_that_cannot_hold_one_update_of_everybody_is_refused(kind: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"can't hold one update of every tenant, \d+ bytes: raise it"):
        open_buffer(kind, tmp_path, tenant("a"), tenant("b"), groups=3)


def asked(name: str, ordinals: range) -> list[Admission]:
    return [Admission(tenant_id=name, ordinal=k) for k in ordinals]


def test_with_room_for_all_nobody_is_held_up_or_reordered(kind: str, tmp_path: Path) -> None:
    buffer = open_buffer(kind, tmp_path)
    wanted = asked("b", range(4)) + asked("a", range(3))
    assert buffer.grant(wanted) == wanted
    buffer.shut()


def test_scarce_room_is_dealt_by_weight_however_much_one_asks_for(kind: str, tmp_path: Path) -> None:
    """A floods; b has three times its weight. Each has its next update, what is left goes 1 : 3."""
    buffer = open_buffer(kind, tmp_path, tenant("a"), tenant("b", weight=3.0), groups=2 + 2 + 16)
    granted = Counter(a.tenant_id for a in buffer.grant(asked("a", range(500)) + asked("b", range(500))))
    assert granted == {"a": 2 + 4, "b": 2 + 12}
    buffer.shut()


def test_a_flood_leaves_the_next_update_of_a_tenant_that_comes_later_its_room(
    kind: str, tmp_path: Path
) -> None:
    buffer = open_buffer(kind, tmp_path, groups=8)
    for a in buffer.grant(asked("a", range(500))):
        assert Put.FULL not in fill(buffer, "a", a.ordinal)
    assert len(buffer.tenants["a"].open) == 6
    for b in buffer.grant(asked("b", range(2))):
        assert Put.FULL not in fill(buffer, "b", b.ordinal)
    assert len(buffer.tenants["b"].open) == 2
    assert buffer.grant(asked("a", range(6, 500))) == []
    buffer.shut()


# ---------------------------------------------------------------- acknowledged and not


def test_a_store_keeps_what_was_learnt_until_the_checkpoint_that_has_it_is_on_disk(tmp_path: Path) -> None:
    buffer = open_buffer("durable", tmp_path)

    def kept() -> set[int]:
        buffer.flush()
        store = buffer._store
        assert isinstance(store, DurableStore)
        return {k for (k,) in store._db.execute("SELECT DISTINCT ordinal FROM records")}

    for k in range(3):
        fill(buffer, "a", k)
        buffer.take("a", [k], Fate.CONSUMED)
        buffer.seal(k + 1)
    assert kept() == {0, 1, 2}
    buffer.acknowledge(None)
    assert kept() == {0, 1, 2}
    buffer.acknowledge(2)
    assert kept() == {2}
    fill(buffer, "a", 3)
    buffer.close("a")
    assert kept() == {2, 3}
    buffer.clear()
    assert kept() == set()
    buffer.shut()


def test_what_a_checkpoint_has_learnt_is_not_delivered_again_though_the_store_still_had_it(
    tmp_path: Path,
) -> None:
    """The run died between the checkpoint and its acknowledgement."""
    buffer = open_buffer("durable", tmp_path)
    fill(buffer, "a", 0)
    fill(buffer, "a", 1)
    buffer.take("a", [0], Fate.CONSUMED)
    saved = buffer.tenants["a"].to_json()
    buffer.shut()
    again = open_buffer("durable", tmp_path)
    again.join(tenant("a"), TenantBuffer.from_json(tenant("a"), saved))
    assert set(again.recover(lambda t: True).trajectories) == {("a", 1, i) for i in range(3)}
    assert sorted(t.ticket.key for t in again.admit("a", 1)) == [("a", 1, i) for i in range(3)]
    again.shut()


def test_a_group_with_a_member_nobody_may_use_is_drawn_again_whole(tmp_path: Path) -> None:
    buffer = open_buffer("durable", tmp_path)
    fill(buffer, "a", 0)
    fill(buffer, "a", 1)
    buffer.shut()
    again = open_buffer("durable", tmp_path)
    found = again.recover(lambda t: t.ticket.key != ("a", 0, 2))
    assert {key[1] for key in found.trajectories} == {1}
    assert again.admit("a", 0) == []
    again.shut()


def test_a_tenant_that_left_is_forgotten_with_the_next_checkpoint(tmp_path: Path) -> None:
    buffer = open_buffer("durable", tmp_path)
    fill(buffer, "a", 0)
    assert len(buffer.close("a", forget=True)) == 3
    buffer.seal(1)
    buffer.acknowledge(1)
    buffer.shut()
    again = open_buffer("durable", tmp_path)
    assert again.recover(lambda t: True).trajectories == {}
    again.shut()


# ---------------------------------------------------------------- what is on the disk


def test_a_record_comes_back_bit_for_bit() -> None:
    whole = arrived(members("a", 3)[1], version=5)
    odd = replace(whole.turns[0], text="\ud800 ü \x00", role="environment", stop=None)
    odd = replace(odd, behavior_logprobs=np.asarray([np.nan, -0.0, -np.inf, 1e-45], np.float32))
    whole = replace(whole, turns=(whole.turns[0], odd), reward=float("nan"), error="boom")
    back = decode(encode(whole))
    assert np.isnan(back.reward) and replace(back, reward=0.0, turns=()) == replace(
        whole, reward=0.0, turns=()
    )
    for a, b in zip(whole.turns, back.turns, strict=True):
        assert (a.role, a.text, a.stop) == (b.role, b.text, b.stop)
        for name in ("token_ids", "loss_mask", "behavior_logprobs", "policy_version"):
            x, y = getattr(a, name), getattr(b, name)
            assert x.dtype == y.dtype and x.tobytes() == y.tobytes()


def test_no_altered_byte_of_a_record_goes_unseen() -> None:
    record = encode(arrived(members("a", 0)[0]))
    for at in range(len(record)):
        torn = bytearray(record)
        torn[at] ^= 0x40
        for altered in (bytes(torn), record[:at]):
            with pytest.raises(StorageError, match="checksum"):
                decode(altered)


def test_an_altered_record_is_quarantined_and_the_others_are_recovered(tmp_path: Path) -> None:
    buffer = open_buffer("durable", tmp_path)
    fill(buffer, "a", 0)
    buffer.shut()
    with sqlite3.connect(tmp_path / "buffer.sqlite") as db:
        (record,) = db.execute("SELECT record FROM records WHERE sample=1").fetchone()
        db.execute("UPDATE records SET record=? WHERE sample=1", (record[:-1] + b"!",))
    db.close()
    for quarantined in (1, 0):  # once: then it is out of the way, for whoever wants to look at it
        again = open_buffer("durable", tmp_path)
        found = again.recover(lambda t: True)
        assert set(found.trajectories) == {("a", 0, 0), ("a", 0, 2)}
        assert [q.key for q in found.quarantined] == [("a", 0, 1)] * quarantined
        again.shut()
    with sqlite3.connect(tmp_path / "buffer.sqlite") as db:
        assert db.execute("SELECT sample, reason FROM quarantine").fetchall() == [
            (1, f"checksum of {len(record)} bytes does not match")
        ]
    db.close()


def test_a_torn_tail_costs_the_last_records_and_nothing_before(tmp_path: Path) -> None:
    """The write-ahead file, cut at many places as a crash may leave it: whole batches in front of the cut."""
    store = DurableStore(tmp_path / "whole" / "buffer.sqlite")
    store._db.execute("PRAGMA wal_autocheckpoint=0")
    for k in range(6):
        store.keep(arrived(members("a", k)[0]))
        store.flush()
    files = {p.name: p.read_bytes() for p in (tmp_path / "whole").iterdir()}
    store.close()
    wal = files["buffer.sqlite-wal"]
    seen = set()
    for i, cut in enumerate(range(0, len(wal) + 1, max(1, len(wal) // 23))):
        folder = tmp_path / str(i)
        folder.mkdir()
        (folder / "buffer.sqlite").write_bytes(files["buffer.sqlite"])
        # a cut and, beyond it, what a disk may have left there
        (folder / "buffer.sqlite-wal").write_bytes(wal[:cut] + b"\xff" * 1000)
        torn = DurableStore(folder / "buffer.sqlite")
        ordinals = sorted(k for _, k, _ in torn.recover().trajectories)
        assert ordinals == list(range(len(ordinals)))
        seen.add(len(ordinals))
        torn.keep(arrived(members("a", 9)[0]))
        torn.close()
    assert seen >= {1, 2, 3, 4, 5}


def test_a_file_beyond_reading_is_set_aside_and_said(tmp_path: Path) -> None:
    (tmp_path / "buffer.sqlite").write_bytes(b"not a database" * 1000)
    store = DurableStore(tmp_path / "buffer.sqlite")
    found = store.recover()
    assert found.trajectories == {}
    assert (
        "buffer.sqlite set aside as buffer.sqlite.broken: file is not a database"
        in found.quarantined[0].reason
    )
    assert (tmp_path / "buffer.sqlite.broken").exists()
    store.close()


def test_a_full_disk_is_an_error_that_says_so_and_keeps_what_was_committed(tmp_path: Path) -> None:
    store = DurableStore(tmp_path / "buffer.sqlite")
    store.keep(arrived(members("a", 0)[0]))
    store.flush()
    (pages,) = store._db.execute("PRAGMA page_count").fetchone()
    store._db.execute(f"PRAGMA max_page_count={pages}")
    with pytest.raises(StorageError, match=r"database or disk is full\. What was committed before is whole"):
        for k in range(1, 100):
            store.keep(arrived(members("a", k)[0], tokens=500))
            store.flush()
    with pytest.raises(StorageError):
        store.keep(arrived(members("a", 100)[0]))
    with pytest.raises(StorageError):
        store.close()
    again = DurableStore(tmp_path / "buffer.sqlite")
    assert ("a", 0, 0) in again.recover().trajectories
    again.close()


def test_a_file_in_use_is_refused(tmp_path: Path) -> None:
    store = DurableStore(tmp_path / "buffer.sqlite")
    with pytest.raises(StorageError, match="database is locked"):
        DurableStore(tmp_path / "buffer.sqlite", behind_s=0.1)
    store.close()
    store.close()


def test_a_disk_that_does_not_keep_up_makes_the_producer_wait_and_then_ends_the_run(tmp_path: Path) -> None:
    store = DurableStore(tmp_path / "buffer.sqlite", behind_s=0.05)
    big = arrived(members("a", 0)[0], tokens=100)
    big = replace(big, turns=(replace(big.turns[0], text="x" * (40 << 20)),))
    with store._writing:
        store.keep(big)
        with pytest.raises(StorageError, match=r"bytes are waiting for the disk for 0\.05 s"):
            store.keep(replace(big, ticket=members("a", 1)[0]))
    store.flush()
    assert set(store.recover().trajectories) == {("a", 0, 0)}
    store.close()


# ---------------------------------------------------------------- poison


@pytest.mark.parametrize("fault", ["lengths", "huge"])
def test_a_malformed_record_is_set_aside_with_its_reason_and_its_group_goes_on(
    fault: str, kind: str, tmp_path: Path
) -> None:
    said: list[Quarantined] = []
    buffer = open_buffer(kind, tmp_path, record_bytes=EPISODE + 100)
    buffer._on_quarantine = said.append
    buffer.admit("a", 0)
    first, second, third = (arrived(t) for t in members("a", 0))
    if fault == "lengths":
        first = replace(first, turns=(replace(first.turns[0], loss_mask=np.ones(3, bool)),))
    else:
        first = replace(first, turns=(replace(first.turns[0], text="x" * 200),))
    assert [buffer.put(t) for t in (first, second, third)][-1] is Put.COMPLETE
    reason = {"lengths": "turn 0 has 4 token_ids, 3 loss_mask, ", "huge": "bytes, and a record may have"}[
        fault
    ]
    assert [q.key for q in said] == [("a", 0, 0)] and reason in said[0].reason
    (group,) = buffer.take("a", [0], Fate.CONSUMED)
    assert reason in str(group.trajectories[0].error)
    assert buffer.counts["a"]["quarantined"] == 1
    assert buffer.tenants["a"].ledger.snapshot()["errored"]["rollouts"] == 1
    buffer.shut()


# ---------------------------------------------------------------- the machine


class Contract(RuleBasedStateMachine):
    """Anything in any order, and crashes: the books close, the bound holds, nothing is learnt twice or lost.

    What survives a crash are the books of the newest checkpoint and, in a durable store, every record flushed
    and not acknowledged. `learnt` is the surviving history.
    """

    kind = "memory"

    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.buffer = open_buffer(self.kind, self.folder, groups=8)
        self.open: dict[tuple[str, int], set[int]] = {}
        self.learnt: Counter[tuple[str, int]] = Counter()
        self.step = 0
        self.kept: set[tuple[str, int, int]] = set()
        self.saved: dict[str, Any] = self.books()

    def books(self) -> dict[str, Any]:
        return {
            "tenants": {n: t.to_json() for n, t in self.buffer.tenants.items()},
            "learnt": Counter(self.learnt),
        }

    @rule(name=st.sampled_from("ab"), count=st.integers(1, 9))
    def admit(self, name: str, count: int) -> None:
        first = self.buffer.tenants[name].admitted
        for a in self.buffer.grant(asked(name, range(first, first + count))):
            self.start(name, a.ordinal)

    def start(self, name: str, ordinal: int) -> None:
        known = self.buffer.admit(name, ordinal)
        self.open[name, ordinal] = set()
        for t in known:
            self.hand_in(t)

    def hand_in(self, t: Trajectory) -> None:
        name, ordinal, sample = t.ticket.key
        before = sample in self.open[name, ordinal]
        put = self.buffer.put(t)
        assert put is (
            Put.DUPLICATE if before else Put.COMPLETE if len(self.open[name, ordinal]) == 2 else Put.ACCEPTED
        )
        self.open[name, ordinal].add(sample)
        self.kept.add((name, ordinal, sample))

    @precondition(lambda self: self.open)
    @rule(data=st.data(), sample=st.integers(0, 2), failed=st.booleans())
    def arrive(self, data: st.DataObject, sample: int, failed: bool) -> None:
        name, ordinal = data.draw(st.sampled_from(sorted(self.open)))
        self.hand_in(arrived(members(name, ordinal)[sample], error="x" if failed else None))

    @precondition(lambda self: any(len(m) == 3 for m in self.open.values()))
    @rule(data=st.data(), fate=st.sampled_from([Fate.CONSUMED, Fate.CONSUMED, Fate.STALE]))
    def take(self, data: st.DataObject, fate: Fate) -> None:
        name, ordinal = data.draw(st.sampled_from(sorted(k for k, m in self.open.items() if len(m) == 3)))
        (group,) = self.buffer.take(name, [ordinal], fate)
        assert [t.ticket.key for t in group.trajectories] == [(name, ordinal, i) for i in range(3)]
        del self.open[name, ordinal]
        self.learnt[name, ordinal] += fate is Fate.CONSUMED

    @rule(got=st.sampled_from(["begun", "complete", "acknowledged"]))
    def checkpoint(self, got: str) -> None:
        """How far it gets before the machine may die."""
        self.step += 1
        self.buffer.seal(self.step)
        if got != "begun":
            self.saved = self.books()
        if got == "acknowledged":
            self.buffer.acknowledge(self.step)

    @rule()
    def crash(self) -> None:
        """The process dies; what was committed is all there is."""
        self.buffer.flush()
        self.buffer.shut()
        settled = {
            (n, k)
            for n, books in self.saved["tenants"].items()
            for k in range(books["admitted"])
            if TenantBuffer.from_json(tenant(n), books).ledger.settled(k)
        }
        self.buffer = open_buffer(self.kind, self.folder, groups=8)
        for name, books in self.saved["tenants"].items():
            self.buffer.join(tenant(name), TenantBuffer.from_json(tenant(name), books))
        found = self.buffer.recover(lambda t: True)
        owed = {key for key in self.kept if key[:2] not in settled} if self.kind == "durable" else set()
        assert set(found.trajectories) == owed and not found.quarantined
        self.kept, self.open, self.learnt = set(owed), {}, Counter(self.saved["learnt"])
        for name, books in self.saved["tenants"].items():
            for ordinal in books["open"]:
                self.start(name, ordinal)

    @invariant()
    def holds(self) -> None:
        if not hasattr(self, "buffer"):
            return
        assert 0 <= self.buffer.bytes <= self.buffer.max_bytes
        assert self.buffer.bytes == sum(t.bytes for t in self.buffer.tenants.values())
        assert all(n <= 1 for n in self.learnt.values())
        for name, t in self.buffer.tenants.items():
            books = t.ledger.snapshot()
            assert set(t.open) == {k for n, k in self.open if n == name}
            assert books["generated"] == {
                unit: sum(books[f][unit] for f in books if f != "generated") for unit in books["generated"]
            }

    def teardown(self) -> None:
        if hasattr(self, "buffer"):
            for name in self.buffer.tenants:
                self.buffer.close(name)
                assert self.buffer.tenants[name].ledger.closes()
            assert self.buffer.bytes == 0
            self.buffer.shut()
            shutil.rmtree(self.folder)


class DurableContract(Contract):
    kind = "durable"


FEW = settings(
    max_examples=15, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestMemory = Contract.TestCase
TestMemory.settings = settings(FEW, max_examples=40)
TestDurable = DurableContract.TestCase
TestDurable.settings = FEW
