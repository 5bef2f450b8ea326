"""Options that several commands share, and how every command prints its result."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from bench.cli import completion
from bench.output import document, result

JsonFlag = Annotated[bool, typer.Option("--json", help="One JSON document on stdout, also for errors.")]
RunDir = Annotated[Path, typer.Argument(metavar="RUN", help="A run directory.")]
ConfigFile = Annotated[Path | None, typer.Option("--config", help="A TOML file.", metavar="FILE")]
Sets = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="Any key of the config.",
        metavar="K=V",
        autocompletion=completion.one_of(completion.setting_names),
    ),
]
DataOption = Annotated[
    str | None,
    typer.Option("--data", help="Of data-set tasks: a folder, a file, or 'hub'.", metavar="PLACE"),
]


def show(kind: str, value: dict[str, Any], text: str, as_json: bool) -> None:
    """The result of a command, on stdout; as JSON, one document that names its schema."""
    document({"schema": f"bench.{kind}/1", **value}) if as_json else result(text)
