"""What is known before a run: `bench plan`, `bench audit`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bench.cli.options import ConfigFile, JsonFlag, Sets, show

app = typer.Typer()


@app.command()
def plan(
    model: Annotated[str | None, typer.Option(help="Base model, e.g. llama3-70b.")] = None,
    device: Annotated[str | None, typer.Option(help="v5e, v5p, v6e, h100, h200 or b200.")] = None,
    devices: Annotated[int | None, typer.Option(help="Chips in all.")] = None,
    tenants: Annotated[int | None, typer.Option(help="How many share the base model.")] = None,
    arms: Annotated[str | None, typer.Option(help="Of S0, S1, A0, A1, comma-separated.")] = None,
    updates: Annotated[int | None, typer.Option(help="Optimizer updates per tenant.")] = None,
    latency: Annotated[str | None, typer.Option(help="Of a tool call, as of 'bench run'.")] = None,
    max_staleness: Annotated[int | None, typer.Option(help="Of A1, in optimizer updates.")] = None,
    learner_share: Annotated[
        float | None, typer.Option(help="Of the chips, for the learner alone; 0: roles share all.")
    ] = None,
    from_: Annotated[
        Path | None, typer.Option("--from", help="A record: predicted beside measured.", metavar="RUN")
    ] = None,
    fit: Annotated[
        list[Path] | None,
        typer.Option(help="Other records, to fit stage times on; may be repeated.", metavar="RUN"),
    ] = None,
    config: ConfigFile = None,
    set_: Sets = None,
    as_json: JsonFlag = False,
) -> None:
    """Predict a run before paying for it: utilization, time, staleness, memory, cost. SIMULATED throughout."""
    from bench.commands.plan import beside_command, plan_command

    if from_ is not None:
        value, text = beside_command(from_, fit or [])
        show("prediction", value, text, as_json)
        return
    flags = {
        "model": model, "device": device, "devices": devices, "tenants": tenants, "arms": arms, "updates": updates,
        "latency": latency, "max_staleness": max_staleness, "learner_share": learner_share,
    }  # fmt: skip
    value, text = plan_command(config, set_ or [], flags)
    show("prediction", value, text, as_json)


@app.command()
def audit(
    tasks: Annotated[str | None, typer.Option(help="Task ids or short names, comma-separated.")] = None,
    tenants: Annotated[int | None, typer.Option(help="How many; they share the tasks in turn.")] = None,
    latency: Annotated[str | None, typer.Option(help="Simulated, as of 'bench run'.")] = None,
    log: Annotated[
        Path | None, typer.Option(help="Latencies of your own tools: CSV or JSONL with latency_s, tool.")
    ] = None,
    write: Annotated[Path | None, typer.Option(help="A TOML file for 'bench run --config'.")] = None,
    config: ConfigFile = None,
    set_: Sets = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress on stderr.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Measure tasks, tools and model on this machine; name the bottleneck; size environments, buffer, staleness."""
    from bench.commands.audit import audit_command

    flags = {"tasks": tasks, "tenants": tenants, "latency": latency}
    value, text = audit_command(config, set_ or [], flags, log=log, write=write, quiet=quiet or as_json)
    show("audit", value, text, as_json)
