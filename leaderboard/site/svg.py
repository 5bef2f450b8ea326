"""Drawings as SVG, made here and self-contained: scales, axes and marks that every figure is put together from."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from leaderboard.site import palette
from leaderboard.site.html import Markup, join, tag

DASHES = (None, "7 3", "2 3", "8 3 2 3", "4 2", "1 2")
MARKS = ("circle", "square", "triangle", "diamond")

Point = tuple[float, float]
Form = Callable[[float], str]

_NUMBERS = itertools.count(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ink:
    """How one series looks: a colour's name in the palette, and a dash and a mark that tell it apart without colour."""

    colour: str
    dash: str | None = None
    mark: str = "circle"


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """One picture; `title` and `about` are what a reader hears who can't see it."""

    title: str
    about: str
    width: float
    height: float
    marks: tuple[Markup, ...]
    wide: bool = False
    """Keeps its size on a small screen, and is scrolled there: its text would be unreadable."""

    def inner(self) -> Markup:
        """The marks alone, to be set into another picture."""
        return join(self.marks)

    def markup(self, identity: str) -> Markup:
        """Returns the element; `identity` is unique in the page."""
        return tag(
            "svg",
            tag("title", self.title, id=f"{identity}-title"),
            tag("desc", self.about, id=f"{identity}-desc"),
            *self.marks,
            viewBox=f"0 0 {self.width:g} {self.height:g}",
            width=f"{self.width:g}",
            height=f"{self.height:g}",
            role="img",
            aria_labelledby=f"{identity}-title {identity}-desc",
        )


@dataclass(frozen=True, slots=True)
class Scale:
    """Takes [low, high] to [start, stop], linearly or by its logarithm."""

    low: float
    high: float
    start: float
    stop: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """The place of a value."""
        low, high, at = (
            (math.log(self.low), math.log(self.high), math.log(value))
            if self.log
            else (self.low, self.high, value)
        )
        share = (at - low) / (high - low) if high > low else 0.5
        return self.start + share * (self.stop - self.start)

    def ticks(self, about: int = 5) -> list[float]:
        """Round values inside: multiples of 1, 2 or 5, as near to `about` many as these allow."""
        if not self.log:
            return _round_steps(self.low, self.high, about)
        decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        if len(decades) > about + 2:
            step = -(-len(decades) // about)
            return [10.0**d for d in decades if d % step == 0 and self.low <= 10.0**d <= self.high]
        for heads in ((1,), (1, 3), (1, 2, 5)):
            found = [h * 10.0**d for d in decades for h in heads]
            inside = [v for v in found if self.low * 0.999 <= v <= self.high * 1.001]
            if len(inside) >= 3:
                return inside
        return _round_steps(self.low, self.high, about)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """The ground of one diagram: its size, and where its values lie."""

    width: float
    height: float
    x: Scale
    y: Scale
    left: float
    right: float
    top: float
    bottom: float

    def axes(
        self,
        x_title: str,
        y_title: str,
        *,
        x_form: Form,
        y_form: Form,
        x_ticks: Sequence[float] | None = None,
    ) -> list[Markup]:
        """Lines across at the ticks of y, ticks of x below, and what both are."""
        edge, floor = self.width - self.right, self.height - self.bottom
        drawn: list[Markup] = []
        for value in self.y.ticks(4):
            at = self.y(value)
            drawn.append(rule(self.left, at, edge, at, "grid"))
            drawn.append(label(y_form(value), self.left - 6, at + 4, anchor="end", kind="soft"))
        drawn.append(rule(self.left, floor, edge, floor, "axis"))
        for value in self.x.ticks(5) if x_ticks is None else x_ticks:
            at = self.x(value)
            drawn.append(rule(at, floor, at, floor + 4, "axis"))
            drawn.append(label(x_form(value), at, floor + 16, anchor="middle", kind="soft"))
        middle = (self.left + edge) / 2
        drawn.append(label(x_title, middle, self.height - 5, anchor="middle", kind="soft"))
        up = (self.top + floor) / 2
        turned = f"rotate(-90 11 {up:.0f})"
        drawn.append(
            tag("text", y_title, x=11, y=f"{up:.0f}", text_anchor="middle", class_="soft", transform=turned)
        )
        return drawn


def plot(
    width: float,
    height: float,
    x: tuple[float, float],
    y: tuple[float, float],
    *,
    log_x: bool = False,
    log_y: bool = False,
    left: float = 52,
    right: float = 14,
    top: float = 12,
    bottom: float = 40,
) -> Plot:
    """Returns a ground whose values run from left to right and from the bottom up."""
    return Plot(
        width=width,
        height=height,
        x=Scale(*x, left, width - right, log_x),
        y=Scale(*y, height - bottom, top, log_y),
        left=left,
        right=right,
        top=top,
        bottom=bottom,
    )


def beside(count: int) -> float:
    """The width of each of `count` drawings that stand beside each other, three or four in a row."""
    return 262.0 if count == 4 or count > 6 else 340.0


def line(points: Iterable[Point], ink: Ink, *, width: float = 2, opacity: float | None = None) -> Markup:
    """A line through points."""
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return tag(
        "polyline", points=path, class_=f"line-{ink.colour}", stroke_width=width, stroke_dasharray=ink.dash,
        stroke_linejoin="round", stroke_opacity=opacity,
    )  # fmt: skip


def area(upper: Sequence[Point], lower: Sequence[Point], colour: str, *, opacity: float = 0.18) -> Markup:
    """What lies between two lines."""
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in [*upper, *reversed(lower)])
    return tag("polygon", points=path, class_=f"fill-{colour}", fill_opacity=opacity)


