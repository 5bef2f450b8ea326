"""What makes records count: verify, regrade, replay, reproduce, submit, and the board."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bench.cli.options import DataOption, JsonFlag, RunDir, show

app = typer.Typer()
board_app = typer.Typer(help="The board: build, serve, show.", no_args_is_help=True)
app.add_typer(board_app, name="leaderboard")

BoardData = Annotated[Path, typer.Option("--data", help="The board's folder.")]
BoardOut = Annotated[Path, typer.Option("--out", help="Where the site goes.")]


@app.command()
def verify(
    runs: Annotated[
        list[Path] | None, typer.Argument(metavar="RUN...", help="Run directories or archives.")
    ] = None,
    explain: Annotated[str | None, typer.Option(help="Say what a code means, e.g. E161.")] = None,
    data: DataOption = None,
    strict: Annotated[bool, typer.Option("--strict", help="Warnings refuse too.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Check a run directory: schema, hashes, clock, ledgers, figures, every reward re-graded."""
    from bench.commands.board import explain_command, verify_command

    value, text, code = explain_command(explain) if explain else verify_command(runs or [], data, strict)
    show("explanation" if explain else "verification", value, text, as_json)
    raise typer.Exit(code)


@app.command()
def regrade(run: RunDir, data: DataOption = None, as_json: JsonFlag = False) -> None:
    """Recompute every reward of a run from its stored transcripts, with the tasks as they are now."""
    from bench.commands.board import regrade_command

    value, text, code = regrade_command(run, data)
    show("regrade", value, text, as_json)
    raise typer.Exit(code)


@app.command()
def replay(
    run: RunDir,
    nonce: Annotated[str, typer.Option(help="Chooses the lines; take one nobody knew before.")],
    items: Annotated[int, typer.Option(min=1, help="Rollouts and evaluated items of each adapter.")] = 16,
    data: DataOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Load a run's adapters and hold its transcripts to them (tier T2); needs the base model."""
    from bench.commands.board import replay_command

    value, text, code = replay_command(run, items, nonce, data)
    show("replay", value, text, as_json)
    raise typer.Exit(code)


@app.command()
def reproduce(
    run: RunDir,
    nonce: Annotated[str, typer.Option(help="Gives the seeds; take one nobody knew before.")],
    seeds: Annotated[int, typer.Option(min=2, max=1000, help="How many.")] = 5,
    out: Annotated[Path | None, typer.Option(help="A new folder for the run; default runs/<id>.")] = None,
    data: DataOption = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress on stderr.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Run a record's configuration again with seeds of one's own: is its speed-up in the published interval (T3)?"""
    from bench.commands.reproduce import reproduce_command

    value, text, code = reproduce_command(run, nonce, seeds, out, data, quiet=quiet or as_json)
    show("reproduction", value, text, as_json)
    raise typer.Exit(code)


@app.command()
def submit(
    run: RunDir,
    to: Annotated[Path, typer.Option(help="The board's folder; made if missing.")] = Path("leaderboard-data"),
    name: Annotated[str | None, typer.Option(help="Of the submission; default the run's folder.")] = None,
    author: Annotated[list[str] | None, typer.Option(help="May be repeated; default anonymous.")] = None,
    description: Annotated[str | None, typer.Option(help="What is special about it.")] = None,
    code_url: Annotated[str | None, typer.Option(help="https://… of the code.")] = None,
    sign: Annotated[Path | None, typer.Option(help="Private Ed25519 key of OpenSSH to sign with.")] = None,
    round_: Annotated[
        str | None, typer.Option("--round", metavar="FILE|NONCE", help="Hold seeds and attempts to a round.")
    ] = None,
    supersedes: Annotated[str | None, typer.Option(help="Slug of the entry that this one corrects.")] = None,
    reason: Annotated[str | None, typer.Option(help="Why it does.")] = None,
    public: Annotated[
        bool, typer.Option("--public", help="Ask for every field a public board wants.")
    ] = False,
    patch: Annotated[Path | None, typer.Option(help="Also write a patch, for a pull request.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Verify and preview; write nothing.")] = False,
    data: DataOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Verify a run and put it into a local board folder."""
    from bench.commands.board import submit_command, terms_of

    about = {"name": name, "authors": author, "description": description, "code_url": code_url}
    about |= {"supersedes": supersedes, "supersedes_reason": reason}
    terms = terms_of(sign, round_, public)
    value, text, code = submit_command(run, to, about, dry_run, data, terms, patch)
    show("submission", value, text, as_json)
    raise typer.Exit(code)


@board_app.command("build")
def board_build(
    data: BoardData = Path("leaderboard-data"),
    out: BoardOut = Path("leaderboard-site"),
    as_json: JsonFlag = False,
) -> None:
    """Write the static site."""
    from bench.commands.board import build_command

    path = build_command(data, out)
    show("board", {"index": str(path)}, str(path), as_json)


@board_app.command("serve")
def board_serve(
    out: BoardOut = Path("leaderboard-site"),
    port: Annotated[int, typer.Option(min=0, max=65535, help="On 127.0.0.1; 0 is any free one.")] = 8000,
) -> None:
    """Serve a built site on this machine."""
    from bench.commands.board import serve_command

    serve_command(out, port)


@board_app.command("show")
def board_show(data: BoardData = Path("leaderboard-data"), as_json: JsonFlag = False) -> None:
    """Print the board."""
    from bench.commands.board import show_board_command

    show("rows", *show_board_command(data), as_json)
