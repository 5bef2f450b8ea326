"""`bench plan`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.errors import UsageError
from bench.places import run_directory
from bench.planner import fit, report, scenario
from bench.planner.hardware import DEVICES, MODELS
from bench.planner.simulate import simulate
from leaderboard.records import RunRecord


def plan_command(
    file: Path | None, sets: Sequence[str], flags: Mapping[str, Any]
) -> tuple[dict[str, Any], str]:
    """(JSON, text) of one scenario, an arm a row."""
    s = scenario.resolve(file, sets, flags)
    placed = scenario.layout(s)
    outcomes = {arm: simulate(scenario.setup(s, arm, placed)).as_dict() for arm in s.arms}
    base = outcomes["S1" if "S1" in outcomes else s.arms[0]]["t_work_s"]
    rows = [
        {"arm": arm, **report.figures(outcome, base, s.price_per_device_hour)}
        for arm, outcome in outcomes.items()
    ]
    value = {
        "ok": True,
        "label": report.LABEL,
        "scenario": s.model_dump(mode="json"),
        "layout": {
            "chips_per_replica": placed.chips,
            "sampler_replicas": placed.replicas,
            "learner_groups": placed.learner_groups,
            "shared": s.learner_share == 0,
            "memory_per_device": placed.memory.as_dict(),
        },
        "sources": {"device": DEVICES[s.device].source, "model": MODELS[s.model].source},
        "arms": rows,
    }
    lines = [about(s, placed), "", report.table(rows)]
    if remark := report.remark(rows):
        value["remark"] = remark
        lines += ["", remark]
    return value, "\n".join(lines)


def beside_command(run: Path, fitted_on: Sequence[Path]) -> tuple[dict[str, Any], str]:
    """(JSON, text): what was predicted of a record from other records, beside what was measured."""
    if not fitted_on:
        raise UsageError("--from needs other records to fit stage times on", "name them with --fit RUN")
    record, others = (
        RunRecord.open(run_directory(run)),
        [RunRecord.open(run_directory(path)) for path in fitted_on],
    )
    rows = fit.predict(record, others)
    basis = {
        "of_this_run": "its configuration and, by its seeds, the simulated delays of its tools",
        "of_other_runs": "stage times (straight lines through spans), lengths of episodes, environments' own time",
        "fitted_on": [r.header.run_id for r in others],
    }
    lines = [
        f"predicted (SIMULATED) / measured, {record.header.run_id}",
        *(
            f"{key.replace('_', ' ')}: {what if isinstance(what, str) else ', '.join(what)}"
            for key, what in basis.items()
        ),
        "",
    ]
    for row in rows:
        cells = (f"{name} {_pair(pair)}" for name, pair in row.items() if isinstance(pair, dict))
        lines.append(f"{row['arm']} seed {row['seed']}: {'; '.join(cells)}")
    return {"ok": True, "label": report.LABEL, "basis": basis, "rows": rows}, "\n".join(lines)


def _pair(pair: Mapping[str, float | None]) -> str:
    predicted, measured, error = pair["predicted"], pair["measured"], pair["error"]
    shown = " / ".join("–" if v is None else f"{v:.3g}" for v in (predicted, measured))
    return shown if error is None else f"{shown} ({100 * error:+.1f} %)"


def about(s: scenario.Scenario, placed: scenario.Layout) -> str:
    """What was simulated, for a reader."""
    roles = (
        "learner and samplers share them"
        if s.learner_share == 0
        else f"{placed.learner_groups} groups learn, {placed.replicas} sample"
    )
    memory = placed.memory
    return "\n".join(
        (
            report.LABEL,
            f"{s.tenants} tenants x {s.updates} updates x {s.groups_per_update} groups x {s.group_size}; {s.model}, "
            f"LoRA rank {s.lora_rank}; latency {s.latency} s a call (SIMULATED)",
            f"{s.devices} x {s.device} in groups of {placed.chips}: {roles}; "
            f"memory {memory.worst / 1e9:.1f} of {memory.limit / 1e9:.1f} GB a chip",
            f"roofline: peak figures of {DEVICES[s.device].source}; ASSUMED shares of peak: training "
            f"{s.train_flops:g}, prefill {s.prefill_flops:g}, decode bandwidth {s.decode_bytes:g}",
        )
    )
