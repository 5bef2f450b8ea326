"""What `bench compare` costs on a large record: seconds, and the peak memory of its process.

    python -m tests.benchmarks.compare_speed --rollouts 100000 --out compare_speed.json

The record is made up: the golden run's lines, written again for more updates and seeds, transcripts of 100 tokens. It
is sealed, and compared by the command itself in a process of its own, integrity included.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from leaderboard import bundle, canonical
from tests.benchmarks import harness
from tests.leaderboard import golden

SEEDS, GROUP_SIZE, GROUPS, EVAL_ITEMS, TOKENS = 5, 8, 8, 64, 100
MS = golden.MS
TARGET_S, TARGET_GB = 5.0, 1.0


def synthetic(folder: Path, rollouts: int) -> Path:
    """Writes a sealed record of S1 and A1 with about so many rollouts in all."""
    run = golden.build(folder / "run")
    lines = {
        name: _lines(run / f"{name}.jsonl") for name in ("rollouts", "evals", "updates", "spans", "events")
    }
    tenants = list(golden.TENANTS)
    updates = max(2, rollouts // (SEEDS * 2 * len(tenants) * GROUPS * GROUP_SIZE))
    header = json.loads((run / "run.json").read_text())
    entry = {e["arm"]: e for e in header["runs"]}
    order, runs, clock = [], [], 1000 * MS
    files = {name: (run / f"{name}.jsonl").open("w", encoding="utf-8") for name in lines}
    for seed in range(SEEDS):
        for arm in golden.ARMS if seed % 2 == 0 else golden.ARMS[::-1]:
            tag = {"arm": arm, "seed": seed}
            order.append([arm, seed])
            start, round_ms = clock, golden.ROUND_MS[arm] + seed
            for name, line in _run(lines, tag, tenants, updates, start, round_ms):
                files[name].write(canonical.dumps({**line, **tag}) + "\n")
            stop = start + (updates * round_ms + 1) * MS
            runs.append({**entry[arm], **tag, "t_start_ns": start, "t_stop_ns": stop})
            clock = stop + 3000 * MS
    for file in files.values():
        file.close()
    for info in header["tenants"]:
        info.update(group_size=GROUP_SIZE, groups_per_update=GROUPS, updates=updates)
    header.update(order=order, runs=runs, seeds=list(range(SEEDS)))
    header["config"].update(
        seed=0, seeds=SEEDS, updates=updates, groups_per_update=GROUPS, group_size=GROUP_SIZE
    )
    header["sampling"]["train"]["max_new_tokens"] = TOKENS
    header["integrity"] = _chain(run / "events.jsonl")
    (run / "run.json").write_text(canonical.dumps(header), encoding="utf-8")
    bundle.seal(run)
    return run


def _chain(path: Path) -> dict[str, Any]:
    head, lines = canonical.GENESIS, []
    for seq, line in enumerate(_lines(path)):
        lines.append(canonical.dumps({**line, "seq": seq, "prev": head}))
        head = canonical.sha256(lines[-1].encode())
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return {"event_head": head, "event_count": len(lines)}


def _run(
    lines: dict[str, list[dict[str, Any]]],
    tag: dict[str, Any],
    tenants: list[str],
    updates: int,
    start: int,
    round_ms: int,
) -> Iterator[tuple[str, dict[str, Any]]]:
    model = {t: next(r for r in lines["rollouts"] if r["tenant"] == t) for t in tenants}
    update = {t: next(u for u in lines["updates"] if u["tenant"] == t) for t in tenants}
    scored = {t: next(e for e in lines["evals"] if e["tenant"] == t) for t in tenants}
    yield "events", {"key": "run_start", "t_ns": start, "value": {}, "seq": 0, "prev": canonical.GENESIS}
    for k in range(updates):
        t = start + k * round_ms * MS
        done = t + (round_ms - 10) * MS
        for role, t0, t1 in (("decode", t, t + 118 * MS), ("train", t + 120 * MS, done)):
            yield "spans", {**lines["spans"][0], "role": role, "t0_ns": t0, "t1_ns": t1}
        for name in tenants:
            for ordinal in range(k * GROUPS, (k + 1) * GROUPS):
                for sample in range(GROUP_SIZE):
                    yield "rollouts", _rollout(model[name], tag, ordinal, sample, k, t)
            yield "updates", {
                **update[name], "update_id": k, "version_before": k, "version_after": k + 1,
                "ordinals": list(range(k * GROUPS, (k + 1) * GROUPS)),
                "t0_ns": t + 120 * MS, "t1_ns": done, "published_ns": done + MS,
            }  # fmt: skip
    stop = start + (updates * round_ms + 1) * MS
    yield "events", {"key": "run_stop", "t_ns": stop, "value": {"status": "success", "recompiles": {}},
                     "seq": 0, "prev": canonical.GENESIS}  # fmt: skip
    for name in tenants:
        for eval_id, version in ((0, 0), (1, updates)):
            for i in range(EVAL_ITEMS):
                yield "evals", {
                    **scored[name], "eval_id": eval_id, "version": version, "item_index": i, "item_uid": f"dev{i}",
                    "samples": version * GROUPS * GROUP_SIZE, "snapshot_ns": stop - MS,
                }  # fmt: skip


def _rollout(
    model: dict[str, Any], tag: dict[str, Any], ordinal: int, sample: int, update: int, t: int
) -> dict[str, Any]:
    turns = [
        {**turn, "t0_ns": t + i * MS, "t1_ns": t + (1 + 80 * i) * MS,
         "token_ids": (turn["token_ids"] * TOKENS)[:TOKENS],
         **({"behavior_logprobs": [-0.123456] * TOKENS, "policy_version": [update] * TOKENS}
            if turn["role"] == "policy" else {})}
        for i, turn in enumerate(model["turns"][:2])
    ]  # fmt: skip
    return {
        **model, "turns": turns, "ordinal": ordinal, "sample_index": sample, "consumed_in": update,
        "rollout_id": f"{tag['arm']}.s{tag['seed']}.{model['tenant']}.{ordinal}.{sample}", "staleness": 0,
        "item_uid": f"{model['tenant']}{ordinal}", "oldest_version": update, "prompt_tokens": TOKENS,
        "completion_tokens": TOKENS, "t_start_ns": t, "t_end_ns": t + 110 * MS, "env_ns": 30 * MS,
    }  # fmt: skip


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(text) for text in path.read_text(encoding="utf-8").splitlines()]


def main() -> None:
    """Makes the record, compares it, prints what it cost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rollouts", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run = synthetic(Path(folder), given.rollouts)
        size = sum(path.stat().st_size for path in run.rglob("*") if path.is_file()) / 1e6
        count = sum(1 for _ in (run / "rollouts.jsonl").open("rb"))
        case = harness.Timed("bench compare", lambda: None, units=float(count))
        cpu: list[float] = []
        for _ in range(given.rounds):
            before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
            done = subprocess.run(
                [sys.executable, "-m", "bench", "compare", str(run), "--json"], capture_output=True, text=True
            )
            case.times.append(time.perf_counter() - began)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            cpu.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
            assert done.returncode == 0, done.stdout + done.stderr
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e6
    figures = {"rollouts": count, "record_mb": size, "cpu_s": cpu, "peak_gb": peak}
    harness.write(given.out, [case], figures)
    sys.stdout.write(
        f"{count} rollouts, {size:.0f} MB: {case.median:.1f} s (processor {min(cpu):.1f} s; target {TARGET_S:g}), "
        f"peak {peak:.2f} GB (target {TARGET_GB:g})\n"
    )


if __name__ == "__main__":
    main()
