"""HTML as text: everything is escaped unless it is markup made here; one page frame with a strict policy."""

from __future__ import annotations

import base64
import functools
import hashlib
import html
import re
import unicodedata
from pathlib import Path

from leaderboard.site import palette

_SPECIAL = re.compile(r"[&<>\"']")


class Markup(str):
    """Text that is HTML already; only this package makes any."""

    __slots__ = ()


def text(value: object) -> Markup:
    """Escapes a value; characters that could disguise or reorder the text are shown as a box."""
    if isinstance(value, Markup):
        return value
    if isinstance(value, int | float):
        return Markup(value)
    plain = str(value)
    # most texts have none, and this is asked of every one of a site
    if not plain.isprintable():
        plain = "".join(
            "\ufffd" if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Co") and c not in "\n\t" else c
            for c in plain
        )
    return Markup(html.escape(plain, quote=True) if _SPECIAL.search(plain) else plain)


def tag(name: str, *children: object, **attributes: object) -> Markup:
    """Returns an element; attribute names get hyphens for underscores, None and False leave one out."""
    shown = ""
    for key, value in attributes.items():
        if value is not None and value is not False:
            shown += f" {_attribute(key)}" if value is True else f' {_attribute(key)}="{text(value)}"'
    return Markup(f"<{name}{shown}>{join(children)}</{name}>")


@functools.cache
def _attribute(key: str) -> str:
    return key.strip("_").replace("_", "-")


def join(children: object) -> Markup:
    """Concatenates escaped children."""
    return Markup("".join(map(text, children)))  # type: ignore[call-overload]


@functools.cache
def asset(name: str) -> Markup:
    """Returns a file of this package, to be set inline."""
    return Markup((Path(__file__).parent / name).read_text(encoding="utf-8"))


def page(title: str, *body: object, code: str = "", style: str = "") -> str:
    """Returns a whole page; its policy allows this very style and script, and nothing else at all.

    Args:
      code: script of ours that runs once the body is there.
      style: rules of the page's own, after those of all pages.
    """
    rules = Markup(palette.variables() + asset("style.css") + palette.charts() + style)
    script = _source(code) if code else "'none'"
    policy = (
        f"default-src 'none'; style-src {_source(rules)}; script-src {script}; "
        "base-uri 'none'; form-action 'none'"
    )
    head = join(
        (
            Markup('<meta charset="utf-8">'),
            Markup(f'<meta http-equiv="Content-Security-Policy" content="{text(policy)}">'),
            Markup('<meta name="viewport" content="width=device-width, initial-scale=1">'),
            Markup('<meta name="referrer" content="no-referrer">'),
            tag("title", title),
            tag("style", rules),
        )
    )
    end = tag("script", Markup(code)) if code else ""
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head><body>{join(body)}{end}</body></html>\n'


def _source(content: str) -> str:
    digest = base64.b64encode(hashlib.sha256(content.encode("utf-8")).digest()).decode()
    return f"'sha256-{digest}'"
