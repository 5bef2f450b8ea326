"""The `durable` store: a SQLite file in write-ahead mode, written behind the caller's back.

Why SQLite: it is in the standard library, finds and drops a torn tail by itself, and is fast enough by a factor
(tests/benchmarks/buffer_speed.py has it beside LMDB). Records are committed in batches, and every commit is
synced to the disk (`synchronous=FULL`). A crash loses what had not been committed, a fraction of a second of
episodes; they are drawn again, so that costs time and never correctness.
"""

from __future__ import annotations

import queue
import sqlite3
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from tunix_core.buffer.record import decode, encode, size_of
from tunix_core.buffer.store import Key, Quarantined, Recovered
from tunix_core.errors import StorageError
from tunix_core.types import Trajectory

SCHEMA = 1
BATCH_RECORDS = 256
"""At most so many records a commit; as many as have come meanwhile, so a slow disk makes them larger."""
BEHIND_BYTES = 64 << 20
"""Not yet committed; past this the caller waits for the disk."""
BEHIND_S = 60.0
"""So long; a disk that takes longer is an error, not a hang."""

_LOCKED_S = 2.0
"""Another run on the same file ends within this, or it is an error."""

_TABLES = """
CREATE TABLE IF NOT EXISTS records (
  tenant TEXT NOT NULL, ordinal INTEGER NOT NULL, sample INTEGER NOT NULL, record BLOB NOT NULL,
  UNIQUE (tenant, ordinal, sample));
CREATE TABLE IF NOT EXISTS quarantine (
  tenant TEXT NOT NULL, ordinal INTEGER NOT NULL, sample INTEGER NOT NULL, record BLOB, reason TEXT NOT NULL);
"""


@dataclass(slots=True)
class _Job:
    keep: Trajectory | None = None
    size: int = 0
    acknowledge: tuple[tuple[str, int], ...] = ()
    clear: bool = False
    done: threading.Event | None = field(default=None)


