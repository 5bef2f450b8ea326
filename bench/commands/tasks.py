"""`bench tasks`."""

from __future__ import annotations

import json
from typing import Any

import tasks
from tasks.data.task import DataTask
from tasks.splits import item
from tasks.validate import baselines, validate


def list_command() -> tuple[list[dict[str, Any]], str]:
    """All cards, a line each; reads no data."""
    cards = [tasks.card(task_id) for task_id in tasks.specs()]
    lines = [f"{c['id']:<18} {', '.join(c['aliases']):<15} {c['description']}" for c in cards]
    return cards, "\n".join(lines)


def show_command(task: str) -> tuple[dict[str, Any], str]:
    """A card, one dev item with the oracle's turns, and what unskilled policies earn."""
    spec = tasks.get(tasks.resolve(task))
    value: dict[str, Any] = dict(tasks.card(spec.id))
    example = item(spec, "dev", 0, 0)
    value["example"] = {"prompt": example.prompt, "oracle": list(spec.oracle(example))}
    found = baselines(spec, items=300)
    value["baselines"] = {name: getattr(found, name) for name in found.__slots__}
    return value, "\n".join(f"{k}: {v if isinstance(v, str) else json.dumps(v)}" for k, v in value.items())


def validate_command(task: str | None, items: int) -> tuple[list[dict[str, Any]], str, int]:
    """Findings of one task, or of all that generate their items."""
    ids = (
        [tasks.resolve(task)]
        if task
        else [k for k, s in tasks.specs().items() if not isinstance(s, DataTask)]
    )
    values, lines = [], []
    for task_id in ids:
        findings = validate(task_id, items=items)
        values.append({"task": task_id, "findings": [str(f) for f in findings]})
        lines += [f"{task_id}: {f}" for f in findings] or [f"{task_id}: ok"]
    return values, "\n".join(lines), 1 if any(v["findings"] for v in values) else 0
