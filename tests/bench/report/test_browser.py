"""The page in a real browser, from the disk: silent, without a network, by keyboard, on a phone, in both schemes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.report import write_html
from tests.browser import Page, browser, needs_browser
from tests.leaderboard import golden

pytestmark = [pytest.mark.browser, needs_browser]

CONTRAST = """
(() => {
  const channel = (c) => { c /= 255; return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; };
  const parse = (s) => s.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const ground = (e) => {
    for (; e; e = e.parentElement) {
      const c = parse(getComputedStyle(e).backgroundColor);
      if (c.length < 4 || c[3] > 0) return c;
    }
    return [255, 255, 255];
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const poor = [];
  let seen = 0;
  while (walker.nextNode()) {
    const e = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !e.getClientRects().length || e.closest("script, title, desc")) continue;
    const style = getComputedStyle(e);
    const ink = parse(e.closest("svg") ? style.fill : style.color);
    const [a, b] = [light(ink), light(ground(e))].sort((x, y) => x - y);
    const ratio = (b + 0.05) / (a + 0.05);
    seen += 1;
    if (ratio < 4.5) poor.push([walker.currentNode.data.trim().slice(0, 40), ratio]);
  }
  return { seen, poor };
})()
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with everything that must be labelled, hostile names included."""
    run = golden.build(tmp_path_factory.mktemp("browser") / "run", seeds=(1, 2), limit_applied=True)
    nasty = "<script>document.title='pwned'</script>"
    golden.edit_header(run, lambda h: h.update(warnings=[nasty]))
    golden.recompute(run)
    return write_html(run)


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with browser(tmp_path_factory.mktemp("profile")) as tab:
        yield tab


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_it_asks_the_network_nothing_and_has_nothing_to_complain_about(
    page: Path, tab: Page, dark: bool
) -> None:
    tab.open(page, dark=dark)
    assert tab.requests == [page.as_uri()]
    assert tab.complaints == []
    assert tab.value("document.title").startswith("Run ")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_all_text_has_contrast_4_5(page: Path, tab: Page, dark: bool) -> None:
    tab.open(page, dark=dark)
    tab.value("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    found = tab.value(CONTRAST)
    assert found["seen"] > 300
    assert found["poor"] == []


@pytest.mark.parametrize("width", [360, 768])
def test_nothing_sticks_out_of_a_small_screen(page: Path, tab: Page, width: int) -> None:
    tab.open(page, width=width)
    tab.value("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    assert tab.value("document.documentElement.scrollWidth") <= width


def test_drawings_keep_their_text_readable_on_a_phone(page: Path, tab: Page) -> None:
    tab.open(page, width=360)
    smallest = tab.value(
        "Math.min(...Array.from(document.querySelectorAll('svg[role=img]'), "
        "(s) => s.getBoundingClientRect().width / s.viewBox.baseVal.width))"
    )
    assert 11 * smallest >= 9.5  # px; drawn at 11


def test_a_table_is_sorted_by_keyboard_alone(page: Path, tab: Page) -> None:
    tab.open(page)
    at = "document.activeElement.closest('details[open] table.sortable thead th')"
    for _ in range(120):
        tab.press("Tab")
        if tab.value(f"{at} !== null"):
            break
    else:
        pytest.fail("no header of a table was reached by Tab")
    assert tab.value("getComputedStyle(document.activeElement).outlineStyle") != "none"
    column = (
        "Array.from(document.activeElement.closest('table').tBodies[0].rows, "
        "(r) => r.cells[document.activeElement.closest('th').cellIndex].textContent.toLowerCase())"
    )
    tab.press("Enter", "\r")
    assert tab.value(f"{at}.getAttribute('aria-sort')") == "ascending"
    assert tab.value(column) == sorted(tab.value(column))
    tab.press(" ", " ")
    assert tab.value(f"{at}.getAttribute('aria-sort')") == "descending"
    assert tab.value(column) == sorted(tab.value(column), reverse=True)
    others = "Array.from(document.activeElement.closest('tr').cells, (c) => c.getAttribute('aria-sort'))"
    assert sorted(set(tab.value(others))) == ["descending", "none"]


def test_numbers_are_sorted_as_numbers_and_the_unknown_stays_last(page: Path, tab: Page) -> None:
    tab.open(page)
    tab.value(
        """(() => { const t = document.querySelector('#environment').closest('section')
        .querySelectorAll('table')[3]; t.tBodies[0].rows[0].cells[3].dataset.value = '10';
        t.tBodies[0].rows[1].cells[3].dataset.value = '9'; t.tBodies[0].rows[2].cells[3].dataset.value = '';
        window.t = t; t.tHead.rows[0].cells[3].querySelector('button').click(); })()"""
    )
    values = tab.value("Array.from(t.tBodies[0].rows, (r) => r.cells[3].dataset.value)")
    known = [float(value) for value in values if value]
    assert known == sorted(known) and {9.0, 10.0} <= set(known) and values[-1] == ""


def test_the_scheme_is_switched_and_named(page: Path, tab: Page) -> None:
    tab.open(page)
    ground = "getComputedStyle(document.body).backgroundColor"
    light = tab.value(ground)
    tab.value("document.getElementById('scheme').click()")
    assert tab.value(ground) != light
    assert tab.value("document.getElementById('scheme').textContent") == "Light"
    tab.value("document.getElementById('scheme').click()")
    assert tab.value(ground) == light


def test_a_mark_says_its_value_under_the_pointer(page: Path, tab: Page) -> None:
    tab.open(page)
    place = tab.value(
        "(() => { const m = document.querySelector('[data-tip]'); m.scrollIntoView({block: 'center'}); "
        "const r = m.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()"
    )
    tab.call("Input.dispatchMouseEvent", type="mouseMoved", x=place[0], y=place[1])
    assert tab.value("document.getElementById('tip').hidden") is False
    assert "%" in tab.value("document.getElementById('tip').textContent")
    assert tab.complaints == []


def test_who_cannot_see_is_told(page: Path, tab: Page) -> None:
    """Names of pictures, controls and regions; headings without a step left out; a language; a way past the top."""
    tab.open(page)
    unnamed = tab.value(
        """Array.from(document.querySelectorAll('svg')).filter((s) => s.getAttribute('aria-hidden') !== 'true' && !(
        s.getAttribute('role') === 'img' && s.getAttribute('aria-labelledby').split(' ').every(
        (id) => (document.getElementById(id) || {textContent: ''}).textContent.trim()))).length"""
    )
    assert unnamed == 0
    levels = tab.value("Array.from(document.querySelectorAll('h1, h2, h3, h4'), (h) => Number(h.tagName[1]))")
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))
    ids = tab.value("Array.from(document.querySelectorAll('[id]'), (e) => e.id)")
    assert len(ids) == len(set(ids))
    assert tab.value("document.documentElement.lang") == "en"
    tree = tab.call("Accessibility.getFullAXTree")["nodes"]
    kinds = ("button", "link", "checkbox", "textbox", "combobox", "img", "table", "region", "navigation")
    named = [node for node in tree if node["role"]["value"] in kinds and not node["ignored"]]
    assert len(named) > 50
    assert all(node["name"]["value"].strip() for node in named)
