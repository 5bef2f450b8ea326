"""The program: its commands, and the border where exceptions become one line and an exit code."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated, Any, NoReturn

import typer

from bench import __version__
from bench.cli import board, config, doctor, models, plan, results, run, study, tasks
from bench.errors import Exit, Fault, UsageError, fault_of
from bench.output import document, note

EPILOG = (
    "Exit codes: 0 ok, 1 a run failed, 2 usage, 3 verification refused, 4 --require-…, 5 --fail-below, "
    "6 a package or file is missing, 7 interrupted ('bench resume' goes on), 130 and 143 by a signal."
)

app = typer.Typer(
    name="bench",
    help="A benchmark of asynchronous, multi-tenant RL post-training.",
    epilog=EPILOG,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help starts twice as fast
    add_completion=True,
)
for part in (run, results, board, plan, doctor, tasks, models, study, config):
    app.add_typer(part.app)


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="Print the version.", is_eager=True)] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Tracebacks instead of one-line errors.")] = False,
) -> None:
    del debug  # read by `main`
    if version:
        sys.stdout.write(f"bench {__version__}\n")
        raise typer.Exit(0)


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """The `bench` program: result on stdout, all else on stderr, an exit code that means something."""
    given = list(sys.argv[1:] if argv is None else argv)
    sys.exit(invoke(given))


def invoke(argv: Sequence[str]) -> int:
    """Runs one command; whatever fails, the user reads one line and the caller gets an exit code."""
    debug, as_json = "--debug" in argv, "--json" in argv
    try:
        # typer's own ending would print a box of several lines, and no JSON
        ended = app([part for part in argv if part != "--debug"], prog_name="bench", standalone_mode=False)
        if ended != Exit.SIGINT:
            return int(ended or Exit.OK)
        fault = fault_of(KeyboardInterrupt())
    except typer.Exit as end:
        return end.exit_code
    except (typer.Abort, KeyboardInterrupt) as end:
        fault = fault_of(end if isinstance(end, KeyboardInterrupt) else KeyboardInterrupt())
    except BrokenPipeError:
        # the reader went away (`bench … | head`); what is still in the buffer has nowhere to go
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.FAILED
    except Exception as error:  # noqa: BLE001 the border: nothing leaves it as a traceback
        if isinstance(error, _ClickError):
            if type(error).__name__ == "NoArgsIsHelpError":
                note(_said(error))
                return Exit.USAGE
            hint = _setting(error, argv) or _help(error)
            fault = Fault(message=_said(error), hint=hint, exit_code=Exit.USAGE, expected=True)
        else:
            fault = fault_of(error)
        if debug:
            traceback.print_exc()
    note(fault.line())
    if as_json:
        try:
            document(fault.as_dict())
        except (OSError, UsageError) as error:
            note(fault_of(error).line())
    return int(fault.exit_code)


_ClickError: Any = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")
"""Newer typer carries a click of its own, older typer stands on the installed one."""


def _said(error: Any) -> str:
    return error.format_message().rstrip(".")


def _help(error: Any) -> str:
    context = getattr(error, "ctx", None)
    return f"'{context.command_path} --help' lists what there is" if context is not None else ""


def _setting(error: Any, argv: Sequence[str]) -> str:
    """What `updates=10` or `BENCH_UPDATES=10` as an argument was meant to be, where the command has settings."""
    command = getattr(getattr(error, "ctx", None), "command", None)
    if not any("--set" in parameter.opts for parameter in getattr(command, "params", ())):
        return ""
    for before, part in zip(("", *argv), argv, strict=False):
        name, eq, value = part.partition("=")
        if eq and name.isidentifier() and not before.startswith("-"):
            key = name.removeprefix("BENCH_").lower()
            where = f", or {name}={value} before 'bench'" if name != name.removeprefix("BENCH_") else ""
            return f"a setting is written --set {key}={value}{where}"
    return ""
