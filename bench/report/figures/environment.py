"""Where and how the run was made: environment, configuration, warnings and the command that makes it again."""

from __future__ import annotations

import json
import shlex
from typing import Any

from bench.config import RunConfig
from bench.report.figure import Figure, Table, columns
from bench.report.material import Material
from bench.report.numbers import Number, pointer


def environment(material: Material) -> Figure:
    """Tables of the environment, of what differs from the defaults, and of what the arms differ in."""
    run = material.document["run"]
    warned = run["warnings"]
    return Figure(
        key="environment",
        title="Environment, configuration and reproduction",
        lead=[
            f"{len(warned)} warning{'s' * (len(warned) != 1)}"
            + (": " if warned else ". ")
            + "; ".join(warned)
        ],
        tables=[_settings(run), _arms(run), _machine(run), _compile(run), *_memory(material)],
        open_tables=True,
    )


def reproduction(material: Material) -> str:
    """The command that makes the run again."""
    command = material.document["run"]["command"]
    return shlex.join(command)


def _settings(run: dict[str, Any]) -> Table:
    """Keys of the configuration that say something else than the defaults."""
    default = {
        name: field.get_default(call_default_factory=True) for name, field in RunConfig.model_fields.items()
    }
    rows = []
    for key, value in run["config"].items():
        usual = default.get(key)
        if key in default and json.dumps(value, default=str) != json.dumps(usual, default=str):
            rows.append([key, _said(usual), _said(value), run["set_by"].get(key, "default")])
    return Table(
        caption="Configuration: what differs from the defaults",
        columns=columns("key", "default", "here", "set by", text=4),
        rows=rows,
    )


def _arms(run: dict[str, Any]) -> Table:
    rows = [
        [
            arm["arm"],
            "one" if arm["tenants_at_once"] == 1 else "all",
            "yes" if arm["step_barrier"] else "no",
            Number(key=pointer("run", "arms", place, "max_staleness"), form="count"),
        ]
        for place, arm in enumerate(run["arms"])
    ]
    return Table(
        caption="The arms: all that differs between them",
        columns=columns("arm", "tenants at once", "barrier at each step", "staleness limit", text=3),
        rows=rows,
    )


def _machine(run: dict[str, Any]) -> Table:
    devices = ", ".join(f"{device['id']} ({device['kind']})" for device in run["devices"])
    rows = [
        ["run", run["run_id"]],
        ["made", run["created_utc"]],
        ["suite", run["suite_version"]],
        ["device class", run["device_class"]],
        ["devices", devices],
        ["latency", f"{'SIMULATED: ' if run['latency']['simulated'] else ''}{run['latency']['profile']}"],
        ["model", run["model"]["name"]],
        ["weights", Number(key="/run/model/parameters", form="count")],
        *([name, str(version)] for name, version in run["software"].items()),
    ]
    return Table(caption="Machine and software", columns=columns("what", "value", text=2), rows=rows)


def _compile(run: dict[str, Any]) -> Table:
    rows = [
        [
            each["arm"],
            str(each["seed"]),
            Number(key=pointer("run", "compile", place, "init_s"), form="seconds"),
            Number(key=pointer("run", "compile", place, "compile_s"), form="seconds"),
            Number(key=pointer("run", "compile", place, "cache_hits"), form="count"),
        ]
        for place, each in enumerate(run["compile"])
    ]
    return Table(
        caption="Before the clock: setting up and compiling",
        columns=columns("arm", "seed", "init", "compile", "from the cache", text=2),
        rows=rows,
    )


def _memory(material: Material) -> list[Table]:
    """The most memory of each arm, of what told it: devices' allocators, the process."""
    means = {arm: material.document["arms"][arm]["mean"].get("peak_mem") or {} for arm in material.arms}
    names = sorted({name for peaks in means.values() for name in peaks})
    if not names:
        return []
    rows = [
        [arm, *(Number(key=pointer("arms", arm, "mean", "peak_mem", name), form="bytes") for name in names)]
        for arm in means
    ]
    return [
        Table(
            caption="Most memory in use in the window, mean of the seeds",
            columns=columns("arm", *names),
            rows=rows,
        )
    ]


def _said(value: Any) -> str:
    return "unset" if value is None else value if isinstance(value, str) else json.dumps(value, default=str)
