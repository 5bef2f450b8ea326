"""`bench study`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bench.cli.options import ConfigFile, JsonFlag, Sets, show

app = typer.Typer()
study_app = typer.Typer(help="Series of runs: how time and utilization scale.", no_args_is_help=True)
app.add_typer(study_app, name="study")


@study_app.command("tenants")
def study_tenants(
    out: Annotated[Path, typer.Option(help="Folder of the records; a study that stopped goes on there.")],
    tenants: Annotated[str, typer.Option(help="Numbers of tenants, comma-separated.")] = "1,2,4,8,16,32",
    arms: Annotated[str | None, typer.Option(help="Of S0, S1, A0, A1, comma-separated.")] = "S0,S1,A1",
    tasks: Annotated[str | None, typer.Option(help="They are shared by the tenants in turn.")] = None,
    latency: Annotated[str | None, typer.Option(help="Simulated, as of 'bench run'.")] = None,
    updates: Annotated[int | None, typer.Option(help="Optimizer updates per tenant.")] = None,
    seeds: Annotated[int | None, typer.Option(help="How many seeds, paired over the arms.")] = None,
    config: ConfigFile = None,
    set_: Sets = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress on stderr.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Time and utilization by number of tenants: one and many, synchronous and asynchronous, at equal work each."""
    from bench.commands.study import tenants_command

    flags = {
        "arms": arms, "tasks": tasks, "latency": latency, "updates": updates, "seeds": seeds, "tracker": "none",
    }  # fmt: skip
    value, text, code = tenants_command(tenants, out, config, set_ or [], flags, quiet=quiet or as_json)
    show("study", value, text, as_json)
    raise typer.Exit(code)
