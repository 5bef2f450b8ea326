"""The run as a picture and as a page; both self-contained, both from the recorded lines."""

from __future__ import annotations

from pathlib import Path

from bench import table
from leaderboard.bundle import write_atomically
from leaderboard.records import RunRecord
from leaderboard.site import html, plots

FIGURE = "figure.svg"
_STYLE = """text{font:12px system-ui,sans-serif;fill:#222}.axis{stroke:#8888}
.title{font-weight:600}@media(prefers-color-scheme:dark){text{fill:#ddd}}"""


def write_figure(directory: Path) -> Path:
    """Writes figure.svg: accuracy over the time of training, and what the device did."""
    record = RunRecord.open(directory)
    views = [v for v in record.views if v.updates]
    path = directory / FIGURE
    if views:
        write_atomically(path, figure(record).encode())
    return path


def figure(record: RunRecord) -> str:
    """Two drawings in one SVG, with the labels that belong to any figure of this run."""
    views = [v for v in record.views if v.updates]
    top, bottom = plots.accuracy(views), plots.timeline(views)
    heights = [_height(part) for part in (top, bottom)]
    labels = [x for x in table.labels(record, []) if "SIMULATED" in x or "cpu-sim" in x or "LIMITED" in x]
    y, parts = 0, []
    for caption, part, height in (
        ("Accuracy on dev items over the time of training", top, heights[0]),
        ("What the device did", bottom, heights[1]),
    ):
        parts.append(html.tag("text", caption, x=4, y=y + 16, class_="title"))
        nested = part.replace("<svg ", f'<svg y="{y + 24}" ', 1)
        parts.append(html.Markup(nested))
        y += height + 34
    for label in labels:
        parts.append(html.tag("text", label, x=4, y=y + 12))
        y += 18
    inside = html.join((html.tag("title", "Run"), html.tag("style", _STYLE), *parts))
    return html.tag(
        "svg",
        inside,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {plots.WIDTH} {y + 8}",
        width=plots.WIDTH,
        height=y + 8,
    )


def _height(svg: str) -> int:
    return int(svg.split('viewBox="0 0 ', 1)[1].split('"', 1)[0].split()[1])


def write_html(directory: Path, out: Path) -> Path:
    """Writes one page with the table, the drawings and how to reproduce the run."""
    record = RunRecord.open(directory)
    views = [v for v in record.views if v.updates]
    header = record.header
    page = html.page(
        f"Run {header.run_id}",
        html.tag("h1", f"Run {header.run_id}"),
        html.tag("pre", table.render(record)),
        html.tag("h2", "Accuracy over the time of training"),
        plots.accuracy(views) if views else "no updates",
        html.tag("h2", "What the device did"),
        plots.timeline(views) if views else "no updates",
        html.tag("h2", "Reproduce"),
        html.tag("pre", " ".join(header.command)),
    )
    write_atomically(out, page.encode())
    return out
