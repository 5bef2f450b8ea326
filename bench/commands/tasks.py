"""`bench tasks`."""

from __future__ import annotations

import fnmatch
import json
import re
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import tasks
from bench.errors import Exit, UsageError
from tasks import fixtures
from tasks.adapters import reasoning_gym
from tasks.baselines import baselines
from tasks.data.sources import DataMissingError
from tasks.protocol import Protocol
from tasks.splits import item
from tasks.validate import validate

BASELINE_ITEMS = 300
TEMPLATE = Path(__file__).parent.parent / "templates" / "task.py"


def list_command(pattern: str) -> tuple[dict[str, Any], str]:
    """Cards of all tasks whose id or short name matches, a line each; reads no data."""
    cards = [tasks.card(task_id) for task_id in tasks.specs()]
    found = [c for c in cards if any(_matches(name, pattern) for name in (c["id"], *c["aliases"]))]
    adapted = reasoning_gym.names()
    others = [] if pattern == "*" else [name for name in adapted if _matches(name, pattern)]
    if not found and not others:
        raise UsageError(f"no task matches {pattern!r}", "'bench tasks list' shows all")
    lines = [f"{c['id']:<18} {', '.join(c['aliases']):<16} {c['description']}" for c in found]
    if pattern == "*":
        how = "'bench tasks list \"RG/*\"' names them" if adapted else f"to have them: {reasoning_gym.EXTRA}"
        lines.append(f"RG/<dataset>-v0: the datasets of reasoning-gym ({len(adapted)} here; {how})")
    return {"tasks": found, "adapted": others or list(adapted)}, "\n".join([*lines, *others])


def show_command(task: str) -> tuple[dict[str, Any], str]:
    """A card, one dev item with the oracle's turns, and what unskilled policies earn."""
    spec = tasks.get(tasks.resolve(task))
    value: dict[str, Any] = dict(tasks.card(spec.id))
    try:
        example = item(spec, "dev", 0, 0)
        value["example"] = {"prompt": example.prompt, "oracle": list(spec.oracle(example))}
        value["instructions"] = Protocol.of(spec).instructions()
        if not value["measured"]:
            value["baselines"] = _figures(spec)
    except DataMissingError as missing:
        # the card is known without the data
        value["items"] = f"not here: {missing}"
    shown = {key: entry for key, entry in value.items() if key != "measured"}
    shown |= {
        f"level {level}": ", ".join(f"{k} {v:g}" for k, v in figures.items() if isinstance(v, float))
        for level, figures in value["measured"].items()
    }
    lines = (
        f"{k:<18} {v if isinstance(v, str) else json.dumps(v, ensure_ascii=False)}" for k, v in shown.items()
    )
    return value, "\n".join(lines)


def validate_command(names: Sequence[str], items: int) -> tuple[dict[str, Any], str, int]:
    """Findings of the named tasks, or of all; exit 1 if there are any. Data that aren't here skip a task."""
    values, lines = [], []
    for task_id in [tasks.resolve(name) for name in names] or tasks.specs():
        try:
            findings = [str(finding) for finding in validate(task_id, items=items)]
            status = "failed" if findings else "ok"
            figures = _figures(tasks.get(task_id))
        except DataMissingError as missing:
            if names:
                raise
            findings, status, figures = [str(missing)], "skipped", {}
        values.append({"task": task_id, "status": status, "findings": findings, "baselines": figures})
        shown = ", ".join(f"{k} {v:.3f}" for k, v in figures.items() if isinstance(v, float))
        lines += [f"{task_id}: {status}{shown and f' ({shown})'}", *(f"  {finding}" for finding in findings)]
    failed = any(value["status"] == "failed" for value in values)
    return {"ok": not failed, "tasks": values}, "\n".join(lines), Exit.FAILED if failed else Exit.OK


def fixtures_command(name: str) -> tuple[dict[str, Any], str]:
    """Makes and writes a task's fixtures."""
    spec = tasks.get(name)
    made = fixtures.make(spec)
    path = fixtures.write(spec, made)
    return {
        "path": str(path),
        "fixtures": len(made),
    }, f"{len(made)} fixtures of {spec.id} in {path}; read them"


def new_command(name: str, out: Path) -> tuple[dict[str, Any], str]:
    """Writes one file that is a task, and its fixtures."""
    if not re.fullmatch(r"[A-Z][A-Za-z0-9]{1,40}", name):
        raise UsageError(
            f"a task's name is like 'CountVowels': letters and digits, a capital first; got {name!r}", ""
        )
    if not out.is_dir():
        raise UsageError(f"{str(out)!r} is no folder", "make it, or choose another with --out")
    file = out / f"{re.sub(r'(?<=[a-z0-9])(?=[A-Z])', '_', name).lower()}.py"
    if file.exists():
        raise UsageError(f"{str(file)!r} is there already", "choose another name or --out")
    file.write_text(TEMPLATE.read_text(encoding="utf-8").replace("CountLetters", name), encoding="utf-8")
    value, _ = fixtures_command(str(file))
    lines = [
        f"{file}: one task, {value['fixtures']} fixtures beside it. Now:",
        f"  bench tasks validate {file}",
        f"  bench run --tasks {file} --updates 5",
    ]
    return {"file": str(file), **value}, "\n".join(lines)


def _figures(spec: tasks.TaskSpec) -> dict[str, Any]:
    return asdict(baselines(spec, items=BASELINE_ITEMS // (10 if spec.sandboxed else 1)))


def _matches(name: str, pattern: str) -> bool:
    return fnmatch.fnmatchcase(name.lower(), pattern.lower())
