"""`bench doctor`."""

from __future__ import annotations

from typing import Annotated

import typer

from bench.cli.options import JsonFlag, show

app = typer.Typer()


@app.command()
def doctor(
    deep: Annotated[bool, typer.Option("--deep", help="One small update too: do both sides agree?")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Look at this machine: Python, devices, cores, load, disk, model file, tracker; --deep: the trainer."""
    from bench.commands.doctor import doctor_command

    value, text, code = doctor_command(deep)
    show("doctor", value, text, as_json)
    raise typer.Exit(code)
