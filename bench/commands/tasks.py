"""`bench tasks`."""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Sequence
from typing import Any

import tasks
from bench.errors import Exit, UsageError
from tasks.data.sources import DataMissingError
from tasks.splits import item
from tasks.validate import baselines, validate

BASELINE_ITEMS = 300


def list_command(pattern: str) -> tuple[dict[str, Any], str]:
    """Cards of all tasks whose id or short name matches, a line each; reads no data."""
    cards = [tasks.card(task_id) for task_id in tasks.specs()]
    found = [c for c in cards if any(_matches(name, pattern) for name in (c["id"], *c["aliases"]))]
    if not found:
        raise UsageError(f"no task matches {pattern!r}", "'bench tasks list' shows all")
    lines = [f"{c['id']:<18} {', '.join(c['aliases']):<16} {c['description']}" for c in found]
    return {"tasks": found}, "\n".join(lines)


def show_command(task: str) -> tuple[dict[str, Any], str]:
    """A card, one dev item with the oracle's turns, and what unskilled policies earn."""
    spec = tasks.get(tasks.resolve(task))
    value: dict[str, Any] = dict(tasks.card(spec.id))
    try:
        example = item(spec, "dev", 0, 0)
        value["example"] = {"prompt": example.prompt, "oracle": list(spec.oracle(example))}
        found = baselines(spec, items=BASELINE_ITEMS)
        value["baselines"] = {name: getattr(found, name) for name in found.__slots__}
    except DataMissingError as missing:
        # the card is known without the data
        value["items"] = f"not here: {missing}"
    lines = (
        f"{k:<18} {v if isinstance(v, str) else json.dumps(v, ensure_ascii=False)}" for k, v in value.items()
    )
    return value, "\n".join(lines)


def validate_command(names: Sequence[str], items: int) -> tuple[dict[str, Any], str, int]:
    """Findings of the named tasks, or of all; exit 1 if there are any. Data that aren't here skip a task."""
    values, lines = [], []
    for task_id in [tasks.resolve(name) for name in names] or tasks.specs():
        try:
            findings = [str(finding) for finding in validate(task_id, items=items)]
            status = "failed" if findings else "ok"
        except DataMissingError as missing:
            if names:
                raise
            findings, status = [str(missing)], "skipped"
        values.append({"task": task_id, "status": status, "findings": findings})
        lines += [f"{task_id}: {status}", *(f"  {finding}" for finding in findings)]
    failed = any(value["status"] == "failed" for value in values)
    return {"ok": not failed, "tasks": values}, "\n".join(lines), Exit.FAILED if failed else Exit.OK


def _matches(name: str, pattern: str) -> bool:
    return fnmatch.fnmatchcase(name.lower(), pattern.lower())
