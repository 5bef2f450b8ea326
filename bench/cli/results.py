"""What is made of records: `bench compare`, `bench report`, `bench export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bench.cli import completion
from bench.cli.options import JsonFlag, RunDir, show

ARM_OFFER = completion.one_of(completion.arm_names)

app = typer.Typer()
export_app = typer.Typer(help="A record as others want it.", no_args_is_help=True)
app.add_typer(export_app, name="export")


@app.command()
def compare(
    run: RunDir,
    other: Annotated[
        Path | None, typer.Argument(metavar="[RUN2]", help="Takes the product from here, paired by seed.")
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(help="Arm to compare with; default S1.", autocompletion=ARM_OFFER),
    ] = None,
    product: Annotated[
        str | None,
        typer.Option(help="Arm that is compared; default A1.", autocompletion=ARM_OFFER),
    ] = None,
    fail_below: Annotated[float | None, typer.Option(help="Exit 5 if the speed-up is lower.")] = None,
    require_parity: Annotated[
        bool, typer.Option("--require-parity", help="Exit 4 unless it passes.")
    ] = False,
    metric: Annotated[
        str,
        typer.Option(
            help="Time of the ratio: t_work, or t_total, tenant_mean, tenant_p95.",
            autocompletion=completion.one_of(completion.time_names),
        ),
    ] = "t_work",
    by: Annotated[
        str | None,
        typer.Option(
            help="task: a ratio for every task, with Holm's p.",
            autocompletion=completion.one_of(lambda: ["task"]),
        ),
    ] = None,
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
        str | None,
        typer.Option(
            "--format",
            help="html (default), md or png.",
            metavar="FORMAT",
            autocompletion=completion.one_of(completion.report_formats),
        ),
    ] = None,
    open_: Annotated[bool, typer.Option("--open", help="Show it in the browser.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Write one self-contained page about a run: verdict, figures, tables; several runs or a study add theirs."""
    from bench.commands.results import report_command

    value = report_command(runs, out, form)
    show("report", value, value["report"], as_json)
    if open_:
        import webbrowser

        webbrowser.open(Path(value["report"]).resolve().as_uri())


@export_app.command("wandb")
def export_wandb(run: RunDir, as_json: JsonFlag = False) -> None:
    """Rebuild a run's W&B curve from its metrics.jsonl; doing it twice makes no second run."""
    from bench.commands.results import exported
    from bench.export import export_wandb as export

    value = exported(run, lambda run: {"exported": export(run)})
    show("export", value, value["exported"], as_json)


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
    from bench.commands.results import exported

    value = exported(run, lambda run: export(run, out, arm, tenant))
    show("export", value, "\n".join(value["adapters"]), as_json)


TablesOut = Annotated[
    Path | None, typer.Option(help="A new folder; default RUN-csv or RUN-parquet beside it.")
]


@export_app.command("csv")
def export_csv(run: RunDir, out: TablesOut = None, as_json: JsonFlag = False) -> None:
    """Write a run's metrics and every line of its record as CSV, a file per table."""
    _tables(run, "csv", out, as_json)


@export_app.command("parquet")
def export_parquet(run: RunDir, out: TablesOut = None, as_json: JsonFlag = False) -> None:
    """Write a run's metrics and every line of its record as Parquet, a file per table."""
    _tables(run, "parquet", out, as_json)


def _tables(run: Path, form: str, out: Path | None, as_json: bool) -> None:
    from bench.commands.results import exported
    from bench.tables import export_tables

    value = exported(run, lambda run: export_tables(run, form, out))
    rows = ", ".join(f"{name} {number}" for name, number in value["rows"].items())
    show("export", value, f"{value['folder']}: {rows}", as_json)
