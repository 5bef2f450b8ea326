"""The report as Markdown, for a pull request or a chat, and as one picture."""

from __future__ import annotations

import importlib
from collections.abc import Iterable

from bench.errors import DependencyError
from bench.report import figures, headline
from bench.report.figure import Figure, Table
from bench.report.figures import environment
from bench.report.material import Material
from bench.report.numbers import Number, Words, written
from leaderboard.site.html import Markup
from leaderboard.site.svg import Sheet

WIDTH = 1100
ZOOM = 2
"""Pixels of the picture for one of the drawing: text stays sharp on a screen of twice the density."""
RENDERER = "resvg_py"


def markdown(material: Material) -> str:
    """Returns the verdict, its figures and every table; drawings are named, not drawn."""
    run = material.document["run"]
    parts = [f"# Run {run['run_id']}", f"**{_plain(headline.verdict(material))}**"]
    parts += [f"> - {_plain(label)}" for label in material.document["labels"]]
    parts += [
        f"- {card.title}: **{words(material, card.value)}**"
        + "".join(f"; {words(material, line)}" for line in card.more)
        for card in headline.cards(material)
    ]
    parts += ["\n".join(_rows(material, headline.arms(material)))]
    for figure in figures.all_figures(material):
        parts += _section(material, figure)
    parts += ["## Make it again", f"```console\n{environment.reproduction(material)}\n```"]
    return "\n\n".join(_joined(parts)) + "\n"


def picture(material: Material) -> Markup:
    """Returns the verdict, the labels and every drawing as one SVG on a light ground."""
    run = material.document["run"]
    sheet = Sheet(width=WIDTH, title=f"Run {run['run_id']}")
    for line in _wrapped(headline.verdict(material), 150):
        sheet.text(line, "head")
    for label in material.document["labels"]:
        sheet.text(label, "warn")
    for card in headline.cards(material):
        more = "; ".join(words(material, line) for line in card.more)
        sheet.text(f"{card.title}: {words(material, card.value)} ({more})")
    for figure in figures.all_figures(material):
        if figure.drawings:
            sheet.y += 12
            sheet.text(figure.title, "head")
            if figure.legend:
                sheet.legend(figure.legend, box=figure.boxes)
            sheet.row(figure.drawings)
    return sheet.markup(dark=False)


def png(material: Material) -> bytes:
    """Draws `picture` as a PNG.

    Raises:
      DependencyError: the renderer is not installed.
    """
    try:
        renderer = importlib.import_module(RENDERER)
    except ModuleNotFoundError as error:
        raise DependencyError(
            "a PNG is drawn by the package 'resvg-py', which is not installed",
            "pip install 'async-rl-bench[png]', or use --format html",
        ) from error
    return bytes(renderer.svg_to_bytes(svg_string=str(picture(material)), zoom=ZOOM))


def words(material: Material, said: Words) -> str:
    """A sentence as plain text."""
    return "".join(written(material.document, part) if isinstance(part, Number) else part for part in said)


def _section(material: Material, figure: Figure) -> Iterable[str]:
    yield f"## {figure.title}"
    if figure.absent:
        yield figure.absent
        return
    if figure.lead:
        yield _plain(words(material, figure.lead))
    for table in figure.tables:
        if table.rows:
            yield f"*{table.caption}*"
            yield "\n".join(_rows(material, table))


def _rows(material: Material, table: Table) -> Iterable[str]:
    yield f"| {' | '.join(column.title for column in table.columns)} |"
    yield f"|{'|'.join('---' if column.kind == 'text' else '--:' for column in table.columns)}|"
    for row in table.rows:
        cells = (cell if isinstance(cell, tuple) else (cell,) for cell in row)
        yield f"| {' | '.join(_plain(words(material, cell)) for cell in cells)} |"


def _plain(text: str) -> str:
    """Text of a record as text of a table: no cell, line or element of its own."""
    return text.replace("\n", " ").replace("|", "\\|").replace("<", "&lt;")


def _joined(parts: Iterable[str]) -> Iterable[str]:
    """Lines of one list belong together; Markdown would take a blank line for a new list."""
    block: list[str] = []
    for part in parts:
        if block and not (part[:2] in ("- ", "> ") and block[-1][:2] == part[:2]):
            yield "\n".join(block)
            block = []
        block.append(part)
    yield "\n".join(block)


def _wrapped(text: str, width: int) -> Iterable[str]:
    line = ""
    for word in text.split():
        if line and len(line) + len(word) + 1 > width:
            yield line
            line = word
        else:
            line = f"{line} {word}".strip()
    yield line
