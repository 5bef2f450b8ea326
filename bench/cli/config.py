"""`bench config`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bench.cli.options import ConfigFile, JsonFlag, Sets, show

app = typer.Typer()
config_app = typer.Typer(help="The configuration of a run: init, show.", no_args_is_help=True)
app.add_typer(config_app, name="config")


@config_app.command("init")
def config_init(
    file: Annotated[Path, typer.Argument(metavar="[FILE]", help="A new file.")] = Path("bench.toml"),
    as_json: JsonFlag = False,
) -> None:
    """Write a TOML file with every key, its meaning and its default, as comments; overwrites nothing."""
    from bench.commands.config import init_command

    show("config-init", *init_command(file), as_json)


@config_app.command("show")
def config_show(
    suite: Annotated[str | None, typer.Option(help="As of 'bench run'.")] = None,
    config: ConfigFile = None,
    set_: Sets = None,
    as_json: JsonFlag = False,
) -> None:
    """Every key, its value and where it came from."""
    from bench.commands.config import show_command

    show("config", *show_command(config, set_ or [], suite), as_json)
