"""`bench config`."""

from __future__ import annotations

import json
import os
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from bench.config import RunConfig, environment, resolve
from bench.errors import UsageError
from bench.output import note

EXAMPLES = {
    "suite": "quick",
    "aa": True,
    "tenants": 4,
    "env_workers": 64,
    "checkpoint_every": 10,
    "max_time": 600.0,
    "data": "hub",
    "out": "runs/mine",
    "limit": 2,
    "targets": {"math": 0.9},
}
"""A value to start from, of every key that is unset by default: TOML has no word for unset."""
BOUNDS = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}
HEAD = """\
# Settings of 'bench run --config {name}'. A line that begins with '#' has no effect; what follows it is the
# default. Later layers go first: defaults, suite, this file, BENCH_* variables, --set KEY=VALUE, flags.
# 'bench config show --config {name}' prints every value and where it came from.
"""


def init_command(file: Path) -> tuple[dict[str, Any], str]:
    """Writes every key with its meaning and default, as comments. Raises UsageError for a file that is there."""
    if file.suffix != ".toml":
        raise UsageError(f"{str(file)!r} is no .toml file", "for example bench.toml")
    if not file.parent.is_dir():
        raise UsageError(f"{file}: there is no folder {file.parent}", "make it first")
    try:
        with file.open("x", encoding="utf-8") as stream:
            stream.write(template(file.name))
    except FileExistsError:
        raise UsageError(f"{file} is there already, and is not overwritten", "name another file") from None
    keys = list(RunConfig.model_fields)
    value = {"file": str(file), "keys": keys}
    return value, f"{file}: {len(keys)} keys, all at their defaults; 'bench run --config {file}' takes it"


def template(name: str) -> str:
    """The text of a new file."""
    parts = [HEAD.format(name=name)]
    for key, field in RunConfig.model_fields.items():
        default = field.get_default()
        about = " ".join(filter(None, (field.description, _bounds(key))))
        if default is None:
            about += " Unset; for example:"
        shown = EXAMPLES[key] if default is None else default
        parts.append(textwrap.indent(textwrap.fill(about, 106), "# ") + f"\n# {key} = {_toml(shown)}\n")
    return "\n".join(parts)


def _toml(value: Any) -> str:
    """A value of the config as TOML: JSON's scalars and lists are TOML's too, a table is not."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{json.dumps(key)} = {_toml(item)}" for key, item in value.items()) + " }"
    return json.dumps(value)


def _bounds(key: str) -> str:
    field = RunConfig.model_fields[key]
    if get_origin(field.annotation) is Literal:
        return f"One of {', '.join(map(str, get_args(field.annotation)))}."
    found = [
        f"{words} {getattr(limit, name)}"
        for limit in field.metadata
        for name, words in BOUNDS.items()
        if getattr(limit, name, None) is not None
    ]
    return f"({', '.join(found)})" if found else ""


def show_command(file: Path | None, sets: list[str], suite: str | None) -> tuple[dict[str, Any], str]:
    """Every key, its value and its origin; the text can be saved as a --config file."""
    resolved = resolve(file, environment(), sets, {"suite": suite})
    values = resolved.config.model_dump(mode="json")
    origins = {key: resolved.set_by.get(key, "default") for key in values}
    for hint in bare_variables(os.environ):
        note(hint)
    lines = []
    for key, value in values.items():
        setting = f"# {key} is unset" if value is None else f"{key} = {_toml(value)}"
        lines.append(f"{setting:<44}  # {origins[key]}. {RunConfig.model_fields[key].description}")
    return {"config": values, "set_by": origins}, "\n".join(lines)


def bare_variables(env: Mapping[str, str]) -> Iterator[str]:
    """Variables that are spelt like a key without the prefix: maybe another program's, so only a remark."""
    for key in RunConfig.model_fields:
        name = key.upper()
        if name in env and f"BENCH_{name}" not in env:
            yield f"note: the variable {name} is no setting of bench; BENCH_{name} would be"