def mark(x: float, y: float, ink: Ink, *, tip: str | None = None, size: float = 4) -> Markup:
    """A point, in the series' own shape."""
    more = {"class_": f"mark fill-{ink.colour}", "data_tip": tip}
    if ink.mark == "circle":
        return tag("circle", cx=f"{x:.1f}", cy=f"{y:.1f}", r=size, **more)
    if ink.mark == "square":
        side = 2 * size - 1
        return tag("rect", x=f"{x - side / 2:.1f}", y=f"{y - side / 2:.1f}", width=side, height=side, **more)
    shape = {
        "triangle": ((0, -1.2), (1.1, 0.9), (-1.1, 0.9)),
        "diamond": ((0, -1.3), (1.3, 0), (0, 1.3), (-1.3, 0)),
    }[ink.mark]
    path = " ".join(f"{x + size * dx:.1f},{y + size * dy:.1f}" for dx, dy in shape)
    return tag("polygon", points=path, **more)


def bar(
    x: float, y: float, width: float, height: float, kind: str, *, tip: str | None = None, radius: float = 0
) -> Markup:
    """A rectangle of a class: `fill-train`, `gap`, `empty`."""
    return tag(
        "rect", x=f"{x:.2f}", y=f"{y:.2f}", width=f"{max(width, 0.4):.2f}", height=f"{height:.2f}", class_=kind,
        rx=radius or None, data_tip=tip,
    )  # fmt: skip


def rule(x0: float, y0: float, x1: float, y1: float, kind: str) -> Markup:
    """A straight line of a class."""
    return tag("line", x1=f"{x0:.1f}", y1=f"{y0:.1f}", x2=f"{x1:.1f}", y2=f"{y1:.1f}", class_=kind)


def label(
    text: object, x: float, y: float, *, anchor: str | None = None, kind: str | None = None, **more: object
) -> Markup:
    """A text in place; more attributes are kept."""
    return tag("text", text, x=f"{x:.1f}", y=f"{y:.1f}", text_anchor=anchor, class_=kind, **more)


def swatch(ink: Ink, *, box: bool = False) -> Markup:
    """A sample of a series for a legend, 26 by 12: its line and mark, or a box of its colour."""
    if box:
        return bar(6, 1, 14, 10, ink.colour if ink.colour in ("gap", "empty") else f"fill-{ink.colour}")
    return join((line(((0, 6), (26, 6)), ink), mark(13, 6, ink)))


def legend(entries: Sequence[tuple[Ink, str]], *, box: bool = False) -> Markup:
    """Samples and names as a list beside a drawing in a page; nothing without any."""
    if not entries:
        return Markup("")
    size = {"viewBox": "0 0 26 12", "width": 26, "height": 12, "aria_hidden": "true"}
    samples = (tag("li", tag("svg", swatch(ink, box=box), **size), " ", name) for ink, name in entries)
    return tag("ul", *samples, class_="legend")


@dataclass(slots=True)
class Sheet:
    """Puts drawings below each other into one picture that stands alone, with a ground and a style of its own."""

    width: float
    title: str
    y: float = 8
    parts: list[Markup] = field(default_factory=list)

    def text(self, text: str, kind: str | None = None) -> None:
        """A line of text."""
        self.parts.append(label(text, 8, self.y + 14, kind=kind))
        self.y += 20

    def legend(self, entries: Sequence[tuple[Ink, str]], *, box: bool = False) -> None:
        """Samples and names, as many in a row as there is room for."""
        x = 8.0
        for ink, name in entries:
            need = 44 + 6.5 * len(name)
            if x > 8 and x + need > self.width:
                x, self.y = 8.0, self.y + 18
            place = f"translate({x:.0f} {self.y:.0f})"
            self.parts.append(tag("g", swatch(ink, box=box), transform=place))
            self.parts.append(label(name, x + 31, self.y + 10))
            x += need
        self.y += 22

    def row(self, drawings: Sequence[Drawing], *, gap: float = 14) -> None:
        """Drawings beside each other, as many as fit, the next ones below."""
        x, tallest = 0.0, 0.0
        for drawing in drawings:
            if x and x + drawing.width > self.width:
                self.y, x, tallest = self.y + tallest + gap, 0.0, 0.0
            self.parts.append(tag("g", drawing.inner(), transform=f"translate({x:.0f} {self.y:.0f})"))
            x, tallest = x + drawing.width + gap, max(tallest, drawing.height)
        self.y += tallest + gap

    def markup(self, *, dark: bool) -> Markup:
        """Returns the picture."""
        width, height = math.ceil(self.width), math.ceil(self.y)
        return tag(
            "svg",
            tag("title", self.title),
            tag("style", Markup(palette.standalone(dark=dark))),
            tag("rect", width=width, height=height, class_="ground"),
            *self.parts,
            xmlns="http://www.w3.org/2000/svg",
            viewBox=f"0 0 {width} {height}",
            width=width,
            height=height,
            role="img",
        )


def tick(value: float) -> str:
    """A tick's number, as short as it can be said."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:g}"


def percent(value: float) -> str:
    """A share as a tick says it."""
    return f"{100 * value:.0f} %"


def _round_steps(low: float, high: float, about: int) -> list[float]:
    if not high > low:
        return [low]
    rough = (high - low) / max(1, about)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(s * power for s in (1, 2, 2.5, 5, 10) if s * power >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [round(k * step, 12) for k in range(first, last + 1)]
