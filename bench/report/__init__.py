"""`bench report`: a run as a page, as Markdown and as a picture; and the figure that every run writes of itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from bench import table
from bench.report import export, page
from bench.report.figures import scaling
from bench.report.material import Material, gather
from leaderboard.bundle import write_atomically
from leaderboard.records import RunRecord
from leaderboard.site import plots
from leaderboard.site.html import Markup
from leaderboard.site.svg import Sheet

FIGURE = "figure.svg"
Format = Literal["html", "md", "png"]


def render(material: Material, form: Format) -> bytes:
    """Returns the report of what was gathered, in a format.

    Raises DependencyError: a picture, and its renderer is not installed.
    """
    if form == "png":
        return export.png(material)
    return (export.markdown if form == "md" else page.render)(material).encode()


def write_html(directory: Path, out: Path | None = None) -> Path:
    """Writes the page; beside the directory, which may be sealed, unless `out` says where."""
    out = out or directory.resolve().with_name(directory.resolve().name + ".html")
    write_atomically(out, render(gather(directory), "html"))
    return out


def write_figure(directory: Path) -> Path:
    """Writes figure.svg: accuracy over the time of training, and what the device did."""
    path = directory / FIGURE
    write_atomically(path, figure(RunRecord.open(directory)).encode())
    return path


def write_study_figure(study: dict[str, Any], out: Path) -> Path:
    """Writes study.svg beside a study's records: time and busy share by number of tenants."""
    sheet = Sheet(width=720, title="Time and utilization by number of tenants")
    for label in study["labels"]:
        sheet.text(label, "warn")
    sheet.legend(scaling.legend(study))
    sheet.row(scaling.drawings(study))
    write_atomically(out / "study.svg", sheet.markup(dark=True).encode())
    return out / "study.svg"


def figure(record: RunRecord) -> Markup:
    """Both drawings and the run's labels in one SVG, which is shown without a page around it.

    Args:
      record: need not be sealed.
    """
    views = [view for view in record.views if view.updates]
    sheet = Sheet(width=768, title=f"Run {record.header.run_id}")
    # without the warnings: what would mislead if it were missing from a copied figure
    for label in table.labels(record, []):
        if label not in record.header.warnings:
            sheet.text(label, "warn")
    if not views:
        sheet.text("No update was made.")
        return sheet.markup(dark=True)
    first = [view for view in views if view.seed == views[0].seed]
    runs = [plots.learnt(view) for view in first]
    tenants = list(dict.fromkeys(tenant for run in runs for tenant in run.curves))
    sheet.text(f"Accuracy over the time of training, seed {views[0].seed}", "head")
    sheet.legend([(plots.arm_ink(view.arm), view.arm) for view in first])
    sheet.row([plots.accuracy(runs, tenants=[tenant], name=tenant, width=246) for tenant in tenants])
    sheet.text(f"What the device did, seed {views[0].seed}", "head")
    sheet.legend(plots.ROLE_LEGEND, box=True)
    sheet.row([plots.timeline(first)])
    return sheet.markup(dark=True)
