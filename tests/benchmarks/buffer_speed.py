"""What the buffer costs, beside queues people know: one interleaved run, records of 50 to 2,000 tokens.

    python -m tests.benchmarks.buffer_speed [--records 20000] [--rounds 3] [--flat 1000,1000000] [--json FILE]

Every case moves the same trajectories (tokens log-uniform, so a mean of about 500) from put to take, one thread
each side where the case has two. `memory` and `queue.Queue` hand over references; Redis gets the same encoded
record as `durable`, in pipelines of 32, and acknowledges it. A store's figure counts from the first `keep` until
everything is committed and synced. SQLite and LMDB stand beside each other with the same records, batches and
sync at every commit: that is how `durable` chose its engine. What is not installed (lmdb, redis, redis-server) is
left out, and said.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import queue
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tests.benchmarks.harness import Timed, interleave, ratio, write
from tunix_core.buffer import BufferSpec, Put, TrajectoryBuffer
from tunix_core.buffer.durable import BATCH_RECORDS, DurableStore
from tunix_core.buffer.record import decode, encode
from tunix_core.buffer.store import Store
from tunix_core.types import EpisodeTicket, Fate, StopReason, TenantSpec, Trajectory, Turn

GROUP, BACKLOG = 8, 512
"""Members of a group; groups that wait before the consumer takes the oldest."""
TENANT = TenantSpec(tenant_id="t", env_ids=("e",), group_size=GROUP, groups_per_update=1, updates=10**9)


def made(count: int = 500) -> list[Trajectory]:
    """Different trajectories, each a prompt and an answer, of 50 to 2,000 tokens together."""
    rng = np.random.default_rng(0)
    found = []
    for tokens in np.exp(rng.uniform(np.log(50), np.log(2000), count)).astype(int):
        turns = tuple(
            _turn(rng, n, role)
            for n, role in ((tokens // 4, "environment"), (tokens - tokens // 4, "policy"))
        )
        ticket = EpisodeTicket(
            tenant_id="t", ordinal=0, sample_index=0, env_id="e", split="train", env_seed=0, item_index=0
        )
        found.append(
            Trajectory(
                ticket=ticket,
                item_uid="u" * 64,
                turns=turns,
                reward=1.0,
                grade_status="correct",
                stop=StopReason.TERMINATED,
                fate=Fate.OPEN,
                t_start_ns=0,
                t_end_ns=1,
            )
        )
    return found


def _turn(rng: np.random.Generator, n: int, role: str) -> Turn:
    sampled = role == "policy"
    return Turn(
        role=role,
        text="",
        token_ids=rng.integers(0, 259, n).astype(np.int32),
        loss_mask=np.full(n, sampled),
        behavior_logprobs=rng.normal(-1, 1, n).astype(np.float32),
        policy_version=np.full(n, 0 if sampled else -1, np.int32),
        stop=StopReason.EOS if sampled else None,
        t_start_ns=0,
        t_end_ns=1,
    )


def identified(trajectories: list[Trajectory], count: int) -> Iterator[Trajectory]:
    """So many trajectories, each with an identity of its own, group by group."""
    for i in range(count):
        t = trajectories[i % len(trajectories)]
        ticket = replace(t.ticket, ordinal=i // GROUP, sample_index=i % GROUP)
        yield replace(t, ticket=ticket)


def through_buffer(items: Iterable[Trajectory], store: Store | None, took: list[float] | None = None) -> None:
    """Admit, put, take and acknowledge; with `took`, each put and its share of a take is timed on its own."""
    buffer = TrajectoryBuffer(BufferSpec(max_bytes=8 << 30), store)
    buffer.join(TENANT)
    clock = time.perf_counter
    for i, t in enumerate(items):
        ordinal = t.ticket.ordinal
        began = clock() if took is not None else 0.0
        if i % GROUP == 0:
            buffer.admit("t", ordinal)
        done = buffer.put(t)
        if done is Put.COMPLETE and ordinal >= BACKLOG:
            buffer.take("t", [ordinal - BACKLOG], Fate.CONSUMED)
        if store is not None and ordinal % BACKLOG == 0 and i % GROUP == 0:
            buffer.seal(ordinal)
            buffer.acknowledge(ordinal)
        if took is not None:
            took.append(clock() - began)
    buffer.flush()
    buffer.shut()


def through_queue(items: list[Trajectory]) -> None:
    """queue.Queue with as many waiting; no identities, groups, books or bytes."""
    q: queue.Queue[Trajectory] = queue.Queue(BACKLOG * GROUP)
    for t in items:
        if q.full():
            q.get()
        q.put(t)
    while not q.empty():
        q.get()


def durable(items: list[Trajectory], folder: Path) -> None:
    """The durable buffer on a new file."""
    path = Path(tempfile.mkdtemp(dir=folder))
    through_buffer(items, DurableStore(path / "buffer.sqlite"))
    shutil.rmtree(path)


def sqlite_alone(items: list[Trajectory], folder: Path) -> None:
    """Writing alone, as the durable store does it."""
    path = Path(tempfile.mkdtemp(dir=folder))
    store = DurableStore(path / "buffer.sqlite")
    for t in items:
        store.keep(t)
    store.close()
    shutil.rmtree(path)


def lmdb_alone(items: list[Trajectory], folder: Path) -> None:
    """The same records in the same batches, each transaction synced."""
    import lmdb  # type: ignore[import-not-found]

    path = Path(tempfile.mkdtemp(dir=folder))
    env = lmdb.open(str(path), map_size=16 << 30, sync=True)
    for at in range(0, len(items), BATCH_RECORDS):
        with env.begin(write=True) as transaction:
            for t in items[at : at + BATCH_RECORDS]:
                key = f"{t.ticket.tenant_id}/{t.ticket.ordinal:012d}/{t.ticket.sample_index:05d}".encode()
                transaction.put(key, encode(t), overwrite=False)
    env.close()
    shutil.rmtree(path)


@contextlib.contextmanager
def redis_server(folder: Path) -> Iterator[Any]:
    """A server of our own on a socket, in memory."""
    import redis  # type: ignore[import-not-found]

    socket = Path(tempfile.mkdtemp()) / "redis.sock"
    server = subprocess.Popen(
        ["redis-server", "--port", "0", "--unixsocket", str(socket), "--save", "", "--dir", str(folder)],
        stdout=subprocess.DEVNULL,
    )
    try:
        client = redis.Redis(unix_socket_path=str(socket))
        for _ in range(100):
            with contextlib.suppress(redis.ConnectionError):
                client.ping()
                break
            time.sleep(0.05)
        yield client
    finally:
        server.terminate()
        server.wait()


def through_redis(items: list[Trajectory], client: Any) -> None:
    """A stream with a consumer group: XADD and XREADGROUP + XACK in batches of 32, then deleted."""
    client.delete("s")
    client.xgroup_create("s", "g", mkstream=True)
    for at in range(0, len(items), 32):
        pipe = client.pipeline(transaction=False)
        for t in items[at : at + 32]:
            pipe.xadd("s", {b"r": encode(t)})
        pipe.execute()
        ((_, entries),) = client.xreadgroup("g", "c", {"s": ">"}, count=32)
        for _, fields in entries:
            decode(fields[b"r"])
        pipe = client.pipeline(transaction=False)
        ids = [i for i, _ in entries]
        pipe.xack("s", "g", *ids)
        pipe.xdel("s", *ids)
        pipe.execute()


def missing(*modules: str, program: str | None = None) -> str | None:
    """What of it is not here."""
    absent = [m for m in modules if importlib.util.find_spec(m) is None]
    if program is not None and shutil.which(program) is None:
        absent.append(program)
    return ", ".join(absent) or None


def main() -> None:
    """Runs, prints, and writes what was asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--flat", default="1000,10000,100000")
    parser.add_argument("--folder", type=Path, help="where files are written; unset: the temporary folder")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    folder = Path(tempfile.mkdtemp(dir=args.folder))
    pool = made()
    items = list(identified(pool, args.records))
    skipped: dict[str, str] = {}
    stores: list[tuple[str, Callable[[], Store | None]]] = [
        ("memory", lambda: None),
        ("durable", lambda: DurableStore(Path(tempfile.mkdtemp(dir=folder)) / "buffer.sqlite")),
    ]
    with contextlib.ExitStack() as stack:
        cases = [
            _case("memory", lambda: through_buffer(items, None), items),
            _case("queue.Queue", lambda: through_queue(items), items),
            _case("durable (SQLite, fsync a commit)", lambda: durable(items, folder), items),
            _case("SQLite, writing alone", lambda: sqlite_alone(items, folder), items),
        ]
        if absent := missing("lmdb"):
            skipped["LMDB, writing alone"] = absent
        else:
            cases.append(_case("LMDB, writing alone", lambda: lmdb_alone(items, folder), items))
        if absent := missing("redis", program="redis-server"):
            skipped["Redis Streams, in memory"] = absent
        else:
            client = stack.enter_context(redis_server(folder))
            cases.append(_case("Redis Streams, in memory", lambda: through_redis(items, client), items))
        skipped["Ray object store"] = "not measured by this script: Ray wants an environment of its own"
        interleave(cases, args.rounds)
    figures: dict[str, Any] = {c.name: {"per_s": c.units / c.median} for c in cases}
    for c in cases[1:]:
        figures[c.name]["time_over_memory"] = ratio(c, cases[0])
    for c in cases:
        print(f"{c.name:34s} {c.units / c.median:12,.0f} trajectories/s")
    for name, why in skipped.items():
        print(f"{name:34s} skipped: {why}")
    for name, opened in stores:
        took: list[float] = []
        through_buffer(items, opened(), took)
        p50, p99, worst = (1e6 * np.quantile(took, q) for q in (0.5, 0.99, 1.0))
        figures[f"{name}, one trajectory"] = {"p50_us": p50, "p99_us": p99, "max_us": worst}
        print(
            f"{name}: one trajectory takes the loop {p50:.1f} µs (p50), {p99:.1f} µs (p99), {worst:,.0f} µs at most"
        )
    for count in [int(n) for n in args.flat.split(",") if n]:
        for name, opened in stores:
            store, began = opened(), time.perf_counter()
            through_buffer(identified(pool, count), store)
            rate = count / (time.perf_counter() - began)
            figures[f"{name}, {count} records"] = {"per_s": rate}
            print(
                f"{name:8s} {count:9,d} records: {rate:10,.0f} /s (making their identities included)",
                flush=True,
            )
    write(
        args.json,
        cases,
        figures,
        skipped=skipped,
        fsync="SQLite WAL, synchronous=FULL, up to 256 records a commit",
    )
    shutil.rmtree(folder)


def _case(name: str, work: Callable[[], object], items: list[Trajectory]) -> Timed:
    return Timed(name, work, units=float(len(items)))


if __name__ == "__main__":
    sys.exit(main())