class DurableStore:
    """One file, one thread that writes it. `recover` once, before anything is kept."""

    def __init__(self, path: Path, *, behind_s: float = BEHIND_S) -> None:
        """Opens the file, or makes it. One that can't be read is set aside and a new one begun: see `recover`."""
        self.path = path
        self._behind_s = behind_s
        self._error: BaseException | None = None
        self._broken: list[Quarantined] = []
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._writing = threading.Lock()  # held during a commit
        self._room = threading.Condition()  # guards _behind
        self._behind = 0
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._failure(error) from error
        self._db = self._open()
        self._thread = threading.Thread(target=self._work, name="buffer-writer", daemon=True)
        self._thread.start()

    def recover(self) -> Recovered:
        """Every record that reads as it was written; one that doesn't is moved to the table `quarantine`."""
        self.flush()
        found: dict[Key, Trajectory] = {}
        bad: list[tuple[Key, int, str]] = []
        try:
            for row, tenant, ordinal, sample, record in self._db.execute(
                "SELECT rowid, tenant, ordinal, sample, record FROM records ORDER BY rowid"
            ):
                key = (tenant, ordinal, sample)
                try:
                    trajectory = decode(record)
                    if trajectory.ticket.key != key:
                        raise StorageError(f"holds {trajectory.ticket.key}")
                    found[key] = trajectory
                except StorageError as error:
                    bad.append((key, row, str(error)))
            self._db.execute("BEGIN")
            for _, row, reason in bad:
                self._db.execute(
                    "INSERT INTO quarantine SELECT tenant, ordinal, sample, record, ? FROM records WHERE rowid=?",
                    (reason, row),
                )
                self._db.execute("DELETE FROM records WHERE rowid=?", (row,))
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            raise self._failure(error) from error
        quarantined = tuple(Quarantined(key=key, reason=reason) for key, _, reason in bad)
        return Recovered(trajectories=found, quarantined=(*self._broken, *quarantined))

    def keep(self, trajectory: Trajectory) -> None:
        """Queues a record; waits while more than BEHIND_BYTES are not committed, BEHIND_S at most."""
        size = size_of(trajectory)
        with self._room:
            there = self._room.wait_for(
                lambda: self._error is not None or self._behind == 0 or self._behind + size <= BEHIND_BYTES,
                self._behind_s,
            )
            if not there:
                raise StorageError(
                    f"{self.path}: {self._behind} bytes are waiting for the disk for {self._behind_s:g} s; "
                    "use a faster disk or buffer='memory'"
                )
            self._behind += size
        self._put(_Job(keep=trajectory, size=size))

    def acknowledge(self, groups: Iterable[tuple[str, int]]) -> None:
        """Queues the deletion of these groups' records."""
        if groups := tuple(groups):
            self._put(_Job(acknowledge=groups))

    def clear(self) -> None:
        """Queues the deletion of every record."""
        self._put(_Job(clear=True))

    def flush(self) -> None:
        """Returns once everything queued is committed and synced."""
        done = threading.Event()
        self._put(_Job(done=done))
        done.wait()
        self._raise()

    def close(self) -> None:
        """Commits what is queued and ends the thread; raises StorageError where that fails. Twice is once."""
        if self._thread.is_alive():
            self._jobs.put(None)
            self._thread.join()
        self._db.close()
        self._raise()

    def _put(self, job: _Job) -> None:
        self._raise()
        self._jobs.put(job)

    def _raise(self) -> None:
        if self._error is not None:
            raise self._failure(self._error) from self._error

    def _failure(self, error: BaseException) -> StorageError:
        return StorageError(
            f"{self.path}: {error}. What was committed before is whole; free some space, or name another "
            "folder, and resume"
        )

    def _open(self) -> sqlite3.Connection:
        try:
            return self._connect()
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):
                raise self._failure(error) from error
            # altered beyond reading: nothing is lost for good, since every episode can be drawn again
            aside = self.path.with_name(f"{self.path.name}.broken")
            self._broken.append(
                Quarantined(key=("", -1, -1), reason=f"{self.path.name} set aside as {aside.name}: {error}")
            )
            for end in ("-wal", "-shm"):
                self.path.with_name(self.path.name + end).unlink(missing_ok=True)
            self.path.replace(aside)
            return self._connect()

    def _connect(self) -> sqlite3.Connection:
        # two threads use it, one after the other: the writer, and the owner in `recover` once the queue is empty
        db = sqlite3.connect(self.path, timeout=_LOCKED_S, isolation_level=None, check_same_thread=False)
        try:
            # a second run on the same file is an error at its start, not a mixture
            db.execute("PRAGMA locking_mode=EXCLUSIVE")
            db.execute("PRAGMA journal_mode=WAL")
            db.execute("PRAGMA synchronous=FULL")
            (version,) = db.execute("PRAGMA user_version").fetchone()
            if version not in (0, SCHEMA):
                raise StorageError(
                    f"{self.path} is of schema {version}; this is {SCHEMA}. Name another folder"
                )
            (sound,) = db.execute("PRAGMA quick_check(1)").fetchone()
            if sound != "ok":
                raise sqlite3.DatabaseError(sound)
            db.executescript(_TABLES)
            db.execute(f"PRAGMA user_version={SCHEMA}")
        except BaseException:
            db.close()
            raise
        return db

    # ---------------------------------------------------------------- the writing thread

    def _work(self) -> None:
        ended = False
        while not ended:
            batch, ended = self._next_batch()
            with self._writing:
                if self._error is None:
                    try:
                        self._commit(batch)
                    except (sqlite3.Error, OSError) as error:
                        self._error = error
            with self._room:
                self._behind -= sum(job.size for job in batch)
                self._room.notify_all()
            for job in batch:
                if job.done is not None:
                    job.done.set()

    def _next_batch(self) -> tuple[list[_Job], bool]:
        """Waits for a job; it and those that came meanwhile, and whether they are the last."""
        jobs = [self._jobs.get()]
        while jobs[-1] is not None and len(jobs) < BATCH_RECORDS:
            try:
                jobs.append(self._jobs.get_nowait())
            except queue.Empty:
                break
        return [job for job in jobs if job is not None], jobs[-1] is None

    def _commit(self, batch: list[_Job]) -> None:
        """One transaction; nothing of a batch that fails is kept."""
        db = self._db
        db.execute("BEGIN")
        try:
            for job in batch:
                if job.keep is not None:
                    record = (*job.keep.ticket.key, encode(job.keep))
                    db.execute("INSERT OR IGNORE INTO records VALUES (?, ?, ?, ?)", record)
                elif job.acknowledge:
                    db.executemany("DELETE FROM records WHERE tenant=? AND ordinal=?", job.acknowledge)
                elif job.clear:
                    db.execute("DELETE FROM records")
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise
