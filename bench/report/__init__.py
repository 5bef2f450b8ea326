"""The run as a picture and as a page; both self-contained, both from the recorded lines, sealed or not yet."""

from __future__ import annotations

from pathlib import Path

from bench import table
from leaderboard.bundle import write_atomically
from leaderboard.records import ArmView, RunRecord
from leaderboard.site import html, plots

FIGURE = "figure.svg"
MARGIN, CAPTION, GAP = 22, 24, 30
# a ground of its own: the figure is shown on white pages and on dark ones, by viewers that know of no scheme
_STYLE = """.ground{fill:#fff}text{font:11px system-ui,sans-serif;fill:#222}.axis{stroke:#888;stroke-width:1}
.title{font-weight:600;font-size:13px}.label{fill:#9a4b00;font-weight:600}.empty{fill:none;stroke:#888}
@media(prefers-color-scheme:dark){.ground{fill:#13161b}text{fill:#e6e9ef}.label{fill:#e69f00}}"""


def write_figure(directory: Path) -> Path:
    """Writes figure.svg: accuracy over the time of training, and what the device did."""
    record = RunRecord.open(directory)
    path = directory / FIGURE
    write_atomically(path, figure(record, style=_STYLE).encode())
    return path


def write_html(directory: Path, out: Path | None = None) -> Path:
    """Writes one page with the table, the figure and the command; beside the directory, which may be sealed."""
    record = RunRecord.open(directory)
    header = record.header
    out = out or directory.resolve().with_name(directory.resolve().name + ".html")
    page = html.page(
        f"Run {header.run_id}",
        html.tag("h1", f"Run {header.run_id}"),
        html.tag("pre", table.render(record)),
        figure(record),
        html.tag("h2", "Reproduce"),
        html.tag("pre", " ".join(header.command)),
    )
    write_atomically(out, page.encode())
    return out


def figure(record: RunRecord, *, style: str | None = None) -> html.Markup:
    """Both drawings in one SVG; one with a style stands alone and bears the run's labels too.

    Args:
      record: need not be sealed.
      style: CSS to carry along; None in a page, which has labels and a style of its own and allows no second.
    """
    views = [view for view in record.views if view.updates]
    y, parts = 8, []
    for label in _labels(record) if style else []:
        parts.append(html.tag("text", label, x=6, y=y + 12, class_="label"))
        y += 18
    for title, drawing, notes in _panels(views):
        height = _height(drawing)
        parts.append(html.tag("text", title, x=6, y=y + 16, class_="title"))
        y += CAPTION
        place = f"translate({MARGIN} {y})"
        parts.append(html.tag("g", drawing, *notes, transform=place))
        y += height + GAP
    if not views:
        parts.append(html.tag("text", "No update was made.", x=6, y=y + 16))
        y += GAP
    width = plots.WIDTH + MARGIN
    ground = html.tag("rect", width=width, height=y, class_="ground") if style else ""
    inside = (html.tag("title", f"Run {record.header.run_id}"), html.tag("style", html.Markup(style or "")))
    return html.tag(
        "svg",
        *(inside if style else inside[:1]),
        ground,
        *parts,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width} {y}",
        width=width,
        height=y,
        role="img",
    )


def _panels(views: list[ArmView]) -> list[tuple[str, html.Markup, tuple[html.Markup, ...]]]:
    """Title, drawing and notes of each panel; the notes name axes, units and the drawing's empty parts."""
    if not views:
        return []
    seed = f"seed {views[0].seed}"
    accuracy, timeline = plots.accuracy(views), plots.timeline(views)
    middle = (plots.LEFT + plots.WIDTH - 150) / 2
    up = (plots.HEIGHT - plots.BOTTOM) / 2 + 5
    legend = _height(timeline) - 20
    idle = plots.LEFT + 90 * len(plots.ROLE_COLOURS)
    return [
        (
            f"Accuracy over the time of training, {seed}",
            accuracy,
            (
                _axis_title("wall time since the arm's start (s)", middle, plots.HEIGHT - 6),
                _axis_title("accuracy (share right, 0 to 1)", -6, up, rotate=True),
            ),
        ),
        (
            f"What the device did, {seed}",
            timeline,
            (
                html.tag("rect", x=idle, y=legend, width=12, height=12, class_="empty axis", fill="none"),
                html.tag("text", "idle", x=idle + 16, y=legend + 10),
                _axis_title(
                    "wall time since the arm's start (s)", plots.WIDTH - 4, legend + 28, anchor="end"
                ),
            ),
        ),
    ]


def _axis_title(
    title: str, x: float, y: float, *, rotate: bool = False, anchor: str = "middle"
) -> html.Markup:
    turned = f"rotate(-90 {x:g} {y:g})" if rotate else None
    return html.tag("text", title, x=f"{x:g}", y=f"{y:g}", text_anchor=anchor, transform=turned)


def _labels(record: RunRecord) -> list[str]:
    """Without the warnings: what would mislead if it were missing from a copied figure."""
    return [label for label in table.labels(record, []) if label not in record.header.warnings]


def _height(svg: str) -> int:
    return int(svg.split('viewBox="0 0 ', 1)[1].split('"', 1)[0].split()[1])
