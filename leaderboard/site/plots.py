"""Two drawings as SVG, made here and self-contained: accuracy over time, and what the device did."""

from __future__ import annotations

from collections.abc import Sequence

from leaderboard.metrics import learning
from leaderboard.metrics.work import NS, work_window
from leaderboard.records import ArmView
from leaderboard.site.html import Markup, join, tag

# Okabe and Ito's palette: told apart with colour-blind eyes; a dash pattern tells the arms apart too
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
DASHES = (None, "6 3", "2 3", "8 3 2 3")
ROLE_COLOURS = {
    "train": "#d55e00",
    "sync": "#cc79a7",
    "decode": "#0072b2",
    "prefill": "#56b4e9",
    "eval": "#999999",
}
WIDTH, HEIGHT, LEFT, BOTTOM = 720, 260, 44, 40
MAX_CELLS = 600


def accuracy(views: Sequence[ArmView]) -> Markup:
    """Draws accuracy against seconds for every tenant and arm, first seed."""
    curves = [
        (view.arm, tenant, [(point["t_s"], point["accuracy"]) for point in own["curve"]])
        for view in _first_seed(views)
        for tenant, own in learning.accuracy(view).items()
    ]
    longest = max((t for _, _, points in curves for t, _ in points), default=0.0) or 1.0
    arms = list(dict.fromkeys(arm for arm, _, _ in curves))
    tenants = list(dict.fromkeys(tenant for _, tenant, _ in curves))
    drawn: list[Markup] = []
    for index, (arm, tenant, points) in enumerate(curves):
        colour = COLOURS[tenants.index(tenant) % len(COLOURS)]
        path = " ".join(
            f"{LEFT + t / longest * (WIDTH - LEFT - 150):.1f},{_y(value):.1f}" for t, value in points
        )
        dash = DASHES[arms.index(arm) % len(DASHES)]
        drawn.append(
            tag("polyline", points=path, fill="none", stroke=colour, stroke_width=2, stroke_dasharray=dash)
        )
        if index < 16:
            y = 14 + index * 15
            drawn.append(
                tag(
                    "line",
                    x1=WIDTH - 140,
                    x2=WIDTH - 115,
                    y1=y - 4,
                    y2=y - 4,
                    stroke=colour,
                    stroke_width=2,
                    stroke_dasharray=dash,
                )
            )
            drawn.append(tag("text", f"{arm} {tenant}"[:20], x=WIDTH - 110, y=y))
    for value in (0.0, 0.5, 1.0):
        drawn.append(tag("text", f"{value:.1f}", x=LEFT - 8, y=_y(value) + 4, text_anchor="end"))
        drawn.append(tag("line", x1=LEFT, x2=WIDTH - 150, y1=_y(value), y2=_y(value), class_="axis"))
    drawn.append(tag("text", "0 s", x=LEFT, y=HEIGHT - 20))
    drawn.append(tag("text", f"{longest:.1f} s", x=WIDTH - 150, y=HEIGHT - 20, text_anchor="end"))
    return _svg("Accuracy of each tenant over the time of training", HEIGHT, drawn)


def timeline(views: Sequence[ArmView]) -> Markup:
    """Draws one strip an arm, first seed: which role held the device in each small slice of time."""
    shown = _first_seed(views)
    longest = max((work_window(view)[1] - view.start_ns for view in shown), default=0) or 1
    drawn: list[Markup] = []
    for row, view in enumerate(shown):
        y = 8 + row * 34
        drawn.append(tag("text", view.arm[:6], x=4, y=y + 15))
        for cell, role in _cells(view, longest).items():
            x = LEFT + cell * (WIDTH - LEFT) / MAX_CELLS
            width = (WIDTH - LEFT) / MAX_CELLS + 0.3
            drawn.append(
                tag(
                    "rect",
                    x=f"{x:.1f}",
                    y=y,
                    width=f"{width:.1f}",
                    height=22,
                    fill=ROLE_COLOURS[role],
                    shape_rendering="crispEdges",
                )
            )
    bottom = 8 + len(shown) * 34
    for index, (role, colour) in enumerate(ROLE_COLOURS.items()):
        drawn.append(tag("rect", x=LEFT + index * 90, y=bottom, width=12, height=12, fill=colour))
        drawn.append(tag("text", role, x=LEFT + index * 90 + 16, y=bottom + 10))
    drawn.append(tag("text", f"{longest / NS:.1f} s", x=WIDTH - 4, y=bottom + 10, text_anchor="end"))
    return _svg("What the device did over time, by arm", bottom + 20, drawn)


def _cells(view: ArmView, longest: int) -> dict[int, str]:
    """The role that holds most of each slice; a slice no span touches is absent."""
    held: dict[int, dict[str, int]] = {}
    for span in view.spans:
        first = max(0, (span.t0_ns - view.start_ns) * MAX_CELLS // longest)
        last = min(MAX_CELLS - 1, (span.t1_ns - view.start_ns) * MAX_CELLS // longest)
        for cell in range(first, last + 1):
            low = view.start_ns + cell * longest // MAX_CELLS
            high = view.start_ns + (cell + 1) * longest // MAX_CELLS
            covered = min(span.t1_ns, high) - max(span.t0_ns, low)
            roles = held.setdefault(cell, {})
            roles[span.role] = roles.get(span.role, 0) + covered
    half = longest / MAX_CELLS / 2
    return {
        cell: max(roles, key=lambda role: roles[role])
        for cell, roles in held.items()
        if sum(roles.values()) >= half
    }


def _first_seed(views: Sequence[ArmView]) -> list[ArmView]:
    return [view for view in views if view.seed == views[0].seed]


def _y(value: float) -> float:
    return 10 + (1.0 - value) * (HEIGHT - BOTTOM - 10)


def _svg(title: str, height: int, drawn: list[Markup]) -> Markup:
    inside = join((tag("title", title), *drawn))
    return tag("svg", inside, viewBox=f"0 0 {WIDTH} {height}", width=WIDTH, height=height, role="img")
