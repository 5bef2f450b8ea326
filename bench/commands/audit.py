"""`bench audit`."""

from __future__ import annotations

import dataclasses
import json
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.audit import log as logs
from bench.audit import sizing
from bench.commands import run
from bench.config import environment, resolve
from bench.errors import BenchError
from bench.output import note
from bench.planner import fit
from bench.planner.times import MeasuredTimes
from bench.planner.work import LoggedDelay
from leaderboard.bundle import write_atomically
from leaderboard.records import RunRecord
from tunix_core.buffer import TrajectoryBuffer
from tunix_core.types import Fate, StopReason, TenantSpec, Trajectory

UPDATES = 3


def audit_command(
    file: Path | None,
    sets: Sequence[str],
    flags: Mapping[str, Any],
    *,
    log: Path | None,
    write: Path | None,
    quiet: bool,
) -> tuple[dict[str, Any], str]:
    """Measures by a short run without simulated latency, then sizes the run that was asked for. (JSON, text)."""
    tools = {} if log is None else logs.read(log)
    wanted = resolve(file, environment(), sets, flags).config
    with tempfile.TemporaryDirectory(prefix="bench-audit-") as folder:
        record = _measure(file, sets, flags, Path(folder) / "run", quiet)
        times, own = fit.times([record]), _environments(record)
        logged = [s for seconds in tools.values() for s in seconds]
        delay = LoggedDelay(tuple(logged), wanted.seed) if logged else None
        setup = fit.setup_of(wanted, "A1", 0, [record], delay)
        found = sizing.recommend(setup)
        value = {
            "ok": True,
            "measured": {
                "environment_own_s": own,
                "tool_call_s": sizing.spread(sizing.calls(setup)),
                "tools": {name: sizing.spread(seconds) for name, seconds in sorted(tools.items())},
                "stages": _stages(times, setup.sampler.slots * setup.sampler.decode_steps),
                "buffer_s": _buffer(record),
            },
            "latency": {
                "profile": str(log) if log else wanted.latency,
                "simulated": log is None and wanted.latency != "none",
            },
            "sizing": dataclasses.asdict(found),
        }
    text = _text(value, times)
    if write is not None:
        write_atomically(write, _toml(wanted.model_dump(mode="json"), found.settings).encode())
        text += f"\n\nconfig: {write} ('bench run --config {write}')"
    return value, text


def _measure(
    file: Path | None, sets: Sequence[str], flags: Mapping[str, Any], out: Path, quiet: bool
) -> RunRecord:
    small = {**flags, "arms": ["A1"], "latency": "none", "updates": UPDATES, "eval_items": 1, "eval_every": 0,
             "seeds": 1, "tracker": "none", "out": str(out)}  # fmt: skip
    note(f"measuring: {UPDATES} updates of every tenant without simulated latency")
    value, _, code = run.command(file, sets, small, dry_run=False, quiet=quiet)
    if code:
        raise BenchError(f"the run to measure ended with status {value['status']}: {value['reason']}")
    return RunRecord.open(out)


def _environments(record: RunRecord) -> dict[str, dict[str, Any]]:
    """Own seconds of resets, answers, and of the last call, which grades; by task."""
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: {"reset": [], "step": [], "verify": []})
    for rollout in record.rollouts:
        if rollout.error is not None:
            continue
        shape = fit.shape_of(rollout, None)
        kinds = found[rollout.env_id]
        kinds["reset"].append(shape.reset_s)
        turns = shape.turns[:-1] if shape.cut else shape.turns
        for turn in turns[:-1]:
            kinds["step"].append(turn.env_s)
        if turns:
            kinds["verify"].append(turns[-1].env_s)
    return {
        env_id: {kind: sizing.spread(seconds) for kind, seconds in kinds.items() if seconds}
        for env_id, kinds in sorted(found.items())
    }


