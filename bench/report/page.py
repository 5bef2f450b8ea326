"""The page: one HTML file that loads nothing, with the document inside it."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from pathlib import Path

from bench.report import figures, headline
from bench.report.figure import Column, Figure, Table
from bench.report.figures import environment
from bench.report.headline import Card
from bench.report.material import Material
from bench.report.numbers import MISSING, Number, Words, at, written
from leaderboard.site import html
from leaderboard.site.html import Markup, join, tag
from leaderboard.site.svg import legend


@functools.cache
def _asset(name: str) -> Markup:
    return Markup((Path(__file__).parent / name).read_text(encoding="utf-8"))


def render(material: Material) -> str:
    """Returns the page."""
    run = material.document["run"]
    shown = figures.all_figures(material)
    chips = labels(material)
    body = (
        tag("a", "To the figures", href="#figures", class_="skip"),
        tag(
            "header",
            tag("h1", "Synchronous against asynchronous RL post-training"),
            tag("button", "Dark", type="button", id="scheme", aria_pressed="false", title="Light or dark"),
            tag(
                "p",
                f"Run {run['run_id']}, {run['created_utc'][:10]}, suite {run['suite_version']}.",
                class_="note",
            ),
        ),
        tag(
            "main",
            _headline(material, chips),
            _contents(shown),
            tag("div", *(_section(material, figure, chips) for figure in shown), id="figures"),
            _reproduce(material),
        ),
        tag("div", id="tip", role="status", hidden=True),
        tag("script", _embedded(material), type="application/json", id="document"),
    )
    return html.page(
        f"Run {run['run_id']}",
        *body,
        code=join((html.asset("sort.js"), _asset("report.js"))),
        style=_asset("report.css"),
    )


def labels(material: Material) -> list[tuple[str, str]]:
    """(short, whole) of what has to stand at every figure."""
    run = material.document["run"]
    short = {
        "latency: SIMULATED": "SIMULATED latency",
        "device class": run["device_class"],
        "LIMITED": "LIMITED run",
        "one seed": "one seed: no interval",
        "status": f"status {run['status']}",
    }
    warned = set(run["warnings"])
    found = []
    for label in material.document["labels"]:
        if label not in warned:
            name = next((name for start, name in short.items() if label.startswith(start)), label)
            found.append((name, label))
    return found


def words(material: Material, said: Words) -> Markup:
    """A sentence; every figure in it says where it stands in the document."""
    return join(_number(material, part) if isinstance(part, Number) else part for part in said)


def _number(material: Material, number: Number) -> Markup:
    text = written(material.document, number)
    return tag("span", text, class_="n", data_key=number.key, data_form=number.form)


def _headline(material: Material, chips: Sequence[tuple[str, str]]) -> Markup:
    return tag(
        "section",
        tag("h2", "Verdict", id="verdict"),
        tag("p", headline.verdict(material), class_="verdict"),
        tag("div", *(_card(material, card) for card in headline.cards(material)), class_="cards"),
        tag("ul", *(tag("li", whole) for _, whole in chips), class_="labels") if chips else "",
        _table(material, headline.arms(material), True),
        aria_labelledby="verdict",
    )


def _card(material: Material, card: Card) -> Markup:
    return tag(
        "div",
        tag("h3", card.title),
        tag("p", words(material, card.value), class_="value"),
        *(tag("p", words(material, line), class_="more") for line in card.more),
        class_=f"card {card.tone}".strip(),
    )


def _contents(shown: Sequence[Figure]) -> Markup:
    links = (tag("li", tag("a", figure.title, href=f"#{figure.key}")) for figure in shown)
    return tag("nav", tag("h2", "Figures"), tag("ol", *links), aria_label="Figures")


def _section(material: Material, figure: Figure, chips: Sequence[tuple[str, str]]) -> Markup:
    title = tag("h2", figure.title, id=figure.key)
    if figure.absent:
        return tag("section", title, tag("p", figure.absent, class_="absent"), aria_labelledby=figure.key)
    pictures = (
        _picture(drawing.markup(f"{figure.key}-{number}"), drawing.title, drawing.wide)
        for number, drawing in enumerate(figure.drawings)
    )
    return tag(
        "section",
        title,
        tag("p", words(material, figure.lead), class_="lead") if figure.lead else "",
        legend(figure.legend, box=figure.boxes),
        tag("div", *pictures, class_="drawings") if figure.drawings else "",
        tag(
            "p",
            *(tag("span", short, class_="badge limit", title=whole) for short, whole in chips),
            class_="chips",
        )
        if chips and figure.drawings
        else "",
        tag(
            "div",
            *(_table(material, table, figure.open_tables) for table in figure.tables if table.rows),
            class_="tables",
        ),
        aria_labelledby=figure.key,
    )


def _picture(svg: Markup, title: str, wide: bool) -> Markup:
    """A wide picture is scrolled on a small screen, by keyboard too."""
    return tag("div", svg, class_="scroll", tabindex=0, role="group", aria_label=title) if wide else svg


def _table(material: Material, table: Table, is_open: bool) -> Markup:
    head = tag("tr", *(_head(column) for column in table.columns))
    body = (
        tag("tr", *(_cell(material, column, cell) for column, cell in zip(table.columns, row, strict=True)))
        for row in table.rows
    )
    grid = tag(
        "table",
        tag("caption", table.caption, class_="unseen"),
        tag("thead", head),
        tag("tbody", *body),
        class_="sortable",
    )
    scrolled = tag("div", grid, class_="scroll", tabindex=0, role="group", aria_label=table.caption)
    return tag("details", tag("summary", f"Table: {table.caption}"), scrolled, open=is_open)


def _head(column: Column) -> Markup:
    return tag(
        "th",
        tag("button", column.title, type="button"),
        scope="col",
        aria_sort="none",
        data_kind=column.kind,
        class_="text" if column.kind == "text" else None,
    )


def _cell(material: Material, column: Column, cell: str | Number | tuple[str | Number, ...]) -> Markup:
    parts = cell if isinstance(cell, tuple) else (cell,)
    return tag(
        "td", words(material, parts), data_value=_sorted_by(material, column, parts),
        class_="text wrap" if column.kind == "text" else None,
    )  # fmt: skip


def _sorted_by(material: Material, column: Column, parts: Sequence[str | Number]) -> str:
    """What a cell is sorted by: its words, or its first number; nothing where that is unknown."""
    if column.kind == "text":
        return "".join(part if isinstance(part, str) else written(material.document, part) for part in parts)
    first = parts[0]
    value = at(material.document, first.key) if isinstance(first, Number) else first.split(" ")[0]
    return "" if value in (None, MISSING) else str(value)


def _reproduce(material: Material) -> Markup:
    command = environment.reproduction(material)
    return tag(
        "section",
        tag("h2", "Make it again", id="reproduce"),
        tag("pre", command, tabindex=0),
        tag("p", "Every figure here is recomputed from the run's lines; the page carries them as one JSON document "
            "(the element with id \"document\"), the same objects that `bench compare --json` prints.", class_="note"),
        aria_labelledby="reproduce",
    )  # fmt: skip


def _embedded(material: Material) -> Markup:
    """JSON that can't end its element: every < is written as an escape."""
    text = json.dumps(material.document, sort_keys=True, allow_nan=False, ensure_ascii=False)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))
