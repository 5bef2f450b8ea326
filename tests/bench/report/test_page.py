"""The page: every figure in it is one of the document's, and it carries all it needs."""

from __future__ import annotations

import html.parser
import json
import re
from pathlib import Path
from typing import Any

import pytest

from bench.cli import invoke
from bench.report import write_html
from bench.report.numbers import at, shown
from tests.leaderboard import golden


class Reader(html.parser.HTMLParser):
    """Collects what stands in elements with a data-key, the document, and all start tags."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers: list[tuple[str, str, str]] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.document = ""
        self._open: tuple[str, str] | None = None
        self._in_document = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        about = dict(attrs)
        self.tags.append((tag, about))
        self._in_document = about.get("id") == "document"
        if "data-key" in about:
            self._open = (str(about["data-key"]), str(about["data-form"]))

    def handle_data(self, data: str) -> None:
        if self._in_document:
            self.document += data
        if self._open:
            self.numbers.append((*self._open, data))
            self._open = None

    def handle_endtag(self, tag: str) -> None:
        self._in_document = False


def read(page: Path) -> Reader:
    reader = Reader()
    reader.feed(page.read_text())
    return reader


@pytest.fixture(scope="session")
def page(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_html(run, tmp_path_factory.mktemp("page") / "page.html")


def test_every_figure_is_what_json_prints(run: Path, page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["compare", str(run), "--json"]) == 0
    printed: dict[str, Any] = json.loads(capsys.readouterr().out)
    reader = read(page)
    document = json.loads(reader.document)
    assert document["comparison"] == {k: v for k, v in printed.items() if k not in ("schema", "ok", "missed")}
    keys = {key for key, _, _ in reader.numbers}
    assert {"/comparison/speedup", "/comparison/low", "/comparison/time_reduction"} <= keys
    for key, form, text in reader.numbers:
        assert text == shown(at(document, key), form), key


def test_the_verdict_is_the_comparisons_own_sentence(page: Path) -> None:
    reader = read(page)
    assert json.loads(reader.document)["comparison"]["verdict"] in re.sub(r"&#x27;", "'", page.read_text())


def test_page_loads_nothing_and_runs_only_its_own_script(page: Path) -> None:
    reader = read(page)
    assert not [
        name for name, _ in reader.tags if name in ("link", "img", "iframe", "object", "base", "form")
    ]
    assert all(re.match("#", about.get("href") or "#") for _, about in reader.tags)
    assert not [1 for _, about in reader.tags if "src" in about or "style" in about]
    policy = next(str(about["content"]) for _, about in reader.tags if about.get("http-equiv"))
    assert policy.startswith("default-src 'none'") and "unsafe" not in policy
    assert [about.get("type") for name, about in reader.tags if name == "script"] == [
        "application/json",
        None,
    ]


def test_page_lies_beside_the_run_which_stays_as_it_was(tmp_path: Path) -> None:
    run = golden.build(tmp_path / "b.run")
    before = sorted(run.rglob("*"))
    path = write_html(run)
    assert path == run.with_name("b.run.html") and sorted(run.rglob("*")) == before


def test_what_is_simulated_limited_or_single_stands_at_every_figure(tmp_path: Path) -> None:
    path = write_html(golden.build(tmp_path / "c.run", limit_applied=True))
    page = path.read_text()
    figures = page.count('class="drawings"')
    assert figures > 1
    for label in ("SIMULATED latency", "cpu-sim", "LIMITED run", "one seed: no interval"):
        assert page.count(f">{label}</span>") == figures


def test_a_run_without_a_verdict_still_has_a_page_that_says_why(tmp_path: Path) -> None:
    run = golden.build(tmp_path / "d.run")
    golden.edit_header(run, lambda header: header.update(status="interrupted", status_reason="by hand"))
    page = write_html(run).read_text()
    assert "No comparison: " in page and "ended with status interrupted: by hand" in page
    assert "<svg" in page


def test_hostile_names_are_text(tmp_path: Path) -> None:
    run = golden.build(tmp_path / "e.run")
    hostile = "</script><script>alert(1)</script>"
    golden.edit_header(
        run, lambda h: (h["latency"].update(description=hostile), h.update(warnings=[hostile]))
    )
    reader = read(write_html(run))
    assert [about.get("type") for name, about in reader.tags if name == "script"] == [
        "application/json",
        None,
    ]
    assert json.loads(reader.document)["run"]["warnings"] == [hostile]
