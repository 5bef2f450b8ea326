"""Builds a small, valid run directory in code: real tasks, scripted policy, a made-up clock."""

from __future__ import annotations

import hashlib
import itertools
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

import tasks
from leaderboard import bundle, canonical, metrics
from leaderboard.records import RunRecord
from leaderboard.rescore import task_info
from leaderboard.schema import EvalLine, EventLine, RolloutLine, RunHeader, SpanLine, TurnLine, UpdateLine
from leaderboard.tracker_rows import tracker_rows
from leaderboard.verify.settings import KNOWN

MS = 1_000_000
ARMS = ("S1", "A1")
TENANTS = {"math": "Math/Add-v0", "code": "Code/Predict-v0", "search": "Search/Lookup-v0"}
GROUP_SIZE, GROUPS_PER_UPDATE, UPDATES, EVAL_ITEMS = 2, 2, 2, 4
ROUND_MS = {"S1": 300, "A1": 200}
"""Time between two updates; the made-up asynchronous arm is 1.5 times as fast."""
LATENCY = "const:0.003"
PREFILL_MS, DECODE_MS, TURN_MS, STEP_MS = 5, 40, 46, 3
"""Of a policy turn's first and second pass, of the whole turn, and of an environment step."""
WALL = 1_767_225_600.0


@dataclass
class Writer:
    """Lines of all files, in order; the events are chained."""

    lines: dict[str, list[str]] = field(
        default_factory=lambda: {name: [] for name in ("events", "spans", "rollouts", "updates", "evals")}
    )
    head: str = canonical.GENESIS

    def event(self, at: int, arm: str, seed: int, key: str, /, **value: Any) -> None:
        line = EventLine(
            seq=len(self.lines["events"]), t_ns=at, arm=arm, seed=seed, key=key, value=value, prev=self.head
        ).to_json()
        self.head = canonical.sha256(line.encode())
        self.lines["events"].append(line)

    def add(self, name: str, line: SpanLine | RolloutLine | UpdateLine | EvalLine) -> None:
        self.lines[name].append(line.to_json())

    def write(self, directory: Path) -> None:
        for name, lines in self.lines.items():
            (directory / f"{name}.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def play(
    env_id: str, split: str, seed: int, index: int, *, good: bool, t: int, version: int, sample: int = 0
) -> dict[str, Any]:
    """Plays one episode by the oracle or the careless demonstrator; returns the fields of its line.

    The k-th policy turn of every episode that starts at t lasts as long as the sampler's k-th two passes.
    """
    env = tasks.make(env_id)
    observation, info = env.reset(seed=seed, options={"split": split, "index": index})
    item = env.unwrapped.item  # type: ignore[attr-defined]
    spec = tasks.get(env_id)
    said = spec.oracle(item) if good else spec.careless(item, random.Random(index))
    turns = [_turn("environment", observation, t, t + MS)]
    for k, text in enumerate(said):
        at = turn_start(t, k)
        turns.append(_turn("policy", text, at, at + TURN_MS * MS, version, f"{seed}.{index}.{sample}.{k}"))
        observation, reward, terminated, truncated, info = env.step(text)
        if observation:
            end = at + TURN_MS * MS
            turns.append(_turn("environment", observation, end, end + STEP_MS * MS))
        if terminated or truncated:
            break
    return {
        "env_id": env_id,
        "split": split,
        "env_seed": seed,
        "item_index": index,
        "level": info["level"],
        "item_uid": info["item_uid"],
        "turns": turns,
        "reward": reward,
        "grade_status": info["grade_status"],
        "stop": info["stop"],
        "error": None,
    }


def turn_start(t: int, k: int) -> int:
    """When the k-th policy turn of episodes that start at t begins."""
    return t + (1 + 50 * k) * MS


def build(
    directory: Path,
    *,
    seeds: tuple[int, ...] = (7,),
    limit_applied: bool = False,
    devices: tuple[str, ...] = ("cpu:0",),
) -> Path:
    """Writes a sealed run directory that passes every check, and returns it; the last device trains."""
    directory.mkdir(parents=True, exist_ok=True)
    writer = Writer()
    runs: list[dict[str, Any]] = []
    order: list[list[Any]] = []
    clock = 0
    for place, seed in enumerate(seeds):
        for arm in ARMS if place % 2 == 0 else ARMS[::-1]:
            order.append([arm, seed])
            clock = _run(writer, runs, arm, seed, clock + 1000 * MS, devices, 10**4 * seeds.index(seed))
    writer.write(directory)
    (directory / "system.json").write_text('{"cores":2}\n', encoding="utf-8")
    (directory / "adapters").mkdir(exist_ok=True)
    for seed in seeds:
        for arm in ARMS:
            for tenant in TENANTS:
                for name, version in (("initial", 0), ("final", UPDATES)):
                    path = directory / "adapters" / f"{arm}.s{seed}.{tenant}.{name}.safetensors"
                    save_file(factors(arm, tenant, version), path)
    header = _header(writer, runs, order, seeds, limit_applied, devices, clock + 500 * MS)
    (directory / "run.json").write_text(canonical.dumps(header), encoding="utf-8")
    recompute(directory)
    return directory


