"""`bench run` and `bench resume`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bench.cli import completion
from bench.cli.options import ConfigFile, DataOption, JsonFlag, RunDir, Sets, show

app = typer.Typer()


@app.command()
def run(
    suite: Annotated[
        str | None,
        typer.Option(
            help="A named suite: quick, standard; other flags go first.",
            autocompletion=completion.one_of(completion.suite_names),
        ),
    ] = None,
    tasks: Annotated[
        str | None,
        typer.Option(
            help="Task ids or short names, comma-separated.",
            autocompletion=completion.comma_separated(completion.task_names),
        ),
    ] = None,
    arms: Annotated[
        str | None,
        typer.Option(
            help="Of S0, S1, A0, A1, comma-separated.",
            autocompletion=completion.comma_separated(completion.arm_names),
        ),
    ] = None,
    seeds: Annotated[int | None, typer.Option(help="How many seeds, paired over the arms.")] = None,
    aa: Annotated[
        bool | None,
        typer.Option("--aa/--no-aa", help="S1 twice, for the noise floor; default from two seeds."),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="The first seed.")] = None,
    tenants: Annotated[int | None, typer.Option(help="How many; they share the tasks in turn.")] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="Base model: embedded, a fetched one, or a path.",
            metavar="NAME",
            autocompletion=completion.one_of(completion.model_names),
        ),
    ] = None,
    latency: Annotated[
        str | None,
        typer.Option(
            help="Simulated: none, remote-tools, const:0.2, lognormal:median=0.4,p95=1.5, heavy:…",
            autocompletion=completion.one_of(completion.latency_forms),
        ),
    ] = None,
    updates: Annotated[int | None, typer.Option(help="Optimizer updates per tenant.")] = None,
    learning_rate: Annotated[float | None, typer.Option(help="Of every tenant.")] = None,
    max_staleness: Annotated[int | None, typer.Option(help="Of A1, in optimizer updates, inclusive.")] = None,
    eval_items: Annotated[int | None, typer.Option(help="Dev items per tenant and evaluation.")] = None,
    eval_every: Annotated[int | None, typer.Option(help="Between snapshots; 0: first and last.")] = None,
    out: Annotated[Path | None, typer.Option(help="A new folder; default runs/<id>.")] = None,
    limit: Annotated[int | None, typer.Option(help="At most N updates, and 8 N dev items; marked.")] = None,
    tracker: Annotated[
        str | None,
        typer.Option(
            help="auto, none, wandb, trackio or tensorboard.",
            autocompletion=completion.one_of(completion.tracker_names),
        ),
    ] = None,
    require_tracker: Annotated[
        bool | None, typer.Option("--require-tracker", help="Exit 4 unless its mirror is whole.")
    ] = None,
    data: DataOption = None,
    max_time: Annotated[float | None, typer.Option(help="Stop in order after so many seconds.")] = None,
    config: ConfigFile = None,
    set_: Sets = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on in --out if a run with these options was begun there.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the plan and an estimate of its time; run nothing.")
    ] = False,
    fit: Annotated[
        list[Path] | None,
        typer.Option(help="With --dry-run: records to estimate the time from.", metavar="RUN"),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress on stderr.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Train tenants on tasks under several timetables; record everything; end with a table."""
    from bench.commands.run import command

    flags = {
        "suite": suite,
        "tasks": tasks,
        "arms": arms,
        "seeds": seeds,
        "aa": aa,
        "seed": seed,
        "tenants": tenants,
        "model": model,
        "latency": latency,
        "updates": updates,
        "learning_rate": learning_rate,
        "max_staleness": max_staleness,
        "eval_items": eval_items,
        "eval_every": eval_every,
        "out": None if out is None else str(out),
        "limit": limit,
        "tracker": tracker,
        "require_tracker": require_tracker,
        "data": data,
        "max_time": max_time,
    }
    value, text, code = command(
        config, set_ or [], flags, dry_run=dry_run, quiet=quiet or as_json, resume=resume, fit=fit or []
    )
    show("plan" if dry_run else "result", value, text, as_json)
    raise typer.Exit(code)


@app.command()
def resume(
    run: RunDir,
    tracker: Annotated[str | None, typer.Option(help="Another than the run began with.")] = None,
    max_time: Annotated[float | None, typer.Option(help="Stop in order after so many seconds.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress on stderr.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Go on with a run that was interrupted or killed; what it had committed is kept."""
    from bench.commands.run import resume_command

    value, text, code = resume_command(run, max_time, tracker, quiet=quiet or as_json)
    show("result", value, text, as_json)
    raise typer.Exit(code)
