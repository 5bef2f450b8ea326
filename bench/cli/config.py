"""`bench config`."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from bench.cli.options import ConfigFile, JsonFlag, Sets, show

app = typer.Typer()
config_app = typer.Typer(help="The configuration of a run.", no_args_is_help=True)
app.add_typer(config_app, name="config")


@config_app.command("show")
def config_show(
    suite: Annotated[str | None, typer.Option(help="As of 'bench run'.")] = None,
    config: ConfigFile = None,
    set_: Sets = None,
    as_json: JsonFlag = False,
) -> None:
    """Every key, its value and where it came from."""
    from bench.config import RunConfig, environment, resolve

    resolved = resolve(config, environment(), set_ or [], {"suite": suite})
    values = resolved.config.model_dump(mode="json")
    origins = {key: resolved.set_by.get(key, "default") for key in values}
    lines = []
    for key, value in values.items():
        # TOML has no null: what is unset is a comment, and the whole can be saved as a --config file
        setting = f"# {key} is unset" if value is None else f"{key} = {json.dumps(value)}"
        lines.append(f"{setting:<44}  # {origins[key]}. {RunConfig.model_fields[key].description}")
    show("config", {"config": values, "set_by": origins}, "\n".join(lines), as_json)