def factors(arm: str, tenant: str, version: int) -> dict[str, np.ndarray]:
    """A made-up adapter; all arms begin with the same."""
    rng = np.random.default_rng([version, sum(tenant.encode()), sum(arm.encode()) if version else 0])
    shapes = {"q_proj.lora_a": (1, 4, 2), "q_proj.lora_b": (1, 2, 4)}
    return {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


def factors_sha256(arm: str, tenant: str, version: int) -> str:
    """Its content hash, as a trainer publishes it."""
    digest = hashlib.sha256()
    for name, x in sorted(factors(arm, tenant, version).items()):
        digest.update(f"{name.replace('.lora_', '.')}:{x.shape}:{x.dtype}".encode() + x.tobytes())
    return digest.hexdigest()


def recompute(directory: Path) -> None:
    """What an able forger does too: chains the events, recomputes results and every hash."""
    path = directory / "events.jsonl"
    head, lines = canonical.GENESIS, []
    for seq, line in enumerate(path.read_text(encoding="utf-8").splitlines()):
        text = canonical.dumps(json.loads(line) | {"seq": seq, "prev": head})
        head = canonical.sha256(text.encode())
        lines.append(text + "\n")
    path.write_text("".join(lines), encoding="utf-8")
    edit_header(
        directory, lambda h: h.update(integrity={"event_head": head, "event_count": len(lines)}, results={})
    )
    record = RunRecord.open(directory)
    rows = "".join(canonical.dumps(row) + "\n" for row in tracker_rows(record))
    (directory / "metrics.jsonl").write_text(rows, encoding="utf-8")
    edit_header(directory, lambda h: h.update(results=metrics.results(record)))
    bundle.seal(directory)


def reseal(directory: Path) -> None:
    """What any forger does: seals the record again, and leaves its figures."""
    bundle.seal(directory)


def edit_header(directory: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Changes run.json in place, without touching any hash."""
    path = directory / "run.json"
    header = json.loads(path.read_text(encoding="utf-8"))
    change(header)
    path.write_text(canonical.dumps(header), encoding="utf-8")


def edit_line(directory: Path, name: str, number: int, change: Callable[[dict[str, Any]], object]) -> None:
    """Changes one line (from 0, or from the end) of a JSONL file, without touching any hash."""
    path = directory / name
    lines = path.read_text(encoding="utf-8").splitlines()
    value = json.loads(lines[number])
    change(value)
    lines[number] = canonical.dumps(value)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _run(
    writer: Writer,
    runs: list[dict[str, Any]],
    arm: str,
    seed: int,
    start: int,
    devices: tuple[str, ...],
    late_ns: int,
) -> int:
    for tenant in TENANTS:
        writer.event(start - MS, arm, seed, "snapshot", tenant=tenant, version=0, samples=0, t_ns=start - MS)
        _evaluate(writer, arm, seed, tenant, 0, 0, start - MS)
    writer.event(start, arm, seed, "run_start")
    ledger = {tenant: Counter[str]() for tenant in TENANTS}
    t = start
    for k in range(UPDATES):
        version = k if arm == "S1" else max(0, k - 1)
        # no two seeds take equally long
        commit = t + ROUND_MS[arm] * MS + late_ns * (k + 1)
        t0, t1 = commit - 60 * MS, commit - 10 * MS
        played = [
            line for tenant in TENANTS for line in _groups(arm, seed, tenant, k, version, t, ledger[tenant])
        ]
        for line in played:
            writer.add("rollouts", line)
        for span in _spans(played, t):
            writer.add("spans", SpanLine(arm=arm, seed=seed, device=devices[0], **span))
        work = _work(sum(_tokens(line) for line in played))
        span = {"arm": arm, "seed": seed, "device": devices[-1], "tenants": list(TENANTS)}
        writer.add("spans", SpanLine(role="train", t0_ns=t0, t1_ns=t1, **span, **work))
        for tenant in TENANTS:
            writer.add("updates", _update(arm, seed, tenant, k, version, t0, t1, work))
            sha256 = factors_sha256(arm, tenant, k + 1)
            writer.event(commit, arm, seed, "adapter.published", tenant=tenant, version=k + 1, sha256=sha256)
        t = commit + MS
    for tenant in TENANTS:
        samples = UPDATES * GROUPS_PER_UPDATE * GROUP_SIZE
        writer.event(t, arm, seed, "snapshot", tenant=tenant, version=UPDATES, samples=samples, t_ns=t)
        _evaluate(writer, arm, seed, tenant, 1, UPDATES, t)
    stop = t + 5 * MS
    writer.event(stop, arm, seed, "run_stop", status="success", recompiles={})
    runs.append(
        {
            "arm": arm,
            "seed": seed,
            "status": "success",
            "reason": "",
            "t_start_ns": start,
            "t_stop_ns": stop,
            "init_s": 1.0,
            "compile_s": 2.0,
            "recompiles_after_warmup": 0,
            "ledger": {tenant: _ledger(counts) for tenant, counts in ledger.items()},
            "updates": dict.fromkeys(TENANTS, UPDATES),
            "adapters": {
                tenant: {
                    "initial_sha256": factors_sha256(arm, tenant, 0),
                    "final_sha256": factors_sha256(arm, tenant, UPDATES),
                }
                for tenant in TENANTS
            },
        }
    )
    return stop


def _spans(played: list[RolloutLine], t: int) -> Iterator[dict[str, Any]]:
    """The sampler's passes of one round: a prefill draws a turn's first token, one decode the others."""
    for k in itertools.count():
        turns = [(line, own[k]) for line in played if len(own := policy_turns(line)) > k]
        if not turns:
            return
        at, named = turn_start(t, k), {"tenants": sorted({line.tenant for line, _ in turns})}
        seen = {(line.tenant, _context(line, turn)): len(_context(line, turn)) for line, turn in turns}
        drawn = sum(len(turn.token_ids) for _, turn in turns)
        for role, t0, length, real in (
            ("prefill", at, PREFILL_MS, sum(seen.values())),
            ("decode", at + (TURN_MS - DECODE_MS) * MS, DECODE_MS, drawn - len(turns)),
        ):
            yield {"role": role, "t0_ns": t0, "t1_ns": t0 + length * MS, **named, **_work(real)}


def _work(real: int) -> dict[str, int]:
    """A quarter of the token slots is padding."""
    return {"executed_slots": -(-real * 4 // 3), "real_tokens": real}


def policy_turns(line: RolloutLine) -> list[TurnLine]:
    """The sampled turns of an episode."""
    return [turn for turn in line.turns if turn.role == "policy"]


def _context(line: RolloutLine, turn: TurnLine) -> tuple[int, ...]:
    before = itertools.takewhile(lambda other: other is not turn, line.turns)
    return tuple(i for other in before for i in other.token_ids)


def _tokens(line: RolloutLine) -> int:
    return line.prompt_tokens + line.completion_tokens


def _groups(
    arm: str, seed: int, tenant: str, k: int, version: int, t: int, counts: Counter[str]
) -> Iterator[RolloutLine]:
    for ordinal in range(k * GROUPS_PER_UPDATE, (k + 1) * GROUPS_PER_UPDATE):
        for sample in range(GROUP_SIZE):
            place = {"good": sample == 0, "t": t, "version": version, "sample": sample}
            episode = play(TENANTS[tenant], "train", seed, ordinal, **place)
            steps = sum(turn["role"] == "policy" for turn in episode["turns"])
            sampled = sum(len(turn["token_ids"]) for turn in episode["turns"] if turn["role"] == "policy")
            line = RolloutLine(
                rollout_id=f"{tenant}.{ordinal}.{sample}",
                arm=arm,
                seed=seed,
                tenant=tenant,
                ordinal=ordinal,
                sample_index=sample,
                fate="consumed",
                consumed_in=k,
                oldest_version=version,
                staleness=k - version,
                prompt_tokens=sum(len(turn["token_ids"]) for turn in episode["turns"]) - sampled,
                completion_tokens=sampled,
                env_ns=steps * STEP_MS * MS,
                t_start_ns=t,
                t_end_ns=t + 100 * MS + sample * MS,
                **episode,
            )
            yield line
            counts["rollouts"] += 1
            counts["tokens"] += sampled


def _update(
    arm: str, seed: int, tenant: str, k: int, version: int, t0: int, t1: int, work: dict[str, int]
) -> UpdateLine:
    return UpdateLine(
        arm=arm,
        seed=seed,
        update_id=k,
        tenant=tenant,
        version_before=k,
        version_after=k + 1,
        ordinals=list(range(k * GROUPS_PER_UPDATE, (k + 1) * GROUPS_PER_UPDATE)),
        t0_ns=t0,
        t1_ns=t1,
        published_ns=t1 + MS,
        loss=0.1,
        grad_norm=0.5,
        learning_rate=0.003,
        clip_fraction=0.0,
        is_ess=1.0,
        max_is_weight=1.0,
        kl=0.0,
        logprob_gap=0.0,
        entropy=None,
        loss_tokens=40,
        **work,
        staleness={str(k - version): 40},
        reward_mean=0.5,
        reward_mean_kept=0.5,
        groups_no_signal=0,
        invalid_rewards=0,
        skipped=None,
    )


def _evaluate(
    writer: Writer, arm: str, seed: int, tenant: str, eval_id: int, version: int, snapshot_ns: int
) -> None:
    for index in range(EVAL_ITEMS):
        good = eval_id > 0 or index % 2 == 0
        episode = play(TENANTS[tenant], "dev", 0, index, good=good, t=snapshot_ns, version=version)
        samples = version * GROUPS_PER_UPDATE * GROUP_SIZE
        line = EvalLine(
            arm=arm,
            seed=seed,
            tenant=tenant,
            eval_id=eval_id,
            version=version,
            samples=samples,
            snapshot_ns=snapshot_ns,
            **episode,
        )
        writer.add("evals", line)


def _turn(role: str, text: str, t0: int, t1: int, version: int = 0, stream: str = "") -> dict[str, Any]:
    ids = list(text.encode())
    sampled = role == "policy"
    # from the identity of the turn and the version, as a sampler's are; equal in all arms
    rng = random.Random(f"{stream} {version} {text}")
    return {
        "role": role,
        "text": text,
        "token_ids": ids,
        "behavior_logprobs": [round(-rng.uniform(0.01, 2), 6) for _ in ids] if sampled else [],
        "policy_version": [version] * len(ids) if sampled else [],
        "stop": "eos" if sampled else None,
        "t0_ns": t0,
        "t1_ns": t1,
    }


def _ledger(counts: Counter[str]) -> dict[str, dict[str, int]]:
    nothing = {"stale": 0, "filtered": 0, "errored": 0, "surplus": 0}
    return {
        unit: {"generated": counts[unit], "consumed": counts[unit], **nothing}
        for unit in ("rollouts", "tokens")
    }


def _header(
    writer: Writer,
    runs: list[dict[str, Any]],
    order: list[list[Any]],
    seeds: tuple[int, ...],
    limited: bool,
    devices: tuple[str, ...],
    stop_ns: int,
) -> dict[str, Any]:
    header = RunHeader.model_validate(
        {
            "schema": "bench.run/1",
            "run_id": "01JD0000000000000000000000",
            "suite_version": "0.1",
            "created_utc": "2026-01-01T00:00:00Z",
            "command": ["bench", "run"],
            "config": {
                "tasks": list(TENANTS),
                "arms": list(ARMS),
                "seed": seeds[0],
                "seeds": len(seeds),
                "limit": 2 if limited else None,
                "latency": LATENCY,
                "model": "embedded",
                "max_staleness": 1,
                "group_size": GROUP_SIZE,
                "groups_per_update": GROUPS_PER_UPDATE,
                "updates": UPDATES,
                "learning_rate": 0.003,
                "warmup_updates": 0,
                "temperature": 1.0,
                "eval_items": EVAL_ITEMS,
            },
            "set_by": {"tasks": "default"},
            "limit_applied": limited,
            "latency": {"profile": LATENCY, "simulated": True, "description": "const, 0.003 s"},
            "model": {
                "name": "embedded",
                "sha256": KNOWN["embedded"][0],
                "tokenizer_sha256": "c" * 64,
                "dtype": "float32",
                "parameters": KNOWN["embedded"][2],
            },
            "tenants": [
                {
                    "tenant": tenant,
                    "env_ids": [env_id],
                    "group_size": GROUP_SIZE,
                    "groups_per_update": GROUPS_PER_UPDATE,
                    "updates": UPDATES,
                }
                for tenant, env_id in TENANTS.items()
            ],
            "arms": [
                {
                    "arm": arm,
                    "tenants_at_once": None,
                    "step_barrier": arm == "S1",
                    "max_staleness": 0 if arm == "S1" else 1,
                    "consume": "admission",
                }
                for arm in ARMS
            ],
            "seeds": list(seeds),
            "order": order,
            "sampling": {
                "train": {"temperature": 1.0, "max_new_tokens": 64},
                "eval": {"temperature": 0.0, "max_new_tokens": 64, "items": EVAL_ITEMS},
            },
            "tasks": {env_id: task_info(env_id).model_dump() for env_id in TENANTS.values()},
            "devices": [{"id": device, "kind": "cpu"} for device in devices],
            "device_class": "cpu-sim",
            "software": {"python": "3.11", "jax": "0.10", "numpy": "2.4"},
            "clock": {
                "wall_start_utc": WALL,
                "wall_stop_utc": WALL + stop_ns / 10**9,
                "monotonic_start_ns": 0,
                "monotonic_stop_ns": stop_ns,
            },
            "runs": runs,
            "integrity": {"event_head": writer.head, "event_count": len(writer.lines["events"])},
            "status": "success",
        }
    )
    return json.loads(header.to_json())
