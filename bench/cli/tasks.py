"""`bench tasks` and `bench env`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bench.cli.options import JsonFlag, show

app = typer.Typer()
tasks_app = typer.Typer(help="The tasks: list, show, validate, fixtures.", no_args_is_help=True)
env_app = typer.Typer(help="Environments of your own.", no_args_is_help=True)
app.add_typer(tasks_app, name="tasks")
app.add_typer(env_app, name="env")


@tasks_app.command("list")
def tasks_list(
    pattern: Annotated[str, typer.Argument(help="A glob over ids and short names, e.g. 'Math/*'.")] = "*",
    as_json: JsonFlag = False,
) -> None:
    """All tasks, a line each."""
    from bench.commands.tasks import list_command

    show("tasks", *list_command(pattern), as_json)


@tasks_app.command("show")
def tasks_show(task: str, as_json: JsonFlag = False) -> None:
    """One task: its card, an item and the oracle's turns."""
    from bench.commands.tasks import show_command

    show("task", *show_command(task), as_json)


@tasks_app.command("validate")
def tasks_validate(
    tasks: Annotated[list[str] | None, typer.Argument(metavar="[TASK]...", help="Default: all.")] = None,
    items: Annotated[int, typer.Option(min=1, help="Items a split.")] = 1000,
    as_json: JsonFlag = False,
) -> None:
    """Gymnasium's checker, determinism, split overlap, fixtures, oracle, null, constant, probes against gaming.

    A task may also be a Python file. Prints what policies without skill earn.
    """
    from bench.commands.tasks import validate_command

    value, text, code = validate_command(tasks or [], items)
    show("validation", value, text, as_json)
    raise typer.Exit(code)


@tasks_app.command("fixtures")
def tasks_fixtures(task: str, as_json: JsonFlag = False) -> None:
    """Write a task's fixtures anew: frozen episodes that hold its items and its grader to what they are."""
    from bench.commands.tasks import fixtures_command

    show("fixtures", *fixtures_command(task), as_json)


@env_app.command("new")
def env_new(
    name: Annotated[str, typer.Argument(help="Like CountVowels.")],
    out: Annotated[Path, typer.Option(help="The folder it goes to.")] = Path("."),
    as_json: JsonFlag = False,
) -> None:
    """Write a task of your own: one file that runs, to be changed."""
    from bench.commands.tasks import new_command

    show("env", *new_command(name, out), as_json)