def _stages(times: MeasuredTimes, most_slots: int) -> dict[str, Any]:
    """Rates by batch, from the lines through the spans of the trainer's own compiled functions."""
    by_batch = {n: times.decode_s(0, 0.0, n) for n in (most_slots // 4, most_slots // 2, most_slots)}
    return {
        **{k: v for k, v in dataclasses.asdict(times).items() if k != "source"},
        "decode_slots_per_s": {str(n): n / seconds for n, seconds in by_batch.items() if seconds},
        "train_slots_per_s": 1 / times.train_per_slot if times.train_per_slot else None,
    }


def _buffer(record: RunRecord) -> dict[str, dict[str, float]]:
    """Seconds of putting each recorded trajectory into a buffer in memory, and of taking each group out."""
    sizes = {t.tenant: t.group_size for t in record.header.tenants}
    buffer = TrajectoryBuffer()
    groups: dict[tuple[str, int], list[Trajectory]] = defaultdict(list)
    for rollout in record.rollouts:
        ticket = fit.ticket_of(rollout)
        trajectory = Trajectory(
            ticket=ticket,
            item_uid=rollout.item_uid,
            turns=(),
            reward=rollout.reward,
            grade_status=rollout.grade_status,
            stop=StopReason.TERMINATED,
            fate=Fate.OPEN,
            t_start_ns=rollout.t_start_ns,
            t_end_ns=rollout.t_end_ns,
            env_ns=rollout.env_ns,
            error=None,
        )
        groups[rollout.tenant, rollout.ordinal].append(trajectory)
    for name, size in sizes.items():
        buffer.join(TenantSpec(tenant_id=name, env_ids=("audit",), group_size=size))
    put, take = list[float](), list[float]()
    for (name, ordinal), members in groups.items():
        if len(members) < sizes[name]:
            continue
        buffer.admit(name, ordinal)
        for trajectory in members:
            began = time.perf_counter()
            buffer.put(trajectory)
            put.append(time.perf_counter() - began)
        began = time.perf_counter()
        buffer.take(name, (ordinal,), Fate.CONSUMED)
        take.append(time.perf_counter() - began)
    return {"put": sizing.spread(put), "take": sizing.spread(take)}


def _text(value: Mapping[str, Any], times: MeasuredTimes) -> str:
    measured, sized = value["measured"], value["sizing"]
    lines = ["measured on this machine (ms)"]
    for env_id, kinds in measured["environment_own_s"].items():
        for kind, s in kinds.items():
            lines.append(f"  {env_id} {kind:<7} {_ms(s)}")
    lines += [f"  log: {name} {_ms(s)}" for name, s in measured["tools"].items()]
    label = "SIMULATED" if value["latency"]["simulated"] else "the environments' own, or logged"
    lines += [
        f"  tool call with latency {value['latency']['profile']} ({label}) {_ms(measured['tool_call_s'])}",
        f"  buffer put {_ms(measured['buffer_s']['put'])}",
        f"  buffer take {_ms(measured['buffer_s']['take'])}",
        f"  adapter publish {1e3 * times.publish:.2f} ms",
        f"  prefill {1e3 * times.prefill_base:.2f} + {1e6 * times.prefill_per_slot:.2f} us/slot; "
        f"decode {1e3 * times.decode_base:.2f} + {1e6 * times.decode_per_slot:.2f} us/slot; "
        f"train {1e3 * times.train_base:.2f} + {1e3 * times.train_per_tenant:.2f}/tenant + "
        f"{1e6 * times.train_per_slot:.2f} us/slot",
        "",
        f"bottleneck (predicted): {sized['bottleneck']}",
        *(f"{name}: {sized['settings'].get(name, '')} {why}" for name, why in sized["reasons"].items()),
        "",
        "predicted (SIMULATED), as given and as sized: "
        + ", ".join(
            f"{name} {sized['predicted'][name]['t_work_s']:.1f} s, busy {sized['predicted'][name]['util_busy']:.0%}"
            for name in ("given", "sized")
        ),
    ]
    return "\n".join(lines)


def _ms(s: Mapping[str, float]) -> str:
    return (
        f"mean {1e3 * s['mean']:.3f}, p50 {1e3 * s['p50']:.3f}, p95 {1e3 * s['p95']:.3f}, p99 {1e3 * s['p99']:.3f}, "
        f"max {1e3 * s['max']:.3f}; the slowest 1 % take {s['share_of_slowest_1pct']:.0%} of the time (n {s['n']:.0f})"
    )


def _toml(config: Mapping[str, Any], settings: Mapping[str, int]) -> str:
    """What `bench run --config` takes: the run that was asked for, sized."""
    values = {k: v for k, v in {**config, **settings}.items() if v is not None and k != "out"}
    return "# sized by 'bench audit'\n" + "".join(f"{k} = {json.dumps(v)}\n" for k, v in values.items())
